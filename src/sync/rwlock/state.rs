//! The word of a read-write lock: what its bits mean, and who changes them how.

use crate::park::word_queues::{READERS as READERS_QUEUE, UPGRADER, WRITERS};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::const_new;

/// A value of the word.
///
/// | bits | meaning | may come in |
/// |---|---|---|
/// | no `WRITER`, no readers | free | anyone |
/// | `WRITER` | one thread owns it alone; no readers | nobody |
/// | readers, from bit 8 | so many read | readers, unless `WRITERS_WAIT` |
/// | readers, `UPGRADABLE` | so many read, and one of them may become the writer | as above, but for another upgradable one |
/// | readers, `UPGRADABLE`, `UPGRADING` | the upgradable one waits for the others to leave | nobody |
///
/// Those who read again (recursively) come in wherever nobody writes, and so do readers that were granted a try.
///
/// | bits | meaning | changed by |
/// |---|---|---|
/// | `READERS_WAIT`, `UPGRADABLES_WAIT`, `WRITERS_WAIT` | somebody is in that queue | with the queue lock held |
/// | `WOKEN` | one thread is on its way, and will clear it: nobody else need be woken | set by whoever grants a try, or by a spinner |
/// | `RECORDED` | those who come in have been written down (`owner.rs`) | set by the first of them; it stays |
///
/// Always: a lock that is free and waited for is `WOKEN`. The bits of the queues may outlive the last waiter for a moment, if its
/// deadline passed or it was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits(u32);

const WRITER: u32 = 1;
const UPGRADABLE: u32 = 1 << 1;
const UPGRADING: u32 = 1 << 2;
const READERS_WAIT: u32 = 1 << 3;
const UPGRADABLES_WAIT: u32 = 1 << 4;
const WRITERS_WAIT: u32 = 1 << 5;
const WOKEN: u32 = 1 << 6;
const RECORDED: u32 = 1 << 7;
const ONE_READER: u32 = 1 << 8;
const READERS: u32 = !(ONE_READER - 1);
const WAITS: u32 = READERS_WAIT | UPGRADABLES_WAIT | WRITERS_WAIT;

/// What a thread has of the lock, as a number that is added to the word and taken off again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u32);

impl Share {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const READ: Self = Self(ONE_READER);
    pub(super) const UPGRADABLE: Self = Self(ONE_READER | UPGRADABLE);
    pub(super) const WRITE: Self = Self(WRITER);
    /// The right to upgrade, of one who goes on reading.
    pub(super) const UPGRADE: Self = Self(UPGRADABLE);
    /// The closed door, of one who gives up upgrading.
    pub(super) const DOOR: Self = Self(UPGRADING);
}

/// What a thread wants of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Read,
    /// To read, whether or not it reads already.
    ReadAgain,
    Upgradable,
    Write,
}

/// The queues of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Readers = READERS_QUEUE as isize,
    Upgradables,
    Writers = WRITERS as isize,
    /// Of one at most: who has the upgradable share, and waits for the others to leave.
    Upgrader = UPGRADER as isize,
}

impl Queue {
    fn bit(self) -> u32 {
        match self {
            Self::Readers => READERS_WAIT,
            Self::Upgradables => UPGRADABLES_WAIT,
            Self::Writers => WRITERS_WAIT,
            Self::Upgrader => 0,
        }
    }
}

impl Wish {
    pub(super) fn share(self) -> Share {
        match self {
            Self::Read | Self::ReadAgain => Share::READ,
            Self::Upgradable => Share::UPGRADABLE,
            Self::Write => Share::WRITE,
        }
    }

    pub(super) fn queue(self) -> Queue {
        match self {
            Self::Read | Self::ReadAgain => Queue::Readers,
            Self::Upgradable => Queue::Upgradables,
            Self::Write => Queue::Writers,
        }
    }
}

impl Bits {
    #[inline]
    pub(super) fn is_free(self) -> bool {
        self.0 & (WRITER | READERS) == 0
    }

    #[inline]
    pub(super) fn is_written(self) -> bool {
        self.0 & WRITER != 0
    }

    #[inline]
    pub(super) fn readers(self) -> u32 {
        self.0 / ONE_READER
    }

    #[inline]
    pub(super) fn has_upgradable(self) -> bool {
        self.0 & UPGRADABLE != 0
    }

    #[inline]
    pub(super) fn is_upgrading(self) -> bool {
        self.0 & UPGRADING != 0
    }

    #[inline]
    pub(super) fn is_woken(self) -> bool {
        self.0 & WOKEN != 0
    }

