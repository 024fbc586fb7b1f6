//! The thread that keeps a reserve of spare LWPs. Only this thread makes kernel threads while a runtime runs
//! (I4), and ends those that are not needed. It also makes and retires slots (`mxn::slots::concurrency`).
//!
//! If an LWP has been a spare for `lwp_age`, while there are more spares than the reserve, it is told to end.
//! It is taken off the list, so that it gets no slot, retired, and joined. Some LWPs are kept, because
//! something may still be on its way to them:
//!
//! - an LWP on which a deadline was armed
//! - an LWP with a kernel thread that has child processes (H13: the kernel tells them that their parent has
//!   died)
//! - on `Pinned` all, since threads come home to them

use std::time::{Duration, Instant};

use crate::fiber::stack;
use crate::mxn::counter::Counter;
use crate::mxn::kernel_threads::Starting;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::Scheduler;
use crate::mxn::slots::pool::Aged;
use crate::mxn::timer::NEVER;
use crate::shim::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::shim::futex;
use crate::sys::{children, message};

/// How many spares wait, beyond the LWPs that have slots, in a runtime that has needed none.
pub(crate) const RESERVE: usize = 2;
/// How many spares are made at most in one go, when they are used up as fast as they are made.
const LARGEST_BATCH: usize = 16;
/// The pause between two magazines of stacks, when their memory is given back. To give one back takes about a
/// tenth of this.
const TRIM_PAUSE: Duration = Duration::from_millis(1);
/// The first pause after a failed attempt to settle the number of slots. Another thread may have had a slot
/// in hand. Each further failure doubles the pause, because the system may never allow as many kernel
/// threads.
const RETRY: Duration = Duration::from_millis(1);
/// The longest such pause.
const LONGEST_RETRY: Duration = Duration::from_secs(1);
/// For this long, in ns, after an LWP could not be started, threads are preempted without a reserve. Then a
/// start is tried again.
const REFUSED: u64 = 1_000_000_000;

/// What others tell the thread, and see of it.
#[derive(Debug, Default)]
pub(crate) struct ReserveState {
    /// The reserve needs filling. It is the futex of the thread.
    refill: AtomicU32,
    /// How many spares are to stand by, if more than at the start.
    width: AtomicUsize,
    /// There is neither a spare LWP nor room for one more, and that has been counted.
    at_bound: AtomicBool,
    /// How often that was so.
    pub(crate) bounded: Counter,
    /// When a start last failed, by the runtime's clock; 0: never.
    failed_at: AtomicU64,
    /// How many LWPs could not be started.
    pub(crate) not_started: Counter,
    /// How many LWPs were spare for so long that their kernel threads were ended.
    pub(crate) aged: Counter,
}

impl ReserveState {
    /// Creates loom's objects before the model's threads start.
    #[cfg(all(test, loom))]
    pub(crate) fn touch(&self) {
        let _ = (self.refill.load(Ordering::Relaxed), self.at_bound.load(Ordering::Relaxed));
        let _ = (self.bounded.get(), self.aged.get());
    }
}

/// What the thread remembers.
struct Reserve {
    scheduler: &'static Scheduler,
    /// How many LWPs it makes the next time.
    batch: usize,
    /// The pause before it next tries to make as many slots as are wanted, and how many those are.
    retry: Duration,
    wanted: u32,
}

impl Scheduler {
    /// Asks for the reserve to be looked at. Any context: a store and a futex wake.
    pub(crate) fn refill_reserve(&self) {
        self.reserve_state.refill.store(1, Ordering::Release);
        futex::wake(&self.reserve_state.refill, 1);
    }

    /// Returns how many spares are to stand by.
    pub(in crate::mxn) fn reserve(&self) -> usize {
        // Relaxed: a number.
        self.reserve_state.width.load(Ordering::Relaxed).max(RESERVE)
    }

