//! `JoinHandleExt`: the `pthread_t` of a thread that owns a kernel thread.
//!
//! std promises a `pthread_t` for each thread. A green thread has none: it runs on different kernel threads
//! over time, and a `pthread_t` of one of them would name the wrong thread. So the methods here return an
//! `Option` and a `Result`.
//!
//! A `pthread_t` is valid until the kernel thread has been joined. `park/reaper.rs` keeps the right to join
//! while the handle exists, so the value that `as_pthread_t` returns is valid as long as the handle.
//! `into_pthread_t` gives that right away.

pub use std::os::unix::thread::RawPthread;

use std::os::unix::thread::JoinHandleExt as _;
use std::thread;

use super::handle::JoinHandle;
use crate::park::reaper;

/// The `pthread_t` of threads that own a kernel thread: [`std::os::unix::thread::JoinHandleExt`], extended
/// for green threads, which have none.
///
/// Bound threads of `mxn` and all threads of `onetoone` own a kernel thread.
///
/// # Examples
///
/// ```
/// use selvedge::os::unix::thread::JoinHandleExt;
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// rt.run(|| {
///     let green = thread::spawn(|| ());
///     assert!(green.as_pthread_t().is_none());
///     green.join().unwrap();
///
///     let bound = thread::Builder::new().bound(true).spawn(thread::park)?;
///     assert!(bound.as_pthread_t().is_some());
///     bound.thread().unpark();
///     bound.join().unwrap();
///     std::io::Result::Ok(())
/// })
/// # ?; std::io::Result::Ok(())
/// ```
pub trait JoinHandleExt {
    /// Returns the thread's `pthread_t`, which is valid as long as this handle. Returns `None` for a green
    /// thread, and in a forked child for a thread of its parent.
    fn as_pthread_t(&self) -> Option<RawPthread>;

    /// Turns the handle into the thread's `pthread_t`, which the caller must join or detach.
    ///
    /// The thread's result is dropped when the thread ends. A runtime that is dropped waits until the thread
    /// has run its thread-local destructors. It leaves it to the caller to wait for the kernel thread's end.
    ///
    /// # Errors
    ///
    /// Returns the handle if there is no `pthread_t`; see [`as_pthread_t`](Self::as_pthread_t).
    fn into_pthread_t(self) -> Result<RawPthread, Self>
    where
        Self: Sized;
}

impl<T> JoinHandleExt for JoinHandle<T> {
    fn as_pthread_t(&self) -> Option<RawPthread> {
        self.kernel_thread().and_then(|thread| reaper::look(thread, thread::JoinHandle::as_pthread_t))
    }

    fn into_pthread_t(self) -> Result<RawPthread, Self> {
        self.kernel_thread().and_then(reaper::give_away).map(thread::JoinHandle::into_pthread_t).ok_or(self)
    }
}
