//! Sleeping in the kernel until a word changes: Linux futexes.
//!
//! Contract, the same in the portable sibling `futex_other.rs`:
//!
//! - [`wait`] compares the word with `expected` and falls asleep in one step with respect to [`wake`] on the
//!   same address. If a waker changes the word first and calls `wake` afterwards, it is never missed.
//! - `wait` may return [`Waited::Woken`] for any reason: a wake, a word that was different, or a signal. The
//!   wake may also have been meant for a word that lived at this address before. The caller reads its word
//!   again; the futex decides nothing.
//! - `wait` returns [`Waited::TimedOut`] only when the deadline has passed, never earlier. A wake may have
//!   come in the same instant, so the caller settles by its word whether it was granted or timed out.
//! - `wake` never reads the memory at its address, which may be gone. A sleeper that reads in its word that
//!   it was granted may return before its waker calls `wake`. The frame that holds the word is then gone.
//! - Ordering comes from the word's own atomics. A futex call is not a fence to rely on.
//!
//! Deadlines: the kernel takes an absolute time of CLOCK_MONOTONIC, which a [`Moment`] is. To pass
//! `deadline - now` would cost a clock read for every wait, and another for each retry after a signal.

use std::ptr;
use std::sync::atomic::AtomicU32;

use super::moment::Moment;

/// Why [`wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Waited {
    /// Woken, or never slept, or woken for nothing: look at the word.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// Each wake-up is meant.
const MATCH_ANY: u32 = libc::FUTEX_BITSET_MATCH_ANY.cast_unsigned();

/// `true` if the `_shared` calls reach the threads of other processes that map the same memory.
pub(crate) const ACROSS_PROCESSES: bool = true;

/// Sleeps while `word` holds `expected`, at most until `deadline`. One system call.
#[inline]
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Moment>) -> Waited {
    wait_op(word, expected, deadline, libc::FUTEX_PRIVATE_FLAG)
}

/// Wakes at most `n` sleepers of the word at `word`, and returns how many. One system call.
#[inline]
pub(crate) fn wake(word: *const AtomicU32, n: u32) -> usize {
    wake_op(word, n, libc::FUTEX_PRIVATE_FLAG)
}

/// Sleeps as [`wait`] does, on a word in memory shared between processes. Its wakers call [`wake_shared`].
#[inline]
pub(crate) fn wait_shared(word: &AtomicU32, expected: u32, deadline: Option<Moment>) -> Waited {
    wait_op(word, expected, deadline, 0)
}

/// Wakes as [`wake`] does, for a word in memory shared between processes. The kernel finds the word by what
/// is mapped there, so it wakes no thread if the mapping is gone.
#[inline]
pub(crate) fn wake_shared(word: *const AtomicU32, n: u32) -> usize {
    wake_op(word, n, 0)
}

/// Asks for at least `slots` buckets in this process's table of private futexes. Returns `false` if the
/// kernel (before 6.16) has one table for all.
///
/// By default the table has 16 buckets for each thread that could run at once. So 10,000 sleeping threads
/// share a few dozen chains, and every wake walks one.
pub(crate) fn grow_hash(slots: u32) -> bool {
    const PR_FUTEX_HASH: libc::c_int = 78;
    const PR_FUTEX_HASH_SET_SLOTS: libc::c_ulong = 1;
    const NO_FLAGS: libc::c_ulong = 0;
    // SAFETY: this prctl takes plain numbers and touches no memory of the process.
    let rc = unsafe {
        libc::prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, libc::c_ulong::from(slots), NO_FLAGS, 0)
    };
    rc == 0
}

/// Makes the system call itself: no green thread waits for a word of this crate by a futex (`interpose`).
/// Returns an error as a negative number. `errno` stays what it was: C programs have theirs there, across
/// their locks.
#[cfg(all(feature = "interpose", target_env = "gnu"))]
unsafe fn call(word: *const u32, operation: i32, value: u32, time: *const libc::timespec, mask: u32) -> i64 {
    use super::next::{errno, fail, syscall};
    let (word, time) = (word.expose_provenance() as i64, time.expose_provenance() as i64);
    let before = errno();
    // SAFETY: the caller's promise.
    let rc = unsafe { syscall(libc::SYS_futex, word, operation.into(), value.into(), time, 0, mask.into()) };
    if rc >= 0 {
        return rc;
    }
    let error = errno();
    let _: i8 = fail(before);
    -i64::from(error)
}