    /// Makes `spares` stand by from now on. Returns `true` if they do, or if there can be no more.
    pub(crate) fn widen_reserve(&self, spares: usize) -> bool {
        // Relaxed: a number. The futex wake of `refill_reserve` comes after.
        if self.reserve_state.width.swap(spares, Ordering::Relaxed) != spares {
            self.refill_reserve();
        }
        if !self.pool.has_room() || self.pool.spares() >= self.reserve() {
            return true;
        }
        // Relaxed: a number.
        let failed_at = self.reserve_state.failed_at.load(Ordering::Relaxed);
        let refused = is_refused(failed_at, self.clock.now());
        if !refused && failed_at > 0 {
            // A start may succeed by now.
            self.refill_reserve();
        }
        refused
    }

    /// Records that an LWP could not be started.
    fn note_failure(&self) {
        self.reserve_state.not_started.add();
        // Relaxed: a figure.
        self.reserve_state.failed_at.store(self.clock.now().max(1), Ordering::Relaxed);
    }

    /// Lets the reserve be as small as at the start. The other spares age.
    pub(crate) fn narrow_reserve(&self) {
        // Relaxed: as in `widen_reserve`.
        if self.reserve_state.width.swap(0, Ordering::Relaxed) > RESERVE {
            self.refill_reserve();
        }
    }

    /// Notes that there is another spare. If it is the first too many, the reserve's thread must end it in
    /// time.
    pub(crate) fn notice_spare(&self, spares: usize) {
        // Relaxed: about a figure. Not with the first that comes back: it goes out again at once.
        if spares >= RESERVE && self.reserve_state.at_bound.load(Ordering::Relaxed) {
            self.reserve_state.at_bound.store(false, Ordering::Relaxed);
        }
        // The second condition: a slot may still have to be made, and this spare can hold it.
        if spares == self.reserve() + 1 || self.pool.slots() < self.pool.wanted() {
            self.refill_reserve();
        }
    }

    /// Runs the thread that keeps the reserve. Returns when the runtime stops.
    pub(crate) fn keep_reserve(&'static self) {
        Reserve { scheduler: self, batch: RESERVE, retry: RETRY, wanted: 0 }.run();
    }

    /// Waits until an LWP that was added runs. Returns `false` if it cannot; that has been counted.
    pub(crate) fn see_started(&self, starting: Starting) -> bool {
        let runs = starting.wait().is_ok();
        if !runs {
            self.note_failure();
            if let Some(lwp) = starting.lwp {
                self.kernel_threads.join(lwp);
            }
        }
        runs
    }
}

impl Reserve {
    fn run(mut self) {
        let scheduler = self.scheduler;
        // When to look without being asked.
        let mut next: Option<Instant> = None;
        while !scheduler.is_stopping() {
            // Acquire: pairs with `refill_reserve`.
            let asked = scheduler.reserve_state.refill.swap(0, Ordering::Acquire) != 0;
            if !asked && next.is_none_or(|next| Instant::now() < next) {
                // Meanwhile, gives back what too many ended threads have left, a little at a time.
                let pause = stack::trim().then(|| Instant::now() + TRIM_PAUSE);
                let _ = futex::wait(&scheduler.reserve_state.refill, 0, earlier(pause, next));
                continue;
            }
            let retry = self.settle().map(|pause| Instant::now() + pause);
            self.fill();
            next = earlier(retry, self.end_aged());
        }
    }

    /// Makes as many slots as are wanted. If there are not as many then, returns the pause before the next
    /// attempt.
    fn settle(&mut self) -> Option<Duration> {
        let wanted = self.scheduler.pool.wanted();
        if self.scheduler.settle_concurrency() {
            self.wanted = wanted;
            self.retry = RETRY;
            return None;
        }
        if self.wanted != wanted {
            (self.wanted, self.retry) = (wanted, RETRY);
        }
        let pause = self.retry;
        self.retry = (2 * pause).min(LONGEST_RETRY);
        Some(pause)
    }

    /// Makes spares, if there are too few.
    fn fill(&mut self) {
        let scheduler = self.scheduler;
        let missing = scheduler.reserve().saturating_sub(scheduler.pool.spares());
        if missing == 0 {
            self.batch = RESERVE;
            return;
        }
        let mut started = Vec::new();
        for _ in 0..self.batch.max(missing) {
            if scheduler.is_stopping() || !scheduler.pool.has_room() {
                break;
            }
            // The system allows no more. When sleepers come back, their LWPs do too.
            let Ok(starting) = scheduler.add_lwp(false) else {
                scheduler.note_failure();
                break;
            };
            started.push(starting);
        }
        let (tried, mut run) = (started.len(), 0);
        for starting in started {
            run += usize::from(scheduler.see_started(starting));
        }
        self.batch = if run < tried { 1 } else { (2 * self.batch).min(LARGEST_BATCH) };
        if tried == 0 && !scheduler.pool.has_room() && scheduler.pool.spares() == 0 {
            self.notice_bound();
        }
    }

