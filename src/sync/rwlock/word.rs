//! The word of a read-write lock: what its bits mean, and how they change.

use crate::park::word_queues::{READERS as READERS_QUEUE, UPGRADER, WRITERS};
use crate::shim::atomic::{AtomicU32, Ordering};

/// A value of the word.
///
/// | bits | meaning | may come in |
/// |---|---|---|
/// | no `WRITER`, no readers | free | any thread |
/// | `WRITER` | one thread owns it alone; no readers | none |
/// | readers, from bit 8 | so many threads read | readers, unless `WRITERS_WAIT` |
/// | readers, `UPGRADABLE` | so many read; one may become the writer | as above, except an upgradable one |
/// | readers, `UPGRADABLE`, `UPGRADING` | the upgradable one waits for the others to leave | none |
///
/// A thread that reads again (recursively) comes in whenever no thread writes. A reader that was granted
/// a try ignores `WRITERS_WAIT`.
///
/// | bits | meaning | changed by |
/// |---|---|---|
/// | `READERS_WAIT`, `UPGRADABLES_WAIT`, `WRITERS_WAIT` | that queue has waiters | with the queue lock held |
/// | `WOKEN` | one thread is on its way: no other need be woken | set by a granter of a try, or a spinner |
/// | `RECORDED` | threads that come in are recorded (`owner.rs`) | set by the first of them; it stays |
///
/// The thread that is on its way clears `WOKEN`.
///
/// Always: a lock that is free and has waiters is `WOKEN`. The bit of a queue may outlive the last waiter
/// for a moment if that one's deadline passed, or it was interrupted.
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

/// What a thread has of the lock: a number that is added to the word and subtracted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u32);

impl Share {
    pub(super) const NOTHING: Self = Self(0);
    pub(super) const READ: Self = Self(ONE_READER);
    pub(super) const UPGRADABLE: Self = Self(ONE_READER | UPGRADABLE);
    pub(super) const WRITE: Self = Self(WRITER);
    /// The right to upgrade, of a thread that goes on reading.
    pub(super) const UPGRADE: Self = Self(UPGRADABLE);
    /// The closed door, of a thread that gives up upgrading.
    pub(super) const DOOR: Self = Self(UPGRADING);
}

/// What a thread wants of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Read,
    /// To read, even if the thread reads already.
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
    /// Of one thread at most, which has the upgradable share and waits for the others to leave.
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

/// Says that any of some bits is set.
macro_rules! bits {
    ($($name:ident: $bits:expr;)*) => {
        impl Bits {$(
            #[inline]
            pub(super) fn $name(self) -> bool {
                self.0 & ($bits) != 0
            }
        )*}
    };
}

bits! {
    is_written: WRITER;
    has_upgradable: UPGRADABLE;
    is_upgrading: UPGRADING;
    is_woken: WOKEN;
    is_recorded: RECORDED;
    is_waited_for: WAITS;
    // A thread waits that must write alone: a writer, or one that upgrades.
    keeps_readers_out: WRITERS_WAIT | UPGRADING;
}

impl Bits {
    #[inline]
    pub(super) fn is_free(self) -> bool {
        self.0 & (WRITER | READERS) == 0
    }

    #[inline]
    pub(super) fn readers(self) -> u32 {
        self.0 / ONE_READER
    }

    #[inline]
    pub(super) fn waits(self, queue: Queue) -> bool {
        self.0 & queue.bit() != 0
    }

    /// Returns `true` if a thread waits that could read beside other readers.
    #[inline]
    pub(super) fn could_admit(self) -> bool {
        self.waits(Queue::Readers) || self.waits(Queue::Upgradables) && !self.has_upgradable()
    }

    /// Returns `true` if a thread with this wish may come in. `woken`: the thread owns `WOKEN`, and
    /// ignores waiting writers.
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

    /// Returns the word with this share taken; `None` if there are too many readers.
    #[inline]
    pub(super) fn plus(self, share: Share) -> Option<Self> {
        self.0.checked_add(share.0).map(Self)
    }

