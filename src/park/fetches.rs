//! When LWPs that enter locks lose to one of them.
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
//! **Solution.** A thread counts its *fetches*: entries of locks that were last entered on another LWP. When
//! it meets a taken lock, it judges. If `n` LWPs spend a part `x` of their time on fetches, they do the work
//! of `n (1 - x)` that never fetch. If that is less than one, the thread leaves all locks to the others for a
//! while: it pauses. As `n`, it takes the number of CPUs. If fewer LWPs run, it leaves too seldom.
//!
//! A switch begins a new count. So threads that hand something to and fro do not judge: what they fetch is
//! their partner's.
//!
//! **No lock is idle for long.** The pause is bounded. It ends at once if the owner's LWP dispatches, since
//! the owner may sleep then. The thread may hold another lock meanwhile. A thread that meets it there
//! calls it back. All of this is a hint, and orders nothing.
//!
//! **Cost.** An entry of a lock that was last entered on this LWP is not counted, nor one by a kernel thread.
//! A judgement reads the clock, while the thread has to wait anyway. Other threads of its LWP pay: they wait
//! longer.

use std::cell::Cell;

use super::owner::{LwpEntry, OwnerHint, lwp_entry};
use super::spin::Spin;
use crate::shim::{cpus, local};
use crate::time::{self, Moment};

/// So many fetches are judged at once, at least. With 6, 8, 16, and the other two numbers 75 and 2: 4 regions
/// as below take 41, 43, 43 ms.
const ENOUGH: u32 = 6;

/// How long a fetch takes, in ns. With more, threads that do a little in between leave locks, too.
///
/// - A: 32 threads in 1, 2, 4, 8, 16, 32 critical regions, ms
/// - B: 16 threads and one lock, with 45, 60, 68, 75, 82, 90 steps of 2 ns in between, million turns a second
///
/// | ns | A | B |
/// |---|---|---|
/// | 65 | 31.9, 35.6, 41.8, 33.1, 27.7, 27.2 | 11.2, 10.1, 11.1, 10.1, 9.9, 9.2 |
/// | 75 | 31.8, 34.5, 36.4, 29.7, 27.5, 27.2 | 12.7, 9.8, 9.2, 9.5, 9.7, 9.3 |
/// | no judgement | 31.5, 35.3, 47.2, 52.8, 44.3, 33.9 | 11.0, 10.7, 10.8, 10.6, 10.2, 10.0 |
/// | one LWP | 28.8, 28.7, 27.1, 27.8, 26.7, 26.5 | 14, 9.6, then less |
const FETCH: u128 = 65;

/// To meet a taken lock takes as long as so many fetches. With 2 and 3, and fetches of 75 ns: 4 regions as
/// above take 39 and 34 ms.
const MEETING: u32 = 3;

/// What a thread has counted since its last judgement.
struct Count {
    fetches: Cell<u32>,
    /// Where the thread judged last, and when.
    last: Cell<Option<(OwnerHint, Moment)>>,
}

local! {
    static COUNT: Count = Count { fetches: Cell::new(0), last: Cell::new(None) };
}

impl Count {
    /// Counts that a thread which runs `here` has met a taken lock. Returns `true` if its time since the last
    /// judgement says that it should leave the locks to others.
    fn judge(&self, here: OwnerHint) -> bool {
        let fetches = self.fetches.get();
        if fetches < ENOUGH {
            self.fetches.set(fetches + MEETING);
            return false;
        }
        let last = self.last.get();
        let now = self.begin(here);
        // The wait at this lock is still to come.
        self.fetches.set(MEETING);
        let all = cpus().max(2) as u128;
        last.is_some_and(|(there, began)| {
            there == here && (now - began).as_nanos() * (all - 1) < u128::from(fetches) * FETCH * all
        })
    }

    /// Begins a new count, and returns the time.
    fn begin(&self, here: OwnerHint) -> Moment {
        let now = time::now();
        self.fetches.set(0);
        self.last.set(Some((here, now)));
        now
    }
}

/// Counts an entry of a lock by a thread that runs `here`, if the lock was last entered on another LWP.
#[inline]
pub(crate) fn count(last: OwnerHint, here: OwnerHint) {
    if last.is_on_another_lwp(here) {
        COUNT.with(|count| count.fetches.set(count.fetches.get().saturating_add(1)));
    }
}

/// Begins a new count after a thread that runs `here` has left locks alone: it has not fetched meanwhile.
pub(crate) fn begin(here: OwnerHint) {
    COUNT.with(|count| count.begin(here));
}

