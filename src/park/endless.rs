//! Waits that nothing can ever end: those of a forked child without another thread.

use std::time::Instant;

use crate::shim::fork;

/// Panics before a wait that nothing can ever end.
#[inline]
pub(super) fn check(deadline: Option<Instant>) {
    if fork::is_child() && deadline.is_none() && fork::is_alone() {
        endless();
    }
}

#[cold]
fn endless() -> ! {
    panic!(
        "this wait would never end: the process is a fork and has no other thread; those of its parent are not here"
    );
}
