//! Waits that nothing can ever end: those of a forked child without another thread.
//!
//! The last other thread may have ended the wait, and be gone, since the caller looked. So a look at what is
//! waited for follows the look for threads.

use super::current::current;
use super::interrupt;
use super::wait::Wait;
use crate::shim::fork;

/// Panics before a wait that nothing can ever end.
#[inline]
pub(crate) fn check(wait: Wait) {
    check_unless(wait, || false);
}

/// Does the same, unless `is_over`, which only looks.
#[inline]
pub(crate) fn check_unless(wait: Wait, is_over: impl FnOnce() -> bool) {
    if is_refused(wait) && !is_over() {
        refuse();
    }
}

/// Returns `true` if nothing could end this wait of the running thread, once that has looked again. If what
/// it waits for is not there then, it calls [`refuse`].
#[inline]
pub(crate) fn is_refused(wait: Wait) -> bool {
    fork::is_child() && wait.deadline.is_none() && nothing_ends_it(wait.interruptible)
}

/// Returns `true` if a child has no other thread, and no interrupt for this one. It takes no more of a wait,
/// so that callers keep theirs in registers.
#[cold]
fn nothing_ends_it(interruptible: bool) -> bool {
    #[cfg(test)]
    meanwhile::happens();
    fork::is_alone() && !(interruptible && interrupt::is_pending(current()))
}

/// Panics before a wait that nothing can ever end.
#[cold]
pub(crate) fn refuse() -> ! {
    panic!(
        "this wait would never end: the process is a fork and has no other thread; those of its parent are not here"
    );
}

/// What the last other thread of a child does before it ends.
#[cfg(test)]
pub(crate) mod meanwhile {
    use std::cell::Cell;

    thread_local! {
        static LAST: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    /// Has `act` done after the running thread's next look at what it is to wait for.
    pub(crate) fn do_once(act: impl FnOnce() + 'static) {
        LAST.set(Some(Box::new(act)));
    }

    pub(super) fn happens() {
        if let Some(act) = LAST.take() {
            act();
        }
    }
}
