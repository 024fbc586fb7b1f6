//! The reserve's thread: it makes spares, ends those that are not needed, and settles the number of slots.

use std::time::Duration;

use crate::fiber::stack;
use crate::mxn::kernel_threads::Starting;
use crate::mxn::lwp::Lwp;
use crate::mxn::sched::{Scheduler, policy};
use crate::mxn::slots::pool::{Aged, RESERVE};
use crate::mxn::timer::{BATCH, NEVER};
use crate::runtime::registry;
use crate::sys::{children, message};
use crate::time::{self, Moment};

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
/// How long, in ns, an LWP that may not end is not asked about again. To ask reads a file.
const ASK_AGAIN: u64 = 1_000_000_000;

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
    /// Makes `spares` stand by from now on. Returns `true` if they do, or if there can be no more.
    pub(crate) fn widen_reserve(&self, spares: usize) -> bool {
        let reserve = &self.reserve_state;
        reserve.set_width(spares);
        !self.pool.has_room() || self.pool.spares() >= reserve.width() || reserve.gives_up(self.clock.now())
    }

    /// Lets the reserve be as small as at the start. The other spares age.
    pub(crate) fn narrow_reserve(&self) {
        self.reserve_state.set_width(0);
    }

    /// Notes that there is another spare, which is on the list. If it is the first too many, the reserve's
    /// thread must end it in time.
    pub(crate) fn notice_spare(&self, spares: usize) {
        // The second condition: a slot may still have to be made, and this spare can hold it (`concurrency`).
        if spares == self.reserve_state.width() + 1 || self.pool.slots() < self.pool.aim() {
            self.reserve_state.ask();
        }
    }

    /// Runs the thread that keeps the reserve. Returns when the runtime stops.
    pub(crate) fn keep_reserve(&'static self) {
        Self::trace_helper(&self.reserve_trace, || Reserve::new(self).run());
    }

    /// Waits until an LWP that was added runs. Returns `false` if it cannot; that has been counted.
    pub(crate) fn see_started(&self, starting: Starting) -> bool {
        let runs = starting.wait().is_ok();
        if !runs {
            self.reserve_state.note_failure(self.clock.now());
            if let Some(lwp) = starting.lwp {
                self.kernel_threads.join(lwp);
            }
        }
        runs
    }
}

impl Reserve {
    fn new(scheduler: &'static Scheduler) -> Self {
        Self { scheduler, batch: RESERVE, retry: RETRY, wanted: 0 }
    }

    fn run(mut self) {
        let scheduler = self.scheduler;
        // When to look without being asked.
        let mut next: Option<Moment> = None;
        while !scheduler.life.is_stopping() {
            if !scheduler.reserve_state.take_asked() && next.is_none_or(|next| time::now() < next) {
                // Meanwhile, gives back what too many ended threads have left, a little at a time.
                let pause = stack::trim().then(|| time::now() + TRIM_PAUSE);
                scheduler.reserve_state.wait(earlier(pause, next));
                continue;
            }
            scheduler.answer_monitor();
            if let Some(cpus) = &scheduler.settings.cpus {
                scheduler.kernel_threads.take_back(cpus);
            }
            let retry = self.settle().map(|pause| time::now() + pause);
            self.fill();
            next = earlier(earlier(retry, self.end_aged()), self.fire_orphaned());
            // How many LWPs and slots there are has changed here, if it has.
            registry::note(scheduler);
        }
    }

    /// Makes as many slots as are wanted. If there are not as many then, returns the pause before the next
    /// attempt.
    fn settle(&mut self) -> Option<Duration> {
        let wanted = self.scheduler.pool.aim();
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
        let missing = scheduler.reserve_state.width().saturating_sub(scheduler.pool.spares());
        if missing == 0 {
            self.batch = RESERVE;
            return;
        }
        let mut started = Vec::new();
        for _ in 0..self.batch.max(missing) {
            if scheduler.life.is_stopping() || !scheduler.pool.has_room() {
                break;
            }
            // The system allows no more. When sleepers come back, their LWPs do too.
            let Ok(starting) = scheduler.add_lwp(false) else {
                scheduler.reserve_state.note_failure(scheduler.clock.now());
                break;
            };
            started.push(starting);
        }
        let (tried, mut run) = (started.len(), 0);
        for starting in started {
            run += usize::from(scheduler.see_started(starting));
        }
        self.batch = if run < tried { 1 } else { (2 * self.batch).min(LARGEST_BATCH) };
        if tried == 0 && scheduler.pool.becomes_exhausted() && scheduler.reserve_state.bounded.add() == 0 {
            self.say_exhausted();
        }
    }

