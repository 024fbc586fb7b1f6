//! Jumps out of handlers of signals, and so out of calls of this crate.
//!
//! **Problem.** A call says that the thread is in it. If a handler has interrupted it, and leaves it by
//! `siglongjmp`, no code takes that back. The thread would then be ended in the C library's code, wherever it
//! is.
//!
//! **Shape.** A jump takes back that the thread is in a call of this crate, or in one that blocks its LWP: in
//! doubt, a request waits for the next cancellation point. The same is done with the C library's own mark. A
//! jump that stays within the handler, or within a function that the call has called, takes back too much:
//! until the call returns, its thread may be ended where the program's own code could be.
//!
//! **Rejected.** *To see at the next call if the frame of the one before is gone.* A call that the thread
//! makes after the jump, deeper in its stack, looks like one within. Then no signal ended its wait.
//!
//! **Calls with a mask of their own** (`sigsuspend`, `ppoll`). A handler in such a call may block what its
//! thread blocks as a rule, and is known by the call.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::{Cancel, REFUSING, own};

thread_local! {
    /// The running thread is in a call with a mask of its own. It has no destructor: handlers read it.
    static HAS_OTHER_MASK: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call of the kernel in which the running thread blocks other signals than usually.
pub(in crate::interpose) fn with_other_mask<R>(call: impl FnOnce() -> R) -> R {
    let before = HAS_OTHER_MASK.replace(true);
    let result = call();
    HAS_OTHER_MASK.set(before);
    result
}

/// Returns `true` if the running thread is in such a call. So the caller is a handler of a signal.
#[inline]
pub(crate) fn has_other_mask() -> bool {
    HAS_OTHER_MASK.get()
}

/// Notes that the running thread leaves such calls, which do not return.
#[inline]
pub(super) fn leave_other_mask() {
    HAS_OTHER_MASK.set(false);
}

/// Notes that the running thread is about to jump.
#[inline]
pub(crate) fn jumps() {
    leave_other_mask();
    if let Some(own) = own()
        && (own.is_within() || !own.cut.place().is_null() || own.is_in_section())
    {
        own.note_jump();
    }
}

impl Cancel {
    #[cold]
    fn note_jump(&self) {
        self.cut.leave();
        if let Some(running) = self.running.get() {
            // SAFETY: the running thread.
            unsafe { running.leave_section() };
        }
        self.pending.await_these(0);
        self.change(REFUSING, false);
        // Relaxed: the thread's own.
        self.within.store(false, Ordering::Relaxed);
    }
}
