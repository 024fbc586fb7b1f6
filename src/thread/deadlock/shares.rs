//! Which threads a waiter waits for at a read-write lock: a pure function of its holders and their shares,
//! as far as those are known.
//!
//! Not every holder keeps every other thread out:
//!
//! - A writer needs all other holders gone.
//! - A reader needs a holder gone only if that holder writes.
//! - An upgradable reader needs a holder gone only if that holder may write.
//!
//! If another thread waits to write, it keeps the last two out, too, beside other readers. If that thread
//! gives up at some time, they come in then, and the readers do not matter. If it never gives up, they need
//! all threads gone for which it waits.
//!
//! Unknown holders do no harm: a thread that is said to be needed is needed, even if there are more.

use crate::observe::lock_owners::Hold;
use crate::park::reason::WaitReason;
use crate::park::wait_state::WaitSnapshot;
use crate::park::word_queues::{QUEUES, READERS, UPGRADER, WRITERS};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Read,
    /// Reads, as the one that may write later.
    Upgradable,
    Write,
    /// Reads already as that one, and waits for the others to leave.
    Upgrade,
}

impl Wants {
    /// Returns what a thread wants, by the lock's queue in which it waits.
    pub(super) fn of(wait: &WaitSnapshot) -> Option<Self> {
        (wait.reason == WaitReason::RwLock).then_some(match wait.at % QUEUES {
            READERS => Self::Read,
            WRITERS => Self::Write,
            UPGRADER => Self::Upgrade,
            _ => Self::Upgradable,
        })
    }

    /// Returns `true` if it keeps new readers out while it waits.
    pub(super) fn closes_the_door(self) -> bool {
        matches!(self, Self::Write | Self::Upgrade)
    }
}

/// Returns the holders that count as others for `me`. These are all, except for its own upgradable share if
/// it upgrades that.
pub(super) fn others<'a>(
    wants: Wants,
    me: usize,
    holders: &'a [(usize, Hold)],
) -> impl Iterator<Item = (usize, Hold)> + 'a {
    holders.iter().copied().filter(move |&holder| wants != Wants::Upgrade || holder != (me, Hold::Upgradable))
}

/// Returns the holders that must all go on before `me` does. If there are none, they are not known. With
/// `closed`, a thread that never gives up waits to write, and no thread that has been let in to read is on
/// its way.
pub(super) fn needed(wants: Wants, me: usize, holders: &[(usize, Hold)], closed: bool) -> Vec<usize> {
    let is_in_the_way = |hold| match wants {
        Wants::Write | Wants::Upgrade => true,
        Wants::Upgradable => closed || hold != Hold::Shared,
        Wants::Read => closed || hold == Hold::Alone,
    };
    others(wants, me, holders).filter(|&(_, hold)| is_in_the_way(hold)).map(|(holder, _)| holder).collect()
}

#[cfg(test)]
mod tests {
    use super::Wants::{Read, Upgradable, Upgrade, Write};
    use super::*;

    const ME: usize = 9;

    #[track_caller]
    fn check(wants: Wants, holders: &[(usize, Hold)], closed: bool, expected: &[usize]) {
        assert_eq!(needed(wants, ME, holders, closed), expected, "{wants:?}, {holders:?}, {closed}");
    }

    #[test]
    fn a_queue_tells_what_a_waiter_wants() {
        let wait = |reason, queue| WaitSnapshot {
            serial: 1,
            reason,
            at: 0x1000 + queue,
            timed: false,
            interruptible: false,
            asleep: true,
        };
        let wanted = |queue| Wants::of(&wait(WaitReason::RwLock, queue));
        assert_eq!([READERS, WRITERS, UPGRADER].map(wanted), [Some(Read), Some(Write), Some(Upgrade)]);
        let other = (0..QUEUES).find(|queue| ![READERS, WRITERS, UPGRADER].contains(queue)).unwrap();
        assert_eq!(wanted(other), Some(Upgradable));
        assert_eq!(Wants::of(&wait(WaitReason::Mutex, READERS)), None);
    }

    #[test]
    fn cases() {
        let [writer, upgradable, reader, other] =
            [(0, Hold::Alone), (1, Hold::Upgradable), (2, Hold::Shared), (3, Hold::Shared)];
        for wants in [Read, Upgradable, Write, Upgrade] {
            for closed in [false, true] {
                check(wants, &[], closed, &[]);
                // A sole holder is in the way of every thread.
                check(wants, &[writer], closed, &[0]);
            }
        }
        for closed in [false, true] {
            for wants in [Write, Upgrade] {
                check(wants, &[reader, other], closed, &[2, 3]);
                check(wants, &[upgradable, reader], closed, &[1, 2]);
            }
            // A thread that reads, and waits until no thread reads.
            check(Write, &[reader, (ME, Hold::Shared)], closed, &[2, ME]);
            check(Write, &[(ME, Hold::Upgradable)], closed, &[ME]);
            // Its own share is what it upgrades. Another one is not.
            check(Upgrade, &[(ME, Hold::Upgradable), reader], closed, &[2]);
            check(Upgrade, &[(ME, Hold::Upgradable)], closed, &[]);
            check(Upgrade, &[(ME, Hold::Upgradable), (ME, Hold::Shared)], closed, &[ME]);
        }
        // Readers are not in the way of a thread that only reads. But they are if a thread that waits for
        // them is.
        check(Read, &[reader, upgradable], false, &[]);
        check(Read, &[reader, upgradable], true, &[2, 1]);
        check(Read, &[(ME, Hold::Shared)], false, &[]);
        check(Read, &[(ME, Hold::Shared)], true, &[ME]);
        // There is one upgradable share, and its holder may not be known.
        check(Upgradable, &[reader, upgradable, other], false, &[1]);
        check(Upgradable, &[reader, upgradable], true, &[2, 1]);
        check(Upgradable, &[reader], false, &[]);
        check(Upgradable, &[reader], true, &[2]);
    }
}
