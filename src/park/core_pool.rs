//! The cores of kernel threads: 1:1 threads, bound threads, and threads that Selvedge did not start.
//!
//! **Problem.** A `ThreadRef` must stay readable for as long as the process lives, and a program may start
//! and end any number of kernel threads. So cores are type-stable: taken from a free list, given back when
//! the last counted reference is gone, and never freed.
//!
//! **Rejected.** To count references of waiters: two read-modify-writes for each hand-off. Cores in native
//! thread-local storage: they would be freed with the thread, while a waker has yet to issue its futex wake.
//!
//! **Cost.** One queue lock to take a core, one to give it back. No allocation once the list is warm.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;

use super::backend::Spawner;
use super::debugger::{Fact, Facts};
use super::kernel_park::KERNEL_PARK;
use super::observed;
use super::owner::OwnerHint;
use super::priority::Priority;
use super::queue_lock::{QueueLock, Rank};
use super::reaper::join_state::JoinState;
use super::spin::FULL_LOOKS;
use super::thread::{self, NO_ID, ThreadCore, ThreadRef};
use super::traced;
use crate::recorder::rings::RingCell;
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering, fence};
use crate::shim::{UnsafeCell, global};

/// Notes the kernel's number of the running thread, a kernel thread with a core.
pub(crate) fn tell_tid(me: ThreadRef, tid: u32) {
    // Relaxed: only shown.
    KernelThread::of(me).tid.store(tid, Ordering::Relaxed);
}

/// What a kernel thread has beyond a core.
///
/// `repr(C)` with the core first: a reference to the core of a kernel thread is a pointer to this.
#[repr(C)]
pub(crate) struct KernelThread {
    core: ThreadCore,
    /// How often a sleep of this thread looks at its word before it enters the kernel. See `kernel_park.rs`.
    looks: Cell<u16>,
    /// In a child: the green thread that has forked, and goes on with this. Its stack is still that one's.
    before: Cell<Option<ThreadRef>>,
    /// See `reaper.rs`.
    join_state: JoinState,
    /// Where its events go, while they are recorded.
    pub(super) ring: RingCell,
    /// The kernel's number of it; 0 if it is not known.
    tid: AtomicU32,
    /// The kernel thread that was created before. Constant once this one is in the list of all.
    older: UnsafeCell<*const KernelThread>,
    /// The next free one. Guarded by the lock of [`FREE`].
    next: UnsafeCell<*const KernelThread>,
}

// SAFETY: `next` is guarded by the free list's lock. `older` does not change once others can see it. `looks`
// is used by the thread itself only, and by `take`, which has the whole to itself. `before` is written by
// `take`, and by the only thread of a child. The rest is `Sync`.
unsafe impl Sync for KernelThread {}

/// For debuggers. The script looks for this table if it finds no green threads.
#[used]
pub(crate) static FACTS: Facts<5> = Facts::new([
    Fact::address("more", &raw const thread::FACTS),
    Fact::address("kernel.all", &raw const ALL),
    Fact::number("kernel.tid", offset_of!(KernelThread, tid)),
    Fact::number("kernel.older", offset_of!(KernelThread, older)),
    Fact::number("kernel.size", size_of::<KernelThread>()),
]);

struct FreeList(*const KernelThread);

// SAFETY: it points to type-stable memory that belongs to the list while it is in there.
unsafe impl Send for FreeList {}

global! {
    static FREE: QueueLock<FreeList> = QueueLock::new(Rank::Pool, FreeList(ptr::null()));
    static SURVIVOR: AtomicPtr<KernelThread> = AtomicPtr::new(ptr::null_mut());
}

/// Returns a core for a kernel thread that is about to start, with `refs` counted references. The thread
/// says that it has this core by [`set_current`](super::current::set_current).
pub(crate) fn take(refs: u32, spawner: Option<&'static dyn Spawner>, name: Option<Box<str>>) -> ThreadRef {
    let thread = begin(recycled().unwrap_or_else(fresh), refs, spawner, name);
    if observed::is_traced() {
        traced::kernel_thread_spawned(thread);
    }
    thread
}

/// Starts a life of a core that the caller has to itself.
fn begin(
    thread: &'static KernelThread,
    refs: u32,
    spawner: Option<&'static dyn Spawner>,
    name: Option<Box<str>>,
) -> ThreadRef {
    thread.looks.set(FULL_LOOKS);
    thread.before.set(None);
    thread.join_state.reset();
    thread.tid.store(0, Ordering::Relaxed);
    // The bit that says "kernel thread". The CPU is filled in at each acquire. Relaxed: published with the
    // reference.
    thread.core.owner_hint.set(OwnerHint::OF_KERNEL_THREAD);
    // SAFETY: fresh, or out of the free list, so nothing else has it.
    unsafe { thread.core.begin(refs, NO_ID, &KERNEL_PARK, spawner, name, Priority::Normal) };
    ThreadRef::new(&thread.core)
}

