//! The program's own futexes: words that green threads wait for in a queue, and kernel threads in the kernel.
//!
//! **Problem.** A lock that has never heard of this crate (std's, parking_lot's) asks the kernel to wait for
//! a word, and to wake what waits there. A green thread that did so would take its LWP along. But the threads
//! that share the word may be of both kinds, and no lock says which.
//!
//! **Rejected.**
//!
//! - One queue of ours for all threads. A kernel thread whose call this crate does not see (in a C library,
//!   or as an instruction) would not be found there.
//! - To count the kernel threads that wait, and to ask the kernel only then. The same threads would not be
//!   counted.
//!
//! **Protocol.** A waker changes the word first, as with the kernel.
//!
//! 1. The first green waiter says once and for all that there may be such ([`EVER`]), with a fence. A green
//!    waiter that comes after that compares the word, and queues, both with the lock of the word's queue
//!    held. Others wait in the kernel.
//! 2. A waker that finds `EVER` clear, after a fence, asks only the kernel. Otherwise it takes waiters off
//!    the queue, and asks the kernel for as many as are still to be woken. Every [`KERNEL_FIRST`]th time of a
//!    thread it asks the kernel first: a kernel thread does not wait for as long as green ones come.
//!
//! **Proof** that no wake-up is lost. If a green waiter has compared before a waker takes the lock, it is
//! found. If it compares afterwards, it sees the changed word. If the waker found `EVER` clear, its fence
//! came before the first waiter's. All waiters compare after that, so they see the changed word. For kernel
//! threads, the kernel gives the proof: it is asked, unless as many threads as were meant have been woken.

pub(crate) mod cut;
pub(crate) mod errands;
pub(crate) mod left;
pub(crate) mod semaphore_word;

use std::cell::Cell;

use super::reason::WaitReason;
use super::wait::{Wait, WaitError};
use super::wait_queue::{self, Invalid, Options, Order, Token, Woken};
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::shim::{global, local};

/// How often a thread that wakes others asks the kernel before the queue. The kernel is asked at one wake-up
/// of so many. To ask it at each would cost a system call each time. Never to ask it would let a kernel
/// thread wait for as long as green threads hand a lock to each other.
const KERNEL_FIRST: u32 = 64;

/// Every thread is meant: the kernel's `FUTEX_BITSET_MATCH_ANY`.
pub(crate) const ANY: u32 = u32::MAX;

/// The only token of these queues.
const WOKEN: Token = Token(0);

global! {
    // A green thread has waited, or is about to. It stays set.
    static EVER: AtomicBool = AtomicBool::new(false);
    // The same, behind a fence.
    static ANNOUNCED: AtomicBool = AtomicBool::new(false);
}

local! {
    // The number of this thread's next wake-up, from 1 to `KERNEL_FIRST`; 0: it has not woken others yet.
    static NEXT_WAKE: Cell<u32> = Cell::new(0);
}

global! {
    // How many threads have woken others. Each begins to count where the last one did, plus one. So threads
    // that wake others only once ask the kernel, too.
    static WAKERS: AtomicU32 = AtomicU32::new(0);
}

/// Why a wait ended without a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWoken {
    /// The word was another, so the thread did not wait.
    Differs,
    /// The deadline has passed.
    TimedOut,
    /// An interrupt came, which this has reported.
    Interrupted,
}

/// The key of a futex's queue. Its second byte, because a lock of ours may begin where a futex has been.
fn key(word: usize) -> usize {
    word | 1
}

/// Does step 1 for the running thread, which is green. `is_same` compares the word; it must not unwind.
/// `mask` is not 0: the waiter hears wakers that have a bit of it.
pub(crate) fn wait(
    word: usize,
    mask: u32,
    wait: Wait,
    is_same: impl FnOnce() -> bool,
) -> Result<(), NotWoken> {
    announce();
    let demand = mask as usize;
    let options =
        Options { order: Order::Fifo, demand, spin: false, ..Options::new(WaitReason::Futex, wait) };
    match wait_queue::wait(key(word), &options, is_same, || ()) {
        Ok(Woken::Granted(_)) => Ok(()),
        Ok(Woken::Ended { why, .. }) => Err(match why.reported() {
            WaitError::TimedOut => NotWoken::TimedOut,
            WaitError::Interrupted => NotWoken::Interrupted,
        }),
        Err(Invalid) => Err(NotWoken::Differs),
    }
}

