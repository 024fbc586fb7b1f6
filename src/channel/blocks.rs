//! The messages in a channel: a chain of blocks.
//!
//! **Rejected.** An array as large as the capacity: an unbounded channel has none, and a large bounded one is rarely full. An array
//! that grows: it is copied, with the channel's lock held. So all channels have blocks, and few: one that is used up is kept for the
//! next time, which is all that a channel needs whose messages are few; and a queue that runs empty begins its block again.
//!
//! A block is neither made nor freed by any of the verbs here, since they are called with the channel's lock held: who pushes
//! sees to it that there is room (`has_room`, `supply`), who pops gets what is to be freed.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// Messages in a block. More saves allocations, fewer save memory where messages are large.
pub(super) const BLOCK: usize = 32;

pub(super) struct Block<T> {
    next: *mut Block<T>,
    messages: [MaybeUninit<T>; BLOCK],
}

impl<T> Block<T> {
    /// Called without any lock.
    #[cold]
    pub(super) fn new() -> Box<Self> {
        // In its place at once: it may be larger than a stack.
        let mut block = Box::<Self>::new_uninit();
        // SAFETY: the box is writable.
        let next = unsafe { &raw mut (*block.as_mut_ptr()).next };
        // SAFETY: as above.
        unsafe { next.write(ptr::null_mut()) };
        // SAFETY: `next` was written, and the rest may be uninitialized.
        unsafe { block.assume_init() }
    }
}

/// A block that is to be freed, when no lock is held.
#[must_use]
pub(super) struct Litter {
    block: *mut (),
    free: unsafe fn(*mut ()),
}

impl Drop for Litter {
    fn drop(&mut self) {
        // SAFETY: a block that was taken out of its chain, with the function that frees blocks of its type; once.
        unsafe { (self.free)(self.block) };
    }
}

/// # Safety
/// `block` is a [`Block<T>`] made by `Box`, in no chain, and not used again.
unsafe fn free<T>(block: *mut ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(block.cast::<Block<T>>()) });
}

/// Messages, first in, first out.
pub(super) struct Blocks<T> {
    /// Where the first message is; null, as `tail`, if there has been none yet.
    head: *mut Block<T>,
    tail: *mut Block<T>,
    /// Kept for the next time; null: none.
    spare: *mut Block<T>,
    /// In `head`.
    first: usize,
    /// Behind the last one, in `tail`.
    end: usize,
    len: usize,
}

// SAFETY: it owns its messages and blocks.
unsafe impl<T: Send> Send for Blocks<T> {}

