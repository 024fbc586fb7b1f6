//! Whether a descriptor is ready in one direction, and the threads that wait until it is.
//!
//! **Problem.** A system call says that it would block, and its thread decides to sleep. Meanwhile an event
//! says that the descriptor is ready. Events come once for each change, so none may be lost. And a thread
//! that knows that its call would block should not make it.
//!
//! **Rejected.** To ask for each event anew (`EPOLLONESHOT`): one more system call for each message. One
//! place for one waiter: several threads may read from, or accept at, one descriptor.
//!
//! **Protocol.** One word has a count of events. It also has four flags, and the life of its entry.
//!
//! 1. A thread loads the word, and makes its system call. If that would block, or has taken all that there
//!    was, the thread clears READY, unless the word has changed.
//! 2. To wait, it queues on the word's address. With the lock of the queue held, it looks at the word once
//!    more. If READY is clear, it sets WAITED, and sleeps.
//! 3. An event adds one to the count and sets READY, in one step. If it finds WAITED, it locks the queue,
//!    clears WAITED, and takes all waiters off.
//!
//! A call that takes less than it asked for has taken all, with two exceptions. At the end, the next call
//! must be made, too, though no event announces it. So the event of the end sets CLOSED. Before urgent bytes,
//! a call stops. So an event that tells of these sets URGENT. Either keeps READY, until a call would block: a
//! FIFO has another writer after the end of its last.
//!
//! **Proof** that no event is lost. An event either comes before the load of 1, and then the call sees what
//! it announced. Or it changes the word. Then READY is not cleared by 1, or it is set again, and 2 finds it.
//! If the event comes after 2, it finds WAITED.
//!
//! An event of an earlier life of the entry finds another number in the word, and does nothing.

use std::ptr;

use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Grants, Invalid, Options, Order, Token, Woken};
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::poll_set::Report;
use crate::shim::{fetch_to_write, store_among_swaps};

/// A thread waits, or is about to.
const WAITED: u64 = 1;
/// A call may not block.
const READY: u64 = 1 << 1;
/// No call blocks any more, as far as events have told.
const CLOSED: u64 = 1 << 2;
/// There are urgent bytes.
const URGENT: u64 = 1 << 3;
/// One event.
const EVENT: u64 = 1 << 4;
/// The bits of the life.
const LIFE: u64 = !0 << 32;

/// The only token of these queues.
const READIED: Token = Token(0);

/// See the header.
#[derive(Debug)]
pub(crate) struct Readiness(AtomicU64);

/// The word at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    /// Returns `true` if a call may not block.
    #[inline]
    pub(crate) fn is_ready(self) -> bool {
        self.0 & READY != 0
    }

    /// Returns `true` if no call blocks any more, as far as events have told.
    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }
}

