//! Waits until threads wait: what follows then finds them waiting, however busy the machine is. The watchdog
//! ends a wait that would not.

use selvedge::Runtime;
use selvedge::thread::{self, JoinHandle, ThreadState};

/// Returns when `thread`, which is one of `rt`, waits, for whatever; or when it has ended.
pub(crate) fn until_waits<R: Runtime, T>(rt: &R, thread: &JoinHandle<T>) {
    let id = thread.thread().id();
    let waits = || {
        let found = rt.threads().into_iter().find(|it| it.id() == id);
        found.is_some_and(|it| matches!(it.state(), ThreadState::Waiting { .. }))
    };
    while !thread.is_finished() && !waits() {
        thread::yield_now();
    }
}