    /// Returns the word with so many more readers, if there is room for all of them.
    pub(super) fn plus_readers(self, readers: usize) -> Option<Self> {
        let readers = u32::try_from(readers).ok()?;
        self.0.checked_add(readers.checked_mul(ONE_READER)?).map(Self)
    }

    /// Returns `true` if some thread has this share.
    #[inline]
    pub(super) fn has(self, share: Share) -> bool {
        self.0 >= share.0 & READERS && self.0 & share.0 & !READERS == share.0 & !READERS
    }

    /// Returns the word with this share given back.
    #[inline]
    pub(super) fn minus(self, share: Share) -> Self {
        debug_assert!(self.has(share), "a share was given back that is not held");
        Self(self.0.wrapping_sub(share.0))
    }

    /// Returns the word with the upgradable share, the only one, turned into the writer's.
    pub(super) fn upgraded(self) -> Self {
        debug_assert!(self.readers() == 1 && self.has_upgradable());
        Self(self.0 & (WAITS | WOKEN | RECORDED) | WRITER)
    }

    /// Returns the word with `WOKEN` set.
    pub(super) fn with_woken(self) -> Self {
        Self(self.0 | WOKEN)
    }

    /// Returns the word without `WOKEN`, if it is `mine`.
    #[inline]
    pub(super) fn without(self, mine: Mine) -> Self {
        Self(self.0 & !mine.0)
    }

    /// Returns the word with the bit of the queue set or cleared.
    pub(super) fn with_queue(self, queue: Queue, waits: bool) -> Self {
        Self(if waits { self.0 | queue.bit() } else { self.0 & !queue.bit() })
    }
}

/// `WOKEN`, if a thread owns it.
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

/// The word. Only read-modify-writes change it, so a thread that takes the lock comes after all that have
/// given it back.
#[derive(Default)]
pub(super) struct RwLockWord(AtomicU32);

