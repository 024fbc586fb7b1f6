//! The scheduler of one `mxn` runtime: what its LWPs share, and what each of them does next.
//!
//! **The problem** is Solaris' `_schedlock`: one lock for the user-level scheduler, taken on every operation. Here each LWP
//! has its own queues (`local_queue` and a next-slot), others steal from them (`search`), and what nobody owns goes through
//! an injection queue (`inject`). A thread that waits picks its successor itself and switches to it directly (`switch`);
//! only when it finds none does it go back to the dispatcher, which searches and sleeps (`idle`).
//!
//! **Rejected**: one shared queue (it is the `_schedlock`); always going over the dispatcher (5 ns on a yield, 18 on a
//! spawn); waking an LWP for every thread that becomes runnable (`wake` has the measurements).
//!
//! No code here allocates, frees, logs or starts kernel threads (I4); every lock in it is a `QueueLock`.

pub(crate) mod by_level;
pub(crate) mod commit;
pub(crate) mod idle;
pub(crate) mod inject;
pub(crate) mod levels;
pub(crate) mod local_queue;
pub(crate) mod policy;
mod search;
pub(crate) mod shares;
pub(crate) mod switch;
mod wake;

use std::io;
use std::ptr::NonNull;

use self::idle::Idle;
use self::inject::Inject;
use self::levels::Levels;
use self::shares::Shares;
use super::config::Settings;
use super::crew::Crew;
use super::green::Green;
use super::lwp::pool::LwpPool;
use super::lwp::{First, Lwp};
use super::monitor::watch::Watch;
use super::stack::SizeClass;
use super::timer::{Clock, NEVER};
use super::tls::Rung;
use crate::park::backend::Backend;
use crate::park::fork;
use crate::park::priority::Priority;
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sys::fork::Generation;
use crate::thread::kernel::Graveyard;

/// What the LWPs of one runtime share.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) settings: Settings,
    /// Of `settings.stack_size`.
    pub(crate) stack_class: SizeClass,
    pub(crate) rung: Rung,
    pub(crate) clock: Clock,
    pub(crate) inject: Inject<Green>,
    /// Threads that lost their slice: behind all that yielded or woke.
    pub(crate) preempted: Inject<Green>,
    /// Who is to come before whom of them.
    pub(crate) shares: Shares,
    /// Whether threads are preempted by signal.
    pub(crate) signals: bool,
    /// All LWPs share one CPU, so whatever one of them waits for needs that CPU. Written by the monitor; a
    /// hint.
    pub(crate) one_cpu: AtomicBool,
    /// The time slice of threads that have none of their own, in ns.
    pub(crate) slice: u64,
    pub(crate) levels: Levels,
    pub(crate) idle: Idle,
    pub(crate) pool: LwpPool,
    pub(crate) watch: Watch,
    pub(crate) life: Life,
    /// The runtime's kernel threads: joined by who drops it.
    pub(crate) crew: Crew,
    /// What bound threads that were detached leave to be joined.
    pub(crate) graveyard: Graveyard,
}

/// How far a runtime's life has come, and who keeps it from ending.
#[derive(Debug)]
pub(crate) struct Life {
    /// `OPEN`, `CLOSING`, `INTERRUPTING` or `STOPPING`; it only grows.
    pub(crate) phase: AtomicU32,
    /// The process that has the LWPs.
    pub(crate) process: Generation,
    /// Threads spawned by somebody who was on no LWP of this runtime, and bound threads.
    pub(crate) spawned_elsewhere: AtomicU64,
    /// Bound threads that have ended.
    pub(crate) ended_elsewhere: AtomicU64,
    /// Bound threads that live.
    pub(crate) bound: AtomicU32,
    /// Threads outside this runtime that are making one of its threads runnable: they may still touch it after that thread
    /// has run and ended.
    pub(crate) visitors: AtomicU32,
    /// Slots that any thread with work may take (`rest`): of LWPs at rest, and of LWPs that announced
    /// blocking, but not briefly.
    pub(crate) open: AtomicU32,
    /// Those of LWPs at rest.
    pub(crate) resting: AtomicU32,
    /// LWPs in a brief region that still have their slot.
    pub(crate) brief: AtomicU32,
    /// Rung 3: slots beyond `concurrency`, given back by LWPs that run dry.
    pub(crate) lent: AtomicU32,
}

