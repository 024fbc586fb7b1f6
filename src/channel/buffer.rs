//! The messages of a channel, as a thread that holds its lock sees and moves them.
//!
//! Others may claim tickets at the same time, at an end that is open (`head_tail.rs`). So each function says
//! which end it shuts. That end stays shut until the lock is freed, and longer if a thread waits for what
//! would be claimed there.

use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;

use super::core::Locked;
use super::segments::{Block, Garbage, TICKET, free};
use super::staging::Returned;

impl<T> Locked<'_, T> {
    /// Returns `true` if there is room that is neither filled nor reserved. Shuts the senders' end. If
    /// there is no room, shuts the receivers' end too: then none becomes free.
    #[inline]
    pub(super) fn has_free_room(&mut self) -> bool {
        self.ends.tail.shut();
        if self.sees_free_room() {
            // Receivers can only make more.
            return true;
        }
        self.ends.head.shut();
        self.sees_free_room()
    }

    /// Returns `true` if the words of the ends show free room.
    pub(super) fn sees_free_room(&self) -> bool {
        let len = self.ends.tail.ticket().wrapping_sub(self.ends.head.ticket()) / TICKET;
        len + self.reserved < self.capacity
    }

    /// Returns `true` if there is a message; others may take it, unless the receivers' end is shut. If
    /// there is none, shuts the senders' end: then none comes.
    #[inline]
    pub(super) fn has_message(&mut self) -> bool {
        if !self.ends.is_empty() {
            return true;
        }
        self.ends.tail.shut();
        !self.ends.is_empty()
    }

    /// Returns `true` if there is a message, and shuts the receivers' end: no other thread takes it.
    /// Otherwise as [`has_message`](Self::has_message).
    #[inline]
    pub(super) fn keeps_message(&mut self) -> bool {
        self.has_message() && {
            self.ends.head.shut();
            self.has_message()
        }
    }

    /// Returns `true` if there is a free position for one more message. Adds a spare block, if need be and
    /// there is one. Shuts the senders' end.
    pub(super) fn has_slot(&mut self) -> bool {
        let tail = &self.ends.tail;
        tail.shut();
        if tail.has_position() {
            return true;
        }
        let Some(block) = self.state.store.take() else { return false };
        // SAFETY: no thread uses it.
        unsafe { Block::begin(block.as_ptr(), tail.ticket()) };
        // SAFETY: null, or the last block of the chain, which is not retired before it has a next.
        match unsafe { tail.block().as_ref() } {
            Some(last) => last.set_next(block.as_ptr()),
            // An end without a block is shut.
            None => self.ends.head.set_block(block.as_ptr()),
        }
        tail.set_block(block.as_ptr());
        true
    }

    /// Queues a message.
    ///
    /// # Safety
    /// There is a free position. The message is moved away from `message`.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: *const T) {
        // SAFETY: the caller's promise.
        let (ticket, position) = unsafe { self.ends.tail.advance() };
        // SAFETY: claimed, because the end is shut; the caller's promise.
        unsafe { position.put(ticket, message) };
    }

    /// Moves the first message to `into`. If its sender has claimed the ticket and is not through yet,
    /// waits for it. Blocks that are to be freed are left in `garbage`.
    ///
    /// # Safety
    /// There is a message, and the receivers' end is shut. `into` may be written.
    #[inline]
    pub(super) unsafe fn pop(&mut self, into: *mut T, garbage: &mut Option<Garbage>) {
        self.leave_block(garbage);
        // SAFETY: the caller's promise.
        let (ticket, position) = unsafe { self.ends.head.advance() };
        // SAFETY: claimed, because the end is shut; the caller's promise.
        unsafe { position.take(ticket, into) };
    }

    /// Leaves a block if all its messages have been claimed and there is a next. The receivers' end is
    /// shut.
    fn leave_block(&mut self, garbage: &mut Option<Garbage>) {
        let head = &self.ends.head;
        let block = head.block();
        // SAFETY: null, or the first of the chain.
        let Some(first) = (unsafe { block.as_ref() }) else { return };
        if first.holds(head.ticket()) || first.next().is_null() {
            return;
        }
        head.set_block(first.next());
        // SAFETY: it is out of the chain, and its tickets have been claimed.
        unsafe { self.state.store.retire(block, garbage) };
    }

    /// Puts a message that a receiver got, and did not take, before all others. Shuts the receivers' end: its
    /// messages come later.
    ///
    /// # Safety
    /// As for [`Returned::put`].
    pub(super) unsafe fn put_returned(&mut self, cell: NonNull<()>) {
        self.ends.head.shut();
        // SAFETY: the caller's promise.
        unsafe { self.returned.put(cell) };
        self.ends.count_returned(1);
    }

    /// Takes the first of those messages, in its cell.
    #[inline]
    pub(super) fn take_returned(&mut self) -> Option<NonNull<()>> {
        if self.returned.is_empty() {
            return None;
        }
        self.ends.count_returned(-1);
        self.returned.take()
    }

    /// Opens the ends that are shut, unless something forbids it.
    #[inline]
    pub(super) fn open_ends(&mut self) {
        if self.capacity == 0 {
            return;
        }
        let (tail, head) = (&self.ends.tail, &self.ends.head);
        if tail.is_shut() && self.pays_to_open_tail() && !self.keeps_tail() && tail.has_position() {
            tail.open();
        }
        if head.is_shut() && !self.keeps_head() && head.has_position() {
            head.open();
        }
    }

    /// Returns `true` if the senders' end must stay shut. Threads that wait for messages get those that
    /// come; reserved room is not for others.
    fn keeps_tail(&self) -> bool {
        !self.receivers.waiting.is_empty()
            || !self.receivers.watching.is_empty()
            || self.receivers.gone
            || (self.reserved != 0 && self.capacity != usize::MAX)
    }

    /// Returns `true` if it pays to open the senders' end. While senders wait, no other could send. When
    /// they are let in, the end is shut again ([`has_slot`](Self::has_slot)).
    fn pays_to_open_tail(&self) -> bool {
        self.senders.waiting.is_empty()
    }

    /// Returns `true` if the receivers' end must stay shut. Threads that wait for room get what there
    /// will be, and returned messages are received first.
    fn keeps_head(&self) -> bool {
        !self.senders.waiting.is_empty() || !self.senders.watching.is_empty() || !self.returned.is_empty()
    }

    /// Takes all messages out of a channel that has lost its receivers. Its senders' end is shut. Both ends
    /// stay shut for good.
    pub(super) fn take_rest(&mut self) -> Rest<T> {
        debug_assert!(self.receivers.gone);
        let (tail, head) = (&self.ends.tail, &self.ends.head);
        head.shut();
        let returned = mem::replace(&mut self.returned, Returned::new());
        let rest = Rest { block: head.block(), first: head.ticket(), end: tail.ticket(), returned };
        head.set_block(std::ptr::null_mut());
        tail.set_block(std::ptr::null_mut());
        head.move_to(rest.end);
        rest
    }
}

