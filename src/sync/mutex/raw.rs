//! The adaptive lock: four bytes, a state and a hint where the owner runs.
//!
//! **Problem.** A lock is free nearly always, then cheap is all that counts; or it is held for a moment by somebody on
//! another CPU, then waiting awake is cheapest; or its owner does not run, then every look is wasted.
//!
//! **Rejected.** Handing the lock over at each unlock: fair, and eight times slower under contention, because every
//! critical section then waits for a context switch. Waking a waiter at each unlock without remembering it: an unlocker
//! in a loop wakes the whole queue, and all but one find the lock taken (609 ns an entry against 54). Spinning by
//! test-and-set: each look steals the line from the owner. Setting the waiters bit from outside of the queue lock:
//! the unlocker could not tell what is in the queue. Unlocking before the queue lock is taken: the mutex may be gone.
//!
//! **Protocol.** The queue is in the wait queue table, under the address of the lock.
//!
//! - *Lock*: `free -> LOCKED` by compare-and-swap, whoever waits (barging). Else spin while the hint says that the owner
//!   runs elsewhere, and leave alone for a while who takes it again and again (`park/spin.rs`). Else queue: with the bucket
//!   lock held, `LOCKED` must still be set, and `WAITERS` is set. A kernel thread whose own CPU the owner, another, waits for
//!   clears the hint, so that who spins for it elsewhere queues, too; and if that happens to it often, it gives the owner a turn first.
//! - *Unlock*: without waiters, or with one on its way, `LOCKED` is cleared by compare-and-swap. Else, with the bucket
//!   lock held, one waiter is taken off the queue, and `LOCKED` is cleared and `WOKEN` set in one store.
//! - *`WOKEN`* belongs to one thread: the waiter that was granted, or a spinner that asked the unlocker not to wake
//!   anybody. That thread clears it when it takes the lock or queues (again). Until then unlockers wake nobody else, but for
//!   every [`LATE`] unlocks: it may wait for a CPU, and the others sleep for nothing meanwhile.
//! - *Broadcasts*: waiters that a condition variable has moved here are granted in company, [`COMPANY`] with the one that owns
//!   `WOKEN`. They come as if they had not waited, and the unlock by that one, who is on its way before them, grants the next.
//! - *Starvation*: a waiter that was woken and found the lock taken, again and again for [`PATIENCE`], queues as urgent,
//!   and the next unlock hands the lock over: `LOCKED` stays set.
//!
//! **Proof.** (a) While `LOCKED` is set, other bits change only with the bucket lock held, but for a spinner that sets
//! `WOKEN`. So the unlocker, holding both, may store. If its store wipes out a spinner's `WOKEN`, that spinner clears
//! a bit that is not its own: an unlocker then wakes one waiter more than needed, never one too few.
//! (b) No lost wake-up: the waiter saw `LOCKED` with the bucket lock held, so the owner's unlock comes after and
//! finds `WAITERS`: it takes the bucket lock, unless `WOKEN` is set, and whoever owns that bit will pass through
//! lock and unlock, or queue, which clears it.
//! (c) Lifetime: after the store that clears `LOCKED` the unlocker touches the table only.
//!
//! **Cost** in read-modify-writes: lock 1, unlock 1; a hand-off through the queue: unlock 1 (the bucket lock), and
//! for the waiter the bucket lock, the waiters bit, the lock: 3. What counts beside those, in a loop that locks
//! and unlocks: a look at the state right after a read-modify-write 1 to 3 ns, since it waits for that one and holds up the
//! next; a load on which another depends, the same; a store between the two 1.7, which the second waits for; looks at other bytes,
//! nothing. Hence a look before the lock only where a green thread finds another's hint, whose failed attempt would take the cache line
//! away; none before the unlock, but a byte beside the state to look at; and no store of a hint that is there already.

mod owner;
pub(in crate::sync) mod robust;
mod state;

use std::time::{Duration, Instant};