    #[inline]
    pub(super) fn is_recorded(self) -> bool {
        self.0 & RECORDED != 0
    }

    #[inline]
    pub(super) fn is_waited_for(self) -> bool {
        self.0 & WAITS != 0
    }

    #[inline]
    pub(super) fn waits(self, queue: Queue) -> bool {
        self.0 & queue.bit() != 0
    }

    /// Whether somebody waits whom the readers that are in keep from writing.
    #[inline]
    pub(super) fn keeps_readers_out(self) -> bool {
        self.0 & (WRITERS_WAIT | UPGRADING) != 0
    }

    /// Whether somebody waits who could read beside other readers.
    #[inline]
    pub(super) fn could_admit(self) -> bool {
        self.waits(Queue::Readers) || self.waits(Queue::Upgradables) && !self.has_upgradable()
    }

    /// Whether one with this wish may come in; `woken`: it owns `WOKEN`, and need not heed those who wait.
    #[inline]
    pub(super) fn lets_in(self, wish: Wish, woken: bool) -> bool {
        let open = woken || self.0 & WRITERS_WAIT == 0 || self.is_free();
        match wish {
            Wish::Read => open && self.0 & (WRITER | UPGRADING) == 0,
            Wish::ReadAgain => !self.is_written(),
            Wish::Upgradable => open && self.0 & (WRITER | UPGRADABLE) == 0,
            Wish::Write => self.is_free(),
        }
    }

    /// With this share taken; `None`: there are too many readers.
    #[inline]
    pub(super) fn plus(self, share: Share) -> Option<Self> {
        self.0.checked_add(share.0).map(Self)
    }

    /// With these shares taken and so many more of readers, if there is room for all of them.
    pub(super) fn plus_readers(self, readers: usize) -> Option<Self> {
        let readers = u32::try_from(readers).ok()?;
        self.0.checked_add(readers.checked_mul(ONE_READER)?).map(Self)
    }

    /// Whether somebody has this share.
    #[inline]
    pub(super) fn has(self, share: Share) -> bool {
        self.0 >= share.0 & READERS && self.0 & share.0 & !READERS == share.0 & !READERS
    }

    /// With this share given back.
    #[inline]
    pub(super) fn minus(self, share: Share) -> Self {
        debug_assert!(self.has(share), "given back by nobody who has it");
        Self(self.0.wrapping_sub(share.0))
    }

    /// With the upgradable share, the only one, turned into the writer's.
    pub(super) fn upgraded(self) -> Self {
        debug_assert!(self.readers() == 1 && self.has_upgradable());
        Self(self.0 & (WAITS | WOKEN | RECORDED) | WRITER)
    }

    /// With `WOKEN` set.
    pub(super) fn with_woken(self) -> Self {
        Self(self.0 | WOKEN)
    }

    /// Without `WOKEN`, if it is `mine`.
    #[inline]
    pub(super) fn without(self, mine: Mine) -> Self {
        Self(self.0 & !mine.0)
    }

    /// With the queue's bit as it should be.
    pub(super) fn with_queue(self, queue: Queue, waits: bool) -> Self {
        Self(if waits { self.0 | queue.bit() } else { self.0 & !queue.bit() })
    }
}

/// Whether a thread owns `WOKEN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mine(u32);

impl Mine {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const WOKEN: Self = Self(WOKEN);

    #[inline]
    pub(super) fn is_woken(self) -> bool {
        self.0 != 0
    }
}

/// The word. All its changes are read-modify-writes, so that whoever takes the lock is after all who have given it back.
pub(super) struct State(AtomicU32);

impl State {
    const_new! {
        pub(super) const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// The first of the keys that its waiters wait on.
    #[inline]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).addr()
    }

    #[inline]
    pub(super) fn look(&self) -> Bits {
        // Relaxed: every decision is confirmed by a compare-and-swap or with the queue lock held.
        Bits(self.0.load(Ordering::Relaxed))
    }

    /// A read share, if nobody writes or waits to.
    #[inline]
    #[must_use]
    pub(super) fn try_read_idle(&self) -> bool {
        // Acquire, here and below: as in `try_take`. No look before: see the cost in `raw.rs`.
        match self.0.compare_exchange(0, ONE_READER, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(seen) => self.try_read_beside(Bits(seen)),
        }
    }

    /// The same, beside other readers.
    #[inline(never)]
    fn try_read_beside(&self, mut seen: Bits) -> bool {
        while seen.0 & (WRITER | UPGRADING | WRITERS_WAIT) == 0 {
            let Some(taken) = seen.plus(Share::READ) else { return false };
            match self.0.compare_exchange(seen.0, taken.0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Bits(now),
            }
        }
        false
    }

