//! An LWP: a kernel thread of the pool that runs green threads, with its own run queue.
//!
//! LWPs are made by `lwp::pool` and stay as long as their runtime; their kernel threads need not ([`pool`]). An LWP without
//! a slot ([`slot`]) sleeps among the spares. What others may touch is atomic or under a lock; what is the owner's alone is in cells, and *owner* means:
//! code that runs on this LWP, be it the dispatcher or the green thread mounted on it.

mod asked;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod slot;

use std::cell::Cell;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use self::asked::Asked;
use self::request::Request;
use self::slot::SlotWord;
use super::green::{self, Green};
use super::sched::by_level::ByLevel;
use super::sched::local_queue::{LocalQueue, Seen};
use super::stack;
use super::timer::Timers;
use crate::arch::SavedSp;
use crate::park::owner::{self, LwpSlot, OwnerHint};
use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::shim::cpu;
use crate::sys::preempt::Mask;

/// A kernel thread of the pool.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lwp {
    // Owner's, on every dispatch.
    /// The dispatcher's own context, while a green thread runs.
    pub(crate) sp: Cell<SavedSp>,
    /// The kernel thread's own thread register.
    pub(crate) tp: Cell<usize>,
    /// Dispatches so far: the monitor's and the thieves' clock, and part of owner hints.
    pub(crate) tick: Tick,
    /// The thread that is mounted, for whoever wants to know (it may be another by now; greens are type-stable).
    pub(crate) running: AtomicPtr<Green>,
    /// Who filled the next-slot last: asked by a thief that finds it stale.
    pub(crate) next_by: AtomicPtr<Green>,
    pub(crate) slot: SlotWord,
    /// How many threads more to queue, while an LWP sleeps, before asking whether to wake it; and how many they were in all.
    pub(crate) skip: Cell<u32>,
    pub(crate) skipped: Cell<u32>,
    /// When a thread last woke another early here (rule 5 of `sched::wake`).
    pub(crate) woke_early_at: Cell<u64>,
    pub(crate) asked: Asked,
    /// Where the dispatcher looks first, once.
    pub(crate) look_first: Cell<First>,
    /// The thread that is about to leave slept in the kernel.
    pub(crate) evicted: Cell<bool>,
    /// Where the dispatcher looked after the last such.
    pub(crate) oldest_was_first: Cell<bool>,
    /// When a dispatch last added to a share (`sched::shares`).
    pub(crate) counted: Cell<u64>,
    /// Run time of its threads that it has not yet added to the fair share (`sched::shares`), in ns.
    pub(crate) shared_out: Cell<u64>,
    /// The signals that were blocked when it started: a thread that has others blocked may be in a handler.
    pub(crate) mask: Cell<Option<Mask>>,
    /// Some thread has another priority: filter the own queues at the next dispatch (`sched::levels`).
    pub(crate) sift: AtomicBool,
    /// Dispatches of high threads on end.
    pub(crate) high_run: Cell<HighRun>,
    /// Dispatches that took what is next in turn and not what is nearest.
    pub(crate) turns: Cell<u32>,
    pub(crate) stacks: stack::Cache,
    pub(crate) greens: green::Cache,
    pub(crate) search: SearchState,

    // Others' too.
    /// The thread to run next; stealable (I6).
    pub(crate) next: CachePadded<AtomicPtr<Green>>,
    pub(crate) ring: CachePadded<LocalQueue<Green>>,
    /// Rung 3 only: threads that must run here.
    pub(crate) pinned: ByLevel<Green>,
    pub(crate) timers: Timers,
    /// When another LWP last stole from this one.
    pub(crate) robbed_at: AtomicU64,
    pub(crate) glance: QueueLock<Glance>,
    /// The monitor's, to preempt the thread that is mounted.
    pub(crate) request: Request,
    /// What the LWP sleeps on, idle or spare: see [`pool`].
    pub(crate) bed: AtomicU32,
    /// Its number in this runtime.
    pub(crate) index: u32,
    /// Kernel thread id; 0 until it runs, and after.
    pub(crate) tid: AtomicU32,
    /// It has a kernel thread, or one is being started: else it is vacant.
    pub(crate) lives: AtomicBool,
    /// Without work, and looking for some.
    pub(crate) searches: AtomicBool,
    /// When it became a spare.
    pub(crate) spare_since: AtomicU64,
    pub(crate) counters: Counters,
}