impl Readiness {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(READY))
    }

    /// Begins the entry's life of this number. No thread waits.
    pub(super) fn begin(&self, life: u32) {
        // Release: an event that finds this life finds what was before.
        store_among_swaps!(self.0, u64::from(life) << 32 | READY, Ordering::Release);
    }

    /// Does step 1, before the call.
    #[inline]
    pub(crate) fn look(&self) -> Seen {
        // Acquire: pairs with `notify`; the call comes after.
        Seen(self.0.load(Ordering::Acquire))
    }

    /// Does step 1, after a call that has taken less than it asked for.
    #[inline]
    pub(crate) fn is_used_up(&self, seen: Seen) {
        if seen.0 & (READY | CLOSED | URGENT) == READY {
            self.clear(seen);
        }
    }

    /// Does step 1, after a call that would block, whatever events have told.
    #[inline]
    pub(crate) fn would_block(&self, seen: Seen) {
        if seen.is_ready() {
            self.clear(seen);
        }
    }

    #[inline]
    fn clear(&self, seen: Seen) {
        let clear = seen.0 & !(READY | CLOSED | URGENT);
        // Relaxed: it publishes nothing. If the word has changed, READY stays.
        let _ = self.0.compare_exchange(seen.0, clear, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Lets the next call be tried, whatever others have found out.
    pub(super) fn try_again(&self) {
        // Relaxed: it publishes nothing.
        self.0.fetch_or(READY, Ordering::Relaxed);
    }

    /// Begins to fetch what [`notify`](Self::notify) needs.
    #[inline]
    pub(super) fn fetch(&self) {
        fetch_to_write(ptr::from_ref(self).cast());
        wait_queue::fetch(self.key());
    }

    /// Forgets what events have said. The caller then asks for them anew, and [waits](Self::wait_since).
    pub(super) fn forget(&self) -> Seen {
        // Relaxed: it publishes nothing.
        Seen(self.0.fetch_and(!(READY | CLOSED | URGENT), Ordering::Relaxed))
    }

    /// Waits as [`wait`](Self::wait) does, for an event that has come since `seen`. It does not matter what
    /// other threads have made of READY meanwhile.
    pub(super) fn wait_since(&self, seen: Seen, reason: WaitReason, wait: Wait) -> Result<(), WaitError> {
        let count = |word: u64| word & !(LIFE | WAITED | READY | CLOSED | URGENT);
        self.wait_while(reason, wait, |word| count(word) == count(seen.0))
    }

    fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Does step 2: waits until the descriptor is ready, or as `wait` says. Returns at once if it is.
    pub(crate) fn wait(&self, reason: WaitReason, wait: Wait) -> Result<(), WaitError> {
        self.wait_while(reason, wait, |word| word & READY == 0)
    }

    /// Waits if, with the queue's lock held, `waits` accepts the word.
    fn wait_while(
        &self,
        reason: WaitReason,
        wait: Wait,
        waits: impl Fn(u64) -> bool,
    ) -> Result<(), WaitError> {
        let options = Options { order: Order::Fifo, spin: false, ..Options::new(reason, wait) };
        match wait_queue::wait(self.key(), &options, || self.begin_wait(waits), || ()) {
            Ok(Woken::Ended { why, .. }) => Err(why.reported()),
            Ok(Woken::Granted(_)) | Err(Invalid) => Ok(()),
        }
    }

    /// Sets WAITED, unless the descriptor is ready. The queue's lock is held.
    fn begin_wait(&self, waits: impl Fn(u64) -> bool) -> bool {
        let wait = |word: u64| waits(word).then_some(word | WAITED);
        // Relaxed: the queue's lock orders it with the waiters. Acquire on failure: the call comes after.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Acquire, wait).is_ok()
    }

    /// Does step 3. Returns the threads to wake.
    #[must_use]
    pub(crate) fn notify(&self, life: u32, what: Report) -> Option<Grants> {
        let flags = READY
            | match what {
                Report::Ready => 0,
                Report::Urgent => URGENT,
                Report::Closed => CLOSED,
            };
        let add = |word: u64| {
            // The count does not run over into the life.
            let count = (word & !LIFE).wrapping_add(EVENT) & !LIFE;
            (word >> 32 == u64::from(life)).then_some(word & LIFE | count | flags)
        };
        // Release: pairs with `look`.
        let before = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, add).ok()?;
        if before & WAITED == 0 {
            return None;
        }
        wait_queue::grant_all(self.key(), READIED, || {
            // Relaxed: the queue's lock orders it.
            self.0.fetch_and(!WAITED, Ordering::Relaxed);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn times_out(readiness: &Readiness) -> bool {
        let wait = Wait::timeout(Duration::from_millis(1));
        readiness.wait(WaitReason::Readable, wait) == Err(WaitError::TimedOut)
    }

    #[test]
    fn a_call_after_an_event_is_tried() {
        let readiness = Readiness::new();
        readiness.begin(1);
        let seen = readiness.look();
        assert!(seen.is_ready() && !times_out(&readiness));
        assert!(readiness.notify(1, Report::Ready).is_none());
        readiness.is_used_up(seen);
        assert!(readiness.look().is_ready(), "an event has come since");
        readiness.is_used_up(readiness.look());
        assert!(!readiness.look().is_ready() && times_out(&readiness));
        // The waiter has gone, and left WAITED.
        assert_eq!(readiness.notify(1, Report::Ready).map(Grants::wake_all), Some(0));
        assert!(readiness.notify(1, Report::Ready).is_none());
    }

    #[test]
    fn the_end_is_ready_for_good() {
        let readiness = Readiness::new();
        readiness.begin(1);
        assert!(readiness.notify(1, Report::Closed).is_none());
        readiness.is_used_up(readiness.look());
        assert!(readiness.look().is_ready());
    }

    #[test]
    fn a_call_that_would_block_knows_better() {
        let readiness = Readiness::new();
        for (what, closed) in [(Report::Closed, true), (Report::Urgent, false)] {
            readiness.begin(1);
            assert!(readiness.notify(1, what).is_none());
            readiness.is_used_up(readiness.look());
            let seen = readiness.look();
            assert!(seen.is_ready() && seen.is_closed() == closed, "{what:?}");
            readiness.would_block(seen);
            let seen = readiness.look();
            assert!(!seen.is_ready() && !seen.is_closed() && times_out(&readiness));
            assert!(readiness.notify(1, Report::Ready).is_some());
            readiness.is_used_up(readiness.look());
            assert!(!readiness.look().is_ready(), "it is as any other");
        }
    }

    #[test]
    fn an_event_of_another_life_is_none() {
        let readiness = Readiness::new();
        readiness.begin(2);
        readiness.is_used_up(readiness.look());
        let before = readiness.look();
        assert!(readiness.notify(1, Report::Closed).is_none());
        assert_eq!(readiness.look(), before);
    }

    #[test]
    fn the_count_stays_within_its_bits() {
        let readiness = Readiness(AtomicU64::new(1 << 32 | (!LIFE & !CLOSED & !URGENT & !WAITED)));
        assert!(readiness.notify(1, Report::Ready).is_none());
        assert_eq!(readiness.look(), Seen(1 << 32 | READY));
    }
}

#[cfg(all(test, loom))]
mod loom_readiness;
