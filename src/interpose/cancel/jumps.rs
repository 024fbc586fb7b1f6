//! Jumps out of handlers of signals, and so out of calls of this crate.
//!
//! **Problem.** A call says that the thread is in it. If a handler has interrupted it, and leaves it by
//! `siglongjmp`, no code takes that back. The thread would then be ended in the C library's code, wherever it
//! is.
//!
//! **Shape.** A jump takes back that the thread is in a call that blocks its LWP: in doubt, a request waits
//! for the next cancellation point. The same is done with the C library's own mark. At that point, the thread
//! sees if it has left a call of this crate: that call's frame lies below.

//!
//! **Calls with a mask of their own** (`sigsuspend`, `ppoll`). A handler in such a call may block what its
//! thread blocks as a rule, and is known by the call.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use super::{Cancel, JUMPED, own};

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
        && (own.within.load(Ordering::Relaxed) != 0 || !own.cut.place().is_null() || own.is_in_section())
    {
        own.note_jump();
    }
}

/// Returns about where the running thread's stack ends.
#[inline]
fn here() -> usize {
    let here = 0_u8;
    (&raw const here).addr()
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
        self.change(JUMPED, true);
    }

    /// Returns the frame of the call of this crate that the running thread is in, which has this; 0: none.
    #[inline]
    pub(super) fn frame(&self) -> usize {
        if self.has(JUMPED) {
            self.look_after_jump();
        }
        // Relaxed: the thread's own.
        self.within.load(Ordering::Relaxed)
    }

    /// Forgets the call if its frame is gone. A thread that stands on another stack is in a handler.
    #[cold]
    fn look_after_jump(&self) {
        self.change(JUMPED, false);
        let (frame, here) = (self.within.load(Ordering::Relaxed), here());
        let stack = self.running.get().and_then(|it| it.thread.backend().stack_of(&it.thread));
        if here > frame && stack.is_some_and(|stack| stack.contains(&here) && stack.contains(&frame)) {
            self.within.store(0, Ordering::Relaxed);
        }
    }
}
