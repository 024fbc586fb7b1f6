//! The lock of one writer or many readers: a word, and a hint where the last thread to come in runs.
//!
//! **Problem.** That of the mutex (`mutex/raw.rs`), and besides:
//!
//! - readers that never let a writer in, and writers that never let readers in
//! - readers that are let in one by one
//! - a reader that reads again while a writer waits
//! - a reader that wants to go on as the writer
//!
//! **Rejected.**
//!
//! - A mutex and a condition variable: two read-modify-writes more.
//! - Taking the writer's bit first, and then waiting for the readers (parking_lot). A writer that sleeps
//!   keeps all others from the lock.
//! - Subtracting a reader without a look at the waiters (std and parking_lot). The last one out must then
//!   find the waiters of a lock that may be gone.
//! - A share for every waiting reader at each release. The lock is theirs while they wake up, however
//!   long that takes.
//!
//! **Protocol.** The word is in `word.rs`, the policy in `next.rs`. There are four queues, one at each
//! address of the word, under one queue lock: readers, upgradable readers, writers, and the one that
//! upgrades.
//!
//! - *Come in*: by compare-and-swap, if the word lets the thread in (barging). Otherwise it spins while
//!   the hint says that the thread that keeps it out runs elsewhere. Otherwise it queues: with the queue
//!   lock held, the word must still keep it out, and the queue's bit is set.
//! - *Leave*: by compare-and-swap, if no waiter's turn has come. Otherwise, with the queue lock held, in
//!   this order: see what waits, choose, change the word, take the chosen off their queues.
//! - *Tries*: one thread is woken, and owns `WOKEN` until it comes in or queues (again). A spinner may own
//!   the bit too; it asks the unlocker to wake no other. Until then no other thread is woken, except at one
//!   in every [`MAX_SKIPPED_WAKES`](crate::shim::MAX_SKIPPED_WAKES) unlocks. If the thread reads, it hands
//!   shares to all waiting readers as soon as it is in, even if a writer waits. So the readers that waited
//!   through one phase of writing go together.
//! - *Starvation*: a thread may be woken and find the lock taken again and again for [`HANDOFF_AFTER`]. It
//!   then queues as urgent, and is handed the lock.
//! - *Upgrade*: the upgradable reader closes the door (`UPGRADING`), and waits until it is the only
//!   reader. The last of the others hands it the lock.
//! - *Giving up*: a deadline or an interrupt takes a waiter off its queue. If that was the last writer,
//!   readers that wait only because of it must be let in. It comes in as one of them, hands out shares,
//!   and leaves. A thread that gives up upgrading also hands out shares.
//!
//! **Spinning.** The hint is that of the last thread that came in, also a reader. It is exact for one
//! reader. Among many, each may sleep; the last to come in is likely to be the last to leave. The hint
//! costs a store to a line that the reader has just written; if it is there already, nothing. If a
//! waiting writer keeps readers out, they do not spin: a sleeper must come and go before them. If a
//! thread has seen the lock open and finds it closed again, it leaves it alone for a while
//! (`park/spin.rs`), as at a mutex. If two CPUs took turns at each access, the line would cost more than the
//! access.
//!
//! **Proof.**
//!
//! (a) *Exclusion.* Each change of a share is a compare-and-swap. Either its old value lets the caller
//! in, or the caller has a share, which it gives up, keeps, or hands over.
//!
//! (b) *No lost wake-up.* Let a thread be linked in a queue. With the queue lock held the word kept it
//! out, so there was one of these:
//!
//! 1. A share of another thread. The last to leave sees the queue's bit and takes the queue lock, unless
//!    `WOKEN` is set. The owner of `WOKEN` comes in, and is a case of 1; or it queues, and has found a
//!    case of 1. A free lock that has waiters is `WOKEN`, so it is not forgotten.
//! 2. A writer in its queue. It comes in; or it gives up, and lets the readers in. If another thread
//!    cleared the queue's bit before, the lock was free, and a turn was chosen.
//! 3. A thread that upgrades. It comes in, and is a case of 1; or it gives up, and lets them in.
//!
//! (c) *Order.* Only read-modify-writes change the word, so a thread that takes the lock comes after all
//! that left. A thread that is handed the lock comes after the one that handed it over. That one
//! acquires, so it comes after the others.
//!
//! (d) *Lifetime.* After the change that gives up its share, a thread touches the table only. It chooses
//! before, and the queues cannot change in between, because their lock is held.
//!
//! **Cost** in read-modify-writes: read 2, write 2, upgrade 1, downgrade 1. Among other readers 2 more,
//! because the first guess, on the way in and out, is that the lock is otherwise unused. A guess that
//! fails does so on a line that is then the reader's own, and tells what is there. A look before it would
//! wait for the last change (2 ns of a pair's 14.7), and fetch a line that others change twice. The costs
//! of waking and of a waiter are those of the mutex.

