//! M:N: green threads with stacks of their own, over a pool of kernel threads (LWPs).
//!
//! [`Mxn`] is the runtime as a value. [`Builder`] has its settings, each with its default and the environment
//! variable that changes it. The chapters of the [guide](crate::guide) tell when to
//! [choose](crate::guide::choosing) it, and what happens to threads that [block](crate::guide::blocking) or
//! [never yield](crate::guide::time_slices).

mod backend;
mod config;
pub(crate) mod counter;
mod green;
mod kernel_threads;
mod life;
mod lwp;
mod monitor;
mod preempt;
mod run_queue;
mod sched;
mod shutdown;
mod slots;
mod stats;
mod timer;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

pub use self::config::Builder;
use self::config::Settings;
use self::kernel_threads::{Badge, KernelThreads};
use self::life::Life;
use self::lwp::{Lwp, Tick};
use self::monitor::sleep::MonitorState;
use self::run_queue::inject::Inject;
use self::sched::fair_share::FairShare;
use self::sched::idle::Idle;
use self::sched::placement::Placement;
use self::sched::priority::PriorityQueues;
use self::sched::{Scheduler, policy};
use self::slots::counts::{Moves, SlotCounts};
use self::slots::pool::LwpPool;
use self::slots::reserve::{self, ReserveState};
use self::slots::slot::InHand;
use self::timer::Clock;
use crate::fiber::stack::{self, SizeClass};
use crate::fiber::tls;
use crate::observe::contention;
use crate::observe::thread_snapshot::PoolThread;
use crate::park::backend::{Cpus, SpawnOptions, Task, TaskRef};
use crate::park::thread::ThreadRef;
use crate::park::{all_threads, core_pool, current, wait_state};
use crate::runtime::{Runtime, RuntimeInfo, RuntimeStats, sealed};
use crate::settings::invalid;
use crate::shim::atomic::AtomicBool;
use crate::shim::cpu;
use crate::sys;
use crate::sys::kthread::{self, KernelThread, Options};
use crate::sys::sigstack::{self, AltStack};
use crate::thread::current::blocking;
use crate::thread::deadlock::{Deadlocks, watch};
use crate::thread::kernel;

/// Stack of an LWP's dispatcher and of the runtime's other kernel threads, in bytes. They run only this
/// crate's code.
const KERNEL_STACK: usize = 128 << 10;

thread_local! {
    /// The LWP that has this thread register as its own. No destructor and a constant start: a signal handler
    /// reads it.
    static DISPATCHES: Cell<Option<&'static Lwp>> = const { Cell::new(None) };
}

/// Returns `true` if the caller is a dispatcher: on an LWP's own thread register, with no green thread
/// mounted. For the tests of I4.
#[doc(hidden)]
pub fn in_dispatcher() -> bool {
    // On `Pinned`, green threads share the register.
    dispatches().is_some() && current::try_current().is_none()
}

/// Returns the LWP that has the caller's thread register as its own.
fn dispatches() -> Option<&'static Lwp> {
    DISPATCHES.get()
}

/// A runtime of green threads.
///
/// Dropping it waits for all of its threads and then ends its kernel threads. If one of its own threads drops
/// it, it lets go instead, and ends by itself with the last of them.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime};
///
/// let rt = Mxn::new()?;
/// let sum: u64 = (0..1000u64).map(|n| rt.spawn(move || n)).map(|t| t.join().unwrap()).sum();
/// assert_eq!(sum, 499_500);
/// # std::io::Result::Ok(())
/// ```
pub struct Mxn {
    scheduler: Arc<Scheduler>,
}

