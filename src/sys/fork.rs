//! Whether this process is a fork of the one that something was started in.
//!
//! A child of `fork` has one kernel thread, whatever the parent had; who relies on others must know. A process id would
//! tell (and be used again one day); a count that the child's own copy of the memory carries cannot lie.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between the first process and this one, as far as it has been watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// This process's; from now on its forks are counted.
    ///
    /// # Errors
    /// No memory for the C library's list of what to do at a fork.
    pub(crate) fn watched() -> io::Result<Self> {
        static ONCE: Once = Once::new();
        let mut code = 0;
        ONCE.call_once(|| {
            // SAFETY: the function is fit for the child: one atomic addition.
            code = unsafe { libc::pthread_atfork(None, None, Some(count)) };
        });
        if code == 0 { Ok(Self::now()) } else { Err(io::Error::from_raw_os_error(code)) }
    }

    #[inline]
    fn now() -> Self {
        // Relaxed: written only where there is no other thread.
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still the process that had this generation.
    #[inline]
    pub(crate) fn is_mine(self) -> bool {
        self == Self::now()
    }
}

unsafe extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