impl Life {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            phase: AtomicU32::new(OPEN),
            process: fork::watch()?,
            spawned_elsewhere: AtomicU64::new(0),
            ended_elsewhere: AtomicU64::new(0),
            bound: AtomicU32::new(0),
            visitors: AtomicU32::new(0),
            open: AtomicU32::new(0),
            resting: AtomicU32::new(0),
            brief: AtomicU32::new(0),
            lent: AtomicU32::new(0),
        })
    }

    /// Returns `true` if a slot may be taken, or perhaps a moment later.
    pub(crate) fn is_any_open(&self) -> bool {
        // Relaxed, both: hints; a waker's fence has ordered them where it matters.
        self.open.load(Ordering::Relaxed) > 0 || self.brief.load(Ordering::Relaxed) > 0
    }
}

/// `Life::phase`: threads may be spawned from anywhere.
pub(crate) const OPEN: u32 = 0;
/// `Life::phase`: the runtime was dropped; its threads go on, and it stops when the last has ended.
pub(crate) const CLOSING: u32 = 1;
/// `Life::phase`: as `CLOSING`, and its threads are to end: they spawn no more, and every wait that can be interrupted is.
pub(crate) const INTERRUPTING: u32 = 2;
/// `Life::phase`: no thread is left; LWPs and monitor end.
pub(crate) const STOPPING: u32 = 3;

