//! For the tests: what a call must preserve on x86-64, set and read by hand.

use core::arch::asm;

/// Calls `f(data)` with `mark`, `mark + 1`, ... in every register that a call preserves, and returns what
/// they hold after.
pub(in crate::arch) fn marked(mark: usize, f: unsafe extern "C" fn(*mut ()), data: *mut ()) -> Vec<usize> {
    let (rbx, rbp, r12, r13, r14, r15): (usize, usize, usize, usize, usize, usize);
    // SAFETY: a call by the ABI; the two registers that may not be named are put back.
    unsafe {
        asm!(
            "push rbx",
            "push rbp", // the second of two: the stack stays aligned
            "mov rbx, r12",
            "lea rbp, [r12 + 1]",
            "lea r13, [r12 + 3]",
            "lea r14, [r12 + 4]",
            "lea r15, [r12 + 5]",
            "add r12, 2",
            "call rax",
            "mov rax, rbx",
            "mov rcx, rbp",
            "pop rbp",
            "pop rbx",
            inlateout("rax") f => rbx,
            in("rdi") data,
            lateout("rcx") rbp,
            inlateout("r12") mark => r12,
            lateout("r13") r13,
            lateout("r14") r14,
            lateout("r15") r15,
            clobber_abi("sysv64"),
        );
    }
    vec![rbx, rbp, r12, r13, r14, r15]
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

/// An `Entry` that calls `$then(arg, data, frame pointer)`.
macro_rules! frame_pointer_first {
    ($then:path) => {{
        #[unsafe(naked)]
        unsafe extern "C" fn first(arg: usize, data: *mut ()) -> ! {
            core::arch::naked_asm!("mov rdx, rbp", "jmp {}", sym $then)
        }
        first
    }};
}
pub(in crate::arch) use frame_pointer_first;
