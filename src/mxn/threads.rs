//! The list of a runtime's threads, with what each of them does and where.
//!
//! The list is read from the cores of all green threads and kernel threads of the process
//! (`park/wait_state.rs`), so no thread pays for it. A green thread's owner hint, which every mounting stores
//! anyway, names the LWP that it is on, or was on last. That LWP shows the thread that is mounted.
//!
//! A thread that is woken says so only when it runs. Until then its core says that it waits. So a green
//! thread that seems to wait is looked for in the next-slots and in the rings. The mark that shared queues
//! leave on it tells of the other run queues.

use std::collections::{HashMap, HashSet};
use std::ptr::{self, NonNull};

use super::backtrace;
use super::green::{Chunks, Green};
use super::lwp::Lwp;
use super::run_queue::inject::Linked;
use super::sched::Scheduler;
use crate::backtrace::Unwinder;
use crate::park::core_pool;
use crate::park::thread::ThreadRef;
use crate::sys::task_state;
use crate::thread::id::ThreadId;
use crate::thread::info::{StackLook, StackUse, ThreadInfo, ThreadState};
use crate::thread::seen::{Slot, ThreadChanges, ThreadsSeen};
use crate::thread::snapshot::{Looks, Place, Position, ThreadCursor, ThreadPage};

/// How many threads are looked at between two looks at the run queues.
const BATCH: usize = 1024;

impl Scheduler {
    /// Returns where the cores of its threads say that they belong.
    pub(super) fn home(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns its threads, and what they do. It may allocate: not for dispatchers.
    pub(super) fn threads(&'static self) -> Vec<ThreadInfo> {
        if !self.life.is_here() {
            return Looks::in_fork(self.home());
        }
        let mut looks = Looks::new(self.home(), None);
        let mut next = Some(Position::Start);
        while let Some(from) = next {
            next = self.look_on(&mut looks, from, BATCH);
        }
        looks.into_sorted()
    }

    /// Returns at most `most` of its threads, from a position on. It may allocate: not for dispatchers.
    pub(super) fn threads_page(
        &'static self,
        from: ThreadCursor,
        most: usize,
        unwinder: Option<&mut Unwinder>,
    ) -> ThreadPage {
        if !self.life.is_here() {
            return ThreadPage::in_fork(self.home(), from);
        }
        let mut looks = Looks::new(self.home(), unwinder);
        let mut next = Some(from.0);
        while let Some(from) = next
            && looks.len() < most
        {
            let left = most - looks.len();
            next = self.look_on(&mut looks, from, BATCH.min(left));
        }
        ThreadPage::new(looks.into_infos(false), next)
    }

    /// Returns at most `most` of its threads that have changed. It may allocate: not for dispatchers.
    pub(super) fn threads_changed(&'static self, seen: &mut ThreadsSeen, most: usize) -> ThreadChanges {
        if !self.life.is_here() {
            return ThreadChanges::in_fork(self.home());
        }
        seen.walk(self.home(), most, |looks, from, most| self.look_on(looks, from, BATCH.min(most)))
    }

    /// Looks at [`BATCH`] more of its threads, from a position on, and adds at most `most` of them. Returns
    /// where to go on.
    fn look_on(&'static self, looks: &mut Looks<'_>, from: Position, most: usize) -> Option<Position> {
        let full = looks.len().saturating_add(most);
        let mut looked = 0;
        let (mut chunk, mut first) = match from {
            Position::Start => (Chunks::newest(), 0),
            Position::Green(chunk, first) => (chunk.downcast_ref::<Chunks>(), first),
            Position::Kernel(_) => return looks.add_from(from, full, ask_kernel),
        };
        let view = View::of(self);
        while let Some(at) = chunk {
            for (index, green) in at.greens().iter().enumerate().skip(first) {
                if looks.len() >= full || looked >= BATCH {
                    return Some(Position::Green(at, index));
                }
                looked += 1;
                let slot = Slot::Green(at.first_number() + index);
                if !looks.is_news(slot, green.thread(), || view.is_queued(green)) {
                    continue;
                }
                looks.add(
                    green.thread(),
                    |wait| view.place(green, wait.is_some()),
                    |unwinder| backtrace::of_green(green, || view.runs_on(green), self.signals, unwinder),
                );
            }
            (chunk, first) = (at.older(), 0);
        }
        looks.add_kernel_threads(core_pool::newest(), full, ask_kernel)
    }

    /// Returns the thread that is mounted on an LWP.
    pub(super) fn mounted_on(&self, lwp: &Lwp) -> Option<ThreadId> {
        let green = lwp.running()?;
        let is_on_it =
            || green.fiber.mounted.is_set() && green.core.owner_hint.get().lwp() == lwp.tick.number();
        green.thread().id_if(self.home(), is_on_it).map(ThreadId::from_number)
    }
}

/// Asks the kernel if a kernel thread is asleep, and for its CPU.
fn ask_kernel(tid: u32) -> Option<(bool, Option<u32>)> {
    task_state::look(tid).map(|look| (look.asleep, look.cpu))
}

/// Asks the kernel how much has been used of the stack that a green thread has now.
fn stack_use(thread: ThreadRef) -> Option<StackUse> {
    // SAFETY: looks at green threads ask this of these only.
    let bounds = unsafe { Green::of(thread) }.fiber.bounds()?;
    Some(StackUse::new(bounds.start - bounds.limit, bounds.high_water()))
}

/// The LWPs of a scheduler, for looks at some threads.
struct View {
    scheduler: &'static Scheduler,
    /// By the numbers that hints have.
    lwps: HashMap<u16, &'static Lwp>,
    /// What was in the rings and next-slots when the looks began. Most threads are in none, and no ring has
    /// to be searched for them.
    on_lwps: HashSet<NonNull<Green>>,
}

impl View {
    fn of(scheduler: &'static Scheduler) -> Self {
        let lwps: HashMap<_, _> = scheduler.pool.lwps().map(|lwp| (lwp.tick.number(), lwp)).collect();
        let on_lwps = scheduler
            .pool
            .lwps()
            .flat_map(|lwp| lwp.queue.next.look().into_iter().chain(lwp.queue.ring.items()));
        Self { scheduler, lwps, on_lwps: on_lwps.collect() }
    }

