//! A channel, and how messages get from one thread to another.
//!
//! **Problem.** Any number of threads of all kinds send and receive; some wait for several channels at
//! once. No message may be lost or doubled. No thread may sleep on while there is something for it. A
//! hand-off should cost next to nothing.
//!
//! **Rejected.**
//!
//! - One lock for all operations. Uncontended it is as good, but two CPUs fight for it: 65 to 150 ns a
//!   message.
//! - A ring without locks that wakes its waiters to look for themselves. Others may have been faster, and
//!   the woken threads sleep again. If a sender waits for room, a message passes through the ring
//!   although a receiver is there. And threads that select must withdraw from the channels that they do
//!   not use.
//! - The wait queue under an address. That is another lock for each wait and each grant, while the
//!   channel's own is held anyway.
//!
//! **Protocol.** If no thread waits, messages pass through two ends that need no lock (`head_tail.rs`,
//! `segments.rs`). Under a lock there are two lists of entries of threads that wait (`waiters.rs`). A thread
//! that holds the lock may shut an end, and then is alone there. A thread that waits leaves an end shut.
//! Then only a thread that holds the lock can bring what it waits for (`buffer.rs`).
//!
//! - *Send*: if a receiver waits, it is won, given the message, and settled. Otherwise, if there is room,
//!   the message is queued. Otherwise the sender waits, its message beside it, and the receivers' end
//!   stays shut.
//! - *Receive*: the first message is taken. If a sender waits, it is won, its message takes the free
//!   room, and it is settled. Without a buffer, the message is taken from the sender. If there is none,
//!   the receiver waits, and the senders' end stays shut.
//! - *Select* does the same in two steps, because a message is made or asked for only when the operation
//!   is known (`reservation.rs`). While room is kept for a selected send, the senders' end stays shut.
//! - *Disconnect*: the last handle of one side says so with the lock held, and settles all threads that
//!   wait on the other side. Without receivers both ends stay shut.
//!
//! **Proof.** *No thread sleeps on.* While the lock is free:
//!
//! - If a receiver waits, there is no message, and no sender waits.
//! - If a sender waits, there is no free room (all is filled or reserved), and no receiver waits.
//!
//! Threads that another thread has claimed do not count, nor do threads that wait for both. Both
//! statements hold when a thread queues: it has shut an end and then looked (`head_tail.rs`). They keep
//! holding: while a list is not empty, only a thread that holds the lock brings messages or room. It
//! gives what it brings to the thread that waits for it, in the same critical section.
//!
//! *No message is lost.* At any time it is in one place: with its sender, in a position or a cell, or with
//! its receiver. A thread may move it if it has claimed its ticket, holds the lock with the end shut, or has
//! won the entry's thread. The message of a sender that is won has been moved away. A receiver that is won
//! gets one, or is told to look again.
//!
//! *A thread that has won another settles it*, with the lock held or soon after, and then wakes it.
//!
//! *Priority inversion.* The entry of a claimed thread may stay in a list until the thread has taken it
//! out. It is passed over. If a thread has claimed a ticket and is not through with its position, others wait
//! for it, as for the holder of a lock.
//!
//! **Cost** in read-modify-writes: an operation that does not wait 1; each 64th takes the lock besides, 1
//! more. One that waits 2 or 3 (the lock, and the ends that it shuts), and 1 for the thread that serves
//! it. A kernel thread's sleep costs one more on each side, the claim of a select one.

use std::ops::{Deref, DerefMut};
use std::ptr;

use super::head_tail::Ends;
use super::segments::{Garbage, OwnedBlock, Store};
use super::side::Side;
use super::staging::{Cell, Cells, Returned};
use super::waiters::{Deal, Entry, List, Party, Role, next_won};
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::wait_queue::Grant;

/// What a thread that waits for one operation is told.
pub(super) const SERVED: u32 = 0;
pub(super) const DISCONNECTED: u32 = 1;
/// The thread that had won it could do nothing for it: it looks again.
pub(super) const AGAIN: u32 = 2;
/// As [`DISCONNECTED`], by a thread that may hold no message (`Handle::leave_messages`).
pub(super) const ABANDONED: u32 = 3;

