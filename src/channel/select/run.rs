//! Choosing one of several operations, and sleeping until there is one.
//!
//! **Problem.** A thread waits for the first of several events.
//!
//! - It must take one of those that come, and leave all others as if it had not looked at them.
//! - No event may slip by between its last look and its sleep.
//! - Two threads that select, with one channel between them, must agree.
//!
//! **Rejected.**
//!
//! - Making the sleep known to one channel after the other. An event may come halfway. The thread must
//!   then withdraw, which others see, and two threads that do so to each other can go on forever.
//! - Waking the thread to try by itself. The event that woke it may be gone, and another that has come
//!   meanwhile is taken instead. The first event has then woken no thread that would have taken it.
//!
//! **Protocol.**
//!
//! 1. The locks of all channels are taken, in the order of their addresses. All operations are looked at.
//!    If any are ready, one of them is chosen by lot and begun (`core.rs`). It is the one selected.
//! 2. Otherwise the thread has one sleep (`park/sleeper.rs`), and a seat in the list of each channel. The
//!    locks are freed. It sleeps until its own deadline, or until the first moment at which a clock among
//!    the operations strikes.
//! 3. A thread that can serve one of its seats, with that channel's lock held, claims the sleep. The
//!    first to do so wins. It leaves what it has got for the sleeper, and says which operation it was.
//! 4. Awake, the thread takes its other seats back, one by one. No thread can have served those.
//!
//! The end of a thread is looked at in step 1 and watched from step 2, without a lock. If it comes in
//! between, the selecting thread claims its own sleep, unless another has, and has selected that end.
//!
//! **Proof.**
//!
//! - *None slips by*: steps 1 and 2 are one critical section of all channels. If a change of a channel
//!   comes before it, step 1 sees the change. If it comes after, it finds the seat.
//! - *One is taken*: a thread that serves a seat has claimed the sleep before (I3).
//! - *Two that select agree*: one of them comes second. It finds the other's seat with the lock held. It
//!   is itself in no list, so no thread can claim it at the same time.
//! - *No deadlock*: locks are taken in ascending order.
//!
//! **Cost** in read-modify-writes: each lock once, and once more after a sleep; 1 for the claim.

use std::cell::Cell;

use super::port::{Port, Seat};
use crate::channel::clock::earlier;
use crate::channel::core::{After, Step};
use crate::channel::waiters::Deal;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{CODES, How, Sleeper, Slept};
use crate::park::wait::{Wait, WaitError};
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{global, local};
use crate::time;

/// An operation among those to choose from.
pub(in crate::channel) struct Case<'a> {
    port: &'a dyn Port,
    /// The number by which the caller knows the operation.
    pub(in crate::channel) index: usize,
    /// The operation with the least is first among those that are ready, and among those that wait at one
    /// channel.
    lot: usize,
    /// The seat of one sleep.
    seat: Option<Seat>,
}

impl<'a> Case<'a> {
    pub(in crate::channel) fn new(port: &'a dyn Port, index: usize) -> Self {
        Self { port, index, lot: index, seat: None }
    }
}

/// The way to choose.
#[derive(Clone, Copy, Debug)]
pub(in crate::channel) struct Manner {
    /// `true` to find out only which operation is ready.
    pub(in crate::channel) watches: bool,
    /// `true` to take the first that is ready, and not one by lot.
    pub(in crate::channel) biased: bool,
    /// Without this, does not wait at all.
    pub(in crate::channel) wait: Option<Wait>,
}

/// The outcome of a choice: an index of the slice, and what the operation has got.
pub(in crate::channel) type Choice = (usize, Deal);

/// The outcome of one round.
enum Round {
    Chosen(Choice),
    /// The thread of that case has ended in this moment, and the sleep is claimed. Some seats are known.
    Ended(usize),
    /// That case needs something first.
    Needs(usize, Step),
    Sleeps {
        /// A selected sender has won the seat of a case; no other seat is known to any thread.
        won: bool,
    },
    GivesUp,
}