/// Messages that no thread will receive, to be dropped without the lock. Senders may still be about to
/// write some of them.
pub(super) struct Rest<T> {
    block: *mut Block<T>,
    first: usize,
    end: usize,
    /// These come first.
    returned: Returned<T>,
}

impl<T> Rest<T> {
    fn next(&mut self) -> Option<MaybeUninit<T>> {
        if let Some(message) = self.returned.take_message() {
            return Some(message);
        }
        if self.first == self.end {
            return None;
        }
        // SAFETY: the block of the message before, or the first of the chain. It is ours, except for
        // senders that are not through.
        let block = unsafe { &*self.block };
        if !block.holds(self.first) {
            let through = std::mem::replace(&mut self.block, block.next());
            block.set_next(std::ptr::null_mut());
            // SAFETY: all its messages have been taken, so no thread uses it. It is out of the chain.
            unsafe { free::<T>(through.cast()) };
        }
        let ticket = self.first;
        self.first = ticket.wrapping_add(TICKET);
        let mut message = MaybeUninit::uninit();
        // SAFETY: ours: if there is a message, there is a block.
        let position = unsafe { Block::position(self.block, ticket) };
        // SAFETY: its sender has claimed it, and no other thread receives; `message` may be written.
        unsafe { position.take(ticket, message.as_mut_ptr()) };
        Some(message)
    }
}

impl<T> Drop for Rest<T> {
    fn drop(&mut self) {
        /// Frees the blocks, even if the destructor of a message panics.
        struct Blocks<'a, T>(&'a mut Rest<T>);

        impl<T> Drop for Blocks<'_, T> {
            fn drop(&mut self) {
                // Messages that are left are forgotten when their senders are through.
                while self.0.next().is_some() {}
                // SAFETY: the rest of the chain, which no thread uses.
                unsafe { free::<T>(self.0.block.cast()) };
            }
        }

        let blocks = Blocks(self);
        while let Some(message) = blocks.0.next() {
            // SAFETY: `next` has moved one there.
            drop(unsafe { message.assume_init() });
        }
    }
}
