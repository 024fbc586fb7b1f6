//! An LWP: a kernel thread of the pool that runs green threads, with its own run queue.
//!
//! LWPs are made by `slots::pool` and stay as long as their runtime. Their kernel threads may end before. An
//! LWP without a slot sleeps among the spares (`idle_sleep`). What others may touch is atomic or under a
//! lock. What is the owner's alone is in cells. *Owner* means code that runs on this LWP, be it the
//! dispatcher or the green thread mounted on it.

mod flags;
pub(crate) mod idle_sleep;
mod lead;
mod life;
pub(crate) mod mask;
pub(crate) mod preempt_request;

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use self::flags::Flags;
use self::idle_sleep::IdleSleep;
use self::lead::Lead;
use self::life::LwpLife;
use self::mask::LwpMask;
use self::preempt_request::PreemptRequest;
use super::counter::Counter;
use super::green::{self, Green};
use super::run_queue::by_priority::ByPriority;
use super::run_queue::{RunQueue, Seen};
use super::slots::slot::SlotWord;
use super::timer::Timers;
use crate::fiber::Context;
use crate::fiber::stack;
use crate::park::debugger::{Fact, Facts};
use crate::park::owner::Tick;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::Ids;
use crate::recorder::rings::RingCell;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::shim::cpu;

thread_local! {
    /// The LWP that has this thread register as its own. No destructor and a constant start: a signal handler
    /// reads it.
    static DISPATCHES: Cell<Option<&'static Lwp>> = const { Cell::new(None) };
}

/// Returns the LWP that has the caller's thread register as its own.
pub(crate) fn dispatches() -> Option<&'static Lwp> {
    DISPATCHES.get()
}

/// Sets what [`dispatches`] returns. Called by the LWP's kernel thread.
pub(crate) fn set_dispatches(lwp: Option<&'static Lwp>) {
    DISPATCHES.set(lwp);
}

/// A kernel thread of the pool.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lwp {
    // The owner's, on every dispatch.
    /// The dispatcher's own context, while a green thread runs.
    pub(crate) context: Context,
    /// How often it has dispatched: the monitor's and the thieves' clock, and part of owner hints.
    pub(crate) tick: Tick,
    /// The thread that is mounted, for looks from outside. It may be another by now; greens are type-stable.
    running: AtomicPtr<Green>,
    pub(crate) slot: SlotWord,
    /// How many more threads to queue, while an LWP sleeps, before deciding whether to wake it. `skipped` is
    /// how many they were in all.
    pub(crate) skip: Cell<u32>,
    pub(crate) skipped: Cell<u32>,
    /// When a thread last woke another early here (rule 5 of `sched::wake`).
    pub(crate) woke_early_at: Cell<u64>,
    pub(crate) flags: Flags,
    /// Where the dispatcher looks first, once.
    pub(crate) look_first: Cell<First>,
    /// The thread that is about to leave slept in the kernel.
    pub(crate) evicted: Cell<bool>,
    /// The dispatcher looked at the oldest preempted thread first after the last such thread.
    pub(crate) oldest_was_first: Cell<bool>,
    /// When a dispatch last added to a share (`sched::fair_share`).
    pub(crate) counted: Cell<u64>,
    /// Run time of its threads that it has not yet added to the fair share (`sched::fair_share`), in ns.
    pub(crate) shared_out: Cell<u64>,
    /// The signals that it blocks: a thread that has others blocked may be in a handler.
    pub(crate) mask: LwpMask,
    /// Its dispatches of high threads on end.
    pub(crate) high_run: Cell<HighRun>,
    /// How many dispatches took what is next in turn, not what is nearest.
    pub(crate) turns: Cell<u32>,
    pub(crate) stacks: stack::Cache,
    pub(crate) greens: green::Cache,
    /// Of the threads that it starts.
    pub(crate) ids: Ids,
    pub(crate) search: SearchState,
    /// Of its sleeps until a deadline.
    pub(crate) lead: Lead,

    // Shared with others. Each is on lines of its own. A thief, a timer or the monitor that writes there
    // would otherwise take away what the owner looks at in each dispatch.
    pub(crate) queue: RunQueue<Green>,
    /// Threads that have their home here.
    pub(crate) pinned: CachePadded<ByPriority<Green>>,
    pub(crate) timers: CachePadded<Timers>,
    /// When another LWP last stole from this one; 0: not since the owner last looked.
    robbed_at: CachePadded<AtomicU64>,
    pub(crate) snapshot: CachePadded<QueueLock<LwpSnapshot>>,
    /// Used by the monitor, to preempt the thread that is mounted.
    pub(crate) request: CachePadded<PreemptRequest>,
    /// What the LWP sleeps on, idle or spare.
    pub(crate) sleep: CachePadded<IdleSleep>,
    /// When a thread last stopped here, and in which session of the trace (`sched::traced`). `None`: a search
    /// came after that.
    pub(crate) stopped: Cell<Option<(u64, u32)>>,
    /// Its events and its times, while they are recorded.
    pub(crate) trace: RingCell,
    /// Its number in this runtime.
    pub(crate) index: u32,
    pub(crate) life: LwpLife,
    /// It has no work, and looks for some.
    searches: AtomicBool,
    pub(crate) counters: Counters,
}

