//! `pthread_spin_lock` and its like. A thread that spins lets others run: its LWP may be the only one.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::pthread_spinlock_t;

/// The values of the C library, which other processes may use.
const FREE: i32 = if cfg!(target_arch = "x86_64") { 1 } else { 0 };
const HELD: i32 = 1 - FREE;

/// How often a thread looks before it lets others run.
const LOOKS: u32 = 100;

/// # Safety
/// It is a lock, and stays one while the reference is used.
unsafe fn of<'a>(lock: *mut pthread_spinlock_t) -> &'a AtomicI32 {
    // SAFETY: the caller's promise.
    unsafe { AtomicI32::from_ptr(lock) }
}

fn try_lock(lock: &AtomicI32) -> bool {
    // A waiter of the C library's makes it less than it was.
    let is_free = |value: i32| if FREE > HELD { value > HELD } else { value == FREE };
    is_free(lock.load(Ordering::Relaxed)) && is_free(lock.swap(HELD, Ordering::Acquire))
}

/// See `pthread_spin_init(3)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: *mut pthread_spinlock_t, _shared: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { of(lock) }.store(FREE, Ordering::Relaxed);
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
    unsafe { of(lock) }.store(FREE, Ordering::Release);
    0
}