impl Mxn {
    /// Creates a runtime with the default settings, or those of the environment: `Mxn::builder().build()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Returns a builder that has every setting's default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a runtime, for `Builder::build`.
    fn start(settings: Settings) -> io::Result<Self> {
        let rung = tls::choose(settings.register)?;
        green::expect_forks()?;
        stack::init(tls::reserve(), tls::destroy);
        stack::report_overflows()?;
        all_threads::tell_of_greens(green::each);
        if settings.lock_stats {
            contention::switch(true);
        }
        let on_deadlock = settings.on_deadlock;
        let scheduler = Arc::new(Scheduler {
            stack_class: SizeClass::of(settings.stack_size)?,
            rung,
            placement: Placement::new(rung, settings.migrate_always),
            clock: Clock::new(),
            inject: Inject::new(),
            levels: PriorityQueues::new(),
            preempted: Inject::new(),
            shares: FairShare::new(),
            one_cpu: AtomicBool::new(sys::affinity::is_single()),
            slice: settings.slice(),
            signals: preempt::prepare(rung, settings.preemption_signal)?,
            idle: Idle::new(settings.max_lwps),
            pool: LwpPool::new(settings.max_lwps, settings.concurrency, settings.follows_cpus),
            slots: SlotCounts::default(),
            moves: Moves::default(),
            watch: MonitorState::default(),
            reserve_state: ReserveState::default(),
            helper_tids: Default::default(),
            life: Life::new()?,
            kernel_threads: KernelThreads::new(),
            reaper: kernel::Reaper::new(),
            settings,
        });
        // From here on, dropping what was started so far ends it.
        let runtime = Self { scheduler };
        let scheduler = &runtime.scheduler;
        let lwps = (scheduler.settings.concurrency + reserve::RESERVE).min(scheduler.settings.max_lwps);
        let started = scheduler.forever().start(lwps);
        if started.is_err() {
            // There may be no monitor to do it.
            scheduler.stop();
        }
        started?;
        watch::start(on_deadlock)?;
        Ok(runtime)
    }

    /// Returns `true` if the caller is one of this runtime's own threads.
    fn is_own(&self) -> bool {
        let spawner = current::try_current().and_then(|me| me.spawner());
        spawner.is_some_and(|spawner| std::ptr::addr_eq(spawner, Arc::as_ptr(&self.scheduler)))
    }
}

impl Scheduler {
    /// Returns another share of a scheduler. It is in an `Arc`, as all are.
    fn share(&'static self) -> Arc<Self> {
        // SAFETY: every scheduler is made by `Arc::new` in `start`, and callers have a share.
        unsafe { Arc::increment_strong_count(self) };
        // SAFETY: the share that was just counted.
        unsafe { Arc::from_raw(self) }
    }

    /// Makes the runtime end with its last thread.
    fn close(&self) {
        self.life.close();
        // Its fence orders the two with the monitor's last look before it sleeps deeply.
        self.watch.wake();
    }

    /// Starts all that runs from the beginning, and waits until it does.
    fn start(&'static self, lwps: usize) -> io::Result<()> {
        let mut starting = Vec::with_capacity(lwps + 2);
        for index in 0..lwps {
            starting.push(self.add_lwp(index < self.settings.concurrency)?);
        }
        starting.push(self.start_helper(Helper::Monitor, Self::monitor)?);
        starting.push(self.start_helper(Helper::Reserve, Self::keep_reserve)?);
        starting.into_iter().try_for_each(|starting| starting.wait())
    }

    /// Starts an LWP, with a slot that no LWP has had yet, or as a spare. There is room for it. Called by the
    /// builder, then by the thread that keeps the reserve alone.
    fn add_lwp(&'static self, with_slot: bool) -> io::Result<Starting> {
        let lwp = self.pool.enlist(|index| {
            let tick = Tick::take().ok_or_else(|| {
                io::Error::other("there are too many LWPs in this process, over all its runtimes")
            })?;
            Ok(Lwp::new(index, tick, policy::MIN_AGE))
        })?;
        if with_slot {
            lwp.slot.give(InHand::first_of_its_life());
        }
        let name = format!("selvedge-{}", lwp.index);
        self.start_crew(&name, Some(lwp), move |scheduler, ready| scheduler.lwp_main(lwp, ready))
            .inspect_err(|_| self.give_up(lwp))
    }

