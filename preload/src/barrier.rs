//! `pthread_barrier_wait` and its like.

use std::ffi::{c_int, c_uint};

use libc::{pthread_barrier_t, pthread_barrierattr_t};
use selvedge::pthreads;

use crate::next::{lock_next, next};

/// A barrier of the program. It has no static initializer.
#[repr(C)]
struct Barrier {
    inner: pthreads::Barrier,
    /// [`OURS`], or 0 in one of the C library's.
    mark: u64,
}

const _: () = assert!(size_of::<Barrier>() <= size_of::<pthread_barrier_t>());

/// The mark of a barrier that was initialized here.
const OURS: u64 = 0x5e1f_ed9e_ba22_1e20;

impl Barrier {
    /// # Safety
    /// It is a barrier, and stays one while the reference is used.
    unsafe fn of<'a>(barrier: *mut pthread_barrier_t) -> &'a Self {
        // SAFETY: the caller's promise. All bits are valid, and what changes is atomic.
        unsafe { &*barrier.cast() }
    }
}

/// See `pthread_barrier_init(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
    if !attributes.is_null() {
        // SAFETY: the caller's attributes, and a place for the answer.
        unsafe { libc::pthread_barrierattr_getpshared(attributes, &raw mut shared) };
    }
    let ours = barrier.cast::<Barrier>();
    if shared != libc::PTHREAD_PROCESS_PRIVATE {
        // SAFETY: the caller's place.
        let mark = unsafe { &raw mut (*ours).mark };
        // SAFETY: the caller's place.
        unsafe { mark.write(0) };
        return next!(pthread_barrier_init(
            barrier: *mut pthread_barrier_t, attributes: *const pthread_barrierattr_t, count: c_uint
        ) -> c_int);
    }
    if count == 0 || count > c_int::MAX as c_uint {
        return libc::EINVAL;
    }
    let inner = pthreads::Barrier::new(count as usize);
    // SAFETY: the caller's place.
    unsafe { ours.write(Barrier { inner, mark: OURS }) };
    0
}

/// See `pthread_barrier_wait(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Barrier::of(barrier) };
    if this.mark != OURS {
        return lock_next!(pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int);
    }
    if this.inner.wait() { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 }
}

/// See `pthread_barrier_destroy(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int {
    // SAFETY: the caller's promise.
    let this = unsafe { Barrier::of(barrier) };
    if this.mark != OURS {
        return next!(pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int);
    }
    this.inner.close();
    0
}
