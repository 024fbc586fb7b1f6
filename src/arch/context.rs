//! Contexts: how one is made on a stack, and left for another.
//!
//! **The problem.** The switch leaves this stack for another, in the few nanoseconds that a yield may
//! cost. It carries exactly what the calling convention says a function preserves.
//!
//! **Rejected**: a function `switch` that ends in a return, as most libraries have it. It stores each
//! register that a call preserves, whether or not that holds anything. On x86-64 the return predictor misses
//! every time, too, because another context's call pushed the address (10 ns instead of 3).
//!
//! **The way.** The switch is inlined, and its clobber list makes the compiler store just what is live. The
//! last instruction is an indirect jump, predicted by its own history.
//!
//! The file of an instruction set has the rest, with a picture of a suspended context: `exchange!` is the
//! switch, `start` the bottom of each context, and `first_frame` what a new one begins with. A frame has four
//! words, and begins `FRAME_BELOW` bytes below the stack pointer.

use super::isa::{FRAME_BELOW, exchange, first_frame, start};

/// What each instruction set asks of a stack pointer.
const STACK_ALIGN: usize = 16;

/// Where a suspended context can be resumed: its stack pointer, with its frame beside it.
///
/// The switch that resumes it uses it up.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SavedSp(*mut u8);

impl SavedSp {
    /// The value for a context that runs, or has not been made yet.
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());

    /// Begins to fetch what the switch to it reads first.
    #[inline(always)]
    pub(crate) fn fetch(self) {
        super::fetch_to_write(self.0);
    }
}

/// The first function of a context. `arg` is that of the first switch to it, and `data` that of [`init`].
///
/// It never returns. Its context ends when no thread switches to it again.
pub(crate) type Entry = unsafe extern "C" fn(arg: usize, data: *mut ()) -> !;

/// Lays out a context on the stack that ends at `top`. When it is first switched to, with `arg`, it calls
/// `entry(arg, data)`.
///
/// # Safety
/// `top` is aligned to [`STACK_ALIGN`]. The stack below it is writable and not in use (I2). `entry` never
/// returns or unwinds.
pub(crate) unsafe fn init(top: *mut u8, entry: Entry, data: *mut ()) -> SavedSp {
    debug_assert_eq!(top.addr() % STACK_ALIGN, 0);
    let [a, b, c, d] = first_frame(entry as usize, data.expose_provenance());
    // Lowest word first; then two zeros, so that the first stack pointer too lies within the stack.
    let words = [a, b, c, d, 0, 0];
    // SAFETY: the caller gives away the stack below `top`, which has room for six words or is no stack.
    let low = unsafe { top.sub(size_of_val(&words)) };
    // SAFETY: the six words lie below `top`, which the caller gives away.
    unsafe { low.cast::<[usize; 6]>().write(words) };
    // SAFETY: at the beginning of the four words of the frame, or at their end.
    SavedSp(unsafe { low.add(FRAME_BELOW) })
}

/// Returns `true` if a context with this resume address has not been resumed since it was laid out.
pub(crate) fn is_start(resume: usize) -> bool {
    resume == start as *const () as usize
}

/// Saves this context in `*save` and resumes `to`, on the same thread register. When another context switches
/// back, returns the `arg` that it passed.
///
/// # Safety
/// `to` came from [`init`] or from a switch, and was not resumed since. Its stack is mapped, and no other
/// kernel thread stands on it (I2). `save` may be written. Signal handlers do not switch.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut SavedSp, to: SavedSp, arg: usize) -> usize {
    // SAFETY: `to`'s frame has the layout of the picture, so its code continues as if its own call returned.
    // Ours does when `*save` is resumed, which by the caller's contract happens at most once.
    unsafe { exchange!(save, to, arg) }
}

/// [`switch`] that also writes the thread register: `tp` is that of the thread of context `to`.
///
/// # Safety
/// As [`switch`]. [`tp::can_write`](super::tp::can_write) is true, and `tp` is the one register value of the
/// resumed thread (I1).
#[inline(always)]
pub(crate) unsafe fn switch_tp(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: `to`'s code continues as if its own call returned, and `tp` is its thread's (I1). No code
    // that could use a thread-local runs between the two writes, of the register and of the stack pointer.
    unsafe { exchange!(save, to, arg, instruction: tp) }
}

/// [`switch_tp`] by a system call, where a machine may lack the instruction.
///
/// # Safety
/// As [`switch_tp`], with [`tp::SYSCALL`](super::tp::SYSCALL) in place of `can_write`.
#[inline(always)]
pub(crate) unsafe fn switch_tp_syscall(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: `to`'s code continues as if its own call returned, and `tp` is its thread's (I1). The call
    // changes nothing else, and no code that could use a thread-local runs before the stack pointer changes.
    unsafe { exchange!(save, to, arg, system_call: tp) }
}
