//! `sem_wait` and its like, for semaphores of one process.
//!
//! `sem_post` is allowed in handlers of signals. So a semaphore is a number and a futex, which it changes
//! without a lock. If the handler has interrupted this library's own code, the wake-up reaches only threads
//! that sleep in the kernel.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use libc::{clockid_t, sem_t, timespec};

use crate::clock::{self, Until};
use crate::next::next;

/// A semaphore of the program. It has no static initializer.
#[repr(C)]
struct Semaphore {
    value: AtomicU32,
    /// How many threads wait, or are about to.
    waiters: AtomicU32,
    _unused: [u32; 4],
    /// [`OURS`], or something else in one of the C library's.
    mark: u64,
}

const _: () = assert!(size_of::<Semaphore>() <= size_of::<sem_t>());

/// The mark of a semaphore that was initialized here.
const OURS: u64 = 0x5e1f_ed9e_5e3a_f020;
/// The largest value.
const MOST: u32 = c_int::MAX as u32;

impl Semaphore {
    /// Returns the semaphore, or `None` if it is the C library's.
    ///
    /// # Safety
    /// It is a semaphore, and stays one while the reference is used.
    unsafe fn of<'a>(semaphore: *mut sem_t) -> Option<&'a Self> {
        // SAFETY: the caller's promise. All bits are valid, and what changes is atomic.
        let this: &Self = unsafe { &*semaphore.cast() };
        (this.mark == OURS).then_some(this)
    }

    /// Takes one off the value, unless it is zero.
    fn take(&self) -> bool {
        // Acquire: what was done before the post. SeqCst with the count of waiters, see `post`.
        self.value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |value| value.checked_sub(1)).is_ok()
    }

    fn wait(&self, until: Until) -> c_int {
        if self.take() {
            return 0;
        }
        // SeqCst: a post reads it after it has changed the value, and this thread looks at the value after
        // this. One of the two sees the other.
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let code = loop {
            if self.take() {
                break 0;
            }
            if let Err(code) = self.sleep(until) {
                break code;
            }
        };
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        if code == 0 { 0 } else { fail(code) }
    }

    /// Sleeps while the value is zero.
    fn sleep(&self, until: Until) -> Result<(), c_int> {
        let mut left = timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = match until {
            Until::Forever => std::ptr::null(),
            Until::Then(end) => {
                let time = end.saturating_duration_since(Instant::now());
                left.tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
                left.tv_nsec = time.subsec_nanos().into();
                &raw const left
            }
        };
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a word of the program's, and a time.
        if unsafe { libc::syscall(libc::SYS_futex, self.value.as_ptr(), wait, 0, timeout) } == 0 {
            return Ok(());
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(code @ (libc::ETIMEDOUT | libc::EINTR)) => Err(code),
            _ => Ok(()),
        }
    }
}

/// Sets `errno`, and returns what a call returns that has failed.
fn fail(code: c_int) -> c_int {
    // SAFETY: no arguments.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the running thread's own.
    unsafe { place.write(code) };
    -1
}

/// See `sem_init(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int {
    let ours = semaphore.cast::<Semaphore>();
    if shared != 0 {
        // SAFETY: the caller's place.
        let mark = unsafe { &raw mut (*ours).mark };
        // SAFETY: the caller's place.
        unsafe { mark.write(0) };
        return next!(sem_init(semaphore: *mut sem_t, shared: c_int, value: c_uint) -> c_int);
    }
    if value > MOST {
        return fail(libc::EINVAL);
    }
    let fresh =
        Semaphore { value: AtomicU32::new(value), waiters: AtomicU32::new(0), _unused: [0; 4], mark: OURS };
    // SAFETY: the caller's place.
    unsafe { ours.write(fresh) };
    0
}

/// See `sem_destroy(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_destroy(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Semaphore::of(semaphore) } {
        // It owns nothing.
        Some(_) => 0,
        None => next!(sem_destroy(semaphore: *mut sem_t) -> c_int),
    }
}

/// See `sem_wait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Semaphore::of(semaphore) } {
        Some(this) => this.wait(Until::Forever),
        None => next!(sem_wait(semaphore: *mut sem_t) -> c_int),
    }
}

/// See `sem_trywait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_trywait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Semaphore::of(semaphore) } {
        Some(this) if this.take() => 0,
        Some(_) => fail(libc::EAGAIN),
        None => next!(sem_trywait(semaphore: *mut sem_t) -> c_int),
    }
}

/// See `sem_timedwait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, end: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Semaphore::of(semaphore) } {
        // SAFETY: the caller's promise.
        Some(this) => unsafe { wait_until(this, libc::CLOCK_REALTIME, end) },
        None => next!(sem_timedwait(semaphore: *mut sem_t, end: *const timespec) -> c_int),
    }
}

/// See `sem_clockwait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, end: *const timespec) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Semaphore::of(semaphore) } {
        // SAFETY: the caller's promise.
        Some(this) => unsafe { wait_until(this, clock, end) },
        None => {
            next!(sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, end: *const timespec) -> c_int)
        }
    }
}

/// # Safety
/// `end` points to a time.
unsafe fn wait_until(semaphore: &Semaphore, clock: clockid_t, end: *const timespec) -> c_int {
    if semaphore.take() {
        return 0;
    }
    // SAFETY: the caller's promise.
    match unsafe { clock::until(clock, end) } {
        Ok(until) => semaphore.wait(until),
        Err(code) => fail(code),
    }
}

/// See `sem_post(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(this) = (unsafe { Semaphore::of(semaphore) }) else {
        return next!(sem_post(semaphore: *mut sem_t) -> c_int);
    };
    let more = |value| if value < MOST { Some(value + 1) } else { None };
    if this.value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
        return fail(libc::EOVERFLOW);
    }
    // A thread that takes this post may destroy the semaphore, unless another waits.
    if this.waiters.load(Ordering::SeqCst) > 0 {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: an address is all that it needs.
        unsafe { libc::syscall(libc::SYS_futex, this.value.as_ptr(), wake, 1) };
    }
    0
}

/// See `sem_getvalue(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(this) = (unsafe { Semaphore::of(semaphore) }) else {
        return next!(sem_getvalue(semaphore: *mut sem_t, value: *mut c_int) -> c_int);
    };
    // SAFETY: the caller's place. The value is at most `MOST`.
    unsafe { value.write(this.value.load(Ordering::Relaxed).cast_signed()) };
    0
}
