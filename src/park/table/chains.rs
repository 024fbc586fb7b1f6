//! The chains of a bucket that needs more than one.
//!
//! **Problem.** A million threads that wait on a million locks are 244 keys for each bucket. In one chain,
//! each wake-up walked half of them, through cold lines, with the bucket's lock held. (300,000 such threads:
//! 24 us a wake-up; 100,000: 7 us; 10,000: 0.2.)
//!
//! **Rejected.**
//!
//! - More buckets from the start. Each lock that is waited for would have a page of its own, in every
//!   program.
//! - A table that is made anew when it is full: that locks every bucket, in the middle of some thread's wait.
//! - A table that grows by one bucket at a time (linear hashing; Litwin, 1980). Each operation looks up how
//!   many buckets there are, and again with the lock held: 119 instructions of a condition variable's round
//!   trip, or 14 %.
//!
//! **Shape.** A bucket has one chain at first, and its head lies in the bucket. If a chain becomes long, its
//! bucket gets twice as many, up to [`MOST`]. Their heads lie in a row that belongs to the bucket, in zero
//! pages that no thread has touched before. All of this is the business of one bucket, under its lock. A
//! bucket that needs one chain pays with two instructions.
//!
//! Chains never become fewer.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;

use super::{Waiter, linked};
use crate::shim::{BUCKET_BITS, bucket_of, hash_of};

/// The most chains of a bucket.
const MOST: usize = 256;
/// With more keys than this, a chain is long.
const LONG: usize = 3;

/// The first waiters of the chains of a bucket that has several.
type Row = [*const Waiter; MOST];

/// The rows of all buckets: 8 MiB of address space.
#[repr(align(64))]
struct Rows(UnsafeCell<[Row; 1 << BUCKET_BITS]>);

// SAFETY: a row belongs to the holder of its bucket's lock.
unsafe impl Sync for Rows {}

// SAFETY: null pointers. Made of zero bits, it takes neither the compiler's time nor room in the program's
// file.
static ROWS: Rows = unsafe { MaybeUninit::zeroed().assume_init() };

/// Where the first waiter of a key is noted: at the head of a chain, or in the first waiter of another key.
/// It may be read and written while the bucket's lock is held, and this place is in the chain.
pub(super) type Place = *mut *const Waiter;

/// The chains of one bucket, if it has several. All methods are called with the bucket's lock held.
#[derive(Debug)]
pub(super) struct Chains {
    /// The heads, in the bucket's row; null while the bucket has one chain, which is not here.
    pub(super) row: Place,
    /// How many chains there are in the row.
    pub(super) count: u32,
}

impl Chains {
    /// Creates those of a bucket that has one chain.
    pub(super) const fn none() -> Self {
        Self { row: ptr::null_mut(), count: 0 }
    }

    /// Returns the head of the chain of `key`. There are several.
    // Out of line, so that what has one chain is short.
    #[cold]
    #[inline(never)]
    pub(super) fn head(&self, key: usize) -> Place {
        self.head_of(hash_of(key) >> BUCKET_BITS & (self.count as usize - 1))
    }

    /// Returns the head of a chain in the row.
    fn head_of(&self, chain: usize) -> Place {
        debug_assert!(chain < self.count as usize);
        // SAFETY: a row has as many.
        unsafe { self.row.add(chain) }
    }

    /// Returns the first waiter of each chain.
    pub(super) fn each(&self) -> impl Iterator<Item = *const Waiter> {
        // SAFETY: in the row, and the lock is held.
        (0..self.count as usize).map(|chain| unsafe { self.head_of(chain).read() })
    }

    /// Makes twice as many chains if that of `key` is long, whose head is `head`. `only`: the head of the one
    /// chain, while there is one.
    #[cold]
    pub(super) fn grow_if_long(&mut self, only: &Cell<*const Waiter>, head: Place, key: usize) {
        // SAFETY: null, or in the chain, and the lock is held.
        let at = |waiter: *const Waiter| unsafe { waiter.as_ref() };
        // SAFETY: the head of a chain.
        let first = unsafe { head.read() };
        let mut chain = std::iter::successors(at(first), |first| at(first.peek(|links| links.chain)));
        if chain.nth(LONG).is_some() && (self.count as usize) < MOST {
            self.grow(only, bucket_of(key));
        }
    }

    fn grow(&mut self, only: &Cell<*const Waiter>, bucket: usize) {
        if self.row.is_null() {
            self.row = row_of(bucket);
            // SAFETY: the first of the row.
            unsafe { self.row.write(only.replace(ptr::null())) };
            self.count = 1;
        }
        let before = self.count as usize;
        self.count *= 2;
        for chain in 0..before {
            // SAFETY: in the row, which the holder of the lock owns.
            let mut next = unsafe { self.head_of(chain).replace(ptr::null()) };
            while !next.is_null() {
                // SAFETY: it was in this chain, is in none, and the lock is held.
                let first = unsafe { linked(next) };
                // SAFETY: the head of a chain.
                let behind = unsafe { self.head(first.key()).replace(next) };
                next = first.links(|links| std::mem::replace(&mut links.chain, behind));
            }
        }
    }

    /// Empties all chains, in the child of a fork. `only`: as in [`grow_if_long`](Self::grow_if_long). `row`
    /// is the bucket's. `torn`: a thread of the parent may have been changing them.
    ///
    /// A page that is not written need not be copied, and a child usually execs. So what is null is left
    /// alone.
    pub(super) fn clear(&mut self, only: &Cell<*const Waiter>, row: Place, torn: bool) {
        let clear = |place: Place| {
            // SAFETY: the head of a chain, and no other thread uses it.
            let first = unsafe { &mut *place };
            if !first.is_null() {
                *first = ptr::null();
            }
        };
        clear(only.as_ptr());
        if torn || !self.row.is_null() {
            // SAFETY: a row has as many.
            (0..MOST).for_each(|chain| clear(unsafe { row.add(chain) }));
        }
        if torn {
            *self = Self::none();
        }
    }
}

/// Returns the row of a bucket.
pub(super) fn row_of(bucket: usize) -> Place {
    let rows = ROWS.0.get().cast::<Row>();
    // SAFETY: there are as many rows as buckets.
    unsafe { rows.add(bucket) }.cast()
}

#[cfg(test)]
mod tests;
