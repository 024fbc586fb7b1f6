//! A scheduler without stacks and without kernel threads, for models and tests of what its LWPs do between
//! two threads.
//!
//! The model's threads, or a test, play the LWPs and their surroundings; the code that they run is the real
//! one. A green thread is only a thing that is queued and found here: nothing switches to it.

use std::ptr::NonNull;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use super::backend::Greens;
use super::config::Settings;
use super::green::Green;
use super::lwp::Lwp;
#[cfg(all(test, loom))]
use super::run_queue::inject::Linked;
use super::sched::{Scheduler, policy};
use super::slots::slot::InHand;
use crate::fiber::ThreadRegister;
use crate::park::backend::Sleep;
use crate::park::current;
use crate::park::owner::Tick;
#[cfg(all(test, loom))]
use crate::park::priority::Priority;
use crate::shim::atomic::AtomicU32;
use crate::thread::OnDeadlock;

/// A scheduler with its LWPs, and some threads. It is freed when the model's threads are gone.
pub(super) struct Model {
    pub(super) scheduler: &'static Scheduler,
    greens: Vec<&'static Green>,
}

const STACK: usize = 64 << 10;

impl Model {
    /// Makes `slots` LWPs with a slot, and then `spares` without.
    pub(super) fn new(slots: usize, spares: usize, greens: usize) -> Self {
        Self::with(slots, spares, greens, |_| ())
    }

    /// Makes a model as [`new`](Self::new) does, of a scheduler that `change` has changed.
    pub(super) fn with(
        slots: usize,
        spares: usize,
        greens: usize,
        change: impl FnOnce(&mut Scheduler),
    ) -> Self {
        let max_lwps = slots + spares;
        let settings = Settings {
            green_std_threads: None,
            concurrency: slots,
            follows_cpus: false,
            cpus: None,
            max_lwps,
            stack_size: STACK,
            bound_stack_size: STACK,
            time_slice: None,
            preemption_signal: None,
            register: None,
            lwp_age: None,
            on_deadlock: OnDeadlock::Ignore,
            lock_stats: false,
            migrate_always: false,
        };
        let scheduler = Scheduler::new(settings, ThreadRegister::Switched, false).unwrap();
        let scheduler = Box::leak(Box::new(scheduler));
        change(scheduler);
        let scheduler: &'static Scheduler = scheduler;
        scheduler.follow_trace();
        for index in 0..max_lwps {
            let make = |index| Ok(Lwp::new(index, Tick::take().unwrap(), policy::MIN_AGE));
            let lwp = scheduler.pool.enlist(make).unwrap();
            if index < slots {
                scheduler.pool.give(lwp, InHand::first_of_its_life());
            }
        }
        let greens = (0..greens).map(|_| &*Box::leak(Box::new(Green::new(scheduler, &Greens)))).collect();
        let model = Self { scheduler, greens };
        #[cfg(all(test, loom))]
        model.touch();
        model
    }

    pub(super) fn lwp(&self, index: u32) -> &'static Lwp {
        self.scheduler.pool.lwp(index)
    }

    pub(super) fn green(&self, index: usize) -> &'static Green {
        self.greens[index]
    }

    /// Touches its atomics before the model's threads start: they come into being at their first use.
    #[cfg(all(test, loom))]
    fn touch(&self) {
        let scheduler = self.scheduler;
        let _ = (scheduler.idle.look(), scheduler.idle.quiet_until(), scheduler.idle.watch());
        scheduler.idle.unwatch();
        assert!(scheduler.idle.take_sleeper(None).is_none());
        scheduler.watch.notice_activity();
        let moves = &scheduler.moves;
        let _ = (moves.compensated.get(), moves.handed_off.get());
        scheduler.reserve_state.touch();
        let _ = (
            scheduler.life.is_stopping(),
            scheduler.may_stop(),
            scheduler.live_threads(),
            scheduler.may_sleep_deeply(),
        );
        let _ = (scheduler.life.has_visitors(), scheduler.shares.count(false, 0));
        let _ = (scheduler.pool.spares(), scheduler.pool.slots(), scheduler.pool.aim(), scheduler.pool.len());
        let life = &scheduler.life;
        let _ = (life.has_visitors(), scheduler.slots.is_any_open(), scheduler.has_shared());
        scheduler.levels.touch();
        super::life::end::Visit::close();
        // Each queue has had something in it once.
        if let Some(green) = self.greens.first() {
            scheduler.inject.push(green.ptr());
            assert!(scheduler.inject.pop(0, |_| ()).is_some());
            for level in [Priority::High, Priority::Low] {
                green.core.priority.set(level);
                scheduler.queue_shared(green);
                assert!(scheduler.levels.take_high().or_else(|| scheduler.levels.take_low()).is_some());
            }
            green.core.priority.set(Priority::Normal);
        }
        for lwp in scheduler.pool.lwps() {
            lwp.touch();
            if let Some(green) = self.greens.first() {
                lwp.pinned.push(green.ptr(), || Priority::Normal);
                assert!(lwp.pinned.pop(Priority::Normal).is_some());
            }
        }
        for green in &self.greens {
            let _ = (green.wakes_early(), green.is_ahead(), green.fiber.mounted.wait_clear());
            let _ = (green.core.owner_hint.get(), green.core.is_done());
            let _ = (green.core.priority.get(), green.links().is_queued());
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nothing can be loaded after this, not even to be freed.
            return;
        }
        for green in &self.greens {
            // SAFETY: leaked by `new`, and the model's threads are gone.
            drop(unsafe { Box::from_raw(green.ptr().as_ptr()) });
        }
        // SAFETY: leaked by `new`, and the model's threads are gone.
        drop(unsafe { Box::from_raw(NonNull::from(self.scheduler).as_ptr()) });
    }
}

/// Plays a thread that runs on an LWP.
pub(super) fn run_on<R>(lwp: &'static Lwp, green: &'static Green, f: impl FnOnce() -> R) -> R {
    let before = current::try_current();
    green.lwp.set(Some(lwp));
    current::set_current(Some(green.thread()));
    let result = f();
    current::set_current(before);
    result
}

/// Waits until something is so that another kernel thread brings about.
pub(super) fn wait_until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it takes too long");
        yield_now();
    }
}

/// The sleep of a thread that only its deadline ends.
pub(super) struct Nap;

impl Sleep for Nap {
    fn word(&self) -> &AtomicU32 {
        unreachable!("no thread waits on it")
    }

    fn is_asleep(&self) -> bool {
        true
    }

    fn commit_kernel(&self) -> Option<u32> {
        None
    }

    fn expire(&self) -> bool {
        true
    }

    fn interrupt(&self) -> bool {
        unreachable!("no thread interrupts it")
    }
}

#[cfg(all(test, loom))]
impl Lwp {
    fn touch(&self) {
        let _ = (self.tick.get(), self.slot.is_held(), self.has_queued(), self.timers.next());
        let _ = (self.queue.next.filled_by(), self.flags.is_any());
        let _ = (self.robbed_at(), self.sleep.is_awake());
        let _ = (self.life.lives(), self.life.is_awaited(), self.searches());
        let _ = (self.life.tid(), self.life.spare_since());
        let _ = self.running();
        let counters = &self.counters;
        for counter in
            [&counters.spawned, &counters.ended, &counters.steals, &counters.wakes, &counters.ran_dry]
        {
            let _ = counter.get();
        }
        self.snapshot.with(|_| ());
        self.queue.ring.touch();
        self.timers.touch();
    }
}
