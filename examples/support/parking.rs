//! Threads that sleep until another wakes them by name.

use std::time::Duration;

use super::library::{Library, Std};

/// A library with a permit for each thread: `unpark` posts it, `park` waits for it and takes it.
pub(crate) trait Parking: Library {
    /// The thread to wake.
    type Handle: Clone + Send + Sync + 'static;

    /// The calling thread.
    fn current() -> Self::Handle;

    /// Waits for the calling thread's permit. May return for no reason.
    fn park();

    /// The same, for so long at most.
    fn park_timeout(time: Duration);

    /// Posts a thread's permit.
    fn unpark(thread: &Self::Handle);

    /// Lets another thread run.
    fn yield_now();
}

/// A library that wakes a thread by what will be joined.
pub(crate) trait Named: Parking {
    /// Posts a thread's permit.
    fn wake(thread: &Self::Thread);
}

impl Parking for Std {
    type Handle = std::thread::Thread;

    fn current() -> Self::Handle {
        std::thread::current()
    }

    fn park() {
        std::thread::park();
    }

    fn park_timeout(time: Duration) {
        std::thread::park_timeout(time);
    }

    fn unpark(thread: &Self::Handle) {
        thread.unpark();
    }

    fn yield_now() {
        std::thread::yield_now();
    }
}

impl Named for Std {
    fn wake(thread: &Self::Thread) {
        thread.thread().unpark();
    }
}