impl RwLockWord {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the first of the keys that its waiters wait on.
    #[inline]
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(&self.0).addr()
    }

    #[inline]
    pub(super) fn look(&self) -> Bits {
        // Relaxed: every decision is confirmed by a compare-and-swap or with the queue lock held.
        Bits(self.0.load(Ordering::Relaxed))
    }

    /// Takes the share of `wish`, a constant, if no thread that waits or is in keeps the caller out.
    #[inline]
    #[must_use]
    pub(super) fn try_idle(&self, wish: Wish) -> bool {
        match wish {
            Wish::Read | Wish::ReadAgain => self.try_read_idle(),
            Wish::Upgradable => self.try_upgradable_idle(),
            Wish::Write => self.try_write_idle(),
        }
    }

    /// Takes a read share, if no thread writes or waits to write.
    #[inline]
    #[must_use]
    fn try_read_idle(&self) -> bool {
        // Acquire, here and below: as in `try_take`. No look before: see the cost in `raw.rs`.
        match self.0.compare_exchange(0, ONE_READER, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(seen) => self.try_read_beside(Bits(seen)),
        }
    }

    /// [`try_read_idle`](Self::try_read_idle) beside other readers.
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

    /// Takes the upgradable share, if no thread has it, writes, or waits to write.
    #[inline]
    #[must_use]
    fn try_upgradable_idle(&self) -> bool {
        let seen = self.look();
        if seen.0 & (WRITER | UPGRADABLE | WRITERS_WAIT) != 0 {
            return false;
        }
        seen.plus(Share::UPGRADABLE).is_some_and(|taken| self.try_take(seen, taken))
    }

    /// Takes the writer's share, if the lock is free and no thread waits.
    #[inline]
    #[must_use]
    fn try_write_idle(&self) -> bool {
        // No look before: see the cost in `raw.rs`.
        self.try_take(Bits(0), Bits(WRITER))
    }

    /// Changes the word from `seen` to `taken`, in which the caller has one more share.
    #[inline]
    #[must_use]
    pub(super) fn try_take(&self, seen: Bits, taken: Bits) -> bool {
        // Acquire: pairs with the release of `try_leave` and `try_pass`, of all threads that have left
        // since the lock was taken last. No change of the word breaks that chain.
        self.0.compare_exchange(seen.0, taken.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Changes `gives` to `keeps`, if `gives` is the only share and no thread waits. Otherwise returns
    /// the word.
    #[inline]
    pub(super) fn try_leave_alone(&self, gives: Share, keeps: Share) -> Result<(), Bits> {
        self.try_leave(Bits(gives.0), Bits(keeps.0))
    }

    /// Changes the upgradable share to the writer's, if it is the only share and no thread waits.
    #[inline]
    #[must_use]
    pub(super) fn try_upgrade_idle(&self) -> bool {
        self.try_take(Bits(Share::UPGRADABLE.0), Bits(WRITER))
    }

    /// Changes the word from `seen` to `left`, in which the caller has given something back. If the word
    /// is not `seen`, returns it.
    #[inline]
    pub(super) fn try_leave(&self, seen: Bits, left: Bits) -> Result<(), Bits> {
        // Release: pairs with the acquire of `try_take`.
        self.0.compare_exchange(seen.0, left.0, Ordering::Release, Ordering::Relaxed).map(drop).map_err(Bits)
    }

    /// Changes the word as `try_leave` does, with the queue lock held: shares may be handed over.
    #[must_use]
    pub(super) fn try_pass(&self, seen: Bits, passed: Bits) -> bool {
        // Release: as in `try_leave`. Acquire: a thread may be handed the writer's share by way of this
        // thread. It must come after all the readers that left before.
        self.0.compare_exchange(seen.0, passed.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes `WOKEN` for a spinner: the unlocker then wakes no other thread.
    #[must_use]
    pub(super) fn try_claim_way(&self, seen: Bits) -> bool {
        // Relaxed: a request; it publishes nothing.
        self.0.compare_exchange(seen.0, seen.0 | WOKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Gives up `mine`.
    pub(super) fn give_up_way(&self, mine: Mine) {
        // Relaxed: as in `try_claim_way`.
        self.0.fetch_and(!mine.0, Ordering::Relaxed);
    }

    /// Notes that threads that come in are recorded from here on. Returns `true` if none was before.
    pub(super) fn record(&self) -> bool {
        // Relaxed: as in `try_claim_way`.
        self.0.fetch_or(RECORDED, Ordering::Relaxed) & RECORDED == 0
    }

    /// Sets `UPGRADING`; see [`close_door`](super::RawRwLock::close_door).
    pub(super) fn close_door(&self) {
        // Relaxed: as in `try_claim_way`.
        self.0.fetch_or(UPGRADING, Ordering::Relaxed);
    }

    /// Announces a waiter with this wish, which gives up its `mine`. Returns `false` if it may come in.
    /// The caller holds the queue lock.
    #[must_use]
    pub(super) fn announce(&self, wish: Wish, mine: Mine) -> bool {
        let mut seen = self.look();
        loop {
            if seen.lets_in(wish, mine.is_woken()) {
                return false;
            }
            let announced = seen.without(mine).with_queue(wish.queue(), true);
            if announced == seen {
                // A thread that ends what keeps the waiter out needs the queue lock, or one is on its way
                // that will.
                return true;
            }
            // Relaxed: the queue lock orders it for the threads that act on the bit.
            match self.0.compare_exchange_weak(seen.0, announced.0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Bits(now),
            }
        }
    }

    /// Clears the bit of this queue, which is empty. Returns the word before. The caller holds the queue
    /// lock.
    pub(super) fn clear_queue(&self, queue: Queue) -> Bits {
        // Relaxed: as in `announce`.
        Bits(self.0.fetch_and(!queue.bit(), Ordering::Relaxed))
    }
}
