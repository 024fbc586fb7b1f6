//! The owners of locks. They are recorded only while the program looks for deadlocks.
//!
//! **Problem.** A lock does not know its owner, only roughly where the owner ran (`owner.rs`). A search for
//! deadlocks must know owners exactly. But a lock and an unlock together are two read-modify-writes and some
//! loads. There is no room for a third read-modify-write, nor for a branch.
//!
//! **Rejected.**
//!
//! - A switch that each lock tests: one load and one branch in every program, for the sake of a few.
//! - The owner's number in the lock: more bytes, and spinners need to know where the owner runs.
//! - A search for the owner among all threads, afterwards: threads do not know what they hold either.
//!
//! **Protocol.** The fast path already has a comparison, and this protocol uses it.
//!
//! 1. A thread that acquires a lock compares its own hint with the one in the lock. If they differ, it
//!    stores its own.
//! 2. While owners are recorded, all threads have one other hint, which is in no lock
//!    ([`OwnerHint::RECORDED`](crate::park::owner::OwnerHint)). So the comparison always finds a difference. The
//!    code that would store the hint, off the fast path, sees this hint and records the owner here.
//! 3. An unlock tests a byte that says that a thread may be queued, and then takes the slow path. The thread
//!    that records an owner sets that byte first. The slow path removes the owner from the record before the
//!    lock is free.
//!
//! A read-write lock has no such byte. The first thread that is recorded at it sets a bit of its word. Each
//! fast path in or out expects a certain word, so none of them succeeds any more. An initialization has no
//! fast path.
//!
//! **Entries left behind.** If a guard is forgotten, its entry stays, and another lock may later have the
//! same address. Such entries are removed by:
//!
//! - a thread that acquires that lock exclusively
//! - the first thread that is recorded among others
//! - a thread that is about to wait for a lock without the byte, or the bit. It looks for entries first. An
//!   entry of this lock comes after the byte, so it is not taken for one that was left behind.
//!
//! An entry says how its thread holds the lock. A thread that upgrades or downgrades changes its entry while
//! it runs, so before another thread could wait for it in vain.
//!
//! So an entry means that its thread holds the lock *at this moment*. A lock may be held without an entry in
//! three cases:
//!
//! - It was acquired before the recording began.
//! - Its thread has not waited or been switched to since then.
//! - It is being acquired at this moment.
//!
//! A kernel thread that Selvedge has not met starts with that hint. If owners are recorded, Selvedge meets
//! it when it first acquires a lock. Otherwise it drops the hint at its first lock.
//!
//! **Cost** while the recording is off: one instruction in a switch of green threads, and a branch where a
//! lock's hint changes. Slow paths have a relaxed load.

use std::cell::Cell;
use std::num::NonZeroU64;

use super::by_address::by_address;
use crate::park::current::{self, current};
use crate::park::no_preempt::NoPreempt;
use crate::park::observed::{self, are_owners_recorded};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::{global, local};

global! {
    /// The source of the numbers of entries. No two are the same.
    static ENTRIES: AtomicU64 = AtomicU64::new(0);
}

by_address! { HELD: Holder }

local! {
    /// Set while the thread adds an entry. An allocator may use locks that would be recorded here, and the
    /// adoption of a thread allocates.
    static WRITES: Cell<bool> = Cell::new(false);
}

/// How something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// No other thread holds it.
    Alone,
    /// Other threads hold it too, but none of them like this.
    Upgradable,
    /// Other threads may hold it too.
    Shared,
}

/// A thread that holds something. Or a thread for which others wait there, even if it holds nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Holder {
    pub(crate) thread: ThreadRef,
    pub(crate) id: NonZeroU64,
    pub(crate) hold: Hold,
    /// The number of this entry. No other one has it.
    pub(crate) entry: u64,
}

/// Begins to record owners, in the whole process.
pub(crate) fn begin() {
    turn_on();
    // The caller is recorded too: it may hold what others will wait for.
    current();
    current::recache_hint();
}

/// [`begin`] for all threads but the running one.
pub(crate) fn turn_on() {
    tell_children();
    observed::record_owners();
}

/// Records that the running thread has just acquired what is at `key`. Called because the thread's hint
/// asked for it.
///
/// `is_first` marks what is at `key` as recorded, before the entry is added. It returns `true` if no holder
/// of it has been recorded yet.
#[cold]
pub(crate) fn took(key: usize, hold: Hold, is_first: impl FnOnce() -> bool) {
    if !are_owners_recorded() {
        return current::recache_hint();
    }
    clear_old(key, is_first);
    writing(|| add(key, current(), hold));
}

/// Records that the threads that wait at `key` wait for `thread`, among others.
#[cold]
pub(crate) fn waits_for(key: usize, thread: ThreadRef) {
    writing(|| add(key, thread, Hold::Shared));
}

/// Records that they do not wait for `thread` any more.
#[cold]
pub(crate) fn waits_no_more(key: usize, thread: ThreadRef) {
    HELD.take(key, |holder| holder.thread == thread);
}