use std::fmt;
use std::time::Duration;

use crate::observe::contention::Contention;
use crate::park::current::{current, owner_hint, waiter_hint};
use crate::park::owner::{OwnerHint, OwnerWord};
use crate::park::reason::WaitReason;
use crate::park::spin::{FULL_LOOKS, GREEN_LOOKS, Spin};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Options, Order, Token, Woken};
use crate::park::word_queues;
use crate::time;

use super::leave::{PHASE_BEGINS, Passing, WRITER_GAVE_UP};
use super::word::{Bits, Mine, Queue, RwLockWord, Share, Wish};

/// How long a waiter lets others pass before it asks for the lock to be handed over. As for the mutex.
const HANDOFF_AFTER: Duration = Duration::from_micros(500);

/// A grant: the waiter owns `WOKEN` and tries again.
pub(super) const TRY_AGAIN: Token = Token(1);
/// A grant: the share has been handed over.
pub(super) const HANDED_OVER: Token = Token(2);

/// The algorithm, without the data: see [`RwLock`](super::RwLock).
///
/// A thread other than the one that locked it may unlock it.
#[derive(Default)]
#[repr(C)]
pub struct RawRwLock {
    pub(super) word: RwLockWord,
    /// Where the thread that came in last ran then, written afterwards.
    pub(super) owner: OwnerWord,
    /// What those that leave remember for the next.
    pub(super) passing: Passing,
}

/// The outcome of one look at the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Entry {
    In,
    KeptOut,
    /// The word can count no more readers.
    Full,
}

/// What a thread does if the word can count no more readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfFull {
    Panics,
    /// It has left only to let others go first. Its guard says that it is in, so it may not panic.
    Retries,
}

pub(super) fn options(wait: Wait) -> Options {
    let mut options = Options::new(WaitReason::RwLock, wait);
    // The wait queue need not spin: `enter_or_spin` has looked at the word before the thread queues.
    options.spin = false;
    options
}

#[cold]
fn too_many_readers() -> ! {
    panic!("too many readers of a read-write lock");
}

