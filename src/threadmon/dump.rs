//! Dumps: what all threads do, as text for people, and as JSON.

mod full;
mod json;

use std::fmt::Write;
#[cfg(target_os = "linux")]
use std::io;

pub use self::full::Dump;
#[cfg(target_os = "linux")]
use self::full::STACK;
use crate::runtime::registry;
#[cfg(target_os = "linux")]
use crate::settings::{self, Lookup};
#[cfg(target_os = "linux")]
use crate::sys::message::all_to_standard_error;
#[cfg(target_os = "linux")]
use crate::sys::once::Mutex;
#[cfg(target_os = "linux")]
use crate::sys::quit;
use crate::thread::snapshot::ThreadCursor;

/// The threads of one page.
const PAGE: usize = 4_096;

/// Returns what all threads of all runtimes do, with a table of the LWPs before. Each thread has a line with
/// its state, what it waits for, and the owner of that. A [`Dump`] has backtraces, too.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, thread, threadmon};
///
/// let rt = Mxn::new()?;
/// let parked = rt.spawn_with(thread::Builder::new().name("idler".into()), thread::park)?;
/// while !threadmon::dump().contains("\"idler\": waiting for its permit (park)") {}
/// # parked.thread().unpark();
/// # parked.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// Nothing. It looks at all threads, and reads files of `/proc`.
#[must_use]
pub fn dump() -> String {
    let mut text = String::new();
    for runtime in registry::all() {
        let _ = writeln!(text, "runtime {}\n{}", runtime.number(), runtime.stats());
        let mut next = Some(ThreadCursor::start());
        while let Some(from) = next {
            let page = runtime.threads_page(from, PAGE, None);
            next = page.next();
            for thread in page.threads() {
                let _ = writeln!(text, "{thread}");
            }
        }
    }
    text
}

/// Prints a [`Dump`] to standard error at each `SIGQUIT` (Ctrl-\ in a terminal) from now on. The program goes
/// on.
/// `SELVEDGE_DUMP=on` does the same when a runtime is built. A second call does nothing.
///
/// A kernel thread of its own prints, so threads that keep all LWPs cannot keep it from that. In a child of a
/// fork, the signal does nothing.
///
/// # Examples
///
/// ```
/// selvedge::threadmon::dump_on_quit()?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// The program handles `SIGQUIT` itself, or the system refuses a thread.
#[cfg(target_os = "linux")]
pub fn dump_on_quit() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock(|_| ());
    if !*watched {
        // Not by std, the lock of which a thread may hold that is stuck. If nothing reads it any more, the
        // program goes on.
        quit::watch(STACK, || all_to_standard_error(format!("{}\n", Dump::collect()).as_bytes()))?;
        *watched = true;
    }
    Ok(())
}

/// Prints dumps if `SELVEDGE_DUMP` asks for it. Called when a runtime is built.
///
/// # Errors
///
/// As [`dump_on_quit`], and if the value is neither `on` nor `off`.
#[cfg(target_os = "linux")]
pub(crate) fn dump_if_asked(lookup: Lookup<'_>) -> io::Result<()> {
    if settings::dump(lookup)? { dump_on_quit() } else { Ok(()) }
}
