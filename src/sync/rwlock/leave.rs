//! Leaving a read-write lock: giving up a share, and passing it on. The protocol is in `raw.rs`.

use crate::park::wait_queue::{Grant, Grants};
use crate::park::word_queues::{self, Queues};
use crate::shim::atomic::{AtomicU8, Ordering};
use crate::shim::{MAX_SKIPPED_WAKES, fork};

use super::next::{self, Admit, Event, Next, Waiting};
use super::raw::{HANDED_OVER, RawRwLock, TRY_AGAIN};
use super::word::{Bits, Queue, Share, Wish};

/// What the threads that leave remember for the next one.
#[derive(Default)]
pub(super) struct Passing {
    /// How often one kind has been let in out of turn. Changed with the queue lock held, which orders it.
    passed: AtomicU8,
    /// How often the lock has been free since a waiter was woken, up to [`MAX_SKIPPED_WAKES`]. Only a hint:
    /// an unlock that is not counted does no harm.
    unlocks: AtomicU8,
}

impl Passing {
    pub(super) const fn new() -> Self {
        Self { passed: AtomicU8::new(0), unlocks: AtomicU8::new(0) }
    }

    /// Counts an unlock that wakes no waiter. Returns how many there were before.
    fn count_unlock(&self) -> u8 {
        let unlocks = self.unlocks.load(Ordering::Relaxed);
        self.unlocks.store(unlocks.saturating_add(1), Ordering::Relaxed);
        unlocks
    }

    fn passed(&self) -> u8 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Notes that waiters are woken, and that the count of [`passed`](Self::passed) is `now`.
    pub(super) fn wakes(&self, before: u8, now: u8) {
        if now != before {
            self.passed.store(now, Ordering::Relaxed);
        }
        self.unlocks.store(0, Ordering::Relaxed);
    }
}

/// What a thread does with its share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leave {
    gives: Share,
    keeps: Share,
    event: Event,
}

impl Leave {
    const fn new(gives: Share, keeps: Share, admit: Admit) -> Self {
        Self { gives, keeps, event: Event { wrote: false, admit, fair: false } }
    }

    const fn writer(keeps: Share) -> Self {
        let event = Event { wrote: true, admit: Admit::All, fair: false };
        Self { gives: Share::WRITE, keeps, event }
    }

    const fn fair(self) -> Self {
        Self { event: Event { fair: true, ..self.event }, ..self }
    }

    #[inline]
    fn applied_to(&self, seen: Bits) -> Bits {
        seen.minus(self.gives).plus(self.keeps).expect("it gives up more than it keeps")
    }
}

/// A reader leaves.
const READER_LEAVES: Leave = Leave::new(Share::READ, Share::NOTHING, Admit::None);
/// The upgradable reader leaves.
const UPGRADABLE_LEAVES: Leave = Leave::new(Share::UPGRADABLE, Share::NOTHING, Admit::UnlessWritersWait);
/// The upgradable reader goes on as any other.
const UPGRADABLE_STAYS: Leave = Leave::new(Share::UPGRADE, Share::NOTHING, Admit::UnlessWritersWait);
/// A woken thread has come in to read, and hands shares to the others.
pub(super) const PHASE_BEGINS: Leave = Leave::new(Share::NOTHING, Share::NOTHING, Admit::All);
/// A thread that gave up writing has come in to read. It hands shares to those that it has kept out, and
/// leaves.
pub(super) const WRITER_GAVE_UP: Leave = Leave::new(Share::READ, Share::NOTHING, Admit::All);
/// The upgradable reader has given up upgrading.
const UPGRADER_GAVE_UP: Leave = Leave::new(Share::DOOR, Share::NOTHING, Admit::UnlessWritersWait);

/// The door that an upgrading thread has closed. It opens again if the thread gives up, or unwinds, as in
/// the child of a fork.
#[must_use = "it opens at once"]
pub(super) struct Door<'a>(&'a RawRwLock);

impl Door<'_> {
    /// Leaves the door closed, for the thread that has closed it and writes now: the writer's share has
    /// taken its place.
    pub(super) fn leave_closed(self) {
        std::mem::forget(self);
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        self.0.leave(&UPGRADER_GAVE_UP, self.0.word.look());
    }
}

#[cold]
pub(super) fn not_locked() -> ! {
    panic!("unlocked a read-write lock that is not locked, or not like that");
}

/// Threads to be woken when no lock is held.
#[must_use = "the threads sleep until they are woken"]
struct Woke {
    one: Option<Grant>,
    all: Option<Grants>,
}

impl Woke {
    /// Takes the chosen waiters off their queues.
    fn take(next: Next, queues: &mut Queues<'_>, has_upgradable: bool) -> Self {
        let mut one = |queue, token| queues.grant_one(queue as usize, token);
        let (one, all) = match next {
            Next::None => (None, None),
            Next::Tries(queue) => (one(queue, TRY_AGAIN), None),
            Next::Writer => (one(Queue::Writers, HANDED_OVER), None),
            Next::Upgrader => (one(Queue::Upgrader, HANDED_OVER), None),
            Next::Readers => {
                let upgradable = if has_upgradable { None } else { one(Queue::Upgradables, HANDED_OVER) };
                (upgradable, Some(queues.grant_all(Queue::Readers as usize, HANDED_OVER)))
            }
        };
        Self { one, all }
    }