    /// Vacates an LWP: its kernel thread could not be started, or ends. When the runtime stops, it may still
    /// have its slot. Before all others have seen that it ends, another kernel thread may take its place.
    fn give_up(&self, lwp: &Lwp) {
        if let Some(slot) = lwp.slot.retake_unannounced() {
            slot.retire();
        }
        self.pool.vacate(lwp);
    }

    /// Runs an LWP's kernel thread.
    fn lwp_main(&'static self, lwp: &'static Lwp, ready: Ready) {
        // Without one, a thread that overflows its stack would end the process without a message, and no
        // thread could be preempted.
        let _alt_stack = match AltStack::install() {
            Ok(alt_stack) => alt_stack,
            Err(error) => {
                self.give_up(lwp);
                return ready.tell(Err(error));
            }
        };
        lwp.context.adopt();
        // The same mask as on the thread that built the runtime: kernel threads that it starts inherit that.
        self.kernel_threads.signal_mask.adopt();
        if let Some(signal) = self.settings.preemption_signal.filter(|_| self.signals) {
            // The thread that built the runtime may have it blocked.
            sys::preempt::unblock(signal);
        }
        lwp.mask.set(Some(sys::preempt::baseline_mask()));
        lwp.request.forget_signals();
        lwp.show_tid(kthread::gettid().cast_unsigned());
        ready.tell(Ok(()));
        DISPATCHES.set(Some(lwp));
        lwp.show_cpu(cpu::word());
        self.dispatch(lwp);
        lwp.show_cpu(None);
        DISPATCHES.set(None);
        lwp.stacks.drain();
        lwp.greens.flush();
        // When the runtime stops, it may still be among the spares. If it is not, it may have been given a
        // slot.
        let _ = self.pool.leave_spares(lwp);
        self.give_up(lwp);
    }

    /// Starts the monitor, or the thread that keeps the reserve.
    fn start_helper(&'static self, helper: Helper, life: fn(&'static Self)) -> io::Result<Starting> {
        self.start_crew(helper.name(), None, move |scheduler, ready| {
            scheduler.show_helper_tid(helper as usize, kthread::gettid().cast_unsigned());
            ready.tell(Ok(()));
            life(scheduler);
        })
    }

    /// Starts a kernel thread of the runtime, which owns a share of it.
    fn start_crew(
        &'static self,
        name: &str,
        lwp: Option<&'static Lwp>,
        life: impl FnOnce(&'static Self, Ready) + Send + 'static,
    ) -> io::Result<Starting> {
        // A spare is not worth the last memory of threads that run.
        sys::mmap::check_headroom(KERNEL_STACK + sigstack::MAPPED)?;
        let share = self.share();
        let heard = Arc::new(OnceLock::new());
        let ready = Ready(Arc::clone(&heard));
        // The program's signals are for its own threads and for LWPs. The helpers have no alternate stack.
        let options = Options { name, stack_size: Some(KERNEL_STACK), block_signals: true };
        let badge = Badge::new(name);
        let theirs = badge.clone();
        let member = KernelThread::start(&options, move || {
            let _member = PoolThread::enter();
            theirs.tell(kthread::gettid().cast_unsigned());
            drop(theirs);
            life(share.forever(), ready);
            drop(share);
        })?;
        self.kernel_threads.add(member, lwp, badge);
        Ok(Starting { lwp, heard })
    }

    /// Starts a bound thread: one that owns a kernel thread, as in the 1:1 runtime. Also called for what only
    /// such a thread can have.
    #[cold]
    fn spawn_bound(&'static self, task: TaskRef<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        if !options.bound {
            return Err(invalid(
                "a green thread runs on any LWP: to have an affinity it must own a kernel thread, by `bound(true)`"
                    .into(),
            ));
        }
        // What the new thread maps by itself must still be there after its stack.
        sys::mmap::check_headroom(options.stack_size.unwrap_or(self.settings.bound_stack_size))?;
        self.life.count_bound();
        /// Uncounts a thread that did not start, even if dropping its closure panics.
        struct Counted(&'static Scheduler);
        impl Drop for Counted {
            fn drop(&mut self) {
                kernel::Host::thread_ended(self.0);
            }
        }
        let counted = Counted(self);
        let spawned = kernel::spawn(&self.share(), task, options, self.settings.bound_stack_size)?;
        std::mem::forget(counted);
        Ok(spawned)
    }
}

