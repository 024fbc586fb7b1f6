//! Naps of kernel threads that wait for a thread of this crate that has lost its CPU. A nap is sleep in the
//! kernel that is not to be taken for blocking.
//!
//! **Problem.** A thread that waits for a lock of the runtime ends by sleeping for a moment. From outside,
//! that looks like a blocking call. If the monitor gives the LWP's slot to another, one thread more runs to
//! the same lock, and naps there. Seven hundred LWPs that wake up every 50 us leave no CPU to the one they
//! wait for.
//!
//! **Rejected.** To give the CPU away forever instead: the holder may have a lower real-time priority. A mark
//! in the LWP: a napping thread does not know its LWP, and may have none.
//!
//! **Protocol.** A thread that naps writes its kernel thread id into a place of a small table, and takes it
//! out again. If all places are taken, it gives its CPU away instead.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::Tid;
use super::kthread::gettid;

static NAPPING: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// Blocks the calling kernel thread for about `time`, or less.
pub(crate) fn nap(time: Duration) {
    let me = gettid();
    // Relaxed, here and below: the number is all there is. A look at the wrong moment acts as if there were
    // no table.
    let mine = NAPPING.iter().find(|place| {
        place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    });
    match mine {
        Some(place) => {
            std::thread::sleep(time);
            place.store(0, Ordering::Relaxed);
        }
        None => std::thread::yield_now(),
    }
}

/// Returns `true` if the kernel thread `tid` is known to nap. A number of 0 is not known: free places have
/// it.
pub(crate) fn is_napping(tid: Tid) -> bool {
    tid != 0 && NAPPING.iter().any(|place| place.load(Ordering::Relaxed) == tid)
}

/// Empties the table in a child of a fork. Called by its only thread.
pub(crate) fn in_child() {
    NAPPING.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_place_is_no_thread() {
        assert!(!is_napping(0));
    }

    #[test]
    fn a_napping_thread_is_known() {
        let me = gettid();
        let (done, seen) = (std::sync::atomic::AtomicBool::new(false), std::sync::Barrier::new(2));
        std::thread::scope(|s| {
            s.spawn(|| {
                while !is_napping(me) {
                    std::thread::yield_now();
                }
                done.store(true, Ordering::Relaxed);
                seen.wait();
            });
            while !done.load(Ordering::Relaxed) {
                nap(Duration::from_millis(1));
            }
            seen.wait();
        });
        assert!(!is_napping(me));
    }

    #[test]
    fn more_may_nap_than_there_are_places() {
        std::thread::scope(|s| {
            (0..2 * NAPPING.len()).for_each(|_| drop(s.spawn(|| nap(Duration::from_millis(20)))));
        });
    }
}
