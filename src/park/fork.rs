//! What is left of the threads in a child of `fork`: one thread, and the traces of the others.
//!
//! **Problem.** The child has a copy of all memory and one kernel thread, that of the caller of `fork`. What
//! other threads were doing stays half done. Waiters are in queues, but their threads will never run. Locks
//! of the runtime have holders that will never release them. If the caller was a green thread, the LWPs that
//! would run it again after a wait do not exist.
//!
//! **Rejected.**
//!
//! - Errors from every call. Most calls cannot return one, and a child that only prepares its `exec` should
//!   be free to use a lock.
//! - To take all locks before each fork, as allocators do: 4,096 buckets, for a child that usually execs.
//! - To give children LWPs of their own: that would run the parent's threads twice.
//!
//! **What is done**, by [`in_child`], in the child's only thread, before `fork` returns there:
//!
//! - All queues are emptied, and the process-wide locks are freed. No thread waits here, and none is inside
//!   a critical section: the caller of `fork` is not, since none of the runtime's code forks.
//! - The caller becomes, or stays, a kernel thread. A green thread gets a kernel thread's core, so that from
//!   here on it waits as what it is.
//! - Threads that were started before are *lost*
//!   ([`ThreadCore::is_lost`](super::thread::ThreadCore::is_lost)): they neither end nor wake. To join one
//!   is an error at once.
//!
//! What belongs to a runtime of the parent returns errors (`mxn`, `onetoone`). If a wait has no deadline,
//! and the child has no other thread that could end it, it panics (`Wait::check_end`): it could only hang.
//! What is observed of threads and locks has duties of its own ([`tell_children`]).

use std::io;
use std::num::NonZeroU64;
use std::ptr;

use super::robust::dead;
use super::thread::{NO_ID, ThreadCore, ThreadRef, last_id};
use super::wait_state::name;
use super::{all_threads, core_pool, current, table};
use crate::shim::atomic::{AtomicPtr, Ordering};
use crate::shim::{fork, global};

global! {
    /// In a child, the thread that called `fork`, if it belongs to this crate. It may have ended since.
    static LEFT: AtomicPtr<ThreadCore> = AtomicPtr::new(ptr::null_mut());
}

/// Does what comes first in a child. Neither allocates nor waits.
fn in_child() {
    // SAFETY: called by the C library in the child of a fork. Its only thread holds none of the runtime's
    // locks.
    unsafe { table::forget_all() };
    // SAFETY: in the child of a fork, by its only thread.
    unsafe { core_pool::forget_holder() };
    // SAFETY: in the child of a fork, by its only thread.
    unsafe { name::forget_holder() };
    let me = current::try_current();
    if let Some(me) = me {
        // It has an id from here on, by which its core of before is known.
        me.id();
    }
    // SAFETY: in the child of a fork, by its only thread, which holds none of the runtime's locks.
    unsafe { dead::parents_died(last_id(), current::known_id()) };
    all_threads::each(&mut |thread, _| {
        let id = thread.known_id();
        if dead::is_lost(id) {
            // SAFETY: in the child of a fork, by its only thread.
            unsafe { thread.core().robust.pending_owner_died(id) };
        } else if id == NO_ID && !thread.is_done() {
            // So that this one is known as lost, too.
            thread.id();
        }
    });
    dead::up_to(last_id());
    let left = me.and_then(survive);
    let left = left.map_or(ptr::null(), |left| left.core()).cast_mut();
    // Release: pairs with `survivor_of`.
    LEFT.store(left, Ordering::Release);
}

