//! Operations in two steps, for threads that select.
//!
//! In the first step, or from the thread that settles its sleep, a thread gets a [`Deal`]. It is one of
//! these:
//!
//! - a message, in a cell
//! - room, which counts as filled from then on (`reserved`)
//! - a receiver that waits, and that goes on waiting
//!
//! In the second step the message is moved. In between the thread runs, and may take its time. If it
//! panics, it never comes to the second step. It then gives back what it got.
//!
//! Two threads may select at one channel without a buffer. The second to come finds the other's entry. If
//! it sends, the other is its deal. If it receives, it becomes the other's deal. It then wakes the
//! other, and sleeps until that one has made the message. So it is always the receiver that sleeps.

use std::mem::MaybeUninit;

use super::core::{AGAIN, After, Locked, Step};
use super::waiters::{Deal, Entry};

impl<T> Locked<'_, T> {
    /// Does the second step of a send. If the outcome is [`Step::Done`], the message at `message` has
    /// been moved away.
    ///
    /// # Safety
    /// There is a message. `deal` is from `begin`, or was left by the thread that settled the
    /// sender; it has not been used.
    pub(super) unsafe fn finish_send(&mut self, deal: Deal, message: *const T, after: &mut After) -> Step {
        match deal {
            Deal::Partner(_) if self.cells.is_empty() => Step::NeedsCell,
            Deal::Partner(receiver) => {
                // SAFETY: we have won it; there is a cell; the caller's promise.
                unsafe { self.deliver(receiver, message, after) };
                Step::Done
            }
            Deal::Room => {
                // SAFETY: the caller's promise.
                let step = unsafe { self.send(message, true, after) };
                if !matches!(step, Step::NeedsBlock | Step::NeedsCell) {
                    self.reserved -= 1;
                }
                step
            }
            _ => Step::Disconnected,
        }
    }

    /// Gives back the message at `message`, which was moved to a receiver that will not use it. If the
    /// outcome is [`Step::Done`], it has been moved away.
    ///
    /// # Safety
    /// There is a message.
    pub(super) unsafe fn give_back_message(&mut self, message: *const T, after: &mut After) -> Step {
        if self.cells.is_empty() {
            return Step::NeedsCell;
        }
        // SAFETY: there is a cell; the caller's promise.
        let cell = unsafe { self.cells.put(message) };
        self.give_back(Deal::Message(cell), after)
    }

    /// Gives back what a thread got and will not use. Otherwise returns what is needed first.
    pub(super) fn give_back(&mut self, deal: Deal, after: &mut After) -> Step {
        match deal {
            Deal::Message(cell) => {
                if let Some(receiver) = self.receivers.waiting.pop() {
                    let mut message = MaybeUninit::<T>::uninit();
                    // SAFETY: the deal's cell, used once.
                    unsafe { self.cells.take(cell, message.as_mut_ptr()) };
                    // SAFETY: we have won it; there is a message in `message`, and the cell that it was in.
                    unsafe { self.deliver(receiver, message.as_ptr(), after) };
                    return Step::Done;
                }
                // SAFETY: the deal's cell, used once.
                unsafe { self.put_returned(cell) };
                after.tell(&mut self.receivers.watching);
            }
            Deal::Room => {
                if !self.senders.waiting.is_empty() && !self.has_slot() {
                    return Step::NeedsBlock;
                }
                self.reserved -= 1;
                self.room_is_free(after);
            }
            Deal::Partner(receiver) => {
                // SAFETY: we have won it, and settle it once.
                after.grant = Some(unsafe { Entry::settle(receiver, AGAIN, Deal::Open) });
            }
            Deal::Open | Deal::Disconnected | Deal::Ready | Deal::Struck(_) => {}
        }
        Step::Done
    }
}
