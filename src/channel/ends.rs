//! The two ends of a channel's queue: where senders claim tickets, and where receivers do.
//!
//! **Problem.** Senders and receivers on different CPUs should not meet at every message, and those of one side at no more than one
//! word. But whoever waits must not be passed by, threads that select must see several channels stand still for a moment, and room is
//! kept for some: all that is decided with the channel's lock held (`core.rs`).
//!
//! **Rejected.** The lock for all (as it was): 65 to 150 ns a message where two CPUs fight for it, against 20 on one. To announce a
//! waiter in a word of its own, which the other side reads after each message: both sides need a fence, and who finds the announcement
//! must fetch back a message that others may have taken. To look into the slot whether the message is there, before claiming it: blocks
//! could not be freed (`blocks.rs`).
//!
//! **Protocol.** Each end has a word: the next ticket, and a bit that says that the end is *shut*. As long as it is open, a thread claims
//! the ticket by compare-and-swap, if the ticket is before the *limit*: for senders what the capacity allows beyond the
//! receivers' end, for receivers the senders' end. The limit is remembered beside the word, and only where it is reached the other end is
//! looked at; so the two sides need each other's line once in a while.
//!
//! Who holds the lock shuts an end, and from then on nobody else can change its word: a swap that was on its way fails. It opens it
//! when nothing speaks against it. Who claims the last ticket of a block shuts the end in the same swap: somebody must bring
//! the next block, with the lock held.
//!
//! **Proof.** *A ticket is claimed once*: tickets grow, and each claim is a swap of one word. *The block is that of the ticket*: an end that
//! is open has the block of its next ticket, and no other before that ticket has been claimed; who swaps the ticket away has found
//! it between two moments at which it was the next. *A limit that has been seen holds for ever*: the ends only go on. So an old one,
//! which a late thread has stored over a newer, makes others look again and nothing worse; and one that is behind the ticket is seen to
//! be so. (Where tickets have 32 bits they go round after two billion messages, and this
//! holds for threads that are not halted between their look and their swap while half of those pass.) *Who finds nothing with one end
//! shut has seen the truth*: it shuts the senders' end and then sees the receivers' at the same ticket: no message is there, and none comes
//! before it opens the end. The same for room, with the ends exchanged.
//!
//! **Cost** in read-modify-writes: a claim 1.

use crossbeam_utils::CachePadded;

use super::blocks::{Block, TICKET};
use crate::shim::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use crate::shim::{FEW_LOOKS, spin_hint, store_ticket_among_swaps};

const SHUT: usize = 1;

/// Pauses after a claim that others have won: two to the power of this, and then twice as many each time, up to the second: 1.4 us and
/// more, in which the other CPU passes a hundred messages. ns a message, between 4 senders and 4 receivers on two CPUs:
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
/// | a ticket | open: the ticket is the next | anybody, claiming it; or who holds the lock, shutting the end |
/// | a ticket + 1 | shut: as above | who holds the lock |
struct Word(AtomicUsize);