    /// Returns where a thread is that may be one of the scheduler's. `waits`: its core says that it waits.
    fn place(&self, green: &'static Green, waits: bool) -> Place {
        let last = self.lwps.get(&green.core.owner_hint.get().lwp()).copied();
        let lwp = last.map(|lwp| lwp.index as usize);
        let stack = Some(StackLook::new(green.thread(), stack_use));
        if waits || !green.fiber.mounted.is_set() {
            let queued = self.queued(green, last);
            let state = queued.or((!waits).then_some(ThreadState::Runnable));
            return Place { state, lwp, stack, ..Place::default() };
        }
        let tid = self.runs_on(green).map(|lwp| lwp.life.tid()).filter(|&tid| tid != 0);
        Place { lwp, stack, ..Place::on_kernel_thread(tid, ask_kernel) }
    }

    /// Returns the LWP that shows the thread as the one that it runs.
    fn runs_on(&self, green: &'static Green) -> Option<&'static Lwp> {
        let last = self.lwps.get(&green.core.owner_hint.get().lwp()).copied();
        last.filter(|lwp| lwp.running().is_some_and(|running| ptr::eq(running, green)))
    }

    /// Returns `true` for a thread that is in a run queue, or was when the looks began.
    fn is_queued(&self, green: &'static Green) -> bool {
        green.links().is_queued() || self.on_lwps.contains(&green.ptr())
    }

    /// Returns the state of a thread that is in a run queue.
    fn queued(&self, green: &'static Green, last: Option<&Lwp>) -> Option<ThreadState> {
        let chosen = |lwp: &Lwp| ThreadState::Dispatchable { lwp: lwp.index as usize };
        let mut lwps = self.scheduler.pool.lwps();
        if let Some(lwp) = lwps.find(|lwp| lwp.queue.next.look() == Some(green.ptr())) {
            return Some(chosen(lwp));
        }
        if green.links().is_queued() {
            let home = last.filter(|_| self.scheduler.placement.has_homes());
            return Some(home.map_or(ThreadState::Runnable, chosen));
        }
        let in_ring = |lwp: &Lwp| lwp.queue.ring.contains(green.ptr());
        let is_queued = self.on_lwps.contains(&green.ptr()) && self.scheduler.pool.lwps().any(in_ring);
        is_queued.then_some(ThreadState::Runnable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fiber::ThreadRegister;
    use crate::mxn::sched::placement::Placement;
    use crate::mxn::tests::Model;
    use crate::park::owner::OwnerHint;

    #[test]
    fn a_thread_is_where_its_lwp_shows_it() {
        let model = Model::new(2, 0, 1);
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(1), model.green(0));
        let me = crate::sys::kthread::gettid().cast_unsigned();
        let place = || View::of(scheduler).place(green, false);
        lwp.life.show_tid(me);
        green.core.owner_hint.set(OwnerHint::UNKNOWN);
        let runnable = |place: Place| (place.state == Some(ThreadState::Runnable)).then_some(place.lwp);
        assert_eq!(runnable(place()), Some(None));
        green.core.owner_hint.set(lwp.tick.hint());
        assert_eq!(runnable(place()), Some(Some(1)));
        green.fiber.mounted.set();
        let Place { state, lwp: on, .. } = place();
        assert_eq!((state, on), (Some(ThreadState::Running { tid: None }), Some(1)), "not shown yet");
        lwp.show_running(Some(green));
        let Place { state, lwp: on, cpu, .. } = place();
        assert_eq!((state, on), (Some(ThreadState::Running { tid: Some(me) }), Some(1)));
        assert_eq!(cpu.is_some(), cfg!(target_os = "linux"));
        lwp.show_running(None);
    }

    #[test]
    fn a_thread_that_was_woken_does_not_wait() {
        let model = Model::new(2, 0, 2);
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(1), model.green(0));
        green.core.owner_hint.set(model.lwp(0).tick.hint());
        let states = || [true, false].map(|waits| View::of(scheduler).place(green, waits).state);
        let runnable = Some(ThreadState::Runnable);
        assert_eq!(states(), [None, runnable], "it is in no queue");
        lwp.queue.next.fill(green.ptr());
        let next = Some(ThreadState::Dispatchable { lwp: 1 });
        assert_eq!(states(), [next, next]);
        assert!(lwp.queue.next.take().is_some());
        lwp.queue.ring.push(model.green(1).ptr()).unwrap();
        assert_eq!(states(), [None, runnable], "another thread is in the ring");
        lwp.queue.ring.push(green.ptr()).unwrap();
        assert_eq!(states(), [runnable, runnable]);
        assert!(lwp.queue.ring.pop().is_some() && lwp.queue.ring.pop().is_some());
        scheduler.inject.push(green.ptr());
        assert_eq!(states(), [runnable, runnable]);
        assert!(scheduler.inject.pop(0, |_| ()).is_some());
    }

    #[test]
    fn the_lwp_of_a_thread_with_a_home_is_chosen() {
        let model = Model::with(2, 0, 1, |it| it.placement = Placement::new(ThreadRegister::Pinned, false));
        let (scheduler, lwp, green) = (model.scheduler, model.lwp(1), model.green(0));
        let state = || View::of(scheduler).place(green, true).state;
        lwp.pinned.push(green.ptr(), || green.core.priority.get());
        green.core.owner_hint.set(OwnerHint::UNKNOWN);
        assert_eq!(state(), Some(ThreadState::Runnable), "it has not run yet");
        green.core.owner_hint.set(lwp.tick.hint());
        assert_eq!(state(), Some(ThreadState::Dispatchable { lwp: 1 }));
        assert!(lwp.pinned.pop(green.core.priority.get()).is_some());
    }
}
