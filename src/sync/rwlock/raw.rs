//! The lock of one writer or many readers: a word, and a hint where the last to come in runs.
//!
//! **Problem.** As the mutex's (`mutex/raw.rs`); and readers that never let a writer in, writers that never let readers in,
//! readers that are let in one by one, a reader that reads again while a writer waits, one that wants to go on as the writer.
//!
//! **Rejected.** A mutex and a condition variable: two read-modify-writes more. Taking the writer's bit first and waiting for the readers
//! then (parking_lot): a writer that sleeps keeps the lock from everybody. Subtracting a reader without a look at who waits (both
//! peers): the last one out must then find the waiters of a lock that may be gone. A share for every waiting reader at each
//! release: the lock is theirs while they wake up, for as long as that takes.
//!
//! **Protocol.** The word is in `state.rs`, the policy in `turn.rs`. There are four queues, one at each address of the word, under one
//! queue lock: readers, upgradable readers, writers, and one who upgrades.
//!
//! - *Come in*: by compare-and-swap, if the word lets one in (barging). Else spin while the hint says that who keeps it out runs
//!   elsewhere; else queue: with the queue lock held, the word must still keep it out, and the queue's bit is set.
//! - *Leave*: by compare-and-swap, if nobody's turn has come. Else, with the queue lock held: see who waits, choose, change the
//!   word, take those chosen off their queues, in this order.
//! - *Tries*: one thread is woken, and owns `WOKEN` until it comes in or queues (again); so may a spinner that asks the unlocker
//!   not to wake anybody. No other is woken until then, but for every [`LATE`](crate::shim::LATE) unlocks. If it reads, it hands
//!   shares to all who wait to read, as soon as it is in, and whether or not a writer waits: those who waited through one
//!   phase of writing go together.
//! - *Starvation*: who was woken and found the lock taken, again and again for [`PATIENCE`], queues as urgent, and is handed the lock.
//! - *Upgrade*: the upgradable reader closes the door (`UPGRADING`), and waits until it is the only reader. The last but one hands it
//!   the lock.
//! - *Giving up*: a deadline or an interrupt takes a waiter off its queue. If that was the last writer, readers that wait for its
//!   sake alone must be let in: it comes in as one of them, hands out shares, and leaves. Who gives up upgrading does so too.
//!
//! **Spinning.** Who waits for readers knows less than who waits for a writer: there are many, and each may sleep. The hint is that of the
//! last one that came in, a reader too. It is exact for one reader; of many, the last to come is likely to be the last to leave.
//! It costs a store to a line that the reader has just written, and none where it is there already. Readers that a waiting writer
//! keeps out do not spin: a sleeper must come and go before them. As at a mutex, who has seen the lock open, and finds it closed again,
//! leaves it to the others for a while (`park/spin.rs`): where two CPUs take turns at each access, the line costs more than the access.
//!
//! **Proof.** (a) *Exclusion*: each change of the word is a compare-and-swap from a value that lets the caller in, or one by who has
//! a share, which it gives up, keeps, or hands over.
//! (b) *No lost wake-up*: let a thread be linked in a queue. With the queue lock held the word kept it out, so there was (1) a share
//! of somebody's, or (2) a writer in its queue, or (3) one who upgrades. (1): the last to leave sees the queue's bit, and takes the
//! queue lock, or `WOKEN` is set. Whoever owns that comes in, and is of (1), or queues, and found one of (1). A free
//! lock that is waited for is `WOKEN`, so it is not forgotten. (2): that writer comes in, or gives up, and lets the readers in;
//! if the word's bit was cleared by another before, the lock was free, and the turn was chosen. (3): comes in, and is of (1), or gives
//! up, and lets them in.
//! (c) *Order*: the word is changed by read-modify-writes alone, so who takes it is after all who left. Who is handed the
//! lock is after who handed it, which is after the others, since it acquires.
//! (d) *Lifetime*: after the change that gives its share up a thread touches the table only. It chooses before, and the queues cannot
//! change between, as their lock is held.
//!
//! **Cost** in read-modify-writes: read 2, write 2, upgrade 1, downgrade 1; among other readers 2 more, since the first guess, on the
//! way in and out, is that nobody is there. It fails on a line that is then the reader's own, and tells what is there; a look before it
//! would wait for the last change (2 ns of a pair's 14.7), and fetch a line that others change twice. With somebody to be woken, and
//! for the waiter, as the mutex.

