//! The CPU time of this process.

use std::time::Duration;

/// How long its threads have run, in user mode and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
}

impl CpuTime {
    /// Returns what the process has taken until now, the threads that have ended included.
    pub(crate) fn now() -> Self {
        // SAFETY: zeros are a valid `rusage`.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes the structure, and only during the call.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        let time = |it: libc::timeval| Duration::new(it.tv_sec as u64, 1_000 * it.tv_usec as u32);
        Self { user: time(usage.ru_utime), system: time(usage.ru_stime) }
    }

    /// Returns what was taken since then.
    pub(crate) fn since(self, then: Self) -> Self {
        Self { user: self.user.saturating_sub(then.user), system: self.system.saturating_sub(then.system) }
    }
}
