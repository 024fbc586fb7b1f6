//! How long there has been no spare LWP to take over from those that sleep in the kernel, and what that
//! allows.

use super::policy::WOKEN_SLICE;

/// When a spare would have taken over, if one could be made, in ns.
const DUE: u64 = WOKEN_SLICE;
/// Rounds lie no further apart than this, in ns, while a thread waits.
const GAP: u64 = 20_000_000;
/// Once all sleepers have been asked to leave this often, it goes on at half the pace, and later again at
/// half of that.
const CYCLES: usize = 4;
/// The slowest pace, as a power of two.
const SLOWEST: usize = 4;

/// There is no spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Starved {
    pub(super) since: u64,
    last: u64,
    /// How many threads have been asked to leave since.
    evicted: usize,
}

impl Starved {
    /// Notes at `time` that there is no spare.
    pub(super) fn go_on(before: Option<Self>, time: u64) -> Self {
        match before.filter(|before| time - before.last <= GAP) {
            Some(before) => Self { last: time, ..before },
            None => Self { since: time, last: time, evicted: 0 },
        }
    }

    /// Notes that one more thread was asked to leave.
    pub(super) fn with_one_more(self) -> Self {
        Self { evicted: self.evicted.saturating_add(1), ..self }
    }

    /// Returns the time in ns after which a thread makes room for the `others` that have made room or lost
    /// their slice. There must have been no spare for so long, and its LWP must have slept for so long. The
    /// more often all have slept again, the longer it is.
    pub(super) fn due(self, others: usize) -> u64 {
        DUE << (self.evicted / (CYCLES * (others + 1))).min(SLOWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_does_not_count_and_those_that_only_sleep_take_turns_ever_more_slowly() {
        let first = Starved::go_on(None, GAP);
        let second = Starved::go_on(Some(first), 2 * GAP);
        assert_eq!((first.since, second.since, second.due(10)), (GAP, GAP, DUE));
        assert_eq!(Starved::go_on(Some(second), 3 * GAP + 1).since, 3 * GAP + 1, "it was over meanwhile");
        let cycled = |times| (0..times).fold(second, |starved, _| starved.with_one_more()).due(9);
        assert_eq!([0, 39, 40, 80, 160, 1600].map(cycled), [DUE, DUE, 2 * DUE, 4 * DUE, 16 * DUE, 16 * DUE]);
    }
}
