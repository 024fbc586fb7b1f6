//! The owner of a lock that one thread waits for, by a single look.
//!
//! A report on deadlocks looks twice, because it states what is so at one moment (`look.rs`). A list of
//! threads states what was so a moment ago, so one look is enough for it.

use super::look::must_be_one;
use super::shares::{Wants, others};
use crate::observe::lock_owners::{Hold, Holder};
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_state::WaitSnapshot;

/// Returns `true` if what is waited for has owners that may be recorded.
pub(in crate::thread) fn has_owners(reason: WaitReason) -> bool {
    must_be_one(reason) && reason != WaitReason::Join
}

/// Returns which of the recorded `holders` is to be named as the owner, if `me` waits like this. A thread
/// that holds the lock alone is named before one that shares it.
pub(in crate::thread) fn owner_of<'a>(
    me: ThreadRef,
    wait: &WaitSnapshot,
    holders: &'a [Holder],
) -> Option<&'a Holder> {
    let shares: Vec<_> = holders.iter().enumerate().map(|(n, holder)| (n, holder.hold)).collect();
    // The share that the waiter may upgrade.
    let own = holders.iter().position(|holder| holder.thread == me && holder.hold == Hold::Upgradable);
    let wants = Wants::of(wait).unwrap_or(Wants::Write);
    others(wants, own.unwrap_or(usize::MAX), &shares)
        .filter(|&(n, _)| holders[n].thread.lives_as(holders[n].id))
        .min_by_key(|&(_, hold)| hold != Hold::Alone)
        .map(|(n, _)| &holders[n])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::core_pool;
    use crate::park::word_queues::{READERS, UPGRADER};

    #[test]
    fn a_sole_holder_is_named_before_others_and_never_the_waiter_for_its_own_share() {
        let [me, other, writer] = std::array::from_fn(|_| core_pool::take(1, None, None));
        let holder = |thread: ThreadRef, hold| Holder { thread, id: thread.id(), hold, entry: 1 };
        let wait = |reason, queue| WaitSnapshot {
            serial: 1,
            reason,
            at: 0x1000 + queue,
            timed: false,
            interruptible: false,
            asleep: false,
        };
        let named = |wait, holders: &[Holder]| owner_of(me, &wait, holders).map(|holder| holder.thread);
        let (upgrades, reads) = (wait(WaitReason::RwLock, UPGRADER), wait(WaitReason::RwLock, READERS));
        let shared = [holder(me, Hold::Upgradable), holder(other, Hold::Shared)];
        assert_eq!(named(upgrades, &shared), Some(other));
        assert_eq!(named(upgrades, &shared[..1]), None);
        assert_eq!(named(reads, &[shared[1], holder(writer, Hold::Alone)]), Some(writer));
        let locks = wait(WaitReason::Mutex, 0);
        assert_eq!(named(locks, &[holder(me, Hold::Alone)]), Some(me), "it waits for itself");
        let left = holder(other, Hold::Alone);
        let _ = other.finish();
        assert_eq!(named(locks, &[left]), None, "the owner has ended");
        assert!(has_owners(WaitReason::Mutex) && !has_owners(WaitReason::Join));
        [me, other, writer].into_iter().for_each(|thread| thread.release());
    }
}
