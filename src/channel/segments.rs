//! Where messages lie on their way: blocks of positions. One sender and one receiver use each position.
//!
//! **Rejected.**
//!
//! - A ring as large as the capacity: an unbounded channel has none, and a large one is rarely full.
//! - A ring that grows. A thread that copies it must stop all others.
//!
//! So all channels have blocks, and few: a used block is kept for the next time. If a channel has few
//! messages, that is all it needs.
//!
//! **Protocol.** Messages are numbered, and their tickets are even numbers: that of the n-th is 2n. A thread
//! claims a ticket at the end of the senders or of the receivers (`head_tail.rs`). It then has the position
//! of that number to itself. A sender writes the message and then the stamp. A receiver waits for the stamp,
//! which is usually there, takes the message, and stamps again.
//!
//! The tickets of a block are given out in order. When a receiver has claimed the last, the block is
//! *retired*: with the channel's lock held it is taken off the chain. Some of its receivers may still be
//! copying. When all stamps say that they are done, the block is used again, or freed.
//!
//! **Proof.**
//!
//! - *No thread uses a block that is freed.* A thread looks into a block only if it has claimed one of
//!   its tickets. It leaves its stamp last. (A receiver that looked in the position for a message would
//!   have no claim, and blocks could never be freed.)
//! - *Senders find their position free*: they come after the block was put into the chain. That is after all
//!   its stamps had been seen.
//!
//! **Cost.** A message's position travels to the other CPU and back, with those beside it. Each claim waits
//! for what its thread has written before. So both sides prefetch the next line. ns a message between
//! kernel threads on two busy CPUs, by senders and receivers:
//!
//! | | capacity 64, 4 and 1 | capacity 64, 4 and 4 | unbounded, 4 and 4 |
//! |---|---|---|---|
//! | without | 60 | 56 | 47 |
//! | with | 50 | 48 | 40 |
//!
//! It makes no difference if receivers only read the positions, and write into a line beside them.
//!
//! *Length*: 64 positions, or fewer if messages are large: a channel has two blocks as soon as it is used,
//! whatever its capacity.
//!
//! Blocks are neither made nor freed with the lock held. A thread that pushes provides a block
//! (`NeedsBlock`); a thread that pops gets what is to be freed ([`Garbage`]).

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::mem::{self, MaybeUninit};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;

use crate::park::backoff::Backoff;
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::{UnsafeCell, fetch_to_write};

/// The most messages in a block: a power of two. Longer blocks save visits to the lock and allocations.
pub(super) const BLOCK: usize = crate::shim::CHANNEL_BLOCK;
/// The fewest messages in a block.
const SHORT_BLOCK: usize = 2;
/// The most bytes of positions in a block that has more than the fewest positions. Range: 8 to 64 KiB. With
/// this, blocks for messages of 500 bytes still have 64 positions.
const BLOCK_BYTES: usize = 32 << 10;
/// The most unused blocks that a channel keeps. Their bytes are limited too, but one is always kept:
/// otherwise each second block of a queue that grows and shrinks is allocated.
const SPARES: usize = 16;
const SPARE_BYTES: usize = 64 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

/// What one message more adds to a ticket.
pub(super) const TICKET: usize = 2;

/// | value | meaning | next by |
/// |---|---|---|
/// | the position's ticket + 1 | the message is there | its receiver: `empty` |
/// | the position's ticket + 2 | it has been taken | a later sender, when the block is in the chain again |
/// | anything else | it is not there yet | the sender with the ticket: `fill` |
///
/// The stamps of a block outside of the chain are of messages that have been taken, all of one pass (or
/// of none). Odd numbers, which say that a message is there, are never left over.
struct Stamp(AtomicUsize);

impl Stamp {
    fn new() -> Self {
        Self(AtomicUsize::from(0))
    }

