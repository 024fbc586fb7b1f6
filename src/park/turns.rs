//! How long a CPU goes to other threads when a kernel thread yields it, and what that says of them.
//!
//! **Problem.** A kernel thread meets a lock whose owner waits for a CPU. The thread can sleep, which costs
//! the kernel a sleep and a wake-up. Or it can yield its CPU: one switch, and the owner may be done when the
//! CPU comes back. But a yield goes to all threads that wait for the CPU. Hundreds that hand things to and
//! fro take a microsecond each. One that computes takes its whole slice, and the kernel takes the rest of
//! the slice from the thread that yielded. And while others want the CPU, a spin is a loss for all.
//!
//! **Rejected.**
//!
//! - To yield only if the thread met such an owner a moment ago. A pair on one CPU does so, but not a pair
//!   among thousands. They slept 0.8 times a move: 5,000 games of Ping-Pong took 3 s, and 1.1 with yields.
//! - To look only at how long a yield lasts. Threads that sleep and wake pass those that yield, so a yield
//!   among both lasts milliseconds. Then all sleep, and it stays like that (1.5 s).
//! - A record of each thread. Among thousands, it is one more cold cache line in each turn. Each thread has
//!   to find out by itself.
//! - To count the threads that can run: a thread that waits in a system call looks as if it could.
//!
//! **Protocol.** Each CPU counts the turns of our threads that begin on it, after a yield or a sleep. A
//! thread that yields learns how long that lasted, and how many turns there were. Two means are kept of it.
//!
//! | a yield lasts | a turn lasts | the other threads | a thread that meets a taken lock |
//! |---|---|---|---|
//! | up to [`SHORT`] | below [`LONG_TURN`] | few | spins if the owner runs elsewhere, or yields once |
//! | longer | below [`LONG_TURN`] | a crowd | yields up to [`TURNS`] times, and then sleeps |
//! | longer | longer | some compute | spins shortly, or sleeps; one in [`RESTS`] yields |
//!
//! Updates may be lost, and threads move between CPUs: all of this is a guess.

use super::owner::OwnerHint;
use super::spin::{FULL_LOOKS, GREEN_LOOKS};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{GAP_LIMIT, assumed_crowd, global, yield_cpu};
use crate::time;

/// A yield that lasts longer, in ns, has gone to many threads, or to one that computes.
const SHORT: u32 = 20_000;

/// A longer turn, in ns, is one of a thread that computes. The kernel's slices are longer (0.7 to 3 ms).
const LONG_TURN: u32 = 20_000;

/// One yield counts for no more than this, in ns.
const MOST: u128 = 4_000_000;

/// How often a thread of a crowd yields for one lock. 2 to 20 are alike.
pub(crate) const TURNS: u32 = if GAP_LIMIT < 8 { 1 } else { 8 };

/// How many threads do without a yield after long turns.
const RESTS: u32 = 32;

/// What is known of one CPU; of several, on a machine with more than [`RECORDS`].
#[repr(align(64))]
struct Record {
    /// Turns that began here, after a yield or a sleep.
    turns: AtomicU32,
    /// How long a yield lasts, in ns: a mean, with a quarter of it from the last yield.
    lasts: AtomicU32,
    /// How long one turn of another thread lasts, in ns: a mean of the same kind.
    turn: AtomicU32,
    /// Yields that are left out before the next.
    rests: AtomicU32,
}

const RECORDS: usize = 64;

impl Record {
    const fn new() -> Self {
        Self {
            turns: AtomicU32::new(0),
            lasts: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            rests: AtomicU32::new(0),
        }
    }