// SAFETY: cells are the owner's alone (header). The rest is atomic, locked, or constant. Green threads move
// between LWPs only by switches, and re-read which LWP they are on.
unsafe impl Sync for Lwp {}
// SAFETY: nothing here belongs to one kernel thread for good.
unsafe impl Send for Lwp {}

/// For debuggers.
pub(super) static FACTS: Facts<2> = Facts::new([
    Fact::number("lwp.tid", offset_of!(Lwp, life) + LwpLife::TID),
    Fact::number("lwp.index", offset_of!(Lwp, index)),
]);

/// Where a dispatcher looks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum First {
    /// At its own queues.
    #[default]
    Own,
    /// At the injected threads: a thread has lost its slice to those that woke.
    Injected,
    /// At preempted threads. The LWP was a spare, and one of them may hold a lock that holds up the others.
    Preempted,
    /// At the preempted thread that has waited longest. There is no spare, and every thread is to have a
    /// turn.
    Oldest,
}

/// Counters with a single writer each, which `stats` and shutdown sum up.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) spawned: Counter,
    pub(crate) ended: Counter,
    pub(crate) steals: Counter,
    pub(crate) wakes: Counter,
    pub(crate) preempted: Counter,
    /// How often it searched for a thread, and looked at the descriptors in vain or slept.
    pub(crate) ran_dry: Counter,
}

/// What a searching LWP remembers of its steals.
#[derive(Debug)]
pub(crate) struct SearchState {
    /// How long, in ns, a thread must have waited to be stolen.
    pub(crate) age: Cell<u64>,
    /// When it last stole. That shows whether the steal paid.
    pub(crate) stole_at: Cell<u64>,
    /// Where the kernel keeps the CPU number of its kernel thread.
    pub(crate) cpu: Cell<Option<NonNull<cpu::Word>>>,
    /// The number of the LWP to look at next, if that is active; and the same of those that are not near.
    pub(crate) next_victim: Cell<u32>,
    pub(crate) next_far: Cell<u32>,
    /// The LWP's tick when its last search began.
    began_at: Cell<Option<u32>>,
    /// The group that its CPU belonged to when it last looked (`lwp_set::Near`).
    pub(crate) group: Cell<Option<u8>>,
    /// It keeps the CPU from an LWP that it looks at.
    pub(crate) in_the_way: Cell<bool>,
    /// Threads were left in a ring when it last stole from one.
    pub(crate) left_some: Cell<bool>,
}