use std::fmt;
use std::time::{Duration, Instant};

use crate::park::contention::Contention;
use crate::park::current::{current, hint, place};
use crate::park::interrupt::{self, Interrupted};
use crate::park::owner::OwnerHint;
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, Options, Order, Token, Woken};
use crate::park::word_queues;
use crate::shim::atomic::{AtomicU8, AtomicU16};
use crate::shim::const_new;
use crate::time;

use super::leave::{PHASE_BEGINS, WRITER_GAVE_UP};
use super::patience::Patience;
use super::state::{Bits, Mine, Queue, Share, State, Wish};

/// How long a waiter lets others pass before it asks for the lock to be handed over. As for the mutex.
const PATIENCE: Duration = Duration::from_micros(500);

/// A grant: the waiter owns `WOKEN` and tries again.
pub(super) const TRY_AGAIN: Token = Token(1);
/// A grant: the share has been handed over.
pub(super) const HANDED_OVER: Token = Token(2);

/// The algorithm, without the data: see [`RwLock`](super::RwLock).
///
/// May be unlocked by another thread than the one that locked it.
#[repr(C)]
pub struct RawRwLock {
    pub(super) state: State,
    /// Where who came in last ran then. Only a hint: written afterwards, ordered by nothing.
    pub(super) owner: AtomicU16,
    /// How often one kind has been let in out of turn. Changed with the queue lock held.
    pub(super) passed: AtomicU8,
    /// How often the lock has been free since a waiter was sent on its way, up to [`LATE`](crate::shim::LATE). Only a hint.
    pub(super) unlocks: AtomicU8,
}

/// How an attempt to lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Ended {
    Locked,
    Expired,
    /// The flag is still set.
    Interrupted,
}

/// What came of one look at the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Entry {
    In,
    KeptOut,
    /// The word can count no more readers.
    Full,
}

/// When to stop waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Until {
    deadline: Option<Instant>,
    interruptible: bool,
    /// Not because of too many readers.
    comes_back: bool,
}

impl Until {
    pub(super) const NEVER: Self = Self { deadline: None, interruptible: false, comes_back: false };
    /// Of one that has left for the sake of others, and whose guard says that it is in: it may neither give up nor panic.
    const BACK: Self = Self { comes_back: true, ..Self::NEVER };

    pub(super) fn deadline(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::NEVER }
    }

    pub(super) fn interrupted_or(deadline: Option<Instant>) -> Self {
        Self { deadline, interruptible: true, ..Self::NEVER }
    }
}

pub(super) fn options(until: Until) -> Options {
    let mut options = Options::new(WaitReason::RwLock, until.deadline);
    options.interruptible = until.interruptible;
    // What there is to see is the word, and it has been looked at when the thread queues.
    options.spin = false;
    options
}

pub(super) fn reported(ended: Ended) -> Result<bool, Interrupted> {
    match ended {
        Ended::Locked => Ok(true),
        Ended::Expired => Ok(false),
        Ended::Interrupted => Err(interrupt::reported()),
    }
}

#[cold]
fn too_many_readers() -> ! {
    panic!("too many readers of a read-write lock");
}

impl RawRwLock {
    const_new! {
        /// A free lock.
        pub const fn new() -> Self {
            Self { state: State::new(), owner: AtomicU16::new(0), passed: AtomicU8::new(0), unlocks: AtomicU8::new(0) }
        }
    }

    /// Where it is.
    pub(in crate::sync) fn address(&self) -> usize {
        self.state.address()
    }

    pub(super) fn bits(&self) -> Bits {
        self.state.look()
    }

