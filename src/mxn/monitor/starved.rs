//! How long there has been no spare LWP to take over from those that sleep in the kernel, and what that allows.

use super::judge::WOKEN_SLICE;

/// When a spare would have taken over, if one could be made, in ns.
const DUE: u64 = WOKEN_SLICE;
/// Rounds lie no further apart than this, in ns, while somebody waits.
const GAP: u64 = 20_000_000;
/// So often has everybody been asked to leave who sleeps, when it goes on at half the pace, and then again at half of that.
const CYCLES: usize = 4;
/// The slowest pace, as a power of two.
const SLOWEST: usize = 4;

/// There is no spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Starved {
    pub(super) since: u64,
    last: u64,
    /// So many have been asked to leave since.
    evicted: usize,
}

impl Starved {
    /// It is so at `time`.
    pub(super) fn go_on(before: Option<Self>, time: u64) -> Self {
        match before.filter(|before| time - before.last <= GAP) {
            Some(before) => Self { last: time, ..before },
            None => Self { since: time, last: time, evicted: 0 },
        }
    }

    /// One more was asked to leave.
    pub(super) fn with_one_more(self) -> Self {
        Self { evicted: self.evicted.saturating_add(1), ..self }
    }

    /// For how long it must have been so, and an LWP have slept, in ns, until its thread makes room for the `others` that have made room or lost their slice: the longer,
    /// the oftener all have slept again.
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
