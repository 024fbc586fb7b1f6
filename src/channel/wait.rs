//! Sending and receiving, with the waits.
//!
//! *Looks.* A kernel thread that would have to wait first tries a few more times, without the lock and
//! without making its wait known. In between it yields its CPU. If there are more threads than CPUs, the
//! other side then runs until the buffer is empty, or full. No thread has entered the kernel to sleep.
//! Without this, four senders and a buffer of 64 had a sleep and a wake-up for each third message. With a
//! buffer of one and four threads on each side, it was each second message. The reason is that messages were
//! promised to threads that did not run. Without a buffer, two threads that only look do not meet. A green
//! thread's sleep is cheaper than a look.
//!
//! *Long pauses.* If the other side is at work on another CPU, each look takes its cache line away. A
//! look that comes soon finds one message, or room for one. Both sides then go on in step, and each
//! message costs as much as two lines that travel. So the first look comes late, and finds many messages.
//! It finds few if the other side waits for an answer, or does not run. Then the looks come early for
//! some waits ([`Gain`]). If there is hardly any buffer, there are never many to find.

use std::mem::{self, ManuallyDrop, MaybeUninit};

use super::core::{AGAIN, After, Channel, Locked, SERVED, Step};
use super::head_tail::{Gain, Passed};
use super::side::{Receives, Sends, Side};
use super::waiters::Entry;
use crate::park::current::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::sleeper::{How, Sleeper, Slept};
use crate::park::wait::{Wait, WaitError};
use crate::shim::{FEW_LOOKS, UnsafeCell, cpus, spin_hint, yield_cpu};
use crate::time;

/// Looks before a kernel thread makes known that it waits. Before each of the last [`YIELDS`] it yields
/// its CPU. Before the others it pauses, twice as long each time: 2, 4, ... Range: [`YIELDS`] to 10. If the
/// other side waits for this CPU, more pauses before the first yield are for nothing. With 126 of them, four
/// senders and a buffer of 64 took 170 ns a message; with 6, they take 60.
const LOOKS: u32 = if FEW_LOOKS > 1 { 6 } else { 0 };
/// The same at a channel of little capacity: 30 pauses. There the other side, if it runs, is done with its
/// message at once. Measured in ns a message at a capacity of one, on two CPUs, by senders and receivers:
///
/// | looks | 1 and 1 | 4 and 1 | 4 and 4 |
/// |---|---|---|---|
/// | none | 3,000 | 1,810 | 2,370 |
/// | 8 | 460 | 710 | 750 |
/// | 10 | 1,630 | 1,190 | 750 |
const LOOKS_AT_FEW: u32 = if FEW_LOOKS > 1 { 8 } else { 0 };
/// The last looks, which come after a yield of the CPU.
const YIELDS: u32 = 4;

/// A long pause of 0.9 us, instead of the looks before the first yield. In that time the other side fills,
/// or empties, a buffer of 64. ns a message on two CPUs, by senders and receivers:
///
/// | pauses | capacity 64, 1 and 1 | capacity 64, 4 and 1 | capacity 64, 4 and 4 | unbounded, 1 and 1 |
/// |---|---|---|---|---|
/// | 2 and 4 | 145 | 100 | 108 | 100 |
/// | 16 | 107 | 111 | 105 | 83 |
/// | 32 | 77 | 76 | 76 | 57 |
/// | 128 | 49 | 67 | 60 | 41 |
/// | 512 | 104 | 155 | 127 | |
/// | 128, with prefetch (`segments.rs`) | | 50 | 48 | |
/// | 80, with prefetch | | 47 | 41 | |
const LONG: u32 = 80;
/// How many messages, or how much room, it must find to have paid. If the channel has less capacity, there
/// is no such pause.
const MANY: usize = 4;

/// The looks of a kernel thread before it makes known that it waits.
struct Looks<'a> {
    left: u32,
    /// Pauses before the next look: two to the power of this.
    gap: u32,
    /// `true` if the next pause may be a long one.
    may_be_long: bool,
    /// `true` if the last pause was a long one.
    long: bool,
    gain: &'a Gain,
}