// SAFETY: cells are the owner's alone (header); the rest is atomic, locked, or constant. Green threads move between
// LWPs, but only through switches, which re-read which LWP they are on.
unsafe impl Sync for Lwp {}
// SAFETY: as above.
unsafe impl Send for Lwp {}

/// Where a dispatcher looks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum First {
    /// At its own queues.
    #[default]
    Own,
    /// At what was injected: a thread has lost its slice to those that woke.
    Injected,
    /// At threads that were preempted: the LWP was a spare, and what holds up the others may be a lock that one of them holds.
    Preempted,
    /// At the one of those that has waited longest: there is no spare, and everybody is to have a turn.
    Oldest,
}

/// How often an LWP has dispatched; in a table of the whole process, so that owner hints can be read by anybody.
#[derive(Debug)]
pub(crate) struct Tick {
    number: u16,
    slot: &'static LwpSlot,
    /// What it stood at when it was taken.
    first: u64,
}

impl Tick {
    /// `None`: the process has as many LWPs as hints can tell apart.
    pub(crate) fn take() -> Option<Self> {
        let number = owner::take_lwp()?;
        let slot = owner::lwp_slot(number);
        Some(Self { number, slot, first: slot.tick.load(Ordering::Relaxed) })
    }

    /// Counts a dispatch. Owner only. Gives the low bits, as `get` does.
    #[inline]
    pub(crate) fn bump(&self) -> u32 {
        // Relaxed: compared, never relied on.
        let tick = self.slot.tick.load(Ordering::Relaxed).wrapping_add(1);
        self.slot.tick.store(tick, Ordering::Relaxed);
        tick as u32
    }

    /// How many there were in this runtime.
    pub(crate) fn dispatches(&self) -> u64 {
        self.slot.tick.load(Ordering::Relaxed).wrapping_sub(self.first)
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        self.slot.tick.load(Ordering::Relaxed) as u32
    }

    /// What the thread mounted since this tick writes into locks.
    #[inline]
    pub(crate) fn hint(&self) -> OwnerHint {
        OwnerHint::green(self.number, self.get())
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        owner::give_back_lwp(self.number);
    }
}

/// Single-writer counters, summed by `stats` and by shutdown.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) spawned: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) steals: AtomicU64,
    pub(crate) wakes: AtomicU64,
    pub(crate) preempted: AtomicU64,
}

/// Adds one to a counter that the caller alone writes: no read-modify-write.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    // Release: shutdown must see what came before the count of an end.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// What a searching LWP remembers of its steals.
#[derive(Debug)]
pub(crate) struct SearchState {
    /// How long, in ns, a thread must have waited to be stolen.
    pub(crate) age: Cell<u64>,
    /// When it last stole, to see whether that paid.
    pub(crate) stole_at: Cell<u64>,
    /// Where the kernel keeps the CPU number of its kernel thread.
    pub(crate) cpu: Cell<Option<NonNull<cpu::Word>>>,
    /// It keeps the CPU from one that it looks at.
    pub(crate) in_the_way: Cell<bool>,
}

impl SearchState {
    /// The CPU it is on, if that is known. Its own question.
    fn cpu(&self) -> Option<u32> {
        // SAFETY: its kernel thread's own area, and that thread asks.
        // Relaxed: the kernel writes it.
        self.cpu.get().map(|word| unsafe { word.as_ref() }.load(Ordering::Relaxed))
    }

