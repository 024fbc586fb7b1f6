//! Wake-ups that a handler of a signal leaves to a helper.
//!
//! A handler may call `sem_post`. To wake a green thread takes a lock of Selvedge, and the handler may have
//! interrupted the code that holds it. So the handler leaves the address of the futex in a list, without a
//! lock, and rings. The helper, a kernel thread in which no handlers run, makes the wake-ups. It wakes all
//! threads that wait there; each looks at its semaphore again.

use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::next::next;

/// The futexes whose waiters are to be woken. More handlers at once than there are places wait for the
/// helper.
static LEFT: [AtomicPtr<u32>; 64] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];
/// How often the bell was rung: the helper's futex.
static RUNG: AtomicU32 = AtomicU32::new(0);
/// The process that has a helper; 0 for none. A forked child has none.
static HELPED: AtomicI32 = AtomicI32::new(0);

/// Starts the helper, if this process has none.
pub(crate) fn begin() {
    // SAFETY: no arguments.
    let process = unsafe { libc::getpid() };
    if HELPED.swap(process, Ordering::Relaxed) != process
        && selvedge::pthreads::start_helper("selvedge-post", help).is_err()
    {
        // The next semaphore tries again.
        HELPED.store(0, Ordering::Relaxed);
    }
}

/// Makes the system call itself, which no function of Selvedge sees.
fn futex(word: *const u32, operation: c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let (number, operation, value) = (libc::SYS_futex, c_long::from(operation), c_long::from(value));
    let none: *const c_void = std::ptr::null();
    next!(syscall(number: c_long, word: *const u32, operation: c_long, value: c_long, none: *const c_void) -> c_long);
}

/// Has the waiters of a futex woken. Async-signal-safe.
pub(crate) fn leave(word: *const u32) {
    let word = word.cast_mut();
    loop {
        let place = LEFT.iter().find(|place| {
            let swapped =
                place.compare_exchange(std::ptr::null_mut(), word, Ordering::Release, Ordering::Relaxed);
            swapped.is_ok() || swapped == Err(word)
        });
        if place.is_some() {
            break;
        }
        std::hint::spin_loop();
    }
    // Release: after the word was left.
    RUNG.fetch_add(1, Ordering::Release);
    futex(RUNG.as_ptr(), libc::FUTEX_WAKE, 1);
}

/// What the helper does.
fn help() {
    loop {
        let rung = RUNG.load(Ordering::Acquire);
        for place in &LEFT {
            let word = place.swap(std::ptr::null_mut(), Ordering::Acquire);
            if !word.is_null() {
                let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
                // SAFETY: an address is all that it needs.
                unsafe { libc::syscall(libc::SYS_futex, word, wake, c_int::MAX) };
            }
        }
        futex(RUNG.as_ptr(), libc::FUTEX_WAIT, rung);
    }
}