    /// Comes in at once where `idle` succeeds; else waits, without end.
    #[inline]
    fn acquire(&self, wish: Wish, until: Until, idle: impl FnOnce(&State) -> bool) {
        // The hint is looked at before the attempt: a load after it would hold up the stores of the critical section, and those the unlock.
        // It is not stored if it is there.
        let here = hint();
        let known = self.owner() == here;
        if idle(&self.state) {
            if !known {
                self.set_owner(here, wish.share());
            }
        } else {
            let ended = self.acquire_slow(wish, until);
            debug_assert_eq!(ended, Ended::Locked);
        }
    }

    #[inline]
    pub(super) fn read(&self) {
        self.acquire(Wish::Read, Until::NEVER, State::try_read_idle);
    }

    #[inline]
    pub(super) fn read_again(&self) {
        self.acquire(Wish::ReadAgain, Until::NEVER, State::try_read_idle);
    }

    #[inline]
    pub(super) fn upgradable(&self) {
        self.acquire(Wish::Upgradable, Until::NEVER, State::try_upgradable_idle);
    }

    #[inline]
    pub(super) fn write(&self) {
        self.acquire(Wish::Write, Until::NEVER, State::try_write_idle);
    }

    /// By a reader: lets those go first who wait, and reads again.
    pub(super) fn bump_read(&self) {
        if self.bits().keeps_readers_out() {
            self.leave_read_fair();
            self.acquire(Wish::Read, Until::BACK, State::try_read_idle);
        }
    }

    /// The same, by the upgradable reader.
    pub(super) fn bump_upgradable(&self) {
        if self.bits().is_waited_for() {
            self.leave_upgradable_fair();
            self.acquire(Wish::Upgradable, Until::BACK, State::try_upgradable_idle);
        }
    }

    /// Comes in if the lock lets it in now.
    #[inline]
    pub(super) fn try_acquire(&self, wish: Wish) -> bool {
        match self.try_enter(wish, Mine::NOTHING) {
            Entry::In => self.set_owner(hint(), wish.share()),
            Entry::KeptOut => return false,
            Entry::Full => too_many_readers(),
        }
        true
    }

    /// Comes in, or gives up: whether it is in.
    #[inline]
    pub(super) fn acquire_until(&self, wish: Wish, deadline: Option<Instant>) -> bool {
        self.try_acquire(wish) || self.acquire_slow(wish, Until::deadline(deadline)) == Ended::Locked
    }

    /// The same; the clock is asked only if it must wait.
    #[inline]
    pub(super) fn acquire_for(&self, wish: Wish, timeout: Duration) -> bool {
        self.try_acquire(wish) || self.acquire_until(wish, time::after(timeout))
    }

    /// [`acquire_until`](Self::acquire_until), which an interrupt ends too.
    #[inline]
    pub(super) fn acquire_interruptible(
        &self,
        wish: Wish,
        deadline: Option<Instant>,
    ) -> Result<bool, Interrupted> {
        interrupt::check()?;
        if self.try_acquire(wish) {
            return Ok(true);
        }
        reported(self.acquire_slow(wish, Until::interrupted_or(deadline)))
    }

    #[inline]
    pub(super) fn key(&self, queue: Queue) -> usize {
        self.state.address() + queue as usize
    }

    /// Comes in, if the lock lets it in and has room.
    #[inline]
    fn try_enter(&self, wish: Wish, mine: Mine) -> Entry {
        loop {
            let seen = self.state.look();
            if !seen.lets_in(wish, mine.is_woken()) {
                return Entry::KeptOut;
            }
            let Some(taken) = seen.without(mine).plus(wish.share()) else { return Entry::Full };
            if self.state.try_take(seen, taken) {
                if mine.is_woken() && wish != Wish::Write && taken.could_admit() {
                    self.leave(&PHASE_BEGINS, taken);
                }
                return Entry::In;
            }
        }
    }

    /// Comes in to read, if the lock lets it in and has room.
    fn try_read_in_passing(&self) -> bool {
        loop {
            let seen = self.state.look();
            match seen.plus(Share::READ) {
                Some(taken) if seen.lets_in(Wish::Read, false) => {
                    if self.state.try_take(seen, taken) {
                        return true;
                    }
                }
                _ => return false,
            }
        }
    }