impl<T> Blocks<T> {
    pub(super) const fn new() -> Self {
        let null = ptr::null_mut();
        Self { head: null, tail: null, spare: null, first: 0, end: BLOCK, len: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether one more can be pushed.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.end < BLOCK || !self.spare.is_null()
    }

    /// Adds a block. Gives it back if there is one to spare.
    #[cold]
    pub(super) fn supply(&mut self, block: Box<Block<T>>) -> Option<Box<Block<T>>> {
        if self.spare.is_null() {
            self.spare = Box::into_raw(block);
            return None;
        }
        Some(block)
    }

    /// # Safety
    /// There is room. The message is moved away from `message`.
    #[inline]
    pub(super) unsafe fn push(&mut self, message: *const T) {
        if self.end == BLOCK {
            self.begin_block();
        }
        // SAFETY: there is a block, with room at `end`.
        let place = unsafe { &raw mut (*self.tail).messages }.cast::<T>().wrapping_add(self.end);
        // SAFETY: as above; the caller moves the message.
        unsafe { ptr::copy_nonoverlapping(message, place, 1) };
        self.end += 1;
        self.len += 1;
    }

    #[cold]
    fn begin_block(&mut self) {
        let block = std::mem::replace(&mut self.spare, ptr::null_mut());
        debug_assert!(!block.is_null(), "pushed without room");
        // SAFETY: ours, and in no chain.
        unsafe { (*block).next = ptr::null_mut() };
        if self.tail.is_null() {
            self.head = block;
            self.first = 0;
        } else {
            // SAFETY: the last block of the chain.
            unsafe { (*self.tail).next = block };
        }
        self.tail = block;
        self.end = 0;
    }

    /// Moves the first message to `into`. A block that is to be freed is left in `litter`.
    ///
    /// # Safety
    /// There is one.
    #[inline]
    pub(super) unsafe fn pop(&mut self, into: *mut T, litter: &mut Option<Litter>) {
        // SAFETY: there is a message at `first` of `head`.
        let place = unsafe { &raw const (*self.head).messages }.cast::<T>().wrapping_add(self.first);
        // SAFETY: as above; it is behind us from here on.
        unsafe { ptr::copy_nonoverlapping(place, into, 1) };
        self.len -= 1;
        self.first += 1;
        if self.len == 0 {
            // There is one block, as long as nobody pushes into the next one without a message.
            self.first = 0;
            self.end = 0;
            debug_assert!(ptr::eq(self.head, self.tail));
        } else if self.first == BLOCK {
            self.leave_block(litter);
        }
    }

    #[cold]
    fn leave_block(&mut self, litter: &mut Option<Litter>) {
        let block = self.head;
        // SAFETY: the first of a chain that has messages in the next.
        self.head = unsafe { (*block).next };
        self.first = 0;
        if self.spare.is_null() {
            self.spare = block;
        } else {
            *litter = Some(Litter { block: block.cast(), free: free::<T> });
        }
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        /// Frees the blocks, also when a message's destructor panics.
        struct Rest<'a, T>(&'a mut Blocks<T>);

        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                let mut block = self.0.head;
                while let Some(this) = NonNull::new(block) {
                    // SAFETY: in the chain, which is ours, and freed once.
                    let this = unsafe { Box::from_raw(this.as_ptr()) };
                    block = this.next;
                }
                if let Some(spare) = NonNull::new(self.0.spare) {
                    // SAFETY: as above.
                    drop(unsafe { Box::from_raw(spare.as_ptr()) });
                }
            }
        }

        let rest = Rest(self);
        while rest.0.len > 0 {
            let mut message = MaybeUninit::uninit();
            // SAFETY: there is one.
            unsafe { rest.0.pop(message.as_mut_ptr(), &mut None) };
            // SAFETY: `pop` has moved one there.
            drop(unsafe { message.assume_init() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::rc::Rc;

    use super::*;

    fn push<T>(blocks: &mut Blocks<T>, message: T) {
        if !blocks.has_room() {
            assert!(blocks.supply(Block::new()).is_none());
        }
        let message = std::mem::ManuallyDrop::new(message);
        // SAFETY: there is room, and it is moved.
        unsafe { blocks.push(&*message) };
    }

    fn pop<T>(blocks: &mut Blocks<T>) -> T {
        assert_ne!(blocks.len(), 0);
        let mut message = MaybeUninit::uninit();
        // SAFETY: there is one.
        unsafe { blocks.pop(message.as_mut_ptr(), &mut None) };
        // SAFETY: `pop` has moved one there.
        unsafe { message.assume_init() }
    }

    /// Against a queue that is known to be right, with runs of all lengths around those of a block.
    #[test]
    fn first_in_first_out() {
        let (mut blocks, mut model) = (Blocks::new(), VecDeque::new());
        let mut next = 0;
        for pushes in 0..200 {
            for _ in 0..pushes % 71 {
                push(&mut blocks, next);
                model.push_back(next);
                next += 1;
            }
            for _ in 0..pushes % 67 {
                assert_eq!((blocks.len() > 0).then(|| pop(&mut blocks)), model.pop_front());
            }
            assert_eq!(blocks.len(), model.len());
        }
    }

    #[test]
    fn what_is_left_is_dropped_once() {
        for messages in [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let message = Rc::new(());
            let mut blocks = Blocks::new();
            (0..messages + 5).for_each(|_| push(&mut blocks, message.clone()));
            (0..5).for_each(|_| drop(pop(&mut blocks)));
            assert_eq!(Rc::strong_count(&message), messages + 1);
            drop(blocks);
            assert_eq!(Rc::strong_count(&message), 1);
        }
    }

    /// One that is used up is used again.
    #[test]
    fn few_messages_need_two_blocks() {
        let (mut blocks, mut supplied) = (Blocks::new(), 0);
        for message in 0..1000 {
            if !blocks.has_room() {
                supplied += 1;
            }
            push(&mut blocks, message);
            if message > 0 {
                assert_eq!(pop(&mut blocks), message - 1);
            }
        }
        assert_eq!(supplied, 2);
    }
}
