//! Sending and receiving, with the waits.
//!
//! A kernel thread that would have to wait tries a few times more before it makes that known, without the lock, and gives its CPU away in
//! between. Where there are more threads than CPUs, the other side then runs until the buffer is empty, or full, and nobody has entered the
//! kernel to sleep (without it: a sleep and a wake-up for each third message, with four senders and a buffer of 64; for each second with a buffer of
//! one and four on each side, since a message was promised to one of them that did not run). Without a buffer, two that only look do not even meet. A
//! green thread's sleep is cheaper than a look.
//!
//! Where the other side is at work on another CPU, each look takes its cache line away, and one that comes soon finds one message, or room
//! for one: both sides then go on in step, a message at a time, each of which costs as much as two lines that travel. So the first look
//! comes late, and finds many; but where it does not, because the other side waits for an answer, or does not run, the looks come
//! early for some waits ([`Gain`]). Where there is hardly any buffer there are not many to be found.

use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::time::Instant;

use super::core::{AGAIN, After, Channel, Locked, SERVED, State, Step};
use super::ends::{End, Gain, Passed};
use super::waiters::{List, Place};
use crate::park::current::current;
use crate::park::interrupt;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper, Slept};
use crate::shim::{FEW_LOOKS, UnsafeCell, cpus, spin_hint, yield_cpu};
use crate::time;

/// Looks before a kernel thread makes known that it waits, the last [`YIELDS`] of them after its CPU was given away. Range: [`YIELDS`] to 10. More
/// pauses before the first yield are for nothing if the other side waits for this very CPU: with 126 of them instead of 6, four senders
/// and a buffer of 64 took 170 ns a message instead of 60.
const LOOKS: u32 = if FEW_LOOKS > 1 { 6 } else { 0 };
/// The same at a channel of few places, where the other side, if it runs, is done with its message at once: 30 pauses. ns a message through one
/// place, between 1, 4 and 4 senders and 1, 1 and 4 receivers, on two CPUs: 3,000, 1,810, 2,370 without a look; 460, 710, 750 with 8, 1,630, 1,190,
/// 750 with 10.
const LOOKS_AT_FEW: u32 = if FEW_LOOKS > 1 { 8 } else { 0 };
const YIELDS: u32 = 4;

/// A long pause, instead of the looks before the first yield: 0.9 us, in which the other side fills, or empties, a buffer of 64. ns a message
/// through one, between 1, 4 and 4 senders and 1, 1 and 4 receivers, and through an unbounded channel, 1 and 1; all on two CPUs:
///
/// | pauses | | | | |
/// |---|---|---|---|---|
/// | 2 and 4 | 145 | 100 | 108 | 100 |
/// | 16 | 107 | 111 | 105 | 83 |
/// | 32 | 77 | 76 | 76 | 57 |
/// | 128 | 49 | 67 | 60 | 41 |
/// | 512 | 104 | 155 | 127 | |
/// | 128, since lines are fetched in time (`blocks.rs`) | | 50 | 48 | |
/// | 80, since then | | 47 | 41 | |
const LONG: u32 = 80;
/// What it must find to have paid: messages, or room. With less room than that there is no such pause.
const MANY: usize = 4;

/// How a thread looks before it makes known that it waits.
struct Looks<'a> {
    left: u32,
    /// Pauses before the next: two to the power of this.
    gap: u32,
    /// The next pause may be a long one.
    may_be_long: bool,
    /// The last pause was a long one.
    long: bool,
    gain: &'a Gain,
}

impl Looks<'_> {
    /// Before the next look.
    fn pause(&mut self) {
        if self.long {
            // There was nothing.
            self.long = false;
            self.gain.is_doubted();
        }
        self.left -= 1;
        if self.left < YIELDS {
            yield_cpu();
        } else if mem::take(&mut self.may_be_long) && self.gain.is_expected() {
            self.long = true;
            self.left = YIELDS;
            (0..LONG).for_each(|_| spin_hint());
        } else {
            (0..1 << self.gap).for_each(|_| spin_hint());
            self.gap += 1;
        }
    }

    /// The last look has found something, and so many besides.
    fn end(&self, besides: usize) {
        if self.long && besides < MANY {
            self.gain.is_doubted();
        }
    }
}

/// How long an operation may wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// Not at all.
    None,
    /// Until then, or for ever; and whether an interrupt ends it.
    Until { deadline: Option<Instant>, interruptible: bool },
}

impl Patience {
    pub(super) const ENDLESS: Self = Self::Until { deadline: None, interruptible: false };

    pub(super) fn until(deadline: Option<Instant>) -> Self {
        Self::Until { deadline, interruptible: false }
    }

