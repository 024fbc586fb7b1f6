//! The lock inside the runtime: it blocks the kernel thread, never a green thread.
//!
//! **Problem.** Buckets of the wait queue, free lists and timer heaps are used for some 20 ns at a time.
//! That happens on the path of every hand-off, by green threads, LWPs and kernel threads alike. A lock that
//! put a green thread to sleep would need itself. What counts is the uncontended cost: one read-modify-write
//! (5 ns) to lock, a plain store to unlock.
//!
//! **Rejected.**
//!
//! - A futex lock. Its unlock must learn if any thread sleeps, which takes a second read-modify-write (or a
//!   second line) in every hand-off. It would shorten only one case: the kernel preempts the holder in a
//!   window of 20 ns.
//! - A ticket lock. It is fair, but a preempted waiter stops all behind it.
//! - A blind spin. On one CPU, a waiter would burn its whole slice while the holder waits for that CPU.
//!
//! **Protocol.** `FREE -> HELD` by compare-and-swap, `HELD -> FREE` by a store. A contender backs off
//! (`backoff.rs`).
//!
//! **Cost.** Lock 1 read-modify-write, unlock 0.
//!
//! Debug builds check ranks: a lock may be taken only while all locks that this thread holds have a lower
//! rank. Locks of the same rank may be taken through [`lock_pair`], which orders by address.

use std::mem::offset_of;

use super::backoff::Backoff;
use super::no_preempt::NoPreempt;
use crate::shim::atomic::{AtomicU8, Ordering};
use crate::shim::{UnsafeCell, local};

/// The order in which locks may be nested: a lock may be taken while locks of lower rank are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum Rank {
    /// Locks under which wait queues are used: timer heaps, and the sleep records of threads that may be
    /// interrupted.
    Outer = -1,
    /// Buckets of the wait queue table. All bits are zero, so the table takes no room in the program's file.
    Bucket = 0,
    /// Run queues, idle lists and lists of LWPs. A wake-up takes them.
    Scheduler = 1,
    /// Free lists, and other data that is needed under any other lock. No lock is taken under them.
    Pool = 2,
}

impl Rank {
    /// Returns how many ranks are lower.
    const fn lower(self) -> usize {
        (self as i8 + 1) as usize
    }
}

/// A value guarded by one byte.
pub(crate) struct QueueLock<T> {
    word: Word,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through the lock, by one thread at a time.
unsafe impl<T: Send> Sync for QueueLock<T> {}
// SAFETY: nothing in it belongs to the thread that created it.
unsafe impl<T: Send> Send for QueueLock<T> {}

impl<T> QueueLock<T> {
    /// Where the value lies in it, for debuggers.
    pub(crate) const VALUE: usize = offset_of!(Self, value);

    /// Creates a free lock of rank `rank`.
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self { word: Word::new(), rank, value: UnsafeCell::new(value) }
    }

    /// Runs `f` with the lock held. `f` is short, and neither sleeps nor switches stacks.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with_held(&NoPreempt::hold(), f)
    }

    /// Does what [`with`](Self::with) does, for a caller that already forbids preemption.
    #[inline]
    pub(crate) fn with_held<R>(&self, _: &NoPreempt, f: impl FnOnce(&mut T) -> R) -> R {
        ranks::check(self.rank);
        let _held = self.word.hold(self.rank);
        // SAFETY: the lock is held until `_held` drops, after `f`.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Adds items to `all`, which `each` passes on one by one. Nothing is allocated with the lock held: there
    /// it counts the items that have no room, and begins again when there is some.
    pub(crate) fn copy_to<R>(&self, all: &mut Vec<R>, each: impl Fn(&T, &mut dyn FnMut(R))) {
        let before = all.len();
        loop {
            let mut missing = 0;
            self.with(|value| {
                each(value, &mut |item| {
                    if all.len() < all.capacity() { all.push(item) } else { missing += 1 }
                });
            });
            if missing == 0 {
                return;
            }
            all.reserve(missing);
            all.truncate(before);
        }
    }

    /// Does what [`with`](Self::with) does, unless the lock is held at this moment.
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _no_preempt = NoPreempt::hold();
        if !self.word.lock_if_free() {
            return None;
        }
        ranks::change(self.rank, 1);
        let _held = Held { word: &self.word, rank: self.rank };
        // SAFETY: the lock is held until `_held` drops, after `f`.
        Some(self.value.with_mut(|value| f(unsafe { &mut *value })))
    }

    /// Takes the lock, for a caller that must hold any number of locks at once. If `others` is `true`, the
    /// caller already holds locks of the same rank, all at lower addresses.
    ///
    /// # Safety
    /// The caller frees it by [`give_up`](Self::give_up), while `no_preempt` lasts.
    pub(crate) unsafe fn seize(&self, _no_preempt: &NoPreempt, others: bool) {
        if !others {
            ranks::check(self.rank);
        }
        std::mem::forget(self.word.hold(self.rank));
    }

    /// Runs `f` with the value of a lock that the caller has seized.
    ///
    /// # Safety
    /// The caller holds the lock, and `f` does not call back.
    pub(crate) unsafe fn seized<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock is held by the caller.
        self.value.with_mut(|value| f(unsafe { &mut *value }))
    }

    /// Frees a lock that the caller has seized.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub(crate) unsafe fn give_up(&self) {
        drop(Held { word: &self.word, rank: self.rank });
    }

    /// Frees the lock from a holder that does not exist in this process. First calls `mend` with the value.
    /// The second argument is `true` if there was a holder, which may have left a change of the value half
    /// done.
    ///
    /// # Safety
    /// Called in the child of a fork, by its only thread, which does not hold the lock.
    pub(crate) unsafe fn mend(&self, mend: impl FnOnce(&mut T, bool)) {
        let held = self.word.is_held();
        // SAFETY: the caller is the only thread there is.
        self.value.with_mut(|value| mend(unsafe { &mut *value }, held));
        if held {
            self.word.unlock();
        }
    }
}

