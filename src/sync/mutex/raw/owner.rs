//! What a mutex knows of its owner: a hint where it ran, and an entry in the record
//! (`observe/lock_owners.rs`) while owners are recorded.

use super::RawMutex;
use crate::observe::lock_owners::{self, Hold};
use crate::park::current::slow_owner_hint;
use crate::park::fetches;
use crate::park::observed;
use crate::park::owner::OwnerHint;

impl RawMutex {
    /// Notes that the running thread, which `hint` is of, has taken the lock.
    #[inline]
    pub(super) fn set_owner(&self, hint: OwnerHint) {
        if hint == OwnerHint::RECORDED {
            return self.record_owner();
        }
        self.owner.set(hint);
    }

    /// [`set_owner`](Self::set_owner) that spares a store that changes nothing: the next
    /// read-modify-write would wait for it.
    #[inline]
    pub(super) fn set_owner_if_new(&self, hint: OwnerHint) {
        let last = self.owner.get();
        if last != hint {
            self.change_owner(last, hint);
        }
    }

    /// [`set_owner_if_new`](Self::set_owner_if_new) if it is new. Out of line, it costs an entry nothing
    /// where the last was by the same thread.
    #[inline(never)]
    fn change_owner(&self, last: OwnerHint, hint: OwnerHint) {
        fetches::count(last, hint);
        self.set_owner(hint);
    }

    /// Records that the running thread, which runs `here`, has acquired the lock after a wait.
    #[inline]
    pub(super) fn set_owner_at(&self, here: OwnerHint) {
        self.set_owner(if observed::are_owners_recorded() { OwnerHint::RECORDED } else { here });
    }

    /// Notes that the owner, a kernel thread, waits for the caller's CPU: threads on other CPUs need not
    /// spin for it.
    pub(super) fn tell_it_waits(&self) {
        // If it is about another owner by then, no thread spins for that one.
        self.owner.set(OwnerHint::UNKNOWN);
    }

    #[cold]
    fn record_owner(&self) {
        self.owner.set(slow_owner_hint());
        lock_owners::took(self.key(), Hold::Alone, || {
            if self.no_owner_is_known() {
                // From here on unlocks come to `forget_owner`. A thread that queues meanwhile stores the
                // same.
                self.queued.set(true);
            }
            true
        });
    }

    /// Returns `true` if no owner has been recorded. Then no thread has queued either: while owners are
    /// recorded, the byte is not cleared.
    pub(super) fn no_owner_is_known(&self) -> bool {
        // A thread that has seen an entry of the owner comes after the store to this byte, by the lock of the
        // record.
        self.queued.is_clear()
    }

    /// Clears old entries before the running thread waits, while owners are recorded. A guard of another
    /// lock, which lay here before, may have been forgotten. This thread does not wait for its owner.
    #[cold]
    pub(super) fn forget_others(&self) {
        lock_owners::clear_old(self.key(), || self.no_owner_is_known());
    }

    /// Removes the entry of the owner, which is about to unlock, while owners are recorded.
    #[cold]
    pub(super) fn forget_owner(&self) {
        lock_owners::leaves(self.key(), Hold::Alone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_after_one_on_another_lwp_is_counted() {
        let mutex = RawMutex::new();
        let (before, here) = (fetches::counted(), OwnerHint::green(2, 0));
        for last in [OwnerHint::green(1, 0), here] {
            mutex.set_owner(last);
            mutex.set_owner_if_new(here);
            assert_eq!(mutex.owner.get(), here);
            assert_eq!(fetches::counted(), before + 1);
        }
    }
}
