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
    fork::is_child() && wait.is_endless_alone()
}

impl Wait {
    /// Returns `true` if this wait of a child's thread has no end, and there is no other thread.
    #[cold]
    fn is_endless_alone(self) -> bool {
        #[cfg(test)]
        meanwhile::happens();
        self.deadline.is_none()
            && fork::is_alone()
            && !(self.interruptible && interrupt::is_pending(current()))
    }
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
