//! Tells whether a kernel thread has child processes: `/proc/self/task/TID/children`.
//!
//! The kernel keeps children by the thread that made them, in whichever way (`fork`, `vfork`, `posix_spawn`).
//! When that thread ends, it sends them the signal that they asked for with `PR_SET_PDEATHSIG`. If the kernel
//! was built with `CONFIG_PROC_CHILDREN`, the file lists them, including dead ones that were not waited for.

use std::fs;
use std::io;

/// Returns `true` if the kernel thread `tid` of this process has children.
///
/// # Errors
/// If the kernel does not tell, or there is no such thread.
pub(crate) fn any(tid: u32) -> io::Result<bool> {
    fs::read(format!("/proc/self/task/{tid}/children")).map(|list| !list.is_empty())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sys::kthread::gettid;
    use std::process::{Command, Stdio};

    /// On threads of their own: others here have children too.
    #[test]
    fn a_child_is_that_of_the_thread_that_made_it() {
        let one = std::thread::spawn(|| {
            let tid = gettid().cast_unsigned();
            let Ok(before) = any(tid) else { return };
            assert!(!before);
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            assert!(any(tid).unwrap());
            let other = std::thread::spawn(|| any(gettid().cast_unsigned()).unwrap());
            assert!(!other.join().unwrap());
            drop(child.stdin.take());
            child.wait().unwrap();
            assert!(!any(tid).unwrap());
        });
        one.join().unwrap();
        assert!(any(0).is_err());
    }
}
