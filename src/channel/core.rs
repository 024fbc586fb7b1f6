//! What a channel is, and how messages get from one thread to another.
//!
//! **Problem.** Any number of threads send and receive, of all kinds; some wait for several channels at once. No message may be lost
//! or doubled, nobody may sleep on while there is something for him, and a hand-off should cost next to nothing.
//!
//! **Rejected.** One lock for all (as it was): uncontended it is as good, but two CPUs fight for it: 65 to 150 ns a message. A ring without
//! locks whose waiters are woken to look for themselves: others may have been faster, and they sleep again; where a sender waits for room, a
//! message passes the ring although a receiver stands there; and threads that select must take themselves back. The wait queue under an
//! address: another lock for each wait and each grant, where the channel's own is held anyway.
//!
//! **Protocol.** As long as nobody waits, messages pass through two ends that need no lock (`ends.rs`, `blocks.rs`). There is a lock, and under it two
//! lists of places where threads wait (`waiters.rs`). Who holds it may shut an end, and then is alone there; who waits
//! leaves an end shut, so that what it waits for can only be brought by somebody who holds the lock (`stock.rs`).
//!
//! - *Send*: if a receiver waits, it is won, given the message, and settled. Else, if there is room, the message is
//!   queued. Else the sender waits, its message beside it, and the receivers' end stays shut.
//! - *Receive*: the first message is taken. If a sender waits, it is won, its message queued in the place of that one, and it is
//!   settled. Without a buffer, the message is taken from the sender. Else the receiver waits, and the senders' end stays shut.
//! - *Select* does the same in two steps, since a message is made, or asked for, only when it is known which operation it is
//!   for (`deals.rs`). Room that is kept for one leaves the senders' end shut.
//! - *Disconnect*: the last handle of one side says so, with the lock held, and settles all who wait on the other. Without receivers
//!   both ends stay shut.
//!
//! **Proof.** *Nobody sleeps on*: with the lock free, if a receiver waits there is no message, and no sender waits; if a sender
//! waits there is no free room (none that is neither filled nor reserved), and no receiver waits (but for threads that somebody else has
//! claimed, and those who wait for both). So it was when they queued: they had shut an end and then looked (`ends.rs`). So it stays: while
//! a list is not empty, messages, or room, are brought with the lock held only, and each step that does so gives it to whom waits
//! for it, in the same critical section. *No message is lost*: it is at any time in one place: with its sender, in a slot or a cell, or with its
//! receiver; it is moved by who has claimed its ticket, holds the lock with the end shut, or has won the thread whose place it is. A
//! sender that is won has been rid of its message, a receiver that is won gets one, or hears that it should look again. *Who has
//! won a thread settles it*, with the lock held or soon after it; and wakes it after.
//!
//! *Priority inversion*: a claimed thread's place may stay in a list until the thread has taken it out. It is passed over. Who has claimed a
//! ticket, and is not through with its slot, is waited for, as the holder of a lock.
//!
//! **Cost** in read-modify-writes: an operation that does not wait 1; each 64th besides: the lock, 1. One that waits 2 or 3 (the lock, and
//! the ends it shuts), and 1 for who serves it. A kernel thread's sleep costs one more each side, a select's claim one.

use std::ops::{Deref, DerefMut};
use std::ptr;

use super::blocks::{Litter, OwnedBlock, Store};
use super::cells::{Cell, Cells};
use super::ends::Ends;
use super::stock::Rest;
use super::waiters::{Deal, List, Place, Role, next_won};
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::wait_queue::Grant;

/// What an alone thread is told.
pub(super) const SERVED: u32 = 0;
pub(super) const DISCONNECTED: u32 = 1;
/// Who had won it could do nothing for it: it looks again.
pub(super) const AGAIN: u32 = 2;

/// A channel without its handles.
pub(super) struct Channel<T> {
    /// The messages.
    pub(super) ends: Ends<T>,
    state: QueueLock<State<T>>,
    /// `None`: any number of messages.
    pub(super) capacity: Option<usize>,
}