    /// The last search did not pay: the next is more reluctant.
    pub(crate) fn double_age(&self, most: u64) {
        self.age.set((2 * self.age.get()).min(most));
    }
}

/// The last look that a searching LWP took at this one's queues, and since when they have looked like that. Kept here and
/// not by each searcher: how long a thread has waited does not depend on who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    pub(crate) tick: u32,
    pub(crate) next: Option<NonNull<Green>>,
    pub(crate) next_since: u64,
    pub(crate) ring: Seen,
    pub(crate) ring_since: u64,
    /// Where the kernel keeps the CPU number of the LWP that is looked at; `None` while it has no kernel thread.
    cpu: Option<NonNull<cpu::Word>>,
    /// It has been given the CPU that it was last on, and has not dispatched since.
    pub(crate) had_its_turn: bool,
}

// SAFETY: `next` is only compared, never followed; what `cpu` points to lives for as long as it is there.
unsafe impl Send for Glance {}

impl Glance {
    /// Whether the LWP cannot have run since it was looked at, because the one that looks has its CPU.
    pub(crate) fn is_kept_from_running(&self, by: &SearchState) -> bool {
        // SAFETY: taken out, with the lock held in which this is, before that kernel thread ends.
        // Relaxed: the kernel writes it, for a thread that does not run the last one.
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
}

impl Lwp {
    /// Says where its CPU number is kept: its kernel thread, which runs, or (`None`) is about to end.
    pub(crate) fn show_cpu(&self, word: Option<NonNull<cpu::Word>>) {
        self.search.cpu.set(word);
        self.glance.with(|glance| glance.cpu = word);
    }

    pub(crate) fn new(index: u32, tick: Tick, first_age: u64) -> Self {
        let ring = LocalQueue::new();
        let glance = Glance {
            tick: 0,
            next: None,
            next_since: 0,
            ring: ring.look(),
            ring_since: 0,
            cpu: None,
            had_its_turn: false,
        };
        Self {
            sp: Cell::new(SavedSp::NONE),
            tp: Cell::new(0),
            tick,
            running: AtomicPtr::default(),
            next_by: AtomicPtr::default(),
            slot: SlotWord::new(),
            skip: Cell::new(0),
            skipped: Cell::new(1),
            woke_early_at: Cell::new(0),
            asked: Asked::new(),
            look_first: Cell::default(),
            evicted: Cell::default(),
            oldest_was_first: Cell::default(),
            counted: Cell::new(0),
            shared_out: Cell::new(0),
            mask: Cell::new(None),
            sift: AtomicBool::new(false),
            high_run: Cell::default(),
            turns: Cell::new(0),
            stacks: stack::Cache::new(),
            greens: green::Cache::default(),
            search: SearchState {
                age: Cell::new(first_age),
                stole_at: Cell::new(0),
                cpu: Cell::new(None),
                in_the_way: Cell::new(false),
            },
            next: CachePadded::default(),
            ring: CachePadded::new(ring),
            pinned: ByLevel::new(),
            timers: Timers::new(),
            robbed_at: AtomicU64::new(0),
            glance: QueueLock::new(Rank::Scheduler, glance),
            request: Request::new(),
            bed: AtomicU32::new(pool::AWAKE),
            index,
            tid: AtomicU32::new(0),
            lives: AtomicBool::new(false),
            searches: AtomicBool::new(false),
            spare_since: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    /// Whether a thread waits in its next-slot (a moment's truth).
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        !self.next.load(Ordering::Relaxed).is_null()
    }

    /// Whether any thread waits in those of its queues that others take from (a moment's truth).
    #[inline]
    pub(crate) fn has_stealable(&self) -> bool {
        self.has_next() || !self.ring.is_empty()
    }

    /// Whether any thread waits in its own queues (a moment's truth).
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.has_stealable() || self.pinned.len() > 0
    }
}
