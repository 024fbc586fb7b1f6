//! Room for one more kernel thread.
//!
//! **Problem.** The number of mappings of a process is limited (`vm.max_map_count`, 65,530 by default). A
//! kernel thread takes four: its stack, its signal stack, and a guard for each. The signal stack is mapped by
//! std in the new thread, where no caller is left to be told. If that fails, it panics, and the process
//! aborts, at about the 16,300th thread.
//!
//! So before a thread starts another one, it makes sure that there is room. That includes room for threads
//! that have been started and do not have their mappings yet. The kernel's list of mappings may be long. It
//! is read when half of what it left has been used up, and not for the first few.
//!
//! If a look finds no room, that answer stands for a second, unless a thread ends in between. It takes the
//! kernel half a second to list as many mappings as it allows, and a program that is refused asks again.
//!
//! **Rejected.**
//!
//! - To create that many mappings and give them back: threads that start at that moment find none.
//! - To map the signal stack before: only the thread itself can set it, and std maps another unless it finds
//!   one.
//! - To look from a certain number of living threads on. How many are too many depends on the limit, and on
//!   what else the program has mapped.

use std::io;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::shim::OnceLock;
use crate::shim::fork::Generation;
use crate::sys::mmap::mappings_left;

/// There is room for this many in any process, and most processes have no more.
const FEW: isize = 64;
/// The number of mappings of a kernel thread.
const EACH: usize = 4;
/// The number of mappings that are left to others.
const SPARE: usize = 256;

/// Kernel threads that may not have their mappings yet.
static STARTING: AtomicUsize = AtomicUsize::new(0);
/// How many may be started before the next look at the list.
static UNLOOKED: AtomicIsize = AtomicIsize::new(FEW);

/// How many kernel threads have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);
/// The last look that found no room; zero for none. It holds the time, in ms after the first look plus one,
/// and how many threads had ended by then.
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// How long that look counts.
const FRESH: Duration = Duration::from_secs(1);

/// Notes that a kernel thread that had headroom ends.
pub(super) fn ended() {
    // Relaxed: as in `take`.
    ENDED.fetch_add(1, Ordering::Relaxed);
}

/// Returns this moment in the form of [`REFUSED`].
fn moment() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1;
    now << 32 | u64::from(ENDED.load(Ordering::Relaxed) as u32)
}

/// Returns `true` if a look a moment ago found no room, and no thread has ended since.
fn was_refused() -> bool {
    let refused = REFUSED.load(Ordering::Relaxed);
    refused != 0 && is_fresh(refused, moment())
}

/// Returns `true` if `refused` is a moment before `now`, and no thread has ended in between. The 32 bits of
/// the time wrap after 49 days.
fn is_fresh(refused: u64, now: u64) -> bool {
    let passed = ((now >> 32) as u32).wrapping_sub((refused >> 32) as u32);
    refused as u32 == now as u32 && u128::from(passed) < FRESH.as_millis()
}

/// One kernel thread's claim on its mappings. It lasts from before the start of the thread until the thread
/// has them, or is certain not to come.
#[derive(Debug)]
pub(super) struct Headroom(());

impl Headroom {
    /// Takes the headroom of a thread that is about to be started.
    ///
    /// # Errors
    /// `OutOfMemory`: there is no room for it.
    pub(super) fn take() -> io::Result<Self> {
        Generation::watched(forget_all)?;
        // Relaxed, here and below: counts that order nothing.
        STARTING.fetch_add(1, Ordering::Relaxed);
        let headroom = Self(());
        if UNLOOKED.fetch_sub(1, Ordering::Relaxed) <= 0 {
            look()?;
        }
        Ok(headroom)
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        STARTING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Forgets the threads that were starting, which belong to the parent. Called in the child of a fork. What
/// they had mapped by then is there.
fn forget_all() {
    STARTING.store(0, Ordering::Relaxed);
}

/// The error message if there is no room.
const NO_ROOM: &str =
    "no mappings are left for it: the last are reserved for threads that are starting and for other uses";

/// Asks the kernel how much room is left.
#[cold]
fn look() -> io::Result<()> {
    if was_refused() {
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, NO_ROOM));
    }
    let Some(left) = mappings_left() else {
        UNLOOKED.store(isize::MAX, Ordering::Relaxed);
        return Ok(());
    };
    let claimed = STARTING.load(Ordering::Relaxed) * EACH + SPARE;
    let Some(free) = left.checked_sub(claimed) else {
        REFUSED.store(moment(), Ordering::Relaxed);
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, NO_ROOM));
    };
    UNLOOKED.store((free / EACH / 2) as isize, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::child_tests::isolated;

    /// Other tests of this process start threads, too, so this only checks what a child finds.
    #[cfg(unix)]
    #[test]
    fn a_fork_has_no_threads_that_start() {
        let _headroom = Headroom::take().unwrap();
        assert!(STARTING.load(Ordering::Relaxed) > 0);
        // SAFETY: the child reads a number and leaves.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let wrong = STARTING.load(Ordering::Relaxed) != 0;
            // SAFETY: no preconditions.
            unsafe { libc::_exit(wrong.into()) };
        }
        let mut status = -1;
        // SAFETY: a child of this process, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn a_claim_ends_with_its_thread_or_with_the_attempt() {
        isolated(concat!(module_path!(), "::a_claim_ends_with_its_thread_or_with_the_attempt"), || {
            let claims = || STARTING.load(Ordering::Relaxed);
            let one = Headroom::take().unwrap();
            let other = Headroom::take().unwrap();
            assert_eq!(claims(), 2);
            drop(one);
            drop(other);
            assert_eq!(claims(), 0);
        });
    }

    #[test]
    fn a_refusal_is_fresh_after_49_days_too() {
        let at = |time: u64| time << 32 | 7;
        let days = u64::from(u32::MAX);
        assert!(is_fresh(at(days), at(days + 1)) && is_fresh(at(days + 5), at(days + 6)));
        assert!(!is_fresh(at(days), at(days + FRESH.as_millis() as u64)));
        assert!(!is_fresh(at(3), at(3) + 1), "a thread has ended");
    }

    #[test]
    fn a_refusal_counts_for_a_moment_and_until_a_thread_ends() {
        isolated(concat!(module_path!(), "::a_refusal_counts_for_a_moment_and_until_a_thread_ends"), || {
            // On a busy machine, the moment may be over.
            let is_told = || {
                REFUSED.store(moment(), Ordering::Relaxed);
                was_refused()
            };
            assert!(!was_refused());
            assert!((0..100).any(|_| is_told()));
            ended();
            assert!(!was_refused(), "a thread has ended");
            assert!((0..100).any(|_| is_told()));
            std::thread::sleep(FRESH);
            assert!(!was_refused(), "that was long ago");
        });
    }
}
