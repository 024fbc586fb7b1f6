//! For the tests: what a call must preserve on x86-64, set and read by hand.

use core::arch::{asm, naked_asm};

/// How many registers a call preserves.
pub(in crate::arch) const HELD: usize = 6;

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
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rcx", // where to store them; the seventh of seven: the stack is aligned
        "mov rbx, rdx",
        "lea rbp, [rdx + 1]",
        "lea r12, [rdx + 2]",
        "lea r13, [rdx + 3]",
        "lea r14, [rdx + 4]",
        "lea r15, [rdx + 5]",
        "call rsi",
        "pop rcx",
        "mov [rcx], rbx",
        "mov [rcx + 8], rbp",
        "mov [rcx + 16], r12",
        "mov [rcx + 24], r13",
        "mov [rcx + 32], r14",
        "mov [rcx + 40], r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// The control words of a new thread, as [`float_control`] packs them.
pub(in crate::arch) const FLOAT_DEFAULT: usize = 0x037F_0000_1F80;
/// Others. MXCSR alone: round to zero. The x87 word alone: round up. Both: round down.
pub(in crate::arch) const FLOAT_OTHERS: [usize; 3] = [0x037F_0000_7F80, 0x0B7F_0000_1F80, 0x077F_0000_3F80];
/// Denormal results become zero.
pub(in crate::arch) const FLOAT_FLUSH: usize = 0x037F_0000_9F80;

/// x87 control word above, MXCSR without its status bits below.
pub(in crate::arch) fn float_control() -> usize {
    let mut mxcsr = 0_u32;
    let mut x87 = 0_u16;
    // SAFETY: stores two registers into two variables.
    unsafe {
        asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87, options(nostack));
    }
    (mxcsr & 0xFFC0) as usize | (x87 as usize) << 32
}

/// # Safety
/// The caller does no arithmetic until it has put back [`FLOAT_DEFAULT`].
pub(in crate::arch) unsafe fn set_float_control(to: usize) {
    let (mxcsr, x87) = (to as u32, (to >> 32) as u16);
    // SAFETY: loads two registers from two variables, with every exception masked; the caller sees to the
    // rest.
    unsafe {
        asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const x87, options(nostack))
    };
}

/// The body of an `Entry` that calls `$then(arg, data, frame pointer)`.
macro_rules! frame_pointer_first {
    ($then:path) => { core::arch::naked_asm!("mov rdx, rbp", "jmp {}", sym $then) };
}
pub(in crate::arch) use frame_pointer_first;
