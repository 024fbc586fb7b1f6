//! What a program of the papers needs of a threads library: a lock, a condition variable, a thread.
//!
//! A game is written once, against [`Library`], and runs on whatever stands behind it. Everything is static:
//! a library is a type without values. So a generic program compiles to what it would be if it named the
//! library itself.

use std::io;
use std::ops::DerefMut;
use std::time::Duration;

/// A threads library.
pub(crate) trait Library: Sized + Send + 'static {
    /// Mutual exclusion over a value.
    type Mutex<T: Send + 'static>: Lock<T>;
    /// A condition variable for [`Library::Mutex`].
    type Condvar: Default + Send + Sync + 'static;
    /// A started thread.
    type Thread: Send;

    /// Waits for a notification, with the lock released meanwhile. May wake for no reason.
    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T>;

    /// Wakes one that waits.
    fn notify_one(condvar: &Self::Condvar);

    /// Wakes all that wait.
    fn notify_all(condvar: &Self::Condvar);

    /// Starts a thread.
    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread>;

    /// Waits for a thread's end. Panics if the thread did.
    fn join(thread: Self::Thread);

    /// Stops the calling thread for a while.
    fn sleep(time: Duration);
}

/// A lock over a value, released by dropping its guard.
pub(crate) trait Lock<T>: Send + Sync + 'static {
    /// Holds the lock.
    type Guard<'a>: DerefMut<Target = T>;

    /// A free lock.
    fn new(value: T) -> Self;

    /// Takes the lock.
    fn lock(&self) -> Self::Guard<'_>;
}

/// The guard of a library's mutex.
pub(crate) type Guard<'a, L, T> = <<L as Library>::Mutex<T> as Lock<T>>::Guard<'a>;

/// What a new thread is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Usable bytes of stack; the library's default if `None`.
    pub(crate) stack_size: Option<usize>,
    /// `true` if it gets a kernel thread of its own where it would not have one anyway.
    pub(crate) bound: bool,
}

/// `std::thread` and `std::sync`.
#[derive(Debug)]
pub(crate) enum Std {}

impl Library for Std {
    type Mutex<T: Send + 'static> = std::sync::Mutex<T>;
    type Condvar = std::sync::Condvar;
    type Thread = std::thread::JoinHandle<()>;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        condvar.wait(guard).unwrap()
    }

    fn notify_one(condvar: &Self::Condvar) {
        condvar.notify_one();
    }

    fn notify_all(condvar: &Self::Condvar) {
        condvar.notify_all();
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        let builder = std::thread::Builder::new();
        match attributes.stack_size {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        }
        .spawn(body)
    }

    fn join(thread: Self::Thread) {
        thread.join().unwrap();
    }

    fn sleep(time: Duration) {
        std::thread::sleep(time);
    }
}

impl<T: Send + 'static> Lock<T> for std::sync::Mutex<T> {
    type Guard<'a> = std::sync::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        Self::lock(self).unwrap()
    }
}