/// Makes the system call. Returns an error as a negative number.
#[cfg(not(all(feature = "interpose", target_env = "gnu")))]
unsafe fn call(
    word: *const u32,
    operation: i32,
    value: u32,
    time: *const libc::timespec,
    mask: u32,
) -> libc::c_long {
    // SAFETY: the caller's promise.
    let rc =
        unsafe { libc::syscall(libc::SYS_futex, word, operation, value, time, ptr::null::<u32>(), mask) };
    if rc >= 0 {
        rc
    } else {
        -libc::c_long::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

fn wait_op(word: &AtomicU32, expected: u32, deadline: Option<Moment>, flag: libc::c_int) -> Waited {
    let until = deadline.and_then(clock_value);
    let until: *const libc::timespec = until.as_ref().map_or(ptr::null(), ptr::from_ref);
    // The bitset form, because the plain one takes relative times.
    let operation = libc::FUTEX_WAIT_BITSET | flag;
    // SAFETY: the word is a reference, and `until` is null or a local. The kernel reads both and writes
    // neither.
    let rc = unsafe { call(word.as_ptr(), operation, expected, until, MATCH_ANY) };
    match -rc as i32 {
        0 => Waited::Woken,
        libc::ETIMEDOUT => Waited::TimedOut,
        error => {
            debug_assert!(matches!(error, libc::EAGAIN | libc::EINTR), "futex wait: {error}");
            Waited::Woken
        }
    }
}

fn wake_op(word: *const AtomicU32, n: u32, flag: libc::c_int) -> usize {
    let n = n.min(i32::MAX.cast_unsigned());
    // SAFETY: the kernel uses the address as a key and does not access the memory. (A shared word's page is
    // looked up, and the call fails if there is none.)
    let rc = unsafe { call(word.cast(), libc::FUTEX_WAKE | flag, n, ptr::null(), 0) };
    usize::try_from(rc).unwrap_or(0)
}

/// Returns `deadline` as the kernel counts it; `None` if that is beyond what it can count, that is, never.
fn clock_value(deadline: Moment) -> Option<libc::timespec> {
    let nanos = deadline.as_nanos();
    Some(libc::timespec {
        tv_sec: (nanos / 1_000_000_000).try_into().ok()?,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    include!("futex_tests.rs");

    #[test]
    fn a_wake_needs_no_memory_behind_its_address() {
        assert_eq!(wake(ptr::without_provenance(0x1000), 1), 0);
        assert_eq!(wake_shared(ptr::without_provenance(0x1000), 1), 0);
    }

    #[test]
    fn a_deadline_too_far_to_count_is_no_deadline() {
        let far = Moment::from_nanos(u64::MAX);
        assert!(clock_value(far).is_none_or(|t| t.tv_sec > 1 << 34));
        // The kernel takes it.
        let word = AtomicU32::new(0);
        assert_eq!(wait(&word, 1, Some(far)), Waited::Woken);
    }

    #[test]
    fn a_larger_hash_table_is_one_that_works() {
        crate::sys::child_tests::isolated(
            concat!(module_path!(), "::a_larger_hash_table_is_one_that_works"),
            || {
                if !grow_hash(1024) {
                    eprintln!("skipped: this kernel has one futex table for all processes");
                    return;
                }
                // SAFETY: plain numbers. 78, 2: PR_FUTEX_HASH, PR_FUTEX_HASH_GET_SLOTS.
                assert_eq!(unsafe { libc::prctl(78, 2_u64, 0_u64, 0_u64, 0_u64) }, 1024);
                a_wake_reaches_every_sleeper_once();
            },
        );
    }
}