    fn wake(self) {
        if let Some(one) = self.one {
            one.wake();
        }
        if let Some(all) = self.all {
            all.wake_all();
        }
    }
}

impl RawRwLock {
    /// Closes the door for the upgradable reader: no other thread comes in.
    pub(super) fn close_door(&self) -> Door<'_> {
        self.word.close_door();
        Door(self)
    }

    /// Gives up the share of `wish`, which is a constant.
    #[inline]
    pub(super) fn release(&self, wish: Wish) {
        self.leave_alone(match wish {
            Wish::Read | Wish::ReadAgain => const { &READER_LEAVES },
            Wish::Upgradable => const { &UPGRADABLE_LEAVES },
            Wish::Write => const { &Leave::writer(Share::NOTHING) },
        });
    }

    /// [`release`](Self::release) that hands the lock to the next waiter, if there is one.
    #[inline]
    pub(super) fn release_fair(&self, wish: Wish) {
        self.leave_alone(match wish {
            Wish::Read | Wish::ReadAgain => const { &READER_LEAVES.fair() },
            Wish::Upgradable => const { &UPGRADABLE_LEAVES.fair() },
            Wish::Write => const { &Leave::writer(Share::NOTHING).fair() },
        });
    }

    /// Turns the writer into a reader, upgradable or not.
    #[inline]
    pub(super) fn downgrade_to(&self, kept: Wish) {
        self.leave_alone(&Leave::writer(kept.share()));
    }

    /// Turns the upgradable reader into an ordinary one.
    #[inline]
    pub(super) fn leave_upgrade(&self) {
        let seen = self.word.look();
        self.change_owner(seen, Share::UPGRADABLE, Share::READ);
        self.leave(&UPGRADABLE_STAYS, seen);
    }

    /// Leaves the lock quickly, if no other thread is in or waits. `leave` is a reference to a constant.
    /// A value, for the other case, would be stored before the read-modify-write, which waits for stores.
    #[inline]
    fn leave_alone(&self, leave: &Leave) {
        if let Err(seen) = self.word.try_leave_alone(leave.gives, leave.keeps) {
            if leave.keeps == Share::NOTHING {
                self.forget_owner(seen, leave.gives);
            } else {
                self.change_owner(seen, leave.gives, leave.keeps);
            }
            self.leave(leave, seen);
        }
    }

    /// Gives up what `leave` says, and wakes the waiters that come next. The word was `seen`.
    #[inline(never)]
    pub(super) fn leave(&self, leave: &Leave, mut seen: Bits) {
        loop {
            // This always finds a lock without the share that is given back, because the guess above has
            // failed.
            if !seen.has(leave.gives) {
                not_locked();
            }
            let after = leave.applied_to(seen);
            if next::may_have_come(after, leave.event) || self.is_late(after) {
                break;
            }
            match self.word.try_leave(seen, after) {
                Ok(()) => return,
                Err(now) => seen = now,
            }
        }
        let woke = word_queues::with(self.word.address(), |queues| self.pass(leave, queues));
        // The lock may be gone from here on.
        woke.wake();
    }

    /// Counts an unlock that wakes no waiter because one is on its way. Returns `true` if that one has
    /// let too many pass.
    fn is_late(&self, after: Bits) -> bool {
        if !after.is_free() || !after.is_waited_for() {
            return false;
        }
        // In the child of a fork, the woken thread never comes.
        self.passing.count_unlock() >= MAX_SKIPPED_WAKES || fork::is_child()
    }

    /// [`leave`](Self::leave) with the queue lock held.
    fn pass(&self, leave: &Leave, queues: &mut Queues<'_>) -> Woke {
        let waiting = Waiting {
            readers: queues.first(Queue::Readers as usize),
            upgradables: queues.first(Queue::Upgradables as usize),
            writers: queues.first(Queue::Writers as usize),
            upgrader: queues.first(Queue::Upgrader as usize).is_some(),
        };
        loop {
            let seen = self.word.look();
            let after = leave.applied_to(seen);
            let passed = self.passing.passed();
            let (next, passed_now) = next::of(after, leave.event, &waiting, passed);
            let readers = if next == Next::Readers { queues.count(Queue::Readers as usize) } else { 0 };
            // If there is no room for so many readers, they wait until all have left.
            let (next, word) = match next.word(after, &waiting, readers) {
                Some(word) => (next, word),
                None => (Next::None, after),
            };
            // Before the change of the word: the lock may be gone after it.
            self.passing.wakes(passed, passed_now);
            if self.word.try_pass(seen, word) {
                return Woke::take(next, queues, after.has_upgradable());
            }
        }
    }
}
