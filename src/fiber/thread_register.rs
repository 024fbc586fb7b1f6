//! The ways in which green threads keep a thread register of their own.

use std::fmt;

/// How green threads keep a thread register of their own, and with it `thread_local!`, `errno` and C
/// libraries.
///
/// The rungs of a ladder, the best first. A runtime takes the best of the first two that the machine has,
/// unless its [builder](crate::mxn::Builder::thread_register) asks for one.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, ThreadRegister};
///
/// let rt = Mxn::new()?;
/// assert_ne!(rt.info().thread_register, Some(ThreadRegister::Pinned));
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadRegister {
    /// Written at every switch, by an instruction of the processor.
    Switched,
    /// Written at every switch, by a system call.
    Syscall,
    /// Not written. Green threads stay on the LWP that first ran them, and share its thread-locals.
    Pinned,
}

impl ThreadRegister {
    /// Returns `true` if each green thread has a register of its own, and with it thread-locals.
    #[inline]
    pub(crate) fn is_per_thread(self) -> bool {
        self != Self::Pinned
    }
}

impl fmt::Display for ThreadRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Switched => "switched",
            Self::Syscall => "syscall",
            Self::Pinned => "pinned",
        })
    }
}