/// Chooses one of `cases`, which it reorders. If it is interrupted, the thread's flag is still set.
pub(in crate::channel) fn choose(cases: &mut [Case<'_>], manner: Manner) -> Result<Choice, WaitError> {
    assert!(cases.len() < CODES as usize, "a select among more than 16,777,215 operations");
    let (wait, patient) = (manner.wait.unwrap_or_default(), manner.wait.is_some());
    if !manner.biased {
        cases.iter_mut().for_each(|case| case.lot = draw());
    }
    cases.sort_unstable_by_key(|case| (case.port.lock(), case.lot));
    let mut over = false;
    loop {
        let waits = patient && !over && !time::has_passed(wait.deadline);
        let strikes = cases.iter().fold(None, |first, case| earlier(first, case.port.deadline()));
        let refused = waits && strikes.is_none() && wait.is_refused();
        let waits = waits && !refused;
        let sleeper = Sleeper::new();
        let deal = UnsafeCell::new(Deal::Open);
        for (number, case) in cases.iter_mut().enumerate() {
            case.seat = Some(Seat::new(&sleeper, number as u32, &deal, case.port.thread()));
        }
        let cases = &*cases;
        let deadline = earlier(wait.deadline, strikes);
        let mut how = How {
            reason: WaitReason::Select,
            // The wait's own deadline is ahead, or the thread does not wait.
            wait: Wait { deadline, may_be_over: strikes.is_some(), ..wait },
            spin: cases.iter().any(|case| case.port.deadline().is_none()),
        };
        let mut after = After::nothing();
        // Held from the linking of the seats until the thread wakes up (I9).
        let no_preempt = NoPreempt::hold();
        let all = Seized::new(cases, &no_preempt);
        let round = all.look(manner, waits, &sleeper, &mut after);
        drop(all);
        let won = match round {
            Round::Sleeps { won } => won,
            round => {
                if matches!(round, Round::Ended(_)) {
                    leave(cases, None, manner.watches);
                }
                drop(no_preempt);
                after.finish();
                match round {
                    Round::Chosen(choice) => return Ok(choice),
                    Round::Ended(number) => return Ok((number, Deal::Ready)),
                    Round::Needs(number, step) => cases[number].port.supply(step),
                    _ if refused => Wait::refuse(),
                    _ => return Err(WaitError::TimedOut),
                }
                continue;
            }
        };
        after.finish();
        if won {
            // The sender is bound to settle the sleep soon.
            how.wait = Wait::forever();
        }
        let slept = sleeper.sleep(&no_preempt, &how, 0, || !won && sleeper.try_claim());
        drop(no_preempt);
        let granted = match slept {
            Slept::Granted(number) => Some(number as usize),
            Slept::Ended(_) => None,
        };
        if !won {
            leave(cases, granted, manner.watches);
        }
        // A last look follows, unless a clock among the operations struck.
        over = slept == Slept::Ended(WaitError::TimedOut) && how.wait.deadline == wait.deadline;
        if slept == Slept::Ended(WaitError::Interrupted) {
            return Err(WaitError::Interrupted);
        }
        if let Some(number) = granted {
            // SAFETY: settled, so no other thread uses it.
            match deal.with(|deal| unsafe { *deal }) {
                // The end of a thread leaves nothing.
                Deal::Open if cases[number].port.thread().is_some() => return Ok((number, Deal::Ready)),
                // The thread that had won this one could do nothing for it.
                Deal::Open => {}
                deal => return Ok((number, deal)),
            }
        }
    }
}

/// Takes back all seats except that of `granted`, which is out of its list.
fn leave(cases: &[Case<'_>], granted: Option<usize>, watches: bool) {
    for (number, case) in cases.iter().enumerate() {
        if granted != Some(number) {
            case.port.unlink(case.seat(), watches);
        }
    }
}

impl Case<'_> {
    fn seat(&self) -> &Seat {
        self.seat.as_ref().expect("made for this round")
    }
}

/// The cases with all their channels locked.
struct Seized<'a> {
    cases: &'a [Case<'a>],
}

impl<'a> Seized<'a> {
    /// Returns one operation for each lock. (Those of one lock lie side by side.)
    fn locks(&self) -> impl Iterator<Item = &dyn Port> {
        let is_same = |one: &Case<'_>, other: &Case<'_>| one.port.lock() == other.port.lock();
        self.cases.chunk_by(is_same).map(|same| same[0].port).filter(|port| port.lock() != 0)
    }

