//! Choosing one of several operations, and sleeping until there is one.
//!
//! **Problem.** A thread waits for the first of several events. Of those that come, it must take one and leave all others as if
//! they had not been looked at; none may slip by between its last look and its sleep; and two threads that select, with one
//! channel between them, must agree.
//!
//! **Rejected.** Making the sleep known to one channel after the other: an event may come halfway; then the thread must take itself
//! back, which others see, and two that do so to each other can go on for ever. Waking the thread to try by itself: what it
//! was woken for may be gone, and what has come meanwhile is taken instead, so that the first event has woken nobody who would
//! have taken it.
//!
//! **Protocol.**
//!
//! 1. The locks of all channels are taken, in the order of their addresses. All operations are looked at. If any are ready, one of
//!    them, chosen by lot, is begun (`core.rs`): that is what was selected.
//! 2. Else the thread has one sleep (`park/sleeper.rs`), and a seat in the list of each channel. The locks are freed, and it
//!    sleeps, until its own deadline, or until the first moment at which a clock among the operations strikes.
//! 3. Whoever can serve one of its seats, with that channel's lock held, claims the sleep; the first one wins, leaves what it has got
//!    for the sleeper, and says which operation it was.
//! 4. Awake, the thread takes its other seats back, one by one. Nobody can have served those.
//!
//! The end of a thread is looked at in 1, and made known in 2, without a lock: if it comes in between, the thread claims its own
//! sleep, if nobody else has, and has selected that.
//!
//! **Proof.** *None slips by*: 1 and 2 are one critical section of all channels. A change of a channel comes before it, then it is seen in
//! 1, or after it, then it finds the seat. *One is taken*: who serves a seat has claimed the sleep before (I3). *Two that select agree*:
//! one of them comes second; it finds the other's seat with the lock held, and is itself in no list, so that nobody can claim
//! it at the same time. *No deadlock*: locks are taken upwards.
//!
//! **Cost** in read-modify-writes: the locks, once, and once more each after a sleep; 1 for the claim.

use std::cell::Cell;

use super::port::{Port, Seat};
use crate::channel::clock::earlier;
use crate::channel::core::{After, Step};
use crate::channel::wait::{Patience, Refusal};
use crate::channel::waiters::Deal;
use crate::park::interrupt;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{CODES, How, Sleeper, Slept};
use crate::shim::UnsafeCell;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{global, local};
use crate::time;

/// An operation among those to choose from.
pub(in crate::channel) struct Case<'a> {
    port: &'a dyn Port,
    /// The number that it goes by for who selects.
    pub(in crate::channel) index: usize,
    /// Of those that are ready, and of those that wait at one channel, the one with the least is first.
    lot: usize,
    /// Of one sleep.
    seat: Option<Seat>,
}

impl<'a> Case<'a> {
    pub(in crate::channel) fn new(port: &'a dyn Port, index: usize) -> Self {
        Self { port, index, lot: index, seat: None }
    }
}

/// What is chosen, and how.
#[derive(Clone, Copy, Debug)]
pub(in crate::channel) struct Manner {
    /// Only to know which is ready.
    pub(in crate::channel) watches: bool,
    /// The first of those that are ready, and not one by lot.
    pub(in crate::channel) biased: bool,
    pub(in crate::channel) patience: Patience,
}

/// What was chosen: a place in the slice, and what it has got.
pub(in crate::channel) type Choice = (usize, Deal);

/// How one round ended that has chosen nothing.
enum Round {
    Chosen(Choice),
    /// The thread of that case has ended just now, and the sleep is claimed. Some seats are known.
    Ended(usize),
    /// That case needs something first.
    Needs(usize, Step),
    Sleeps {
        /// The seat of that case has been won by a selected sender; no other is known to anybody.
        won: Option<usize>,
    },
    GivesUp,
}

