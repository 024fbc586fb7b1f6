//! A scheduler without stacks, for models of what its LWPs do between two threads.
//!
//! The threads of a model play the LWPs and their surroundings; the code that they run is the real one. A green thread is
//! only a thing that is queued and found here: nothing switches to it.

use std::ptr::NonNull;

use super::config::{Register, Settings, ThreadRegister};
use super::crew::Crew;
use super::green::Green;
use super::lwp::pool::LwpPool;
use super::lwp::slot::InHand;
use super::lwp::{Lwp, Tick};
use super::monitor::watch::Watch;
use super::sched::idle::Idle;
use super::sched::inject::{Inject, Linked};
use super::sched::levels::Levels;
use super::sched::shares::Shares;
use super::sched::{Life, Scheduler, policy};
use super::stack::SizeClass;
use super::timer::Clock;
use super::tls::Rung;
use crate::park::priority::Priority;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::thread::OnDeadlock;
use crate::thread::kernel;

/// A scheduler with its LWPs, and some threads; freed when the model's threads are gone.
pub(super) struct Model {
    pub(super) scheduler: &'static Scheduler,
    greens: Vec<&'static Green>,
}

const STACK: usize = 64 << 10;

impl Model {
    /// `slots` LWPs with a slot, and then `spares` without.
    pub(super) fn new(slots: usize, spares: usize, greens: usize) -> Self {
        let max_lwps = slots + spares;
        let settings = Settings {
            concurrency: slots,
            follows_cpus: false,
            max_lwps,
            stack_size: STACK,
            bound_stack_size: STACK,
            time_slice: None,
            preemption_signal: None,
            register: Register::Own(ThreadRegister::Auto),
            lwp_age: None,
            on_deadlock: OnDeadlock::Ignore,
            lock_stats: false,
            migrate_always: false,
        };
        let scheduler: &'static Scheduler = Box::leak(Box::new(Scheduler {
            stack_class: SizeClass::of(STACK).unwrap(),
            rung: Rung::Switched,
            clock: Clock::new(),
            inject: Inject::new(),
            preempted: Inject::new(),
            shares: Shares::new(),
            signals: false,
            one_cpu: AtomicBool::new(false),
            slice: u64::MAX,
            levels: Levels::new(),
            idle: Idle::new(max_lwps),
            pool: LwpPool::new(max_lwps, slots, false),
            watch: Watch::default(),
            life: Life::new().unwrap(),
            crew: Crew::new(),
            graveyard: kernel::Graveyard::new(),
            settings,
        }));
        for index in 0..max_lwps {
            let make = |index| Ok(Lwp::new(index, Tick::take().unwrap(), policy::MIN_AGE));
            let lwp = scheduler.pool.enlist(make).unwrap();
            if index < slots {
                lwp.slot.give(InHand::first_of_its_life());
            }
        }
        let greens = (0..greens).map(|_| &*Box::leak(Box::new(Green::new(scheduler)))).collect();
        let model = Self { scheduler, greens };
        model.touch();
        model
    }

    pub(super) fn lwp(&self, index: u32) -> &'static Lwp {
        self.scheduler.pool.lwp(index)
    }

    pub(super) fn green(&self, index: usize) -> &'static Green {
        self.greens[index]
    }

    /// Atomics come into being at their first use: before the model's threads do.
    fn touch(&self) {
        let scheduler = self.scheduler;
        let _ = (scheduler.idle.look(), scheduler.idle.quiet_until(), scheduler.idle.watch());
        scheduler.idle.unwatch();
        assert!(scheduler.idle.take_sleeper().is_none());
        scheduler.watch.notice_activity();
        let watch = &scheduler.watch;
        let _ = (watch.compensated.load(Ordering::Relaxed), watch.starved.load(Ordering::Relaxed));
        let _ = watch.refill.load(Ordering::Relaxed);
        let _ = (
            scheduler.is_stopping(),
            scheduler.may_stop(),
            scheduler.live_threads(),
            scheduler.may_sleep_deeply(),
        );
        let _ = (scheduler.life.visitors.load(Ordering::Relaxed), scheduler.shares.count(false, 0));
        let _ = watch.handed_off.load(Ordering::Relaxed);
        let _ = (watch.bounded.load(Ordering::Relaxed), watch.aged.load(Ordering::Relaxed));
        let _ = watch.at_bound.load(Ordering::Relaxed);
        let _ =
            (scheduler.pool.spares(), scheduler.pool.slots(), scheduler.pool.wanted(), scheduler.pool.len());
        let life = &scheduler.life;
        let _ = (life.visitors.load(Ordering::Relaxed), life.is_any_open(), scheduler.has_shared());
        scheduler.levels.touch();
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
            let _ = (green.wakes_early(), green.is_ahead(), green.mounted.wait_clear());
            let _ = (green.core.owner_hint.load(Ordering::Relaxed), green.core.is_done());
            let _ = (green.core.priority.get(), green.links().is_queued());
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nothing can be loaded any more, not even to be freed.
            return;
        }
        for green in &self.greens {
            // SAFETY: leaked by `new`; the model's threads are gone.
            drop(unsafe { Box::from_raw(green.ptr().as_ptr()) });
        }
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(NonNull::from(self.scheduler).as_ptr()) });
    }
}

impl Lwp {
    fn touch(&self) {
        let _ = (self.tick.get(), self.slot.is_held(), self.has_queued(), self.timers.next());
        let _ = (self.next_by.load(Ordering::Relaxed), self.asked.is_any());
        let _ = (self.robbed_at.load(Ordering::Relaxed), self.bed.load(Ordering::Relaxed));
        let _ = (self.lives.load(Ordering::Relaxed), self.searches.load(Ordering::Relaxed));
        let _ = (self.tid.load(Ordering::Relaxed), self.spare_since.load(Ordering::Relaxed));
        let _ = (self.sift.load(Ordering::Relaxed), self.running.load(Ordering::Relaxed));
        let counters = &self.counters;
        for counter in [&counters.spawned, &counters.ended, &counters.steals, &counters.wakes] {
            let _ = counter.load(Ordering::Relaxed);
        }
        self.glance.with(|_| ());
        self.ring.touch();
        self.timers.touch();
    }
}
