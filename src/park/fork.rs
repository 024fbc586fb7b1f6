//! What is left of the threads in a child of `fork`: one, and the traces of the others.
//!
//! **Problem.** The child has a copy of all memory and one kernel thread, that of the caller of `fork`. What other threads had in hand
//! stays as it was: waiters in queues, whose threads will never run; locks of the runtime, whose holders will never let go. If the
//! caller was a green thread, the LWPs that would run it again, were it to wait, are not there.
//!
//! **Rejected.** Errors from every call: most have no place for them, and a child that only prepares its `exec` should be free to
//! use a lock. Taking all locks before each fork, as allocators do: 4,096 buckets, for a child that execs as a rule. Giving
//! children LWPs of their own: it would run the parent's threads twice.
//!
//! **What is done**, by [`in_child`], before `fork` returns in the child, in its only thread:
//!
//! - All queues are emptied, and the process-wide locks freed: nobody waits here, and nobody is in the middle of anything (the
//!   caller of `fork` is not: none of the runtime's code forks).
//! - The caller becomes, or stays, a kernel thread: a green one gets a kernel thread's core, so that from here on it waits as what it is.
//! - Threads that were started before are *lost* ([`ThreadCore::is_lost`](super::thread::ThreadCore::is_lost)): they neither end nor
//!   wake. Joining one is an error at once.
//!
//! What belongs to a runtime of the parent's gives errors (`mxn`, `onetoone`). A wait without a deadline that nobody can end, because the
//! child has no other thread, panics ([`check`]): there is nothing else that it could do, but hang.

use std::io;
use std::ptr;
use std::time::Instant;

use super::thread::{ThreadCore, ThreadRef, last_id};
use super::{contention, current, everybody, ledger, names, registry, robust, table, whereabouts};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::{fork, global};

global! {
    /// In a child: the thread that called `fork`, if it is one of this crate's, and may have ended since.
    static LEFT: AtomicPtr<ThreadCore> = AtomicPtr::new(ptr::null_mut());
}

/// What to do first in a child. Neither allocates nor waits.
fn in_child() {
    // SAFETY: called by the C library in the child of a fork, whose only thread holds none of the runtime's locks.
    unsafe { table::forget_all() };
    // SAFETY: as above.
    unsafe { registry::forget_holder() };
    // SAFETY: as above.
    unsafe { whereabouts::forget_holder() };
    // SAFETY: as above.
    unsafe { ledger::forget_all() };
    // SAFETY: as above.
    unsafe { names::forget_all() };
    // SAFETY: as above.
    unsafe { contention::forget_all() };
    let me = current::try_current();
    // SAFETY: as above.
    unsafe { robust::bury_parents(last_id(), me.map_or(0, |me| me.known_id()), everybody::each) };
    let left = me.and_then(survive);
    let left = left.map_or(ptr::null(), |left| left.core()).cast_mut();
    // Release: pairs with `left_of`.
    LEFT.store(left, Ordering::Release);
}

/// The caller of `fork` goes on in the child: as whom. There, by it.
fn survive(me: ThreadRef) -> Option<ThreadRef> {
    if me.backend().sleeps_in_kernel() {
        // SAFETY: as in `in_child`.
        unsafe { me.core().survive_fork() };
        Some(me)
    } else {
        me.backend().forked(&me);
        // Its frames know it only by counted references of users, and by what `mxn` checks.
        let here = registry::survivor(me.ambient());
        if let Some(here) = here {
            here.go_on_as(&me);
            // SAFETY: as above, and the survivor is new.
            unsafe { me.core().leave_values_to(here.core()) };
        }
        current::set_current(here);
        here
    }
}

/// In a child: how many threads of the parent's runtime at `home` are here. It starts none here, so it is the caller of `fork` or nobody.
pub(crate) fn left_of(home: usize) -> usize {
    // Acquire: pairs with `in_child`.
    let left = LEFT.load(Ordering::Acquire);
    // SAFETY: null, or a core of a kernel thread: type-stable.
    let left = unsafe { left.as_ref() };
    usize::from(left.is_some_and(|left| left.lives_at(home)))
}

/// For a runtime that starts: this process's generation; its forks will do what is said above.
pub(crate) fn watch() -> io::Result<fork::Generation> {
    fork::Generation::watched(in_child)
}

/// For a runtime of green threads, before it starts one: if that forks, the child needs a kernel thread's core for it.
pub(crate) fn expect_green_threads() {
    registry::keep_survivor();
}

/// Before a wait: panics if nothing can ever end it.
#[inline]
pub(super) fn check(deadline: Option<Instant>) {
    if fork::is_child() && deadline.is_none() && fork::is_alone() {
        endless();
    }
}

/// What a runtime of the parent's says in a child.
#[cold]
pub(crate) fn refusal() -> io::Error {
    io::Error::other(
        "this process is a fork, and the runtime's threads are its parent's: exec, or start another runtime",
    )
}

/// What joining a lost thread gives.
pub(crate) const LOST: &str = "the thread is one of the parent process, which this process is a fork of";

#[cold]
fn endless() -> ! {
    panic!(
        "this wait would never end: the process is a fork and has no other thread; those of its parent are not here"
    );
}