impl RawRwLock {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self { word: RwLockWord::new(), owner: OwnerWord::new(), passing: Passing::new() }
    }

    /// Returns the address of the word.
    pub(in crate::sync) fn address(&self) -> usize {
        self.word.address()
    }

    pub(super) fn bits(&self) -> Bits {
        self.word.look()
    }

    /// Returns `true` if any thread is in.
    #[inline]
    pub(super) fn is_locked(&self) -> bool {
        !self.bits().is_free()
    }

    #[inline]
    pub(super) fn is_written(&self) -> bool {
        self.bits().is_written()
    }

    /// Comes in. The wish is a constant.
    #[inline]
    pub(super) fn acquire(&self, wish: Wish) {
        self.come_in(wish, IfFull::Panics);
    }

    /// Comes in at once if the lock is idle. Otherwise waits, without a deadline.
    #[inline]
    fn come_in(&self, wish: Wish, if_full: IfFull) {
        // The hint is loaded before the attempt. A load after it would delay the stores of the critical
        // section, and those would delay the unlock. A hint that is there already is not stored.
        let here = owner_hint();
        let known = self.owner() == here;
        if self.word.try_idle(wish) {
            if !known {
                self.set_owner(here, wish.share());
            }
        } else {
            let endless = self.acquire_slow(wish, Wait::forever(), if_full);
            debug_assert!(endless.is_ok());
        }
    }

    /// Lets waiting threads go first, and comes in again. The caller is in with this wish.
    #[inline]
    pub(super) fn bump(&self, wish: Wish) {
        let seen = self.bits();
        let others_wait = if wish == Wish::Read { seen.keeps_readers_out() } else { seen.is_waited_for() };
        if others_wait {
            self.release_fair(wish);
            self.come_in(wish, IfFull::Retries);
        }
    }

    /// Comes in if the lock lets the thread in at once.
    #[inline]
    pub(super) fn try_acquire(&self, wish: Wish) -> bool {
        match self.try_enter(wish, Mine::NOTHING) {
            Entry::In => self.set_owner(owner_hint(), wish.share()),
            Entry::KeptOut => return false,
            Entry::Full => too_many_readers(),
        }
        true
    }

    /// Comes in, unless `wait` ends before.
    #[inline]
    pub(super) fn acquire_with(&self, wish: Wish, wait: Wait) -> Result<(), WaitError> {
        wait.run(
            |wait| {
                if self.try_acquire(wish) { Ok(()) } else { self.acquire_slow(wish, wait, IfFull::Panics) }
            },
        )
    }

    #[inline]
    pub(super) fn key(&self, queue: Queue) -> usize {
        self.word.address() + queue as usize
    }

    /// Comes in if the lock lets the thread in and has room.
    #[inline]
    fn try_enter(&self, wish: Wish, mine: Mine) -> Entry {
        loop {
            let seen = self.word.look();
            if !seen.lets_in(wish, mine.is_woken()) {
                return Entry::KeptOut;
            }
            let Some(taken) = seen.without(mine).plus(wish.share()) else { return Entry::Full };
            if self.word.try_take(seen, taken) {
                if mine.is_woken() && wish != Wish::Write && taken.could_admit() {
                    self.leave(&PHASE_BEGINS, taken);
                }
                return Entry::In;
            }
        }
    }

    /// Comes in to read if the lock lets the thread in and has room. Hands no shares to others.
    fn try_read_in_passing(&self) -> bool {
        loop {
            let seen = self.word.look();
            match seen.plus(Share::READ) {
                Some(taken) if seen.lets_in(Wish::Read, false) => {
                    if self.word.try_take(seen, taken) {
                        return true;
                    }
                }
                _ => return false,
            }
        }
    }

    #[cold]
    fn acquire_slow(&self, wish: Wish, wait: Wait, if_full: IfFull) -> Result<(), WaitError> {
        // Adopts the thread, if need be: then it has a hint.
        current();
        self.forget_others();
        let mut contention = Contention::begin(self.word.address(), WaitReason::RwLock);
        let mut options = options(wait);
        let mut mine = Mine::NOTHING;
        let mut passed_over_since = None;
        let mut woken = false;
        loop {
            // After a sleep, this thread may run on another CPU or LWP.
            let here = waiter_hint();
            match self.enter_or_spin(wish, here, &mut mine) {
                Entry::In => {
                    self.set_owner_at(here, wish.share());
                    return Ok(());
                }
                Entry::KeptOut => {}
                Entry::Full => {
                    self.word.give_up_way(mine);
                    mine = Mine::NOTHING;
                    if if_full == IfFull::Panics {
                        too_many_readers();
                    }
                    // No wake-up tells that one of millions has left.
                    current().backend().yield_now(&current());
                    continue;
                }
            }
            if woken {
                // The lock was free when this thread was woken, and another thread was faster.
                let now = time::now();
                options.order = Order::Again;
                options.urgent = now - *passed_over_since.get_or_insert(now) >= HANDOFF_AFTER;
            }
            let may_enter = || self.word.look().lets_in(wish, mine.is_woken());
            let announce = || self.word.announce(wish, mine);
            let wait =
                || wait_queue::wait_unless(self.key(wish.queue()), &options, may_enter, announce, || ());
            match contention.during(wait) {
                Err(_) => continue,
                Ok(Woken::Granted(token)) if token == HANDED_OVER => {
                    contention.handed_over();
                    self.set_owner(owner_hint(), wish.share());
                    return Ok(());
                }
                Ok(Woken::Granted(_)) => {
                    mine = Mine::WOKEN;
                    woken = true;
                }
                Ok(Woken::Ended { why, .. }) => {
                    self.left_queue(wish.queue());
                    return Err(why);
                }
            }
        }
    }

    /// Comes in as soon as the lock lets the thread in, and spins for as long as that pays.
    /// [`Entry::KeptOut`]: the thread had better queue.
    fn enter_or_spin(&self, wish: Wish, here: OwnerHint, mine: &mut Mine) -> Entry {
        let mut looks = Looks::new(here);
        loop {
            let seen = self.word.look();
            if seen.lets_in(wish, mine.is_woken()) {
                if looks.is_open_at_last() {
                    let entry = self.try_enter(wish, *mine);
                    if entry != Entry::KeptOut {
                        return entry;
                    }
                }
                continue;
            }
            // Readers that other readers keep out wait for a writer that sleeps.
            if !seen.is_written() && wish != Wish::Write {
                return Entry::KeptOut;
            }
            let on_its_way = || {
                let useful = seen.is_waited_for() && !seen.is_woken() && wish != Wish::Upgradable;
                if useful && !mine.is_woken() && self.word.try_claim_way(seen) {
                    *mine = Mine::WOKEN;
                }
            };
            if !looks.look(self.owner(), on_its_way) {
                return Entry::KeptOut;
            }
        }
    }

    /// Cleans up after a waiter that has left the queue without a grant.
    fn left_queue(&self, queue: Queue) {
        let before = word_queues::with(self.word.address(), |queues| {
            queues.first(queue as usize).is_none().then(|| self.word.clear_queue(queue))
        });
        let opened = before.is_some_and(|before| {
            queue == Queue::Writers && before.waits(Queue::Writers) && before.could_admit()
        });
        if opened && self.try_read_in_passing() {
            self.leave(&WRITER_GAVE_UP, self.word.look());
        }
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.word.look();
        f.debug_struct("RawRwLock")
            .field("written", &bits.is_written())
            .field("readers", &bits.readers())
            .field("upgradable", &bits.has_upgradable())
            .field("waiters", &bits.is_waited_for())
            .finish()
    }
}

