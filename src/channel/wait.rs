//! Sending and receiving, with the waits.
//!
//! *Looks.* A kernel thread that would have to wait first tries a few more times, without the lock and
//! without making its wait known. In between it yields its CPU. If there are more threads than CPUs, the
//! other side then runs until the buffer is empty, or full. No thread has entered the kernel to sleep.
//! Without this, four senders and a buffer of 64 had a sleep and a wake-up for each third message. With a
//! buffer of one and four threads on each side it was each second, because a message was promised to a
//! thread that did not run. Without a buffer, two threads that only look do not meet. A green thread's
//! sleep is cheaper than a look.
//! *Long pauses.* If the other side is at work on another CPU, each look takes its cache line away. A
//! look that comes soon finds one message, or room for one. Both sides then go on in step, and each
//! message costs as much as two lines that travel. So the first look comes late, and finds many messages.
//! It finds few if the other side waits for an answer, or does not run. Then the looks come early for
//! some waits ([`Gain`]). If there is hardly any buffer, there are never many to find.

use std::mem::{self, ManuallyDrop, MaybeUninit};

use super::core::{AGAIN, After, Channel, ChannelState, Locked, SERVED, Step};
use super::head_tail::{End, Gain, Passed};
use super::waiters::{Entry, List};
use crate::park::current::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::sleeper::{How, Sleeper, Slept};
use crate::park::wait::{Wait, WaitError};
use crate::shim::{FEW_LOOKS, UnsafeCell, cpus, spin_hint, yield_cpu};
use crate::time;

