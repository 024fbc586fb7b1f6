//! Leaving one thread for another, and what the other side of a switch owes the one that left.
//!
//! A green thread that waits is published as asleep *before* it leaves its stack. Its `mounted` flag keeps
//! others off the stack until the other side of the switch has cleared it (I2, `commit`). So three things
//! happen at a switch, in this order:
//!
//! 1. The leaving side mounts the next thread.
//! 2. The registers change.
//! 3. The arriving side settles what has left. It clears the flag, or, if the thread has ended, takes back
//!    its stack and its core (I8).
//!
//! Cost of a switch between two threads: no read-modify-write. There are two stores to flags, and one each to
//! the tick, the thread that the LWP shows, the thread's LWP and its hint. Two thread-locals of the thread
//! follow (`park/current.rs`). The machine part is `arch`'s.

use std::sync::Arc;

use super::alarm::end_alarm;
use super::{Scheduler, deref, policy};
use crate::fiber::Context;
use crate::fiber::tls;
use crate::interpose::HAS_MASKS;
use crate::mxn::green::Green;
use crate::mxn::lwp::Lwp;
use crate::mxn::preempt;
use crate::park::current;
use crate::park::exit::Awaiter;
use crate::park::mutex_handoff::{self, HeldMutex};
use crate::park::no_preempt::NoPreempt;
use crate::park::priority::Priority;
use crate::park::thread::ThreadRef;
use crate::sys::{self, fork};
use crate::thread::spawning;
use crate::thread::task::Unclaimed;

/// Set in the argument of a switch when the thread that leaves has ended. Green threads are aligned, so the
/// bits are free.
const ENDED: usize = 1;
/// Set besides when the reference that the thread shared with its handle is its own.
const DETACHED: usize = 2;
/// Set when the thread that leaves was preempted by signal, and all signals are blocked.
const PREEMPTED: usize = 4;

/// Waits a little until no LWP stands on the stack of `next`. Returns `false` if one still does. The caller has
/// taken the thread off a queue.
#[inline]
pub(super) fn wait_for(next: &'static Green) -> bool {
    // SAFETY: the caller owns the thread. `prepare` has put it on a stack, and `begin` does not return.
    unsafe { next.fiber.wait(begin, next.ptr().as_ptr().cast()) }
}

impl Scheduler {
    /// Leaves the running thread `me`, which is published already: asleep, or on a run queue. Returns when it
    /// is mounted again, on any LWP. If it was the next itself, that is at once.
    #[inline(never)]
    pub(crate) fn leave(&'static self, me: &'static Green) {
        self.leave_in_place(me);
    }

    /// Does what [`leave`](Self::leave) does, without a call: a switch keeps no registers, so a function for
    /// it would save them all once more.
    #[inline(always)]
    pub(crate) fn leave_in_place(&'static self, me: &'static Green) {
        self.leave_after(me, |_| ());
    }

    /// Leaves a thread that holds `lock`, as [`leave`](Self::leave) does. The lock goes to the next thread,
    /// if that wants it (`park/mutex_handoff.rs`).
    pub(crate) fn leave_with(&'static self, me: &'static Green, lock: &dyn HeldMutex) {
        self.leave_after(me, |next| {
            let key = mutex_handoff::key_of(lock);
            mutex_handoff::part_with(lock, key, next.map(|next| &next.core.handoff));
        });
    }

    /// Returns `true` if the thread that is next here wants the lock of `key`. Called by the thread that
    /// runs.
    #[inline]
    pub(crate) fn does_next_want(&self, me: &'static Green, key: usize) -> bool {
        let lwp = me.lwp();
        let next = lwp.queue.first();
        next.is_some_and(|next| deref(next).core.handoff.wants(key)) && me.blocking.get() == 0
    }

