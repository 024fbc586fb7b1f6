//! Leaving one thread for another, and what the other side of a switch owes the one that left.
//!
//! A green thread that waits is published as asleep *before* it leaves its stack, and its `mounted` flag keeps others
//! off the stack until the other side of the switch has cleared it (I2, `commit`). So three things happen at a switch,
//! in this order: the leaving side mounts the next thread, the registers change, and the arriving side settles what
//! has left: clears its flag, or, if it has ended, takes back its stack and its core (I8).
//!
//! Cost of a switch between two threads: no read-modify-write; two stores to flags, one to each of tick, hint,
//! `current` and the thread-local; the machine part is `arch`'s.

use std::ptr::NonNull;

use super::{Scheduler, deref};
use crate::arch::SavedSp;
use crate::mxn::green::Green;
use crate::mxn::lwp::{Lwp, count};
use crate::mxn::preempt;
use crate::mxn::tls::{self, Rung};
use crate::park::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::relay::Held;
use crate::park::specific;
use crate::park::thread::ThreadRef;
use crate::shim::atomic::Ordering;
use crate::thread::builder;
use crate::thread::packet::Unclaimed;

/// Set in the argument of a switch when the thread that leaves has ended. (Green threads are aligned, so the bits are free.)
const ENDED: usize = 1;
/// Set besides when the reference that it shared with its handle is its own.
const DETACHED: usize = 2;
/// Set when the thread that leaves was preempted by signal, and all signals are blocked.
const PREEMPTED: usize = 4;

impl Scheduler {
    /// Leaves the running thread `me`, which is published already: asleep, or on a run queue. Returns when it is mounted
    /// again, on whatever LWP; at once, if it was the next itself.
    #[inline]
    pub(crate) fn leave(&'static self, me: &'static Green) {
        self.leave_after(me, |_| ());
    }

    /// [`leave`](Self::leave) of a thread that holds the lock of `key`, which goes to the next one, if that wants it (`park/relay.rs`).
    pub(crate) fn leave_with(&'static self, me: &'static Green, key: usize, lock: &dyn Held) {
        self.leave_after(me, |next| match next {
            Some(next) if next.core.relay.wants(key) => next.core.relay.give(),
            _ => lock.release(),
        });
    }

    /// Whether the thread that is next here wants the lock of `key`: a look, by the thread that runs.
    #[inline]
    pub(crate) fn is_followed_by_who_wants(&self, me: &'static Green, key: usize) -> bool {
        let lwp = Self::lwp_of(me);
        // Relaxed: it decides nothing.
        let next = NonNull::new(lwp.next.load(Ordering::Relaxed)).or_else(|| lwp.ring.first());
        next.is_some_and(|next| deref(next).core.relay.wants(key)) && me.blocking.get() == 0
    }

