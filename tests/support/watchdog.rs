//! Turns a hang into a failure. If the guard is not dropped in time, the process prints which test it was
//! and where each of its kernel threads stands. Then it aborts.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Dropped at the end of the test.
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

/// How long a test may take on the slowest machine and under the heaviest load we care for.
const PATIENCE: Duration = Duration::from_secs(240);
/// The same with `SELVEDGE_STRESS=full`.
const PATIENCE_FULL: Duration = Duration::from_secs(1200);

impl Watchdog {
    /// Guards the scope of the returned value. `what` goes into the message.
    pub(crate) fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let (alive, gone) = channel();
        let full = std::env::var_os("SELVEDGE_STRESS").is_some_and(|value| value == "full");
        let patience = if full { PATIENCE_FULL } else { PATIENCE };
        // A thread of std: it must bark whatever the runtimes do.
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || {
                if gone.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    // Not by `eprintln`, which the test harness would keep to itself.
                    let _ = writeln!(
                        std::io::stderr(),
                        "watchdog: {what} has not ended after {patience:?}\n{}",
                        kernel_threads()
                    );
                    std::process::abort();
                }
            })
            .expect("a kernel thread for the watchdog");
        Self { _alive: alive }
    }
}

/// What the kernel says of each thread of this process: number, name, state, where it sleeps, in which
/// system call.
pub(crate) fn kernel_threads() -> String {
    let mut text = String::from("     tid name            state wchan                system call\n");
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return "(no /proc to read the kernel threads from)".into();
    };
    for task in tasks.flatten() {
        let read =
            |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_else(|error| error.to_string());
        let stat = read("stat");
        // The name stands in parentheses and may hold anything; the state is the first letter after the
        // last one.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        let _ = writeln!(
            text,
            "{:>8} {:<15} {state:<5} {:<20} {}",
            task.file_name().to_string_lossy(),
            read("comm").trim_end(),
            read("wchan").trim_end(),
            read("syscall").trim_end(),
        );
    }
    text
}
