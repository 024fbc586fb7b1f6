//! Whom one waits for at a read-write lock: a pure function of who holds which share of it, as far as that is known.
//!
//! Not everybody who is in keeps everybody out. A writer needs all others gone; a reader only one that writes, an upgradable reader
//! only one that may write. Beside other readers both are kept out for the sake of somebody who waits to write. If that one
//! gives up some time they come in then, whoever reads; if it never does, they need all of those gone whom it waits for.
//!
//! Holders that are not known do no harm: whoever is said to be needed is, whether or not there are more.

use crate::park::everybody::Wait;
use crate::park::ledger::Hold;
use crate::park::reason::WaitReason;
use crate::park::word_queues::{QUEUES, READERS, UPGRADER, WRITERS};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Read,
    /// To read, as the one that may write later.
    Upgradable,
    Write,
    /// It reads, as that one, and waits for the others to leave.
    Upgrade,
}

impl Wants {
    /// By the lock's queue that it waits in.
    pub(super) fn of(wait: &Wait) -> Option<Self> {
        (wait.reason == WaitReason::RwLock).then_some(match wait.at % QUEUES {
            READERS => Self::Read,
            WRITERS => Self::Write,
            UPGRADER => Self::Upgrade,
            _ => Self::Upgradable,
        })
    }

    /// Whether it keeps new readers out while it waits.
    pub(super) fn closes_the_door(self) -> bool {
        matches!(self, Self::Write | Self::Upgrade)
    }
}

/// Those of the holders who are others to `me`: all but its own upgradable share, if that is what it upgrades.
pub(super) fn others<'a>(
    wants: Wants,
    me: usize,
    holders: &'a [(usize, Hold)],
) -> impl Iterator<Item = (usize, Hold)> + 'a {
    holders.iter().copied().filter(move |&holder| wants != Wants::Upgrade || holder != (me, Hold::Upgradable))
}

/// Those of the holders who must all go on before `me` does; none: they are not known. `closed`: somebody waits to write who does not give
/// up, and nobody who has been let in to read is on the way.
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
    fn cases() {
        let [writer, upgradable, reader, other] =
            [(0, Hold::Alone), (1, Hold::Upgradable), (2, Hold::Shared), (3, Hold::Shared)];
        for wants in [Read, Upgradable, Write, Upgrade] {
            for closed in [false, true] {
                check(wants, &[], closed, &[]);
                // Who is alone in there is in everybody's way.
                check(wants, &[writer], closed, &[0]);
            }
        }
        for closed in [false, true] {
            for wants in [Write, Upgrade] {
                check(wants, &[reader, other], closed, &[2, 3]);
                check(wants, &[upgradable, reader], closed, &[1, 2]);
            }
            // One that reads, and waits until nobody does.
            check(Write, &[reader, (ME, Hold::Shared)], closed, &[2, ME]);
            check(Write, &[(ME, Hold::Upgradable)], closed, &[ME]);
            // Its own share is what it upgrades; not so another one.
            check(Upgrade, &[(ME, Hold::Upgradable), reader], closed, &[2]);
            check(Upgrade, &[(ME, Hold::Upgradable)], closed, &[]);
            check(Upgrade, &[(ME, Hold::Upgradable), (ME, Hold::Shared)], closed, &[ME]);
        }
        // Readers are in nobody's way who only reads; if one that waits for them is, they are.
        check(Read, &[reader, upgradable], false, &[]);
        check(Read, &[reader, upgradable], true, &[2, 1]);
        check(Read, &[(ME, Hold::Shared)], false, &[]);
        check(Read, &[(ME, Hold::Shared)], true, &[ME]);
        // The upgradable share is one, and who has it may not be known.
        check(Upgradable, &[reader, upgradable, other], false, &[1]);
        check(Upgradable, &[reader, upgradable], true, &[2, 1]);
        check(Upgradable, &[reader], false, &[]);
        check(Upgradable, &[reader], true, &[2]);
    }
}
