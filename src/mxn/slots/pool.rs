//! The LWPs of a runtime: started beforehand, put on the list of spares, given slots.
//!
//! LWPs are **never made on demand** by dispatcher or monitor (I4). To make a kernel thread takes locks of
//! the C library and the loader, which a preempted thread may hold. All LWPs with a slot, and a reserve
//! without one, exist before the first thread runs. A thread of its own (`slots::reserve`) refills the
//! reserve early, and ends LWPs that are too many.
//!
//! An LWP outlives its kernel thread. Thieves, the monitor, owner hints and threads that ran there last may
//! all point to it. So it is kept, with its number, and gets another kernel thread when one is needed.
//! Meanwhile it is *vacant*.

use std::{io, mem};

use super::slot::InHand;
use crate::mxn::lwp::Lwp;
use crate::mxn::lwp_set::LwpSet;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A bit of the number of wanted slots: the program has not set it.
const FOLLOWS: u32 = 1 << 31;
/// How many spares wait, beyond the LWPs that have slots, in a runtime that has needed none.
pub(crate) const RESERVE: usize = 2;

/// All LWPs of a runtime, and the spares among them.
#[derive(Debug)]
pub(crate) struct LwpPool {
    /// Filled from the front, and never emptied while the runtime lives.
    lwps: Box<[AtomicPtr<Lwp>]>,
    /// How many have been made. Stored with release by the adding thread, loaded with acquire.
    made: AtomicU32,
    /// From this number on, all are vacant. Written as `made` is, but it shrinks too.
    len: AtomicU32,
    /// How many slots there are: in words, or in hand. Written by the thread that makes LWPs.
    slots: AtomicU32,
    /// How many there are to be (`concurrency`). With [`FOLLOWS`], as many as there are CPUs.
    wanted: AtomicU32,
    /// How many of these the monitor saves for the time being.
    saved: AtomicU32,
    /// The LWPs with a slot, and those that have left something behind since they lost it: what others look
    /// through for threads.
    active: LwpSet,
    spares: QueueLock<Spares>,
    /// LWPs without a kernel thread, by number.
    vacant: QueueLock<Vec<u32>>,
    /// How many LWPs are vacant. Written with the lock of `vacant` held, read without it: in a child of a
    /// fork, that lock is never released.
    vacancies: AtomicU32,
}

/// LWPs without a slot, by number, asleep. The last to come is the first to get a slot.
#[derive(Debug)]
struct Spares {
    numbers: Vec<u32>,
    /// All LWPs that there may be are in use, and that has been counted.
    exhausted: bool,
}

/// What [`LwpPool::aged`] found.
#[derive(Debug)]
pub(crate) enum Aged {
    /// This one has been a spare for long enough, since then.
    One(&'static Lwp, u64),
    /// None has yet; the first may have at this time.
    NotBefore(u64),
    /// There are no more spares than are kept.
    Kept,
}

impl LwpPool {
    /// Makes a pool with `slots` slots. If it `follows`, it wants as many as there are CPUs at the time.
    pub(crate) fn new(max_lwps: usize, slots: usize, follows: bool) -> Self {
        let slots = u32::try_from(slots).expect("settings are validated");
        Self {
            lwps: (0..max_lwps).map(|_| AtomicPtr::default()).collect(),
            made: AtomicU32::new(0),
            len: AtomicU32::new(0),
            slots: AtomicU32::new(slots),
            wanted: AtomicU32::new(if follows { slots | FOLLOWS } else { slots }),
            saved: AtomicU32::new(0),
            active: LwpSet::new(max_lwps),
            spares: QueueLock::new(
                Rank::Scheduler,
                Spares { numbers: Vec::with_capacity(max_lwps), exhausted: false },
            ),
            vacant: QueueLock::new(Rank::Scheduler, Vec::with_capacity(max_lwps)),
            vacancies: AtomicU32::new(0),
        }
    }

    /// Returns how many LWPs may run green threads at once, at present. Never 0, and never less than there
    /// are. So a comparison with the number of sleepers may take a sleeping LWP for awake, but not the other
    /// way round.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// Returns how many slots there are to be.
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted.load(Ordering::Relaxed) & !FOLLOWS
    }

