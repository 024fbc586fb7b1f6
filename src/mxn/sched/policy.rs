//! The numbers of the wake policy, in one place, with what they were tuned on.
//!
//! Measured on two virtual CPUs:
//!
//! - A wake-up costs the waker 11 to 12 us, and the sleeper 17 to 34.
//! - A hand-off on one LWP takes 60 ns.
//! - A cache line from the other CPU takes 58 ns.
//!
//! The cells that they were tuned on (`PERFORMANCE.md` has what each variant gave):
//!
//! - ping-pong with 1, 4 and 5,000 games
//! - creation by one creator
//! - fork-join of 16 x 0.1 us and of 2 x 10 us
//! - producer and consumer of 10 us each
//! - wake-one-then-compute of 1 ms
//! - barriers and condition variables

/// A thread must have waited this long to be stolen, in ns. It is the least and the first value of an LWP's
/// `age`. With less, pairs that hand a lock to and fro are torn apart.
pub(crate) const MIN_AGE: u64 = 2000;
/// The most that `age` grows to, in ns.
pub(crate) const MAX_AGE: u64 = 1_000_000;
/// If an LWP is woken for nothing and its age is `MAX_AGE`, it asks for this much quiet, in ns. That helps
/// short threads in lock-step, since their wakers pay for the wake-ups. A thread that waits for `MAX_AGE` is
/// found by the sleeper that watches, even while it is to be quiet.
pub(crate) const LONG_QUIET: u64 = 8 * MAX_AGE;
/// A steal has paid if the thief did not run dry for this long, in ns. Otherwise its `age` doubles.
pub(crate) const STEAL_PAYS: u64 = 10_000;
/// If an LWP runs dry this soon after it was stolen from, in ns, it has lost all its work. The steal moved
/// work and made none parallel.
pub(crate) const ROBBED: u64 = 3_000;
/// If a thread waits this soon after it woke another, in ns, it has not computed on. That is the price of a
/// wake-up, and less than a steal must pay.
pub(crate) const SOON: u64 = STEAL_PAYS;
/// How long an LWP looks for work before it sleeps, in ns. Above the price of one wake-up.
pub(crate) const SPIN: u64 = 50_000;
/// How long an LWP that looks for work leaves the set of descriptors alone between two looks, in ns. A look
/// is a system call, and takes about a tenth of this.
pub(crate) const BETWEEN_POLLS: u64 = 8_000;
/// How long the watching sleeper looks around between two naps, in ns. That is long enough to see the same
/// thing twice, `MIN_AGE` apart.
pub(crate) const GLIMPSE: u64 = 3 * MIN_AGE;
/// How long an LWP that was woken looks, at the least age, in ns. What it was woken for has waited for 30 us
/// already.
pub(crate) const TRIAL: u64 = 5 * MIN_AGE;
/// How many other LWPs a searching LWP looks at before it looks at its own and the shared queues again. Each
/// costs three cache lines of that LWP. With 64, a look would take 10 us.
pub(crate) const VICTIMS: usize = 8;
/// How many of these are not near, if others are (`lwp_set::Near`).
pub(crate) const FAR_VICTIMS: usize = 2;
/// PAUSE instructions between two looks.
pub(crate) const PAUSES: u32 = crate::shim::SEARCH_PAUSES;
/// The first nap of the sleeper that watches, in ns. It doubles up to `MAX_NAP`.
pub(crate) const MIN_NAP: u64 = 50_000;
/// The longest nap while another LWP runs, in ns.
pub(crate) const MAX_NAP: u64 = 1_000_000;
/// At every so many dispatches, an LWP looks at the injection queue and its timers first, and at its ring
/// before its next-slot. A prime, so that it does not beat with a program's own rhythm. Go's 61 tears pairs
/// that hand something to and fro out of their caches too often. (5,000 games of ping-pong: 75 ms at 61, 63
/// at 127, 58 at 251 and at 509.) 251 hand-offs take 15 us.
pub(crate) const FAIR_TICK: u32 = 251;
/// An LWP that never runs dry takes threads from another one, if more than twice as many wait there, plus
/// this number.
pub(crate) const BALANCED: usize = 8;
/// After every so many threads that are queued while an LWP sleeps, the clock is read to decide whether to
/// wake it. To read it costs 20 ns, as much as all the rest.
pub(crate) const PUSHES: u32 = 8;
/// While the answer is no, the number doubles each time, up to this.
pub(crate) const MOST_PUSHES: u32 = 64;
/// If no thread was taken off the low queue for this long, in ns, while one waited there, the queue is owed a
/// turn. A turn may last a slice of 10 ms, so all low threads together get at most a sixth of one LWP.
pub(crate) const LOW_AGE: u64 = 50_000_000;
/// An LWP runs high threads for this long on end, in ns, before it takes a normal one that waits there.
pub(crate) const HIGH_RUN: u64 = 50_000_000;
/// Shares are counted for this long, in ns, after a thread lost its slice, or was last seen to wait for that.
pub(crate) const COUNTED_ON: u64 = 100_000_000;
/// Of this many threads that lost their slice, the oldest, the one that has run least is next.
pub(crate) const CANDIDATES: usize = 32;
/// If a thread has run for more than the mean by this much, in ns, it waits among the preempted threads when
/// it wakes up. (Half a millisecond gave the same shares.)
pub(crate) const AHEAD: u64 = 2_000_000;
/// With each portion, the mean moves towards the run time of the thread by one part in this many. That is
/// about the number of threads that compete. (8 gave the same shares.)
pub(crate) const INERTIA: i64 = 32;
/// A fresh thread goes before a preempted thread that has run for less, up to this much less, in ns. It is
/// served nearly on arrival, and pays later.
pub(crate) const HEAD_START: u64 = 2_000_000;
/// Against preempted threads, a fresh thread counts as if it were owed no more than this, in ns, however long
/// it slept.
pub(crate) const CREDIT: u64 = 10_000_000;
/// No thread is owed more than this, in ns, and none owes more. It must exceed `CREDIT + HEAD_START`: see
/// `sched::fair_share`.
pub(crate) const OWED: u64 = 20_000_000;
/// While the run times of the running threads lie this close to the fair share, in ns, it moves by itself. It
/// must exceed `HEAD_START`: by that much threads lag behind if others arrive all the time.
pub(crate) const BAND: i64 = 4_000_000;
/// If the run times lie further away than `BAND`, by this much, in ns, the fair share stands still, or moves
/// twice as fast.
pub(crate) const PULL: i64 = 4_000_000;
/// An LWP adds the run time of its threads to the fair share in portions of at least this much, in ns.
pub(crate) const GRAIN: u64 = 10_000;
/// How many sleeps that are due end at a fair tick, at least, if as many threads as a batch has wait already.
pub(crate) const LEAST_FIRED: usize = 8;
/// How many steps an LWP takes with timers before each thread, while there are very many (`timer`). With a
/// batch of threads in its ring, that delays the last by about a quarter of a millisecond.
pub(crate) const STEPS_BETWEEN: usize = 8;
/// How long a spare LWP waits, in ns, between two looks at sleeps that are due on it, if there are many.
pub(crate) const BETWEEN_BATCHES: u64 = 100_000;
/// How many threads one look at the injection queue takes at most.
pub(crate) const INJECT_BATCH: usize = 64;
