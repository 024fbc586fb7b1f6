//! M:N: green threads with stacks of their own, over a pool of kernel threads (LWPs).
//!
//! [`Mxn`] is a runtime as a value. What it is made of, from the machine up: `green` (a thread), `stack` and `tls` (what it
//! owns), `sched` (who runs next), `lwp` (what it runs on), `timer`, `monitor` (what nobody sees of himself), and
//! `backend`, the face that the rest of the crate sees.

mod backend;
mod concurrency;
mod config;
mod crew;
mod green;
mod lwp;
mod monitor;
mod preempt;
mod region;
mod rest;
mod sched;
mod shutdown;
mod stack;
mod stats;
mod timer;
mod tls;

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use self::config::Settings;
pub use self::config::{Builder, ThreadRegister};
use self::crew::{Badge, Crew};
use self::lwp::pool::LwpPool;
use self::lwp::slot::InHand;
use self::lwp::{Lwp, Tick};
use self::monitor::reserve;
use self::monitor::watch::Watch;
use self::sched::idle::Idle;
use self::sched::inject::Inject;
use self::sched::levels::Levels;
use self::sched::shares::Shares;
use self::sched::{CLOSING, Life, Scheduler, policy};
use self::stack::SizeClass;
use self::timer::Clock;
use crate::arch;
use crate::park::backend::{Cpus, Packing, SpawnOptions, Start};
use crate::park::everybody::{self, CrewMember};
use crate::park::thread::ThreadRef;
use crate::park::{contention, current, registry, whereabouts};
use crate::runtime::{Runtime, RuntimeInfo, RuntimeStats, sealed};
use crate::settings::invalid;
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::cpu;
use crate::sys;
use crate::sys::kthread::{self, KernelThread, Options};
use crate::sys::sigstack::{self, AltStack};
use crate::thread::deadlock::{self, Deadlocks};
use crate::thread::kernel;

/// Stack of an LWP's dispatcher and of the runtime's other kernel threads, in bytes: they run no code but ours.
const KERNEL_STACK: usize = 128 << 10;

thread_local! {
    /// The LWP whose own thread register this is. No destructor and a constant start: a signal handler reads it.
    static DISPATCHES: Cell<Option<&'static Lwp>> = const { Cell::new(None) };
}

/// Whether the caller is a dispatcher: on an LWP's own thread register, with no green thread mounted. For the tests of I4.
#[doc(hidden)]
pub fn in_dispatcher() -> bool {
    // On rung 3 green threads share the register.
    dispatches().is_some() && current::try_current().is_none()
}

/// The LWP whose own thread register the caller runs on.
fn dispatches() -> Option<&'static Lwp> {
    DISPATCHES.get()
}

