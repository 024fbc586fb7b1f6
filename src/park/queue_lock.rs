//! The lock inside the runtime: it blocks the kernel thread, never a green thread.
//!
//! **Problem.** Buckets of the wait queue, free lists and timer heaps are touched for some 20 ns at a time, on the way
//! of every hand-off, by green threads, LWPs and kernel threads alike. A lock that put a green thread to sleep would
//! need itself. What counts is the uncontended cost: one read-modify-write (5 ns) to lock, a plain store to unlock.
//!
//! **Rejected.** A futex lock: its unlock must learn whether anybody sleeps, and that is a second read-modify-write
//! (or a second line) on every hand-off, paid to shorten a case that needs a holder preempted by the kernel in a window
//! of 20 ns. A ticket lock: fair, but a preempted waiter stops all behind it. A blind spin: on one CPU a waiter would
//! burn its whole slice while the holder waits for that very CPU.
//!
//! **Protocol.** `FREE -> HELD` by compare-and-swap, `HELD -> FREE` by a store. A contender backs off (`backoff.rs`).
//!
//! **Cost.** Lock 1 read-modify-write, unlock 0.
//!
//! Debug builds check ranks: a lock may be taken only while all locks held by this thread have a lower rank (or the
//! same one, through [`lock_pair`], which orders by address).

use std::fmt;

use super::backoff::Backoff;
use super::no_preempt::NoPreempt;
use crate::shim::atomic::{AtomicU8, Ordering};
use crate::shim::{UnsafeCell, const_new, local};

/// The order in which locks may be nested: a lock may be taken while locks of lower rank are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rank {
    /// Locks of a runtime under which wait queues are used (none so far inside this crate's own queues).
    Outer = 0,
    /// Buckets of the wait queue table.
    Bucket = 1,
    /// Timers, run queues and idle lists: taken by a wake-up.
    Scheduler = 2,
    /// Free lists of cores, stacks and blocks: taken under anything, nothing taken under them.
    Pool = 3,
}

/// A value guarded by one byte.
pub(crate) struct QueueLock<T> {
    word: Word,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the lock, by one thread at a time.
unsafe impl<T: Send> Sync for QueueLock<T> {}
// SAFETY: nothing in it belongs to the thread that made it.
unsafe impl<T: Send> Send for QueueLock<T> {}

impl<T> QueueLock<T> {
    const_new! {
        /// A free lock of rank `rank`.
        pub(crate) const fn new(rank: Rank, value: T) -> Self {
            Self { word: Word::new(), rank, value: UnsafeCell::new(value) }
        }
    }

    /// Runs `f` with the lock held. `f` is short, and neither sleeps nor switches stacks.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with_held(&NoPreempt::hold(), f)
    }

    /// [`with`](Self::with) by somebody who may not be preempted already.
    #[inline]
    pub(crate) fn with_held<R>(&self, _: &NoPreempt, f: impl FnOnce(&mut T) -> R) -> R {
        ranks::check(self.rank);
        let _held = self.word.hold(self.rank);
        // SAFETY: the lock is held until `_held` drops, after `f`.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// [`with`](Self::with), unless somebody holds the lock this moment.
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _no_preempt = NoPreempt::hold();
        if !self.word.try_lock() {
            return None;
        }
        ranks::push(self.rank);
        let _held = Held { word: &self.word, rank: self.rank };
        // SAFETY: the lock is held until `_held` drops, after `f`.
        Some(self.value.with_mut(|value| f(unsafe { &mut *value })))
    }

    /// Takes the lock, for one who must hold any number at once. `others`: locks of the same rank are held already, whose addresses
    /// are all lower.
    ///
    /// # Safety
    /// The caller gives it back by [`give_up`](Self::give_up), while `no_preempt` lasts.
    pub(crate) unsafe fn seize(&self, _no_preempt: &NoPreempt, others: bool) {
        if !others {
            ranks::check(self.rank);
        }
        std::mem::forget(self.word.hold(self.rank));
    }

    /// Runs `f` with the value of a lock that the caller has seized.
    ///
    /// # Safety
    /// The caller holds it, and `f` does not call back.
    pub(crate) unsafe fn seized<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock is held by the caller.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Frees a lock that the caller has seized.
    ///
    /// # Safety
    /// The caller holds it.
    pub(crate) unsafe fn give_up(&self) {
        drop(Held { word: &self.word, rank: self.rank });
    }

    /// Frees the lock of a holder that is not there, after `mend` has seen the value, and whether there was one, who may have left a
    /// change of it half done.
    ///
    /// # Safety
    /// In the child of a fork, by its only thread, which does not hold the lock.
    pub(crate) unsafe fn mend(&self, mend: impl FnOnce(&mut T, bool)) {
        let held = self.word.is_held();
        // SAFETY: the caller is the only thread there is.
        self.value.with_mut(|value| mend(unsafe { &mut *value }, held));
        if held {
            self.word.unlock();
        }
    }
}