use self::state::{LOCKED, State, WAITERS, WOKEN};
use crate::park::contention::Contention;
use crate::park::current::{current, hint, hint_of, place, stamp};
use crate::park::interrupt::{self, Interrupted};
use crate::park::kernel_park;
use crate::park::ledger;
use crate::park::owner::OwnerHint;
use crate::park::reason::WaitReason;
use crate::park::relay::Held;
use crate::park::spin::{self, FULL_LOOKS, GREEN_LOOKS, Spin};
use crate::park::wait_queue::{self, Options, Order, PASSED_ON, Token, Woken};
use crate::shim::atomic::{AtomicU8, AtomicU16, Ordering};
use crate::shim::{LATE, const_new, fork};
use crate::time;

/// How long a waiter lets others pass before it asks for the lock to be handed over. Half a millisecond is what
/// parking_lot grants too: some hundreds of short critical sections, far below what a person notices.
const PATIENCE: Duration = Duration::from_micros(500);

/// Of waiters that a broadcast has moved here, an unlock sends so many on their way beside the one that owns `WOKEN`.
///
/// One kernel thread at a time is a chain: each is woken on a CPU that has nothing to do and has fallen asleep, and that takes ten times as
/// long as what the thread does. All at once are a herd: more and more of them find the lock taken, and queue again.
///
/// | beside it | a broadcast to 1,000 with the mutex held, on two CPUs, us a waiter |
/// |---|---|
/// | 0 | 20.6 |
/// | 3 | 3.4 |
/// | 7, 15 | 2.8, 3.0 |
/// | 31, 127 | 3.4, 4.1 |
/// | all | 5.5 |
const COMPANY: usize = 15;

/// The algorithm, without the data: see [`Mutex`](super::Mutex).
///
/// May be unlocked by another thread than the one that locked it.
#[repr(C)]
#[derive(Default)]
pub struct RawMutex {
    state: State,
    /// Zero: nobody waits, as far as can be seen without the bucket lock, and the owner has not been written down. Else one more than the unlocks since a waiter was sent
    /// on its way, up to [`LATE`]. Only a hint, so that an unlock that must take the bucket lock does not try without first.
    queued: AtomicU8,
    /// Where the owner ran when it took the lock. Only a hint: written after the acquire, ordered by nothing.
    owner: AtomicU16,
}

/// A grant: the lock is free, the waiter owns `WOKEN` and tries again.
const TRY_AGAIN: Token = Token(1);
/// A grant: the lock has been handed over.
const HANDED_OVER: Token = Token(2);
/// A grant: the waiter tries again, and another owns `WOKEN`.
const IN_COMPANY: Token = Token(3);

/// How an attempt to lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Ended {
    Locked,
    Expired,
    /// The flag is still set.
    Interrupted,
}

impl RawMutex {
    const_new! {
        /// A free lock.
        pub const fn new() -> Self {
            Self { state: State::new(), queued: AtomicU8::new(0), owner: AtomicU16::new(0) }
        }
    }

    /// Where the waiters are.
    #[inline]
    pub(in crate::sync) fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// With the bucket lock held, or by the owner.
    #[inline]
    fn set_queued(&self, queued: bool) {
        // Relaxed: a hint.
        self.queued.store(u8::from(queued || ledger::is_on()), Ordering::Relaxed);
    }

    /// With the bucket lock held: announces a waiter, which gives up its `mine`; `false`: the lock is free.
    #[inline]
    #[must_use]
    fn announce(&self, mine: u8) -> bool {
        let announced = self.state.announce_waiter(mine);
        if announced {
            self.set_queued(true);
        }
        announced
    }

    /// Frees the lock if nobody waits.
    #[inline]
    #[must_use]
    fn try_release_idle(&self) -> bool {
        // Relaxed: a hint.
        self.queued.load(Ordering::Relaxed) == 0 && self.state.try_release_idle()
    }

    /// Counts an unlock that wakes nobody. Whether who is on its way has let too many pass. Called by the owner.
    fn is_late(&self) -> bool {
        // Relaxed, both: a hint. An arrival that is overwritten here, or overwrites it, is none the worse for it.
        let unlocks = self.queued.load(Ordering::Relaxed);
        self.queued.store(unlocks.saturating_add(1), Ordering::Relaxed);
        // In the child of a fork it never comes.
        unlocks >= LATE || fork::is_child()
    }

