//! What the rest of the crate sees of a scheduler: how its green threads sleep, wake and yield (`Backend`),
//! and how new ones start (`Spawner`).

use std::io;
use std::mem;
use std::ops::Range;
use std::ptr::{self, NonNull};

use super::green::{self, Green};
use super::kernel_threads::Helper;
use super::life::end::Visit;
use super::lwp::Lwp;
use super::sched::Scheduler;
use super::timer;
use crate::fiber::stack::{self, SizeClass};
use crate::fiber::tls;
use crate::interpose::HAS_MASKS;
use crate::park::backend::{Backend, CorePool, Rooms, Sleep, SpawnOptions, Spawner, TaskRef};
use crate::park::current;
use crate::park::fork;
use crate::park::mutex_handoff::{self, HeldMutex};
use crate::park::no_preempt::{self, NoPreempt};
use crate::park::owner::OwnerHint;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::thread::{NO_ID, ThreadRef};
use crate::park::wait_queue::Grants;
use crate::recorder::ring::Ring;
use crate::settings::invalid;
use crate::shim;
use crate::shim::atomic::AtomicU32;
use crate::sys;
use crate::sys::kthread;
use crate::sys::preempt::Mask;
use crate::sys::{affinity, cpu};
use crate::thread::kernel;
use crate::time::Moment;

impl Backend for Scheduler {
    fn block(&self, me: &ThreadRef, sleep: &dyn Sleep, deadline: Option<Moment>, reason: WaitReason) {
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let scheduler = self.forever();
        let region = scheduler.suspend_region(green);
        match deadline {
            None => {
                me.core().wait_state.waits(reason, false);
                scheduler.leave_in_place(green);
            }
            Some(deadline) if self.is_watched(green, sleep, deadline) => {
                me.core().wait_state.waits(reason, true);
                scheduler.leave_in_place(green);
            }
            Some(deadline) => {
                me.core().wait_state.waits(reason, true);
                let timers = &green.lwp().timers;
                let entry = timer::Entry::new(self.clock.at(deadline), *me, sleep);
                // SAFETY: the entry stays in this frame until it is disarmed, with the same timers. The
                // caller forbids preemption for as long.
                unsafe { timers.arm(&entry) };
                scheduler.leave_in_place(green);
                timers.disarm(&entry);
            }
        }
        scheduler.resume_region(green, region);
        me.core().wait_state.goes_on();
        debug_assert!(!sleep.is_asleep(), "a green thread ran before its sleep was over");
    }

    fn block_with(&self, me: &ThreadRef, sleep: &dyn Sleep, reason: WaitReason, lock: &dyn HeldMutex) {
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let scheduler = self.forever();
        if !scheduler.does_next_want(green, mutex_handoff::key_of(lock)) {
            lock.release();
            return self.block(me, sleep, None, reason);
        }
        me.core().wait_state.waits(reason, false);
        scheduler.leave_with(green, lock);
        me.core().wait_state.goes_on();
        debug_assert!(!sleep.is_asleep(), "a green thread ran before its sleep was over");
    }

    fn wake(&self, target: ThreadRef, _word: *const AtomicU32) {
        self.check_waker();
        // SAFETY: a scheduler's thread is green. The caller won the sleep, so the thread is its own to queue.
        self.forever().ready(unsafe { Green::of(target) });
    }

    fn wake_behind(&self, target: ThreadRef, _word: *const AtomicU32, others: &mut Grants) -> usize {
        self.check_waker();
        // SAFETY: a scheduler's threads are green, and the caller won their sleeps.
        let green = |target| unsafe { Green::of(target) };
        self.forever().ready_behind(green(target), || others.pop_of(self).map(green))
    }

    fn forked(&self, me: &ThreadRef) {
        if !self.rung.is_per_thread() {
            // The child runs on the LWP's own thread register, and the C library keeps that block.
            return;
        }
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        cpu::leave_area_of(green.lwp().context.tp());
    }