/// Runs `f` with both locks held; with one and `None` if they are the same. Locks of one rank are taken in the order
/// of their addresses, so that two such calls cannot wait for each other.
pub(crate) fn lock_pair<T, R>(
    one: &QueueLock<T>,
    other: &QueueLock<T>,
    f: impl FnOnce(&mut T, Option<&mut T>) -> R,
) -> R {
    if std::ptr::eq(one, other) {
        return one.with(|value| f(value, None));
    }
    let (first, second) =
        if std::ptr::from_ref(one) < std::ptr::from_ref(other) { (one, other) } else { (other, one) };
    let _no_preempt = NoPreempt::hold();
    ranks::check(first.rank);
    let _first = first.word.hold(first.rank);
    let _second = second.word.hold(second.rank);
    one.value.with_mut(|one| {
        other.value.with_mut(|other| {
            // SAFETY: its lock is held until the guards drop, after `f`.
            let one = unsafe { &mut *one };
            // SAFETY: as above; it is another lock's value.
            f(one, Some(unsafe { &mut *other }))
        })
    })
}

impl<T> fmt::Debug for QueueLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLock").field("rank", &self.rank).finish_non_exhaustive()
    }
}

/// Evidence that the lock is held; frees it, also when `f` unwinds.
struct Held<'a> {
    word: &'a Word,
    rank: Rank,
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        ranks::pop(self.rank);
        self.word.unlock();
    }
}

/// | value | meaning |
/// |---|---|
/// | `FREE` | the value belongs to whoever swaps in `HELD` |
/// | `HELD` | the value belongs to one thread, which alone stores `FREE` |
struct Word(AtomicU8);

const FREE: u8 = 0;
const HELD: u8 = 1;

impl Word {
    const_new! {
        const fn new() -> Self {
            Self(AtomicU8::new(FREE))
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release store of `unlock`, so that the last holder's writes are visible.
        self.0.compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        let mut backoff = Backoff::new();
        // Relaxed: only a look; `try_lock` orders.
        while self.0.load(Ordering::Relaxed) != FREE || !self.try_lock() {
            backoff.pause();
        }
    }

    fn is_held(&self) -> bool {
        // Relaxed: only a look.
        self.0.load(Ordering::Relaxed) == HELD
    }

    #[inline]
    fn hold(&self, rank: Rank) -> Held<'_> {
        self.lock();
        ranks::push(rank);
        Held { word: self, rank }
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with `try_lock`.
        self.0.store(FREE, Ordering::Release);
    }
}

/// Which ranks this thread holds, in debug builds; nothing in release builds.
///
/// A native thread-local: a queue lock is never held across a stack switch, so a green thread and its LWP cannot mix
/// theirs up.
mod ranks {
    use std::cell::Cell;

    use super::{Rank, local};

    local! {
        static HELD: Cell<[u8; 4]> = Cell::new([0; 4]);
    }

    #[inline]
    pub(super) fn check(rank: Rank) {
        if cfg!(debug_assertions) {
            HELD.with(|held| {
                let above = held.get()[rank as usize..].iter().any(|&n| n != 0);
                assert!(!above, "lock of rank {rank:?} taken under one of the same or a higher rank");
            });
        }
    }

    #[inline]
    pub(super) fn push(rank: Rank) {
        change(rank, 1);
    }

    #[inline]
    pub(super) fn pop(rank: Rank) {
        change(rank, u8::MAX);
    }

    #[inline]
    fn change(rank: Rank, by: u8) {
        if cfg!(debug_assertions) {
            HELD.with(|held| {
                let mut counts = held.get();
                counts[rank as usize] = counts[rank as usize].wrapping_add(by);
                held.set(counts);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn keeps_threads_apart() {
        const ROUNDS: u64 = 20_000;
        let lock = QueueLock::new(Rank::Pool, 0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..ROUNDS).for_each(|_| lock.with(|n| *n += 1)));
            }
        });
        assert_eq!(lock.with(|n| *n), 4 * ROUNDS);
    }

    #[test]
    fn a_waiter_outlasts_a_slow_holder() {
        let lock = QueueLock::new(Rank::Pool, false);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(|| {
                lock.with(|done| {
                    sender.send(()).unwrap();
                    // Long enough for the waiter to spin, yield and nap.
                    std::thread::sleep(Duration::from_millis(5));
                    *done = true;
                });
            });
            receiver.recv().unwrap();
            assert!(lock.with(|done| *done));
        });
    }

    #[test]
    fn pairs_are_taken_in_either_order() {
        let (a, b) = (QueueLock::new(Rank::Bucket, 1), QueueLock::new(Rank::Bucket, 2));
        assert_eq!(lock_pair(&a, &b, |x, y| (*x, y.copied())), (1, Some(2)));
        assert_eq!(lock_pair(&b, &a, |x, y| (*x, y.copied())), (2, Some(1)));
        assert_eq!(lock_pair(&a, &a, |x, y| (*x, y.copied())), (1, None));
    }

    #[test]
    fn a_panic_frees_the_lock() {
        let lock = QueueLock::new(Rank::Pool, 0);
        let unwound =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.with(|_| panic!("on purpose"))));
        assert!(unwound.is_err());
        assert_eq!(lock.with(|n| *n), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "rank")]
    fn a_rank_may_not_be_taken_twice() {
        let (a, b) = (QueueLock::new(Rank::Bucket, ()), QueueLock::new(Rank::Bucket, ()));
        a.with(|()| b.with(|()| ()));
    }
}
