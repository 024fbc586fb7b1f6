//! `pthread_spin_lock` and its like. A thread that spins lets others run: its LWP may be the only one.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::pthread_spinlock_t;

/// How often a thread looks before it lets others run.
const LOOKS: u32 = 100;

/// # Safety
/// It is a lock, and stays one while the reference is used.
unsafe fn of<'a>(lock: *mut pthread_spinlock_t) -> &'a AtomicI32 {
    // SAFETY: the caller's promise.
    unsafe { AtomicI32::from_ptr(lock) }
}

fn try_lock(lock: &AtomicI32) -> bool {
    lock.load(Ordering::Relaxed) == 0 && lock.swap(1, Ordering::Acquire) == 0
}

/// See `pthread_spin_init(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: *mut pthread_spinlock_t, _shared: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { of(lock) }.store(0, Ordering::Relaxed);
    0
}

/// See `pthread_spin_destroy(3)`.
#[unsafe(no_mangle)]
extern "C" fn pthread_spin_destroy(_lock: *mut pthread_spinlock_t) -> c_int {
    0
}

/// See `pthread_spin_lock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's promise.
    let lock = unsafe { of(lock) };
    let mut looks = 0;
    while !try_lock(lock) {
        looks += 1;
        if looks % LOOKS == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    0
}

/// See `pthread_spin_trylock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's promise.
    if try_lock(unsafe { of(lock) }) { 0 } else { libc::EBUSY }
}

/// See `pthread_spin_unlock(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: *mut pthread_spinlock_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { of(lock) }.store(0, Ordering::Release);
    0
}
