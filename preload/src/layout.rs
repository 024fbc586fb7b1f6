//! Where the C library's initializers leave what must be known of an object: asked of the C library, when
//! this library is loaded.
//!
//! The objects' layouts are part of the C library's interface for programs, so they hardly change. One has:
//! the flags of a condition variable lie elsewhere since 2.41. So they are looked for. If anything is not
//! where it is expected, the program must not start.

#![allow(clippy::multiple_unsafe_ops_per_block, reason = "calls in a row, with one reason")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the flags of a condition variable are, in bytes.
static COND_FLAGS: AtomicUsize = AtomicUsize::new(0);

/// Returns where the flags of a condition variable are, in bytes.
pub(crate) fn cond_flags() -> usize {
    // Relaxed: written before the program starts.
    COND_FLAGS.load(Ordering::Relaxed)
}

/// Returns the words of an object that `init` initializes, over zeros.
fn words<T, const N: usize>(init: impl FnOnce(*mut T) -> i32) -> [u32; N] {
    assert!(size_of::<[u32; N]>() <= size_of::<T>());
    let mut object = MaybeUninit::<T>::zeroed();
    assert_eq!(init(object.as_mut_ptr()), 0, "selvedge_preload: the C library refuses an object");
    // SAFETY: zeros, and what the initializer wrote.
    unsafe { object.as_ptr().cast::<[u32; N]>().read_unaligned() }
}

/// Looks for all. It panics if the C library is another than is known.
pub(crate) fn find() {
    /// Shared between processes, by the monotonic clock.
    const BOTH: u32 = 3;
    let unknown = "selvedge_preload: this C library lays its locks out in a way that is not known";
    let mut cond = MaybeUninit::uninit();
    let cond_words: [u32; 12] = words(|object| {
        // SAFETY: places for attributes and an object.
        unsafe {
            libc::pthread_condattr_init(cond.as_mut_ptr());
            libc::pthread_condattr_setpshared(cond.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_condattr_setclock(cond.as_mut_ptr(), libc::CLOCK_MONOTONIC);
            libc::pthread_cond_init(object, cond.as_ptr())
        }
    });
    let at = cond_words.iter().position(|&word| word == BOTH).expect(unknown);
    assert!(cond_words.iter().filter(|&&word| word != 0).count() == 1 && (7..10).contains(&at), "{unknown}");
    COND_FLAGS.store(4 * at, Ordering::Relaxed);

    let mut mutex = MaybeUninit::uninit();
    let mutex_words: [u32; 8] = words(|object| {
        // SAFETY: places for attributes and an object.
        unsafe {
            libc::pthread_mutexattr_init(mutex.as_mut_ptr());
            libc::pthread_mutexattr_settype(mutex.as_mut_ptr(), libc::PTHREAD_MUTEX_RECURSIVE);
            libc::pthread_mutex_init(object, mutex.as_ptr())
        }
    });
    assert_eq!(mutex_words, [0, 0, 0, 0, 1, 0, 0, 0], "{unknown}");

    let mut rwlock = MaybeUninit::uninit();
    let rwlock_words: [u32; 14] = words(|object| {
        // SAFETY: places for attributes and an object.
        unsafe {
            libc::pthread_rwlockattr_init(rwlock.as_mut_ptr());
            libc::pthread_rwlockattr_setpshared(rwlock.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_rwlock_init(object, rwlock.as_ptr())
        }
    });
    let shared = rwlock_words.iter().position(|&word| word != 0);
    assert!(shared == Some(7) && rwlock_words[8..].iter().all(|&word| word == 0), "{unknown}");
}
