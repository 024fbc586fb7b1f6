//! When two LWPs that enter locks lose to one.
//!
//! **Problem.** A lock that was last entered on another LWP comes with its cache line from there, which takes
//! as long as five entries. Threads on two LWPs that do little but enter the same few locks spend most of
//! their time on that. One LWP alone would be faster than both.
//!
//! **Rejected.**
//!
//! - To go by how often a thread meets a taken lock. With one lock, and a quarter of a microsecond of work
//!   between entries, threads meet as often as with eight locks and no work. But there, two LWPs are faster.
//! - To move the thread to the owner's LWP. It may hold another lock, and would wait behind threads that
//!   compute.
//!
//! **Solution.** A thread counts its *fetches*: entries of locks that were last entered elsewhere. When it
//! meets a taken lock, it judges. If more than half of its time has gone on fetches and meetings, it leaves
//! all locks to the other LWP for a while. It may hold a lock meanwhile. A thread that meets it at that one
//! calls it back.
//!
//! A switch begins a new count. So threads that hand something to and fro do not judge: what they fetch is
//! their partner's.
//!
//! **Cost.** An entry of a lock that was last entered here is not counted. A judgement reads the clock, while
//! the thread has to wait anyway. The price is paid by other threads of the LWP: they wait longer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::owner::{OwnerHint, lwp_entry};
use super::spin::Spin;
use crate::shim::local;
use crate::time;

/// So many fetches are judged at once, at least. With 4 and 16, the times below differ by less than their
/// noise.
const ENOUGH: u32 = 8;

/// A fetch takes 58 to 100 ns on the machines of these measurements. If there is one in twice this time, half
/// of the time goes on it.
///
/// | ns | 32 threads and 1, 2, 4, 8, 16, 32 critical regions, ms |
/// |---|---|
/// | 0: no judgement | 33, 37, 43, 50, 44, 34 |
/// | 150 | 31, 34, 42, 36, 30, 29 |
/// | 200 | 32, 35, 36, 31, 30, 28 |
/// | 300 | 32, 35, 32, 31, 30, 28 |
/// | one LWP | 28, 27, 27, 26, 26, 26 |
const DEAR: Duration = Duration::from_nanos(200);

/// To meet a taken lock takes as long as so many fetches.
const MEETING: u32 = 2;

/// What a thread has counted since its last judgement.
struct Count {
    fetches: Cell<u32>,
    /// Where the thread judged last, and when.
    last: Cell<(OwnerHint, Option<Instant>)>,
}

local! {
    static COUNT: Count = Count { fetches: Cell::new(0), last: Cell::new((OwnerHint::UNKNOWN, None)) };
}

impl Count {
    /// Counts a meeting of a thread that runs `here`. Returns `true` if the time since the last judgement is
    /// that of a thread that should leave the locks to others.
    fn judge(&self, here: OwnerHint) -> bool {
        let fetches = self.fetches.get().saturating_add(MEETING);
        self.fetches.set(fetches);
        if fetches < ENOUGH {
            return false;
        }
        let (before, began) = self.last.get();
        let now = self.begin(here);
        before == here && began.is_some_and(|began| now - began < DEAR * fetches)
    }

    /// Begins a new count, and returns the time.
    fn begin(&self, here: OwnerHint) -> Instant {
        let now = time::now();
        self.fetches.set(0);
        self.last.set((here, Some(now)));
        now
    }
}

/// Counts an entry of a lock that was last entered elsewhere.
#[inline]
pub(crate) fn count() {
    COUNT.with(|count| count.fetches.set(count.fetches.get().wrapping_add(1)));
}

/// Begins a new count after a thread that runs `here` has left locks alone: it has not fetched meanwhile.
pub(crate) fn begin(here: OwnerHint) {
    COUNT.with(|count| count.begin(here));
}

/// Leaves all locks to another LWP for a while, if that one alone is faster. Returns `true` if it did. Called
/// by a thread that runs `here`, and has met a taken lock whose `owner` runs elsewhere.
#[inline]
pub(crate) fn leave_to_other(here: OwnerHint, owner: OwnerHint, spin: &mut Spin) -> bool {
    if here.is_kernel() || owner.is_kernel() {
        return false;
    }
    lwp_entry(owner.lwp()).call_back();
    if spin.has_paused() || !COUNT.with(|count| count.judge(here)) {
        return false;
    }
    let me = lwp_entry(here.lwp());
    me.set_away(true);
    spin.leave_to_other(|| !me.is_away());
    me.set_away(false);
    true
}

/// Returns how many fetches the running thread has counted since its last judgement.
#[cfg(test)]
pub(crate) fn counted() -> u32 {
    COUNT.with(|count| count.fetches.get())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::park::owner::{give_back_lwp, take_lwp};

    /// A count that began so long ago, on an LWP at its tick 0.
    fn count_of(fetches: u32, ago: Duration) -> Count {
        let began = time::now().checked_sub(ago);
        Count { fetches: Cell::new(fetches), last: Cell::new((OwnerHint::green(1, 0), began)) }
    }

    /// Too long for a few.
    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn many_fetches_in_a_short_time_are_dear() {
        let here = OwnerHint::green(1, 0);
        // So many are dear in minutes.
        assert!(count_of(u32::MAX / 2, Duration::ZERO).judge(here));
        assert!(!count_of(ENOUGH, LONG).judge(here));
    }

    #[test]
    fn few_fetches_are_not_judged() {
        let here = OwnerHint::green(1, 0);
        let count = count_of(ENOUGH - MEETING - 1, LONG);
        let (_, began) = count.last.get();
        assert!(!count.judge(here));
        assert_eq!(count.last.get(), (here, began), "the count goes on");
        assert!(!count.judge(here));
        assert_ne!(count.last.get(), (here, began), "a new count");
        assert_eq!(count.fetches.get(), 0);
    }

    #[test]
    fn a_switch_begins_a_new_count() {
        let count = count_of(u32::MAX / 2, Duration::ZERO);
        assert!(!count.judge(OwnerHint::green(1, 1)));
        assert_eq!(count.last.get().0, OwnerHint::green(1, 1));
        assert_eq!(count.fetches.get(), 0);
    }

    #[test]
    fn a_call_ends_the_absence() {
        let looks = Cell::new(0);
        Spin::new(1).leave_to_other(|| looks.replace(looks.get() + 1) == 2);
        assert_eq!(looks.get(), 3);
    }

    /// A thread with dear fetches leaves until it is called back, and then counts anew. Other threads call
    /// back the LWP of a lock that they wait for.
    #[test]
    fn a_thread_that_left_can_be_called_back() {
        let (mine, theirs) = (take_lwp().unwrap(), take_lwp().unwrap());
        let (me, owner) = (OwnerHint::green(mine, 0), OwnerHint::green(theirs, 0));
        lwp_entry(theirs).set_away(true);
        COUNT.with(|count| {
            count.begin(me);
            count.fetches.set(u32::MAX / 2);
        });
        assert!(leave_to_other(me, owner, &mut Spin::new(1)));
        assert!(!lwp_entry(theirs).is_away(), "the owner was called back");
        assert!(!lwp_entry(mine).is_away());
        assert_eq!(counted(), 0);
        assert!(!leave_to_other(me, owner, &mut Spin::new(1)), "nothing was fetched since");
        assert!(!leave_to_other(me, OwnerHint::kernel(0), &mut Spin::new(1)));
        give_back_lwp(mine);
        give_back_lwp(theirs);
    }
}