/// What changes with the lock held only.
pub(super) struct State<T> {
    /// The blocks that hold no messages.
    pub(super) store: Store<T>,
    /// For messages that selected receives have got.
    pub(super) cells: Cells<T>,
    /// Room that is kept for selected sends.
    pub(super) reserved: usize,
    /// `usize::MAX`: any number.
    pub(super) capacity: usize,
    pub(super) no_senders: bool,
    pub(super) no_receivers: bool,
    /// Who waits to send, and to receive.
    pub(super) senders: List,
    pub(super) receivers: List,
    /// Who waits until a send, or a receive, would not wait.
    pub(super) send_watchers: List,
    pub(super) receive_watchers: List,
}

// SAFETY: the messages are its own; the places it points to are used with the lock held, or by who has won their threads.
unsafe impl<T: Send> Send for State<T> {}

/// A channel whose lock is held. The ends that it has shut are opened when that is over, if nothing speaks against it.
pub(super) struct Locked<'a, T> {
    pub(super) state: &'a mut State<T>,
    pub(super) ends: &'a Ends<T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = State<T>;

    fn deref(&self) -> &State<T> {
        self.state
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut State<T> {
        self.state
    }
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    Done,
    Disconnected,
    /// It would have to wait.
    Waits,
    /// A block is needed first ([`Channel::supply`]).
    NeedsBlock,
    /// A cell is.
    NeedsCell,
    /// A receive without a buffer: a selected sender is there, but the caller has shown no place.
    NeedsPlace,
    /// The place that the caller has shown has been won by a selected sender, and will be settled.
    Won,
}

/// What is to be done when the lock is free again.
pub(super) struct After {
    pub(super) grant: Option<Grant>,
    /// To be told that they are ready, or that the other side has gone.
    many: *const Place,
    disconnected: bool,
    pub(super) litter: Option<Litter>,
}

impl After {
    #[inline]
    pub(super) fn nothing() -> Self {
        Self { grant: None, many: ptr::null(), disconnected: false, litter: None }
    }

    #[inline]
    pub(super) fn tell(&mut self, watchers: &mut List) {
        if !watchers.is_empty() {
            self.many = watchers.take_all(self.many);
        }
    }

    /// Called with no queue lock held.
    #[inline]
    pub(super) fn finish(self) {
        if let Some(grant) = self.grant {
            grant.wake();
        }
        if !self.many.is_null() || self.litter.is_some() {
            Self::finish_rest(self.many, self.disconnected, self.litter);
        }
    }

    #[cold]
    fn finish_rest(mut place: *const Place, disconnected: bool, litter: Option<Litter>) {
        drop(litter);
        let told = if disconnected { Deal::Disconnected } else { Deal::Ready };
        while !place.is_null() {
            // SAFETY: won and not settled.
            let next = unsafe { next_won(place) };
            // SAFETY: won, with the lock held, and settled once.
            unsafe { Place::settle(place, DISCONNECTED, told) }.wake();
            place = next;
        }
    }
}

impl<T> Channel<T> {
    /// A channel that holds at most `capacity` messages.
    pub(super) fn new(capacity: Option<usize>) -> Self {
        Self::beginning_at(capacity, 0)
    }

    /// As `new`, with that ticket for the first message.
    pub(super) fn beginning_at(capacity: Option<usize>, first: usize) -> Self {
        let most = capacity.unwrap_or(usize::MAX);
        let state = State {
            store: Store::new(),
            cells: Cells::new(),
            reserved: 0,
            capacity: most,
            no_senders: false,
            no_receivers: false,
            senders: List::new(),
            receivers: List::new(),
            send_watchers: List::new(),
            receive_watchers: List::new(),
        };
        Self { ends: Ends::new(most, first), state: QueueLock::new(Rank::Bucket, state), capacity }
    }

