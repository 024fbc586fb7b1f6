//! Injected calls on aarch64: the trampoline, and what it saves.
//!
//! The problem and the way are those of `arch/inject.rs`. What differs from `x86_64/inject.rs`:
//!
//! **The way back.** Interrupted code may need each register. No instruction loads the program counter
//! from memory and leaves every register as it was. One system call does: the return from a signal
//! handler. So the trampoline saves the registers in the form of a signal frame, and in the end has the
//! kernel restore them from it.
//!
//! On x86-64 that is impossible, because the size of a frame depends on the kernel thread that it was
//! made on. Here, a frame is a list of records that contain their lengths, and the trampoline writes it.
//! Its flags of the alternate stack are ones that the kernel refuses, and then ignores. Its signal mask
//! is that of the kernel thread at that moment.
//!
//! There is no red zone. The stack of a thread that was interrupted with the stack pointer `s`:
//!
//! ```text
//!            ...                  its own frame
//!    s  ->  +------------------+
//!     -8    | s                |  the four words are written by `inject` but for x29;
//!    -16    | PSTATE           |  the trampoline starts at the lowest
//!    -24    | program counter  |
//!    -32    | x29              |  with that, a frame for unwinders by frame pointer
//!           +------------------+
//!           | signal frame     |  4,688 bytes, of which the upper 3,500 are never touched
//!           +------------------+
//!           | the function     |  `SLACK` bytes for it and all that it calls
//! ```
//!
//! **Refused** are threads with more in the frame than the vector registers: scalable vectors or matrices
//! in use (SVE, SME), and records of later machines. Without such a record, the kernel makes the scalable
//! parts zero, as it does at every system call. The slot of code that uses SVE in a long loop is handed
//! off instead ([`room`] returns `None`).
//!
//! **Not carried** is what `aarch64.rs` does not carry either. The rights of memory protection keys (POR)
//! stay with the kernel thread.

use core::arch::naked_asm;
use core::ptr;

use crate::arch::inject::Injected;

/// The four words, the frame, and what alignment may cost.
const REGISTERS: usize = 32 + 4688 + 16;

/// The bit by which the handler says that some state cannot be saved.
const MORE: u64 = 1 << 63;

/// Returns the bytes that the trampoline needs. `state` is PSTATE. If its highest bit is set, the signal
/// frame has more than is saved here.
pub(in crate::arch) fn room(state: u64) -> Option<usize> {
    (state & MORE == 0).then_some(REGISTERS)
}

/// Writes what the trampoline needs below `sp`. Returns the stack pointer and program counter to go on with.
///
/// # Safety
/// As [`inject`](crate::arch::inject::inject).
pub(in crate::arch) unsafe fn divert<F: Injected>(sp: usize, pc: usize, state: u64) -> (usize, usize) {
    let trampoline: unsafe extern "C" fn() = trampoline::<F>;
    let base = (sp - 32) & !15;
    // SAFETY: the caller has checked the room.
    unsafe { ptr::with_exposed_provenance_mut::<[usize; 4]>(base).write([0, pc, state as usize, sp]) };
    (base, trampoline as usize)
}

