//! The adaptive mutex: four bytes, which hold a state and a hint where the owner runs.
//!
//! **Problem.** A lock is in one of three situations, and each wants something else.
//!
//! - It is free. This is nearly always so, and then only the cost of an entry counts.
//! - A thread on another CPU holds it for a moment. Then waiting awake is cheapest.
//! - Its owner does not run. Then every look is wasted.
//!
//! **Rejected.**
//!
//! - Handing the lock over at each unlock. This is fair, but eight times slower under contention, because
//!   every critical section then waits for a context switch.
//! - Waking a waiter at each unlock without remembering it. A thread that unlocks in a loop wakes the
//!   whole queue, and all waiters but one find the lock taken (609 ns an entry against 54).
//! - Spinning by test-and-set. Each look steals the cache line from the owner.
//! - Setting `WAITERS` without the queue lock. The unlocker could not tell what is in the queue.
//! - Unlocking before the queue lock is taken. The mutex may be gone by then.
//!
//! **Protocol.** The queue is in the wait queue table, under the address of the lock.
//!
//! - *Lock*: `free -> LOCKED` by compare-and-swap, even if others wait (barging). Otherwise the thread
//!   spins while the hint says that the owner runs elsewhere. A green thread that finds its own hint looks
//!   once more: the new owner has not stored its own yet. If an owner takes the lock again and again,
//!   the spinner leaves the lock alone for a while (`park/spin.rs`, `park/fetches.rs`). Otherwise it queues:
//!   with the bucket lock held, `LOCKED` must still be set, and `WAITERS` is set.
//! - *Same CPU*: a kernel thread may find that the owner, another kernel thread, waits for the caller's
//!   own CPU. It then clears the hint, which makes spinners on other CPUs queue too. If this happens to
//!   it often, it yields the CPU to the owner before it queues.
//! - *Unlock*: if there are no waiters, or one is on its way, `LOCKED` is cleared by compare-and-swap.
//!   Otherwise, with the bucket lock held, one waiter is taken off the queue. `LOCKED` is cleared and
//!   `WOKEN` set in one store.
//! - *`WOKEN`* belongs to one thread: the waiter that was granted, or a spinner that asked the unlocker to
//!   wake no other thread. That thread clears it when it takes the lock or queues (again). Until then unlocks
//!   wake no other thread, except one in every `MAX_SKIPPED_WAKES` unlocks. The owner of the bit may be
//!   waiting for a CPU, and the others would sleep for nothing meanwhile. If no other waits, that unlock
//!   forgets it: it clears the bit, which sends each lock and unlock to the slow path.
//! - *Broadcasts*: a condition variable moves its waiters here. They are granted in batches: up to
//!   [`MOST`](company::MOST) of them together with the one that owns `WOKEN`. They try as if they had not
//!   waited. The owner of `WOKEN` is on its way before them, and its unlock grants the next.
//! - *Starvation*: if a waiter is woken and finds the lock taken again and again for [`HANDOFF_AFTER`], it
//!   queues as urgent. The next unlock hands the lock over: `LOCKED` stays set.
//!
//! **Proof.**
//!
//! (a) *Stores.* While `LOCKED` is set, other bits change only with the bucket lock held, except that a
//! spinner may set `WOKEN`. The unlocker holds both locks, so it may store. Its store may wipe out a
//! spinner's `WOKEN`, and an unlock that forgets a late waiter wipes out the waiter's. The one or the other
//! then clears a bit that is not its own. An unlocker wakes one waiter more than needed, never one too few.
//!
//! (b) *No lost wake-up.* The waiter saw `LOCKED` with the bucket lock held, so the owner's unlock comes
//! after, and finds `WAITERS`. It takes the bucket lock, unless `WOKEN` is set. The owner of that bit
//! will lock and unlock, or queue, which clears the bit.
//!
//! (c) *Lifetime.* After the store that clears `LOCKED`, the unlocker touches the table only.
//!
//! **Cost** in read-modify-writes: lock 1, unlock 1. A hand-off through the queue: unlock 1 (the bucket
//! lock), and 3 for the waiter (the bucket lock, `WAITERS`, the lock). In a loop that locks and unlocks,
//! other steps count too:
//!
//! - a look at the state right after a read-modify-write, 1 to 3 ns: it waits for that one, and delays
//!   the next
//! - a load on which another load depends, the same
//! - a store between the two, 1.7 ns: the second read-modify-write waits for it
//! - a look at other bytes, nothing
//!
//! Hence a thread looks before it locks only if it is a green thread and the hint is another thread's. A
//! failed attempt would take the cache line away. It does not look before the unlock; a byte beside the
//! state tells enough. It does not store a hint that is there already.

