//! For the tests: what a call must preserve on aarch64, set and read by hand.

use core::arch::{asm, naked_asm};

/// How many registers a call preserves.
pub(in crate::arch) const HELD: usize = 18;

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
        "stp x29, x30, [sp, #-176]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "str x3, [sp, #160]", // where to store them
        "mov x19, x2",
        "add x20, x2, #1",
        "add x21, x2, #2",
        "add x22, x2, #3",
        "add x23, x2, #4",
        "add x24, x2, #5",
        "add x25, x2, #6",
        "add x26, x2, #7",
        "add x27, x2, #8",
        "add x28, x2, #9",
        "add x9, x2, #10",
        "fmov d8, x9",
        "add x9, x2, #11",
        "fmov d9, x9",
        "add x9, x2, #12",
        "fmov d10, x9",
        "add x9, x2, #13",
        "fmov d11, x9",
        "add x9, x2, #14",
        "fmov d12, x9",
        "add x9, x2, #15",
        "fmov d13, x9",
        "add x9, x2, #16",
        "fmov d14, x9",
        "add x9, x2, #17",
        "fmov d15, x9",
        "blr x1",
        "ldr x3, [sp, #160]",
        "stp x19, x20, [x3]",
        "stp x21, x22, [x3, #16]",
        "stp x23, x24, [x3, #32]",
        "stp x25, x26, [x3, #48]",
        "stp x27, x28, [x3, #64]",
        "stp d8, d9, [x3, #80]",
        "stp d10, d11, [x3, #96]",
        "stp d12, d13, [x3, #112]",
        "stp d14, d15, [x3, #128]",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #176",
        "ret",
    )
}

/// FPCR of a new thread.
pub(in crate::arch) const FLOAT_DEFAULT: usize = 0;
/// Others: round to zero, round up, round down.
pub(in crate::arch) const FLOAT_OTHERS: [usize; 3] = [0x00C0_0000, 0x0040_0000, 0x0080_0000];
/// Denormals become zero.
pub(in crate::arch) const FLOAT_FLUSH: usize = 0x0100_0000;

/// FPCR.
pub(in crate::arch) fn float_control() -> usize {
    let fpcr;
    // SAFETY: reads one register.
    unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nostack)) };
    fpcr
}

/// # Safety
/// The caller does no arithmetic until it has put back [`FLOAT_DEFAULT`].
pub(in crate::arch) unsafe fn set_float_control(to: usize) {
    // SAFETY: writes one register, with every exception masked; the caller sees to the rest.
    unsafe { asm!("msr fpcr, {}", in(reg) to, options(nostack)) };
}

/// The body of an `Entry` that calls `$then(arg, data, frame pointer)`.
macro_rules! frame_pointer_first {
    ($then:path) => { core::arch::naked_asm!("mov x2, x29", "b {}", sym $then) };
}
pub(in crate::arch) use frame_pointer_first;