    fn yield_now(&self, me: &ThreadRef) {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let scheduler = self.forever();
        let lwp = green.lwp();
        let others = lwp.has_queued()
            || self.inject.len() > 0
            || self.preempted.len() > 0
            || self.levels.are_urgent()
            || self.levels.len() > 0 && me.priority.get() == Priority::Low;
        if others || !lwp.slot.is_held() || self.placement.moves_always() {
            let region = scheduler.suspend_region(green);
            if self.inject.len() > 0 {
                // The thread itself, or another that yields, may be all that this LWP ever finds in its ring.
                lwp.flags.look();
            }
            scheduler.queue_behind(lwp, green);
            scheduler.leave_in_place(green);
            scheduler.resume_region(green, region);
        } else if self.is_on_one_cpu() {
            // No green thread wants to run, but a kernel thread may.
            shim::yield_cpu();
        }
    }

    fn enter_blocking(&self, me: &ThreadRef) {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let depth = green.blocking.get();
        green.blocking.set(depth + 1);
        if depth == 0 {
            self.forever().announce(green);
        }
    }

    fn exit_blocking(&self, me: &ThreadRef) {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let depth = green.blocking.get() - 1;
        green.blocking.set(depth);
        if !self.life.is_here() {
            // `me` forked in the region, and this is the child, where it is a kernel thread.
            return;
        }
        if depth == 0 && !self.forever().retract(green) {
            // The slot is gone, so the thread queues for another.
            self.forever().queue_without_slot(green);
            self.forever().leave(green);
        }
    }

    fn leave_if_asked(&self, me: &ThreadRef) {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let (scheduler, lwp) = (self.forever(), green.lwp());
        if green.blocking.get() > 0 {
            // Others may have its slot. It looks where the region ends.
        } else if self.placement.has_homes() {
            if !lwp.slot.is_held() && !scheduler.end_rest(lwp) {
                scheduler.queue_without_slot(green);
                scheduler.leave(green);
            }
        } else if lwp.request.was_refused(lwp.tick.get()) || !lwp.slot.is_held() && !scheduler.end_rest(lwp) {
            scheduler.yield_preempted(green);
        }
    }

    fn ring(&self, me: &ThreadRef) -> Option<&'static Ring> {
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        Some(green.lwp().trace.get()?.ring())
    }

    fn runtime(&self) -> u32 {
        self.number
    }

    fn watch(&self, descriptor: i32, token: u64, by: &AtomicU32) -> io::Result<bool> {
        self.poller.watch(descriptor, token, by).map(|()| true)
    }

    fn watch_anew(&self, descriptor: i32, token: u64) -> io::Result<()> {
        self.poller.watch_anew(descriptor, token)
    }

    fn may_wait_at(&self, me: &ThreadRef, sp: usize) -> bool {
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        // Threads that share a register share `errno`, and the count of `no_preempt` says nothing.
        self.rung.is_per_thread()
            && green.fiber.stack().is_some_and(|stack| stack::Bounds::of(stack).contain(sp))
    }

    fn has_usual_mask(&self, me: &ThreadRef) -> bool {
        let _no_preempt = NoPreempt::hold();
        // SAFETY: a scheduler's thread is green.
        let lwp = unsafe { Green::of(*me) }.lwp();
        lwp.mask.get() == Some(sys::preempt::baseline_mask())
    }

    fn mask_of(&self, me: &ThreadRef) -> Option<u64> {
        // SAFETY: a scheduler's thread is green.
        Some(unsafe { Green::of(*me) }.mask().bits())
    }

    fn mask_changed(&self, me: &ThreadRef, before: u64, now: u64) -> bool {
        // A handler may have interrupted a switch, where the LWP has the next thread's mask already.
        if self.rung.is_per_thread() && !no_preempt::is_allowed() {
            return false;
        }
        let _no_preempt = NoPreempt::hold();
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*me) };
        let lwp = green.lwp();
        // The child of a `vfork` has this memory, and a mask of its own.
        let is_here = || lwp.life.tid() == kthread::gettid().cast_unsigned();
        let is_noted = green.mask() == Mask::from_bits(before) && is_here();
        if is_noted {
            green.set_mask(Mask::from_bits(now));
            lwp.mask.note(Mask::from_bits(now));
        }
        is_noted
    }

    fn stack_of(&self, thread: &ThreadRef) -> Option<Range<usize>> {
        // SAFETY: a scheduler's thread is green.
        let stack = unsafe { Green::of(*thread) }.fiber.stack()?;
        let bounds = stack::Bounds::of(stack);
        Some(bounds.limit..bounds.start)
    }

    fn runs_on(&self, thread: &ThreadRef) -> Option<u32> {
        // SAFETY: a scheduler's thread is green.
        let green = unsafe { Green::of(*thread) };
        let runs_it = |lwp: &&'static Lwp| lwp.running().is_some_and(|running| ptr::eq(running, green));
        self.forever().pool.lwps().find(runs_it).map(|lwp| lwp.life.tid())
    }

    fn interrupt_running(&self, thread: &ThreadRef) -> bool {
        // If it has left the LWP meanwhile, the signal finds another, and means nothing. Without a handler,
        // none is sent.
        self.runs_on(thread).is_some_and(|tid| sys::preempt::send(tid.cast_signed()).is_ok())
    }

    fn has_own_register(&self) -> bool {
        self.rung.is_per_thread()
    }
}

