//! Waiting for a mutex whose owner may end without unlocking it: for `sync::robust`, which knows who the owner is.
//!
//! The wait is the mutex's own, but for two things: it is over when the owner is found dead, which it looks for with the bucket lock
//! held before it sleeps; and a waiter that is told that some owner has died looks again (`park/robust.rs` has the proof).
//!
//! A thread that owns `WOKEN` and finds the owner dead gives the bit up: it takes the lock over or waits again, and in either case
//! an unlock is to come that must wake somebody.

use std::time::Instant;

use super::{HANDED_OVER, PATIENCE, RawMutex, WOKEN};
use crate::park::contention::Contention;
use crate::park::current::{current, hint, place};
use crate::park::interrupt;
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, OWNER_DIED, Options, Order, Woken};
use crate::shim::atomic::Ordering;
use crate::time;

/// How an attempt to lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(in crate::sync) enum Ended {
    Locked,
    /// The mutex is still locked, by a thread that has ended.
    OwnerDied,
    Expired,
    Interrupted,
}

impl RawMutex {
    /// Locks it, unless its owner is dead.
    #[inline]
    pub(in crate::sync) fn acquire_unless(
        &self,
        owner_is_dead: impl Fn() -> bool,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Ended {
        if interruptible && interrupt::take() {
            return Ended::Interrupted;
        }
        if self.state.is_idle() && self.state.try_take_idle() {
            self.set_owner(hint());
            return Ended::Locked;
        }
        self.acquire_unless_slow(&owner_is_dead, deadline, interruptible)
    }

    /// As `acquire_slow`.
    #[cold]
    fn acquire_unless_slow(
        &self,
        owner_is_dead: &dyn Fn() -> bool,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Ended {
        current();
        let mut contention = Contention::begin(self.key(), WaitReason::Mutex);
        let mut options = Options::new(WaitReason::Mutex, deadline);
        options.interruptible = interruptible;
        options.spin = false;
        options.heir = true;
        let mut mine = 0;
        let mut passed_over_since = None;
        let mut woken = false;
        loop {
            if self.take_or_spin(place(), &mut mine) {
                return Ended::Locked;
            }
            if owner_is_dead() {
                self.end_way(mine);
                return Ended::OwnerDied;
            }
            if woken {
                let now = time::now();
                options.order = Order::Again;
                options.urgent = now - *passed_over_since.get_or_insert(now) >= PATIENCE;
            }
            let last_look = || !owner_is_dead() && self.announce(mine);
            match contention.during(|| wait_queue::wait(self.key(), &options, last_look, || ())) {
                Err(_) => continue,
                Ok(Woken::Granted(OWNER_DIED)) => {
                    // The next unlock may find a queue without waiters, which it can.
                    mine = 0;
                    options.order = Order::Again;
                }
                Ok(Woken::Granted(HANDED_OVER)) => {
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
                    let _ = interrupt::reported();
                    return Ended::Interrupted;
                }
            }
        }
    }

    /// Returns `true` if it is locked at this moment of a model.
    #[cfg(all(test, loom))]
    pub(in crate::sync) fn is_locked_now(&self) -> bool {
        // A read-modify-write sees the last store.
        self.state.0.fetch_and(!0, Ordering::Relaxed) & super::LOCKED != 0
    }

    /// An heir has taken it over from a dead owner.
    #[cold]
    pub(in crate::sync) fn taken_over(&self) {
        self.set_owner(hint());
    }

    /// Who owns `WOKEN`, if `mine` is that, does not take the lock.
    #[cold]
    fn end_way(&self, mine: u8) {
        // Relaxed: it publishes nothing; a read-modify-write among others.
        self.state.0.fetch_and(!mine, Ordering::Relaxed);
    }
}
