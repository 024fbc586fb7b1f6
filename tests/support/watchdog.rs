//! Turns a hang into a failure: the process aborts, and says which test it was, if the guard is not dropped in time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Dropped at the end of the test.
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

/// How long a test may take on the slowest machine and under the heaviest load we care for.
const PATIENCE: Duration = Duration::from_secs(120);

impl Watchdog {
    /// Guards the scope of the returned value. `what` goes into the message.
    pub(crate) fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let (alive, gone) = channel();
        // A thread of std: it must bark whatever the runtimes do.
        std::thread::spawn(move || {
            if gone.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("watchdog: {what} has not ended after {PATIENCE:?}");
                std::process::abort();
            }
        });
        Self { _alive: alive }
    }
}