/// A channel without its handles.
pub(super) struct Channel<T> {
    /// The messages.
    pub(super) ends: Ends<T>,
    state: QueueLock<ChannelState<T>>,
    /// `None`: any number of messages.
    pub(super) capacity: Option<usize>,
}

/// The part of a channel that changes only with the lock held.
pub(super) struct ChannelState<T> {
    /// The blocks that hold no messages.
    pub(super) store: Store<T>,
    /// Cells for the messages that selected receives have got.
    pub(super) cells: Cells<T>,
    /// Messages that come before those between the ends. While there are some, the receivers' end is shut.
    pub(super) returned: Returned<T>,
    /// How much room is kept for selected sends.
    pub(super) reserved: usize,
    /// `usize::MAX`: any number.
    pub(super) capacity: usize,
    pub(super) senders: Party,
    pub(super) receivers: Party,
}

// SAFETY: the messages are its own. The entries that it points to are used with the lock held, or by the
// thread that has won their threads.
unsafe impl<T: Send> Send for ChannelState<T> {}

/// A channel with its lock held. When the lock is freed, the ends that are shut are opened, unless
/// something forbids it.
pub(super) struct Locked<'a, T> {
    pub(super) state: &'a mut ChannelState<T>,
    pub(super) ends: &'a Ends<T>,
}

impl<T> Deref for Locked<'_, T> {
    type Target = ChannelState<T>;

    fn deref(&self) -> &ChannelState<T> {
        self.state
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut ChannelState<T> {
        self.state
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    Done,
    Disconnected,
    /// The operation would have to wait.
    Waits,
    /// A block is needed first ([`Channel::supply`]).
    NeedsBlock,
    /// A cell is needed first.
    NeedsCell,
    /// A receive without a buffer: a selected sender is there, but the caller has shown no entry.
    NeedsEntry,
    /// The entry that the caller has shown has been won by a selected sender, and will be settled.
    Won,
}

/// What is left to do when the lock is free again.
pub(super) struct After {
    pub(super) grant: Option<Grant>,
    /// Threads to be told that they are ready, or that the other side has gone.
    many: *const Entry,
    /// What they are told: [`SERVED`] if they are ready.
    code: u32,
    pub(super) garbage: Option<Garbage>,
}

impl After {
    #[inline]
    pub(super) fn nothing() -> Self {
        Self { grant: None, many: ptr::null(), code: SERVED, garbage: None }
    }

    #[inline]
    pub(super) fn tell(&mut self, watchers: &mut List) {
        if !watchers.is_empty() {
            self.many = watchers.take_all(self.many);
        }
    }

    /// Does what is left. Called with no queue lock held.
    #[inline]
    pub(super) fn finish(self) {
        if let Some(grant) = self.grant {
            grant.wake();
        }
        if !self.many.is_null() || self.garbage.is_some() {
            Self::finish_rest(self.many, self.code, self.garbage);
        }
    }

    #[cold]
    fn finish_rest(mut entry: *const Entry, code: u32, garbage: Option<Garbage>) {
        drop(garbage);
        let told = if code == SERVED { Deal::Ready } else { Deal::Disconnected };
        while !entry.is_null() {
            // SAFETY: we have won it and not settled it.
            let next = unsafe { next_won(entry) };
            // SAFETY: we have won it, with the lock held, and settle it once.
            unsafe { Entry::settle(entry, code, told) }.wake();
            entry = next;
        }
    }
}

impl<T> Channel<T> {
    /// Creates a channel that holds at most `capacity` messages.
    pub(super) fn new(capacity: Option<usize>) -> Self {
        Self::beginning_at(capacity, 0)
    }

    /// [`new`](Self::new) with `first` as the ticket of the first message.
    pub(super) fn beginning_at(capacity: Option<usize>, first: usize) -> Self {
        let most = capacity.unwrap_or(usize::MAX);
        let state = ChannelState {
            store: Store::new(),
            cells: Cells::new(),
            returned: Returned::new(),
            reserved: 0,
            capacity: most,
            senders: Party::new(),
            receivers: Party::new(),
        };
        Self { ends: Ends::new(most, first), state: QueueLock::new(Rank::Bucket, state), capacity }
    }

    /// Runs `f` with the lock held. `f` neither sleeps nor calls foreign code.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Locked<'_, T>) -> R) -> R {
        self.with_held(&NoPreempt::hold(), f)
    }

    /// [`with`](Self::with) for a caller that forbids its preemption already.
    #[inline]
    pub(super) fn with_held<R>(&self, no_preempt: &NoPreempt, f: impl FnOnce(&mut Locked<'_, T>) -> R) -> R {
        self.state.with_held(no_preempt, |state| {
            let mut locked = Locked { state, ends: &self.ends };
            let result = f(&mut locked);
            locked.open_ends();
            result
        })
    }

    /// Takes the lock for a caller that must hold several at once. `others`: it holds locks of channels
    /// at lower addresses already.
    ///
    /// # Safety
    /// The caller gives it back by [`give_up`](Self::give_up), while `no_preempt` lasts.
    pub(super) unsafe fn seize(&self, no_preempt: &NoPreempt, others: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.state.seize(no_preempt, others) };
    }

    /// Runs `f` with the lock held that the caller has seized. The ends that `f` shuts stay shut.
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

    /// Allocates what an attempt needs. Called without any lock.
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

    /// Notes that the last handle of a side has gone, and tells the threads of the other. If it `drops`
    /// messages, drops those that no thread will receive.
    pub(super) fn disconnect<S: Side>(&self, drops: bool) {
        let code = if drops { DISCONNECTED } else { ABANDONED };
        let mut after = After { code, ..After::nothing() };
        let rest = self.with(|state| {
            let (gone, others) = S::parties(state);
            gone.gone = true;
            after.tell(&mut others.waiting);
            after.tell(&mut others.watching);
            S::rest(state, drops)
        });
        after.finish();
        drop(rest);
    }
}

