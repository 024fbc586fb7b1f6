//! `sem_wait` and its like, for semaphores of one process.

use std::ffi::{c_int, c_uint};

use libc::{clockid_t, sem_t, timespec};
use selvedge::pthreads::{self, point, point_of_code};

use crate::clock::{self, Until};
use crate::next::{next, wait_next};

/// A semaphore of the program. It has no static initializer.
#[repr(C)]
struct Semaphore {
    inner: pthreads::Semaphore,
    _unused: [u32; 4],
    /// [`OURS`], or something else in one of the C library's.
    mark: u64,
}

const _: () = assert!(size_of::<Semaphore>() <= size_of::<sem_t>());

/// The mark of a semaphore that was initialized here.
const OURS: u64 = 0x5e1f_ed9e_5e3a_f020;

impl Semaphore {
    /// Returns the semaphore, or `None` if it is the C library's.
    ///
    /// # Safety
    /// It is a semaphore, and stays one while the reference is used.
    unsafe fn of<'a>(semaphore: *mut sem_t) -> Option<&'a pthreads::Semaphore> {
        // SAFETY: the caller's promise. All bits are valid, and what changes is atomic.
        let this: &Self = unsafe { &*semaphore.cast() };
        (this.mark == OURS).then_some(&this.inner)
    }
}

fn wait(semaphore: &pthreads::Semaphore, until: Until) -> c_int {
    match point_of_code(|| semaphore.wait(until.end()).err().unwrap_or(0)) {
        0 => 0,
        code => fail(code),
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
    if value > pthreads::Semaphore::MAX {
        return fail(libc::EINVAL);
    }
    let fresh = Semaphore { inner: pthreads::Semaphore::new(value), _unused: [0; 4], mark: OURS };
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
unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Semaphore::of(semaphore) } {
        Some(this) => wait(this, Until::Forever),
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
        Some(this) if this.try_wait() => 0,
        Some(_) => fail(libc::EAGAIN),
        None => next!(sem_trywait(semaphore: *mut sem_t) -> c_int),
    }
}

/// See `sem_timedwait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sem_timedwait(semaphore: *mut sem_t, end: *const timespec) -> c_int {
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
unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
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
unsafe fn wait_until(semaphore: &pthreads::Semaphore, clock: clockid_t, end: *const timespec) -> c_int {
    if let Err(code) = clock::check(clock) {
        return fail(code);
    }
    if point(|| semaphore.try_wait()) {
        return 0;
    }
    // SAFETY: the caller's promise.
    match unsafe { clock::until(clock, end) } {
        Ok(until) => wait(semaphore, until),
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
    match this.post() {
        Ok(()) => 0,
        Err(code) => fail(code),
    }
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
    // SAFETY: the caller's place.
    unsafe { value.write(this.value().cast_signed()) };
    0
}