impl SearchState {
    /// Returns the CPU that it is on, if that is known. Called by its own kernel thread.
    pub(crate) fn cpu(&self) -> Option<u32> {
        // SAFETY: the area belongs to the LWP's own kernel thread, and that thread calls this.
        // Relaxed: the kernel writes it.
        self.cpu.get().map(|word| unsafe { word.as_ref() }.load(Ordering::Relaxed))
    }

    /// Chooses the LWP to look at first. If the LWP has run no thread since its last search, it goes on where
    /// that ended. Otherwise it begins by chance, so that not all that search at once look at the same ones.
    ///
    /// (It was lent a slot for a thread that waits on one of many LWPs that are stuck. On a slow machine, a
    /// loan is over after eight of them.)
    pub(crate) fn begin(&self, tick: u32, index: u32, place: impl FnOnce(u32) -> u32) {
        if self.began_at.replace(Some(tick)) != Some(tick) {
            let first = place(tick.wrapping_add(index).wrapping_mul(0x9E37_79B9) >> 16);
            self.next_victim.set(first);
            self.next_far.set(first);
        }
    }

    /// Makes the next search more reluctant, because the last one did not pay.
    pub(crate) fn double_age(&self, most: u64) {
        self.age.set((2 * self.age.get()).min(most));
    }
}

/// The last look that a searching LWP took at this LWP's queues, and since when they have looked like that.
/// It is kept here and not by each searcher: how long a thread has waited does not depend on the searcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LwpSnapshot {
    pub(crate) tick: u32,
    pub(crate) next: Option<NonNull<Green>>,
    pub(crate) next_since: u64,
    pub(crate) ring: Seen,
    pub(crate) ring_since: u64,
    /// Where the kernel keeps the CPU number of the LWP that is looked at; `None`: it has no kernel thread.
    cpu: Option<NonNull<cpu::Word>>,
    /// It was given the CPU that it was last on, and has not dispatched since.
    pub(crate) had_its_turn: bool,
}

// SAFETY: `next` is only compared, never followed. What `cpu` points to lives for as long as the pointer is
// there.
unsafe impl Send for LwpSnapshot {}

impl LwpSnapshot {
    /// Returns `true` if the LWP cannot have run since it was looked at, because the one that looks has its
    /// CPU.
    pub(crate) fn is_kept_from_running(&self, by: &SearchState) -> bool {
        // SAFETY: before that kernel thread ends, the pointer is taken out with this lock held.
        // Relaxed: the kernel writes it. For a thread that does not run, it is the last CPU.
        let last = self.cpu.map(|word| unsafe { word.as_ref() }.load(Ordering::Relaxed));
        last.is_some() && last == by.cpu()
    }
}

/// An LWP's dispatches of high threads on end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HighRun {
    /// When the first was taken, by the runtime's clock.
    pub(crate) since: u64,
    /// The tick of the last.
    pub(crate) tick: u32,
    /// An LWP stood on the stack of the last, so that it is back in its queue.
    pub(crate) is_held_up: bool,
}

impl Lwp {
    /// Notes where the LWP's CPU number is kept. Called by its kernel thread when it runs, and with `None`
    /// when it is about to end.
    pub(crate) fn show_cpu(&self, word: Option<NonNull<cpu::Word>>) {
        self.search.cpu.set(word);
        self.snapshot.with(|snapshot| snapshot.cpu = word);
    }

