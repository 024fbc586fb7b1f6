//! The LWPs of a runtime: started beforehand, put to sleep and roused, given slots.
//!
//! LWPs are **never made on demand** by dispatcher or monitor (I4): making a kernel thread takes locks of the C library
//! and the loader, which a preempted thread may hold. All that have a slot, and a reserve without, exist before the
//! first thread runs; a thread of its own (`monitor::reserve`) refills the reserve early.
//!
//! Sleeping: an LWP makes its bed (ASLEEP), tells others where to find it (the idle list or the spare list), looks once
//! more, and sleeps on the word. Whoever takes it off its list rouses it, exactly once.
//!
//! | `bed` | means | next by |
//! |---|---|---|
//! | AWAKE | runs, or was roused | `make_bed` -> ASLEEP (owner) |
//! | ASLEEP | on a list, or just off it | `rouse` -> AWAKE (who took it off the list); `get_up` -> AWAKE (owner, who took itself off) |

use std::time::Instant;

use super::Lwp;
use super::slot::InHand;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::shim::futex;

/// See the table in the header.
pub(crate) const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// All LWPs of a runtime, and the spares among them.
#[derive(Debug)]
pub(crate) struct LwpPool {
    /// Filled from the front, never emptied while the runtime lives.
    lwps: Box<[AtomicPtr<Lwp>]>,
    /// How many there are. Release by who adds, acquire by who looks.
    len: AtomicU32,
    /// How many slots there are (`concurrency`).
    slots: AtomicU32,
    /// LWPs without a slot, by number, asleep.
    spares: QueueLock<Vec<u32>>,
}

impl LwpPool {
    pub(crate) fn new(max_lwps: usize, slots: usize) -> Self {
        Self {
            lwps: (0..max_lwps).map(|_| AtomicPtr::default()).collect(),
            len: AtomicU32::new(0),
            slots: AtomicU32::new(u32::try_from(slots).expect("settings are validated")),
            spares: QueueLock::new(Rank::Scheduler, Vec::with_capacity(max_lwps)),
        }
    }

    /// How many LWPs may run green threads at once.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    /// How many LWPs there are.
    pub(crate) fn len(&self) -> usize {
        // Acquire: pairs with the release in `add`, so that the pointers before it are filled in.
        self.len.load(Ordering::Acquire) as usize
    }

    /// All LWPs, oldest first.
    pub(crate) fn lwps(&self) -> impl Iterator<Item = &'static Lwp> {
        // SAFETY: `add` filled these in before it counted them; they are freed after the last LWP has ended.
        self.lwps[..self.len()].iter().map(|lwp| unsafe { &*lwp.load(Ordering::Relaxed) })
    }

    /// The LWP with this number.
    pub(crate) fn lwp(&self, index: u32) -> &'static Lwp {
        // SAFETY: as in `lwps`; numbers come from LWPs that exist.
        unsafe { &*self.lwps[index as usize].load(Ordering::Acquire) }
    }

    /// Whether another LWP may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.lwps.len()
    }

    /// Adds an LWP, whose number must be `len`. One caller at a time: the builder, then the thread that refills.
    pub(crate) fn add(&self, lwp: Box<Lwp>) -> &'static Lwp {
        let index = self.len();
        assert_eq!(index, lwp.index as usize, "LWPs are numbered in the order of their making");
        let lwp: &'static Lwp = Box::leak(lwp);
        self.lwps[index].store(std::ptr::from_ref(lwp).cast_mut(), Ordering::Relaxed);
        self.len.fetch_add(1, Ordering::Release);
        lwp
    }

    /// Owner: about to enter a list.
    pub(crate) fn make_bed(&self, lwp: &Lwp) {
        // Relaxed: published by the list's lock.
        lwp.bed.store(ASLEEP, Ordering::Relaxed);
    }

    /// Owner: took itself off its list, and does not sleep after all.
    pub(crate) fn get_up(&self, lwp: &Lwp) {
        lwp.bed.store(AWAKE, Ordering::Relaxed);
    }

    /// Owner: sleeps until roused (`true`) or until `deadline`.
    pub(crate) fn sleep(&self, lwp: &Lwp, deadline: Option<Instant>) -> bool {
        // Acquire: pairs with the release of `rouse`.
        while lwp.bed.load(Ordering::Acquire) == ASLEEP {
            if futex::wait(&lwp.bed, ASLEEP, deadline) == futex::Waited::TimedOut {
                return lwp.bed.load(Ordering::Acquire) == AWAKE;
            }
        }
        true
    }

    /// Wakes an LWP that the caller took off its list.
    pub(crate) fn rouse(&self, lwp: &Lwp) {
        // Release: what the caller queued, and the slot it gave, are visible to the LWP.
        lwp.bed.store(AWAKE, Ordering::Release);
        futex::wake(&lwp.bed, 1);
    }

    /// Owner, without a slot and with its bed made: whoever has a slot in hand may give it.
    pub(crate) fn enter_spares(&self, lwp: &Lwp) {
        self.spares.with(|spares| spares.push(lwp.index));
    }

    /// Owner: takes itself off the list. `false`: it was taken off, and is being roused.
    #[must_use]
    pub(crate) fn leave_spares(&self, lwp: &Lwp) -> bool {
        self.spares.with(|spares| {
            let Some(at) = spares.iter().rposition(|&s| s == lwp.index) else { return false };
            spares.remove(at);
            true
        })
    }

    /// Moves a slot, which `take` takes from whoever has it, to a spare LWP, and wakes that. `false`: there is no spare, or
    /// nothing to take.
    pub(crate) fn hand_off(&self, take: impl FnOnce() -> Option<InHand>) -> bool {
        // `take` is one compare-and-swap, so it is done with the list locked: a spare that were taken off and put back could
        // miss a deadline of its own meanwhile, and then sleep without one.
        let moved = self.spares.with(|spares| {
            let index = *spares.last()?;
            let slot = take()?;
            spares.pop();
            Some((index, slot))
        });
        let Some((index, slot)) = moved else { return false };
        let lwp = self.lwp(index);
        lwp.slot.give(slot);
        self.rouse(lwp);
        true
    }

    /// Takes a spare off the list, for a model of what may not be done.
    #[cfg(all(test, loom))]
    pub(crate) fn take_spare(&self) -> Option<u32> {
        self.spares.with(Vec::pop)
    }

    /// How many spares sleep.
    pub(crate) fn spares(&self) -> usize {
        self.spares.with(|spares| spares.len())
    }
}

impl Drop for LwpPool {
    fn drop(&mut self) {
        for lwp in &self.lwps[..self.len()] {
            // SAFETY: made by `Box::leak` in `add`; the last LWP has ended, or the scheduler would not be dropped.
            drop(unsafe { Box::from_raw(lwp.load(Ordering::Relaxed)) });
        }
    }
}