    #[inline]
    fn fill(&self, ticket: usize) {
        // Release: pairs with the acquire of `is_full`: the message is there.
        self.0.store(ticket.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    fn is_full(&self, ticket: usize) -> bool {
        // Acquire: pairs with the release of `fill`.
        self.0.load(Ordering::Acquire) == ticket.wrapping_add(1)
    }

    #[inline]
    fn empty(&self, ticket: usize) {
        // Release: pairs with the acquire of `is_taken`: no thread reads the position.
        self.0.store(ticket.wrapping_add(TICKET), Ordering::Release);
    }

    /// Resets the stamp of an unused position: its next message is neither there nor taken.
    fn forget(&self, ticket: usize) {
        // Relaxed: a thread that gets the ticket sees the block through the end's word.
        self.0.store(ticket, Ordering::Relaxed);
    }

    fn is_taken(&self, ticket: usize) -> bool {
        // Acquire: pairs with the release of `empty`.
        self.0.load(Ordering::Acquire) == ticket.wrapping_add(TICKET)
    }
}

/// Where one message lies, and what says that it is there.
pub(super) struct Position<T> {
    stamp: Stamp,
    message: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Position<T> {
    /// The distance to the positions that are used next and share no cache line with this one.
    const AHEAD: usize = if size_of::<Self>() > LINE { size_of::<Self>() } else { LINE };

    /// Prefetches a line of the next positions. Both sides write into the positions in order, and their next
    /// claim waits for those writes, which wait for a line from the other CPU.
    #[inline]
    fn fetch_next(&self) {
        fetch_to_write(ptr::from_ref(self).cast::<u8>().wrapping_add(Self::AHEAD));
    }

    /// # Safety
    /// The caller has claimed the ticket, which is the position's, as a sender. It moves the message away
    /// from `message`.
    #[inline]
    pub(super) unsafe fn put(&self, ticket: usize, message: *const T) {
        self.fetch_next();
        // SAFETY: the caller's promise: no other thread uses the position.
        self.message
            .with_mut(|message_at| unsafe { ptr::copy_nonoverlapping(message, message_at.cast(), 1) });
        self.stamp.fill(ticket);
        // From here on the block may be gone.
    }

    /// # Safety
    /// The caller has claimed the ticket, which is the position's, as a receiver. `into` may be written.
    #[inline]
    pub(super) unsafe fn take(&self, ticket: usize, into: *mut T) {
        self.fetch_next();
        if !self.stamp.is_full(ticket) {
            self.wait(ticket);
        }
        // SAFETY: the caller's promise: no other thread uses the position, and its sender has left.
        self.message.with(|message_at| unsafe { ptr::copy_nonoverlapping(message_at.cast(), into, 1) });
        self.stamp.empty(ticket);
        // From here on the block may be gone.
    }

    /// [`take`](Self::take) without a look at the stamp: a model must find the bug.
    #[cfg(all(test, loom))]
    pub(super) unsafe fn take_unseen(&self, into: *mut T) {
        // SAFETY: it is not safe: that is the bug.
        self.message.with(|message_at| unsafe { ptr::copy_nonoverlapping(message_at.cast(), into, 1) });
    }

    /// Waits until the sender with the same ticket is through.
    #[cold]
    fn wait(&self, ticket: usize) {
        let mut backoff = Backoff::new();
        while !self.stamp.is_full(ticket) {
            backoff.pause();
        }
    }
}

/// The head of a block. [`LEN`](Self::LEN) positions follow it in the same allocation.
#[repr(C)]
pub(super) struct Block<T> {
    /// The next block in its list, and the ticket of its first position. Used with the lock held.
    next: Cell<*mut Block<T>>,
    first: Cell<usize>,
    positions: [Position<T>; 0],
}

/// A block that is in no list and not in use.
pub(super) struct OwnedBlock<T>(NonNull<Block<T>>);

impl<T> OwnedBlock<T> {
    /// Allocates a block. Called without any lock.
    #[cold]
    pub(super) fn new() -> Self {
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc::alloc(Block::<T>::LAYOUT) };
        let Some(block) = NonNull::new(memory.cast::<Block<T>>()) else {
            alloc::handle_alloc_error(Block::<T>::LAYOUT)
        };
        let head = Block { next: Cell::new(ptr::null_mut()), first: Cell::new(0), positions: [] };
        // SAFETY: new, and large enough.
        unsafe { block.write(head) };
        for index in 0..Block::<T>::LEN {
            let position = Position { stamp: Stamp::new(), message: UnsafeCell::new(MaybeUninit::uninit()) };
            // SAFETY: the allocation has `LEN` positions. The message of a position may be uninitialized.
            unsafe { Block::positions(block.as_ptr()).wrapping_add(index).write(position) };
        }
        Self(block)
    }

    /// # Safety
    /// [`into_raw`](Self::into_raw) returned the block. It is in no list, and no other code uses it again.
    unsafe fn from_raw(block: *mut Block<T>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { NonNull::new_unchecked(block) })
    }

    fn into_raw(self) -> *mut Block<T> {
        let block = self.0.as_ptr();
        mem::forget(self);
        block
    }
}

impl<T> Deref for OwnedBlock<T> {
    type Target = Block<T>;

