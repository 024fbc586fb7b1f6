//! The C library's mutexes that processes can share: plain ones, and robust ones, which survive the death
//! of their owner as Selvedge's do.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use super::library::{Attributes, Guard, Library, Lock};
use super::pthread::{self, Pthread, check};

/// pthreads with such mutexes.
#[derive(Debug)]
pub(crate) enum PthreadShared<const ROBUST: bool> {}

/// A value behind such a mutex.
pub(crate) struct Mutex<T, const ROBUST: bool>(pthread::Mutex<T>);

impl<T: Send + 'static, const ROBUST: bool> Lock<T> for Mutex<T, ROBUST> {
    type Guard<'a> = pthread::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: room for an attribute object.
        check(unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) });
        let shared = libc::PTHREAD_PROCESS_SHARED;
        // SAFETY: the object is initialised.
        check(unsafe { libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), shared) });
        if ROBUST {
            let robust = libc::PTHREAD_MUTEX_ROBUST;
            // SAFETY: the object is initialised.
            check(unsafe { libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), robust) });
        }
        let mut raw = MaybeUninit::uninit();
        // SAFETY: room for a mutex, and an initialised object.
        check(unsafe { libc::pthread_mutex_init(raw.as_mut_ptr(), attributes.as_ptr()) });
        // SAFETY: the object is initialised and not used again.
        unsafe { libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()) };
        // SAFETY: on success it has been written.
        Self(pthread::Mutex::behind(unsafe { raw.assume_init() }, value))
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        self.0.lock()
    }
}

impl<const ROBUST: bool> Library for PthreadShared<ROBUST> {
    type Mutex<T: Send + 'static> = Mutex<T, ROBUST>;
    type Condvar = <Pthread as Library>::Condvar;
    type Thread = <Pthread as Library>::Thread;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        Pthread::wait(condvar, guard)
    }

    fn notify_one(condvar: &Self::Condvar) {
        Pthread::notify_one(condvar);
    }

    fn notify_all(condvar: &Self::Condvar) {
        Pthread::notify_all(condvar);
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        Pthread::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        Pthread::join(thread);
    }

    fn sleep(time: Duration) {
        Pthread::sleep(time);
    }
}