    /// Returns how many slots there are to be at present: the wanted ones, less those that are saved.
    pub(crate) fn aim(&self) -> u32 {
        // Relaxed: as in `want`.
        let saved = self.saved.load(Ordering::Relaxed);
        self.follows().map_or_else(|| self.wanted(), |cpus| cpus.saturating_sub(saved).max(1))
    }

    /// Returns how many slots are wanted, unless the program has set the number.
    pub(crate) fn follows(&self) -> Option<u32> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        (wanted & FOLLOWS != 0).then_some(wanted & !FOLLOWS)
    }

    /// Saves so many of the wanted slots. Returns `true` if that changes the number. Then the caller wakes
    /// the thread that acts on it. Called by the monitor alone.
    pub(crate) fn save(&self, slots: u32) -> bool {
        // Relaxed: as in `want`.
        self.saved.swap(slots, Ordering::Relaxed) != slots
    }

    /// Sets how many slots there are to be, for the program. The caller wakes the thread that acts on it
    /// (`concurrency`).
    pub(crate) fn want(&self, slots: u32) {
        // Relaxed: a number. The thread that acts on it is woken after this.
        self.wanted.store(slots, Ordering::Relaxed);
    }

    /// Sets how many slots there are to be, unless the program has. Returns `true` if that changes the
    /// number. Then the caller wakes the thread that acts on it. Called by the monitor alone.
    pub(crate) fn follow(&self, slots: u32) -> bool {
        let slots = slots | FOLLOWS;
        let old = self.wanted.load(Ordering::Relaxed);
        // Relaxed: as in `want`. A compare-and-swap: the program may set it at this moment.
        old & FOLLOWS != 0
            && old != slots
            && self.wanted.compare_exchange(old, slots, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Counts one slot more, which the caller gives or takes back. Called by the one thread that changes the
    /// number.
    pub(crate) fn count_slot(&self) {
        self.slots.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one slot less, which the caller has retired. Called by the one thread that changes the number.
    pub(crate) fn uncount_slot(&self) {
        self.slots.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns how many LWPs have a kernel thread, or are about to.
    pub(crate) fn len(&self) -> usize {
        // In this order, an LWP that is made meanwhile may be missed, but none is counted that is not there.
        let made = self.made.load(Ordering::Acquire) as usize;
        // Acquire: pairs with the release where it changes.
        made.saturating_sub(self.vacancies.load(Ordering::Acquire) as usize)
    }

    /// Returns a bound: every LWP that may have a kernel thread has a lower number. Fewer LWPs may have one.
    pub(crate) fn reach(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// Returns all LWPs that may have a kernel thread, by number.
    pub(crate) fn lwps(&self) -> impl DoubleEndedIterator<Item = &'static Lwp> {
        self.first(&self.len)
    }

    /// Returns the LWPs from which threads can be stolen, whose sleeps may be due, or whose slot may be
    /// taken. It begins at the number `start`, and ends with those below.
    pub(crate) fn active(&self, start: u32) -> impl Iterator<Item = &'static Lwp> {
        self.active.from(start).map(|index| self.lwp(index))
    }

    /// Returns `true` if an LWP beside this one is active. On one slot, as a rule, none is.
    pub(crate) fn has_others_active(&self, lwp: &Lwp) -> bool {
        self.active.has_others(lwp.index)
    }

    /// Gives a slot to an LWP that has none. The caller took it off the spare list, or starts it.
    pub(crate) fn give(&self, lwp: &Lwp, slot: InHand) {
        lwp.slot.give(slot);
        // In this order: see `leave_active`.
        self.active.insert(lwp.index);
    }

    /// Lets others pass over an LWP that has neither a slot, nor threads that wait, nor sleeps that no other
    /// thread sees to. Called by the owner or by the monitor.
    pub(crate) fn leave_active(&self, lwp: &Lwp) {
        // It may have been given a slot meanwhile. Either that was before this look, which sees it, or the
        // giver puts it in after this (`lwp_set`).
        if self.active.contains(lwp.index) && self.active.remove(lwp.index) && !lwp.slot.is_none() {
            self.active.insert(lwp.index);
        }
    }

    /// Returns where a look through the active LWPs begins: for successive values of `turn`, at each in turn.
    pub(crate) fn start_in_turn(&self, turn: u32) -> u32 {
        turn % u32::try_from(self.reach()).expect("a number of LWPs").max(1)
    }

    /// Returns all LWPs that ever had a kernel thread, for sums of counters.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Lwp> {
        self.first(&self.made)
    }

    fn first(&self, count: &AtomicU32) -> impl DoubleEndedIterator<Item = &'static Lwp> {
        // Acquire: pairs with the release in `enlist`, so the pointers before it are filled in.
        let count = count.load(Ordering::Acquire) as usize;
        // SAFETY: `enlist` filled these in before it counted them. They are freed after the last LWP has
        // ended.
        self.lwps[..count].iter().map(|lwp| unsafe { &*lwp.load(Ordering::Relaxed) })
    }

    /// Returns the LWP with this number.
    pub(crate) fn lwp(&self, index: u32) -> &'static Lwp {
        // SAFETY: `enlist` filled it in, and it is freed after the last LWP has ended. Numbers come from LWPs
        // that exist.
        unsafe { &*self.lwps[index as usize].load(Ordering::Acquire) }
    }

    /// Returns how many LWPs there may be (`max_lwps`).
    pub(crate) fn most(&self) -> usize {
        self.lwps.len()
    }

    /// Returns `true` if another LWP may have a kernel thread.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.most()
    }

    /// Returns an LWP to start a kernel thread for: the first that is vacant, or a new one that `make` makes,
    /// with that number. The caller has made sure that there is room. One caller at a time: the builder, then
    /// the reserve's thread.
    pub(crate) fn enlist(&self, make: impl FnOnce(u32) -> io::Result<Lwp>) -> io::Result<&'static Lwp> {
        let vacant = self.vacant.with(|vacant| {
            let at = vacant.iter().enumerate().min_by_key(|(_, number)| **number)?.0;
            self.vacancies.fetch_sub(1, Ordering::Release);
            Some(vacant.swap_remove(at))
        });
        let lwp = match vacant {
            Some(number) => self.lwp(number),
            None => self.add(Box::new(make(self.made.load(Ordering::Relaxed))?)),
        };
        lwp.life.begin();
        // Release: pairs with the acquire of `first`.
        self.len.fetch_max(lwp.index + 1, Ordering::Release);
        Ok(lwp)
    }

    /// Adds an LWP. Its number must be the next.
    fn add(&self, lwp: Box<Lwp>) -> &'static Lwp {
        let index = self.made.load(Ordering::Relaxed);
        assert_eq!(index, lwp.index, "LWPs are numbered in the order of their making");
        let lwp: &'static Lwp = Box::leak(lwp);
        self.lwps[index as usize].store(std::ptr::from_ref(lwp).cast_mut(), Ordering::Relaxed);
        // Release: pairs with the acquire of `first`.
        self.made.store(index + 1, Ordering::Release);
        lwp
    }

    /// Marks an LWP as vacant. Its owner's kernel thread ends, and does not touch it after this; or none
    /// could be started.
    pub(crate) fn vacate(&self, lwp: &Lwp) {
        self.leave_active(lwp);
        lwp.life.end();
        lwp.sleep.reset();
        // The lock hands what belongs to the owner to the next owner.
        self.vacant.with(|vacant| {
            vacant.push(lwp.index);
            self.vacancies.fetch_add(1, Ordering::Release);
        });
    }

    /// Leaves the last LWPs out of what others look through, as long as they are vacant. Called by the caller
    /// of `enlist`.
    pub(crate) fn forget_vacant(&self) {
        let mut len = self.len.load(Ordering::Relaxed);
        while len > 0 && !self.lwp(len - 1).life.lives() {
            len -= 1;
        }
        self.len.store(len, Ordering::Release);
    }

    /// Enters the list of spares, where slots are given. The owner has no slot, and is prepared to sleep.
    /// Returns the number of spares.
    pub(crate) fn enter_spares(&self, lwp: &Lwp) -> usize {
        self.spares.with(|spares| {
            lwp.life.show_awaited(false);
            spares.numbers.push(lwp.index);
            // Not with the first that comes back, unless there can be no more: it goes out again at once.
            if spares.exhausted {
                let most = self.most().saturating_sub(self.slots() as usize);
                spares.exhausted = spares.numbers.len() < RESERVE.min(most);
            }
            spares.numbers.len()
        })
    }

    /// Notes whether all LWPs that there may be are in use. Returns `true` if they are, and were not when it
    /// last looked. Called by the thread that starts spares.
    #[must_use]
    pub(crate) fn becomes_exhausted(&self) -> bool {
        // With the list locked: a spare that comes for the first time is awaited until it is on the list.
        !self.has_room()
            && self.spares.with(|spares| {
                spares.numbers.is_empty()
                    && !self.lwps().any(|lwp| lwp.life.is_awaited())
                    && !mem::replace(&mut spares.exhausted, true)
            })
    }

    /// Leaves the list of spares. Owner only. Returns `false` if it was taken off, and is being woken.
    #[must_use]
    pub(crate) fn leave_spares(&self, lwp: &Lwp) -> bool {
        self.spares.with(|spares| {
            let Some(at) = spares.numbers.iter().rposition(|&s| s == lwp.index) else { return false };
            spares.numbers.remove(at);
            true
        })
    }

    /// Moves the slot that `take` takes to a spare LWP, and wakes and returns that. Returns `None` if there
    /// is no spare, or nothing to take.
    pub(crate) fn hand_off(&self, take: impl FnOnce() -> Option<InHand>) -> Option<&'static Lwp> {
        // `take` is one compare-and-swap, so it runs with the list locked. If a spare were taken off and put
        // back, it could miss a deadline of its own meanwhile, and then sleep without one.
        let moved = self.spares.with(|spares| {
            let index = *spares.numbers.last()?;
            let slot = take()?;
            spares.numbers.pop();
            // With the list locked: an LWP that finds itself off the list has the slot.
            let lwp = self.lwp(index);
            self.give(lwp, slot);
            Some(lwp)
        });
        moved.inspect(|lwp| {
            let in_set = lwp.sleep.wake();
            debug_assert!(!in_set, "a spare waits for a slot only");
        })
    }

    /// Returns a spare that has been one since `before` or earlier, if there are more than `keep`: the one of
    /// the highest number.
    pub(crate) fn aged(&self, keep: usize, before: u64) -> Aged {
        self.spares.with(|spares| {
            if spares.numbers.len() <= keep {
                return Aged::Kept;
            }
            let since = |number: &u32| self.lwp(*number).life.spare_since();
            match spares.numbers.iter().filter(|number| since(number) <= before).max() {
                Some(number) => Aged::One(self.lwp(*number), since(number)),
                None => Aged::NotBefore(spares.numbers.iter().map(since).min().unwrap_or(before)),
            }
        })
    }

    /// Tells the kernel thread of a spare to end, if it has been a spare all the time since then.
    #[must_use]
    pub(crate) fn retire(&self, lwp: &Lwp, since: u64) -> bool {
        let taken = self.spares.with(|spares| {
            // Off the list first, so that no slot is given to an LWP that ends.
            let at = spares.numbers.iter().position(|&s| s == lwp.index);
            let at = at.filter(|_| lwp.life.spare_since() == since);
            at.map(|at| spares.numbers.remove(at)).is_some()
        });
        if taken {
            lwp.sleep.retire();
        }
        taken
    }

    /// Takes a spare off the list, for a model of what may not be done.
    #[cfg(all(test, loom))]
    pub(crate) fn take_spare(&self) -> Option<u32> {
        self.spares.with(|spares| spares.numbers.pop())
    }

    /// Returns how many spares sleep.
    pub(crate) fn spares(&self) -> usize {
        self.spares.with(|spares| spares.numbers.len())
    }
}

#[cfg(test)]
impl LwpPool {
    pub(crate) fn active_set(&self) -> &LwpSet {
        &self.active
    }
}

impl Drop for LwpPool {
    fn drop(&mut self) {
        for lwp in &self.lwps[..self.made.load(Ordering::Relaxed) as usize] {
            // SAFETY: made by `Box::leak` in `add`. The last LWP has ended, or the scheduler would not be
            // dropped.
            drop(unsafe { Box::from_raw(lwp.load(Ordering::Relaxed)) });
        }
    }
}

#[cfg(all(test, loom))]
mod loom_active;

#[cfg(test)]
mod tests;