    /// Leaves as [`leave`](Self::leave) does, and calls `parting` just before. If the next thread can be
    /// mounted, it is the argument.
    #[inline(always)]
    fn leave_after(&'static self, me: &'static Green, parting: impl FnOnce(Option<&'static Green>)) {
        let lwp = me.lwp();
        if me.wakes_early() {
            self.judge_waker(me, lwp);
        }
        let arg = match self.pick_next(lwp) {
            Some(next) if std::ptr::eq(next, me) => {
                parting(None);
                Self::show_owner(lwp, me);
                return current::cache_hint(Some(me.thread()));
            }
            Some(next) if wait_for(next) => {
                parting(Some(next));
                self.mount(lwp, next);
                // SAFETY: `next` came off a run queue and its flag is clear. So no LWP stands on its stack
                // (I2), and it belongs to this LWP alone. Its register is its own (I1).
                unsafe { self.switch(&me.fiber.context, &next.fiber.context, me.ptr().as_ptr() as usize) }
            }
            Some(next) => {
                parting(None);
                self.put_back(lwp, next);
                self.to_dispatcher(lwp, me, 0)
            }
            None => match self.leave_slowly(lwp, me, parting) {
                Some(arg) => arg,
                None => return current::cache_hint(Some(me.thread())),
            },
        };
        self.arrive(me, arg);
    }

    /// Leaves as [`leave_after`](Self::leave_after) does, which has found no next thread. Returns what came
    /// through the switch; `None` if `me` was the next itself.
    #[cold]
    fn leave_slowly(
        &'static self,
        lwp: &'static Lwp,
        me: &'static Green,
        parting: impl FnOnce(Option<&'static Green>),
    ) -> Option<usize> {
        match self.pick_at_home_or_noted(lwp) {
            Some(next) if std::ptr::eq(next, me) => {
                parting(None);
                Self::show_owner(lwp, me);
                return None;
            }
            Some(next) if wait_for(next) => {
                parting(Some(next));
                // `me` is still mounted, and `next` came off a queue: the caller is the keeper of both.
                if lwp.flags.traces() {
                    self.trace_switch(lwp, me, next);
                }
                self.mount(lwp, next);
                let arg = me.ptr().as_ptr() as usize;
                // SAFETY: `next` came off a run queue and its flag is clear. So no LWP stands on its stack
                // (I2), and it belongs to this LWP alone. Its register is its own (I1).
                return Some(unsafe { self.switch(&me.fiber.context, &next.fiber.context, arg) });
            }
            Some(next) => self.put_back(lwp, next),
            None => {}
        }
        parting(None);
        Some(self.to_dispatcher(lwp, me, 0))
    }

    /// Takes the next thread for an LWP when the running one waits, if that needs no search: next-slot, then
    /// ring. Also returns `None` if the dispatcher is due: for something urgent, for fairness, for a timer,
    /// or because the slot is gone.
    #[inline(always)]
    pub(super) fn pick_next(&self, lwp: &'static Lwp) -> Option<&'static Green> {
        let tick = lwp.tick.bump();
        if self.is_dispatcher_due(lwp, tick) || lwp.flags.is_any() {
            return None;
        }
        lwp.queue.pop().map(deref)
    }

    /// Takes the next thread where [`pick_next`](Self::pick_next) has found none. The thread must run on this
    /// LWP (`Pinned`), or the only reason was that times are counted.
    pub(super) fn pick_at_home_or_noted(&'static self, lwp: &'static Lwp) -> Option<&'static Green> {
        let at_home = self.placement.has_homes() && !lwp.flags.is_any();
        if !(at_home || lwp.flags.only_notes())
            || self.is_dispatcher_due(lwp, lwp.tick.get())
            || lwp.pinned.has_high()
        {
            return None;
        }
        self.count_if_told(lwp);
        let next = deref(lwp.queue.pop().or_else(|| lwp.pinned.pop(Priority::Normal))?);
        if self.is_one_behind(next.ran()) {
            self.put_first(lwp, next);
            return None;
        }
        Some(next)
    }

    /// Returns `true` if the dispatcher has to choose the next thread, whatever the flags say.
    #[inline]
    fn is_dispatcher_due(&self, lwp: &Lwp, tick: u32) -> bool {
        tick.is_multiple_of(policy::FAIR_TICK) || !lwp.slot.is_held() || self.levels.are_urgent()
    }

    /// Leaves a thread that was preempted by signal. This is [`leave`](Self::leave), but all signals are
    /// blocked, and are again when it returns. It always goes to the dispatcher, which unblocks them
    /// (`mxn/preempt.rs`).
    #[cold]
    pub(crate) fn leave_preempted(&'static self, me: &'static Green) {
        let lwp = me.lwp();
        if me.wakes_early() {
            self.judge_waker(me, lwp);
        }
        lwp.tick.bump();
        let arg = self.to_dispatcher(lwp, me, PREEMPTED);
        self.arrive(me, arg);
    }

    /// Leaves the running thread `me` for good. `tag`: `ENDED`, or also `DETACHED`.
    ///
    /// Inlined into `begin`: after a call that does not return, the processor would predict every return of
    /// the next thread wrong.
    #[inline(always)]
    fn leave_for_good(&'static self, me: &'static Green, tag: usize) -> ! {
        let lwp = me.lwp();
        match self.pick_next(lwp) {
            Some(next) if wait_for(next) => {
                self.mount(lwp, next);
                let arg = me.ptr().as_ptr() as usize | tag;
                // SAFETY: nothing else runs `next` (I2, I1). What is saved of `me` is never used.
                unsafe { self.switch(&me.fiber.context, &next.fiber.context, arg) };
            }
            next => {
                if let Some(next) = next {
                    self.put_back(lwp, next);
                }
                self.to_dispatcher(lwp, me, tag);
            }
        }
        unreachable!("an ended thread was mounted")
    }

    /// Runs `next` from the dispatcher, until the dispatcher is switched to again. Returns `false` if an LWP
    /// still stands on its stack; `next` was then put back.
    pub(super) fn run(&'static self, lwp: &'static Lwp, next: &'static Green) -> bool {
        if !wait_for(next) {
            if !next.fiber.mounted.is_preempted() {
                self.put_back(lwp, next);
                return false;
            }
            // The thread unblocks them itself.
            sys::preempt::block_all();
        }
        if lwp.flags.is_noting() {
            self.note_dispatch(lwp, next);
        }
        self.mount(lwp, next);
        // SAFETY: `next` came off a run queue, and no LWP stands on its stack (I2).
        let arg = unsafe { self.switch(&lwp.context, &next.fiber.context, 0) };
        if lwp.flags.is_noting() {
            self.note_stop(lwp, arg);
        }
        lwp.show_running(None);
        if !self.rung.is_per_thread() {
            // The dispatcher shares its thread-locals with the threads it runs.
            current::set_current(None);
        }
        if arg & PREEMPTED == 0 {
            self.settle(lwp, arg);
        } else {
            settle_preempted(lwp, arg);
        }
        true
    }

    /// Notes that `next` begins to run, for those that have asked.
    #[cold]
    fn note_dispatch(&'static self, lwp: &'static Lwp, next: &'static Green) {
        // The time of the search belongs to no thread.
        self.count_if_told(lwp);
        if lwp.flags.traces() {
            self.trace_dispatch(lwp, next);
        }
    }

    /// Notes that a thread has stopped running, for those that have asked. `arg` came through the switch. The
    /// thread is still mounted.
    #[cold]
    fn note_stop(&'static self, lwp: &'static Lwp, arg: usize) {
        self.count_if_told(lwp);
        let left = (arg & !(ENDED | DETACHED | PREEMPTED)) as *const Green;
        // SAFETY: null, or a green thread, which is type-stable.
        let left = unsafe { left.as_ref() };
        if lwp.flags.traces()
            && let Some(left) = left
        {
            self.trace_stop(lwp, left, arg & ENDED != 0, arg & PREEMPTED != 0);
        }
    }

    /// Makes `next` the thread of this LWP.
    #[inline]
    fn mount(&self, lwp: &'static Lwp, next: &'static Green) {
        if HAS_MASKS && lwp.mask.get() != Some(next.mask()) {
            preempt::take_mask(lwp, next);
        }
        next.fiber.mounted.set();
        next.lwp.set(Some(lwp));
        lwp.show_running(Some(next));
        Self::show_owner(lwp, next);
    }

    /// Sets what the thread writes into the locks that it takes from now on.
    #[inline]
    fn show_owner(lwp: &Lwp, green: &Green) {
        green.core.owner_hint.set(lwp.tick.hint());
    }

    #[inline]
    fn to_dispatcher(&self, lwp: &'static Lwp, me: &'static Green, tag: usize) -> usize {
        // SAFETY: the dispatcher's context was saved when it mounted the first of the threads that led here.
        // Only code on this LWP resumes it.
        unsafe { self.switch(&me.fiber.context, &lwp.context, me.ptr().as_ptr() as usize | tag) }
    }

    /// # Safety
    /// As [`Context::switch_to`], on whichever rung this is.
    #[inline(always)]
    unsafe fn switch(&self, from: &Context, to: &Context, arg: usize) -> usize {
        // SAFETY: the caller's contract.
        unsafe { from.switch_to(self.rung, to, arg) }
    }

    /// Settles the thread that left, and makes `me` the current thread. The first thing on a green thread's
    /// stack after a switch.
    #[inline]
    fn arrive(&'static self, me: &'static Green, arg: usize) {
        current::set_current(Some(me.thread()));
        self.settle(me.lwp(), arg);
    }

    /// Does what the arriving side owes the thread that left. `arg` came through the switch.
    #[inline]
    fn settle(&'static self, lwp: &'static Lwp, arg: usize) {
        let left = (arg & !(ENDED | DETACHED)) as *const Green;
        // SAFETY: null (the dispatcher left), or a green thread, which is type-stable.
        let Some(left) = (unsafe { left.as_ref() }) else { return };
        if arg & ENDED == 0 {
            left.fiber.mounted.clear();
        } else {
            self.reap(lwp, left, arg & DETACHED != 0);
        }
    }

    /// Takes back what an ended thread had (I8: from another stack).
    fn reap(&'static self, lwp: &'static Lwp, left: &'static Green, detached: bool) {
        let stack = left.fiber.take_stack();
        left.fiber.mounted.clear();
        // If the thread has a handle, it may belong to another user by now.
        if detached && left.thread().release_was_last() {
            lwp.greens.give_back(left);
        }
        // From here on the runtime may be found empty. What follows is this LWP's own.
        lwp.counters.ended.add_alone();
        if let Some(stack) = stack {
            lwp.stacks.give_back(stack);
        }
    }
}

/// Marks a thread that was preempted by signal, and unblocks signals, on the dispatcher's side of the switch.
#[cold]
fn settle_preempted(lwp: &'static Lwp, arg: usize) {
    let left = (arg & !PREEMPTED) as *const Green;
    // SAFETY: a green thread, which is type-stable.
    unsafe { &*left }.fiber.mounted.clear_preempted();
    preempt::unblock_signals(lwp);
}

/// Begins every green thread.
///
/// # Safety
/// Called by the first switch to a context that `wait_for` laid out. `data` is the green thread.
unsafe extern "C" fn begin(arg: usize, data: *mut ()) -> ! {
    // SAFETY: `spawn` passed it, and green threads are type-stable.
    let me: &'static Green = unsafe { &*data.cast_const().cast::<Green>() };
    let scheduler = Scheduler::of(me.thread());
    // Before the signal handler could find this thread.
    let no_preempt = NoPreempt::hold();
    scheduler.arrive(me, arg);
    drop(no_preempt);
    // SAFETY: this code runs on the thread's own register, for the first time in this life.
    unsafe { tls::enter(scheduler.rung) };
    let task = me.task.take().expect("a spawned thread has something to run");
    let unclaimed = task.run(me.thread());
    if !scheduler.life.is_here() {
        end_forked(scheduler);
    }
    me.core.specific.end();
    // SAFETY: no user code runs on this register after this.
    unsafe { tls::exit(scheduler.rung) };
    if me.core.specific.has_any() {
        end_again(me);
    }
    if !scheduler.life.is_here() {
        // A destructor forked.
        end_forked(scheduler);
    }
    if me.core.leaves_robust() {
        me.thread().dies_with_robust();
        // SAFETY: no user code runs after this. `dies_with_robust` may have allocated.
        unsafe { tls::exit(scheduler.rung) };
    }
    // Held until the block is renewed.
    std::mem::forget(NoPreempt::hold());
    me.ends.set(true);
    if me.blocking.get() > 0 {
        end_regions(scheduler, me);
    }
    let detached = me.core.finish_with(|awaiter| end_awaited(me, awaiter));
    let tag = if detached { end_detached(me, unclaimed) } else { ENDED };
    if me.has_alarm.get() {
        end_alarm(me);
    }
    // What is left of the thread is its context and the flag. It is not used again before the flag is clear.
    scheduler.leave_for_good(me, tag)
}

/// Ends the regions that announced blocking, and that the thread has left by a jump out of a handler of a
/// signal. Otherwise its LWP would count as a spare, and have a slot.
#[cold]
fn end_regions(scheduler: &'static Scheduler, me: &'static Green) {
    let _ = scheduler.suspend_region(me);
    me.blocking.set(0);
}

/// Ends a thread that forked, in the child. The process ends with the last thread of the program.
#[cold]
fn end_forked(scheduler: &'static Scheduler) -> ! {
    // The thread has another core here, and its values are there.
    current::current().specific.end();
    // SAFETY: all code of the thread has run. The code that `exit` calls may still use the register, because
    // no other thread gets it.
    unsafe { tls::exit(scheduler.rung) };
    fork::until_others_have_ended();
    std::process::exit(0)
}

/// Runs the ends of values again, after destructors of thread-locals have put something under keys.
#[cold]
fn end_again(me: &'static Green) {
    me.core.specific.end();
    // SAFETY: no user code runs after this. The destructors may have used thread-locals.
    unsafe { tls::exit(Scheduler::of(me.thread()).rung) };
}

/// Ends a thread that has found at its end that its handle is gone. Returns its tag.
#[cold]
fn end_detached(me: &'static Green, unclaimed: Option<Unclaimed>) -> usize {
    let Some(result) = unclaimed else { return ENDED | DETACHED };
    // The handle was dropped while the thread-locals were being destroyed; otherwise the thread would have
    // noticed before. The result's own destructor may want thread-locals, so a new thread drops it.
    let scheduler = Scheduler::of(me.thread());
    let orphan = Orphan { result: Some(result), of: me.thread() };
    me.ends.set(false);
    // If no thread can be started, the result has been dropped here.
    let _ = spawning::spawn_detached(scheduler, move || drop(orphan));
    // SAFETY: no user code runs after this. Spawning may have allocated.
    unsafe { tls::exit(scheduler.rung) };
    me.ends.set(true);
    ENDED
}

/// Ends a thread that has found at its end that a future waits for it. Code that wakes a future may want
/// thread-locals, so a new thread runs it.
#[cold]
fn end_awaited(me: &'static Green, awaiter: Arc<Awaiter>) {
    let scheduler = Scheduler::of(me.thread());
    me.ends.set(false);
    spawning::hand_over(scheduler, awaiter);
    // SAFETY: no user code runs after this. Spawning may have allocated.
    unsafe { tls::exit(scheduler.rung) };
    me.ends.set(true);
}

/// The result of a thread that has ended without a handle, and the reference that keeps the thread's memory.
/// The result lies there.
struct Orphan {
    result: Option<Unclaimed>,
    of: ThreadRef,
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            // SAFETY: made after `finish` found that the handle is gone.
            unsafe { result.discard() };
        }
        self.of.release();
    }
}