/// Makes sure that there is a core for the one thread of a child, which cannot allocate one.
pub(super) fn keep_survivor() {
    // Acquire and Release: a thread that finds the core sees what is behind it. Only a child takes it, in
    // its own copy.
    if SURVIVOR.load(Ordering::Acquire).is_null() {
        let fresh = recycled().unwrap_or_else(fresh);
        // The child cannot free what the last life has left either.
        fresh.core.specific.begin();
        // SAFETY: created or taken above, and not shared.
        unsafe { fresh.core.name.begin(None) };
        let fresh = ptr::from_ref(fresh).cast_mut();
        let kept = SURVIVOR.compare_exchange(ptr::null_mut(), fresh, Ordering::Release, Ordering::Relaxed);
        if kept.is_err() {
            // SAFETY: created or taken above, not shared, and type-stable.
            give_back(ThreadRef::new(&unsafe { &*fresh }.core));
        }
    }
}

/// Adapts what the caller of `fork`, a kernel thread, has beyond its core. Its end must not wait for a thread
/// of the parent.
///
/// # Safety
/// Called in the child of a fork, by its only thread, which has this core.
pub(super) unsafe fn survive_fork(me: ThreadRef) {
    // SAFETY: the caller's promise.
    unsafe { KernelThread::of(me).join_state.survive_fork() };
}

/// Returns the core for a child's thread that was `before`, a green one. Called in the child, once for each
/// green thread that forks.
pub(super) fn survivor(before: ThreadRef) -> Option<ThreadRef> {
    let thread = SURVIVOR.swap(ptr::null_mut(), Ordering::Acquire);
    // SAFETY: null, or put there by `keep_survivor`: type-stable.
    let thread: &'static KernelThread = unsafe { thread.as_ref() }?;
    let survivor = begin(thread, 1, before.spawner(), None);
    thread.before.set(Some(before));
    Some(survivor)
}

/// Frees the list's lock from a holder that does not exist in this process. If there was one, gives up the
/// list, which it may have left half changed.
///
/// # Safety
/// Called in the child of a fork, by its only thread.
pub(super) unsafe fn forget_holder() {
    let forget = |free: &mut FreeList, held| {
        if held {
            free.0 = ptr::null();
        }
    };
    // SAFETY: the caller's promise, and none of this file's code forks.
    unsafe { FREE.mend(forget) };
}

/// Takes the core back: its last reference is gone, so the next `take` may have it.
pub(super) fn give_back(core: ThreadRef) {
    let thread = KernelThread::of(core);
    FREE.with(|free| {
        thread.next.with_mut(|next| {
            // SAFETY: the list's lock is held.
            unsafe { *next = free.0 };
        });
        free.0 = thread;
    });
}

fn recycled() -> Option<&'static KernelThread> {
    FREE.with(|free| {
        // SAFETY: the entries of the list are type-stable.
        let thread: &'static KernelThread = unsafe { free.0.as_ref() }?;
        // SAFETY: the list's lock is held.
        free.0 = thread.next.with(|next| unsafe { *next });
        Some(thread)
    })
}

global! {
    /// The newest of all that were ever created, free ones included.
    static ALL: AtomicPtr<KernelThread> = AtomicPtr::new(ptr::null_mut());
}

/// Returns every kernel thread's core, of every runtime or none, living or not. They must be examined as
/// `wait_state.rs` says.
pub(crate) fn all() -> impl Iterator<Item = &'static KernelThread> {
    std::iter::successors(newest(), |thread| thread.older())
}

/// Returns the first of [`all`]. From there, [`KernelThread::older`] leads to the others.
pub(crate) fn newest() -> Option<&'static KernelThread> {
    // Acquire: pairs with the release of `fresh`.
    let newest: *const KernelThread = ALL.load(Ordering::Acquire);
    // SAFETY: null, or in the list, and never freed.
    unsafe { newest.as_ref() }
}

