//! Injected calls: a signal handler makes the interrupted code call a function.
//!
//! **The problem.** A thread that never calls the runtime must leave its kernel thread to another. A
//! signal stops it anywhere, with every register live. It may continue much later, on another kernel
//! thread.
//!
//! **Rejected.**
//!
//! - To switch away in the handler. The signal frame then lies on the thread's stack. It is larger than a
//!   small stack's red zone (11 KiB with tile registers), and is left on another kernel thread than it
//!   was made for. There the kernel restores the vector registers only if that kernel thread has
//!   allocated as much state as the first one. With tiles in use, the two differ: AVX registers were lost
//!   in 29 of 12,000 such switches.
//! - A program counter that stays patched until the thread comes to a safe place. Compiled Rust has none.
//!
//! **The way.** The handler runs on an alternate stack. It changes two words of the interrupted state,
//! the stack pointer and the program counter, and returns: the signal is over. The thread continues in
//! a trampoline, as if it had called it by itself. It saves all its registers on its own stack, and calls a
//! function. That may switch to other contexts as any function may.
//!
//! An instruction set has the trampoline, with a picture of its stack (`x86_64/inject.rs` and its like).

use super::trampoline;

#[cfg(test)]
pub(super) mod probe;

/// The bytes of the interrupted stack that an injected function, with all that it calls, may use. They
/// are enough for a switch to another context, but not for a signal frame. Without optimization,
/// functions take several times as much.
pub(crate) const SLACK: usize = if cfg!(debug_assertions) { 16 << 10 } else { 4 << 10 };

/// A function that [`inject`] makes interrupted code call.
///
/// It finds the machine as any function does. But the thread has not asked for the call, and the interrupted
/// code is in the middle of something. It may switch to other contexts, and return on another kernel thread.
pub(crate) trait Injected {
    /// If it unwinds, it unwinds the interrupted code. That may have stopped where no unwinding was expected,
    /// so only a request to end the thread does it (`interpose/cancel.rs`).
    extern "C-unwind" fn call();
}

/// Returns the bytes below the interrupted stack pointer that an injected call needs. `state` is what the
/// signal frame says of the machine besides (`Interrupted::machine_state`). Returns `None` if a part of it
/// cannot be saved.
///
/// May be called in a signal handler. The first call takes microseconds, and is better made elsewhere.
pub(crate) fn room(state: u64) -> Option<usize> {
    Some(trampoline::room(state)? + SLACK)
}

/// Makes interrupted code call `F` as soon as the signal handler returns. Afterwards the code continues
/// unchanged.
///
/// `sp` and `pc` are what the signal frame says of the interrupted code, and are changed there; `state`
/// as in [`room`].
///
/// # Safety
/// The code was interrupted by the signal that the caller handles, in user mode, on this kernel thread.
/// Below `sp` lie [`room`] bytes of writable stack that are not in use. The handler runs on another
/// stack.
pub(crate) unsafe fn inject<F: Injected>(sp: &mut usize, pc: &mut usize, state: u64) {
    // SAFETY: there is room below `sp` for what is written there (contract).
    (*sp, *pc) = unsafe { trampoline::divert::<F>(*sp, *pc, state) };
}