    #[inline]
    pub(super) fn acquire(&self) {
        // Nothing is loaded here on which another load depends: the read-modify-write would wait for both. Nor after it what can be
        // loaded before: stores that follow, and with them the unlock, would wait for that.
        let stamp = stamp();
        let known = self.owner() == stamp;
        // Who had the lock last is not kept waiting, and to a kernel thread that must wait, an attempt that fails is nothing.
        if (known || stamp.is_kernel() || self.state.is_idle()) && self.state.try_take_idle() {
            if !known {
                self.set_owner_if_new(hint_of(stamp));
            }
        } else {
            let ended = self.acquire_slow(None, 0, false);
            debug_assert_eq!(ended, Ended::Locked);
        }
    }

    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        let mut seen = 0;
        while !self.state.try_take(seen, 0) {
            seen = self.state.look();
            if seen & LOCKED != 0 {
                return false;
            }
        }
        self.set_owner(hint());
        true
    }

    #[inline]
    pub(super) fn acquire_until(&self, deadline: Option<Instant>) -> bool {
        if self.state.is_idle() && self.state.try_take_idle() {
            self.set_owner(hint());
            true
        } else {
            self.acquire_slow(deadline, 0, false) == Ended::Locked
        }
    }

    /// [`acquire_until`](Self::acquire_until), which an interrupt ends too.
    #[inline]
    pub(in crate::sync) fn acquire_interruptible(
        &self,
        deadline: Option<Instant>,
    ) -> Result<bool, Interrupted> {
        interrupt::check()?;
        if self.state.is_idle() && self.state.try_take_idle() {
            self.set_owner(hint());
            return Ok(true);
        }
        match self.acquire_slow(deadline, 0, true) {
            Ended::Locked => Ok(true),
            Ended::Expired => Ok(false),
            Ended::Interrupted => Err(interrupt::reported()),
        }
    }

    #[inline]
    pub(in crate::sync) fn release(&self) {
        if !self.try_release_idle() {
            self.release_slow(false);
        }
    }

    #[inline]
    pub(super) fn release_fair(&self) {
        if !self.try_release_idle() {
            self.release_slow(true);
        }
    }

    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.state.look() & LOCKED != 0
    }

    #[inline]
    pub(in crate::sync) fn has_waiters(&self) -> bool {
        self.state.look() & WAITERS != 0
    }

    /// Takes the lock; `mine` is `WOKEN` if the caller owns that bit, else 0.
    #[cold]
    fn acquire_slow(&self, deadline: Option<Instant>, mut mine: u8, interruptible: bool) -> Ended {
        // Adopted by now, if need be: there is a hint.
        current();
        self.forget_others();
        let mut contention = Contention::begin(self.key(), WaitReason::Mutex);
        let mut options = Options::new(WaitReason::Mutex, deadline);
        options.interruptible = interruptible;
        // What there is to see is the state, and it has been looked at when the thread queues.
        options.spin = false;
        let mut passed_over_since = None;
        let mut woken = mine != 0;
        loop {
            // After a sleep this thread may run elsewhere.
            let here = place();
            if self.take_or_spin(here, &mut mine) {
                return Ended::Locked;
            }
            if woken {
                // The lock was free when this thread was woken, and somebody else was faster.
                let now = time::now();
                options.order = Order::Again;
                options.urgent = now - *passed_over_since.get_or_insert(now) >= PATIENCE;
            }
            let wait = || wait_queue::wait(self.key(), &options, || self.announce(mine), || ());
            match contention.during(wait) {
                Err(_) => continue,
                Ok(Woken::Granted(token)) if token == HANDED_OVER => {
                    contention.handed_over();
                    self.set_owner(hint());
                    return Ended::Locked;
                }
                Ok(Woken::Granted(_)) => {
                    mine = WOKEN;
                    woken = true;
                }
                Ok(Woken::Expired { .. }) => {
                    self.left_queue();
                    return Ended::Expired;
                }
                Ok(Woken::Interrupted { .. }) => {
                    self.left_queue();
                    return Ended::Interrupted;
                }
            }
        }
    }

    /// A waiter has left the queue without a grant.
    fn left_queue(&self) {
        wait_queue::if_empty(self.key(), || {
            self.set_queued(false);
            self.state.clear_waiters();
        });
    }

    /// Takes the lock as soon as it is free, and looks for that for as long as it pays; `false`: better queue.
    #[inline]
    fn take_or_spin(&self, here: OwnerHint, mine: &mut u8) -> bool {
        let mut spin = Spin::new(if here.is_kernel() { FULL_LOOKS } else { GREEN_LOOKS });
        let mut yielded = false;
        loop {
            let seen = self.state.look();
            if seen & LOCKED == 0 {
                if spin.is_free_at_last() && self.state.try_take(seen, *mine) {
                    self.set_owner_at(here);
                    // Who has left nothing behind was there a moment ago, and may be back in another.
                    if seen == 0 || spin.has_paused() {
                        spin::show_it_is_taken();
                    }
                    return true;
                }
                continue;
            }
            let owner = self.owner();
            match owner.runs_elsewhere(here) {
                Some(true) => {
                    if *mine == 0 && seen & (WAITERS | WOKEN) == WAITERS && self.state.try_claim_way(seen) {
                        *mine = WOKEN;
                    }
                    if !spin.pause() {
                        return false;
                    }
                }
                // The owner waits for the very CPU that this kernel thread is on.
                Some(false) if here.is_kernel() && owner.is_kernel() && !yielded => {
                    yielded = true;
                    self.tell_it_waits();
                    if !kernel_park::give_turn(current()) {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }

    #[cold]
    fn release_slow(&self, fair: bool) {
        self.forget_owner();
        loop {
            let seen = self.state.look();
            assert!(seen & LOCKED != 0, "unlocked a mutex that is not locked");
            if seen & WAITERS == 0 {
                self.set_queued(false);
            } else if fair || seen & WOKEN == 0 || self.is_late() {
                break;
            }
            if self.state.try_release(seen) {
                return;
            }
        }
        let others = if fair { 0 } else { COMPANY };
        let granted = wait_queue::grant_in_company(self.key(), others, IN_COMPANY, |found| match found {
            None => {
                self.set_queued(false);
                self.state.store(0);
                TRY_AGAIN
            }
            Some(found) => {
                self.set_queued(found.more);
                let waiters = if found.more { WAITERS } else { 0 };
                if fair || found.urgent {
                    self.state.store(LOCKED | waiters);
                    HANDED_OVER
                } else {
                    self.state.store(WOKEN | waiters);
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

    /// For a condition variable that moves its waiters here, with the bucket lock held: announces them. `true`: the lock was free, and the caller has
    /// taken it, so that there is an unlock to send them on their way.
    #[must_use]
    pub(in crate::sync) fn announce_or_take(&self) -> bool {
        let mut taken = false;
        while !self.announce(0) {
            let seen = self.state.look();
            taken = seen & LOCKED == 0 && self.state.try_take(seen, 0);
        }
        taken
    }

    /// For a thread that has waited at a condition variable, after its wait, which ended with `token`: takes the lock,
    /// if it does not have it.
    pub(in crate::sync) fn acquire_after(&self, token: Token) {
        if token == HANDED_OVER || token == PASSED_ON {
            self.set_owner(hint());
        } else if token == TRY_AGAIN {
            let ended = self.acquire_slow(None, WOKEN, false);
            debug_assert_eq!(ended, Ended::Locked);
        } else if self.state.try_take_idle() {
            // Without a look: whoever notified and waits now has unlocked it a moment ago, and the look would wait for that.
            self.set_owner(hint());
        } else {
            let ended = self.acquire_slow(None, 0, false);
            debug_assert_eq!(ended, Ended::Locked);
        }
    }
}

/// While a condition variable waits with it.
impl Held for RawMutex {
    #[inline]
    fn is_alone(&self) -> bool {
        // Relaxed: a hint.
        self.queued.load(Ordering::Relaxed) == 0 && self.state.look() == LOCKED
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
#[path = "../tests/late.rs"]
mod late;
#[cfg(all(test, loom))]
#[path = "../tests/loom_mutex.rs"]
mod loom_mutex;
#[cfg(all(test, loom))]
#[path = "../tests/loom_owner.rs"]
mod loom_owner;