    /// Notes that all LWPs that there may be are in use.
    #[cold]
    fn notice_bound(&self) {
        // Relaxed: about a figure.
        if self.scheduler.reserve_state.at_bound.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.scheduler.reserve_state.bounded.add() == 0 {
            let most = self.scheduler.pool.most();
            message::to_standard_error(format_args!(
                "selvedge: all {most} kernel threads (LWPs) that a runtime may have are in use; while its threads sleep in the \
                 kernel on all of them, others wait. To allow more: mxn::Builder::max_lwps or SELVEDGE_MAX_LWPS. \
                 (This is said once.)\n"
            ));
        }
    }

    /// Ends kernel threads that have been spare for long enough. Returns when the next may be.
    fn end_aged(&self) -> Option<Instant> {
        let scheduler = self.scheduler;
        let age = scheduler.settings.lwp_age.filter(|_| !scheduler.placement.has_homes())?;
        let age = u64::try_from(age.as_nanos()).unwrap_or(NEVER);
        while !scheduler.is_stopping() {
            let now = scheduler.clock.now();
            let before = now.checked_sub(age);
            match scheduler.pool.aged(scheduler.reserve(), before.unwrap_or(0)) {
                Aged::Kept => break,
                Aged::NotBefore(since) => return scheduler.clock.instant(since.saturating_add(age)),
                Aged::One(..) if before.is_none() => return scheduler.clock.instant(age),
                Aged::One(lwp, since) if may_end(lwp) => {
                    if scheduler.pool.retire(lwp, since) {
                        scheduler.kernel_threads.join(lwp);
                        scheduler.reserve_state.aged.add();
                    }
                }
                // As if it had become a spare only now.
                Aged::One(lwp, _) => lwp.show_spare_since(now),
            }
        }
        scheduler.pool.forget_vacant();
        None
    }
}

/// Returns `true` if nothing depends on a spare's kernel thread.
fn may_end(lwp: &Lwp) -> bool {
    // It is a spare, so it makes no children now.
    let tid = lwp.tid();
    lwp.timers.next() == NEVER && children::any(tid).is_ok_and(|any| !any)
}

/// Returns `true` if a failed start still means, at `now`, that there can be no more LWPs. It failed at
/// `failed_at`, by the runtime's clock; 0: no start has failed.
fn is_refused(failed_at: u64, now: u64) -> bool {
    failed_at > 0 && now.saturating_sub(failed_at) < REFUSED
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mxn::Builder;

    #[test]
    fn a_start_that_failed_long_ago_says_nothing() {
        assert!(!is_refused(0, 1), "no start has failed");
        assert!(is_refused(1, 1) && is_refused(1, REFUSED));
        assert!(!is_refused(1, REFUSED + 1));
    }

    /// A single failure must not waive the reserve for good.
    #[test]
    fn the_reserve_is_waited_for_again_after_a_failure() {
        let rt = Builder::default().concurrency(1).max_lwps(64).build().unwrap();
        let scheduler = &rt.scheduler;
        let (limit, pause) = (Instant::now() + Duration::from_secs(40), Duration::from_millis(1));
        // A failure at time 1 is long ago from then on.
        while is_refused(1, scheduler.clock.now()) {
            std::thread::sleep(pause);
        }
        scheduler.note_failure();
        assert!(scheduler.widen_reserve(40), "nothing is waited for while starts fail");
        scheduler.reserve_state.failed_at.store(1, Ordering::Relaxed);
        while !scheduler.widen_reserve(40) {
            assert!(Instant::now() < limit, "the reserve is not filled");
            std::thread::sleep(pause);
        }
        assert!(scheduler.pool.spares() >= 40, "an old failure waives the reserve");
    }
}