/// Leaves all locks to others for a while, if one LWP alone is faster. Returns `true` if it did. Called by a
/// thread that runs `here`, and has met a taken lock whose `owner` runs elsewhere.
#[inline]
pub(crate) fn leave_to_others(here: OwnerHint, owner: OwnerHint, spin: &mut Spin) -> bool {
    if owner.is_kernel() {
        return false;
    }
    lwp_entry(owner.lwp()).call_back();
    if !owner.is_on_another_lwp(here) || !spin.is_fresh() || !COUNT.with(|count| count.judge(here)) {
        return false;
    }
    let me = lwp_entry(here.lwp());
    me.set_away(true);
    spin.leave_while(|| may_stay_away(me, here, owner));
    me.set_away(false);
    true
}

/// Returns `true` if no thread has called `me`, the LWP of `here`, back, and the owner's LWP has not
/// dispatched.
fn may_stay_away(me: &LwpEntry, here: OwnerHint, owner: OwnerHint) -> bool {
    me.is_away() && owner.runs_elsewhere(here) == Some(true)
}

/// Returns how many fetches the running thread has counted since its last judgement.
#[cfg(test)]
pub(crate) fn counted() -> u32 {
    COUNT.with(|count| count.fetches.get())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::park::owner::Tick;

    /// A count of so many fetches, begun so long ago on the first LWP.
    fn count_of(fetches: u32, ago: Duration) -> Count {
        // The clock of a machine that has just started may not go back so far yet.
        std::thread::sleep(ago.saturating_sub(time::now() - Moment::from_nanos(0)));
        let began = Moment::from_nanos(time::now().as_nanos() - ago.as_nanos() as u64);
        Count { fetches: Cell::new(fetches), last: Cell::new(Some((OwnerHint::green(1, 0), began))) }
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
        let count = count_of(ENOUGH - 1, LONG);
        let last = count.last.get();
        assert!(!count.judge(here));
        assert_eq!(count.last.get(), last, "the count goes on");
        assert!(!count.judge(here));
        assert_ne!(count.last.get(), last, "a new count");
        assert_eq!(count.fetches.get(), MEETING);
    }

    #[test]
    fn a_switch_begins_a_new_count() {
        let (count, here) = (count_of(u32::MAX / 2, Duration::ZERO), OwnerHint::green(1, 1));
        assert!(!count.judge(here));
        assert!(count.last.get().is_some_and(|(there, _)| there == here));
        assert_eq!(count.fetches.get(), MEETING);
    }

    #[test]
    fn entries_after_others_on_the_same_lwp_are_not_counted() {
        let here = OwnerHint::green(1, 0);
        for last in [here, OwnerHint::green(1, 1), OwnerHint::UNKNOWN, OwnerHint::kernel(0)] {
            count(last, here);
        }
        count(here, OwnerHint::kernel(0));
        assert_eq!(counted(), 0);
        count(OwnerHint::green(2, 0), here);
        assert_eq!(counted(), 1);
    }

    /// A thread with dear fetches leaves the locks, and then counts anew. It calls back the owner of the lock
    /// that it has met.
    #[test]
    fn a_thread_that_left_counts_anew() {
        let (mine, theirs) = (Tick::take().unwrap(), Tick::take().unwrap());
        let (me, owner) = (mine.hint(), theirs.hint());
        let [mine, theirs] = [mine.number(), theirs.number()].map(lwp_entry);
        let leaves = |fetches| {
            COUNT.with(|count| {
                count.begin(me);
                count.fetches.set(fetches);
            });
            leave_to_others(me, owner, &mut Spin::new(1))
        };
        theirs.set_away(true);
        assert_eq!(leaves(u32::MAX / 2), cpus() > 1);
        assert!(!theirs.is_away(), "the owner was called back");
        assert!(!mine.is_away());
        assert!(!leaves(0));
    }

    #[test]
    fn an_lwp_stays_away_until_it_is_called_or_the_owner_s_lwp_dispatches() {
        let (mine, theirs) = (Tick::take().unwrap(), Tick::take().unwrap());
        let (me, here) = (lwp_entry(mine.number()), mine.hint());
        let owner = || theirs.hint();
        let (first, stays) = (owner(), |owner| may_stay_away(me, here, owner));
        assert!(!stays(first), "it was not away");
        me.set_away(true);
        assert!(stays(first));
        theirs.bump();
        assert!(!stays(first) && stays(owner()));
        me.call_back();
        assert!(!stays(owner()));
    }

    #[test]
    fn a_kernel_thread_calls_an_lwp_back_and_leaves_no_lock() {
        let owner = Tick::take().unwrap();
        let theirs = lwp_entry(owner.number());
        theirs.set_away(true);
        let me = OwnerHint::kernel(0);
        COUNT.with(|count| count.fetches.set(u32::MAX / 2));
        assert!(!leave_to_others(me, owner.hint(), &mut Spin::new(1)));
        assert!(!theirs.is_away());
        assert_eq!(counted(), u32::MAX / 2, "nothing was judged");
    }
}
