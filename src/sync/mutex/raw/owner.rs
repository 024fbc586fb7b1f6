//! What a mutex knows of its owner: a hint where it ran; and, while somebody asks who it is, what has been written down
//! elsewhere (`park/ledger.rs`).

use super::RawMutex;
use crate::park::current::exact_hint;
use crate::park::ledger::{self, Hold};
use crate::park::owner::OwnerHint;
use crate::shim::atomic::Ordering;

impl RawMutex {
    #[inline]
    pub(super) fn owner(&self) -> OwnerHint {
        // Relaxed: a hint.
        OwnerHint::from_bits(self.owner.load(Ordering::Relaxed))
    }

    /// The running thread, whose hint this is, has taken the lock.
    #[inline]
    pub(super) fn set_owner(&self, hint: OwnerHint) {
        if hint == OwnerHint::RECORDED {
            return self.record_owner();
        }
        // Relaxed: a hint.
        self.owner.store(hint.bits(), Ordering::Relaxed);
    }

    /// The same; a store that changes nothing is spared, because the next read-modify-write would wait for it.
    #[inline]
    pub(super) fn set_owner_if_new(&self, hint: OwnerHint) {
        if self.owner() != hint {
            self.set_owner(hint);
        }
    }

    /// Records that the running thread, which runs `here`, has acquired the lock after a wait.
    #[inline]
    pub(super) fn set_owner_at(&self, here: OwnerHint) {
        self.set_owner(if ledger::is_on() { OwnerHint::RECORDED } else { here });
    }

    /// The owner, a kernel thread, waits for the caller's CPU: whoever spins for it on another need not.
    pub(super) fn tell_it_waits(&self) {
        // Relaxed: a hint. If it is about another owner by now, nobody spins for that one.
        self.owner.store(OwnerHint::UNKNOWN.bits(), Ordering::Relaxed);
    }

    #[cold]
    fn record_owner(&self) {
        // Relaxed, all: hints.
        self.owner.store(exact_hint().bits(), Ordering::Relaxed);
        ledger::took(self.key(), Hold::Alone, || {
            if self.nobody_is_known() {
                // From here on unlocks come to `forget_owner`. Whoever queues meanwhile stores the same.
                self.queued.store(1, Ordering::Relaxed);
            }
            true
        });
    }

    /// Whether nobody has been written down who has locked it. (And nobody has queued: while owners are recorded the byte is not cleared.)
    pub(super) fn nobody_is_known(&self) -> bool {
        // Relaxed: who has seen an entry of its owner is after this byte was set, by the lock of the ledger.
        self.queued.load(Ordering::Relaxed) == 0
    }

    /// The running thread is about to wait: not for who has forgotten a guard of another lock, which lay here before.
    #[inline]
    pub(super) fn forget_others(&self) {
        if ledger::is_on() {
            ledger::clear_old(self.key(), || self.nobody_is_known());
        }
    }

    /// The owner is about to unlock.
    #[inline]
    pub(super) fn forget_owner(&self) {
        if ledger::is_on() {
            ledger::leaves(self.key(), Hold::Alone);
        }
    }
}
