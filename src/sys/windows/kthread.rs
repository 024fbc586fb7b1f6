//! The names of `kthread.rs` where no runtime of green threads starts: std's threads, to be joined.

use std::io;
use std::os::windows::io::{AsRawHandle, RawHandle};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Tid;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetCurrentThreadId() -> u32;
    fn WaitForSingleObject(handle: RawHandle, milliseconds: u32) -> u32;
}

/// How to start a kernel thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    pub(crate) name: &'a str,
    pub(crate) stack_size: Option<usize>,
    pub(crate) block_signals: bool,
}

/// A kernel thread that has been started and not yet joined. To drop it detaches the thread.
#[derive(Debug)]
pub(crate) struct KernelThread(JoinHandle<()>);

impl KernelThread {
    /// Returns an error: only LWPs and their helpers are started here.
    pub(crate) fn start(_options: &Options<'_>, _body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Waits until the thread has ended. If it is the calling thread, in its last destructors, it is detached
    /// instead.
    pub(crate) fn join(self) {
        if self.0.thread().id() != std::thread::current().id() {
            let ended = self.0.join();
            debug_assert!(ended.is_ok(), "the panics of a thread are caught inside");
        }
    }

    /// Does what [`join`](Self::join) does, if that does not have to wait. A thread that ends may call this
    /// in its last destructors. There it has the loader's lock, for which the other thread may wait.
    ///
    /// # Errors
    /// Returns the thread, if it has not ended.
    pub(crate) fn try_join(self) -> Result<(), Self> {
        const ENDED: u32 = 0;
        // SAFETY: the thread's handle, which `self` keeps open.
        let state = unsafe { WaitForSingleObject(self.0.as_raw_handle(), 0) };
        if state == ENDED { Ok(self.join()) } else { Err(self) }
    }
}

impl From<JoinHandle<()>> for KernelThread {
    fn from(started: JoinHandle<()>) -> Self {
        Self(started)
    }
}

/// A signal mask. There are no signals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalMask(());

impl SignalMask {
    pub(crate) fn of_caller() -> Self {
        Self(())
    }

    /// Does nothing.
    pub(crate) fn adopt(&self) {}
}

/// Returns 0: stacks are as large as std is asked to make them.
pub(crate) fn own_share_of_stacks() -> usize {
    0
}

/// Returns the system's number of the calling kernel thread.
pub(crate) fn gettid() -> Tid {
    // SAFETY: no arguments.
    unsafe { GetCurrentThreadId() }.cast_signed()
}

/// Does nothing: there is no such thing.
pub(crate) fn ask_for_short_slice(_slice: Duration) {}

/// Does nothing: there is no such thing.
#[derive(Debug)]
#[must_use]
pub(crate) struct ExactTimers;

impl ExactTimers {
    pub(crate) fn begin() -> Self {
        Self
    }
}
