//! The two ends of a channel's queue: senders claim tickets at one, receivers at the other.
//!
//! **Problem.** Senders and receivers on different CPUs should not meet at every message, and those of
//! one side should meet at one word only. But some things are decided with the channel's lock held
//! (`core.rs`):
//!
//! - A thread that waits must not be passed by.
//! - Threads that select must see several channels stand still for a moment.
//! - Room is kept for selected sends.
//!
//! **Rejected.**
//!
//! - The lock for all operations: if two CPUs fight for it, 65 to 150 ns a message, against 20 on one.
//! - To announce a waiter in a word of its own, which the other side reads after each message. Both sides
//!   need a fence. A thread that finds the announcement must fetch back a message that others may have
//!   taken.
//! - To look in the position if the message is there, before claiming it. Blocks could not be freed
//!   (`segments.rs`).
//!
//! **Protocol.** Each end has a word: the next ticket, and a bit that says that the end is *shut*. While
//! the end is open, a thread claims the ticket by compare-and-swap, if the ticket is before the *limit*.
//! For senders, the limit is what the capacity allows beyond the receivers' end; for receivers, it is the
//! senders' end. The limit is remembered beside the word. A thread looks at the other end only if that limit
//! is reached. So the two sides need each other's line only once in a while.
//!
//! A thread that holds the lock may shut an end. From then on no other thread can change its word: a swap
//! that was on its way fails. It opens the end again, unless something forbids it. A claim of the last ticket
//! of a block shuts the end in the same swap. A thread that holds the lock must then bring the next block.
//!
//! **Proof.**
//!
//! - *A ticket is claimed once*: tickets grow, and each claim is a swap of one word.
//! - *The block is that of the ticket*: an open end has the block of its next ticket, until that ticket has
//!   been claimed. A thread that claims the ticket has loaded the block between two moments at which the
//!   ticket was the next.
//! - *A limit that has been seen holds forever*: the ends only go on. A late thread may store an old
//!   limit over a newer one. Then others look again, and nothing worse. A limit that is behind the ticket
//!   is recognized as such. (If tickets have 32 bits, they wrap after two billion messages. Then this
//!   holds for threads that are not halted between their look and their swap while half of those pass.)
//! - *A look with one end shut sees the truth*: a thread shuts the senders' end and then sees the
//!   receivers' at the same ticket. There is no message, and none comes before it opens the end. The same
//!   holds for room, with the ends exchanged.
//!
//! **Cost** in read-modify-writes: a claim 1.

use crossbeam_utils::CachePadded;

use super::segments::{Block, Position, TICKET};
use crate::shim::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use crate::shim::{FEW_LOOKS, spin_hint, store_among_swaps};

const SHUT: usize = 1;

/// Pauses after a claim that others have won: two to the power of this. They double each time, up to two
/// to the power of [`MAX_BACKOFF`]. That is 1.4 us and more, in which the other CPU passes a hundred
/// messages. Measured in ns a message, between 4 senders and 4 receivers on two CPUs:
///
/// | first, longest | green threads, 64 messages | green, unbounded | kernel threads, unbounded |
/// |---|---|---|---|
/// | 0, 3 | 100 | | |
/// | 5, 8 | 52 | 35 | 41 |
/// | 7, 9 | 33 | 30 | 34 |
/// | 8, 10 | 35 | 30 | 31 |
const BACKOFF: u32 = if FEW_LOOKS > 1 { 7 } else { 0 };
const MAX_BACKOFF: u32 = BACKOFF + 2;

/// | value | meaning | next by |
/// |---|---|---|
/// | a ticket | open: the ticket is the next | a claim, or a holder of the lock that shuts the end |
/// | a ticket + 1 | shut: the ticket is the next | a holder of the lock |
struct Word(AtomicUsize);

