//! Another process that keeps CPUs busy.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Processes that compute until this is dropped, or the thread that started them ends.
#[derive(Debug)]
pub(crate) struct Load(Vec<Child>);

impl Load {
    /// Keeps half of the CPUs busy, and one at least.
    ///
    /// # Errors
    /// There is no shell to run.
    pub(crate) fn half() -> io::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self::start((cpus / 2).max(1))
    }

    fn start(processes: usize) -> io::Result<Self> {
        let mut load = Self(Vec::new());
        for _ in 0..processes {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            // SAFETY: it makes one system call, which is allowed between fork and exec.
            unsafe { shell.pre_exec(die_with_parent) };
            load.0.push(shell.spawn()?);
        }
        Ok(load)
    }
}

/// A process that dies leaves no load behind.
fn die_with_parent() -> io::Result<()> {
    // SAFETY: no memory is involved.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It can only have been killed by others.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