impl<T> Locked<'_, T> {
    /// Makes a sleep known to the other side.
    ///
    /// # Safety
    /// The entry is in no list, and stays where it is until it is out of this one.
    pub(super) unsafe fn link<S: Side>(&mut self, entry: &Entry, after: &mut After) {
        let (mine, others) = S::parties(self);
        // SAFETY: the caller's promise.
        unsafe { mine.waiting.link(entry) };
        after.tell(&mut others.watching);
    }

    /// Sends the message at `message`. If the outcome is [`Step::Done`], it has been moved away from
    /// there. With `promised`, there is room even if all is full: more messages may have been given back than
    /// there was room for.
    ///
    /// # Safety
    /// There is a message.
    #[inline]
    pub(super) unsafe fn send(&mut self, message: *const T, promised: bool, after: &mut After) -> Step {
        if self.receivers.gone {
            return Step::Disconnected;
        }
        if !self.receivers.waiting.is_empty() {
            let has_cell = !self.cells.is_empty();
            match self.receivers.waiting.pop_if(|entry| has_cell || entry.is_alone()) {
                Err(()) => return Step::NeedsCell,
                // SAFETY: we have won the receiver, and there is a cell if it needs one; the caller's
                // promise.
                Ok(Some(receiver)) => unsafe {
                    self.deliver(receiver, message, after);
                    return Step::Done;
                },
                Ok(None) => {}
            }
        }
        if !promised && !self.has_free_room() {
            return Step::Waits;
        }
        if !self.has_slot() {
            return Step::NeedsBlock;
        }
        // SAFETY: there is a free position; the caller's promise.
        unsafe { self.push(message) };
        after.tell(&mut self.receivers.watching);
        Step::Done
    }

    /// Gives a message to a receiver, and settles it.
    ///
    /// # Safety
    /// The caller has won the receiver. There is a message, which is moved away. If the receiver is not
    /// alone, there is a cell.
    #[inline]
    pub(super) unsafe fn deliver(&mut self, receiver: *const Entry, message: *const T, after: &mut After) {
        // SAFETY: the caller has won it, so it is there.
        let got = match unsafe { &*receiver }.role() {
            Role::Alone(frame) => {
                // SAFETY: the frame of a thread that sleeps until it is settled, and waits for a message
                // of this type.
                unsafe { ptr::copy_nonoverlapping(message, frame.cast(), 1) };
                Deal::Open
            }
            Role::OneOf { .. } => {
                // SAFETY: the caller's promise.
                Deal::Message(unsafe { self.cells.put(message) })
            }
        };
        // SAFETY: the caller's promise.
        after.grant = Some(unsafe { Entry::settle(receiver, SERVED, got) });
    }

    /// Receives a message to `into`, if the outcome is [`Step::Done`]. `mine` is an entry of the caller's,
    /// in no list, that a sender may win.
    ///
    /// # Safety
    /// `into` may be written.
    #[inline]
    pub(super) unsafe fn receive(&mut self, into: *mut T, mine: Option<&Entry>, after: &mut After) -> Step {
        if let Some(cell) = self.take_returned() {
            // SAFETY: a cell with a message, which is taken once; the caller's promise.
            unsafe { self.cells.take(cell, into) };
            return Step::Done;
        }
        if !self.keeps_message() {
            if !self.senders.waiting.is_empty() {
                // SAFETY: the caller's promise.
                let step = unsafe { self.receive_directly(into, mine, after) };
                if step != Step::Waits {
                    return step;
                }
            }
            return if self.senders.gone { Step::Disconnected } else { Step::Waits };
        }
        if !self.senders.waiting.is_empty() && !self.has_slot() {
            return Step::NeedsBlock;
        }
        // SAFETY: there is a message; the caller's promise.
        unsafe { self.pop(into, &mut after.garbage) };
        self.room_is_free(after);
        Step::Done
    }

    /// Takes the message of a sender that waits. There is no other message: there is no buffer, or all
    /// room in it is reserved.
    ///
    /// # Safety
    /// `into` may be written.
    pub(super) unsafe fn receive_directly(
        &mut self,
        into: *mut T,
        mine: Option<&Entry>,
        after: &mut After,
    ) -> Step {
        let sender = match self.senders.waiting.pop_if(|entry| entry.is_alone() || mine.is_some()) {
            Err(()) => return Step::NeedsEntry,
            Ok(None) => return Step::Waits,
            Ok(Some(sender)) => sender,
        };
        // SAFETY: we have won it, so it is there.
        let entry = unsafe { &*sender };
        if let Role::Alone(frame) = entry.role() {
            // SAFETY: the frame of a thread that sleeps until it is settled, with its message; the
            // caller's promise.
            unsafe { ptr::copy_nonoverlapping(frame.cast::<T>().cast_const(), into, 1) };
            // SAFETY: we have won it, and settle it once.
            after.grant = Some(unsafe { Entry::settle(sender, SERVED, Deal::Open) });
            return Step::Done;
        }
        let mine = mine.expect("one of several was let through");
        // SAFETY: we have won it, and settle it once.
        after.grant = Some(unsafe { Entry::settle(sender, SERVED, Deal::Partner(mine)) });
        Step::Won
    }

    /// Gives room that has become free to a sender that waits. If a sender waits, there is a free position,
    /// and the senders' end is shut.
    #[inline]
    pub(super) fn room_is_free(&mut self, after: &mut After) {
        if !self.sees_free_room() {
            // More messages were given back than there is room for.
            return;
        }
        if let Some(sender) = self.senders.waiting.pop() {
            return self.admit(sender, after);
        }
        after.tell(&mut self.senders.watching);
    }

    /// Gives room to a sender that has been won. No thread watches for a message: a watcher would have
    /// seen the sender, or been told when the sender queued.
    fn admit(&mut self, sender: *const Entry, after: &mut After) {
        debug_assert!(after.grant.is_none());
        // SAFETY: we have won it, so it is there.
        match unsafe { &*sender }.role() {
            // SAFETY: its message is there until it is settled, and there is room.
            Role::Alone(frame) => unsafe { self.push(frame.cast::<T>()) },
            Role::OneOf { .. } => self.reserved += 1,
        }
        // SAFETY: we have won it, and settle it once.
        after.grant = Some(unsafe { Entry::settle(sender, SERVED, Deal::Room) });
        debug_assert!(self.receivers.watching.is_empty());
    }
}

#[cfg(all(test, loom))]
pub(super) mod loom_channel;
