//! The C library's threads and locks, called as a C program would.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::contender::Contender;
use super::library::{Attributes, Guard, Library, Lock, Std};
use super::parking::Parking;
use super::sockets::KernelThreads;

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
// SAFETY: an unlocked mutex of glibc is plain data without pointers to itself, and a locked one is
// borrowed by its guard.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T: Default + Send + 'static> Default for Mutex<T> {
    fn default() -> Self {
        Lock::new(T::default())
    }
}

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

// SAFETY: any thread may join another. (musl has a pointer there.)
unsafe impl Send for Thread {}

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
        // SAFETY: it is initialised, and lives as long as the reference.
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
        // SAFETY: `main` takes the box, which no other thread has.
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

impl KernelThreads for Pthread {}

impl Contender for Pthread {
    fn start(body: impl FnOnce() + Send + 'static) -> Thread {
        Self::spawn(Attributes::default(), body).unwrap()
    }
}

/// A permit as a C program makes one.
#[derive(Default)]
pub(crate) struct Permit {
    posted: Mutex<bool>,
    changed: Condvar,
}

thread_local! {
    static PERMIT: Arc<Permit> = Arc::default();
}

impl Parking for Pthread {
    type Handle = Arc<Permit>;

    fn current() -> Self::Handle {
        PERMIT.with(Arc::clone)
    }

    fn park() {
        PERMIT.with(|permit| {
            let mut posted = permit.posted.lock();
            while !*posted {
                posted = Self::wait(&permit.changed, posted);
            }
            *posted = false;
        });
    }

    fn park_timeout(time: Duration) {
        PERMIT.with(|permit| {
            let mut posted = permit.posted.lock();
            if !*posted {
                wait_until(&permit.changed, &posted, deadline(time));
            }
            *posted = false;
        });
    }

    fn unpark(thread: &Self::Handle) {
        *thread.posted.lock() = true;
        Self::notify_one(&thread.changed);
    }

    fn yield_now() {
        Std::yield_now();
    }
}

/// So much later, by the clock of condition variables.
fn deadline(time: Duration) -> libc::timespec {
    let mut now = MaybeUninit::uninit();
    // SAFETY: room for a time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, now.as_mut_ptr()) }, 0);
    // SAFETY: on success it has been written.
    let libc::timespec { tv_sec, tv_nsec } = unsafe { now.assume_init() };
    let then = Duration::new(tv_sec as u64, tv_nsec as u32) + time;
    libc::timespec { tv_sec: then.as_secs() as _, tv_nsec: then.subsec_nanos().into() }
}

fn wait_until<T>(condvar: &Condvar, guard: &MutexGuard<'_, T>, deadline: libc::timespec) {
    let raw = guard.mutex.raw.get();
    // SAFETY: all live as long as the references to them, and this thread holds the mutex.
    let error = unsafe { libc::pthread_cond_timedwait(condvar.0.get(), raw, &raw const deadline) };
    if error != libc::ETIMEDOUT {
        check(error);
    }
}

pub(crate) fn check(error: c_int) {
    assert_eq!(error, 0, "{}", io::Error::from_raw_os_error(error));
}
