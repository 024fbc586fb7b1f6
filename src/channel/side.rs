//! What differs between the two sides of a channel, and so between a send and a receive. All else is written
//! once, for either side.

use std::mem::MaybeUninit;

use super::buffer::Rest;
use super::core::{After, ChannelState, Locked, Step};
use super::head_tail::{End, Ends, Passed};
use super::waiters::{Deal, Entry, Party};
use crate::park::reason::WaitReason;

pub(super) trait Side {
    /// Its place in a pair.
    const INDEX: usize;
    const REASON: WaitReason;

    /// Returns the end of the queue at which the side claims tickets.
    fn end<T>(ends: &Ends<T>) -> &End<T>;

    /// Returns the threads of this side and those of the other.
    fn parties<T>(state: &mut ChannelState<T>) -> (&mut Party, &mut Party);

    /// Moves the message at `frame` into the channel, or one from there to `frame`, without the lock. If that
    /// needs the lock, the outcome says so.
    ///
    /// # Safety
    /// A send: there is a message. A receive: `frame` may be written. The caller is not preempted (I9).
    unsafe fn pass<T>(ends: &Ends<T>, frame: *mut T) -> Passed;

    /// Does the same with the lock held. `mine` is an entry of the caller's, in no list, that a sender may
    /// win.
    ///
    /// # Safety
    /// As for [`pass`](Self::pass).
    unsafe fn step<T>(
        state: &mut Locked<'_, T>,
        frame: *mut T,
        mine: Option<&Entry>,
        after: &mut After,
    ) -> Step;

    /// Returns [`Deal::Open`] if the operation would wait, otherwise [`Deal::Ready`] or
    /// [`Deal::Disconnected`].
    fn look<T>(state: &mut Locked<'_, T>) -> Deal;

    /// Does the first step of a selected operation (`reservation.rs`). `mine` is as in [`step`](Self::step).
    fn begin<T>(state: &mut Locked<'_, T>, mine: &Entry, after: &mut After) -> Result<Deal, Step>;

    /// Lets no message in that no thread will receive, after the side has gone. If the caller `drops` those
    /// that are there, takes them out. If the last receiver does not, the last sender does.
    fn rest<T>(state: &mut Locked<'_, T>, drops: bool) -> Option<Rest<T>>;
}

/// The side of senders.
pub(super) enum Sends {}

/// The side of receivers.
pub(super) enum Receives {}

impl Side for Sends {
    const INDEX: usize = 0;
    const REASON: WaitReason = WaitReason::Send;

    fn end<T>(ends: &Ends<T>) -> &End<T> {
        &ends.tail
    }

    fn parties<T>(state: &mut ChannelState<T>) -> (&mut Party, &mut Party) {
        (&mut state.senders, &mut state.receivers)
    }

    #[inline]
    unsafe fn pass<T>(ends: &Ends<T>, frame: *mut T) -> Passed {
        // SAFETY: the caller's promise.
        unsafe { ends.push(frame) }
    }

    #[inline]
    unsafe fn step<T>(
        state: &mut Locked<'_, T>,
        frame: *mut T,
        _mine: Option<&Entry>,
        after: &mut After,
    ) -> Step {
        // SAFETY: the caller's promise.
        unsafe { state.send(frame, false, after) }
    }

    fn look<T>(state: &mut Locked<'_, T>) -> Deal {
        if state.receivers.gone {
            Deal::Disconnected
        } else if state.has_free_room() || state.receivers.waiting.has_some() {
            Deal::Ready
        } else {
            Deal::Open
        }
    }

    fn begin<T>(state: &mut Locked<'_, T>, _mine: &Entry, _after: &mut After) -> Result<Deal, Step> {
        Ok(if state.receivers.gone {
            Deal::Disconnected
        } else if state.has_free_room() {
            state.reserved += 1;
            Deal::Room
        } else {
            state.receivers.waiting.pop().map_or(Deal::Open, Deal::Partner)
        })
    }

    fn rest<T>(state: &mut Locked<'_, T>, drops: bool) -> Option<Rest<T>> {
        (drops && state.receivers.gone).then(|| state.take_rest())
    }
}

impl Side for Receives {
    const INDEX: usize = 1;
    const REASON: WaitReason = WaitReason::Receive;

    fn end<T>(ends: &Ends<T>) -> &End<T> {
        &ends.head
    }

    fn parties<T>(state: &mut ChannelState<T>) -> (&mut Party, &mut Party) {
        (&mut state.receivers, &mut state.senders)
    }

    #[inline]
    unsafe fn pass<T>(ends: &Ends<T>, frame: *mut T) -> Passed {
        // SAFETY: the caller's promise.
        unsafe { ends.pop(frame) }
    }

    #[inline]
    unsafe fn step<T>(
        state: &mut Locked<'_, T>,
        frame: *mut T,
        mine: Option<&Entry>,
        after: &mut After,
    ) -> Step {
        // SAFETY: the caller's promise.
        unsafe { state.receive(frame, mine, after) }
    }

    fn look<T>(state: &mut Locked<'_, T>) -> Deal {
        if !state.returned.is_empty() || state.has_message() || state.senders.waiting.has_some() {
            Deal::Ready
        } else if state.senders.gone {
            Deal::Disconnected
        } else {
            Deal::Open
        }
    }

    fn begin<T>(state: &mut Locked<'_, T>, mine: &Entry, after: &mut After) -> Result<Deal, Step> {
        if state.cells.is_empty() {
            return Err(Step::NeedsCell);
        }
        let mut message = MaybeUninit::<T>::uninit();
        // SAFETY: it may be written.
        match unsafe { state.receive(message.as_mut_ptr(), Some(mine), after) } {
            // SAFETY: there is a cell, and a message has been moved to `message`.
            Step::Done => Ok(Deal::Message(unsafe { state.cells.put(message.as_ptr()) })),
            Step::Disconnected => Ok(Deal::Disconnected),
            Step::Waits => Ok(Deal::Open),
            step => Err(step),
        }
    }

    fn rest<T>(state: &mut Locked<'_, T>, drops: bool) -> Option<Rest<T>> {
        state.ends.tail.shut();
        drops.then(|| state.take_rest())
    }
}