    #[cold]
    fn acquire_slow(&self, wish: Wish, until: Until) -> Ended {
        // Adopted by now, if need be: there is a hint.
        current();
        self.forget_others();
        let mut contention = Contention::begin(self.state.address(), WaitReason::RwLock);
        let mut options = options(until);
        let mut mine = Mine::NOTHING;
        let mut passed_over_since = None;
        let mut woken = false;
        loop {
            // After a sleep this thread may run elsewhere.
            let here = place();
            match self.enter_or_spin(wish, here, &mut mine) {
                Entry::In => {
                    self.set_owner_at(here, wish.share());
                    return Ended::Locked;
                }
                Entry::KeptOut => {}
                Entry::Full => {
                    self.state.give_up_way(mine);
                    mine = Mine::NOTHING;
                    if !until.comes_back {
                        too_many_readers();
                    }
                    // Nobody tells when one of millions leaves.
                    current().backend().yield_now(&current());
                    continue;
                }
            }
            if woken {
                // The lock was free when this thread was woken, and somebody else was faster.
                let now = time::now();
                options.order = Order::Again;
                options.urgent = now - *passed_over_since.get_or_insert(now) >= PATIENCE;
            }
            let announce = || self.state.announce(wish, mine);
            let wait = || wait_queue::wait(self.key(wish.queue()), &options, announce, || ());
            match contention.during(wait) {
                Err(_) => continue,
                Ok(Woken::Granted(token)) if token == HANDED_OVER => {
                    contention.handed_over();
                    self.set_owner(hint(), wish.share());
                    return Ended::Locked;
                }
                Ok(Woken::Granted(_)) => {
                    mine = Mine::WOKEN;
                    woken = true;
                }
                Ok(Woken::Expired { .. }) => {
                    self.left_queue(wish.queue());
                    return Ended::Expired;
                }
                Ok(Woken::Interrupted { .. }) => {
                    self.left_queue(wish.queue());
                    return Ended::Interrupted;
                }
            }
        }
    }

    /// Comes in as soon as the lock lets it in, and looks for that for as long as it pays. Kept out for longer: better queue.
    fn enter_or_spin(&self, wish: Wish, here: OwnerHint, mine: &mut Mine) -> Entry {
        let mut patience = Patience::new(here);
        loop {
            let seen = self.state.look();
            if seen.lets_in(wish, mine.is_woken()) {
                if patience.is_open_at_last() {
                    let entry = self.try_enter(wish, *mine);
                    if entry != Entry::KeptOut {
                        return entry;
                    }
                }
                continue;
            }
            // Readers that are kept out by other readers wait for a writer that sleeps.
            if !seen.is_written() && wish != Wish::Write {
                return Entry::KeptOut;
            }
            let on_its_way = || {
                let useful = seen.is_waited_for() && !seen.is_woken() && wish != Wish::Upgradable;
                if useful && !mine.is_woken() && self.state.try_claim_way(seen) {
                    *mine = Mine::WOKEN;
                }
            };
            if !patience.look(self.owner(), on_its_way) {
                return Entry::KeptOut;
            }
        }
    }

    /// A waiter has left the queue without a grant.
    fn left_queue(&self, queue: Queue) {
        let before = word_queues::with(self.state.address(), |queues| {
            queues.first(queue as usize).is_none().then(|| self.state.clear_queue(queue))
        });
        let opened = before.is_some_and(|before| {
            queue == Queue::Writers && before.waits(Queue::Writers) && before.could_admit()
        });
        if opened && self.try_read_in_passing() {
            self.leave(&WRITER_GAVE_UP, self.state.look());
        }
    }
}

impl Default for RawRwLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.state.look();
        f.debug_struct("RawRwLock")
            .field("written", &bits.is_written())
            .field("readers", &bits.readers())
            .field("upgradable", &bits.has_upgradable())
            .field("waiters", &bits.is_waited_for())
            .finish()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_rwlock.rs"]
mod loom_rwlock;
#[cfg(all(test, loom))]
#[path = "../tests/loom_rwlock_shares.rs"]
mod loom_rwlock_shares;
#[cfg(test)]
#[path = "../tests/rwlock_words.rs"]
mod words;