#[cfg(all(test, loom))]
mod loom_rwlock;
#[cfg(all(test, loom))]
mod loom_rwlock_owners;
#[cfg(all(test, loom))]
mod loom_rwlock_shares;
/// How long a thread looks at a lock that keeps it out, before it queues. From one sleep to the next.
pub(super) struct Looks {
    here: OwnerHint,
    spin: Option<Spin>,
    yielded: bool,
}

impl Looks {
    pub(super) fn new(here: OwnerHint) -> Self {
        Self { here, spin: None, yielded: false }
    }

    /// Returns `true` if the thread should come in: the lock has been found open. As
    /// [`Spin::is_free_at_last`].
    pub(super) fn is_open_at_last(&mut self) -> bool {
        self.spin.as_mut().is_none_or(Spin::is_free_at_last)
    }

    /// Waits for the next look. Calls `on_its_way` if that is likely to pay. Returns `false` if the
    /// thread had better queue. `last` is the hint of the thread that came in last.
    pub(super) fn look(&mut self, last: OwnerHint, on_its_way: impl FnOnce()) -> bool {
        let looks = match last.runs_elsewhere(self.here) {
            Some(true) if self.here.is_kernel() => FULL_LOOKS,
            Some(true) => GREEN_LOOKS,
            // That thread waits for the CPU of this kernel thread.
            Some(false) if self.here.is_kernel() && !self.yielded => {
                self.yielded = true;
                current().backend().yield_now(&current());
                return true;
            }
            _ => return false,
        };
        on_its_way();
        self.spin.get_or_insert_with(|| Spin::new(looks)).pause()
    }
}

#[cfg(test)]
mod word_tests;