/// The kernel threads that run no green threads.
#[derive(Clone, Copy, Debug)]
enum Helper {
    Monitor,
    Reserve,
}

impl Helper {
    const ALL: [Self; 2] = [Self::Monitor, Self::Reserve];

    fn name(self) -> &'static str {
        match self {
            Self::Monitor => "selvedge-mon",
            Self::Reserve => "selvedge-rsv",
        }
    }
}

/// The end of a start at the new kernel thread. By it the thread says that it runs, or that it cannot.
#[derive(Debug)]
struct Ready(Arc<OnceLock<io::Result<()>>>);

impl Ready {
    fn tell(self, outcome: io::Result<()>) {
        self.0.set(outcome).expect("it is told once");
    }
}

/// A kernel thread of the runtime that is being started.
#[derive(Debug)]
#[must_use = "it may have failed"]
struct Starting {
    lwp: Option<&'static Lwp>,
    /// Not a channel: std's has a thread-local with a destructor for the waiting thread. That destructor is
    /// registered under the loader's lock. All running threads may sleep behind that lock until there is
    /// another LWP.
    heard: Arc<OnceLock<io::Result<()>>>,
}

impl Starting {
    /// Waits until it runs.
    fn wait(&self) -> io::Result<()> {
        // It tells in any case: a panic before that would end the process.
        let Err(error) = self.heard.wait() else { return Ok(()) };
        Err(match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        })
    }
}

impl kernel::Host for Scheduler {
    fn thread_ended(&self) {
        self.life.end_bound();
        // This may have been the last thread of a dropped runtime.
        self.watch.notice_activity();
    }

    fn is_here(&self) -> bool {
        self.life.is_here()
    }

    fn reaper(&self) -> &kernel::Reaper {
        &self.reaper
    }

    fn pin(&self, cpus: &Cpus) -> io::Result<()> {
        sys::affinity::pin(&cpus.0)
    }

    fn run(&self, me: ThreadRef, task: Task) {
        core_pool::tell_tid(me, kthread::gettid().cast_unsigned());
        sigstack::watched(me.name(), Some(me.id().get()), || task.run_for_good(me));
    }
}

impl Drop for Mxn {
    fn drop(&mut self) {
        if !self.scheduler.life.is_here() {
            // A fork: the LWPs are the parent's, and nothing here will ever end them.
            std::mem::forget(Arc::clone(&self.scheduler));
            return;
        }
        self.scheduler.close();
        if self.is_own() {
            // The kernel threads go on detached, and the last of them frees the scheduler.
            self.scheduler.kernel_threads.detach_all();
            return;
        }
        let join = || blocking(|| self.scheduler.kernel_threads.join_all());
        wait_state::until_all_end(Arc::as_ptr(&self.scheduler).addr(), join);
        self.scheduler.reaper.close();
    }
}

impl Runtime for Mxn {
    const NAME: &'static str = "mxn";

    fn info(&self) -> RuntimeInfo {
        RuntimeInfo {
            model: Self::NAME,
            thread_register: Some(self.scheduler.rung),
            concurrency: self.concurrency(),
            lwps: self.scheduler.count_lwps(),
            threads: self.scheduler.count_threads().0,
        }
    }

    fn stats(&self) -> RuntimeStats {
        self.scheduler.stats()
    }

    fn deadlocks(&self) -> Deadlocks {
        if !self.scheduler.life.is_here() {
            // A fork: the runtime's threads are not here.
            return Deadlocks::default();
        }
        Deadlocks::of(Arc::as_ptr(&self.scheduler).addr())
    }
}

impl sealed::Sealed for Mxn {
    fn spawner(&self) -> sealed::SpawnerRef<'_> {
        sealed::SpawnerRef(&*self.scheduler)
    }
}

impl fmt::Debug for Mxn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mxn").field(&self.info()).finish()
    }
}

#[cfg(test)]
mod tests;
