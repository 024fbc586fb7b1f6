//! Who holds what: written down while somebody looks for deadlocks, and not before.
//!
//! **Problem.** A lock does not know its owner, only about where that ran (`owner.rs`). To say who waits for whom, owners must be known
//! exactly; but a lock and an unlock are two read-modify-writes and some loads, and there is no room for a third, nor for a branch.
//!
//! **Rejected.** A switch that each lock looks at: one load and one branch for all, for the sake of a few. The owner's number in the
//! lock: more bytes, and spinners want to know where it runs. Looking for the owner afterwards, among all threads: they do not
//! know what they hold either.
//!
//! **Protocol.** A fast path that compares already decides more. A thread that takes a lock compares its own hint with the one in the
//! lock, and stores its own where they differ. So while owners are recorded, each thread has another hint, the same for all, that is in no
//! lock ([`OwnerHint::RECORDED`](super::owner::OwnerHint)): it always differs, and where it would be stored, aside of the usual
//! path, it is seen, and the owner is written down here. And the unlock looks at a byte which says that somebody may be queued, and then goes the
//! slow way: the one who writes the owner down sets that byte before, and the slow way takes the owner out again, before the lock is free.
//!
//! A read-write lock has no such byte: who is written down first sets a bit of its word, so that no quick way in or out, each of which expects
//! a certain word, is taken any more. An initialization is never quick.
//!
//! A guard that is forgotten leaves its entry behind, and another lock may come to lie there. Who takes that alone, and who is the first to be
//! written down among others, takes out what was left; so does who is about to wait for a lock without that byte, or bit: it looks for
//! entries first, so that one of this lock's, which comes after the byte, is not taken for one of those.
//!
//! An entry says how its thread holds the lock: who upgrades or downgrades has it changed, while it runs, and so before anybody could wait for
//! it in vain.
//!
//! So an entry says that its thread holds the lock *now*. There may be locks without one: taken before the recording began, or by
//! a thread that has not waited, or been switched to, since then; or in the very moment.
//!
//! A kernel thread that Selvedge has not met starts with that hint, so that it is met when it first takes a lock while owners are
//! recorded. If they are not, it drops the hint at its first lock.
//!
//! **Cost** while nobody asks: one instruction in a switch of green threads, a branch where a lock's hint changes, a relaxed load
//! in slow paths.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic as std_atomic;

use super::by_address::ByAddress;
use super::current::{self, current};
use super::no_preempt::NoPreempt;
use super::owner::OwnerHint;
use super::thread::ThreadRef;
use crate::shim::{global, local};

/// 0, or the bits that are added to threads' hints. Of std in models too: it does not change in one. It is on
/// once and for all, so that every entry is taken out again.
static SWITCH: std_atomic::AtomicU16 = std_atomic::AtomicU16::new(0);

/// Includes the bit of kernel threads' hints, because hints with that bit are looked at more closely anyway.
const RECORDS: u16 = OwnerHint::RECORDING.bits();

/// Numbers of entries: no two are the same.
static ENTRIES: std_atomic::AtomicU64 = std_atomic::AtomicU64::new(0);

global! {
    static HELD: ByAddress<Holder> = ByAddress::new();
}

local! {
    /// An allocator may use locks that would be written down here, and a thread that is met for it first has memory allocated.
    static WRITES: Cell<bool> = Cell::new(false);
}

/// How something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nobody else holds it.
    Alone,
    /// Others hold it too, but nobody else like that.
    Upgradable,
    /// Others may hold it too.
    Shared,
}

/// Who holds something, or is what it is that others wait for there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Holder {
    pub(crate) thread: ThreadRef,
    pub(crate) id: NonZeroU64,
    pub(crate) hold: Hold,
    /// No other holding of anything has this number.
    pub(crate) entry: u64,
}

/// The bits that are added to hints.
#[inline]
pub(super) fn switch() -> u16 {
    // Relaxed: a switch, it orders nothing.
    SWITCH.load(std_atomic::Ordering::Relaxed)
}

/// Whether owners are recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    switch() != 0
}

/// Owners are recorded from now on, in all of the process.
pub(crate) fn begin() {
    turn_on();
    // The caller from now on, too: it may hold what others will wait for.
    current();
    current::restamp();
}