pub(in crate::sync) mod kind;
mod owner;
mod word;

use std::time::Duration;

use self::kind::{Got, IsDead};
use self::word::{LOCKED, MutexWord, QueuedHint, WAITERS, WOKEN};
use crate::observe::contention::Contention;
use crate::park::company;
use crate::park::current::{cached_hint, current, owner_hint, owner_hint_from, waiter_hint};
use crate::park::fetches;
use crate::park::mutex_handoff::HeldMutex;
use crate::park::observed;
use crate::park::owner::{OwnerHint, OwnerWord};
use crate::park::reason::WaitReason;
use crate::park::spin::{self, GREEN_LOOKS, Spin};
use crate::park::turns::{self, TURNS};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, OWNER_DIED, Options, Order, PASSED_ON, Token, Woken};
use crate::time;

/// How long a waiter lets others pass before it asks for the lock to be handed over. parking_lot uses
/// half a millisecond too. That is some hundreds of short critical sections, and far below what a person
/// notices.
const HANDOFF_AFTER: Duration = Duration::from_micros(500);

/// The algorithm, without the data: see [`Mutex`](super::Mutex).
///
/// A thread other than the one that locked it may unlock it.
#[repr(C)]
#[derive(Default)]
pub struct RawMutex {
    word: MutexWord,
    queued: QueuedHint,
    /// Where the owner ran when it took the lock. Only a hint: written after the acquire, ordered by nothing.
    owner: OwnerWord,
}

/// A grant: the lock is free; the waiter owns `WOKEN` and tries again.
const TRY_AGAIN: Token = Token(1);
/// A grant: the lock has been handed over.
const HANDED_OVER: Token = Token(2);