/// The trampoline. It is entered by a return from a signal handler, with every register live. The
/// picture's four words are at the stack pointer. From the third instruction on, `x29` holds their
/// address.
#[unsafe(naked)]
unsafe extern "C" fn trampoline<F: Injected>() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",           // for unwinders: no call lies below, but code that may have stopped
        ".cfi_return_column 96",       // at any instruction: 96 stands for its program counter
        ".cfi_def_cfa sp, 32",
        ".cfi_offset 96, -24",
        "hint 38",                     // bti jc: it may have been about to land after a branch
        "str x29, [sp]",
        "mov x29, sp",
        ".cfi_def_cfa x29, 32",        // nothing below moves it
        ".cfi_offset x29, -32",
        // The frame, from here on at sp: 128 bytes about a signal, then the context. The registers begin
        // at 312, the records at 592. The stack pointer must move before anything is stored.
        "sub sp, sp, #1, lsl #12",
        "sub sp, sp, #592",
        "stp x0, x1, [sp, #312]",
        ".cfi_offset x0, -4408",
        ".cfi_offset x1, -4400",
        "add x0, sp, #312",
        "stp x2, x3, [x0, #16]",
        ".cfi_offset x2, -4392",
        ".cfi_offset x3, -4384",
        "stp x4, x5, [x0, #32]",
        ".cfi_offset x4, -4376",
        ".cfi_offset x5, -4368",
        "stp x6, x7, [x0, #48]",
        ".cfi_offset x6, -4360",
        ".cfi_offset x7, -4352",
        "stp x8, x9, [x0, #64]",
        ".cfi_offset x8, -4344",
        ".cfi_offset x9, -4336",
        "stp x10, x11, [x0, #80]",
        ".cfi_offset x10, -4328",
        ".cfi_offset x11, -4320",
        "stp x12, x13, [x0, #96]",
        ".cfi_offset x12, -4312",
        ".cfi_offset x13, -4304",
        "stp x14, x15, [x0, #112]",
        ".cfi_offset x14, -4296",
        ".cfi_offset x15, -4288",
        "stp x16, x17, [x0, #128]",
        ".cfi_offset x16, -4280",
        ".cfi_offset x17, -4272",
        "stp x18, x19, [x0, #144]",
        ".cfi_offset x18, -4264",
        ".cfi_offset x19, -4256",
        "stp x20, x21, [x0, #160]",
        ".cfi_offset x20, -4248",
        ".cfi_offset x21, -4240",
        "stp x22, x23, [x0, #176]",
        ".cfi_offset x22, -4232",
        ".cfi_offset x23, -4224",
        "stp x24, x25, [x0, #192]",
        ".cfi_offset x24, -4216",
        ".cfi_offset x25, -4208",
        "stp x26, x27, [x0, #208]",
        ".cfi_offset x26, -4200",
        ".cfi_offset x27, -4192",
        "ldr x1, [x29]",               // x29 as it was
        "stp x28, x1, [x0, #224]",
        ".cfi_offset x28, -4184",
        "ldr x1, [x29, #24]",          // the stack pointer, and beside it the link register
        "stp x30, x1, [x0, #240]",
        ".cfi_offset x30, -4168",
        "ldp x1, x2, [x29, #8]",       // program counter and PSTATE, which holds the flags
        "stp x1, x2, [x0, #256]",
        "add x0, sp, #608",            // the vector registers, behind the head of their record
        "stp q0, q1, [x0]",
        "stp q2, q3, [x0, #32]",
        "stp q4, q5, [x0, #64]",
        "stp q6, q7, [x0, #96]",
        "stp q8, q9, [x0, #128]",
        "stp q10, q11, [x0, #160]",
        "stp q12, q13, [x0, #192]",
        "stp q14, q15, [x0, #224]",
        "stp q16, q17, [x0, #256]",
        "stp q18, q19, [x0, #288]",
        "stp q20, q21, [x0, #320]",
        "stp q22, q23, [x0, #352]",
        "stp q24, q25, [x0, #384]",
        "stp q26, q27, [x0, #416]",
        "stp q28, q29, [x0, #448]",
        "stp q30, q31, [x0, #480]",
        "str xzr, [x0, #512]",         // no record after this one
        "mov w1, #0x8001",             // FPSIMD_MAGIC,
        "movk w1, #0x4650, lsl #16",
        "mov w2, #528",                // and how long it is
        "stp w1, w2, [x0, #-16]",
        "mrs x1, fpsr",
        "mrs x2, fpcr",
        "stp w1, w2, [x0, #-8]",
        "msr fpsr, xzr",               // as in a new thread
        "msr fpcr, xzr",
        "bl {function}",
        "mov x8, #135",                // rt_sigprocmask, here perhaps on another kernel thread:
        "mov x0, #0",
        "mov x1, #0",                  // change nothing
        "add x2, sp, #168",            // and write the mask into the frame
        "mov x3, #8",
        "svc #0",
        "mov w9, #-1",                 // impossible flags of an alternate stack
        "str w9, [sp, #152]",
        "mov x8, #139",                // rt_sigreturn
        "svc #0",
        "brk #1",
        ".cfi_endproc",
        function = sym F::call,
    )
}

#[cfg(test)]
pub(in crate::arch) mod probe;