#[cold]
fn fresh() -> &'static KernelThread {
    FACTS.keep();
    let fresh = Box::leak(Box::new(KernelThread {
        core: ThreadCore::new(&KERNEL_PARK, &KERNEL_PARK),
        looks: Cell::new(0),
        before: Cell::new(None),
        join_state: JoinState::new(),
        ring: RingCell::new(),
        tid: AtomicU32::new(0),
        older: UnsafeCell::new(ptr::null()),
        next: UnsafeCell::new(ptr::null()),
    }));
    fresh.core.owner_hint.set(OwnerHint::OF_KERNEL_THREAD);
    loop {
        let newest = ALL.load(Ordering::Relaxed);
        // SAFETY: no other thread knows it yet.
        fresh.older.with_mut(|older| unsafe { *older = newest });
        // Release: pairs with `all`.
        if ALL.compare_exchange(newest, fresh, Ordering::Release, Ordering::Relaxed).is_ok() {
            // Pairs with the fence of `follow` (`recorder/follow.rs`). If `traced::open_kernel_threads`
            // misses this thread, its start finds that the trace is on.
            fence(Ordering::SeqCst);
            return fresh;
        }
    }
}

impl KernelThread {
    /// Returns the kernel thread of a core that `take` returned.
    #[inline]
    pub(super) fn of(core: ThreadRef) -> &'static Self {
        debug_assert!(core.core().owner_hint.get() == OwnerHint::OF_KERNEL_THREAD);
        let core: *const ThreadCore = core.core();
        // SAFETY: only `fresh` creates cores with the backend `KernelPark` and a hint with the kernel bit.
        // They are the first field of a `KernelThread` (`repr(C)`), and never freed. `core` was made from a
        // reference to the whole.
        unsafe { &*core.cast::<Self>() }
    }

    pub(crate) fn thread(&'static self) -> ThreadRef {
        ThreadRef::new(&self.core)
    }

    /// Returns the one that was created before.
    pub(crate) fn older(&'static self) -> Option<&'static Self> {
        // SAFETY: written before it was put into the list, which was acquired.
        let older: *const Self = self.older.with(|older| unsafe { *older });
        // SAFETY: null, or in the list, and never freed.
        unsafe { older.as_ref() }
    }

    /// Returns the kernel's number of the thread, if it is known.
    pub(crate) fn tid(&self) -> Option<u32> {
        // Relaxed: a number to show.
        Some(self.tid.load(Ordering::Relaxed)).filter(|&tid| tid != 0)
    }

    /// Returns the green thread that it was in the parent, if it was one.
    pub(super) fn before(&self) -> Option<ThreadRef> {
        self.before.get()
    }

    /// Returns what is left of it at its end.
    pub(super) fn join_state(&self) -> &JoinState {
        &self.join_state
    }

    /// Returns the record that `kernel_park.rs` describes. Called by the thread itself.
    #[inline]
    pub(super) fn looks(&self) -> &Cell<u16> {
        &self.looks
    }
}

/// Frees a core that a model is done with.
///
/// # Safety
/// The core was taken in this execution of the model, from an empty free list, and is not used any more.
#[cfg(all(test, loom))]
pub(super) unsafe fn free(core: ThreadRef) {
    let thread: *const KernelThread = KernelThread::of(core);
    // SAFETY: leaked by `fresh`, and not used any more.
    drop(unsafe { Box::from_raw(thread.cast_mut()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::child_tests as child;

    #[test]
    fn a_core_is_used_again_after_its_last_release() {
        let thread = take(2, None, Some("one".into()));
        let id = thread.id();
        thread.release();
        assert_eq!(thread.name(), Some("one"));
        thread.release();
        // Other tests take and give back at the same time, so the very same core need not come back. But no
        // identity ever does.
        let next = take(1, None, None);
        assert_ne!(next.id(), id);
        assert_eq!(next.name(), None);
        next.release();
    }

    #[test]
    fn a_number_is_known_when_it_has_been_told() {
        let thread = take(1, None, None);
        assert_eq!(KernelThread::of(thread).tid(), None);
        tell_tid(thread, 7);
        assert_eq!(KernelThread::of(thread).tid(), Some(7));
        thread.release();
    }

    /// If a program forgets clones of a handle, the count must not come back to zero while the thread lives.
    #[test]
    fn handles_that_are_forgotten_do_not_wrap_their_count() {
        let last = i32::MAX as u32;
        let ended = child::run(
            concat!(module_path!(), "::handles_that_are_forgotten_do_not_wrap_their_count"),
            || {
                let thread = take(last, None, None);
                let _ = thread.retain();
                println!("{last} references were not too many");
                let _ = thread.retain();
                println!("{} neither", last + 1);
            },
        );
        if let Some(ended) = ended {
            ended.expect_abort();
            ended.expect_words(&["were not too many", "too many references were forgotten"]);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_core_pool;
