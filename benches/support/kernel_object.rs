//! A mutex that is an object of the kernel, as NT's was: each acquisition and each release is a system call.
//! Here it is an `eventfd` that counts to one.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::fd::FromRawFd as _;
use std::time::Duration;

use super::library::{Attributes, Guard, Library, Lock, Std};

/// std's threads with such mutexes. It has no condition variables.
#[derive(Debug)]
pub(crate) enum KernelObject {}

/// A value behind such a mutex.
pub(crate) struct Mutex<T> {
    /// It holds one while the mutex is free.
    object: File,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has read the one out of the object reaches the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// Holds the mutex.
pub(crate) struct Held<'a, T>(&'a Mutex<T>);

impl<T: Send + 'static> Lock<T> for Mutex<T> {
    type Guard<'a> = Held<'a, T>;

    fn new(value: T) -> Self {
        // SAFETY: no memory is involved.
        let object = unsafe { libc::eventfd(1, libc::EFD_CLOEXEC) };
        assert!(object >= 0, "{}", io::Error::last_os_error());
        // SAFETY: it was opened just now, and has no other owner.
        Self { object: unsafe { File::from_raw_fd(object) }, value: UnsafeCell::new(value) }
    }

    fn lock(&self) -> Self::Guard<'_> {
        // The kernel sets it to zero, or blocks the reader until it is one.
        (&self.object).read_exact(&mut [0; 8]).expect("an eventfd");
        Held(self)
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        (&self.0.object).write_all(&1_u64.to_ne_bytes()).expect("an eventfd");
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's thread has the mutex.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's thread has the mutex, and the guard is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

/// What a wait would need.
#[derive(Debug, Default)]
pub(crate) struct NoCondvar;

impl Library for KernelObject {
    type Mutex<T: Send + 'static> = Mutex<T>;
    type Condvar = NoCondvar;
    type Thread = <Std as Library>::Thread;

    /// Gives the lock up for a moment: it may wake for no reason, and does.
    fn wait<'a, T: Send + 'static>(_: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        let mutex = guard.0;
        drop(guard);
        std::thread::sleep(Duration::from_micros(50));
        mutex.lock()
    }

    fn notify_one(_: &Self::Condvar) {}

    fn notify_all(_: &Self::Condvar) {}

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        Std::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        Std::join(thread);
    }

    fn sleep(time: Duration) {
        Std::sleep(time);
    }
}