    pub(super) fn interruptible(deadline: Option<Instant>) -> Self {
        Self::Until { deadline, interruptible: true }
    }
}

/// Why there was no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There was no patience, or its end has come.
    Waits,
    Disconnected,
    /// The thread's flag has been taken.
    Interrupted,
}

/// To send, or to receive.
struct Way<'a, T> {
    reason: WaitReason,
    end: &'a End<T>,
    /// Who waits for it.
    list: fn(&mut State<T>) -> &mut List,
}

/// A message beside its thread: to be sent, or about to be received.
type Slot<T> = UnsafeCell<MaybeUninit<T>>;

impl<T> Channel<T> {
    /// Sends `message`, or gives it back.
    #[inline]
    pub(super) fn send(&self, message: T, patience: Patience) -> Result<(), (T, Refusal)> {
        let message = ManuallyDrop::new(message);
        // SAFETY: there is a message, which is not used again if it was sent.
        match unsafe { self.push(&*message) } {
            Passed::Yes => Ok(()),
            why => self.send_slow(ManuallyDrop::into_inner(message), patience, why),
        }
    }

    /// # Safety
    /// There is a message, which is moved away from `message` if the answer is yes.
    #[inline]
    unsafe fn push(&self, message: *const T) -> Passed {
        // From the claim to the stamp (I9).
        let _no_preempt = NoPreempt::hold();
        // SAFETY: the caller's promise.
        unsafe { self.ends.push(message) }
    }

    #[cold]
    fn send_slow(&self, message: T, patience: Patience, why: Passed) -> Result<(), (T, Refusal)> {
        let slot: Slot<T> = UnsafeCell::new(MaybeUninit::new(message));
        let message = slot.with(|slot| slot.cast::<T>());
        if why == Passed::Shut || self.looks(patience) == 0 {
            // SAFETY: there is a message, which is not used again if it was sent.
            let step = self.attempt(|state, after| unsafe { state.send(message, after) });
            let refusal = match step {
                Step::Done => return Ok(()),
                Step::Disconnected => Some(Refusal::Disconnected),
                _ => matches!(patience, Patience::None).then_some(Refusal::Waits),
            };
            if let Some(refusal) = refusal {
                // SAFETY: the message was not sent.
                return Err((unsafe { message.read() }, refusal));
            }
        }
        let ended = self.operate(
            &slot,
            patience,
            Way { reason: WaitReason::Send, end: &self.ends.tail, list: |state| &mut state.senders },
            // SAFETY: there is a message, which is not used again if it was sent.
            || unsafe { self.push(message) },
            |state, mine, after, last| {
                // SAFETY: as above.
                let step = unsafe { state.send(message, after) };
                if step == Step::Waits && last {
                    // SAFETY: in no list; its frame lasts until it is out of this one.
                    unsafe { state.senders.link(mine) };
                    after.tell(&mut state.receive_watchers);
                }
                step
            },
        );
        // SAFETY: the message was not sent, and whoever had won the place is through with it.
        ended.map_err(|refusal| (slot.with(|slot| unsafe { slot.cast::<T>().read() }), refusal))
    }

    /// Receives a message.
    #[inline]
    pub(super) fn receive(&self, patience: Patience) -> Result<T, Refusal> {
        let mut message = MaybeUninit::<T>::uninit();
        // SAFETY: it may be written.
        match unsafe { self.pop(message.as_mut_ptr()) } {
            // SAFETY: a message has been moved there.
            Passed::Yes => Ok(unsafe { message.assume_init() }),
            why => self.receive_slow(patience, why),
        }
    }

    /// # Safety
    /// `into` may be written: a message is moved there if the answer is yes.
    #[inline]
    unsafe fn pop(&self, into: *mut T) -> Passed {
        // As in `push`.
        let _no_preempt = NoPreempt::hold();
        // SAFETY: the caller's promise.
        unsafe { self.ends.pop(into) }
    }

