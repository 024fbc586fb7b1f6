//! Waits until a runtime, or a thread, is as a test needs it, however busy the machine is.

#![allow(dead_code, reason = "shared")]

use std::time::{Duration, Instant};

use selvedge::thread::{self, JoinHandle, ThreadState};
use selvedge::{Runtime, RuntimeStats};

use crate::watchdog;

/// How long to wait for what must happen. Less than the watchdog grants, which does not know the runtime.
const PATIENCE: Duration = Duration::from_secs(100);

/// Returns when a runtime is as `is` says.
#[track_caller]
pub(crate) fn soon(what: &str, rt: &impl Runtime, mut is: impl FnMut(&RuntimeStats) -> bool) {
    let limit = Instant::now() + PATIENCE;
    loop {
        let stats = rt.stats();
        if is(&stats) {
            return;
        }
        assert!(Instant::now() < limit, "not soon: {what}\n{stats}\n{}", watchdog::kernel_threads());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns when `thread`, which is one of `rt`, waits, for whatever; or when it has ended. The watchdog ends
/// a wait that would not.
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
