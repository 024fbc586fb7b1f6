//! Operations in two steps, for threads that select.
//!
//! In the first step, or from whoever settles its sleep, a thread gets a [`Deal`]: a message, in a cell; or room, which counts as
//! filled from then on (`reserved`); or a receiver that waits, and that goes on waiting. In the second step the message
//! is moved. In between the thread runs, and may take its time; and it may never come to the second, because it panics. Then it
//! gives back what it got.
//!
//! Two that select at one channel without a buffer: the one that comes second has the other's seat before it. If it sends, the
//! other is its deal. If it receives, it becomes the other's deal, and sleeps until that one, which it wakes, has made the
//! message. So it is always the receiver that sleeps.

use std::mem::MaybeUninit;

use super::core::{AGAIN, After, Locked, SERVED, Step};
use super::waiters::{Deal, Place, Role};

impl<T> Locked<'_, T> {
    /// Whether a send would not wait; [`Deal::Open`]: it would.
    pub(super) fn look_at_send(&mut self) -> Deal {
        if self.no_receivers {
            Deal::Disconnected
        } else if self.has_free_room() || self.receivers.has_some() {
            Deal::Ready
        } else {
            Deal::Open
        }
    }

    /// Whether a receive would not wait; [`Deal::Open`]: it would.
    pub(super) fn look_at_receive(&mut self) -> Deal {
        if self.has_message() || self.senders.has_some() {
            Deal::Ready
        } else if self.no_senders {
            Deal::Disconnected
        } else {
            Deal::Open
        }
    }

    /// The first step of a send.
    pub(super) fn begin_send(&mut self) -> Deal {
        if self.no_receivers {
            Deal::Disconnected
        } else if self.has_free_room() {
            self.reserved += 1;
            Deal::Room
        } else {
            self.receivers.pop().map_or(Deal::Open, Deal::Partner)
        }
    }

    /// The second: the message at `message` is moved away if it is [`Step::Done`].
    ///
    /// # Safety
    /// There is one. `deal` is of `begin_send`, or was left by who settled the sender, and not used.
    pub(super) unsafe fn finish_send(&mut self, deal: Deal, message: *const T, after: &mut After) -> Step {
        match deal {
            Deal::Partner(_) if self.cells.is_empty() => Step::NeedsCell,
            Deal::Partner(receiver) => {
                // SAFETY: it has been won; there is a cell; the caller's promise.
                unsafe { self.deliver(receiver, message, after) };
                Step::Done
            }
            Deal::Room => {
                self.reserved -= 1;
                // SAFETY: the caller's promise.
                let mut step = unsafe { self.send(message, after) };
                if step == Step::Waits {
                    // Messages that were given back are too many; the room was promised.
                    step = if self.has_slot() {
                        // SAFETY: there is a slot; the caller's promise, and it has not been moved.
                        unsafe { self.push(message) };
                        after.tell(&mut self.receive_watchers);
                        Step::Done
                    } else {
                        Step::NeedsBlock
                    };
                }
                if matches!(step, Step::NeedsBlock | Step::NeedsCell) {
                    self.reserved += 1;
                }
                step
            }
            _ => Step::Disconnected,
        }
    }

    /// The first step of a receive. `mine`: a place of the caller's, in no list, that a sender may win.
    pub(super) fn begin_receive(&mut self, mine: &Place, after: &mut After) -> Result<Deal, Step> {
        if self.cells.is_empty() {
            return Err(Step::NeedsCell);
        }
        let mut message = MaybeUninit::<T>::uninit();
        // SAFETY: it may be written.
        match unsafe { self.receive(message.as_mut_ptr(), Some(mine), after) } {
            // SAFETY: there is a cell, and a message has been moved to `message`.
            Step::Done => Ok(Deal::Message(unsafe { self.cells.put(message.as_ptr()) })),
            Step::Disconnected => Ok(Deal::Disconnected),
            Step::Waits => Ok(Deal::Open),
            step => Err(step),
        }
    }

    /// Gives back what a thread got and will not use; or says what is needed first.
    pub(super) fn give_back(&mut self, deal: Deal, after: &mut After) -> Step {
        match deal {
            Deal::Message(cell) => {
                if !self.has_slot() {
                    return Step::NeedsBlock;
                }
                if let Some(receiver) = self.receivers.pop() {
                    // SAFETY: it has been won.
                    let got = match unsafe { &*receiver }.role() {
                        Role::Alone(slot) => {
                            // SAFETY: the deal's cell, used once; and the slot of a thread that waits for a message.
                            unsafe { self.cells.take(cell, slot.cast()) };
                            Deal::Open
                        }
                        Role::OneOf { .. } => Deal::Message(cell),
                    };
                    // SAFETY: won, and settled once.
                    after.grant = Some(unsafe { Place::settle(receiver, SERVED, got) });
                    return Step::Done;
                }
                let mut message = MaybeUninit::<T>::uninit();
                // SAFETY: the deal's cell, used once.
                unsafe { self.cells.take(cell, message.as_mut_ptr()) };
                // SAFETY: there is a slot, and a message in `message`.
                unsafe { self.push(message.as_ptr()) };
                after.tell(&mut self.receive_watchers);
            }
            Deal::Room => {
                if !self.senders.is_empty() && !self.has_slot() {
                    return Step::NeedsBlock;
                }
                self.reserved -= 1;
                self.room_is_free(after);
            }
            Deal::Partner(receiver) => {
                // SAFETY: won by us, and settled once.
                after.grant = Some(unsafe { Place::settle(receiver, AGAIN, Deal::Open) });
            }
            Deal::Open | Deal::Disconnected | Deal::Ready | Deal::Struck(_) => {}
        }
        Step::Done
    }
}