    /// Says that all LWPs that there may be are in use.
    #[cold]
    fn say_exhausted(&self) {
        let most = self.scheduler.pool.most();
        message::to_standard_error(format_args!(
            "selvedge: all {most} kernel threads (LWPs) that a runtime may have are in use; while its threads \
             sleep in the kernel on all of them, others wait. To allow more: mxn::Builder::max_lwps or \
             SELVEDGE_MAX_LWPS. (This is said once.)\n"
        ));
    }

    /// Ends kernel threads that have been spare for long enough. Returns when the next may be.
    fn end_aged(&self) -> Option<Moment> {
        let scheduler = self.scheduler;
        let age = scheduler.settings.lwp_age.filter(|_| !scheduler.placement.has_homes())?;
        let age = u64::try_from(age.as_nanos()).unwrap_or(NEVER);
        while !scheduler.life.is_stopping() {
            let now = scheduler.clock.now();
            let before = now.checked_sub(age);
            match scheduler.pool.aged(scheduler.reserve_state.width(), before.unwrap_or(0)) {
                Aged::Kept => break,
                Aged::NotBefore(since) => return scheduler.clock.moment(since.saturating_add(age)),
                Aged::One(..) if before.is_none() => return scheduler.clock.moment(age),
                Aged::One(lwp, since) if may_end(lwp) => {
                    if scheduler.pool.retire(lwp, since) {
                        scheduler.kernel_threads.join(lwp);
                        scheduler.reserve_state.aged.add();
                    }
                }
                // As if it had become a spare only now, or later if spares end soon.
                Aged::One(lwp, _) => lwp.life.show_spare_since(now + ASK_AGAIN.saturating_sub(age)),
            }
        }
        scheduler.pool.forget_vacant();
        None
    }

    /// Ends sleeps that are due and were armed on LWPs that have ended. Returns when the next may be.
    fn fire_orphaned(&self) -> Option<Moment> {
        let scheduler = self.scheduler;
        let mut next = NEVER;
        // On a vacant LWP, no more are armed. One that is still about to be vacant has the monitor's looks.
        for lwp in scheduler.pool.all().filter(|lwp| !lwp.life.lives()) {
            if lwp.timers.next() == NEVER {
                continue;
            }
            let now = scheduler.clock.now();
            if lwp.timers.next() <= now {
                scheduler.fire_elsewhere(lwp, None, BATCH);
            }
            // If many are due, there is a pause between two batches.
            next = next.min(lwp.timers.next().max(now + policy::BETWEEN_BATCHES));
        }
        if next == NEVER { None } else { scheduler.clock.moment(next) }
    }
}

/// Returns `true` if nothing depends on a spare's kernel thread.
fn may_end(lwp: &Lwp) -> bool {
    // It is a spare, so it makes no children now.
    children::any(lwp.life.tid()).is_ok_and(|any| !any)
}

