//! What a read-write lock knows of the threads that hold it. It has a hint where the last of them ran.
//! While owners are recorded, they have entries in the record (`observe/lock_owners.rs`).
//!
//! The first thread that is recorded sets a bit of the word, which stays. From then on no thread that
//! locks finds the word of an unused lock. No thread that unlocks finds itself alone. So all take the
//! slow way, on which their entries are removed again.

use super::raw::RawRwLock;
use super::word::{Bits, Share};
use crate::observe::lock_owners::{self, Hold};
use crate::park::current::slow_owner_hint;
use crate::park::observed;
use crate::park::owner::OwnerHint;

impl RawRwLock {
    #[inline]
    pub(super) fn owner(&self) -> OwnerHint {
        self.owner.get()
    }

    /// Notes that the running thread, which `hint` is of, has taken this share.
    #[inline]
    pub(super) fn set_owner(&self, hint: OwnerHint, share: Share) {
        if hint == OwnerHint::RECORDED {
            return self.record_owner(share);
        }
        self.owner.set(hint);
    }

    /// Records that the running thread, which runs `here`, has acquired this share after a wait.
    pub(super) fn set_owner_at(&self, here: OwnerHint, share: Share) {
        self.set_owner(if observed::are_owners_recorded() { OwnerHint::RECORDED } else { here }, share);
    }

    /// Notes that the running thread, which has been in before, was the last to come in.
    pub(super) fn still_owner(&self) {
        self.owner.set(slow_owner_hint());
    }

    #[cold]
    fn record_owner(&self, share: Share) {
        self.still_owner();
        // The bit before the entry: a lock without the bit has no entries, except old ones of other locks
        // at its address.
        lock_owners::took(self.word.address(), hold(share), || self.word.record());
    }

    /// Clears old entries before the running thread waits. Guards of another lock, which lay here before,
    /// may have been forgotten; this thread does not wait for their owners.
    pub(super) fn forget_others(&self) {
        if observed::are_owners_recorded() {
            lock_owners::clear_old(self.word.address(), || !self.bits().is_recorded());
        }
    }

    /// Removes the entry of the running thread, which is about to give up this share. The word was
    /// `seen`.
    #[inline]
    pub(super) fn forget_owner(&self, seen: Bits, share: Share) {
        if seen.is_recorded() {
            lock_owners::leaves(self.word.address(), hold(share));
        }
    }

    /// Changes the entry of the running thread, which has the share `to` in place of `from`, or is about
    /// to. The word was `seen`.
    #[inline]
    pub(super) fn change_owner(&self, seen: Bits, from: Share, to: Share) {
        if seen.is_recorded() {
            lock_owners::changes(self.word.address(), hold(from), hold(to));
        }
    }
}

fn hold(share: Share) -> Hold {
    match share {
        Share::WRITE => Hold::Alone,
        Share::UPGRADABLE => Hold::Upgradable,
        _ => Hold::Shared,
    }
}

#[cfg(test)]
mod tests {
    use lock_api::{RawRwLock as _, RawRwLockTimed as _};
    use std::time::Duration;

    use super::*;
    use crate::park::current::current;
    use crate::park::tests::until;
    use crate::sys::child_tests::isolated;

    const SHORT: Duration = Duration::from_millis(1);

    /// Returns how what is at the lock's address is held, as far as that is recorded.
    fn recorded(lock: &RawRwLock) -> Vec<Hold> {
        let here = lock_owners::all().into_iter().filter(|(key, _)| *key == lock.word.address());
        here.map(|(_, holder)| holder.hold).collect()
    }

    #[test]
    fn a_thread_that_waits_removes_what_another_lock_left_behind() {
        isolated(
            concat!(module_path!(), "::a_thread_that_waits_removes_what_another_lock_left_behind"),
            || {
                let lock = RawRwLock::INIT;
                assert!(lock.try_lock_exclusive());
                lock_owners::begin();
                // As if a guard of a lock that lay here before had been forgotten.
                lock_owners::took(lock.word.address(), Hold::Shared, || false);
                assert_eq!(recorded(&lock), [Hold::Shared]);
                assert!(!lock.try_lock_exclusive_for(SHORT));
                assert_eq!(recorded(&lock), [], "no owner of this lock is known");
            },
        );
    }

    #[test]
    fn a_thread_that_waits_leaves_the_owners_of_this_lock() {
        isolated(concat!(module_path!(), "::a_thread_that_waits_leaves_the_owners_of_this_lock"), || {
            let lock = RawRwLock::INIT;
            lock_owners::begin();
            assert!(lock.try_lock_shared());
            assert!(!lock.try_lock_exclusive_for(SHORT));
            assert_eq!(recorded(&lock), [Hold::Shared]);
        });
    }

    #[test]
    fn a_thread_that_acquires_after_a_wait_is_recorded() {
        isolated(concat!(module_path!(), "::a_thread_that_acquires_after_a_wait_is_recorded"), || {
            let lock = RawRwLock::INIT;
            current();
            assert!(lock.try_lock_exclusive());
            std::thread::scope(|s| {
                let waiter = s.spawn(|| lock.lock_shared());
                until(|| lock.bits().is_waited_for());
                lock_owners::begin();
                // SAFETY: acquired above.
                unsafe { lock.unlock_exclusive() };
                waiter.join().unwrap();
            });
            assert_eq!(recorded(&lock), [Hold::Shared]);
        });
    }
}