/// A runtime of green threads.
///
/// Dropping it waits for all of its threads and then ends its kernel threads. Dropped by one of its own threads, it lets go
/// instead, and ends by itself with the last of them.
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
    /// A runtime with the default settings, or those of the environment: `Mxn::builder().build()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// A builder that has every setting's default.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a runtime: what `Builder::build` ends in.
    fn start(settings: Settings) -> io::Result<Self> {
        let rung = tls::choose(settings.register)?;
        green::expect_forks()?;
        stack::init(tls::reserve(), tls::destroy);
        stack::report_overflows()?;
        everybody::tell_of_greens(green::each);
        if settings.lock_stats {
            contention::switch(true);
        }
        let on_deadlock = settings.on_deadlock;
        let scheduler = Arc::new(Scheduler {
            stack_class: SizeClass::of(settings.stack_size)?,
            rung,
            clock: Clock::new(),
            inject: Inject::new(),
            levels: Levels::new(),
            preempted: Inject::new(),
            shares: Shares::new(),
            one_cpu: AtomicBool::new(sys::affinity::is_single()),
            slice: settings.slice(),
            signals: preempt::prepare(rung, settings.preemption_signal)?,
            idle: Idle::new(settings.max_lwps),
            pool: LwpPool::new(settings.max_lwps, settings.concurrency, settings.follows_cpus),
            watch: Watch::default(),
            life: Life::new()?,
            crew: Crew::new(),
            graveyard: kernel::Graveyard::new(),
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
        deadlock::start(on_deadlock)?;
        Ok(runtime)
    }

    /// Whether the caller is one of this runtime's own threads.
    fn is_own(&self) -> bool {
        let ambient = current::try_current().and_then(|me| me.ambient());
        ambient.is_some_and(|ambient| std::ptr::addr_eq(ambient, Arc::as_ptr(&self.scheduler)))
    }
}

impl Scheduler {
    /// Another share of a scheduler that is in an `Arc`, as all are.
    fn share(&'static self) -> Arc<Self> {
        // SAFETY: every scheduler is made by `Arc::new` in `start`, and we are called while a share exists.
        unsafe { Arc::increment_strong_count(self) };
        // SAFETY: the share that was just counted.
        unsafe { Arc::from_raw(self) }
    }

    /// From now on the runtime ends with its last thread.
    fn close(&self) {
        // Release: pairs with the acquire of `may_stop`. The fence in `wake` orders it with the monitor's last look before it
        // sleeps deeply. A start that failed has stopped it already: the phase only grows.
        self.life.phase.fetch_max(CLOSING, Ordering::Release);
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

    /// Starts an LWP, with a slot that nobody has had yet or as a spare. There is room for it. By the builder, then by the
    /// thread that keeps the reserve, and by nobody else.
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

    /// An LWP's kernel thread could not be started, or ends: with its slot, where the runtime stops. Another may take its place until
    /// all have seen that it does.
    fn give_up(&self, lwp: &Lwp) {
        if let Some(slot) = lwp.slot.retake_unannounced() {
            slot.retire();
        }
        self.pool.vacate(lwp);
    }

    /// The life of an LWP's kernel thread.
    fn lwp_main(&'static self, lwp: &'static Lwp, ready: Ready) {
        // Without one, a thread that overflows its stack would end the process without a word, and none could be preempted.
        let _alt_stack = match AltStack::install() {
            Ok(alt_stack) => alt_stack,
            Err(error) => {
                self.give_up(lwp);
                return ready.tell(Err(error));
            }
        };
        lwp.tp.set(arch::tp::read());
        // The same mask as on the thread that built the runtime: kernel threads that it starts would inherit
        // that.
        self.crew.signal_mask.adopt();
        if let Some(signal) = self.settings.preemption_signal.filter(|_| self.signals) {
            // Whoever built the runtime may have it blocked.
            sys::preempt::unblock(signal);
        }
        lwp.mask.set(Some(sys::preempt::baseline_mask()));
        lwp.request.forget_signals();
        // Release: pairs with the monitor's acquire.
        lwp.tid.store(kthread::gettid().cast_unsigned(), Ordering::Release);
        ready.tell(Ok(()));
        DISPATCHES.set(Some(lwp));
        lwp.show_cpu(cpu::word());
        self.dispatch(lwp);
        lwp.show_cpu(None);
        DISPATCHES.set(None);
        lwp.stacks.drain();
        lwp.greens.flush();
        // Where the runtime stops, it may be among the spares still; if it is not, it may have been given a slot.
        let _ = self.pool.leave_spares(lwp);
        self.give_up(lwp);
    }

    /// Starts the monitor, or the thread that keeps the reserve.
    fn start_helper(&'static self, helper: Helper, life: fn(&'static Self)) -> io::Result<Starting> {
        self.start_crew(helper.name(), None, move |scheduler, ready| {
            // Relaxed: for those who look from outside.
            scheduler.watch.tids[helper as usize].store(kthread::gettid().cast_unsigned(), Ordering::Relaxed);
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
            let _member = CrewMember::enter();
            theirs.tell(kthread::gettid().cast_unsigned());
            drop(theirs);
            life(share.forever(), ready);
            drop(share);
        })?;
        self.crew.add(member, lwp, badge);
        Ok(Starting { lwp, heard })
    }

    /// Starts a bound thread: one that owns a kernel thread, as in the 1:1 runtime. Called for what only such a thread can have,
    /// too.
    #[cold]
    fn spawn_bound(&'static self, packing: Packing<'_>, options: &mut SpawnOptions) -> io::Result<ThreadRef> {
        if !options.bound {
            return Err(invalid(
                "a green thread runs on any LWP: to have an affinity it must own a kernel thread, by `bound(true)`"
                    .into(),
            ));
        }
        // What the new thread maps by itself must still be there after its stack.
        sys::mmap::check_headroom(options.stack_size.unwrap_or(self.settings.bound_stack_size))?;
        self.life.spawned_elsewhere.fetch_add(1, Ordering::Release);
        // Relaxed: for those who look from outside.
        self.life.bound.fetch_add(1, Ordering::Relaxed);
        /// Uncounts a thread that did not start, even if dropping its closure panics.
        struct Counted(&'static Scheduler);
        impl Drop for Counted {
            fn drop(&mut self) {
                kernel::Host::thread_ended(self.0);
            }
        }
        let counted = Counted(self);
        let spawned = kernel::spawn(&self.share(), packing, options, self.settings.bound_stack_size)?;
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

/// With a kernel thread that is being started: how it says that it runs, or that it cannot.
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
    /// Not a channel: std's has a thread-local with a destructor for who waits, and that is registered under the loader's lock, behind
    /// which all that run may sleep, until there is another LWP.
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
        self.life.bound.fetch_sub(1, Ordering::Relaxed);
        // Release: what the thread did comes before the runtime's end.
        self.life.ended_elsewhere.fetch_add(1, Ordering::Release);
        // This may have been the last thread of a dropped runtime.
        self.watch.notice_activity();
    }

    fn is_here(&self) -> bool {
        self.life.process.is_mine()
    }

    fn graveyard(&self) -> &kernel::Graveyard {
        &self.graveyard
    }

    fn pin(&self, cpus: &Cpus) -> io::Result<()> {
        sys::affinity::pin(&cpus.0)
    }

    fn run(&self, me: ThreadRef, start: Start) {
        registry::tell_tid(me, kthread::gettid().cast_unsigned());
        sigstack::watched(me.name(), Some(me.id().get()), || start.run_for_good(me));
    }
}

impl Drop for Mxn {
    fn drop(&mut self) {
        if !self.scheduler.life.process.is_mine() {
            // A fork: the LWPs are the parent's, and nobody here will ever end them.
            std::mem::forget(Arc::clone(&self.scheduler));
            return;
        }
        self.scheduler.close();
        if self.is_own() {
            // The crew goes on without us, detached, and the last of it frees the scheduler.
            self.scheduler.crew.detach_all();
            return;
        }
        let join = || crate::thread::blocking(|| self.scheduler.crew.join_all());
        whereabouts::until_all_end(Arc::as_ptr(&self.scheduler).addr(), join);
        self.scheduler.graveyard.close();
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
        if !self.scheduler.life.process.is_mine() {
            // A fork: its threads are not here.
            return Deadlocks::default();
        }
        Deadlocks::of(Arc::as_ptr(&self.scheduler).addr())
    }
}

impl sealed::Sealed for Mxn {
    fn place(&self) -> sealed::Place<'_> {
        sealed::Place(&*self.scheduler)
    }
}

impl fmt::Debug for Mxn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mxn").field(&self.info()).finish()
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_scheduler.rs"]
mod loom_scheduler;
