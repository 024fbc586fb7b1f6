//! What code without a reference to a thread can see of it: which runtime it belongs to, and what it waits
//! for.
//!
//! **Problem.** A report on a runtime must look at all its threads. Meanwhile they run and end, and their
//! cores are used again. None of them may pay for the report.
//!
//! **Rejected.** A list of living threads: two read-modify-writes for each thread. A counted reference to
//! each thread under examination. If a thread's count is one, the thread may conclude without a
//! read-modify-write that it holds the last reference (`thread.rs`). So no other thread can add to the count
//! from outside.
//!
//! **Protocol.** Cores are type-stable, and each kind of core is in a list of all its cores. So any core can
//! be examined at any time, through its atomic fields. A look may find parts of two lives of a core. So it
//! begins and ends with the thread's identity, which no other life has. If the identity is the same and the
//! thread has not ended, all reads in between are of that one thread. Only relaxed stores may be seen late.
//!
//! The thread's name is on the heap, and is freed when the next life begins. So it is changed under a lock,
//! and looks from outside read it under that lock. If a life without a name follows another one without a
//! name, it pays nothing.
//!
//! What the thread waits for is in three fields. The stores have an order: first the address, then the number
//! of the wait, then the reason. Before the next address is stored, the reason is cleared. A look reads the
//! number and the reason before and after it reads the address. If they are the same, the address belongs to
//! that wait.
//!
//! Cost: one store for each life, four for each wait.

use std::num::NonZeroU64;

pub(super) mod name;
pub(super) mod word;

use super::current::current;
use super::observed;
use super::priority::Priority;
use super::reason::WaitReason;
use super::thread::{ThreadCore, ThreadRef};
use crate::recorder::account::Look;
use crate::recorder::{clock, session};

/// Runs `f`, in which the calling kernel thread sleeps until all threads of the runtime at `home` have
/// ended. Meanwhile a search for deadlocks, if one is on, sees the caller wait for them.
pub(crate) fn until_all_end<R>(home: usize, f: impl FnOnce() -> R) -> R {
    if !observed::are_owners_recorded() {
        return f();
    }
    let wait_state = &current().core().wait_state;
    wait_state.at(home);
    wait_state.waits(WaitReason::Scope, false);
    let result = f();
    wait_state.goes_on();
    result
}

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitSnapshot {
    /// The number of this wait among those of the thread.
    pub(crate) serial: u32,
    pub(crate) reason: WaitReason,
    /// The address that belongs to the reason; in a join, the address of the other thread's core.
    pub(crate) at: usize,
    /// Set if the wait ends by itself.
    pub(crate) timed: bool,
    /// Set if an interrupt would end it.
    pub(crate) interruptible: bool,
    /// Set if nothing has ended the wait yet.
    pub(crate) asleep: bool,
}

/// What a look at a thread found.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) id: NonZeroU64,
    pub(crate) name: Option<String>,
    /// Set if it owns a kernel thread.
    pub(crate) kernel: bool,
    pub(crate) priority: Priority,
    /// What it waits for. The wait may have ended since, so its address must not be dereferenced.
    pub(crate) wait: Option<WaitSnapshot>,
    /// What its account says, while times are counted.
    pub(crate) account: Option<Look>,
}

/// What a glance at a thread found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    pub(crate) id: NonZeroU64,
    /// The number of its wait, the reason, and the address.
    pub(crate) wait: Option<(u32, WaitReason, usize)>,
    pub(crate) priority: Priority,
    /// It has a name.
    pub(crate) named: bool,
}

impl ThreadCore {
    /// Returns the address of the core, as a join states it.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns what it waits for, and the address of that. Exact for the thread itself, and for the code that
    /// has stopped it.
    pub(crate) fn awaits(&self) -> Option<(WaitReason, usize)> {
        self.wait_state.wait().map(|(_, reason, at, _)| (reason, at))
    }

    /// Returns `true` if this is a thread of the runtime at `home`, and has not ended.
    pub(crate) fn lives_at(&self, home: usize) -> bool {
        // The end is stored with release, and loaded first. So an ended thread is not found in its runtime.
        !self.is_done() && self.wait_state.home() == home
    }
}

impl ThreadRef {
    /// Looks at a core, which any thread may have by now. Returns what it found, and the result of `more`,
    /// which runs during the look, and is told of the thread's wait. Returns `None` unless a single living
    /// thread of the runtime at `home` has the core all the time. May allocate.
    pub(crate) fn snapshot_with<R>(
        self,
        home: usize,
        more: impl FnOnce(Option<&WaitSnapshot>) -> R,
    ) -> Option<(Snapshot, R)> {
        let (id, (name, priority, wait, account, more)) = self.in_one_life(home, || {
            let (name, priority, wait) = (self.name.look(), self.priority.get(), self.wait_snapshot());
            (name, priority, wait, self.account_look(), more(wait.as_ref()))
        })?;
        Some((Snapshot { id, name, kernel: self.is_kernel(), priority, wait, account }, more))
    }

    /// Does what [`snapshot_with`](Self::snapshot_with) does, but looks only for what tells if there is
    /// anything new. Does not allocate.
    pub(crate) fn glance(self, home: usize) -> Option<Glance> {
        let look = || (self.wait_state.wait(), self.priority.get(), self.name.is_given());
        let (id, (wait, priority, named)) = self.in_one_life(home, look)?;
        Some(Glance { id, wait: wait.map(|(serial, reason, at, _)| (serial, reason, at)), priority, named })
    }

    /// Returns the identity of the thread of the runtime at `home` that has this core, if it lives and
    /// `is_so` returns `true`. Any thread may have the core by now.
    pub(crate) fn id_if(self, home: usize, is_so: impl FnOnce() -> bool) -> Option<NonZeroU64> {
        self.in_one_life(home, is_so).and_then(|(id, is_so)| is_so.then_some(id))
    }

