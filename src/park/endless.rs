//! Waits that nothing can ever end: those of a forked child without another thread.

use std::time::Instant;

use crate::shim::fork;

/// Panics before a wait that nothing can ever end.
#[inline]
pub(super) fn check(deadline: Option<Instant>) {
    check_unless(deadline, || false);
}

/// Does the same, unless `is_over`. That is a last look: the last other thread may have ended the wait, and
/// be gone, since the caller looked.
#[inline]
pub(super) fn check_unless(deadline: Option<Instant>, is_over: impl FnOnce() -> bool) {
    if fork::is_child() && deadline.is_none() && fork::is_alone() && !is_over() {
        endless();
    }
}

#[cold]
fn endless() -> ! {
    panic!(
        "this wait would never end: the process is a fork and has no other thread; those of its parent are not here"
    );
}