    fn deref(&self) -> &Block<T> {
        // SAFETY: ours, so it exists.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for OwnedBlock<T> {
    fn drop(&mut self) {
        let block = self.0.as_ptr();
        // SAFETY: ours, with `LEN` positions; all messages have been moved away. (With std's cells, a
        // position has nothing to drop.)
        unsafe { ptr::slice_from_raw_parts_mut(Block::positions(block), Block::<T>::LEN).drop_in_place() };
        // SAFETY: allocated by `new` with this layout.
        unsafe { alloc::dealloc(block.cast(), Block::<T>::LAYOUT) };
    }
}

impl<T> Block<T> {
    /// The number of positions: a power of two.
    pub(super) const LEN: usize = {
        let mut len = BLOCK;
        while len > SHORT_BLOCK && len * size_of::<Position<T>>() > BLOCK_BYTES {
            len /= 2;
        }
        len
    };

    pub(super) const LAYOUT: Layout = {
        let size = mem::offset_of!(Self, positions) + Self::LEN * size_of::<Position<T>>();
        match Layout::from_size_align(size, align_of::<Self>()) {
            Ok(layout) => layout,
            Err(_) => panic!("messages of a channel are too large"),
        }
    };

    /// Returns `true` if the ticket is the last of its block.
    #[inline]
    pub(super) fn is_last(ticket: usize) -> bool {
        ticket / TICKET % Self::LEN == Self::LEN - 1
    }

    /// Returns the address of the positions. It comes from the block's pointer, because a reference covers
    /// the head only.
    #[inline]
    fn positions(this: *const Self) -> *mut Position<T> {
        this.cast_mut().wrapping_byte_add(mem::offset_of!(Self, positions)).cast()
    }

    /// Returns the position of a ticket.
    ///
    /// # Safety
    /// The block exists for as long as the position is used.
    #[inline]
    pub(super) unsafe fn position<'a>(this: *const Self, ticket: usize) -> &'a Position<T> {
        // SAFETY: the caller's promise; the index is less than `LEN`.
        unsafe { &*Self::positions(this).wrapping_add(ticket / TICKET % Self::LEN) }
    }

    pub(super) fn next(&self) -> *mut Self {
        self.next.get()
    }

    pub(super) fn set_next(&self, next: *mut Self) {
        self.next.set(next);
    }

    /// Prepares the block to hold the messages from ticket `first` on.
    ///
    /// # Safety
    /// The block exists, and no thread uses it.
    pub(super) unsafe fn begin(this: *const Self, first: usize) {
        debug_assert!((first / TICKET).is_multiple_of(Self::LEN));
        // SAFETY: the caller's promise.
        let mut stamps = unsafe { Self::stamps(this, first) };
        if stamps.next().is_some_and(|(stamp, ticket)| stamp.is_taken(ticket)) {
            // The block was unused while the tickets wrapped. If they have 32 bits, they do so after two
            // billion messages.
            // SAFETY: the caller's promise.
            unsafe { Self::stamps(this, first) }.for_each(|(stamp, ticket)| stamp.forget(ticket));
        }
        // SAFETY: the caller's promise.
        let head = unsafe { &*this };
        head.next.set(ptr::null_mut());
        head.first.set(first);
    }

    /// Returns the stamp of each position with its ticket, if `first` is the ticket of the first position.
    ///
    /// # Safety
    /// The block exists for `'a`.
    #[inline]
    unsafe fn stamps<'a>(this: *const Self, first: usize) -> impl Iterator<Item = (&'a Stamp, usize)>
    where
        T: 'a,
    {
        // SAFETY: the caller's promise; the block has so many positions, which change only inside of their
        // cells.
        let positions = unsafe { slice::from_raw_parts(Self::positions(this), Self::LEN) };
        positions
            .iter()
            .enumerate()
            .map(move |(n, position)| (&position.stamp, first.wrapping_add(TICKET * n)))
    }

    /// Returns `true` if the ticket is of a position of this block.
    pub(super) fn holds(&self, ticket: usize) -> bool {
        ticket.wrapping_sub(self.first.get()) < TICKET * Self::LEN
    }