impl Looks<'_> {
    /// Pauses before the next look.
    fn pause(&mut self) {
        if self.long {
            // The look after it found nothing.
            self.long = false;
            self.gain.doubt();
        }
        self.left -= 1;
        if self.left < YIELDS {
            yield_cpu();
        } else if mem::take(&mut self.may_be_long) && self.gain.count_wait() {
            self.long = true;
            self.left = YIELDS;
            (0..LONG).for_each(|_| spin_hint());
        } else {
            (0..1 << self.gap).for_each(|_| spin_hint());
            self.gap += 1;
        }
    }

    /// Notes that the last look has found a message or room, and so many besides.
    fn found(&self, besides: usize) {
        if self.long && besides < MANY {
            self.gain.doubt();
        }
    }
}

/// A wait without an end. As a constant, it is not made anew on the way to each message.
pub(super) const ENDLESS: Option<Wait> = Some(Wait::forever());

/// The reason why an operation was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Disconnected,
    /// Its wait has ended. If it may not wait at all, it is timed out. If it is interrupted, the thread's
    /// flag is still set.
    Ended(WaitError),
}

impl From<WaitError> for Refusal {
    fn from(why: WaitError) -> Self {
        Self::Ended(why)
    }
}

impl<T> Channel<T> {
    /// Sends `message`, or returns it. Without a `wait`, does not wait at all.
    #[inline]
    pub(super) fn send(&self, message: T, wait: Option<Wait>) -> Result<(), (T, Refusal)> {
        let message = ManuallyDrop::new(message);
        // Held from the claim to the stamp (I9).
        let no_preempt = NoPreempt::hold();
        // SAFETY: there is a message, which is not used again if it was sent.
        let passed = unsafe { self.ends.push(&raw const *message) };
        drop(no_preempt);
        match passed {
            Passed::Yes => Ok(()),
            why => self.send_slow(ManuallyDrop::into_inner(message), wait, why),
        }
    }

    #[cold]
    fn send_slow(&self, message: T, wait: Option<Wait>, why: Passed) -> Result<(), (T, Refusal)> {
        let frame = UnsafeCell::new(MaybeUninit::new(message));
        // SAFETY: there is a message, which is not used again if it was sent.
        let sent = unsafe { self.operate::<Sends>(&frame, wait, why) };
        // SAFETY: the message was not sent, and if another thread had won the entry, it is through with
        // it.
        sent.map_err(|refusal| (frame.with(|frame| unsafe { frame.cast::<T>().read() }), refusal))
    }

    /// Receives a message. Without a `wait`, does not wait at all.
    #[inline]
    pub(super) fn receive(&self, wait: Option<Wait>) -> Result<T, Refusal> {
        let mut message = MaybeUninit::<T>::uninit();
        // Held from the claim to the stamp (I9).
        let no_preempt = NoPreempt::hold();
        // SAFETY: it may be written.
        let passed = unsafe { self.ends.pop(message.as_mut_ptr()) };
        drop(no_preempt);
        match passed {
            // SAFETY: a message has been moved there.
            Passed::Yes => Ok(unsafe { message.assume_init() }),
            why => self.receive_slow(wait, why),
        }
    }

    #[cold]
    fn receive_slow(&self, wait: Option<Wait>, why: Passed) -> Result<T, Refusal> {
        let frame = UnsafeCell::new(MaybeUninit::uninit());
        // SAFETY: it may be written.
        unsafe { self.operate::<Receives>(&frame, wait, why) }?;
        // SAFETY: a message has been moved there, by us or by the thread that had won the entry.
        Ok(frame.with(|frame| unsafe { frame.cast::<T>().read() }))
    }

    /// Moves a message without the lock, if that is possible, in either direction.
    ///
    /// # Safety
    /// A send: there is a message, which is moved away from `frame` if the answer is yes. A receive: `frame`
    /// may be written, and a message is moved there if the answer is yes.
    #[inline]
    pub(super) unsafe fn pass<S: Side>(&self, frame: *mut T) -> Passed {
        // Held from the claim to the stamp (I9).
        let _no_preempt = NoPreempt::hold();
        // SAFETY: the caller's promise.
        unsafe { S::pass(&self.ends, frame) }
    }