impl Word {
    #[inline]
    fn load(&self) -> usize {
        // Acquire: pairs with the release of `open` and `move_to`, from which the swaps of others lead here: the block is there; and with that
        // of `try_claim`: what was done before a receive happens before the send that gets its room has returned.
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    fn try_claim(&self, ticket: usize, is_last: bool) -> bool {
        let next = ticket.wrapping_add(TICKET) | usize::from(is_last);
        // Release: pairs with the acquire of `load`. Relaxed on failure: it is loaded again.
        self.0.compare_exchange_weak(ticket, next, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn shut(&self) {
        // AcqRel: acquire pairs with the release of `try_claim`, to be handed on by `open`; release, to be one of the swaps of `load`.
        self.0.fetch_or(SHUT, Ordering::AcqRel);
    }

    /// With the end shut.
    fn open(&self) {
        let ticket = self.load() & !SHUT;
        // Release: pairs with the acquire of `load`.
        store_ticket_among_swaps(&self.0, ticket, Ordering::Release);
    }

    /// With the end shut, and so it stays.
    fn move_to(&self, ticket: usize) {
        // Release: pairs with the acquire of `load`.
        store_ticket_among_swaps(&self.0, ticket | SHUT, Ordering::Release);
    }
}

/// Whether a ticket comes before another; they are never half of all numbers apart.
#[inline]
fn is_before(ticket: usize, other: usize) -> bool {
    other.wrapping_sub(ticket).cast_signed() > 0
}

/// Whether a message was moved without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Passed {
    Yes,
    /// The end is shut: with the lock it can be seen what to do.
    Shut,
    /// There is no room, or no message.
    Limit,
}

/// One end.
pub(super) struct End<T> {
    word: Word,
    /// A limit that has been seen: tickets before it can be claimed.
    limit: AtomicUsize,
    /// Of the next ticket, if the end is open. Changed with the lock held and the end shut.
    block: AtomicPtr<Block<T>>,
    /// For those who look whether they can go on.
    pub(super) gain: Gain,
}

/// Whether it pays to leave the other side alone before the next look at it (`wait.rs`).
///
/// | value | meaning | next by |
/// |---|---|---|
/// | 0 | it has paid the last time, or is to be tried | a long pause that did not pay: [`Gain::DOUBT`] |
/// | 1 to [`Gain::DOUBT`] | so many waits go by without | each of them: one less |
///
/// All accesses are relaxed: it orders nothing, and a change that is lost makes somebody pause for too long, or too short.
pub(super) struct Gain(AtomicU8);

impl Gain {
    const DOUBT: u8 = 8;

    fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Whether this wait is to begin with a long pause.
    pub(super) fn is_expected(&self) -> bool {
        let doubt = self.0.load(Ordering::Relaxed);
        if doubt > 0 {
            self.0.store(doubt - 1, Ordering::Relaxed);
        }
        doubt == 0
    }

    /// A long pause was for nothing, or next to it.
    pub(super) fn is_doubted(&self) {
        self.0.store(Self::DOUBT, Ordering::Relaxed);
    }
}

impl<T> End<T> {
    fn new(ticket: usize, limit: usize) -> Self {
        Self {
            // Without a block.
            word: Word(AtomicUsize::from(ticket | SHUT)),
            limit: AtomicUsize::from(limit),
            block: AtomicPtr::default(),
            gain: Gain::new(),
        }
    }

    /// How many tickets are known to be left before the limit. A guess: others may have changed both.
    pub(super) fn left(&self) -> usize {
        // Relaxed: as said.
        let limit = self.limit.load(Ordering::Relaxed);
        let ticket = self.ticket();
        if is_before(ticket, limit) { limit.wrapping_sub(ticket) / TICKET } else { 0 }
    }

    /// The next ticket.
    #[inline]
    pub(super) fn ticket(&self) -> usize {
        self.word.load() & !SHUT
    }

    pub(super) fn is_shut(&self) -> bool {
        self.word.load() & SHUT != 0
    }

    /// From here on only the caller changes it. Called with the lock held.
    #[inline]
    pub(super) fn shut(&self) {
        if !self.is_shut() {
            self.word.shut();
        }
    }

    /// Called with the lock held, and the end shut, with the block of its next ticket.
    pub(super) fn open(&self) {
        debug_assert!(self.is_shut() && !self.block().is_null());
        self.word.open();
    }

    /// Called with the lock held, and the end shut.
    pub(super) fn move_to(&self, ticket: usize) {
        debug_assert!(self.is_shut());
        // The limit goes along, or a channel that is used with the lock only would come to where it seems to lie ahead again. Relaxed: it
        // allows nothing.
        self.limit.store(ticket, Ordering::Relaxed);
        self.word.move_to(ticket);
    }

    pub(super) fn block(&self) -> *mut Block<T> {
        // Relaxed: the lock shows it to who holds that; the word, which is loaded before it, to others.
        self.block.load(Ordering::Relaxed)
    }

    /// Called with the lock held, and the end shut.
    pub(super) fn set_block(&self, block: *mut Block<T>) {
        // Relaxed: as above.
        self.block.store(block, Ordering::Relaxed);
    }

    /// Claims the next ticket, if that is possible without the lock. `limit` looks at the other end.
    #[inline]
    pub(super) fn claim(&self, limit: impl Fn() -> usize) -> Result<(usize, *mut Block<T>), Passed> {
        let mut word = self.word.load();
        let mut backoff = BACKOFF;
        loop {
            if word & SHUT != 0 {
                return Err(Passed::Shut);
            }
            // Acquire and Release: who sees a limit sees what was seen by who stored it (`Word::load`).
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

/// Both ends.
pub(super) struct Ends<T> {
    /// Where senders claim.
    pub(super) tail: CachePadded<End<T>>,
    /// Where receivers do.
    pub(super) head: CachePadded<End<T>>,
    /// How far the tail may be before the head, in tickets.
    span: usize,
}

// SAFETY: messages are passed from thread to thread, and shown to nobody else.
unsafe impl<T: Send> Sync for Ends<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ends<T> {}

impl<T> Ends<T> {
    /// With that capacity. `first` is the first ticket, of a block's first slot.
    pub(super) fn new(capacity: usize, first: usize) -> Self {
        let span = TICKET * capacity.min(usize::MAX / 4 / TICKET);
        Self {
            tail: CachePadded::new(End::new(first, first.wrapping_add(span))),
            head: CachePadded::new(End::new(first, first)),
            span,
        }
    }

    /// Moves the message away from `message`, and says so; or says that the lock is needed.
    ///
    /// # Safety
    /// There is one. The caller is not preempted (I9).
    #[inline]
    pub(super) unsafe fn push(&self, message: *const T) -> Passed {
        match self.tail.claim(|| self.head.ticket().wrapping_add(self.span)) {
            Ok((ticket, block)) => {
                // SAFETY: the block of a ticket that has been claimed is there.
                let slot = unsafe { Block::slot(block, ticket) };
                // SAFETY: claimed; the caller's promise.
                unsafe { slot.put(ticket, message) };
                Passed::Yes
            }
            Err(why) => why,
        }
    }

    /// Moves the first message to `into`, and says so; or says that the lock is needed.
    ///
    /// # Safety
    /// It may be written. The caller is not preempted (I9).
    #[inline]
    pub(super) unsafe fn pop(&self, into: *mut T) -> Passed {
        match self.head.claim(|| self.tail.ticket()) {
            Ok((ticket, block)) => {
                // SAFETY: as in `push`.
                let slot = unsafe { Block::slot(block, ticket) };
                // SAFETY: as in `push`.
                unsafe { slot.take(ticket, into) };
                Passed::Yes
            }
            Err(why) => why,
        }
    }

    /// Whether there is no message. With either end shut, so it is.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.ticket() == self.tail.ticket()
    }

    /// How many messages there are, or were a moment ago.
    pub(super) fn len(&self) -> usize {
        loop {
            let tail = self.tail.ticket();
            let head = self.head.ticket();
            // If the tail has not moved, both were so at the moment at which the head was looked at.
            if self.tail.ticket() == tail {
                return tail.wrapping_sub(head) / TICKET;
            }
        }
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_ends.rs"]
mod loom_ends;