/// A thread was in a region that announced blocking when it went to sleep itself.
#[must_use]
pub(super) struct Suspended(bool);

impl Scheduler {
    /// Ends a region for a thread that sleeps or yields after all. The LWP needs its slot back, or goes
    /// without.
    #[inline]
    pub(super) fn suspend_region(&'static self, green: &'static Green) -> Suspended {
        let inside = green.blocking.get() > 0;
        if inside {
            // Lost or not, the next dispatch looks at the slot.
            let _ = self.retract(green);
        }
        Suspended(inside)
    }

    #[inline]
    fn resume_region(&'static self, green: &'static Green, region: Suspended) {
        if region.0 {
            self.announce(green);
        }
    }

    /// Checks that the waker cannot be preempted now. Otherwise a waker that has won a sleep might lose its
    /// LWP, and the sleeper would wait until the waker runs again.
    #[inline]
    fn check_waker(&self) {
        debug_assert!(
            // On this rung, green threads share a no-preempt count.
            !self.rung.is_per_thread()
                || !no_preempt::is_allowed()
                || current::try_current().is_none_or(|me| me.is_kernel()),
            "a waker can be preempted"
        );
    }

    /// Returns this scheduler, for what lives as long as its threads.
    #[inline]
    pub(crate) fn forever(&self) -> &'static Scheduler {
        // SAFETY: a scheduler is freed only after its last thread, its LWPs and its visitors have gone
        // (`Life`).
        unsafe { &*std::ptr::from_ref(self) }
    }
}

impl Spawner for Scheduler {
    fn interrupts_all(&self) -> bool {
        self.life.interrupts_waits()
    }

    fn takes_pthreads(&self) -> bool {
        self.rung.is_per_thread() && self.life.is_here()
    }

    fn green_std_threads(&self) -> Option<bool> {
        self.settings.green_std_threads
    }

    fn set_idle_mask(&self, mask: u64, added: u64) {
        self.forever().close_idle(mask, added);
    }

    fn spawn(&self, task: TaskRef<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        let _no_preempt = NoPreempt::hold();
        let scheduler = self.forever();
        if self.life.is_interrupting() {
            return Err(io::Error::other("the runtime is shutting down: it starts no more threads"));
        }
        let me = scheduler.here().map(|(me, _)| me);
        // In the child of a fork, the thread that forked is no green thread any more.
        if me.is_none() && !self.life.is_here() {
            return Err(fork::refusal());
        }
        if options.bound || options.cpus.is_some() {
            return scheduler.spawn_bound(task, options);
        }
        let class = match options.stack_size {
            None => self.stack_class,
            Some(size) => SizeClass::of(size)?,
        };
        // Looked up again after each step that may allocate. The allocator may have locks of this crate. A
        // thread that waits for one may go on on another LWP.
        let lwp = || me.map(Green::lwp);
        let stack = match lwp() {
            Some(lwp) => lwp.stacks.take(class, || self.runs_one_at_a_time())?,
            None => stack::take(class, || self.runs_one_at_a_time())?,
        };
        let porch = stack.porch();
        let green = prepare(stack, scheduler, || {
            let cached = lwp().and_then(|lwp| lwp.greens.take());
            cached.unwrap_or_else(|| green::take_global(scheduler, &Greens))
        })?;
        let rooms = Rooms { inline: NonNull::from(&green.room), porch };
        // SAFETY: the thread is free, and owned here. It is free again only when its references are released.
        // The stack is the thread's, which stands below its porch and runs the task there.
        let task = unsafe { task.into_room(rooms) };
        // What was here before has been run, so there is nothing to drop.
        mem::forget(green.task.replace(Some(task)));
        let id = match lwp() {
            Some(lwp) => {
                lwp.counters.spawned.add_alone();
                lwp.ids.take()
            }
            None => {
                self.life.count_spawn();
                NO_ID
            }
        };
        // One reference, which the thread shares with its handle.
        // SAFETY: the thread is free, and the caller owns it.
        unsafe { green.core.begin(1, id, scheduler, Some(scheduler), options.name.take(), options.priority) };
        if HAS_MASKS {
            green.set_mask(self.first_mask(options.mask));
        }
        green.set_ran(self.shares.fair());
        green.set_slice(options.time_slice.unwrap_or(self.slice));
        scheduler.ready_new(me, green);
        Ok(green.thread())
    }
}