/// Looks before a kernel thread makes known that it waits. Before each of the last [`YIELDS`] it yields
/// its CPU. Range: [`YIELDS`] to 10. If the other side waits for this CPU, more pauses before the first
/// yield are for nothing. With 126 of them, four senders and a buffer of 64 took 170 ns a message; with 6,
/// they take 60.
const LOOKS: u32 = if FEW_LOOKS > 1 { 6 } else { 0 };
/// The same at a channel of little capacity: 30 pauses. There the other side, if it runs, is done with its
/// message at once. ns a message at a capacity of one, on two CPUs, by senders and receivers:
///
/// | looks | 1 and 1 | 4 and 1 | 4 and 4 |
/// |---|---|---|---|
/// | none | 3,000 | 1,810 | 2,370 |
/// | 8 | 460 | 710 | 750 |
/// | 10 | 1,630 | 1,190 | 750 |
const LOOKS_AT_FEW: u32 = if FEW_LOOKS > 1 { 8 } else { 0 };
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

    /// Ends the looks: the last one has found something, and so many besides.
    fn end(&self, besides: usize) {
        if self.long && besides < MANY {
            self.gain.is_doubted();
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

/// The direction of an operation: to send, or to receive.
struct Way<'a, T> {
    reason: WaitReason,
    end: &'a End<T>,
    /// The threads that wait for this.
    list: fn(&mut ChannelState<T>) -> &mut List,
}

/// A message in its thread's frame: to be sent, or about to be received.
type FrameMessage<T> = UnsafeCell<MaybeUninit<T>>;

impl<T> Channel<T> {
    /// Sends `message`, or returns it. Without a `wait`, does not wait at all.
    #[inline]
    pub(super) fn send(&self, message: T, wait: Option<Wait>) -> Result<(), (T, Refusal)> {
        let message = ManuallyDrop::new(message);
        // SAFETY: there is a message, which is not used again if it was sent.
        match unsafe { self.push(&*message) } {
            Passed::Yes => Ok(()),
            why => self.send_slow(ManuallyDrop::into_inner(message), wait, why),
        }
    }

    /// Sends the message at `message` without the lock, if that is possible.
    ///
    /// # Safety
    /// There is a message, which is moved away from `message` if the answer is yes.
    #[inline]
    unsafe fn push(&self, message: *const T) -> Passed {
        // Held from the claim to the stamp (I9).
        let _no_preempt = NoPreempt::hold();
        // SAFETY: the caller's promise.
        unsafe { self.ends.push(message) }
    }

    #[cold]
    fn send_slow(&self, message: T, wait: Option<Wait>, why: Passed) -> Result<(), (T, Refusal)> {
        let frame: FrameMessage<T> = UnsafeCell::new(MaybeUninit::new(message));
        let message = frame.with(|frame| frame.cast::<T>());
        if why == Passed::Shut || self.looks(wait) == 0 {
            // SAFETY: there is a message, which is not used again if it was sent.
            let step = self.attempt(|state, after| unsafe { state.send(message, after) });
            let refusal = match step {
                Step::Done => return Ok(()),
                Step::Disconnected => Some(Refusal::Disconnected),
                _ => wait.is_none().then_some(WaitError::TimedOut.into()),
            };
            if let Some(refusal) = refusal {
                // SAFETY: the message was not sent.
                return Err((unsafe { message.read() }, refusal));
            }
        }
        let ended = self.operate(
            &frame,
            wait,
            Way { reason: WaitReason::Send, end: &self.ends.tail, list: |state| &mut state.senders },
            // SAFETY: there is a message, which is not used again if it was sent.
            || unsafe { self.push(message) },
            |state, mine, after, last| {
                // SAFETY: there is a message, which is not used again if it was sent.
                let step = unsafe { state.send(message, after) };
                if step == Step::Waits && last {
                    // SAFETY: in no list; its frame lasts until it is out of this one.
                    unsafe { state.senders.link(mine) };
                    after.tell(&mut state.receive_watchers);
                }
                step
            },
        );
        // SAFETY: the message was not sent, and if another thread had won the entry, it is through with
        // it.
        ended.map_err(|refusal| (frame.with(|frame| unsafe { frame.cast::<T>().read() }), refusal))
    }

    /// Receives a message. Without a `wait`, does not wait at all.
    #[inline]
    pub(super) fn receive(&self, wait: Option<Wait>) -> Result<T, Refusal> {
        let mut message = MaybeUninit::<T>::uninit();
        // SAFETY: it may be written.
        match unsafe { self.pop(message.as_mut_ptr()) } {
            // SAFETY: a message has been moved there.
            Passed::Yes => Ok(unsafe { message.assume_init() }),
            why => self.receive_slow(wait, why),
        }
    }

    /// Receives a message to `into` without the lock, if that is possible.
    ///
    /// # Safety
    /// `into` may be written: a message is moved there if the answer is yes.
    #[inline]
    unsafe fn pop(&self, into: *mut T) -> Passed {
        // Held from the claim to the stamp (I9).
        let _no_preempt = NoPreempt::hold();
        // SAFETY: the caller's promise.
        unsafe { self.ends.pop(into) }
    }

    #[cold]
    fn receive_slow(&self, wait: Option<Wait>, why: Passed) -> Result<T, Refusal> {
        let frame: FrameMessage<T> = UnsafeCell::new(MaybeUninit::uninit());
        let into = frame.with_mut(|frame| frame.cast::<T>());
        if why == Passed::Shut || self.looks(wait) == 0 {
            // SAFETY: it may be written.
            match self.attempt(|state, after| unsafe { state.receive(into, None, after) }) {
                // SAFETY: a message has been moved there.
                Step::Done => return Ok(unsafe { into.read() }),
                Step::Disconnected => return Err(Refusal::Disconnected),
                Step::Waits if wait.is_none() => return Err(WaitError::TimedOut.into()),
                _ => {}
            }
        }
        let ended = self.operate(
            &frame,
            wait,
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
        // SAFETY: a message has been moved there, by us or by the thread that had won the entry.
        ended.map(|()| frame.with(|frame| unsafe { frame.cast::<T>().read() }))
    }

    /// Does `step` once, with all that it needs. If the thread need not wait, it leaves no trace of
    /// itself. So it may be one that must not wait.
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

    /// Does `step` again and again, as long as `wait` allows. `step` is told if it is to queue the
    /// entry when it would have to wait. Before `step` is repeated, `pass` tries without the lock.
    #[inline]
    fn operate(
        &self,
        frame: &FrameMessage<T>,
        wait: Option<Wait>,
        way: Way<'_, T>,
        pass: impl Fn() -> Passed,
        step: impl Fn(&mut Locked<'_, T>, &Entry, &mut After, bool) -> Step,
    ) -> Result<(), Refusal> {
        let (left, gain) = (self.looks(wait), &way.end.gain);
        let (wait, patient) = (wait.unwrap_or_default(), wait.is_some());
        let mut looks = Looks { left, gap: 1, may_be_long: self.may_pause_long(), long: false, gain };
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
            let waits = patient && looks.left == 0 && !time::has_passed(wait.deadline);
            let sleeper = Sleeper::new(waits && wait.deadline.is_none());
            let entry = Entry::alone(&sleeper, frame);
            let mut how = How { reason: way.reason, wait, spin: true };
            let mut after = After::nothing();
            // Held from the moment when the entry is linked until the thread wakes up (I9).
            let no_preempt = NoPreempt::hold();
            match self.with_held(&no_preempt, |state| step(state, &entry, &mut after, waits)) {
                Step::Waits if waits => {}
                // A selected sender has won the entry, and is bound to settle it soon.
                Step::Won => how.wait = Wait::forever(),
                step => {
                    drop(no_preempt);
                    after.finish();
                    match step {
                        Step::Done => return Ok(()),
                        Step::Disconnected => return Err(Refusal::Disconnected),
                        Step::NeedsBlock | Step::NeedsCell => self.supply(step),
                        _ if looks.left > 0 => looks.pause(),
                        _ => return Err(WaitError::TimedOut.into()),
                    }
                    continue;
                }
            }
            after.finish();
            let at = std::ptr::from_ref(self).addr();
            let slept =
                sleeper.sleep(&no_preempt, &how, at, || self.with(|state| (way.list)(state).unlink(&entry)));
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
