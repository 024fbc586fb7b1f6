//! How many buckets the table has, and how they become more.
//!
//! **Problem.** With 4,096 buckets, a million threads that wait on a million locks make chains of 244. Each
//! wake-up walks half of one, through cold lines, with the bucket's lock held. (100,000 such threads: 7 us a
//! wake-up; 300,000: 24 us; 10,000: 160 ns.)
//!
//! **Rejected.**
//!
//! - To rehash all at once: every bucket would be locked, in the middle of some thread's wait.
//! - As many buckets from the start: each lock that is waited for would have a page of its own, in every
//!   program.
//! - To look at the number of threads: ten thousand may wait on one lock.
//!
//! **Protocol** (linear hashing; Litwin, 1980). There is room for [`MOST`] buckets, which is 64 MiB of address
//! space. `SIZE` of them are used; the others are zero pages that no thread touches. A thread that queues a waiter at the end of a long chain sees that there are too few, and
//! *splits* a few buckets, each by itself:
//!
//! 1. With `SIZE = n`, bucket `n` is the next. Its keys are in the bucket that has the same number without the
//!    highest bit. The thread locks both.
//! 2. If `SIZE` is still `n`, it moves those keys that belong to bucket `n` from now on, stores `n + 1`, and
//!    frees both locks.
//!
//! A thread that looks for a key reads `SIZE`, locks the key's bucket, and looks whether `SIZE` says the same.
//! If it does not, and the key belongs elsewhere by now, the thread begins again.
//!
//! **Proof.** A key changes its bucket only while both are locked. The thread that holds a bucket's lock sees
//! all splits of that bucket that came before. So what it reads then is true of its key until it frees the
//! lock. A thread that has read `n + 1` acquires what the splitting thread did. So it cannot lock bucket `n`
//! before that thread has.
//!
//! Buckets never become fewer.

use super::Bucket;
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank, lock_pair};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{BUCKET_BITS, MOST_BUCKETS, global, hash_of, zeros};

/// The room for buckets.
pub(super) const MOST: usize = MOST_BUCKETS;
/// A chain of more keys than this says that there are too few buckets.
pub(super) const LONG_CHAIN: usize = 3;
/// So many buckets are split then.
const SPLITS: usize = 4;

/// A bucket, on a cache line of its own.
#[repr(align(64))]
pub(super) struct Lock(QueueLock<Bucket>);

global! {
    pub(super) static TABLE: [Lock; MOST] =

        // SAFETY: a free lock, the lowest number of a rank that is not negative, no waiter, and no arrival.
        unsafe { zeros(|| Lock(QueueLock::new(Rank::Bucket, Bucket::new()))) };
}
global! {
    /// How many buckets are used. Written with the locks of the buckets that are split held.
    pub(super) static SIZE: AtomicU32 = AtomicU32::new(1 << BUCKET_BITS);
}

/// How many buckets are used, at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(u32);

impl Size {
    #[inline]
    pub(super) fn load() -> Self {
        // Acquire: pairs with the release in `split`, so a bucket is seen as the split has left it.
        Self(SIZE.load(Ordering::Acquire))
    }

    /// Returns `true` if there are still as many. Called with a bucket's lock held.
    #[inline]
    fn is_current(self) -> bool {
        // Relaxed: the lock orders the splits of this bucket, and others do not matter.
        self.0 == SIZE.load(Ordering::Relaxed)
    }

    /// Returns the bucket of a key with this hash.
    #[inline]
    pub(super) fn place(self, hash: usize) -> usize {
        let mask = self.0.next_power_of_two() as usize - 1;
        let place = hash & mask;
        if place < self.0 as usize { place } else { place & mask >> 1 }
    }

    #[inline]
    fn lock_of(self, key: usize) -> &'static QueueLock<Bucket> {
        &TABLE[self.place(hash_of(key))].0
    }
}

/// Returns where the bucket of `key` lies, for prefetches.
#[inline]
pub(super) fn address_of(key: usize) -> *const u8 {
    std::ptr::from_ref(Size::load().lock_of(key)).cast()
}

/// Returns the buckets that are used, in order. If one is split meanwhile, what is moved comes later.
pub(super) fn all() -> impl Iterator<Item = &'static QueueLock<Bucket>> {
    (0..MOST).take_while(|&at| at < Size::load().0 as usize).map(|at| &TABLE[at].0)
}

/// Returns the buckets that are used, and one that a thread of the parent may have been splitting to. For
/// the child of a fork.
pub(super) fn all_in_child() -> impl Iterator<Item = &'static QueueLock<Bucket>> {
    TABLE.iter().take(Size::load().0 as usize + 1).map(|lock| &lock.0)
}

/// Runs `f` with the lock of `key`'s bucket held.
#[inline]
pub(super) fn with<R>(no_preempt: &NoPreempt, key: usize, f: impl FnOnce(&mut Bucket) -> R) -> R {
    let mut f = f;
    let mut size = Size::load();
    loop {
        let done = size.lock_of(key).with_held(no_preempt, |bucket| {
            if !size.is_current() && has_moved(size, key) {
                return Err(f);
            }
            let result = f(bucket);
            Ok((result, bucket.take_crowded()))
        });
        match done {
            Ok((result, crowded)) => {
                if crowded {
                    grow();
                }
                return result;
            }
            Err(again) => f = again,
        }
        size = Size::load();
    }
}

/// Runs `f` with the locks of both keys' buckets held; `None`: they are the same.
pub(super) fn with_pair<R>(
    one: usize,
    other: usize,
    f: impl FnOnce(&mut Bucket, Option<&mut Bucket>) -> R,
) -> R {
    let mut f = f;
    loop {
        let size = Size::load();
        let done = lock_pair(size.lock_of(one), size.lock_of(other), |first, second| {
            let moved = !size.is_current() && (has_moved(size, one) || has_moved(size, other));
            if moved { Err(f) } else { Ok(f(first, second)) }
        });
        match done {
            Ok(result) => return result,
            Err(again) => f = again,
        }
    }
}

/// Returns `true` if a key is in another bucket by now. Called with the lock of the bucket held in which it
/// was.
#[cold]
fn has_moved(size: Size, key: usize) -> bool {
    // Relaxed: as in `is_current`.
    let now = Size(SIZE.load(Ordering::Relaxed));
    let hash = hash_of(key);
    now.place(hash) != size.place(hash)
}

/// Makes some more buckets, if there is room. Called with no bucket's lock held.
#[cold]
pub(super) fn grow() {
    for _ in 0..SPLITS {
        split();
    }
}

fn split() {
    let size = Size::load();
    let new = size.0 as usize;
    if new == MOST {
        return;
    }
    let old = new ^ 1 << new.ilog2();
    lock_pair(&TABLE[old].0, &TABLE[new].0, |from, to| {
        let to = to.expect("two buckets");
        if size.is_current() {
            let more = Size(size.0 + 1);
            from.move_to(to, |key| more.place(hash_of(key)) == new);
            // Release: pairs with `load`.
            SIZE.store(more.0, Ordering::Release);
        }
    });
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod loom_buckets;
