//! Injected calls on riscv64: a signal handler makes the interrupted code call a function.
//!
//! The problem, the rejected ways and the way are those of `x86_64/inject.rs`; the way back is that of
//! `aarch64/inject.rs`. The trampoline saves the registers in the form of a signal frame. In the end it
//! returns from a signal handler, so the kernel restores them from the frame. What differs:
//!
//! **The thread register** is one of the registers in the frame. The trampoline writes there what it is at
//! the end. (It has not changed: each green thread has one for its whole life. Tests of this folder move
//! contexts to other registers.)
//!
//! The stack of a thread that was interrupted with the stack pointer `s`:
//!
//! ```text
//!            ...                  its own frame
//!    s  ->  +------------------+
//!     -8    | s                |  the two words are written by `inject`;
//!    -16    | program counter  |  the trampoline starts at the lower one
//!           +------------------+
//!           | signal frame     |  1,088 bytes, of which the lower 152 hold nothing
//!           +------------------+
//!           | the function     |  `SLACK` bytes for it and all that it calls
//! ```
//!
//! **Refused** are threads with more in the frame than the general and float registers. That is the state of
//! an extension, as a rule that of the vector unit (V). The kernel writes it from the kernel thread's first
//! use of a vector register on. The slot of such a thread is handed off instead ([`room`] returns `None`).

use core::arch::naked_asm;
use core::ptr;

use crate::arch::Injected;

/// `true` if calls can be injected on this machine.
pub(crate) const SUPPORTED: bool = true;

/// The bytes of the interrupted stack that an injected function, with all that it calls, may use. They
/// are enough for a switch to another context, but not for a signal frame. Without optimization,
/// functions take several times as much.
pub(crate) const SLACK: usize = if cfg!(debug_assertions) { 16 << 10 } else { 4 << 10 };

/// The two words, the frame, and what alignment may cost.
const REGISTERS: usize = 16 + 1088 + 16;

/// The bit by which the handler says that some state cannot be saved.
const MORE: u64 = 1 << 63;

/// Returns the bytes below the interrupted stack pointer that an injected call needs. If the highest bit of
/// `state` is set, the signal frame has more than is saved here, and this returns `None`. May be called in a
/// signal handler.
pub(crate) fn room(state: u64) -> Option<usize> {
    (state & MORE == 0).then_some(REGISTERS + SLACK)
}

/// Makes interrupted code call `F` as soon as the signal handler returns. Afterwards the code continues
/// unchanged.
///
/// `sp` and `pc` are what the signal frame says of the interrupted code, and are changed there.
///
/// # Safety
/// The code was interrupted by the signal that the caller handles, on this kernel thread. [`room`] has
/// returned a size, and as many bytes of writable stack below `sp` are not in use. The handler runs on
/// another stack.
pub(crate) unsafe fn inject<F: Injected>(sp: &mut usize, pc: &mut usize, _state: u64) {
    let trampoline: unsafe extern "C" fn() = trampoline::<F>;
    let base = (*sp - 16) & !15;
    // SAFETY: the caller has checked the room.
    unsafe { ptr::with_exposed_provenance_mut::<[usize; 2]>(base).write([*pc, *sp]) };
    *sp = base;
    *pc = trampoline as usize;
}

/// The trampoline. It is entered by a return from a signal handler, with every register live. The
/// picture's two words are at the stack pointer.
#[unsafe(naked)]
unsafe extern "C" fn trampoline<F: Injected>() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",      // for unwinders: no call lies below, but code that may have stopped
        ".cfi_return_column 64",  // at any instruction: 64 stands for its program counter
        ".cfi_def_cfa sp, 16",
        ".cfi_offset 64, -16",
        // The frame, from here on at sp: 128 bytes about a signal, then the context. The registers begin at
        // 304, with the program counter in the place of x0, and the float registers at 560. The stack pointer
        // must move before anything is stored.
        "addi sp, sp, -1088",
        ".cfi_def_cfa_offset 1104",
        ".irp n, 1,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "sd x\\n, 304 + 8 * \\n(sp)",
        ".cfi_offset \\n, 8 * \\n - 800",
        ".endr",
        "ld t0, 1088(sp)",        // the program counter
        "ld t1, 1096(sp)",        // and the stack pointer
        "sd t0, 304(sp)",
        "sd t1, 320(sp)",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "fsd f\\n, 560 + 8 * \\n(sp)",
        ".endr",
        "frcsr t0",
        "sw t0, 816(sp)",
        "sw zero, 1076(sp)",      // reserved: the kernel wants zero
        "sd zero, 1080(sp)",      // no state of an extension
        "fscsr zero",             // as in a new thread
        "call {function}",
        "li a7, 135",             // rt_sigprocmask, here perhaps on another kernel thread:
        "li a0, 0",
        "li a1, 0",               // change nothing
        "addi a2, sp, 168",       // and write the mask into the frame
        "li a3, 8",
        "ecall",
        "li t0, -1",              // impossible flags of an alternate stack
        "sw t0, 152(sp)",
        "sd tp, 336(sp)",         // x4
        "li a7, 139",             // rt_sigreturn
        "ecall",
        "ebreak",
        ".cfi_endproc",
        function = sym F::call,
    )
}

#[cfg(test)]
pub(in crate::arch) mod probe;