/// [`begin`] for all threads but the running one.
pub(crate) fn turn_on() {
    // Relaxed: as in `switch`.
    SWITCH.store(RECORDS, std_atomic::Ordering::Relaxed);
}

/// The running thread has just taken what is at `key`, and its hint said to write that down. `is_first`, which is asked before anything is
/// written down: nobody has been written down who holds what is there now.
#[cold]
pub(crate) fn took(key: usize, hold: Hold, is_first: impl FnOnce() -> bool) {
    if !is_on() {
        return current::restamp();
    }
    if is_first() {
        // Left there by one that did not unlock, and is gone.
        clear(key);
    }
    writing(|| add(key, current(), hold));
}

/// Those who wait at `key` wait for `thread`, among others.
#[cold]
pub(crate) fn waits_for(key: usize, thread: ThreadRef) {
    writing(|| add(key, thread, Hold::Shared));
}

/// They do not wait for `thread` any more.
#[cold]
pub(crate) fn waits_no_more(key: usize, thread: ThreadRef) {
    HELD.take(key, |holder| holder.thread == thread);
}

/// The running thread is about to give up what is at `key`, which it, or another thread in its name, has taken.
#[cold]
pub(crate) fn leaves(key: usize, hold: Hold) {
    let me = current::try_current();
    let mine = |holder: &Holder| Some(holder.thread) == me;
    // Of several shares that one.
    HELD.take(key, |holder| mine(holder) && holder.hold == hold)
        .or_else(|| HELD.take(key, mine))
        .or_else(|| HELD.take(key, |_| true));
}

/// The running thread holds what is at `key` otherwise now, which it, or another thread in its name, has taken: if that was written down.
#[cold]
pub(crate) fn changes(key: usize, from: Hold, to: Hold) {
    let me = current::try_current();
    let like_that = |holder: &Holder| holder.hold == from;
    let mine = HELD.take(key, |holder| like_that(holder) && Some(holder.thread) == me);
    if let Some(holder) = mine.or_else(|| HELD.take(key, like_that)) {
        writing(|| add(key, holder.thread, to));
    }
}

/// Nobody is at `key`.
#[cold]
pub(crate) fn clear(key: usize) {
    while HELD.take(key, |_| true).is_some() {}
}

/// The running thread is about to wait at `key`. `nobody`, which is asked when there is an entry: nobody has been written down who holds what is
/// there now, so it was left there. An entry that comes meanwhile stays.
#[cold]
pub(crate) fn clear_old(key: usize, nobody: impl FnOnce() -> bool) {
    if let Some(last) = HELD.get(key, |holder| holder.entry)
        && nobody()
    {
        while HELD.take(key, |holder| holder.entry <= last).is_some() {}
    }
}

/// Who holds what, each entry of its own moment.
pub(crate) fn all() -> Vec<(usize, Holder)> {
    HELD.all()
}

/// # Safety
/// In the child of a fork, by its only thread.
pub(super) unsafe fn forget_all() {
    // SAFETY: the caller's promise.
    unsafe { HELD.forget_all() };
}

/// For models: owners are recorded, and by the running thread too.
#[cfg(all(test, loom))]
pub(crate) fn begin_here() {
    turn_on();
    current::restamp();
}

/// For models: who holds what is at `key`, as far as is written down.
#[cfg(all(test, loom))]
pub(crate) fn holder(key: usize) -> Option<ThreadRef> {
    HELD.get(key, |holder| holder.thread)
}

fn add(key: usize, thread: ThreadRef, hold: Hold) {
    let entry = ENTRIES.fetch_add(1, std_atomic::Ordering::Relaxed);
    HELD.add(key, Holder { thread, id: thread.id(), hold, entry });
}

/// Runs `f`, unless the thread is in here already.
fn writing(f: impl FnOnce()) {
    // On rung 3 another green thread would find the flag set.
    let _no_preempt = NoPreempt::hold();
    // A thread whose thread-locals are gone goes without.
    if WRITES.try_with(|writes| writes.replace(true)).unwrap_or(true) {
        return;
    }
    f();
    WRITES.with(|writes| writes.set(false));
}