    /// Locks the channels. The cases are in the order of their locks, and `no_preempt` lasts longer.
    fn new(cases: &'a [Case<'a>], no_preempt: &'a NoPreempt) -> Self {
        let all = Self { cases };
        for (before, port) in all.locks().enumerate() {
            // SAFETY: freed by `drop`.
            unsafe { port.seize(no_preempt, before > 0) };
        }
        all
    }

    /// Does the first step of a round. Does the second if the thread `waits` and nothing is ready.
    fn look(&self, manner: Manner, waits: bool, sleeper: &Sleeper, after: &mut After) -> Round {
        while let Some(number) = self.pick() {
            if manner.watches {
                return Round::Chosen((number, Deal::Ready));
            }
            let case = &self.cases[number];
            // SAFETY: the lock is held; the seat is new.
            match unsafe { case.port.begin(&case.seat().entry, after) } {
                // Other threads, which needed no lock of ours, have been faster.
                Ok(Deal::Open) => {}
                Ok(deal) => return Round::Chosen((number, deal)),
                Err(Step::Won) => return Round::Sleeps { won: true },
                Err(step) => return Round::Needs(number, step),
            }
        }
        if !waits {
            return Round::GivesUp;
        }
        for (number, case) in self.cases.iter().enumerate() {
            // SAFETY: the lock is held; the seat is new, and stays until the caller has taken it back.
            if unsafe { case.port.link(case.seat(), manner.watches, after) } {
                continue;
            }
            // A thread has ended since the look.
            let ours = sleeper.try_claim();
            return if ours { Round::Ended(number) } else { Round::Sleeps { won: false } };
        }
        Round::Sleeps { won: false }
    }

    /// Returns the number of the first case that is ready.
    fn pick(&self) -> Option<usize> {
        // SAFETY: the locks are held.
        let ready = |&number: &usize| unsafe { self.cases[number].port.look() } != Deal::Open;
        (0..self.cases.len()).filter(ready).min_by_key(|&number| self.cases[number].lot)
    }
}

impl Drop for Seized<'_> {
    fn drop(&mut self) {
        // SAFETY: seized by `new`.
        self.locks().for_each(|port| unsafe { port.give_up() });
    }
}

global! {
    /// The number from which the next thread makes its first lot.
    static SEEDS: AtomicU32 = AtomicU32::new(1);
}

local! {
    /// The thread's last lot; 0: it has drawn none.
    static LOT: Cell<u32> = Cell::new(0);
}

/// Draws a number, each with the same chance.
fn draw() -> usize {
    let mut lot = LOT.with(Cell::get);
    if lot == 0 {
        // Relaxed: any number will do. It is odd, so it is not 0; and far from those of other threads.
        lot = SEEDS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9) | 1;
    }
    // Marsaglia's xorshift.
    lot ^= lot << 13;
    lot ^= lot >> 17;
    lot ^= lot << 5;
    LOT.with(|last| last.set(lot));
    lot as usize
}

#[cfg(all(test, loom))]
mod loom_select;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each bit of a lot is as often set as not, and changes as often as it stays.
    #[test]
    fn lots_are_balanced() {
        const DRAWS: u32 = 4000;
        let (mut set, mut changed, mut last) = ([0_u32; 32], [0_u32; 32], 0);
        for _ in 0..DRAWS {
            let lot = draw();
            for bit in 0..32 {
                set[bit] += (lot >> bit & 1) as u32;
                changed[bit] += ((lot ^ last) >> bit & 1) as u32;
            }
            last = lot;
        }
        // Nine standard deviations.
        let near = |count: &u32| count.abs_diff(DRAWS / 2) < 300;
        assert!(set.iter().all(near) && changed.iter().all(near), "{set:?} {changed:?}");
    }

    #[test]
    fn each_thread_begins_with_a_lot_of_its_own() {
        let first = || std::thread::spawn(draw).join().unwrap();
        let lots: std::collections::HashSet<_> = (0..64).map(|_| first()).collect();
        assert_eq!(lots.len(), 64);
    }
}
