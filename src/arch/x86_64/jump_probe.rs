//! For tests: a loop that a signal handler may leave by a jump, as C code leaves one by `siglongjmp`.
//!
//! A jump must not skip Rust frames. So the loop is assembly that preserves the registers that its caller
//! expects to be preserved.

use core::arch::asm;

/// The target of a jump: a stack pointer, a program counter, and the signals that are blocked from there on.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Landing {
    sp: usize,
    pc: usize,
    mask: u64,
}

/// Calls `first`, then counts down from `turns`, unless [`jump`] ends one or the other. Meanwhile `place`
/// points to the landing.
#[inline(never)]
pub(crate) fn count_down(place: *mut *mut Landing, mask: u64, first: extern "C" fn(), turns: u64) {
    let mut landing = Landing { sp: 0, pc: 0, mask };
    // SAFETY: all registers but two are declared as clobbered. The two, and the stack pointer, are restored
    // on every way out. What is pushed lies below the red zone.
    unsafe {
        asm!(
            "lea rsp, [rsp - 128]",
            "push rbp",
            "push rbx",
            "mov rbp, rsp",
            "mov rbx, rsi",
            "mov r12, rcx",
            "lea rax, [rip + 3f]",
            "mov [rdi + 8], rax",
            "mov [rdi], rsp",
            "mov [rsi], rdi",           // from here on
            "and rsp, -16",
            "call rdx",
            "mov rsp, rbp",
            "2:", "dec r12", "jnz 2b",
            "mov qword ptr [rbx], 0",   // to here
            "3:",
            "pop rbx",
            "pop rbp",
            "lea rsp, [rsp + 128]",
            inout("rdi") &raw mut landing => _,
            inout("rsi") place => _,
            inout("rcx") turns => _,
            inout("rdx") first => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// Leaves a signal handler for the landing: sets the signal mask, then the stack pointer.
///
/// # Safety
/// The calling thread is in [`count_down`] with this landing, and the frames above the landing may be
/// abandoned.
pub(crate) unsafe fn jump(landing: *mut Landing) -> ! {
    // SAFETY: the caller's contract. The landing is read completely before the stack pointer changes.
    unsafe {
        asm!(
            "mov r8, [rdi]",
            "mov r9, [rdi + 8]",
            "lea rsi, [rdi + 16]",
            "mov eax, 14", // rt_sigprocmask,
            "mov edi, 2",  // SIG_SETMASK
            "xor edx, edx",
            "mov r10d, 8",
            "syscall",
            "cld",
            "mov rsp, r8",
            "jmp r9",
            in("rdi") landing,
            options(noreturn),
        );
    }
}