    /// Returns the record of the CPU of a kernel thread.
    #[inline]
    fn of(here: OwnerHint) -> &'static Self {
        debug_assert!(here.is_kernel());
        &CPUS[usize::from(here.bits()) % RECORDS]
    }

    // Relaxed, all: guesses.

    /// Notes a yield that lasted so long, in ns, for so many turns.
    fn learn(&self, lasted: u32, turns: u32) {
        for (mean, seen) in [(&self.lasts, lasted), (&self.turn, lasted / turns)] {
            let old = mean.load(Ordering::Relaxed);
            mean.store(old - old / 4 + seen / 4, Ordering::Relaxed);
        }
    }

    fn begin_turn(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

global! {
    static CPUS: [Record; RECORDS] = [const { Record::new() }; RECORDS];
}

/// Counts that the running thread, a kernel thread that has slept, has its CPU again.
#[inline]
pub(super) fn begin(here: OwnerHint) {
    if assumed_crowd().is_none() {
        Record::of(here).begin_turn();
    }
}

/// Returns `true` if many threads with short turns share the CPU of the running thread, which is a kernel
/// thread.
#[inline]
pub(crate) fn is_crowd(here: OwnerHint) -> bool {
    if let Some(assumed) = assumed_crowd() {
        return assumed;
    }
    let record = Record::of(here);
    record.lasts.load(Ordering::Relaxed) > SHORT && record.turn.load(Ordering::Relaxed) < LONG_TURN
}

/// Returns how often a kernel thread looks at a lock whose owner runs elsewhere, before it sleeps. While
/// others want the CPU, a spin takes it from them, and a wake-up need not wait for an idle CPU.
#[inline]
pub(crate) fn looks(here: OwnerHint) -> u16 {
    if assumed_crowd().is_none() && Record::of(here).lasts.load(Ordering::Relaxed) > SHORT {
        GREEN_LOOKS
    } else {
        FULL_LOOKS
    }
}

/// Yields the CPU of the running thread, a kernel thread, if the others do not keep it long. Returns `false`
/// if it did not yield.
pub(crate) fn try_yield(here: OwnerHint) -> bool {
    if assumed_crowd().is_some() {
        yield_cpu();
        return true;
    }
    let record = Record::of(here);
    if record.turn.load(Ordering::Relaxed) >= LONG_TURN {
        let rests = record.rests.load(Ordering::Relaxed);
        record.rests.store(if rests == 0 { RESTS } else { rests - 1 }, Ordering::Relaxed);
        if rests != 0 {
            return false;
        }
    }
    let (began, before) = (time::now(), record.turns.load(Ordering::Relaxed));
    yield_cpu();
    let lasted = (time::now() - began).as_nanos().min(MOST) as u32;
    record.begin_turn();
    // This thread's own turn is counted, too.
    let turns = record.turns.load(Ordering::Relaxed).wrapping_sub(before).max(1);
    record.learn(lasted, turns);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a CPU that no machine of ours has, as it is after such yields and turns.
    fn alone(cpu: u32, lasts: u32, turn: u32) -> (OwnerHint, &'static Record) {
        let here = OwnerHint::kernel(cpu);
        let record = Record::of(here);
        record.lasts.store(lasts, Ordering::Relaxed);
        record.turn.store(turn, Ordering::Relaxed);
        (here, record)
    }

    #[test]
    fn many_short_turns_make_a_crowd() {
        for (lasts, turn, is_one) in [
            (SHORT, 500, false),
            (SHORT + 1, 500, true),
            (3_000_000, LONG_TURN - 1, true),
            (3_000_000, LONG_TURN, false),
        ] {
            let (here, _) = alone(60, lasts, turn);
            assert_eq!(is_crowd(here), is_one, "{lasts} {turn}");
            assert_eq!(looks(here), if lasts > SHORT { GREEN_LOOKS } else { FULL_LOOKS });
        }
    }

    #[test]
    fn long_turns_are_given_now_and_then_only() {
        let yields = (0..2 * (RESTS + 1)).filter(|_| try_yield(alone(61, 0, u32::MAX / 2).0));
        assert_eq!(yields.count(), 2);
    }

    /// Without yields: beside load, none of them might be short.
    #[test]
    fn means_follow_the_last_yields() {
        let (here, record) = alone(62, 1_000_000, LONG_TURN - 1);
        assert!(is_crowd(here));
        (0..20).for_each(|_| record.learn(400, 1));
        assert!(!is_crowd(here) && looks(here) == FULL_LOOKS);
        (0..20).for_each(|_| record.learn(2_000_000, 1_000));
        assert!(is_crowd(here));
        (0..20).for_each(|_| record.learn(2_000_000, 2));
        assert!(!is_crowd(here) && looks(here) == GREEN_LOOKS);
        let before = record.turns.load(Ordering::Relaxed);
        begin(here);
        assert_eq!(record.turns.load(Ordering::Relaxed), before + 1);
    }
}