    /// [`leave`](Self::leave), and `parting` just before, which is told who comes next, if that one can be mounted.
    #[inline]
    fn leave_after(&'static self, me: &'static Green, parting: impl FnOnce(Option<&'static Green>)) {
        let lwp = Self::lwp_of(me);
        if me.wakes_early() {
            self.judge_waker(me, lwp);
        }
        let arg = match self.pick_next(lwp) {
            Some(next) if std::ptr::eq(next, me) => {
                parting(None);
                Self::show_owner(lwp, me);
                return current::refresh_hint(Some(me.thread()));
            }
            Some(next) if next.mounted.wait_clear() => {
                parting(Some(next));
                self.mount(lwp, next);
                // SAFETY: `next` came off a run queue and its flag is clear: nobody stands on its stack (I2), and it is
                // ours alone. Its register is its own (I1).
                unsafe {
                    self.switch(me.sp.as_ptr(), next.sp.get(), next.tp.get(), me.ptr().as_ptr() as usize)
                }
            }
            Some(next) => {
                parting(None);
                self.put_back(lwp, next);
                self.to_dispatcher(lwp, me, 0)
            }
            None => {
                parting(None);
                self.to_dispatcher(lwp, me, 0)
            }
        };
        self.arrive(me, arg);
    }

    /// Leaves a thread that was preempted by signal: [`leave`](Self::leave), but all signals are blocked, and
    /// are again when this returns. It always goes to the dispatcher, which unblocks them (`mxn/preempt.rs`).
    #[cold]
    pub(crate) fn leave_preempted(&'static self, me: &'static Green) {
        let lwp = Self::lwp_of(me);
        if me.wakes_early() {
            self.judge_waker(me, lwp);
        }
        lwp.tick.bump();
        let arg = self.to_dispatcher(lwp, me, PREEMPTED);
        self.arrive(me, arg);
    }

    /// Leaves the running thread `me` for good. `tag`: `ENDED`, or also `DETACHED`.
    ///
    /// A part of `begin`: from a call that does not return, the processor would predict every return of the next thread
    /// wrong.
    #[inline(always)]
    fn leave_for_good(&'static self, me: &'static Green, tag: usize) -> ! {
        let lwp = Self::lwp_of(me);
        match self.pick_next(lwp) {
            Some(next) if next.mounted.wait_clear() => {
                self.mount(lwp, next);
                let arg = me.ptr().as_ptr() as usize | tag;
                // SAFETY: as in `leave`; what is saved in `me.sp` is never used.
                unsafe { self.switch(me.sp.as_ptr(), next.sp.get(), next.tp.get(), arg) };
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

    /// Runs `next` from the dispatcher, until the dispatcher is switched to again. `false`: somebody still stands on its
    /// stack, and it was put back.
    pub(super) fn run(&'static self, lwp: &'static Lwp, next: &'static Green) -> bool {
        if !next.mounted.wait_clear() {
            if !next.mounted.is_preempted() {
                self.put_back(lwp, next);
                return false;
            }
            // The thread unblocks them itself.
            preempt::block_signals();
        }
        // The time of the search is nobody's.
        self.count_if_told(lwp);
        self.mount(lwp, next);
        // SAFETY: as in `leave`.
        let arg = unsafe { self.switch(lwp.sp.as_ptr(), next.sp.get(), next.tp.get(), 0) };
        self.count_if_told(lwp);
        lwp.running.store(std::ptr::null_mut(), Ordering::Relaxed);
        if self.rung == Rung::Pinned {
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

    /// The LWP that runs the calling green thread.
    #[inline]
    pub(crate) fn lwp_of(me: &'static Green) -> &'static Lwp {
        me.lwp.get().expect("a running green thread has an LWP")
    }

    /// Makes `next` the thread of this LWP.
    #[inline]
    fn mount(&self, lwp: &'static Lwp, next: &'static Green) {
        next.mounted.set();
        next.lwp.set(Some(lwp));
        // Relaxed: a hint for the monitor, for whoever wants a lower one to leave, and for dumps.
        lwp.running.store(next.ptr().as_ptr(), Ordering::Relaxed);
        Self::show_owner(lwp, next);
    }

    /// What the thread writes into the locks it takes from now on.
    #[inline]
    fn show_owner(lwp: &Lwp, green: &Green) {
        // Relaxed: a hint for spinners.
        green.core.owner_hint.store(lwp.tick.hint().bits(), Ordering::Relaxed);
    }

    #[inline]
    fn to_dispatcher(&self, lwp: &'static Lwp, me: &'static Green, tag: usize) -> usize {
        // SAFETY: the dispatcher's context was saved when it mounted the first of the threads that led here, and only
        // code on this LWP resumes it.
        unsafe { self.switch(me.sp.as_ptr(), lwp.sp.get(), lwp.tp.get(), me.ptr().as_ptr() as usize | tag) }
    }

    /// # Safety
    /// As [`tls::switch`], on whichever rung this is.
    #[inline(always)]
    unsafe fn switch(&self, save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
        // SAFETY: the caller's contract.
        unsafe { tls::switch(self.rung, save, to, tp, arg) }
    }

    /// First thing on a green thread's stack after a switch: who left is settled, and we know who we are.
    #[inline]
    fn arrive(&'static self, me: &'static Green, arg: usize) {
        current::set_current(Some(me.thread()));
        self.settle(Self::lwp_of(me), arg);
    }

    /// What the arriving side does for the thread that left; `arg` came through the switch.
    #[inline]
    fn settle(&'static self, lwp: &'static Lwp, arg: usize) {
        let left = (arg & !(ENDED | DETACHED)) as *const Green;
        // SAFETY: null (the dispatcher left), or a green thread, which is type-stable.
        let Some(left) = (unsafe { left.as_ref() }) else { return };
        if arg & ENDED == 0 {
            left.mounted.clear();
        } else {
            self.bury(lwp, left, arg & DETACHED != 0);
        }
    }

    /// Takes back what an ended thread had (I8: from another stack).
    fn bury(&'static self, lwp: &'static Lwp, left: &'static Green, detached: bool) {
        if let Some(stack) = left.stack.take() {
            lwp.stacks.give_back(stack);
        }
        left.mounted.clear();
        // With a handle, it may be somebody else's by now.
        if detached && left.thread().release_was_last() {
            lwp.greens.give_back(left);
        }
        // Last: from here on the runtime may be found empty.
        count(&lwp.counters.ended);
    }
}

/// Marks a thread that was preempted by signal, and unblocks signals: the dispatcher's side of the switch.
#[cold]
fn settle_preempted(lwp: &'static Lwp, arg: usize) {
    let left = (arg & !PREEMPTED) as *const Green;
    // SAFETY: a green thread, which is type-stable.
    unsafe { &*left }.mounted.clear_preempted();
    preempt::unblock_signals(lwp);
}

/// Where every green thread begins.
///
/// # Safety
/// Called by the first switch to a context that `spawn` laid out: `data` is the green thread.
pub(crate) unsafe extern "C" fn begin(arg: usize, data: *mut ()) -> ! {
    // SAFETY: `spawn` passed it, and green threads are type-stable.
    let me: &'static Green = unsafe { &*data.cast_const().cast::<Green>() };
    let scheduler = Scheduler::of(me.thread());
    // Before the handler could find us.
    let no_preempt = NoPreempt::hold();
    scheduler.arrive(me, arg);
    drop(no_preempt);
    // SAFETY: we are on the thread's own register, for the first time in this life.
    unsafe { tls::enter(scheduler.rung) };
    let start = me.start.take().expect("a spawned thread has something to run");
    let unclaimed = start.run(me.thread());
    specific::end(me.thread());
    if !scheduler.life.process.is_mine() {
        // It forked, and this is the child. Its last thread ends, as far as this crate knows: so does it.
        std::process::exit(0);
    }
    // SAFETY: nothing of the user's runs on this register any more.
    unsafe { tls::exit(scheduler.rung) };
    if specific::has_any(me.thread()) {
        end_again(me);
    }
    if me.core.leaves_robust() {
        me.thread().dies_with_robust();
        // SAFETY: as above. That may have allocated.
        unsafe { tls::exit(scheduler.rung) };
    }
    // Until the block is renewed.
    std::mem::forget(NoPreempt::hold());
    me.ends.set(true);
    let tag = if me.core.finish() { end_detached(me, unclaimed) } else { ENDED };
    // What is left of us is our context and the flag; nobody uses this thread again before that is clear.
    scheduler.leave_for_good(me, tag)
}

/// Destructors of thread-locals have put something under keys.
#[cold]
fn end_again(me: &'static Green) {
    specific::end(me.thread());
    // SAFETY: as in `begin`. What has been destroyed may have used thread-locals.
    unsafe { tls::exit(Scheduler::of(me.thread()).rung) };
}

/// The rest of a thread that has found at its end that its handle is gone. Gives its tag.
#[cold]
fn end_detached(me: &'static Green, unclaimed: Option<Unclaimed>) -> usize {
    let Some(result) = unclaimed else { return ENDED | DETACHED };
    // The handle was dropped while the thread-locals were being destroyed, else the thread had noticed before. The result's
    // own destructor may want thread-locals, so a new thread drops it.
    let scheduler = Scheduler::of(me.thread());
    let orphan = Orphan { result: Some(result), of: me.thread() };
    me.ends.set(false);
    // If no thread can be had, it has been dropped here.
    let _ = builder::spawn_detached(scheduler, move || drop(orphan));
    // SAFETY: as in `begin`. Spawning may have allocated.
    unsafe { tls::exit(scheduler.rung) };
    me.ends.set(true);
    ENDED
}

/// The result of a thread that has ended without a handle, and the reference that keeps the thread's memory, where it lies.
struct Orphan {
    result: Option<Unclaimed>,
    of: ThreadRef,
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            // SAFETY: made where `finish` said that the handle is gone.
            unsafe { result.discard() };
        }
        self.of.release();
    }
}
