//! How many waiters of a broadcast are on their way to a mutex at once.
//!
//! **Problem.** A broadcast moves waiters to a mutex, whose unlocks grant them. To wake one at a time makes a
//! chain. Each kernel thread is woken on an idle CPU that has fallen asleep. That takes ten times as long as
//! what the thread does. To wake all at once makes a herd: more and more of them find the lock taken, and
//! queue again.
//!
//! | company of one grant | a broadcast to 1,000 with the mutex held, on two CPUs, us a waiter |
//! |---|---|
//! | 0 | 20.6 |
//! | 3 | 3.4 |
//! | 7, 15 | 2.8, 3.0 |
//! | 31, 127 | 3.4, 4.1 |
//! | all | 5.5 |
//!
//! And if the CPUs are busy, all that are woken wait for a CPU together. Ten thousand threads then take turns
//! with cold caches, although a hundred of them would keep the CPUs busy. That is how 5,000 games of
//! Ping-Pong, which a barrier starts, took 2.5 s. With 3 threads on their way they took 1.0.
//!
//! **Rejected.**
//!
//! - Only a number for each grant: among thousands, there are many unlocks before one that was woken runs.
//! - To count the threads that can run: a thread that waits in a system call looks as if it could.
//!
//! **Protocol.** All mutexes of the process share one count of kernel threads that were woken in company and
//! have not run since. A grant wakes no more than are still allowed. One batch at a time is timed, from the
//! grant until its first thread runs. If that takes longer than [`SOON`], the CPUs are busy, and from then on
//! half as many are allowed. Otherwise it is one more.
//!
//! Green threads are not counted: their wake-up costs a hundredth, and a runtime has a queue of its own.

use super::current;
use super::waiter::Token;
use crate::shim::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::shim::{OnceLock, assumed_crowd, fork, global};
use crate::time::{self, Moment};

/// The most company of one grant.
pub(crate) const MOST: usize = 15;

/// The most that are on their way.
const COMING_MOST: usize = 64;

/// The way to an idle CPU takes less than this, in us.
const SOON: u32 = 100;

/// A grant: the waiter tries as if it had not waited; another one comes before it.
pub(crate) const IN_COMPANY: Token = Token(3);
/// The same, of a batch that is timed.
const TIMED: Token = Token(4);

global! {
    /// Kernel threads that were woken in company and have not run since.
    static COMING: AtomicUsize = AtomicUsize::new(0);
    /// How many of them are allowed: 1 to [`MOST`].
    static ALLOWED: AtomicUsize = AtomicUsize::new(COMING_MOST);
    /// When the batch that is timed was woken ([`micros`]); 0 if none is.
    static WOKEN_AT: AtomicU32 = AtomicU32::new(0);
}

// Relaxed, all: counts and guesses, which order nothing.

/// Returns how many more kernel threads may be woken in company now.
pub(crate) fn room() -> usize {
    if assumed_crowd().is_some() {
        return COMING_MOST;
    }
    // In the child of a fork, those that were on their way never come.
    let coming = if fork::is_child() { 0 } else { COMING.load(Ordering::Relaxed) };
    ALLOWED.load(Ordering::Relaxed).saturating_sub(coming)
}

/// Notes that so many kernel threads are woken in company. Returns what they are told.
pub(crate) fn leaves(count: usize) -> Token {
    if count == 0 || assumed_crowd().is_some() {
        return IN_COMPANY;
    }
    COMING.fetch_add(count, Ordering::Relaxed);
    if WOKEN_AT.load(Ordering::Relaxed) != 0 {
        return IN_COMPANY;
    }
    // If two do so at once, one of the two times is forgotten.
    WOKEN_AT.store(micros(), Ordering::Relaxed);
    TIMED
}

/// Notes that the running thread has arrived, if `token` says that it came in company.
#[inline]
pub(crate) fn arrives(token: Token) {
    if (token == IN_COMPANY || token == TIMED) && current::is_kernel() && assumed_crowd().is_none() {
        arrived(token);
    }
}

#[cold]
fn arrived(token: Token) {
    COMING.fetch_sub(1, Ordering::Relaxed);
    if token == TIMED {
        let woken_at = WOKEN_AT.swap(0, Ordering::Relaxed);
        if woken_at != 0 {
            let allowed = ALLOWED.load(Ordering::Relaxed);
            let was_soon = micros().wrapping_sub(woken_at) < SOON;
            let next = if was_soon { allowed + 1 } else { allowed / 2 };
            ALLOWED.store(next.clamp(1, COMING_MOST), Ordering::Relaxed);
        }
    }
}

/// Returns the time since the first call, in us, but never 0.
fn micros() -> u32 {
    static FIRST: OnceLock<Moment> = OnceLock::new();
    let now = time::now();
    (now - *FIRST.get_or_init(|| now)).as_micros() as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::child_tests::isolated;

    /// Alone in a process, since all mutexes share the count.
    #[test]
    fn as_many_are_on_their_way_as_run_soon() {
        isolated(concat!(module_path!(), "::as_many_are_on_their_way_as_run_soon"), || {
            current::current();
            assert_eq!(room(), COMING_MOST);
            assert_eq!(leaves(0), IN_COMPANY);
            // The first of the timed batch decides.
            assert_eq!(leaves(2), TIMED);
            assert_eq!((leaves(3), room()), (IN_COMPANY, COMING_MOST - 5));
            std::thread::sleep(std::time::Duration::from_micros(2 * u64::from(SOON)));
            arrives(IN_COMPANY);
            assert_eq!(room(), COMING_MOST - 4);
            arrives(TIMED);
            assert_eq!(room(), COMING_MOST / 2 - 3);
            (0..3).for_each(|_| arrives(TIMED));
            assert_eq!(room(), COMING_MOST / 2);
            // One at least, however late they are.
            for _ in 0..10 {
                assert_eq!(leaves(1), TIMED);
                WOKEN_AT.store(micros().wrapping_sub(2 * SOON) | 1, Ordering::Relaxed);
                arrives(TIMED);
            }
            assert_eq!(room(), 1);
            let is_more = || {
                assert_eq!(leaves(1), TIMED);
                arrives(TIMED);
                room() > 1
            };
            assert!((0..100_000).any(|_| is_more()));
        });
    }
}
