//! `sem_wait` and its like, for semaphores of one process.
//!
//! `sem_post` is allowed in handlers of signals. So a semaphore is a number and a futex, which it changes
//! without a lock. If the handler has interrupted Selvedge's own code, a helper makes the wake-up
//! (`posts.rs`).
//!
//! The thread that takes a post may destroy the semaphore at once. So a post is one step, which also tells
//! whether any thread waits. After it, only the address is used.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use libc::{clockid_t, sem_t, timespec};

use crate::clock::{self, Until};
use crate::next::{next, wait_next};
use crate::posts;

/// A semaphore of the program. It has no static initializer.
#[repr(C)]
struct Semaphore {
    /// In the lower half, the value. In the upper half, how many threads wait, or are about to.
    word: AtomicU64,
    _unused: [u32; 4],
    /// [`OURS`], or something else in one of the C library's.
    mark: u64,
}

const _: () = assert!(size_of::<Semaphore>() <= size_of::<sem_t>());

/// The mark of a semaphore that was initialized here.
const OURS: u64 = 0x5e1f_ed9e_5e3a_f020;
/// The largest value.
const MOST: u32 = c_int::MAX as u32;
/// One waiter.
const WAITER: u64 = 1 << 32;

fn value(word: u64) -> u32 {
    word as u32
}

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
        let less = |word| if value(word) > 0 { Some(word - 1) } else { None };
        // Acquire: what was done before the post.
        self.word.fetch_update(Ordering::Acquire, Ordering::Relaxed, less).is_ok()
    }

    fn wait(&self, until: Until) -> c_int {
        if self.take() {
            return 0;
        }
        // Relaxed: one word. A post that comes after this finds it, and the kernel finds a post that came
        // before.
        self.word.fetch_add(WAITER, Ordering::Relaxed);
        let code = loop {
            if self.take() {
                break 0;
            }
            if let Err(code) = self.sleep(until) {
                break code;
            }
        };
        self.word.fetch_sub(WAITER, Ordering::Relaxed);
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
        if unsafe { libc::syscall(libc::SYS_futex, low(&self.word), wait, 0, timeout) } == 0 {
            return Ok(());
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(code @ (libc::ETIMEDOUT | libc::EINTR)) => Err(code),
            _ => Ok(()),
        }
    }
}

/// Returns the half with the value, which is the futex.
fn low(word: &AtomicU64) -> *const u32 {
    let half = if cfg!(target_endian = "little") { 0 } else { 1 };
    word.as_ptr().cast::<u32>().cast_const().wrapping_add(half)
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
    let fresh = Semaphore { word: AtomicU64::new(value.into()), _unused: [0; 4], mark: OURS };
    posts::begin();
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
        None => wait_next!(sem_wait(semaphore: *mut sem_t) -> c_int),
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
        None => wait_next!(sem_timedwait(semaphore: *mut sem_t, end: *const timespec) -> c_int),
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
            wait_next!(sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, end: *const timespec) -> c_int)
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
    let more = |word| if value(word) < MOST { Some(word + 1) } else { None };
    let futex = low(&this.word);
    // Release: pairs with `take`.
    let Ok(before) = this.word.fetch_update(Ordering::Release, Ordering::Relaxed, more) else {
        return fail(libc::EOVERFLOW);
    };
    if before >= WAITER {
        if selvedge::pthreads::may_lock() {
            let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: an address is all that it needs.
            unsafe { libc::syscall(libc::SYS_futex, futex, wake, 1) };
        } else {
            posts::leave(futex);
        }
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
    unsafe { value.write(self::value(this.word.load(Ordering::Relaxed)).cast_signed()) };
    0
}