/// Continues the caller of `fork` in the child, and returns its core there. Called by that thread.
fn survive(me: ThreadRef) -> Option<ThreadRef> {
    if me.is_kernel() {
        // SAFETY: in the child of a fork, by its only thread, which has this core.
        unsafe { me.core().survive_fork() };
        // SAFETY: in the child of a fork, by its only thread, which is `me`.
        unsafe { core_pool::survive_fork(me) };
        Some(me)
    } else {
        me.backend().forked(&me);
        // The thread's frames know its old core only through counted references of users, and through what
        // `mxn` checks.
        let here = core_pool::survivor(me);
        if let Some(here) = here {
            // SAFETY: in the child of a fork, by its only thread, and the survivor is new.
            unsafe { here.go_on_as(&me) };
        }
        current::set_current(here);
        here
    }
}

/// Returns `true` if the core in which a look from outside has found a thread with this id is a parent's.
/// Nothing runs it here. If a green thread called `fork`, it is here with another core, a kernel thread's.
pub(crate) fn is_parents(id: NonZeroU64, is_kernel: bool) -> bool {
    dead::is_lost(id.get()) || !is_kernel && dead::is_survivor(id.get())
}

/// Returns how many threads of the parent's runtime at `home` are in this child. The runtime starts none
/// here, so there is one at most: the caller of `fork`.
pub(crate) fn left_of(home: usize) -> usize {
    usize::from(survivor_of(home).is_some())
}

/// Returns the thread of the parent's runtime at `home` that is in this child, if there is one.
pub(crate) fn survivor_of(home: usize) -> Option<ThreadRef> {
    // Acquire: pairs with `in_child`.
    let left = LEFT.load(Ordering::Acquire);
    // SAFETY: null, or a core of a kernel thread: type-stable.
    let left: &'static ThreadCore = unsafe { left.as_ref() }?;
    left.lives_at(home).then(|| ThreadRef::new(left))
}

/// Prepares the process for forks: each will do what the header says. Called by a runtime that starts.
/// Returns this process's generation.
pub(crate) fn watch() -> io::Result<fork::Generation> {
    fork::Generation::watched(in_child)
}

/// Has `duty` called in each child, by its only thread, before `fork` returns there. It may neither allocate
/// nor wait. If there is no memory for that, it is not called.
pub(crate) fn tell_children(duty: fn()) {
    let _ = fork::Generation::watched(duty);
}

/// Prepares a core for the child of a green thread that forks: the child needs a kernel thread's core.
/// Called by a runtime of green threads before it starts one.
pub(crate) fn expect_green_threads() {
    core_pool::keep_survivor();
}

/// Returns the error of a parent's runtime in a child.
#[cold]
pub(crate) fn refusal() -> io::Error {
    io::Error::other(
        "this process is a fork, and the runtime's threads are its parent's: exec, or start another runtime",
    )
}

/// The error of joining a lost thread.
pub(crate) const LOST: &str = "the thread is one of the parent process, which this process is a fork of";

#[cfg(all(test, unix))]
mod ended_tests;

