//! How long before its next deadline an idle LWP wakes.
//!
//! **Problem.** The kernel wakes a thread late: by 15 to 50 us as a rule, and by 200 in one of a hundred
//! sleeps. All of that is the lateness of the green thread that sleeps until then.
//!
//! **Rejected.** To look for work from a fixed time before each deadline on: the LWP burns the difference if
//! the kernel is fast. Not to sleep if the deadline is near: short sleeps would be busy loops.
//!
//! **Solution.** The LWP sleeps until a little before the deadline. Then it looks for work, as any LWP that
//! searches, until the deadline has come. The lead is about the most by which its last sleeps ended late. It
//! is never more than [`MOST`], nor than one part in [`SHARE`] of the sleep.

use std::cell::Cell;

use crate::mxn::timer::NEVER;

/// The longest lead, in ns.
const MOST: u64 = 100_000;
/// A lead is at most one part in so many of the sleep.
const SHARE: u64 = 20;
/// A sleep that is less late than the lead shortens the next one by one part in so many of the difference.
const INERTIA: u64 = 16;

/// What an LWP knows of its sleeps until a deadline. Its owner's alone.
#[derive(Debug, Default)]
pub(crate) struct Lead {
    /// By how much it is late as a rule, in ns, but at most [`MOST`].
    late: Cell<u64>,
    /// The lead of the sleep of now, or of the last one, in ns.
    now: Cell<u64>,
}

impl Lead {
    /// Returns when a sleep is to end that begins `now`, before `deadline`.
    pub(crate) fn ahead_of(&self, deadline: u64, now: u64) -> u64 {
        let left = if deadline == NEVER { 0 } else { deadline.saturating_sub(now) };
        let lead = self.late.get().min(left / SHARE);
        self.now.set(lead);
        deadline - lead
    }

    /// Notes that such a sleep has ended `now`. It was to end at `until`.
    pub(crate) fn woke(&self, until: u64, now: u64) {
        let Some(late) = now.checked_sub(until) else {
            // Something else has ended it.
            return self.now.set(0);
        };
        let seen = self.late.get();
        let less = seen.saturating_sub(late).div_ceil(INERTIA);
        self.late.set(late.min(MOST).max(seen - less));
    }

    /// Takes the lead of the last sleep: for so long, in ns, the deadline may still be ahead.
    pub(crate) fn take(&self) -> u64 {
        self.now.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    /// Sleeps until an hour from now, and wakes so late. Returns the lead that it had.
    fn sleep(lead: &Lead, late: u64) -> u64 {
        let until = lead.ahead_of(HOUR, 0);
        lead.woke(until, until + late);
        assert_eq!(lead.take(), HOUR - until);
        assert_eq!(lead.take(), 0, "it is taken");
        HOUR - until
    }

    #[test]
    fn a_lead_is_the_most_that_the_last_sleeps_were_late() {
        let lead = Lead::default();
        assert_eq!([30_000, 50_000, 0].map(|late| sleep(&lead, late)), [0, 30_000, 50_000]);
        assert!((46_000..50_000).contains(&sleep(&lead, 45_000)));
        (0..200).for_each(|_| _ = sleep(&lead, 20_000));
        assert_eq!(sleep(&lead, 0), 20_000, "it has forgotten");
        (0..200).for_each(|_| _ = sleep(&lead, 0));
        assert_eq!(sleep(&lead, 7 * MOST), 0);
        assert_eq!(sleep(&lead, 0), MOST, "one long delay");
    }

    #[test]
    fn a_short_sleep_has_a_short_lead() {
        let lead = Lead::default();
        sleep(&lead, MOST);
        assert_eq!(lead.ahead_of(1_000_000, 0), 950_000);
        assert_eq!(lead.ahead_of(1_000_019, 1_000_000), 1_000_019);
        assert_eq!((lead.ahead_of(7, 9), lead.ahead_of(0, 9)), (7, 0), "it is due");
        assert_eq!((lead.ahead_of(NEVER, 9), lead.take()), (NEVER, 0));
    }

    #[test]
    fn a_sleep_that_something_else_has_ended_teaches_nothing() {
        let lead = Lead::default();
        sleep(&lead, 30_000);
        let until = lead.ahead_of(HOUR, 0);
        lead.woke(until, until - 1);
        assert_eq!((lead.take(), lead.ahead_of(HOUR, 0)), (0, until));
    }
}
