//! The list of the dead: threads that have ended with robust locks held, by their ids.

use std::ptr;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::shim::global;

/// A thread that has ended with robust locks held.
struct Dead {
    id: u64,
    /// The number of locks that name it.
    left: u64,
    next: *mut Dead,
}

struct List(*mut Dead);

// SAFETY: the list owns its entries.
unsafe impl Send for List {}

global! {
    static DEAD: QueueLock<List> = QueueLock::new(Rank::Pool, List(ptr::null_mut()));
    /// The number of entries in the list, so that a check costs next to nothing while there are none.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    /// In a child, ids up to this one belong to its parent's threads. Zero elsewhere.
    static LOST: AtomicU64 = AtomicU64::new(0);
    /// In a child, the one of those ids that belongs to a thread of the child.
    static SURVIVOR: AtomicU64 = AtomicU64::new(0);
}

pub(crate) fn add(id: u64, left: u64) {
    let dead = Box::into_raw(Box::new(Dead { id, left, next: ptr::null_mut() }));
    DEAD.with(|list| {
        // SAFETY: made above, and in no list.
        unsafe { (*dead).next = list.0 };
        list.0 = dead;
        // Relaxed, all: a thread that must see the count comes to the same bucket later. Others look again.
        COUNT.fetch_add(1, Ordering::Relaxed);
    });
}

/// Returns `true` if the thread with this id has ended and left robust locks. May be called with a bucket
/// lock held.
#[inline]
pub(crate) fn is_dead(id: u64) -> bool {
    (COUNT.load(Ordering::Relaxed) != 0 && is_listed(id)) || is_lost(id)
}

/// Returns `true` if the thread with this id is one of a parent process.
#[inline]
pub(in crate::park) fn is_lost(id: u64) -> bool {
    // Relaxed: written while there is only one thread.
    id != 0 && id <= LOST.load(Ordering::Relaxed) && id != SURVIVOR.load(Ordering::Relaxed)
}

/// Returns `true` if the thread with this id is the one of the parent's threads that called `fork`.
pub(in crate::park) fn is_survivor(id: u64) -> bool {
    id != 0 && id == SURVIVOR.load(Ordering::Relaxed)
}

#[cold]
fn is_listed(id: u64) -> bool {
    // The lock pairs with `add`: a caller that finds the id sees all that its thread did.
    DEAD.with(|list| !place_of(list, id).1.is_null())
}

/// Returns the entry before that of `id`, and the entry of `id`. Each may be null.
fn place_of(list: &List, id: u64) -> (*mut Dead, *mut Dead) {
    let mut before = ptr::null_mut();
    let mut this = list.0;
    // SAFETY: an entry stays until it is taken out, with the lock held.
    while let Some(dead) = unsafe { this.as_ref() } {
        if dead.id == id {
            break;
        }
        before = this;
        this = dead.next;
    }
    (before, this)
}

/// Notes that a lock that named the dead thread `id` has passed on to another thread.
#[cold]
pub(crate) fn passed_on(id: u64) {
    let done = DEAD.with(|list| {
        let (before, this) = place_of(list, id);
        // SAFETY: the entry stays until it is taken out, with the lock held.
        let dead = unsafe { this.as_mut() }?;
        dead.left = dead.left.saturating_sub(1);
        if dead.left != 0 {
            return None;
        }
        // SAFETY: the entry before it is another one, and stays as long.
        match unsafe { before.as_mut() } {
            Some(before) => before.next = dead.next,
            None => list.0 = dead.next,
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
        Some(this)
    });
    if let Some(this) = done {
        // SAFETY: it is out of the list, and was made by `add`.
        drop(unsafe { Box::from_raw(this) });
    }
}

/// Notes that the parent's threads are gone, except for the caller. Their ids end with `last`. The caller's
/// id is `survivor`, or 0 if it has none yet. Called in the child of a fork.
///
/// # Safety
/// Called by the child's only thread, which holds none of the runtime's locks.
pub(in crate::park) unsafe fn parents_died(last: u64, survivor: u64) {
    let forget = |list: &mut List, held| {
        if held {
            list.0 = ptr::null_mut();
        }
    };
    // SAFETY: the caller's promise.
    unsafe { DEAD.mend(forget) };
    SURVIVOR.store(survivor, Ordering::Relaxed);
    up_to(last);
}

/// Notes that the ids of the parent's threads end with `last`. Called in the child of a fork, by its only
/// thread.
pub(in crate::park) fn up_to(last: u64) {
    LOST.store(last, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id that no thread has.
    const ID: u64 = u64::MAX;

    #[test]
    fn the_dead_are_forgotten_when_all_of_their_locks_have_passed_on() {
        add(ID, 2);
        add(ID - 1, 1);
        passed_on(ID);
        assert!(is_dead(ID) && is_dead(ID - 1));
        passed_on(ID);
        assert!(!is_dead(ID) && is_dead(ID - 1));
        passed_on(ID - 1);
        assert!(!is_dead(ID - 1));
    }
}