    /// The upgradable share, if nobody has it, or writes, or waits to write.
    #[inline]
    #[must_use]
    pub(super) fn try_upgradable_idle(&self) -> bool {
        let seen = self.look();
        if seen.0 & (WRITER | UPGRADABLE | WRITERS_WAIT) != 0 {
            return false;
        }
        seen.plus(Share::UPGRADABLE).is_some_and(|taken| self.try_take(seen, taken))
    }

    /// Free, nobody waits -> `WRITER`.
    #[inline]
    #[must_use]
    pub(super) fn try_write_idle(&self) -> bool {
        // No look before: see the cost in `raw.rs`.
        self.try_take(Bits(0), Bits(WRITER))
    }

    /// `seen` -> `taken`, in which the caller has a share more.
    #[inline]
    #[must_use]
    pub(super) fn try_take(&self, seen: Bits, taken: Bits) -> bool {
        // Acquire: pairs with the release of `try_leave` and `try_pass`, of all who left since the lock was taken last: no
        // change of the word breaks their chain.
        self.0.compare_exchange(seen.0, taken.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `gives`, the only share of a lock that nobody waits for -> `keeps`; the word as it is, if it is not that.
    #[inline]
    pub(super) fn try_leave_alone(&self, gives: Share, keeps: Share) -> Result<(), Bits> {
        self.try_leave(Bits(gives.0), Bits(keeps.0))
    }

    /// The upgradable share, the only one, of a lock that nobody waits for -> `WRITER`.
    #[inline]
    #[must_use]
    pub(super) fn try_upgrade_idle(&self) -> bool {
        self.try_take(Bits(Share::UPGRADABLE.0), Bits(WRITER))
    }

    /// `seen` -> `left`, in which the caller has given something back; the word as it is, if it is not `seen`.
    #[inline]
    pub(super) fn try_leave(&self, seen: Bits, left: Bits) -> Result<(), Bits> {
        // Release: pairs with the acquire of `try_take`.
        self.0.compare_exchange(seen.0, left.0, Ordering::Release, Ordering::Relaxed).map(drop).map_err(Bits)
    }

    /// As `try_leave`, with the queue lock held, where shares may be handed over.
    #[must_use]
    pub(super) fn try_pass(&self, seen: Bits, passed: Bits) -> bool {
        // Release: as in `try_leave`. Acquire: who is handed the writer's share gets it by way of this thread, and must be
        // after all the readers that left before.
        self.0.compare_exchange(seen.0, passed.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A spinner takes `WOKEN`, so that the unlocker wakes nobody else.
    #[must_use]
    pub(super) fn try_claim_way(&self, seen: Bits) -> bool {
        // Relaxed: a request, it publishes nothing.
        self.0.compare_exchange(seen.0, seen.0 | WOKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Gives up `mine`.
    pub(super) fn give_up_way(&self, mine: Mine) {
        // Relaxed: as in `try_claim_way`.
        self.0.fetch_and(!mine.0, Ordering::Relaxed);
    }

    /// From now on those who come in are written down; whether none was before.
    pub(super) fn record(&self) -> bool {
        // Relaxed: as in `try_claim_way`.
        self.0.fetch_or(RECORDED, Ordering::Relaxed) & RECORDED == 0
    }

    /// See [`close_door`](super::RawRwLock::close_door).
    pub(super) fn close_door(&self) {
        // Relaxed: as in `try_claim_way`.
        self.0.fetch_or(UPGRADING, Ordering::Relaxed);
    }

    /// With the queue lock held: announces one who waits with this wish, and gives up its `mine`; `false`: it may come in.
    #[must_use]
    pub(super) fn announce(&self, wish: Wish, mine: Mine) -> bool {
        let mut seen = self.look();
        loop {
            if seen.lets_in(wish, mine.is_woken()) {
                return false;
            }
            let announced = seen.without(mine).with_queue(wish.queue(), true);
            if announced == seen {
                // Who ends what keeps it out needs the queue lock, or somebody is on the way who will.
                return true;
            }
            // Relaxed: the queue lock orders it for those who act on the bit.
            match self.0.compare_exchange_weak(seen.0, announced.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Bits(now),
            }
        }
    }

    /// With the queue lock held: nobody is in this queue. Gives the word before.
    pub(super) fn clear_queue(&self, queue: Queue) -> Bits {
        // Relaxed: as in `announce`.
        Bits(self.0.fetch_and(!queue.bit(), Ordering::Relaxed))
    }
}