#[cfg(all(test, unix))]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::park::reaper;
    use crate::park::tests::until;
    use crate::park::wait::{Wait, WaitError};
    use crate::sys::child_tests as child;

    #[test]
    fn a_child_has_its_thread_and_no_other() {
        child::isolated(concat!(module_path!(), "::a_child_has_its_thread_and_no_other"), || {
            let me = current::current();
            let mine = me.id().get();
            let other = core_pool::take(1, None, None);
            let theirs = other.id().get();
            assert_eq!(left_of(0), 0);
            child::forked(|| {
                assert!(!me.is_lost() && other.is_lost());
                assert_eq!((left_of(0), left_of(8)), (1, 0));
                assert!(!dead::is_dead(0) && !dead::is_dead(mine) && dead::is_dead(theirs));
                let new = core_pool::take(1, None, None);
                assert!(!new.is_lost() && !dead::is_dead(new.id().get()));
            });
            assert!(!me.is_lost() && !other.is_lost() && !dead::is_dead(theirs));
        });
    }

    /// Another thread may be looking at the kernel thread of the one that forks.
    #[test]
    fn the_end_of_a_thread_that_forked_waits_for_no_other() {
        static LOOKS: AtomicBool = AtomicBool::new(false);
        let name = "::the_end_of_a_thread_that_forked_waits_for_no_other";
        child::isolated(&[module_path!(), name].concat(), || {
            let me = current::current();
            reaper::started(me, thread::spawn(|| ()));
            let look = |_: &_| {
                LOOKS.store(true, Ordering::Relaxed);
                loop {
                    thread::park();
                }
            };
            thread::spawn(move || reaper::look(me, look));
            until(|| LOOKS.load(Ordering::Relaxed));
            child::forked(|| assert!(reaper::give_away(me).is_none()));
        });
    }

    #[test]
    fn a_wait_that_no_thread_could_end_is_refused() {
        child::isolated(concat!(module_path!(), "::a_wait_that_no_thread_could_end_is_refused"), || {
            watch().unwrap();
            Wait::forever().check_end();
            child::forked(|| {
                assert!(catch_unwind(|| Wait::forever().check_end()).is_err());
                Wait::timeout(Duration::from_secs(1)).check_end();
                let (end, ends) = mpsc::channel::<()>();
                thread::scope(move |s| {
                    s.spawn(move || ends.recv());
                    Wait::forever().check_end();
                    drop(end);
                });
            });
        });
    }

    /// The last other thread may do what is waited for, and be gone, after the thread that waits has looked.
    #[test]
    fn a_wait_that_is_over_is_not_refused() {
        use crate::park::permit;
        use crate::park::reason::WaitReason;
        use crate::park::wait_queue::{self, Invalid, Options};
        child::isolated(concat!(module_path!(), "::a_wait_that_is_over_is_not_refused"), || {
            watch().unwrap();
            child::forked(|| {
                let me = current::current();
                let park = |meanwhile: fn(ThreadRef), wait| {
                    let wait = || {
                        meanwhile(me);
                        wait
                    };
                    permit::park(wait, WaitReason::Park)
                };
                let forever = Wait::forever();
                assert_eq!(park(permit::unpark, forever), Ok(()));
                let interrupt = |me: ThreadRef| me.interrupt();
                assert_eq!(park(interrupt, forever.interruptible()), Err(WaitError::Interrupted));
                assert_eq!(permit::sleep(forever.interruptible()), Err(WaitError::Interrupted));
                assert!(catch_unwind(|| permit::sleep(forever)).is_err());
                let options = Options::new(WaitReason::Scope, forever);
                assert_eq!(wait_queue::wait_while(64, &options, || false), Err(Invalid));
                assert!(catch_unwind(|| wait_queue::wait_while(64, &options, || true)).is_err());
            });
        });
    }

    #[test]
    fn there_is_a_core_for_a_green_thread_that_forks() {
        child::isolated(concat!(module_path!(), "::there_is_a_core_for_a_green_thread_that_forks"), || {
            let me = current::current();
            assert!(core_pool::survivor(me).is_none());
            expect_green_threads();
            assert!(core_pool::survivor(me).is_some());
        });
    }

    /// The allocator's lock may be held by a thread of the parent.
    #[cfg(debug_assertions)]
    #[test]
    fn the_core_of_a_green_thread_that_forks_takes_no_memory_and_frees_none() {
        use crate::park::observed;
        use crate::park::queue_lock::{QueueLock, Rank};
        use crate::park::tests::heap::allocates_without_locks;
        let name = "::the_core_of_a_green_thread_that_forks_takes_no_memory_and_frees_none";
        child::isolated(&[module_path!(), name].concat(), || {
            let last = core_pool::take(1, None, Some("one".into()));
            last.release();
            observed::trace(true, true);
            expect_green_threads();
            assert_eq!(last.name(), None, "what its last life has left is freed before the fork");
            let lock = QueueLock::new(Rank::Outer, ());
            // With a lock held, allocations are noticed.
            let me = current::current();
            let survives = || lock.with(|()| core_pool::survivor(me));
            assert!(allocates_without_locks(survives).is_some());
        });
    }
}