/// Records that the running thread is about to release what is at `key`. The running thread acquired it, or
/// another thread did and this one acts in its name.
#[cold]
pub(crate) fn leaves(key: usize, hold: Hold) {
    let me = current::try_current();
    let mine = |holder: &Holder| Some(holder.thread) == me;
    // If the thread has several shares, the one that matches goes first.
    HELD.take(key, |holder| mine(holder) && holder.hold == hold)
        .or_else(|| HELD.take(key, mine))
        .or_else(|| HELD.take(key, |_| true));
}

/// Changes how what is at `key` is held, if that was recorded. The running thread acquired it, or another
/// thread did and this one acts in its name.
#[cold]
pub(crate) fn changes(key: usize, from: Hold, to: Hold) {
    let me = current::try_current();
    let like_that = |holder: &Holder| holder.hold == from;
    let mine = HELD.take(key, |holder| like_that(holder) && Some(holder.thread) == me);
    if let Some(holder) = mine.or_else(|| HELD.take(key, like_that)) {
        writing(|| add(key, holder.thread, to));
    }
}

/// Returns the recorded holders of what is at `key`. They may have ended since.
pub(crate) fn holders(key: usize) -> Vec<Holder> {
    HELD.all_of(key)
}

/// Removes all entries of `key`.
#[cold]
pub(crate) fn clear(key: usize) {
    while HELD.take(key, |_| true).is_some() {}
}

/// Removes entries at `key` that were left behind there, unless a holder of what is there was recorded.
///
/// `is_first` returns `true` if no holder of what is at `key` has been recorded yet. Holders that are
/// recorded meanwhile keep their entries.
#[cold]
pub(crate) fn clear_old(key: usize, is_first: impl FnOnce() -> bool) {
    // Acquire: from `add`. If a holder has its number already, `is_first` sees that it was recorded.
    let next = ENTRIES.load(Ordering::Acquire);
    if is_first() {
        while HELD.take(key, |holder| holder.entry < next).is_some() {}
    }
}

/// Returns all entries. Each describes a moment of its own.
pub(crate) fn all() -> Vec<(usize, Holder)> {
    tell_children();
    HELD.all()
}

/// For models: begins to record owners, the running thread included.
#[cfg(all(test, loom))]
pub(crate) fn begin_here() {
    turn_on();
    current::recache_hint();
}

/// For models: returns the recorded holder of what is at `key`.
#[cfg(all(test, loom))]
pub(crate) fn holder(key: usize) -> Option<ThreadRef> {
    HELD.get(key, |holder| holder.thread)
}

fn add(key: usize, thread: ThreadRef, hold: Hold) {
    // Release: to `clear_old`, which must see the mark that this holder set before.
    let entry = ENTRIES.fetch_add(1, Ordering::Release);
    HELD.add(key, Holder { thread, id: thread.id(), hold, entry });
}

/// Runs `f`, unless the thread is already in a call of this function.
fn writing(f: impl FnOnce()) {
    // On `Pinned`, another green thread would find the flag set.
    let _no_preempt = NoPreempt::hold();
    // Nothing is recorded of a thread that has no thread-locals any more.
    if WRITES.try_with(|writes| writes.replace(true)).unwrap_or(true) {
        return;
    }
    f();
    WRITES.with(|writes| writes.set(false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::core_pool;
    use Hold::{Alone, Shared, Upgradable};

    /// Returns what is recorded at `key`, the latest entry first.
    fn at(key: usize) -> Vec<(ThreadRef, Hold)> {
        let here = all().into_iter().filter(|&(at, _)| at == key);
        here.map(|(_, holder)| (holder.thread, holder.hold)).collect()
    }

    /// Calls `f` with a key of its own, the running thread, and another one.
    fn with_two(f: impl FnOnce(usize, ThreadRef, ThreadRef)) {
        let word = 0u64;
        let (key, other) = ((&raw const word).addr(), core_pool::take(1, None, None));
        f(key, current(), other);
        clear(key);
        other.release();
    }

    #[test]
    fn a_thread_that_leaves_takes_out_that_share_of_its_own() {
        with_two(|key, me, other| {
            add(key, me, Shared);
            add(key, me, Upgradable);
            add(key, other, Shared);
            leaves(key, Shared);
            assert_eq!(at(key), [(other, Shared), (me, Upgradable)]);
            // If it is not known in what way.
            leaves(key, Shared);
            assert_eq!(at(key), [(other, Shared)]);
            // In the name of the other one.
            leaves(key, Alone);
            assert_eq!(at(key), []);
        });
    }

    #[test]
    fn a_thread_that_changes_its_share_changes_its_own() {
        with_two(|key, me, other| {
            add(key, me, Upgradable);
            add(key, me, Shared);
            add(key, other, Shared);
            changes(key, Shared, Alone);
            assert_eq!(at(key), [(me, Alone), (other, Shared), (me, Upgradable)]);
            // In the name of the other one.
            changes(key, Shared, Alone);
            assert_eq!(at(key), [(other, Alone), (me, Alone), (me, Upgradable)]);
            changes(key, Shared, Alone);
            assert_eq!(at(key).len(), 3);
        });
    }

    #[test]
    fn owners_that_are_waited_for_are_recorded() {
        with_two(|key, me, other| {
            waits_for(key, other);
            waits_for(key, me);
            assert_eq!(at(key), [(me, Shared), (other, Shared)]);
            waits_no_more(key, other);
            assert_eq!(at(key), [(me, Shared)]);
        });
    }
}