fn earlier(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::is_refused;
    use super::*;
    use crate::mxn::Builder;
    use crate::mxn::tests::{Model, Nap, wait_until};
    use crate::mxn::timer::Entry;
    use crate::park::backend::Sleep;
    use crate::park::current;
    use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};

    /// A sleep that is over already, and notes that its deadline was met.
    struct Met(AtomicBool);

    impl Sleep for Met {
        fn word(&self) -> &AtomicU32 {
            unreachable!("no thread waits on it")
        }

        fn is_asleep(&self) -> bool {
            false
        }

        fn commit_kernel(&self) -> Option<u32> {
            None
        }

        fn expire(&self) -> bool {
            // Relaxed: only this is looked at.
            self.0.store(true, Ordering::Relaxed);
            false
        }

        fn interrupt(&self) -> bool {
            unreachable!("no thread interrupts it")
        }
    }

    /// No other thread looks at an LWP with the greatest number, once it is vacant.
    #[test]
    fn what_is_due_on_a_vacant_lwp_is_fired() {
        const THREADS: usize = 2 * BATCH;
        let model = Model::new(1, 1, THREADS);
        let (scheduler, vacant) = (model.scheduler, model.lwp(1));
        let reserve = Reserve::new(scheduler);
        let hour = 3_600_000_000_000;
        let entry = |number| {
            let deadline = if number < THREADS - 1 { 0 } else { hour };
            Entry::new(deadline, model.green(number).thread(), &Nap)
        };
        let entries: Vec<_> = (0..THREADS).map(entry).collect();
        // SAFETY: they stay here until they are disarmed.
        entries.iter().for_each(|entry| unsafe { vacant.timers.arm(entry) });
        assert_eq!((reserve.fire_orphaned(), scheduler.inject.len()), (None, 0), "its owner sees to it");
        scheduler.pool.vacate(vacant);
        scheduler.pool.forget_vacant();
        assert_eq!(scheduler.pool.reach(), 1);
        let not_before = time::now() + Duration::from_nanos(policy::BETWEEN_BATCHES);
        let soon = reserve.fire_orphaned().expect("more is due");
        assert!(soon >= not_before && scheduler.inject.len() == BATCH);
        while scheduler.inject.take(|| ()).is_some() {}
        let late = reserve.fire_orphaned().expect("one is left");
        assert!(late > soon + Duration::from_secs(1_000) && scheduler.inject.len() == BATCH - 1);
        entries.iter().for_each(|entry| vacant.timers.disarm(entry));
        assert_eq!(reserve.fire_orphaned(), None);
    }

    /// The thread must look at such deadlines when it is asked, and wake for those that come later.
    #[test]
    fn the_running_thread_meets_the_deadlines_of_an_lwp_that_has_ended() {
        let builder = Builder::default().concurrency(1).max_lwps(2 + RESERVE).time_slice(None);
        let rt = builder.lwp_age(None).build().unwrap();
        let scheduler = &rt.scheduler;
        let pool = &scheduler.pool;
        // One has the slot, and there is one more than the reserve needs.
        wait_until(|| scheduler.widen_reserve(RESERVE + 1) && pool.spares() == RESERVE + 1);
        scheduler.narrow_reserve();
        let ended = pool.lwp(1 + RESERVE as u32);
        // The reserve's thread may not have seen yet that it is to be as small as at the start.
        wait_until(|| {
            if pool.retire(ended, ended.life.spare_since()) {
                scheduler.kernel_threads.join(ended);
            }
            // Again and again: the reserve's thread, which enlists LWPs, may do so at the same time.
            if !ended.life.lives() {
                pool.forget_vacant();
            }
            !ended.life.lives() && pool.reach() == 1 + RESERVE
        });

        let met = [false; 2].map(|met| Met(met.into()));
        let later = scheduler.clock.now() + 20_000_000;
        let entry = |deadline, met| Entry::new(deadline, current::current(), met);
        let entries = [entry(0, &met[0]), entry(later, &met[1])];
        // SAFETY: they stay here until they are disarmed, and no signal preempts a kernel thread.
        entries.iter().for_each(|entry| unsafe { ended.timers.arm(entry) });
        scheduler.reserve_state.ask();
        let limit = time::now() + Duration::from_secs(40);
        let is_met = |met: &Met| met.0.load(Ordering::Relaxed);
        while !met.iter().all(is_met) && time::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        entries.iter().for_each(|entry| ended.timers.disarm(entry));
        assert_eq!(met.each_ref().map(is_met), [true; 2]);
    }

    /// A thread that ends spares at once must not ask about one forever that may not end.
    #[test]
    fn an_lwp_that_may_not_end_is_left_alone_for_a_while() {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let model = Model::with(1, 3, 0, |it| it.settings.lwp_age = Some(Duration::ZERO));
            let (scheduler, spares) = (model.scheduler, [1, 2, 3].map(|index| model.lwp(index)));
            // These have no kernel threads, so the kernel cannot tell that they have no children.
            spares.iter().for_each(|lwp| assert!(scheduler.pool.enter_spares(lwp) > 0));
            let soon = time::now() + Duration::from_millis(1);
            let later = Reserve::new(scheduler).end_aged().is_some_and(|next| next > soon);
            tell.send((later, scheduler.pool.spares())).unwrap();
        });
        let (later, spares) = told.recv_timeout(Duration::from_secs(40)).expect("it asks again and again");
        assert!(later && spares == 3);
    }

    /// A single failure must not waive the reserve for good.
    #[test]
    fn the_reserve_is_waited_for_again_after_a_failure() {
        let rt = Builder::default().concurrency(1).max_lwps(64).build().unwrap();
        let scheduler = &rt.scheduler;
        let (limit, pause) = (time::now() + Duration::from_secs(40), Duration::from_millis(1));
        // A failure at time 1 is long ago from then on.
        while is_refused(1, scheduler.clock.now()) {
            std::thread::sleep(pause);
        }
        scheduler.reserve_state.note_failure(scheduler.clock.now());
        assert!(scheduler.widen_reserve(40), "nothing is waited for while starts fail");
        scheduler.reserve_state.failed_at.store(1, Ordering::Relaxed);
        while !scheduler.widen_reserve(40) {
            assert!(time::now() < limit, "the reserve is not filled");
            std::thread::sleep(pause);
        }
        assert!(scheduler.pool.spares() >= 40, "an old failure waives the reserve");
    }
}