impl Scheduler {
    /// The scheduler of a green thread.
    #[inline]
    pub(crate) fn of(thread: ThreadRef) -> &'static Scheduler {
        let backend: *const dyn Backend = thread.backend();
        // SAFETY: the backend of a green thread is its scheduler, which outlives its threads.
        unsafe { &*backend.cast::<Scheduler>() }
    }

    /// The next thread for an LWP whose thread waits, if it can be had without a search: next-slot, then ring. `None` also
    /// when the dispatcher is due: for something urgent, for fairness, because a timer is, or because the slot is gone.
    #[inline]
    fn pick_next(&self, lwp: &'static Lwp) -> Option<&'static Green> {
        let tick = lwp.tick.bump();
        if tick.is_multiple_of(policy::FAIR_TICK)
            || !lwp.slot.is_held()
            || lwp.asked.is_any()
            || self.levels.are_urgent()
            || self.settings.migrate_always
        {
            return None;
        }
        take(&lwp.next).or_else(|| lwp.ring.pop()).map(deref)
    }

    /// The dispatcher's pick: everything that needs no search.
    fn pick(&'static self, lwp: &'static Lwp) -> Option<&'static Green> {
        // Acquire: whoever wants us to look has said before what for.
        let now = lwp.asked.take_look();
        self.sift_if_told(lwp);
        let first = lwp.look_first.take();
        let preempted = match first {
            First::Preempted => self.pop_preempted(),
            First::Oldest => self.pop_oldest(),
            First::Own | First::Injected => None,
        };
        if let Some(green) = preempted {
            return Some(deref(green));
        }
        // Not counted again: it is the fair tick that `pick_next` sends here.
        let tick = lwp.tick.get();
        let mut in_turn = now || tick.is_multiple_of(policy::FAIR_TICK) || self.settings.migrate_always;
        if in_turn {
            self.fire_timers(lwp, lwp);
        }
        let mut normal_is_owed = false;
        if self.levels.are_urgent() || lwp.pinned.has_high() {
            match self.pick_urgent(lwp) {
                Ok(green) => return Some(deref(green)),
                Err(owed) => normal_is_owed = owed,
            }
            in_turn |= normal_is_owed;
        }
        if let Some(fresh) = self.pick_fresh(lwp, first == First::Injected, in_turn) {
            return Some(deref(self.or_one_behind(lwp, fresh)));
        }
        (if normal_is_owed { self.pop_preempted() } else { None })
            .or_else(|| self.levels.take_high())
            .or_else(|| self.steal_beside_preempted(lwp))
            .or_else(|| self.pop_preempted())
            .or_else(|| self.pick_low(lwp))
            .map(deref)
    }

    /// Takes a normal thread that has not lost its slice. `in_turn`: take turns between the queues, so that
    /// one that never runs empty does not keep the others waiting.
    fn pick_fresh(&'static self, lwp: &'static Lwp, injected: bool, in_turn: bool) -> Option<NonNull<Green>> {
        if injected && let Some(green) = self.pop_injected(lwp) {
            return Some(green);
        }
        if in_turn {
            let turn = lwp.turns.get().wrapping_add(1);
            lwp.turns.set(turn);
            self.balance(lwp, turn);
            let green = (0..3).find_map(|queue| match (turn + queue) % 3 {
                0 => lwp.ring.pop(),
                1 => self.pop_injected(lwp),
                _ => lwp.pinned.pop(Priority::Normal),
            });
            if green.is_some() {
                return green;
            }
        }
        take(&lwp.next)
            .or_else(|| lwp.ring.pop())
            .or_else(|| lwp.pinned.pop(Priority::Normal))
            .or_else(|| self.pop_injected(lwp))
    }

    /// Returns the thread that goes first: `fresh`, or the preempted thread that has run least (`shares`).
    fn or_one_behind(&'static self, lwp: &'static Lwp, fresh: NonNull<Green>) -> NonNull<Green> {
        // Relaxed: a figure.
        let Some(behind) = self.pop_behind(deref(fresh).ran.load(Ordering::Relaxed)) else { return fresh };
        self.put_first(lwp, deref(fresh));
        behind
    }

    /// Takes a share of the injection queue: one to run, the others into the ring.
    fn pop_injected(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        let waiting = self.inject.len();
        if waiting == 0 {
            return None;
        }
        if self.settings.migrate_always {
            return self.pop_migrant(lwp);
        }
        let share = waiting / self.pool.slots() as usize;
        let room = local_queue::CAPACITY as usize - lwp.ring.len();
        self.inject.pop(share.min(policy::INJECT_BATCH).min(room / 2), |green| {
            let pushed = lwp.ring.push(green);
            debug_assert!(pushed.is_ok(), "only the owner fills a ring, and there was room");
        })
    }

    /// `migrate_always`: a thread that did not run here last, if one of those that wait first is such.
    fn pop_migrant(&'static self, lwp: &'static Lwp) -> Option<NonNull<Green>> {
        let mut last = None;
        for _ in 0..8 {
            let green = self.inject.pop(0, |_| ())?;
            let stranger = deref(green).lwp.get().is_none_or(|ran_on| !std::ptr::eq(ran_on, lwp));
            if stranger || self.pool.slots() == 1 || last == Some(green) {
                return Some(green);
            }
            last.get_or_insert(green);
            self.inject.push(green);
            self.wake_searcher();
            std::thread::yield_now();
        }
        self.inject.pop(0, |_| ())
    }

    /// A thread whose stack somebody still stands on: it waits its turn again.
    #[cold]
    fn put_back(&self, lwp: &'static Lwp, green: &'static Green) {
        if !green.core.priority.is_normal() || lwp.ring.push(green.ptr()).is_err() {
            self.queue_shared(green);
        }
    }

    /// Ends the sleeps that are due on `of`'s heap; the threads go to `on`'s ring. Gives whether there were any.
    fn fire_timers(&'static self, of: &Lwp, on: &'static Lwp) -> bool {
        if of.timers.next() == NEVER {
            return false;
        }
        of.timers.fire(self.clock.now(), |thread| {
            // SAFETY: only green threads arm entries in these heaps.
            self.queue_behind(on, unsafe { Green::of(thread) });
        }) > 0
    }

    /// What an LWP does for all its life: dispatch, search, sleep. Returns when the runtime stops, or when there are LWPs
    /// enough without it.
    pub(crate) fn dispatch(&'static self, lwp: &'static Lwp) {
        loop {
            if !lwp.slot.is_held() && !self.end_rest(lwp) && !self.wait_for_slot(lwp) {
                return;
            }
            match self.pick(lwp) {
                Some(green) => {
                    if !self.run(lwp, green) {
                        self.wait_for_stack(lwp);
                    }
                }
                None => {
                    // Relaxed: for those who look from outside.
                    lwp.searches.store(true, Ordering::Relaxed);
                    let found = self.search(lwp);
                    lwp.searches.store(false, Ordering::Relaxed);
                    match found {
                        Some(green) => {
                            self.run(lwp, green);
                        }
                        None if self.is_stopping() => return,
                        None => {}
                    }
                }
            }
        }
    }

    /// Somebody stands on the stack of the thread that was picked, which is back in a queue.
    #[cold]
    fn wait_for_stack(&self, lwp: &Lwp) {
        if lwp.next.load(Ordering::Relaxed).is_null() && lwp.ring.len() <= 1 {
            // There is nothing else to do, and who stands there for so long waits for a CPU: perhaps for this one.
            crate::shim::yield_cpu();
        } else {
            crate::shim::spin_hint();
        }
    }

    /// Whether the LWPs are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.life.phase.load(Ordering::Acquire) == STOPPING
    }
}

/// Empties a next-slot. One read-modify-write if there is anything in it.
#[inline]
fn take(next: &AtomicPtr<Green>) -> Option<NonNull<Green>> {
    // Relaxed: a look; the swap decides.
    if next.load(Ordering::Relaxed).is_null() {
        return None;
    }
    // Acquire: pairs with the release of who filled it.
    NonNull::new(next.swap(std::ptr::null_mut(), Ordering::Acquire))
}

/// What comes off a run queue is ours to run, and greens are type-stable.
#[inline]
fn deref(green: NonNull<Green>) -> &'static Green {
    // SAFETY: run queues hold pointers to green threads, which are leaked.
    unsafe { green.as_ref() }
}