impl Word {
    #[inline]
    fn load(&self) -> usize {
        // Acquire: pairs with the release of `open` and `move_to`, from which the swaps of others lead
        // here: the block is there. Also pairs with the release of `try_claim`: what was done before a
        // receive happens before the send that gets its room returns.
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    fn try_claim(&self, ticket: usize, is_last: bool) -> bool {
        let next = ticket.wrapping_add(TICKET) | usize::from(is_last);
        // Release: pairs with the acquire of `load`. Relaxed on failure: the word is loaded again.
        self.0.compare_exchange_weak(ticket, next, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn shut(&self) {
        // Relaxed: a read-modify-write continues the release of each claim before it. The caller looks at the
        // ticket next, and that look acquires.
        self.0.fetch_or(SHUT, Ordering::Relaxed);
    }

    /// Opens the end, which is shut.
    fn open(&self) {
        let ticket = self.load() & !SHUT;
        // Release: pairs with the acquire of `load`.
        store_among_swaps!(self.0, ticket, Ordering::Release);
    }

    /// Moves the end, which is shut and stays so, to `ticket`.
    fn move_to(&self, ticket: usize) {
        // Release: pairs with the acquire of `load`.
        store_among_swaps!(self.0, ticket | SHUT, Ordering::Release);
    }
}

/// Returns `true` if a ticket comes before another. They are never half of all numbers apart.
#[inline]
fn is_before(ticket: usize, other: usize) -> bool {
    other.wrapping_sub(ticket).cast_signed() > 0
}

/// The outcome of an attempt to move a message without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Passed {
    Yes,
    /// The end is shut: only with the lock can be seen what to do.
    Shut,
    /// There is no room, or no message.
    Limit,
}

/// One end of the queue.
pub(super) struct End<T> {
    word: Word,
    /// A limit that has been seen: tickets before it can be claimed.
    limit: AtomicUsize,
    /// The block of the next ticket, if the end is open. Changed with the lock held and the end shut.
    block: AtomicPtr<Block<T>>,
    /// For threads that look if they can go on.
    pub(super) gain: Gain,
}

/// Tells if it pays to leave the other side alone before the next look at it (`wait.rs`).
///
/// | value | meaning | next by |
/// |---|---|---|
/// | 0 | it paid the last time, or is to be tried | a long pause that did not pay: [`Gain::DOUBT`] |
/// | 1 to [`Gain::DOUBT`] | so many waits are to have no long pause | each of them: one less |
///
/// All accesses are relaxed: it orders nothing. If a change is lost, a thread pauses for too long, or too
/// short.
pub(super) struct Gain(AtomicU8);

impl Gain {
    const DOUBT: u8 = 8;

    fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Counts a wait. Returns `true` if the wait is to begin with a long pause.
    pub(super) fn count_wait(&self) -> bool {
        let doubt = self.0.load(Ordering::Relaxed);
        if doubt > 0 {
            self.0.store(doubt - 1, Ordering::Relaxed);
        }
        doubt == 0
    }

    /// Notes that a long pause found nothing, or too little.
    pub(super) fn doubt(&self) {
        self.0.store(Self::DOUBT, Ordering::Relaxed);
    }
}

impl<T> End<T> {
    fn new(ticket: usize, limit: usize) -> Self {
        Self {
            // Shut: there is no block.
            word: Word(AtomicUsize::from(ticket | SHUT)),
            limit: AtomicUsize::from(limit),
            block: AtomicPtr::default(),
            gain: Gain::new(),
        }
    }

    /// Returns how many tickets are known to be left before the limit. A guess: others may have changed
    /// both.
    pub(super) fn left(&self) -> usize {
        // Relaxed: a guess.
        let limit = self.limit.load(Ordering::Relaxed);
        let ticket = self.ticket();
        if is_before(ticket, limit) { limit.wrapping_sub(ticket) / TICKET } else { 0 }
    }

    /// Returns the next ticket.
    #[inline]
    pub(super) fn ticket(&self) -> usize {
        self.word.load() & !SHUT
    }

    pub(super) fn is_shut(&self) -> bool {
        self.word.load() & SHUT != 0
    }

    /// Shuts the end: from here on only the caller changes it. Called with the lock held.
    #[inline]
    pub(super) fn shut(&self) {
        if !self.is_shut() {
            self.word.shut();
        }
    }

    /// Opens the end. Called with the lock held, and the end shut, with the block of its next ticket.
    pub(super) fn open(&self) {
        debug_assert!(self.is_shut() && !self.block().is_null());
        self.word.open();
    }

    /// Moves the end to `ticket`. Called with the lock held, and the end shut.
    pub(super) fn move_to(&self, ticket: usize) {
        debug_assert!(self.is_shut());
        // The limit goes along. Otherwise the ticket of a channel that is used only with the lock could
        // get so far that the limit seems to lie ahead again. Relaxed: it allows nothing.
        self.limit.store(ticket, Ordering::Relaxed);
        self.word.move_to(ticket);
    }

    pub(super) fn block(&self) -> *mut Block<T> {
        // Relaxed: a holder of the lock sees it by the lock, others by the word, which they load before
        // it.
        self.block.load(Ordering::Relaxed)
    }

    /// Sets the block. Called with the lock held, and the end shut.
    pub(super) fn set_block(&self, block: *mut Block<T>) {
        // Relaxed: as in `block`: the lock or the word shows it.
        self.block.store(block, Ordering::Relaxed);
    }

    /// Returns `true` if the block is that of the next ticket. Called with the lock held.
    pub(super) fn has_position(&self) -> bool {
        // SAFETY: null, or the first or last block of the chain, which is not retired meanwhile.
        unsafe { self.block().as_ref() }.is_some_and(|block| block.holds(self.ticket()))
    }

    /// Takes the next ticket. Called with the lock held, and the end shut.
    ///
    /// # Safety
    /// The block is that of the next ticket.
    #[inline]
    pub(super) unsafe fn advance(&self) -> (usize, &Position<T>) {
        let ticket = self.ticket();
        self.move_to(ticket.wrapping_add(TICKET));
        // SAFETY: the caller's promise.
        (ticket, unsafe { Block::position(self.block(), ticket) })
    }

    /// Claims the next ticket, if that is possible without the lock. `limit` reads the other end.
    #[inline]
    pub(super) fn claim(&self, limit: impl Fn() -> usize) -> Result<(usize, *mut Block<T>), Passed> {
        let mut word = self.word.load();
        let mut backoff = BACKOFF;
        loop {
            if word & SHUT != 0 {
                return Err(Passed::Shut);
            }
            // Acquire and Release: a thread that sees a limit sees what the thread that stored it saw
            // (`Word::load`).
            if !is_before(word, self.limit.load(Ordering::Acquire)) {
                let limit = limit();
                if !is_before(word, limit) {
                    return Err(Passed::Limit);
                }
                self.limit.store(limit, Ordering::Release);
            }
            let block = self.block();
            if self.word.try_claim(word, Block::<T>::is_last(word)) {
                return Ok((word, block));
            }
            (0..1u32 << backoff).for_each(|_| spin_hint());
            backoff = MAX_BACKOFF.min(backoff + 1);
            word = self.word.load();
        }
    }
}

/// Both ends of the queue.
pub(super) struct Ends<T> {
    /// The end at which senders claim.
    pub(super) tail: CachePadded<End<T>>,
    /// The end at which receivers claim.
    pub(super) head: CachePadded<End<T>>,
    /// How far the tail may be ahead of the head, in tickets.
    span: usize,
    /// How many messages were returned, which come before those between the ends. Changed with the lock held.
    returned: AtomicUsize,
}

// SAFETY: messages are passed from thread to thread, and never shared.
unsafe impl<T: Send> Sync for Ends<T> {}
// SAFETY: messages are never shared.
unsafe impl<T: Send> Send for Ends<T> {}

impl<T> Ends<T> {
    /// Creates the ends of a channel with that capacity. `first` is the first ticket, that of a block's
    /// first position.
    pub(super) fn new(capacity: usize, first: usize) -> Self {
        let span = TICKET * capacity.min(usize::MAX / 4 / TICKET);
        Self {
            tail: CachePadded::new(End::new(first, first.wrapping_add(span))),
            head: CachePadded::new(End::new(first, first)),
            span,
            returned: AtomicUsize::new(0),
        }
    }

    /// Moves the message away from `message`, unless the outcome says that the lock is needed.
    ///
    /// # Safety
    /// There is a message. The caller is not preempted (I9).
    #[inline]
    pub(super) unsafe fn push(&self, message: *const T) -> Passed {
        match self.tail.claim(|| self.head.ticket().wrapping_add(self.span)) {
            Ok((ticket, block)) => {
                // SAFETY: the block of a claimed ticket is there.
                let position = unsafe { Block::position(block, ticket) };
                // SAFETY: claimed; the caller's promise.
                unsafe { position.put(ticket, message) };
                Passed::Yes
            }
            Err(why) => why,
        }
    }

    /// Moves the first message to `into`, unless the outcome says that the lock is needed.
    ///
    /// # Safety
    /// `into` may be written. The caller is not preempted (I9).
    #[inline]
    pub(super) unsafe fn pop(&self, into: *mut T) -> Passed {
        match self.head.claim(|| self.tail.ticket()) {
            Ok((ticket, block)) => {
                // SAFETY: the block of a claimed ticket is there.
                let position = unsafe { Block::position(block, ticket) };
                // SAFETY: claimed; the caller's promise.
                unsafe { position.take(ticket, into) };
                Passed::Yes
            }
            Err(why) => why,
        }
    }

    /// Returns `true` if there is no message. If either end is shut, the answer is exact.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.ticket() == self.tail.ticket()
    }

    /// Returns how many messages there are, or were a moment ago.
    pub(super) fn len(&self) -> usize {
        loop {
            let tail = self.tail.ticket();
            let head = self.head.ticket();
            // If the tail has not moved, both were so at the moment of the look at the head.
            if self.tail.ticket() == tail {
                // Relaxed: only a look.
                return tail.wrapping_sub(head) / TICKET + self.returned.load(Ordering::Relaxed);
            }
        }
    }

    /// Notes that so many messages more were returned. The lock is held.
    pub(super) fn count_returned(&self, more: isize) {
        // Relaxed, both: the lock orders them.
        let returned = self.returned.load(Ordering::Relaxed);
        self.returned.store(returned.wrapping_add_signed(more), Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_head_tail;
