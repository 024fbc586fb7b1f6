//! Messages on their way to threads that select, and back.
//!
//! A message may have been given to a selected receive that is not completed. It belongs to that one
//! thread. If it were still among the others, the next thread to complete would take the first of them. A
//! thread might then get its own message back. So it lies in a cell, to which the deal points. Cells are made
//! without any lock (`supply`), used again, and freed with the channel. There are as many as there were such
//! messages at one time.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

pub(super) struct Cell<T> {
    next: *mut Cell<T>,
    message: MaybeUninit<T>,
}

impl<T> Cell<T> {
    /// Creates a cell. Called without any lock.
    #[cold]
    pub(super) fn new() -> Box<Self> {
        Box::new(Self { next: ptr::null_mut(), message: MaybeUninit::uninit() })
    }
}

/// Messages that receivers got, and did not take. They come before all others; of several, the last to come
/// back is first. When it is dropped, they have been taken out ([`Rest`](super::buffer::Rest)).
pub(super) struct Returned<T>(*mut Cell<T>);

// SAFETY: the cells are its own, and so are the messages in them.
unsafe impl<T: Send> Send for Returned<T> {}

impl<T> Returned<T> {
    pub(super) const fn new() -> Self {
        Self(ptr::null_mut())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Puts the message of a cell before the others.
    ///
    /// # Safety
    /// The cell is one of a channel of this type, has a message, and is no other code's.
    pub(super) unsafe fn put(&mut self, cell: NonNull<()>) {
        let mut cell = cell.cast::<Cell<T>>();
        // SAFETY: the caller's promise.
        unsafe { cell.as_mut() }.next = self.0;
        self.0 = cell.as_ptr();
    }

    /// Takes the cell of the first message.
    pub(super) fn take(&mut self) -> Option<NonNull<()>> {
        let cell = NonNull::new(self.0)?;
        // SAFETY: it is in the list.
        self.0 = unsafe { cell.as_ref() }.next;
        Some(cell.cast())
    }

    /// Takes the first of those messages, and frees its cell.
    pub(super) fn take_message(&mut self) -> Option<MaybeUninit<T>> {
        let cell = self.take()?;
        // SAFETY: made by `Box`, and out of the list.
        Some(unsafe { Box::from_raw(cell.cast::<Cell<T>>().as_ptr()) }.message)
    }
}

/// The free cells of a channel.
pub(super) struct Cells<T> {
    free: *mut Cell<T>,
}

// SAFETY: the cells are its own, and hold nothing.
unsafe impl<T> Send for Cells<T> {}

impl<T> Cells<T> {
    pub(super) const fn new() -> Self {
        Self { free: ptr::null_mut() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.free.is_null()
    }

    pub(super) fn supply(&mut self, cell: Box<Cell<T>>) {
        // SAFETY: a box's address.
        self.give_back(unsafe { NonNull::new_unchecked(Box::into_raw(cell)) });
    }

    fn give_back(&mut self, mut cell: NonNull<Cell<T>>) {
        // SAFETY: it is free, and no other thread's.
        unsafe { cell.as_mut() }.next = self.free;
        self.free = cell.as_ptr();
    }

    /// Takes a cell, and moves the message at `message` there.
    ///
    /// # Safety
    /// There is a cell, and a message.
    pub(super) unsafe fn put(&mut self, message: *const T) -> NonNull<()> {
        let cell = self.free;
        // SAFETY: the caller's promise.
        let this = unsafe { &mut *cell };
        self.free = this.next;
        // SAFETY: the caller's promise.
        unsafe { this.message.as_mut_ptr().copy_from_nonoverlapping(message, 1) };
        NonNull::from(this).cast()
    }

    /// Moves the message of a cell to `into`.
    ///
    /// # Safety
    /// The cell is one that `put` returned, of a channel of this type, and not taken yet. `into` may be
    /// written.
    pub(super) unsafe fn take(&mut self, cell: NonNull<()>, into: *mut T) {
        let cell = cell.cast::<Cell<T>>();
        // SAFETY: the caller's promise.
        let message = unsafe { cell.as_ref() }.message.as_ptr();
        // SAFETY: the caller's promise: there is a message, and `into` may be written.
        unsafe { into.copy_from_nonoverlapping(message, 1) };
        self.give_back(cell);
    }
}

impl<T> Drop for Cells<T> {
    fn drop(&mut self) {
        let mut cell = self.free;
        while !cell.is_null() {
            // SAFETY: free, made by `Box`, and out of the list.
            cell = unsafe { Box::from_raw(cell) }.next;
        }
    }
}

#[cfg(test)]
impl<T> Cells<T> {
    /// Returns the number of free cells.
    pub(super) fn len(&self) -> usize {
        let (mut cell, mut len) = (self.free, 0);
        // SAFETY: null, or free and in the list.
        while let Some(there) = unsafe { cell.as_ref() } {
            cell = there.next;
            len += 1;
        }
        len
    }
}
