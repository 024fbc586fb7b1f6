//! An LWP: a kernel thread of the pool that runs green threads, with its own run queue.
//!
//! LWPs are made by `lwp::pool` and stay as long as their runtime; their kernel threads need not ([`pool`]). An LWP without
//! a slot ([`slot`]) sleeps among the spares. What others may touch is atomic or under a lock; what is the owner's alone is in cells, and *owner* means:
//! code that runs on this LWP, be it the dispatcher or the green thread mounted on it.

pub(crate) mod pool;
pub(crate) mod slot;

use std::cell::Cell;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use self::slot::SlotWord;
use super::green::{self, Green};
use super::sched::inject::Inject;
use super::sched::local_queue::{LocalQueue, Seen};
use super::stack;
use super::timer::Timers;
use crate::arch::SavedSp;
use crate::park::owner::{self, LwpSlot, OwnerHint};
use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

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
    /// Who filled the next-slot last: asked by a thief that finds it stale.
    pub(crate) next_by: AtomicPtr<Green>,
    pub(crate) slot: SlotWord,
    /// Threads pushed out of the next-slot while an LWP slept.
    pub(crate) pushes: Cell<u32>,
    /// A timer on this LWP is overdue: look at once.
    pub(crate) look_now: AtomicBool,
    pub(crate) stacks: stack::Cache,
    pub(crate) greens: green::Cache,
    pub(crate) search: SearchState,

    // Others' too.
    /// The thread to run next; stealable (I6).
    pub(crate) next: CachePadded<AtomicPtr<Green>>,
    pub(crate) ring: CachePadded<LocalQueue<Green>>,
    /// Rung 3 only: threads that must run here.
    pub(crate) pinned: Inject<Green>,
    pub(crate) timers: Timers,
    /// When another LWP last stole from this one.
    pub(crate) robbed_at: AtomicU64,
    pub(crate) glance: QueueLock<Glance>,
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
}

impl SearchState {
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
}

// SAFETY: the pointer is only compared, never followed.
unsafe impl Send for Glance {}

impl Lwp {
    pub(crate) fn new(index: u32, tick: Tick, first_age: u64) -> Self {
        let ring = LocalQueue::new();
        let glance = Glance { tick: 0, next: None, next_since: 0, ring: ring.look(), ring_since: 0 };
        Self {
            sp: Cell::new(SavedSp::NONE),
            tp: Cell::new(0),
            tick,
            next_by: AtomicPtr::default(),
            slot: SlotWord::new(),
            pushes: Cell::new(0),
            look_now: AtomicBool::new(false),
            stacks: stack::Cache::new(),
            greens: green::Cache::default(),
            search: SearchState { age: Cell::new(first_age), stole_at: Cell::new(0) },
            next: CachePadded::default(),
            ring: CachePadded::new(ring),
            pinned: Inject::new(),
            timers: Timers::new(),
            robbed_at: AtomicU64::new(0),
            glance: QueueLock::new(Rank::Scheduler, glance),
            bed: AtomicU32::new(pool::AWAKE),
            index,
            tid: AtomicU32::new(0),
            lives: AtomicBool::new(false),
            searches: AtomicBool::new(false),
            spare_since: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    /// Whether any thread waits in its own queues (a moment's truth).
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        !self.next.load(Ordering::Relaxed).is_null() || !self.ring.is_empty() || self.pinned.len() > 0
    }
}