    /// Returns `true` if all messages have been taken, by receivers that do not need the block again.
    ///
    /// # Safety
    /// The block exists.
    unsafe fn is_through(this: *const Self) -> bool {
        // SAFETY: the caller's promise.
        let first = unsafe { &*this }.first.get();
        // SAFETY: the caller's promise.
        unsafe { Self::stamps(this, first) }.all(|(stamp, ticket)| stamp.is_taken(ticket))
    }
}

/// Blocks to be freed when no lock is held.
#[must_use]
pub(super) struct Garbage {
    first: *mut (),
    free: unsafe fn(*mut ()),
}

impl Drop for Garbage {
    fn drop(&mut self) {
        // SAFETY: blocks that were taken out of their lists, with the function that frees blocks of their
        // type; called once.
        unsafe { (self.free)(self.first) };
    }
}

/// Frees a list of blocks.
///
/// # Safety
/// They are [`Block<T>`]s, in no other list, and not used again.
pub(super) unsafe fn free<T>(first: *mut ()) {
    let mut block = first.cast::<Block<T>>();
    while !block.is_null() {
        // SAFETY: the caller's promise; each block once.
        block = unsafe { OwnedBlock::from_raw(block) }.next.get();
    }
}

/// The blocks of a channel that are not in its chain. Used with the lock held.
pub(super) struct Store<T> {
    /// Unused blocks, and how many.
    spare: *mut Block<T>,
    spares: usize,
    /// Retired blocks, the oldest first.
    retired: *mut Block<T>,
    last_retired: *mut Block<T>,
}

// SAFETY: the blocks are its own, except for receivers that have claimed one of their messages.
unsafe impl<T: Send> Send for Store<T> {}

impl<T> Store<T> {
    /// The most unused blocks that it keeps.
    const SPARES: usize = {
        let fit = SPARE_BYTES / Block::<T>::LAYOUT.size();
        if fit < 1 {
            1
        } else if fit > SPARES {
            SPARES
        } else {
            fit
        }
    };

    pub(super) const fn new() -> Self {
        let null = ptr::null_mut();
        Self { spare: null, spares: 0, retired: null, last_retired: null }
    }

    /// Adds a block. Returns it if there is a spare one already.
    pub(super) fn supply(&mut self, block: OwnedBlock<T>) -> Option<OwnedBlock<T>> {
        if !self.spare.is_null() {
            return Some(block);
        }
        // SAFETY: ours from here on.
        unsafe { self.keep(block.into_raw()) };
        None
    }

    /// # Safety
    /// The block is in no list, and no thread uses it.
    unsafe fn keep(&mut self, block: *mut Block<T>) {
        // SAFETY: the caller's promise.
        unsafe { (*block).next.set(self.spare) };
        self.spare = block;
        self.spares += 1;
    }

    /// Takes a block that no thread uses, if there is one.
    pub(super) fn take(&mut self) -> Option<NonNull<Block<T>>> {
        if self.spare.is_null() {
            self.sweep(None);
        }
        let block = NonNull::new(self.spare)?;
        // SAFETY: ours, from the list of spare blocks.
        self.spare = unsafe { block.as_ref() }.next.get();
        self.spares -= 1;
        Some(block)
    }

    /// Takes back a block, after receivers have claimed all its tickets.
    ///
    /// # Safety
    /// The block is in no list.
    pub(super) unsafe fn retire(&mut self, block: *mut Block<T>, garbage: &mut Option<Garbage>) {
        // SAFETY: the caller's promise.
        unsafe { (*block).next.set(ptr::null_mut()) };
        if self.retired.is_null() {
            self.retired = block;
        } else {
            // SAFETY: in our list.
            unsafe { (*self.last_retired).next.set(block) };
        }
        self.last_retired = block;
        self.sweep(Some(garbage));
    }

    /// Uses retired blocks again while receivers may be in them: a model must find the bug.
    #[cfg(all(test, loom))]
    pub(super) fn sweep_unseen(&mut self) {
        // SAFETY: null, or in our list.
        while let Some(next) = unsafe { self.retired.as_ref() }.map(|block| block.next.get()) {
            let block = std::mem::replace(&mut self.retired, next);
            // SAFETY: it is not safe: that is the bug.
            unsafe { self.keep(block) };
        }
    }

    /// Takes the oldest retired blocks out of their list, up to the first that a thread still uses. The
    /// caller drops `garbage` when it holds no lock. Without `garbage`, blocks that are too many stay where
    /// they are.
    fn sweep(&mut self, mut garbage: Option<&mut Option<Garbage>>) {
        // SAFETY: in our list, if not null.
        while !self.retired.is_null() && unsafe { Block::is_through(self.retired) } {
            let block = self.retired;
            // SAFETY: in our list.
            let next = unsafe { &(*block).next };
            if self.spares < Self::SPARES {
                self.retired = next.get();
                // SAFETY: out of its list, and no thread uses it.
                unsafe { self.keep(block) };
            } else if let Some(garbage) = &mut garbage {
                self.retired = next.get();
                let garbage = garbage.get_or_insert(Garbage { first: ptr::null_mut(), free: free::<T> });
                next.set(garbage.first.cast());
                garbage.first = block.cast();
            } else {
                return;
            }
        }
    }
}

impl<T> Drop for Store<T> {
    fn drop(&mut self) {
        for first in [self.spare, self.retired] {
            // SAFETY: our lists; the thread that drops them is alone.
            unsafe { free::<T>(first.cast()) };
        }
    }
}