    #[cold]
    fn receive_slow(&self, patience: Patience, why: Passed) -> Result<T, Refusal> {
        let slot: Slot<T> = UnsafeCell::new(MaybeUninit::uninit());
        let into = slot.with_mut(|slot| slot.cast::<T>());
        if why == Passed::Shut || self.looks(patience) == 0 {
            // SAFETY: it may be written.
            match self.attempt(|state, after| unsafe { state.receive(into, None, after) }) {
                // SAFETY: a message has been moved there.
                Step::Done => return Ok(unsafe { into.read() }),
                Step::Disconnected => return Err(Refusal::Disconnected),
                Step::Waits if matches!(patience, Patience::None) => return Err(Refusal::Waits),
                _ => {}
            }
        }
        let ended = self.operate(
            &slot,
            patience,
            Way { reason: WaitReason::Receive, end: &self.ends.head, list: |state| &mut state.receivers },
            // SAFETY: it may be written.
            || unsafe { self.pop(into) },
            |state, mine, after, last| {
                // SAFETY: it may be written.
                let step = unsafe { state.receive(into, Some(mine), after) };
                if step == Step::Waits && last {
                    // SAFETY: in no list; its frame lasts until it is out of this one.
                    unsafe { state.receivers.link(mine) };
                    after.tell(&mut state.send_watchers);
                }
                step
            },
        );
        // SAFETY: a message has been moved there, by us or by who had won the place.
        ended.map(|()| slot.with(|slot| unsafe { slot.cast::<T>().read() }))
    }

    /// Does `step` once, with all that it needs: a thread that need not wait leaves no trace of itself, and may be one that could not.
    fn attempt(&self, step: impl Fn(&mut Locked<'_, T>, &mut After) -> Step) -> Step {
        loop {
            let mut after = After::nothing();
            let step = self.with(|state| step(state, &mut after));
            after.finish();
            match step {
                Step::NeedsBlock | Step::NeedsCell => self.supply(step),
                step => return step,
            }
        }
    }

    /// How often the running thread tries again before it makes known that it waits.
    fn looks(&self, patience: Patience) -> u32 {
        if self.capacity == Some(0) || matches!(patience, Patience::None) || !current().is_kernel() {
            0
        } else if self.has_few_places() && cpus() > 1 {
            LOOKS_AT_FEW
        } else {
            LOOKS
        }
    }

    fn has_few_places(&self) -> bool {
        self.capacity.is_some_and(|capacity| capacity < MANY)
    }

    /// Does `step`, again and again, as long as patience lasts. It is told whether to queue the place if it would have to wait. Before it is
    /// done again, `pass` tries without the lock.
    #[inline]
    fn operate(
        &self,
        slot: &Slot<T>,
        patience: Patience,
        way: Way<'_, T>,
        pass: impl Fn() -> Passed,
        step: impl Fn(&mut Locked<'_, T>, &Place, &mut After, bool) -> Step,
    ) -> Result<(), Refusal> {
        let (deadline, interruptible, patient) = match patience {
            Patience::None => (None, false, false),
            Patience::Until { deadline, interruptible } => (deadline, interruptible, true),
        };
        let may_be_long = !self.has_few_places() && cpus() > 1;
        let (left, gain) = (self.looks(patience), &way.end.gain);
        let mut looks = Looks { left, gap: 1, may_be_long, long: false, gain };
        loop {
            while looks.left > 0 {
                match pass() {
                    Passed::Yes => {
                        looks.end(way.end.left());
                        return Ok(());
                    }
                    Passed::Shut => break,
                    Passed::Limit => {}
                }
                looks.pause();
            }
            let waits = patient && looks.left == 0 && !time::has_passed(deadline);
            let sleeper = Sleeper::new(waits && deadline.is_none());
            let place = Place::alone(&sleeper, slot);
            let mut how = How { reason: way.reason, deadline, interruptible, spin: true };
            let mut after = After::nothing();
            // From its being linked to its waking up (I9).
            let no_preempt = NoPreempt::hold();
            match self.with_held(&no_preempt, |state| step(state, &place, &mut after, waits)) {
                Step::Waits if waits => {}
                // A selected sender has it, and is bound to settle it soon.
                Step::Won => (how.deadline, how.interruptible) = (None, false),
                step => {
                    drop(no_preempt);
                    after.finish();
                    match step {
                        Step::Done => return Ok(()),
                        Step::Disconnected => return Err(Refusal::Disconnected),
                        Step::NeedsBlock | Step::NeedsCell => self.supply(step),
                        _ if looks.left > 0 => looks.pause(),
                        _ => return Err(Refusal::Waits),
                    }
                    continue;
                }
            }
            after.finish();
            let at = std::ptr::from_ref(self).addr();
            let slept =
                sleeper.sleep(&no_preempt, &how, at, || self.with(|state| (way.list)(state).unlink(&place)));
            drop(no_preempt);
            match slept {
                Slept::Granted(SERVED) => return Ok(()),
                Slept::Granted(AGAIN) => {}
                Slept::Granted(_) => return Err(Refusal::Disconnected),
                Slept::Expired => return Err(Refusal::Waits),
                Slept::Interrupted => {
                    let _ = interrupt::reported();
                    return Err(Refusal::Interrupted);
                }
            }
        }
    }
}
