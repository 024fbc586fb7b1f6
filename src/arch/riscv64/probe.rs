//! For the tests: what a call must preserve on riscv64, set and read by hand.

use core::arch::{asm, naked_asm};

/// How many registers a call preserves.
pub(in crate::arch) const HELD: usize = 24;

/// Calls `f(data)` with `mark`, `mark + 1`, ... in every register that a call preserves, and stores what they
/// hold after in `held`.
#[unsafe(naked)]
pub(in crate::arch) unsafe extern "C" fn call_marked(
    data: *mut (),
    f: unsafe extern "C" fn(*mut ()),
    mark: usize,
    held: *mut usize,
) {
    naked_asm!(
        "addi sp, sp, -208",
        "sd ra, 192(sp)",
        "sd a3, 200(sp)", // where to store them
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "sd s\\n, 8 * \\n(sp)",
        "fsd fs\\n, 96 + 8 * \\n(sp)",
        "addi s\\n, a2, \\n",
        "addi t0, a2, 12 + \\n",
        "fmv.d.x fs\\n, t0",
        ".endr",
        "jalr a1",
        "ld a3, 200(sp)",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "sd s\\n, 8 * \\n(a3)",
        "fsd fs\\n, 96 + 8 * \\n(a3)",
        "ld s\\n, 8 * \\n(sp)",
        "fld fs\\n, 96 + 8 * \\n(sp)",
        ".endr",
        "ld ra, 192(sp)",
        "addi sp, sp, 208",
        "ret",
    )
}

/// fcsr of a new thread.
pub(in crate::arch) const FLOAT_DEFAULT: usize = 0;
/// Others: round to zero, after a division by zero; round up, after an overflow; round down.
pub(in crate::arch) const FLOAT_OTHERS: [usize; 3] = [1 << 5 | 0x08, 3 << 5 | 0x04, 2 << 5];

/// fcsr.
pub(in crate::arch) fn float_control() -> usize {
    let fcsr;
    // SAFETY: reads one register.
    unsafe { asm!("frcsr {}", out(reg) fcsr, options(nostack)) };
    fcsr
}

/// # Safety
/// The caller does no arithmetic until it has put back [`FLOAT_DEFAULT`].
pub(in crate::arch) unsafe fn set_float_control(to: usize) {
    // SAFETY: writes one register; the caller sees to the rest.
    unsafe { asm!("fscsr {}", in(reg) to, options(nostack)) };
}

/// The body of an `Entry` that calls `$then(arg, data, frame pointer)`.
macro_rules! frame_pointer_first {
    ($then:path) => { core::arch::naked_asm!("mv a2, s0", "tail {}", sym $then) };
}
pub(in crate::arch) use frame_pointer_first;