    /// Runs `f` with the lock held. `f` neither sleeps nor calls what is not ours.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Locked<'_, T>) -> R) -> R {
        self.with_held(&NoPreempt::hold(), f)
    }

    /// [`with`](Self::with) by somebody who may not be preempted already.
    #[inline]
    pub(super) fn with_held<R>(&self, no_preempt: &NoPreempt, f: impl FnOnce(&mut Locked<'_, T>) -> R) -> R {
        self.state.with_held(no_preempt, |state| {
            let mut locked = Locked { state, ends: &self.ends };
            let result = f(&mut locked);
            locked.open_ends();
            result
        })
    }

    /// Takes the lock, for one who must hold any number at once. `others`: those of others are held already, of lower addresses.
    ///
    /// # Safety
    /// The caller gives it back by [`give_up`](Self::give_up), while `no_preempt` lasts.
    pub(super) unsafe fn seize(&self, no_preempt: &NoPreempt, others: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.state.seize(no_preempt, others) };
    }

    /// Runs `f` with the lock held that the caller has seized. The ends stay shut that `f` has shut.
    ///
    /// # Safety
    /// The caller holds it, and `f` does not call back.
    pub(super) unsafe fn seized<R>(&self, f: impl FnOnce(&mut Locked<'_, T>) -> R) -> R {
        // SAFETY: the caller's promise.
        unsafe { self.state.seized(|state| f(&mut Locked { state, ends: &self.ends })) }
    }

    /// Frees the lock that the caller has seized.
    ///
    /// # Safety
    /// The caller holds it.
    pub(super) unsafe fn give_up(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.seized(|state| state.open_ends()) };
        // SAFETY: the caller's promise.
        unsafe { self.state.give_up() };
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.len() >= capacity)
    }

    /// Brings what an attempt has asked for. Called without any lock.
    #[cold]
    pub(super) fn supply(&self, step: Step) {
        if step == Step::NeedsCell {
            let cell = Cell::new();
            self.with(|state| state.cells.supply(cell));
        } else {
            let block = OwnedBlock::new();
            let left = self.with(|state| state.store.supply(block));
            drop(left);
        }
    }

    /// Nobody will send any more.
    pub(super) fn disconnect_senders(&self) {
        let mut after = After { disconnected: true, ..After::nothing() };
        self.with(|state| {
            state.no_senders = true;
            after.tell(&mut state.receivers);
            after.tell(&mut state.receive_watchers);
        });
        after.finish();
    }

    /// Nobody will receive any more: messages that are there are dropped.
    pub(super) fn disconnect_receivers(&self) {
        let mut after = After { disconnected: true, ..After::nothing() };
        let rest: Rest<T> = self.with(|state| {
            state.no_receivers = true;
            after.tell(&mut state.senders);
            after.tell(&mut state.send_watchers);
            state.take_rest()
        });
        after.finish();
        drop(rest);
    }
}