/// Says that there may be green waiters, before the comparison.
#[inline]
fn announce() {
    // Acquire: pairs with the store behind the fence.
    if !ANNOUNCED.load(Ordering::Acquire) {
        announce_first();
    }
}

#[cold]
fn announce_first() {
    // Relaxed: the fence orders it.
    EVER.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    // Release: a waiter that sees it comes after the fence, and needs none.
    ANNOUNCED.store(true, Ordering::Release);
}

/// Returns `false` if no green thread has waited for a futex, so that only the kernel need be asked. The
/// caller has changed the word before.
#[inline]
pub(crate) fn may_have_waiters() -> bool {
    // Relaxed: if it is set, the queue's lock orders the rest.
    EVER.load(Ordering::Relaxed) || {
        fence(Ordering::SeqCst);
        // Relaxed: the fence orders it.
        EVER.load(Ordering::Relaxed)
    }
}

/// Does step 2: wakes at most `most` waiters that have a bit of `mask`. `kernel` wakes so many of those in
/// the kernel, and returns how many it has woken. Returns how many were woken in all.
pub(crate) fn wake(word: usize, mask: u32, most: usize, kernel: impl FnOnce(usize) -> usize) -> usize {
    wake_in_order(is_kernel_first(), word, mask, most, kernel)
}

fn wake_in_order(
    kernel_first: bool,
    word: usize,
    mask: u32,
    most: usize,
    kernel: impl FnOnce(usize) -> usize,
) -> usize {
    let queue = |most| {
        if most == 1 && mask == ANY {
            return wait_queue::grant_one(key(word), |_| WOKEN).map_or(0, |grant| {
                grant.wake();
                1
            });
        }
        let accepts = |demand: usize| demand as u32 & mask != 0;
        let accepts: Option<&dyn Fn(usize) -> bool> = if mask == ANY { None } else { Some(&accepts) };
        let (grants, count) = wait_queue::grant_some(key(word), WOKEN, most, accepts);
        grants.wake_all();
        count
    };
    in_order(kernel_first, most, queue, kernel)
}

/// Wakes at most `most` threads: in the queue, and as many as are left in the kernel, or the other way
/// round. Returns how many were woken.
pub(super) fn in_order(
    kernel_first: bool,
    most: usize,
    queue: impl FnOnce(usize) -> usize,
    kernel: impl FnOnce(usize) -> usize,
) -> usize {
    if kernel_first {
        let woken = kernel(most);
        return if woken < most { woken + queue(most - woken) } else { woken };
    }
    let woken = queue(most);
    if woken < most { woken + kernel(most - woken) } else { woken }
}

/// Returns `true` every [`KERNEL_FIRST`]th time for a thread, and for threads that ask once.
pub(super) fn is_kernel_first() -> bool {
    NEXT_WAKE.with(|next| {
        let wake = match next.get() {
            // Relaxed: only the number matters.
            0 => WAKERS.fetch_add(1, Ordering::Relaxed) % KERNEL_FIRST + 1,
            wake => wake,
        };
        next.set(wake % KERNEL_FIRST + 1);
        wake == KERNEL_FIRST
    })
}

/// Wakes at most `wake.1` green waiters of the first word, and moves at most `moved.1` others to the queue of
/// the second. Does so only if `is_same` returns `true`: it compares the first word, with both queues locked.
/// Returns both numbers. Threads in the kernel are left to the caller.
pub(crate) fn requeue(
    wake: (usize, usize),
    moved: (usize, usize),
    is_same: impl FnOnce() -> bool,
) -> Option<(usize, usize)> {
    let (from, to) = ((key(wake.0), wake.1), (key(moved.0), moved.1));
    let (grants, woken, moved) = wait_queue::grant_and_requeue(from, to, WOKEN, is_same)?;
    grants.wake_all();
    Some((woken, moved))
}

#[cfg(all(test, loom))]
mod loom_futex;

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel thread does not wait for as long as green threads come that wake each other once, and end.
    #[test]
    fn the_kernel_is_asked_first_however_short_threads_live() {
        let asks = |wakes| std::thread::spawn(move || (0..wakes).filter(|_| is_kernel_first()).count());
        assert_eq!(asks(3 * KERNEL_FIRST).join().unwrap(), 3);
        let asked: usize = (0..4 * KERNEL_FIRST).map(|_| asks(1).join().unwrap()).sum();
        assert!(asked > 0);
    }
}