/// Runs `f` with both locks held, or with one and `None` if they are the same. Locks of one rank are taken
/// in the order of their addresses, so two such calls cannot wait for each other.
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
            // SAFETY: it is another value, and its lock is held as long.
            f(one, Some(unsafe { &mut *other }))
        })
    })
}

crate::shown::debug! { [T] QueueLock<T>: "QueueLock", "rank": |lock| lock.rank }

/// Evidence that the lock is held. Frees it when dropped, even if `f` unwinds.
struct Held<'a> {
    word: &'a Word,
    rank: Rank,
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        ranks::change(self.rank, u8::MAX);
        self.word.unlock();
    }
}

/// | value | meaning |
/// |---|---|
/// | `FREE` | the value belongs to the thread that swaps in `HELD` |
/// | `HELD` | the value belongs to one thread, and only that thread stores `FREE` |
struct Word(AtomicU8);

const FREE: u8 = 0;
const HELD: u8 = 1;

impl Word {
    const fn new() -> Self {
        Self(AtomicU8::new(FREE))
    }

    /// May fail for nothing on processors whose read-modify-writes are loops.
    #[inline]
    fn try_lock(&self) -> bool {
        // Acquire: pairs with the release store of `unlock`, so that the last holder's writes are visible.
        self.0.compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Fails only if the lock is held.
    fn lock_if_free(&self) -> bool {
        // Acquire: as in `try_lock`.
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
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
        ranks::change(rank, 1);
        Held { word: self, rank }
    }

    #[inline]
    fn unlock(&self) {
        // Release: pairs with `try_lock`.
        self.0.store(FREE, Ordering::Release);
    }
}

/// The ranks that this thread holds, in debug builds. Empty in release builds.
///
/// A native thread-local: a queue lock is never held across a stack switch, so a green thread and its LWP
/// cannot mix up their ranks.
pub(super) mod ranks {
    use std::cell::Cell;

    use super::{Rank, local};

    local! {
        static HELD: Cell<[u8; 4]> = Cell::new([0; 4]);
    }

    #[inline]
    pub(super) fn check(rank: Rank) {
        if cfg!(debug_assertions) {
            HELD.with(|held| {
                let above = held.get()[rank.lower()..].iter().any(|&n| n != 0);
                assert!(!above, "lock of rank {rank:?} taken under one of the same or a higher rank");
            });
        }
    }

    /// Returns `true` if the running thread holds a queue lock, as far as debug builds know.
    #[cfg(test)]
    pub(in crate::park) fn any() -> bool {
        HELD.with(|held| held.get() != [0; 4])
    }

    /// Notes that the running thread holds one lock more (1) or less ([`u8::MAX`]).
    #[inline]
    pub(super) fn change(rank: Rank, by: u8) {
        if cfg!(debug_assertions) {
            HELD.with(|held| {
                let mut counts = held.get();
                let count = &mut counts[rank.lower()];
                *count = count.wrapping_add(by);
                held.set(counts);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::tests::{until, watched};
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

    /// Two threads that took the locks in opposite orders would wait for each other.
    #[test]
    fn pairs_are_locked_in_one_order() {
        let _watched = watched();
        let locks = [QueueLock::new(Rank::Pool, 1), QueueLock::new(Rank::Pool, 2)];
        let [low, high] = &locks;
        std::thread::scope(|s| {
            for (one, other) in [(low, high), (high, low)] {
                let pair = high.with(|_| {
                    let pair = s.spawn(move || lock_pair(one, other, |one, other| (*one, other.copied())));
                    // It holds one lock, and waits for the other.
                    until(|| low.try_with(|_| ()).is_none());
                    pair
                });
                let expected = (one.with(|n| *n), Some(other.with(|n| *n)));
                assert_eq!(pair.join().unwrap(), expected);
            }
        });
    }

    /// Simulates the child of a fork, where the holder does not exist.
    #[test]
    fn a_lock_without_its_holder_is_mended() {
        let lock = QueueLock::new(Rank::Pool, 1);
        // SAFETY: no other thread uses it.
        unsafe { lock.mend(|value, held| assert_eq!((*value, held), (1, false))) };
        std::thread::scope(|s| {
            // SAFETY: `mend` frees it.
            s.spawn(|| unsafe { lock.seize(&NoPreempt::hold(), false) });
        });
        // SAFETY: no other thread uses it, and the holder has ended.
        unsafe {
            lock.mend(|value, held| {
                assert!(held);
                *value = 2;
            });
        }
        assert_eq!(lock.with(|value| *value), 2);
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