impl RawMutex {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self { word: MutexWord::new(), queued: QueuedHint::new(), owner: OwnerWord::new() }
    }

    /// Returns the key under which its waiters queue.
    #[inline]
    pub(in crate::sync) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Announces a waiter, which gives up its `mine`. Returns `false` if the lock is free. The caller
    /// holds the bucket lock.
    #[inline]
    #[must_use]
    fn announce(&self, mine: u8) -> bool {
        let announced = self.word.announce_waiter(mine);
        if announced {
            self.queued.set(true);
        }
        announced
    }

    /// Frees the lock if no thread waits.
    #[inline]
    #[must_use]
    fn try_release_idle(&self) -> bool {
        self.queued.is_clear() && self.word.try_release_idle()
    }

    #[inline]
    pub(in crate::sync) fn acquire(&self) {
        self.acquire_or(|| self.acquire_contended(0));
    }

    /// Acquires the lock if no thread has it or waits for it. Otherwise `contended` does.
    #[inline]
    fn acquire_or(&self, contended: impl FnOnce()) {
        // The lock is not preceded by a load on which another load depends: the read-modify-write would
        // wait for both. Nor is it followed by a load that can come before it: the stores after that
        // load, and so the unlock, would wait for it.
        let cached = cached_hint();
        let known = self.owner.get() == cached;
        // The last owner tries without a look. So does a kernel thread: beside its wait, a failed attempt
        // costs nothing.
        if (known || cached.is_kernel() || self.word.is_idle()) && self.word.try_take_idle() {
            if !known {
                self.set_owner_if_new(owner_hint_from(cached));
            }
        } else {
            contended();
        }
    }

    #[inline]
    pub(in crate::sync) fn try_acquire(&self) -> bool {
        let mut seen = 0;
        while !self.word.try_take(seen, 0) {
            seen = self.word.look();
            if seen & LOCKED != 0 {
                return false;
            }
        }
        self.set_owner(owner_hint());
        true
    }

    /// Acquires the lock, and ends as `wait` says. After an interrupt, the thread's flag is still set.
    #[inline]
    pub(in crate::sync) fn acquire_with(&self, wait: Wait) -> Result<(), WaitError> {
        self.acquire_as(wait, Order::NearLifo, None).map(|_| ())
    }

    #[inline]
    pub(in crate::sync) fn release(&self) {
        if !self.try_release_idle() {
            self.release_slow(false);
        }
    }

    #[inline]
    pub(in crate::sync) fn release_fair(&self) {
        if !self.try_release_idle() {
            self.release_slow(true);
        }
    }

    #[inline]
    pub(in crate::sync) fn is_taken(&self) -> bool {
        self.word.look() & LOCKED != 0
    }

    #[inline]
    pub(in crate::sync) fn has_waiters(&self) -> bool {
        self.word.look() & WAITERS != 0
    }

    /// Does what [`acquire_slow`](Self::acquire_slow) does, however long it takes. A caller that inlines the
    /// lock then has no [`Wait`] in its frame.
    #[cold]
    fn acquire_contended(&self, mine: u8) {
        let endless = self.acquire_slow(Wait::forever(), mine, Order::NearLifo, None);
        debug_assert_eq!(endless, Ok(Got::Locked));
    }

    /// Acquires the lock, and ends as `wait` says, or when the owner is found dead. The thread queues in
    /// `order`; `mine` is `WOKEN` if the caller owns that bit, otherwise 0.
    #[cold]
    fn acquire_slow(
        &self,
        wait: Wait,
        mut mine: u8,
        order: Order,
        owner_is_dead: IsDead<'_>,
    ) -> Result<Got, WaitError> {
        // Adopts the thread, if need be: then it has a hint.
        current();
        if observed::are_owners_recorded() {
            self.forget_others();
        }
        let mut contention = Contention::begin(self.key(), WaitReason::Mutex);
        let mut options = Options::new(WaitReason::Mutex, wait);
        (options.order, options.heir) = (order, owner_is_dead.is_some());
        // The wait queue need not spin: `take_or_spin` has looked at the state before the thread queues.
        options.spin = false;
        let owner_is_dead = || owner_is_dead.is_some_and(|is_dead| is_dead());
        let mut passed_over_since = None;
        let mut woken = mine != 0;
        loop {
            // After a sleep, this thread may run on another CPU or LWP.
            let here = waiter_hint();
            if self.take_or_spin(here, &mut mine) {
                return Ok(Got::Locked);
            }
            if owner_is_dead() {
                self.end_way(mine);
                return Ok(Got::OwnerDied);
            }
            if woken {
                // The lock was free when this thread was woken, and another thread was faster.
                let now = time::now();
                options.order = Order::Again;
                options.urgent = now - *passed_over_since.get_or_insert(now) >= HANDOFF_AFTER;
            }
            let is_over = || owner_is_dead() || self.word.look() & LOCKED == 0;
            let last_look = || !owner_is_dead() && self.announce(mine);
            match contention
                .during(|| wait_queue::wait_unless(self.key(), &options, is_over, last_look, || ()))
            {
                Err(_) => continue,
                Ok(Woken::Granted(HANDED_OVER)) => {
                    contention.handed_over();
                    self.set_owner(owner_hint());
                    return Ok(Got::Locked);
                }
                Ok(Woken::Granted(OWNER_DIED)) => {
                    // The next unlock may find that the queue is empty, which is allowed.
                    mine = 0;
                    options.order = Order::Again;
                }
                Ok(Woken::Granted(token)) => {
                    debug_assert_eq!(token, TRY_AGAIN, "only moved waiters are granted in company");
                    mine = WOKEN;
                    woken = true;
                }
                Ok(Woken::Ended { why, .. }) => {
                    self.left_queue();
                    return Err(why);
                }
            }
        }
    }

    /// Cleans up after a waiter that has left the queue without a grant.
    fn left_queue(&self) {
        wait_queue::if_empty(self.key(), || {
            self.queued.set(false);
            self.word.clear_waiters();
        });
    }

    /// Takes the lock as soon as it is free, and spins for as long as that pays. Returns `false` if the
    /// thread had better queue.
    #[inline]
    fn take_or_spin(&self, here: OwnerHint, mine: &mut u8) -> bool {
        if here.is_kernel() && turns::is_crowd(here) {
            return self.take_in_turns(here, *mine);
        }
        // As a rule where threads share an LWP: there is nothing to spin for.
        if self.is_taken() && self.owner.get().has_left_lwp_to(here) {
            return false;
        }
        let mut spin = Spin::new(if here.is_kernel() { turns::looks(here) } else { GREEN_LOOKS });
        let mut yielded = false;
        loop {
            let seen = self.word.look();
            if seen & LOCKED == 0 {
                if spin.is_free_at_last() && self.word.try_take(seen, *mine) {
                    self.set_owner_at(here);
                    if spin.has_left_alone() {
                        spin::show_it_is_taken();
                        fetches::begin(here);
                    }
                    return true;
                }
                continue;
            }
            let owner = self.owner.get();
            match owner.runs_elsewhere(here) {
                Some(true) if fetches::leave_to_others(here, owner, &mut spin) => {}
                Some(true) => {
                    if may_claim_way(*mine, seen) && self.word.try_claim_way(seen) {
                        *mine = WOKEN;
                    }
                    if !spin.pause() {
                        return false;
                    }
                }
                Some(false) if may_yield_cpu(here, owner, yielded) => {
                    yielded = true;
                    self.tell_it_waits();
                    if !turns::try_yield(here) {
                        return false;
                    }
                }
                Some(false) if owner == here && !here.is_kernel() && spin.await_hint() => {}
                _ => return false,
            }
        }
    }

    /// [`take_or_spin`](Self::take_or_spin) of a kernel thread among many that take turns on its CPU.
    fn take_in_turns(&self, here: OwnerHint, mine: u8) -> bool {
        let mut turns = 0;
        loop {
            let seen = self.word.look();
            if seen & LOCKED == 0 {
                if self.word.try_take(seen, mine) {
                    self.set_owner_at(here);
                    return true;
                }
                continue;
            }
            if seen & WAITERS != 0 || turns == TURNS || !turns::try_yield(here) {
                return false;
            }
            turns += 1;
        }
    }

    #[cold]
    fn release_slow(&self, fair: bool) {
        if observed::are_owners_recorded() {
            self.forget_owner();
        }
        loop {
            let seen = self.word.look();
            assert!(seen & LOCKED != 0, "unlocked a mutex that is not locked");
            let one_comes = seen & WOKEN != 0 && !self.queued.is_late();
            if seen & WAITERS != 0 && (fair || !one_comes) {
                break;
            }
            if !one_comes {
                self.queued.set(false);
            }
            if self.word.try_release(seen, if one_comes { seen & !LOCKED } else { 0 }) {
                return;
            }
        }
        let others = if fair { 0 } else { company::MOST };
        let (room, leaves) = (company::room, company::leaves);
        let granted = wait_queue::grant_batch(self.key(), others, room, leaves, |found| match found {
            None => {
                self.queued.set(false);
                self.word.store(0);
                TRY_AGAIN
            }
            Some(found) => {
                self.queued.set(found.more);
                let waiters = if found.more { WAITERS } else { 0 };
                if fair || found.urgent {
                    self.word.store(LOCKED | waiters);
                    HANDED_OVER
                } else {
                    self.word.store(WOKEN | waiters);
                    TRY_AGAIN
                }
            }
        });
        // The mutex may be gone from here on.
        if let Some((grant, company)) = granted {
            grant.wake();
            company.wake_all();
        }
    }

    /// Announces waiters that a condition variable moves here. Returns `true` if the lock was free, and
    /// the caller has taken it: then there is an unlock that wakes them. The caller holds the bucket
    /// lock.
    #[must_use]
    pub(in crate::sync) fn announce_or_take(&self) -> bool {
        let mut taken = false;
        while !self.announce(0) {
            let seen = self.word.look();
            taken = seen & LOCKED == 0 && self.word.try_take(seen, 0);
        }
        taken
    }

    /// Acquires the lock after a wait at a condition variable that ended with `token`, if the thread does
    /// not have the lock.
    pub(in crate::sync) fn acquire_after(&self, token: Token) {
        if token == HANDED_OVER || token == PASSED_ON {
            self.set_owner(owner_hint());
        } else if token == TRY_AGAIN {
            self.acquire_contended(WOKEN);
        } else {
            company::arrives(token);
            self.acquire_as_new();
        }
    }

    /// Acquires the lock for a thread that does not own `WOKEN`.
    fn acquire_as_new(&self) {
        if self.word.try_take_idle() {
            // Without a look: a thread that notifies and then waits has unlocked a moment ago, and the
            // look would wait for that unlock.
            self.set_owner(owner_hint());
        } else {
            self.acquire_contended(0);
        }
    }
}

/// Returns `true` if a spinner may ask the owner to wake no waiter: a thread waits, and none is on its
/// way. A hint.
#[inline]
fn may_claim_way(mine: u8, seen: u8) -> bool {
    mine == 0 && seen & (WAITERS | WOKEN) == WAITERS
}

/// Returns `true` if the owner waits for the CPU of this kernel thread, and this one has not yielded yet. A
/// hint.
#[inline]
fn may_yield_cpu(here: OwnerHint, owner: OwnerHint, yielded: bool) -> bool {
    here.is_kernel() && owner.is_kernel() && !yielded
}

/// While a thread waits at a condition variable with it.
impl HeldMutex for RawMutex {
    #[inline]
    fn is_alone(&self) -> bool {
        self.queued.is_clear() && self.word.look() == LOCKED
    }

    #[inline]
    fn release(&self) {
        self.release();
    }
}

impl std::fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawMutex")
            .field("locked", &self.is_taken())
            .field("waiters", &self.has_waiters())
            .finish()
    }
}

#[cfg(test)]
mod late_tests;
#[cfg(all(test, loom))]
mod loom_mutex;
#[cfg(all(test, loom))]
mod loom_owner;
