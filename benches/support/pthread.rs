//! The C library's threads and locks, called as a C program would.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::time::Duration;

use super::contender::Contender;
use super::library::{Attributes, Guard, Library, Lock, Std};

/// pthreads through `libc`.
#[derive(Debug)]
pub(crate) enum Pthread {}

/// A value behind a `pthread_mutex_t`, which stands in the value's own memory as it would in C.
pub(crate) struct Mutex<T> {
    raw: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time have the value, which may be sent.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: an unlocked mutex of glibc is plain data without pointers to itself, and a locked one is borrowed by its guard.
unsafe impl<T: Send> Send for Mutex<T> {}

/// Holds a [`Mutex`]; stays on the thread that took it.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    not_send: PhantomData<*mut ()>,
}

impl<T> Mutex<T> {
    /// With a mutex that is initialised, and not held.
    pub(crate) fn behind(raw: libc::pthread_mutex_t, value: T) -> Self {
        Self { raw: UnsafeCell::new(raw), value: UnsafeCell::new(value) }
    }
}

impl<T: Send + 'static> Lock<T> for Mutex<T> {
    type Guard<'a> = MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self::behind(libc::PTHREAD_MUTEX_INITIALIZER, value)
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, T> {
        // SAFETY: the mutex is initialised, and lives as long as `self`.
        check(unsafe { libc::pthread_mutex_lock(self.raw.get()) });
        MutexGuard { mutex: self, not_send: PhantomData }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard's thread holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's thread holds the lock, and the guard is borrowed mutably.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread holds the lock.
        check(unsafe { libc::pthread_mutex_unlock(self.mutex.raw.get()) });
    }
}

/// A `pthread_cond_t`.
pub(crate) struct Condvar(UnsafeCell<libc::pthread_cond_t>);

// SAFETY: that is what it is for.
unsafe impl Sync for Condvar {}
// SAFETY: unused, it is plain data; while it is waited on, it is borrowed.
unsafe impl Send for Condvar {}

impl Default for Condvar {
    fn default() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER))
    }
}

/// A thread that has not been joined.
#[derive(Debug)]
pub(crate) struct Thread(libc::pthread_t);

type Body = Box<dyn FnOnce() + Send>;

extern "C" fn main(body: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` has passed the pointer of such a box, to this thread alone.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    body();
    ptr::null_mut()
}

impl Library for Pthread {
    type Mutex<T: Send + 'static> = Mutex<T>;
    type Condvar = Condvar;
    type Thread = Thread;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        // SAFETY: both live as long as the references to them, and this thread holds the mutex.
        check(unsafe { libc::pthread_cond_wait(condvar.0.get(), guard.mutex.raw.get()) });
        guard
    }

    fn notify_one(condvar: &Self::Condvar) {
        // SAFETY: as in `notify_all`.
        check(unsafe { libc::pthread_cond_signal(condvar.0.get()) });
    }

    fn notify_all(condvar: &Self::Condvar) {
        // SAFETY: it is initialised, and lives as long as the reference.
        check(unsafe { libc::pthread_cond_broadcast(condvar.0.get()) });
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        let body: Box<Body> = Box::new(Box::new(body));
        let body = Box::into_raw(body);
        let mut raw = MaybeUninit::uninit();
        // SAFETY: room for an attribute object.
        check(unsafe { libc::pthread_attr_init(raw.as_mut_ptr()) });
        if let Some(bytes) = attributes.stack_size {
            // SAFETY: the object is initialised. A size that it does not like leaves the default.
            unsafe { libc::pthread_attr_setstacksize(raw.as_mut_ptr(), bytes) };
        }
        let mut thread = MaybeUninit::uninit();
        // SAFETY: `main` takes the box, which nobody else has.
        let error = unsafe { libc::pthread_create(thread.as_mut_ptr(), raw.as_ptr(), main, body.cast()) };
        // SAFETY: the object is initialised and not used again.
        unsafe { libc::pthread_attr_destroy(raw.as_mut_ptr()) };
        if error != 0 {
            // SAFETY: no thread has been made, so the box is still ours.
            drop(unsafe { Box::from_raw(body) });
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: on success it has been written.
        Ok(Thread(unsafe { thread.assume_init() }))
    }

    fn join(thread: Thread) {
        // SAFETY: it is joinable, and joined once: `Thread` cannot be copied.
        check(unsafe { libc::pthread_join(thread.0, ptr::null_mut()) });
    }

    fn sleep(time: Duration) {
        Std::sleep(time);
    }
}

impl Contender for Pthread {
    fn start(body: impl FnOnce() + Send + 'static) -> Thread {
        Self::spawn(Attributes::default(), body).unwrap()
    }

    fn yield_now() {
        Std::yield_now();
    }
}

pub(crate) fn check(error: c_int) {
    assert_eq!(error, 0, "{}", io::Error::from_raw_os_error(error));
}
