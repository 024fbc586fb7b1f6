//! Which process this is, and whether another one has ended: `kill` and `/proc`.
//!
//! A process id alone is used again. With the time at which the process was started, it is unique while the
//! system runs. That holds among processes that see each other under the same ids (a PID namespace), and
//! with the same times (a time namespace).
//!
//! If it is not certain, a process counts as alive. One that is taken for dead would lose its locks while it
//! uses them.

use std::io;
use std::os::unix::fs::MetadataExt;

use super::message::Text;
use super::short_file::{ROOT, after_name, read};

/// Ends this process by `SIGABRT`.
pub(crate) fn abort() -> ! {
    send_abort();
    // SAFETY: never returns, and is allowed in a handler.
    unsafe { libc::abort() }
}

/// Sends `SIGABRT` to the calling kernel thread. Async-signal-safe.
pub(super) fn send_abort() {
    send_here(libc::SIGABRT);
}

/// Sends a signal to the calling kernel thread. Returns `false` if the kernel has no memory for one that is
/// queued. Async-signal-safe.
///
/// The C library addresses that to the id in the calling thread's block. For a green thread, the kernel has
/// no thread with that id. glibc asks the kernel. musl sends nothing, and `abort` would crash by another
/// signal.
pub(crate) fn send_here(signal: libc::c_int) -> bool {
    #[cfg(target_os = "linux")]
    {
        let (process, thread) = (std::process::id(), super::system::gettid());
        // SAFETY: no memory is involved.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    // SAFETY: no memory is involved.
    unsafe {
        libc::raise(signal) == 0
    }
}

/// Sends a signal to a kernel thread of this process. Returns `false` if that has ended. Async-signal-safe.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn send_to(tid: super::Tid, signal: libc::c_int) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, signal) == 0 }
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// In ticks since the system was started; 0: not known.
    pub(crate) start: u64,
    /// The PID namespace, and the time namespace above it; 0: not known.
    pub(crate) namespace: u64,
}

impl Process {
    /// Returns this process. Reads files, and allocates nothing, so that the child of a fork may call it.
    pub(crate) fn this() -> Self {
        let id = std::process::id();
        // Their numbers have 32 bits. Systems before Linux 5.6 have no time namespaces.
        let [pid, time] = ["/proc/self/ns/pid", "/proc/self/ns/time"]
            .map(|path| std::fs::metadata(path).map_or(0, |file| file.ino()));
        let namespace = pid | time << 32;
        Self { id, start: look(id).map_or(0, |seen| seen.start), namespace }
    }

    /// Returns `true` if it has ended, as this process sees it.
    pub(crate) fn has_ended(&self, this: &Self) -> bool {
        if self.namespace != 0 && self.namespace != this.namespace {
            // Its id or its start means nothing here.
            return false;
        }
        if is_free(self.id) {
            return true;
        }
        let Ok(seen) = look(self.id) else { return is_free(self.id) };
        let another = self.start != 0 && self.start != seen.start;
        // The first thread of a process may end before the others. It then looks like this too, except for
        // their number.
        another || (seen.is_dead && seen.threads <= 1)
    }
}

/// Returns `true` if no process has this id. A process of another user has it, too.
fn is_free(id: u32) -> bool {
    let Ok(id) = libc::pid_t::try_from(id) else { return true };
    // SAFETY: no signal is sent.
    let found = unsafe { libc::kill(id, 0) } == 0;
    !found && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// What `/proc` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// A zombie, or about to be gone.
    is_dead: bool,
    threads: u64,
    start: u64,
}

fn look(id: u32) -> io::Result<Seen> {
    // The file has the name, 64 bytes at most, and numbers.
    let mut text = [0; 1024];
    let path = Text::<32>::of(format_args!("/proc/{id}/stat"));
    parse(read(ROOT, path.c_str(), &mut text)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads a line as in `proc_pid_stat(5)`: the state is the third field, the number of threads the 20th, the
/// start the 22nd.
fn parse(text: &[u8]) -> Option<Seen> {
    let mut fields = after_name(text)?.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    let threads = fields.nth(16)?.parse().ok()?;
    let start = fields.nth(1)?.parse().ok()?;
    Some(Seen { is_dead, threads, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = b"77 (a) b (c) Z 1 77 77 0 -1 4 0 0 0 0 1 2 3 4 20 0 5 0 123456 0 0\n";
        assert_eq!(parse(line), Some(Seen { is_dead: true, threads: 5, start: 123_456 }));
        assert_eq!(parse(b"77 (a) R 1"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn this_process_lives() {
        let this = Process::this();
        assert_eq!(this.id, std::process::id());
        assert!(!this.has_ended(&this));
        let another = Process { start: this.start + 1, ..this };
        assert_eq!(another.has_ended(&this), this.start != 0, "an id that is used again");
        let elsewhere = Process { namespace: this.namespace + 1, ..another };
        assert!(!elsewhere.has_ended(&this), "not to be judged");
        let init = Process { id: 1, start: 0, namespace: 0 };
        assert!(!init.has_ended(&this));
    }

    /// There, the system was started at another time.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_of_another_time_namespace_lives() {
        use crate::sys::child_tests as child;
        let name = concat!(module_path!(), "::a_process_of_another_time_namespace_lives");
        child::isolated(name, || {
            let this = Process::this();
            // The file is for a process that has one thread.
            child::forked(|| {
                // SAFETY: no memory is involved.
                let begun = unsafe { libc::unshare(libc::CLONE_NEWTIME) } == 0;
                if !begun || std::fs::write("/proc/self/timens_offsets", "boottime 100000 0").is_err() {
                    return println!("skipped: no time namespaces");
                }
                child::forked(|| assert!(!this.has_ended(&Process::this())));
            });
        });
    }

    /// A process that was killed, and that its parent has not yet waited for.
    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("a child");
        let this = Process::this();
        let seen = look(child.id()).expect("a child's file");
        let process = Process { id: child.id(), start: seen.start, ..this };
        assert!(!process.has_ended(&this));
        child.kill().expect("a child to kill");
        while !process.has_ended(&this) {
            std::thread::yield_now();
        }
        assert!(!is_free(child.id()), "not yet");
        child.wait().expect("a child to wait for");
        assert!(process.has_ended(&this));
    }
}