impl<T> Locked<'_, T> {
    /// Sends the message at `message`, which is moved away from there if it is [`Step::Done`].
    ///
    /// # Safety
    /// There is one.
    #[inline]
    pub(super) unsafe fn send(&mut self, message: *const T, after: &mut After) -> Step {
        if self.no_receivers {
            return Step::Disconnected;
        }
        if !self.receivers.is_empty() {
            let has_cell = !self.cells.is_empty();
            match self.receivers.pop_if(|place| has_cell || place.is_alone()) {
                Err(()) => return Step::NeedsCell,
                // SAFETY: the receiver has been won, and there is a cell if it needs one; the caller's promise.
                Ok(Some(receiver)) => unsafe {
                    self.deliver(receiver, message, after);
                    return Step::Done;
                },
                Ok(None) => {}
            }
        }
        if !self.has_free_room() {
            return Step::Waits;
        }
        if !self.has_slot() {
            return Step::NeedsBlock;
        }
        // SAFETY: there is a slot; the caller's promise.
        unsafe { self.push(message) };
        after.tell(&mut self.receive_watchers);
        Step::Done
    }

    /// Gives a message to a receiver that has been won, and settles it.
    ///
    /// # Safety
    /// As said. There is a message, which is moved away; and there is a cell, if the receiver is not alone.
    #[inline]
    pub(super) unsafe fn deliver(&mut self, receiver: *const Place, message: *const T, after: &mut After) {
        // SAFETY: it has been won.
        let got = match unsafe { &*receiver }.role() {
            Role::Alone(slot) => {
                // SAFETY: the slot of a thread that sleeps until it is settled, and waits for a message of this type.
                unsafe { ptr::copy_nonoverlapping(message, slot.cast(), 1) };
                Deal::Open
            }
            Role::OneOf { .. } => {
                // SAFETY: the caller's promise.
                Deal::Message(unsafe { self.cells.put(message) })
            }
        };
        // SAFETY: the caller's promise.
        after.grant = Some(unsafe { Place::settle(receiver, SERVED, got) });
    }

    /// Receives a message to `into`, if it is [`Step::Done`]. `mine`: a place of the caller's, in no list, that a sender may win.
    ///
    /// # Safety
    /// `into` may be written.
    #[inline]
    pub(super) unsafe fn receive(&mut self, into: *mut T, mine: Option<&Place>, after: &mut After) -> Step {
        if !self.keeps_message() {
            if !self.senders.is_empty() {
                // SAFETY: the caller's promise.
                let step = unsafe { self.receive_directly(into, mine, after) };
                if step != Step::Waits {
                    return step;
                }
            }
            return if self.no_senders { Step::Disconnected } else { Step::Waits };
        }
        if !self.senders.is_empty() && !self.has_slot() {
            return Step::NeedsBlock;
        }
        // SAFETY: there is a message; the caller's promise.
        unsafe { self.pop(into, &mut after.litter) };
        self.room_is_free(after);
        Step::Done
    }

    /// There is no message: takes that of a sender that waits, since there is no buffer, or all room in it is reserved.
    ///
    /// # Safety
    /// `into` may be written.
    pub(super) unsafe fn receive_directly(
        &mut self,
        into: *mut T,
        mine: Option<&Place>,
        after: &mut After,
    ) -> Step {
        let sender = match self.senders.pop_if(|place| place.is_alone() || mine.is_some()) {
            Err(()) => return Step::NeedsPlace,
            Ok(None) => return Step::Waits,
            Ok(Some(sender)) => sender,
        };
        // SAFETY: it has been won.
        let place = unsafe { &*sender };
        if let Role::Alone(slot) = place.role() {
            // SAFETY: the slot of a thread that sleeps until it is settled, with its message; the caller's promise.
            unsafe { ptr::copy_nonoverlapping(slot.cast::<T>().cast_const(), into, 1) };
            // SAFETY: won, and settled once.
            after.grant = Some(unsafe { Place::settle(sender, SERVED, Deal::Open) });
            return Step::Done;
        }
        let mine = mine.expect("one of several was let through");
        // SAFETY: as above.
        after.grant = Some(unsafe { Place::settle(sender, SERVED, Deal::Partner(mine)) });
        Step::Won
    }

    /// There is room for a message, and for it in the blocks if anybody waits: a sender that waits gets it.
    #[inline]
    pub(super) fn room_is_free(&mut self, after: &mut After) {
        if !self.senders.is_empty()
            && self.has_free_room()
            && let Some(sender) = self.senders.pop()
        {
            return self.admit(sender, after);
        }
        after.tell(&mut self.send_watchers);
    }

    /// Gives room to a sender that has been won.
    fn admit(&mut self, sender: *const Place, after: &mut After) {
        debug_assert!(after.grant.is_none());
        // SAFETY: it has been won.
        match unsafe { &*sender }.role() {
            // SAFETY: its message is there until it is settled, and there is room.
            Role::Alone(slot) => unsafe { self.push(slot.cast::<T>()) },
            Role::OneOf { .. } => self.reserved += 1,
        }
        // SAFETY: won, and settled once.
        after.grant = Some(unsafe { Place::settle(sender, SERVED, Deal::Room) });
        if !self.ends.is_empty() {
            after.tell(&mut self.receive_watchers);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_channel.rs"]
pub(super) mod loom_channel;