impl Scheduler {
    /// Starts a thread that owns its kernel thread. Returns an error if `options` ask for a green thread with
    /// what only such a thread can have.
    #[cold]
    fn spawn_bound(&'static self, task: TaskRef<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        if !options.bound {
            return Err(invalid(
                "a green thread runs on any LWP: to have an affinity it must own a kernel thread, by `bound(true)`"
                    .into(),
            ));
        }
        // What the new thread maps by itself must still be there after its stack.
        sys::mmap::check_headroom(options.stack_size.unwrap_or(self.settings.bound_stack_size))?;
        self.life.count_bound();
        /// Uncounts a thread that did not start, even if dropping its closure panics.
        struct Counted(&'static Scheduler);
        impl Drop for Counted {
            fn drop(&mut self) {
                kernel::Host::thread_ended(self.0);
            }
        }
        let counted = Counted(self);
        let spawned = kernel::spawn(&self.share(), task, options, self.settings.bound_stack_size)?;
        mem::forget(counted);
        Ok(spawned)
    }
}

impl kernel::Host for Scheduler {
    fn thread_ended(&self) {
        self.life.end_bound();
        // This may have been the last thread of a dropped runtime.
        self.watch.notice_activity();
    }

    fn is_here(&self) -> bool {
        self.life.is_here()
    }

    fn place(&self) {
        if self.settings.cpus.is_some() {
            affinity::pin_like(self.kernel_threads.helper_tid(Helper::Monitor));
        }
    }

    fn reaper(&self) -> &kernel::Reaper {
        &self.reaper
    }
}

/// Puts a free thread on a stack, with a TLS block.
#[inline]
fn prepare(
    stack: stack::Stack,
    scheduler: &'static Scheduler,
    take: impl FnOnce() -> &'static Green,
) -> io::Result<&'static Green> {
    // SAFETY: the runtime stands on the rung.
    let tp = match unsafe { tls::prepare(scheduler.rung, stack) } {
        Ok(tp) => tp,
        Err(error) => {
            stack::give_back(stack);
            return Err(error);
        }
    };
    let green = take();
    stack.set_owner(green.ptr().as_ptr().cast());
    green.lwp.set(None);
    // Looks from outside learn from it that the thread has not run yet.
    green.core.owner_hint.set(OwnerHint::UNKNOWN);
    green.ends.set(false);
    green.set_wakes_early(false);
    green.set_ahead(false);
    green.regions.begin();
    // SAFETY: the thread is free, and the stack was prepared for it.
    unsafe { green.fiber.put_on(stack, tp) };
    Ok(green)
}

/// The pool of the cores of all green threads, of all runtimes.
#[derive(Debug)]
pub(crate) struct Greens;

impl CorePool for Greens {
    fn reprioritized(&self, thread: ThreadRef) {
        if current::try_current() == Some(thread) {
            // It runs, so it is in no queue.
            return;
        }
        let _no_preempt = NoPreempt::hold();
        if let Some(visit) = Visit::of(thread) {
            // SAFETY: this is the pool of green threads' cores alone.
            visit.scheduler().reprioritize(unsafe { Green::of(thread) });
        }
    }

    fn recycle(&self, core: ThreadRef) {
        // SAFETY: this is the pool of green threads' cores alone.
        let green = unsafe { Green::of(core) };
        let _no_preempt = NoPreempt::hold();
        let me = current::try_current().filter(|me| !me.is_kernel());
        // SAFETY: only green threads own no kernel thread.
        match me.and_then(|me| unsafe { Green::of(me) }.lwp.get()) {
            Some(lwp) => lwp.greens.give_back(green),
            None => green::give_back_global(green),
        }
    }
}