    /// Does `step` once, with all that it needs. If the thread need not wait, it leaves no trace of
    /// itself. So it may be one that must not wait.
    pub(super) fn attempt(&self, step: impl Fn(&mut Locked<'_, T>, &mut After) -> Step) -> Step {
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

    /// Returns how often the running thread tries again before it makes known that it waits. A thread
    /// without time does not: each of these yields could cost it a time slice of another process.
    fn looks(&self, wait: Option<Wait>) -> u32 {
        let has_time = wait.is_some_and(|wait| !time::has_passed(wait.deadline));
        if self.capacity == Some(0) || !has_time || !current().is_kernel() {
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

    /// Returns `true` if a long pause may find many.
    fn may_pause_long(&self) -> bool {
        !self.has_few_places() && cpus() > 1
    }

    /// Sends the message in `frame`, or receives one to there, as long as `wait` allows. An attempt without
    /// the lock has failed, and `why` says why.
    ///
    /// # Safety
    /// As for [`pass`](Self::pass).
    #[inline]
    unsafe fn operate<S: Side>(
        &self,
        frame: &UnsafeCell<MaybeUninit<T>>,
        wait: Option<Wait>,
        why: Passed,
    ) -> Result<(), Refusal> {
        let (at, end) = (frame.with_mut(|frame| frame.cast::<T>()), S::end(&self.ends));
        if why == Passed::Shut || self.looks(wait) == 0 {
            // SAFETY: the caller's promise.
            match self.attempt(|state, after| unsafe { S::step(state, at, None, after) }) {
                Step::Done => return Ok(()),
                Step::Disconnected => return Err(Refusal::Disconnected),
                Step::Waits if wait.is_none() => return Err(WaitError::TimedOut.into()),
                _ => {}
            }
        }
        let (left, gain) = (self.looks(wait), &end.gain);
        let (wait, patient) = (wait.unwrap_or_default(), wait.is_some());
        let mut looks = Looks { left, gap: 1, may_be_long: self.may_pause_long(), long: false, gain };
        loop {
            while looks.left > 0 {
                // SAFETY: the caller's promise.
                match unsafe { self.pass::<S>(at) } {
                    Passed::Yes => {
                        looks.found(end.left());
                        return Ok(());
                    }
                    Passed::Shut => break,
                    Passed::Limit => {}
                }
                looks.pause();
            }
            let may_wait = patient && looks.left == 0 && !time::has_passed(wait.deadline);
            let waits = may_wait && !wait.is_refused();
            let sleeper = Sleeper::new();
            let entry = Entry::alone(&sleeper, frame);
            let mut how = How { reason: S::REASON, wait, spin: true };
            let mut after = After::nothing();
            // Held from the moment when the entry is linked until the thread wakes up (I9).
            let no_preempt = NoPreempt::hold();
            let step = self.with_held(&no_preempt, |state| {
                // SAFETY: the caller's promise.
                let step = unsafe { S::step(state, at, Some(&entry), &mut after) };
                if step == Step::Waits && waits {
                    // SAFETY: in no list; its frame lasts until it is out of this one.
                    unsafe { state.link::<S>(&entry, &mut after) };
                }
                step
            });
            match step {
                Step::Waits if waits => {}
                // The operation is a receive. A selected sender has won the entry, and is bound to settle it
                // soon.
                Step::Won => how.wait = Wait::forever(),
                step => {
                    drop(no_preempt);
                    after.finish();
                    match step {
                        Step::Done => return Ok(()),
                        Step::Disconnected => return Err(Refusal::Disconnected),
                        Step::NeedsBlock | Step::NeedsCell => self.supply(step),
                        _ if looks.left > 0 => looks.pause(),
                        // Once refused, it stays so: no other thread is here that could change that.
                        _ if patient && wait.is_refused() => Wait::refuse(),
                        _ => return Err(WaitError::TimedOut.into()),
                    }
                    continue;
                }
            }
            after.finish();
            let withdraw = || self.with(|state| S::parties(state).0.waiting.unlink(&entry));
            let slept = sleeper.sleep(&no_preempt, &how, std::ptr::from_ref(self).addr(), withdraw);
            drop(no_preempt);
            match slept {
                Slept::Granted(SERVED) => return Ok(()),
                Slept::Granted(AGAIN) => {}
                Slept::Granted(_) => return Err(Refusal::Disconnected),
                Slept::Ended(why) => return Err(why.into()),
            }
        }
    }
}