    /// Returns `true` if the thread of this identity has the core, and has not ended.
    pub(crate) fn lives_as(self, id: NonZeroU64) -> bool {
        // In this order: see `lives_at`.
        !self.is_done() && self.known_id() == id.get()
    }

    /// Returns what its account says.
    fn account_look(self) -> Option<Look> {
        if !observed::is_traced() {
            return None;
        }
        let account = self.account.get();
        Some(account.map_or(Look::Unchanged, |it| it.look(session::current(), clock::now())))
    }

    /// Returns what it waits for.
    fn wait_snapshot(self) -> Option<WaitSnapshot> {
        self.wait_state.wait().map(|(serial, reason, at, timed)| WaitSnapshot {
            serial,
            reason,
            at,
            timed,
            interruptible: self.interrupt.may_end_sleep(),
            asleep: false,
        })
    }

    /// Calls `look`. Returns the thread's identity and the result of `look`, if the core has the same living
    /// thread of the runtime at `home` all the time.
    fn in_one_life<R>(self, home: usize, look: impl FnOnce() -> R) -> Option<(NonZeroU64, R)> {
        if !self.lives_at(home) {
            return None;
        }
        let id = self.id();
        let seen = look();
        (self.lives_at(home) && self.id() == id).then_some((id, seen))
    }

    /// Looks at a core, which any thread may have by now. Returns the thread's identity, its runtime, and
    /// its wait, or `None` if no living thread has the core.
    pub(crate) fn snapshot(self) -> Option<(NonZeroU64, usize, Option<WaitSnapshot>)> {
        let home = self.wait_state.home();
        let (id, wait) = self.in_one_life(home, || self.wait_snapshot())?;
        Some((id, home, wait))
    }

    /// Returns the name of the thread of this identity, or `None` if it has no name or has ended.
    pub(crate) fn name_of(self, id: NonZeroU64) -> Option<String> {
        self.name.look().filter(|_| !self.is_done() && self.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::park::backend::{SpawnOptions, Spawner, TaskRef};
    use crate::park::core_pool;
    use crate::park::kernel_park::KERNEL_PARK;
    use crate::park::priority::Priority;
    use crate::park::tests::heap::allocates_without_locks;
    use crate::park::thread::NO_ID;

    #[test]
    fn a_look_is_of_one_life() {
        let thread = core_pool::take(1, None, Some("one".into()));
        assert_eq!(thread.id_if(0, || true), Some(thread.id()));
        assert!(thread.id_if(0, || false).is_none() && thread.id_if(8, || true).is_none());
        assert!(thread.lives_as(thread.id()) && !thread.lives_as(NonZeroU64::MAX));
        let (snapshot, more) = thread.snapshot_with(0, |_| 7).expect("a thread of no runtime");
        assert_eq!((snapshot.id, snapshot.name.as_deref(), more), (thread.id(), Some("one"), 7));
        assert!(thread.snapshot_with(8, |_| ()).is_none());
        // Another thread gets the core meanwhile.
        let begin = |_: Option<&_>| {
            // SAFETY: this test has the core to itself.
            unsafe { thread.core().begin(1, NO_ID, &KERNEL_PARK, None, None, Priority::Normal) };
        };
        assert!(thread.snapshot_with(0, begin).is_none());
        assert!(thread.snapshot().is_some());
        assert!(thread.snapshot_with(0, |_| _ = thread.finish()).is_none(), "it has ended meanwhile");
        assert!(thread.snapshot().is_none() && !thread.lives_as(thread.id()));
        thread.release();
    }

    /// A core gets its next life while another thread looks at it.
    #[test]
    fn a_look_at_a_core_in_other_hands_finds_the_name_of_the_life_that_it_finds() {
        let thread = core_pool::take(1, None, None);
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if let Some((Snapshot { id, name: Some(name), .. }, ())) = thread.snapshot_with(0, |_| ())
                    {
                        assert_eq!(name, id.to_string());
                    }
                }
            });
            for id in u64::MAX - LIVES..u64::MAX {
                let _ = thread.finish();
                let name = Some(id.to_string().into());
                // SAFETY: this test has the core to itself.
                unsafe { thread.core().begin(1, id, &KERNEL_PARK, None, name, Priority::Normal) };
            }
            over.store(true, Ordering::Relaxed);
        });
        thread.release();
    }

    /// Enough for the looks to find a life that begins.
    const LIVES: u64 = 50_000;

    struct Home(u8);

    impl Spawner for Home {
        fn spawn(&self, _: TaskRef<'_>, _: &mut SpawnOptions) -> std::io::Result<ThreadRef> {
            Err(std::io::Error::other("no runtime"))
        }

        fn interrupts_all(&self) -> bool {
            self.0 != 0
        }
    }

    #[test]
    fn a_thread_is_at_home_in_its_runtime() {
        static HOME: Home = Home(0);
        let home = (&raw const HOME).addr();
        let thread = core_pool::take(1, Some(&HOME), None);
        assert!(thread.lives_at(home) && !thread.lives_at(0));
        assert_eq!(thread.snapshot().map(|(_, home, _)| home), Some(home));
        thread.release();
    }

    #[test]
    fn a_name_is_that_of_the_thread_that_is_asked_for() {
        let thread = core_pool::take(1, None, Some("one with a name".into()));
        let (id, other) = (thread.id(), NonZeroU64::MAX);
        assert_eq!(allocates_without_locks(|| thread.name_of(id)).as_deref(), Some("one with a name"));
        assert_eq!(thread.name_of(other), None);
        let _ = thread.finish();
        assert_eq!((thread.name_of(id), thread.name_of(other)), (None, None));
        thread.release();
    }
}
