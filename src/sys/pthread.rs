//! The threads that this crate starts for itself: kernel threads, even if the program's own calls of the same
//! functions start green ones (`pthreads.rs`).

use std::cell::Cell;

#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
use super::next as library;
#[cfg(all(unix, not(all(feature = "interpose", target_os = "linux", target_env = "gnu"))))]
use libc as library;

#[cfg(unix)]
pub(super) use library::{pthread_create, pthread_detach, pthread_join, pthread_self, pthread_sigmask};
#[cfg(target_os = "linux")]
pub(super) use library::{pthread_getattr_np, pthread_tryjoin_np};

thread_local! {
    /// `true` while the thread is in [`kernel`].
    static KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// Runs `start`, which starts threads by std. They are kernel threads.
pub(crate) fn kernel<R>(start: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            KERNEL.set(self.0);
        }
    }
    let _restore = Restore(KERNEL.replace(true));
    start()
}

/// Returns `true` if the running thread is in [`kernel`].
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn is_kernel() -> bool {
    KERNEL.get()
}