    pub(crate) fn new(index: u32, tick: Tick, first_age: u64) -> Self {
        let queue = RunQueue::new();
        let snapshot = LwpSnapshot {
            tick: 0,
            next: None,
            next_since: 0,
            ring: queue.ring.look(),
            ring_since: 0,
            cpu: None,
            had_its_turn: false,
        };
        Self {
            context: Context::new(),
            tick,
            running: AtomicPtr::default(),
            slot: SlotWord::new(),
            skip: Cell::new(0),
            skipped: Cell::new(1),
            woke_early_at: Cell::new(0),
            flags: Flags::new(),
            look_first: Cell::default(),
            evicted: Cell::default(),
            oldest_was_first: Cell::default(),
            counted: Cell::new(0),
            shared_out: Cell::new(0),
            mask: LwpMask::new(),
            high_run: Cell::default(),
            turns: Cell::new(0),
            stacks: stack::Cache::new(),
            greens: green::Cache::default(),
            ids: Ids::default(),
            search: SearchState {
                age: Cell::new(first_age),
                stole_at: Cell::new(0),
                cpu: Cell::new(None),
                next_victim: Cell::new(0),
                next_far: Cell::new(0),
                began_at: Cell::new(None),
                group: Cell::new(None),
                in_the_way: Cell::new(false),
                left_some: Cell::new(false),
            },
            lead: Lead::default(),
            queue,
            pinned: CachePadded::new(ByPriority::new()),
            timers: CachePadded::new(Timers::new()),
            robbed_at: CachePadded::new(AtomicU64::new(0)),
            snapshot: CachePadded::new(QueueLock::new(Rank::Scheduler, snapshot)),
            request: CachePadded::new(PreemptRequest::new()),
            sleep: CachePadded::new(IdleSleep::new()),
            stopped: Cell::default(),
            trace: RingCell::new(),
            index,
            life: LwpLife::default(),
            searches: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Returns the thread that is mounted, or one that was.
    #[inline]
    pub(crate) fn running(&self) -> Option<&'static Green> {
        // SAFETY: null, or a green thread, which is type-stable.
        // Relaxed: a hint for the monitor, for requests that a lower thread leave, and for dumps.
        unsafe { self.running.load(Ordering::Relaxed).as_ref() }
    }

    /// Sets what [`running`](Self::running) returns. Owner only.
    #[inline]
    pub(crate) fn show_running(&self, green: Option<&'static Green>) {
        let green = green.map_or(std::ptr::null_mut(), |green| green.ptr().as_ptr());
        // Relaxed: see `running`.
        self.running.store(green, Ordering::Relaxed);
    }

    /// Returns the CPU that its kernel thread ran on last, if the kernel keeps its number for us.
    pub(crate) fn last_cpu(&self) -> Option<u32> {
        self.snapshot.with(|snapshot| {
            // SAFETY: before that kernel thread ends, the pointer is taken out with this lock held.
            // Relaxed: the kernel writes it.
            snapshot.cpu.map(|word| unsafe { word.as_ref() }.load(Ordering::Relaxed))
        })
    }

    /// Notes that another LWP has stolen from this one.
    pub(crate) fn was_robbed(&self, now: u64) {
        // Relaxed: a hint.
        self.robbed_at.store(now, Ordering::Relaxed);
    }

    /// Returns when another LWP last stole from this one, and forgets it; 0 if none did.
    pub(crate) fn take_robbed_at(&self) -> u64 {
        // Relaxed: a hint.
        self.robbed_at.swap(0, Ordering::Relaxed)
    }

    /// Returns `true` if it looks for work, at this moment.
    pub(crate) fn searches(&self) -> bool {
        // Relaxed: for looks from outside.
        self.searches.load(Ordering::Relaxed)
    }

    /// Runs `search`, and lets looks from outside see that it does. Owner only.
    pub(crate) fn while_searching<R>(&self, search: impl FnOnce() -> R) -> R {
        // Relaxed, both: see `searches`.
        self.searches.store(true, Ordering::Relaxed);
        let found = search();
        self.searches.store(false, Ordering::Relaxed);
        found
    }

    /// Returns `true` if a thread waits in its next-slot, at this moment.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        !self.queue.next.is_empty()
    }

    /// Returns `true` if any thread waits in those of its queues that others take from, at this moment.
    #[inline]
    pub(crate) fn has_stealable(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns `true` if any thread waits in its own queues, at this moment.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.has_stealable() || self.pinned.len() > 0
    }
}

/// What tests look at and the runtime only takes.
#[cfg(test)]
impl Lwp {
    pub(crate) fn robbed_at(&self) -> u64 {
        self.robbed_at.load(Ordering::Relaxed)
    }
}