/// Chooses one of `cases`, which are put into another order.
pub(in crate::channel) fn choose(cases: &mut [Case<'_>], manner: Manner) -> Result<Choice, Refusal> {
    assert!(cases.len() < CODES as usize, "a select among more than 16,777,215 operations");
    let (deadline, interruptible, patient) = match manner.patience {
        Patience::None => (None, false, false),
        Patience::Until { deadline, interruptible } => (deadline, interruptible, true),
    };
    if !manner.biased {
        cases.iter_mut().for_each(|case| case.lot = draw());
    }
    cases.sort_unstable_by_key(|case| (case.port.lock(), case.lot));
    let mut over = false;
    loop {
        let waits = patient && !over && !time::has_passed(deadline);
        let strikes = cases.iter().fold(None, |first, case| earlier(first, case.port.deadline()));
        let sleeper = Sleeper::new(waits && deadline.is_none() && strikes.is_none());
        let deal = UnsafeCell::new(Deal::Open);
        for (number, case) in cases.iter_mut().enumerate() {
            case.seat = Some(Seat::new(&sleeper, number as u32, &deal, case.port.thread()));
        }
        let cases = &*cases;
        let mut how = How {
            reason: WaitReason::Select,
            deadline: earlier(deadline, strikes),
            interruptible,
            spin: cases.iter().any(|case| case.port.deadline().is_none()),
        };
        let mut after = After::nothing();
        // From its being linked to its waking up (I9).
        let no_preempt = NoPreempt::hold();
        let all = Seized::new(cases, &no_preempt);
        let round = all.look(manner, waits, &sleeper, &mut after);
        drop(all);
        let Round::Sleeps { won } = round else {
            drop(no_preempt);
            after.finish();
            match round {
                Round::Chosen(choice) => return Ok(choice),
                Round::Ended(number) => {
                    leave(cases, None, manner.watches);
                    return Ok((number, Deal::Ready));
                }
                Round::Needs(number, step) => cases[number].port.supply(step),
                Round::GivesUp => return Err(Refusal::Waits),
                Round::Sleeps { .. } => {}
            }
            continue;
        };
        after.finish();
        let slept = if won.is_some() {
            // The sender is bound to settle it soon.
            (how.deadline, how.interruptible) = (None, false);
            sleeper.sleep(&no_preempt, &how, 0, || false)
        } else {
            sleeper.sleep(&no_preempt, &how, 0, || sleeper.try_claim())
        };
        drop(no_preempt);
        let granted = match slept {
            Slept::Granted(number) => Some(number as usize),
            Slept::Expired | Slept::Interrupted => None,
        };
        if won.is_none() {
            leave(cases, granted, manner.watches);
        }
        // A last look, if it was not a clock of the operations that struck.
        over = slept == Slept::Expired && how.deadline == deadline;
        if slept == Slept::Interrupted {
            let _ = interrupt::reported();
            return Err(Refusal::Interrupted);
        }
        if let Some(number) = granted {
            // SAFETY: settled, so nobody else uses it.
            match deal.with(|deal| unsafe { *deal }) {
                // The end of a thread leaves nothing.
                Deal::Open if cases[number].port.thread().is_some() => return Ok((number, Deal::Ready)),
                // Who had won us could do nothing for us.
                Deal::Open => {}
                deal => return Ok((number, deal)),
            }
        }
    }
}

/// Takes all seats back but that of `granted`, who has lost it.
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
    /// The cases are in the order of their locks, and `no_preempt` lasts longer.
    fn new(cases: &'a [Case<'a>], no_preempt: &'a NoPreempt) -> Self {
        let mut last = 0;
        for case in cases {
            let lock = case.port.lock();
            if lock != last {
                // SAFETY: freed by `drop`.
                unsafe { case.port.seize(no_preempt, last != 0) };
                last = lock;
            }
        }
        Self { cases }
    }

    /// The first step of a round, and the second if the thread `waits` and nothing is ready.
    fn look(&self, manner: Manner, waits: bool, sleeper: &Sleeper, after: &mut After) -> Round {
        while let Some(number) = self.pick() {
            if manner.watches {
                return Round::Chosen((number, Deal::Ready));
            }
            let case = &self.cases[number];
            // SAFETY: the lock is held; the seat is new.
            match unsafe { case.port.begin(&case.seat().place, after) } {
                // Others, whose channels are not ours, have been faster.
                Ok(Deal::Open) => {}
                Ok(deal) => return Round::Chosen((number, deal)),
                Err(Step::Won) => return Round::Sleeps { won: Some(number) },
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
            // A thread has ended since we looked.
            let ours = sleeper.try_claim();
            return if ours { Round::Ended(number) } else { Round::Sleeps { won: None } };
        }
        Round::Sleeps { won: None }
    }

    /// The first of those that are ready.
    fn pick(&self) -> Option<usize> {
        // SAFETY: the locks are held.
        let ready = |&number: &usize| unsafe { self.cases[number].port.look() } != Deal::Open;
        (0..self.cases.len()).filter(ready).min_by_key(|&number| self.cases[number].lot)
    }
}

impl Drop for Seized<'_> {
    fn drop(&mut self) {
        let mut last = 0;
        for case in self.cases {
            let lock = case.port.lock();
            if lock != last {
                // SAFETY: seized by `new`.
                unsafe { case.port.give_up() };
                last = lock;
            }
        }
    }
}

global! {
    /// Where the next thread's lots begin.
    static SEEDS: AtomicU32 = AtomicU32::new(1);
}

local! {
    /// The thread's last lot; 0: it has drawn none.
    static LOT: Cell<u32> = Cell::new(0);
}

/// A number, each with the same chance.
fn draw() -> usize {
    let mut lot = LOT.with(Cell::get);
    if lot == 0 {
        // Relaxed: any number will do. Odd, and so not 0; far from those of other threads.
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
#[path = "../tests/loom_select.rs"]
mod loom_select;
