//! The kernel threads of a runtime: how the runtime starts, what each of them runs, and how it ends.

use std::io;
use std::sync::Arc;

use super::config::Settings;
use super::green;
use super::kernel_threads::{Badge, Helper, Ready, Starting};
use super::life::end::Visit;
use super::lwp::{self, Lwp};
use super::preempt;
use super::sched::{Scheduler, policy};
use super::slots::pool;
use super::slots::slot::InHand;
use crate::fiber::stack;
use crate::fiber::tls;
use crate::interpose::{self, HAS_MASKS};
use crate::observe::contention;
use crate::observe::thread_snapshot::PoolThread;
use crate::park::{all_threads, fork, owner, wait_state};
use crate::runtime::registry;
use crate::settings;
use crate::shim::{self, cpu};
use crate::sys;
use crate::sys::affinity;
use crate::sys::fork::Generation;
use crate::sys::kthread::{self, KernelThread, Options};
use crate::sys::nap;
use crate::sys::sigstack::{self, AltStack};
use crate::thread::current::blocking;
use crate::thread::deadlock::watch;
use crate::thread::kernel::Host;
#[cfg(unix)]
use crate::threadmon;
use crate::trace;

/// Stack of an LWP's dispatcher and of the runtime's other kernel threads, in bytes. They run only this
/// crate's code.
const KERNEL_STACK: usize = 128 << 10;

/// Starts a runtime. The caller owns it, and ends it by [`Scheduler::end`].
pub(crate) fn start(settings: Settings) -> io::Result<Arc<Scheduler>> {
    // Asked once for all threads, so not on the CPUs of some. Nor when a thread first waits for a lock: the
    // answer allocates, and the lock may be the allocator's.
    shim::cpus();
    settings::misspelled::report();
    trace::file::start(&settings::process)?;
    #[cfg(unix)]
    threadmon::server::serve_if_asked(&settings::process)?;
    #[cfg(target_os = "linux")]
    threadmon::dump::dump_if_asked(&settings::process)?;
    interpose::check(match settings.green_std_threads {
        Some(green) => green,
        None => settings::green_std_threads(&settings::process)?.unwrap_or(false),
    })?;
    let rung = tls::choose(settings.register)?;
    fork::expect_green_threads();
    Generation::watched(in_child)?;
    stack::init(tls::reserve()?, tls::destroy);
    if rung.is_per_thread() {
        stack::expect_blocks();
    }
    stack::report_overflows()?;
    all_threads::tell_of_greens(green::each);
    if settings.lock_stats {
        contention::switch(true);
    }
    let on_deadlock = settings.on_deadlock;
    let signals = preempt::prepare(rung, settings.preemption_signal)?;
    let scheduler = Arc::new(Scheduler::new(settings, rung, signals)?);
    let started = scheduler.forever().start_on_its_cpus();
    if started.is_err() {
        // There may be no monitor, which stops the LWPs otherwise.
        scheduler.stop();
    }
    let started = started.and_then(|()| watch::start(on_deadlock));
    started.inspect_err(|_| scheduler.end())?;
    registry::add(&scheduler);
    Ok(scheduler)
}

/// Mends what all runtimes of a process share, in a child of a fork. Its one thread is not green there.
fn in_child() {
    // SAFETY: the child's only thread calls this before anything else, and spawning does not fork.
    unsafe { green::in_child() };
    // SAFETY: the child's only thread, before anything else.
    unsafe { stack::in_child() };
    // SAFETY: the child's only thread, before anything else.
    unsafe { Visit::forget_all() };
    nap::in_child();
    owner::forget_lwps();
}

impl Scheduler {
    /// Returns another share of a scheduler. It is in an `Arc`, as all are.
    pub(super) fn share(&'static self) -> Arc<Self> {
        // SAFETY: every scheduler is made by `Arc::new` in `start`, and callers have a share.
        unsafe { Arc::increment_strong_count(self) };
        // SAFETY: the share that was just counted.
        unsafe { Arc::from_raw(self) }
    }

    /// Makes the runtime end with its last thread.
    pub(super) fn close(&self) {
        self.life.close();
        // The fence of `wake` orders the close with the monitor's last look before it sleeps deeply.
        self.watch.wake();
    }

    /// Ends the runtime for its owner: waits for its threads, unless the caller is one of them.
    pub(super) fn end(self: &Arc<Self>) {
        if !self.life.is_here() {
            // A fork: the LWPs are the parent's, and nothing here will ever end them.
            std::mem::forget(Arc::clone(self));
            return;
        }
        registry::ends(&**self);
        self.close();
        if self.is_own() {
            // The kernel threads go on detached, and the last of them frees the scheduler.
            self.kernel_threads.detach_all();
            return;
        }
        wait_state::until_all_end(self.home(), || blocking(|| self.kernel_threads.join_all()));
        self.reaper.close();
    }

    /// Starts all that runs from the beginning, on the CPUs that were set. A kernel thread that has them does
    /// it, because new ones inherit them. So do those that the reserve's thread makes later.
    fn start_on_its_cpus(&'static self) -> io::Result<()> {
        let Some(cpus) = &self.settings.cpus else { return self.start() };
        let (ready, starting) = Starting::of(None);
        let options = Options { name: "selvedge-start", stack_size: Some(KERNEL_STACK), block_signals: true };
        let start = move || ready.tell(affinity::pin(cpus).and_then(|()| self.start()));
        KernelThread::start(&options, start)?.join();
        starting.wait()
    }

    /// Starts all that runs from the beginning, and waits until it does.
    fn start(&'static self) -> io::Result<()> {
        self.set_on_one_cpu(affinity::is_single());
        let lwps = (self.settings.concurrency + pool::RESERVE).min(self.settings.max_lwps);
        let mut starting = Vec::with_capacity(lwps + 2);
        for index in 0..lwps {
            starting.push(self.add_lwp(index < self.settings.concurrency)?);
        }
        starting.push(self.start_helper(Helper::Monitor, Self::monitor)?);
        starting.push(self.start_helper(Helper::Reserve, Self::keep_reserve)?);
        starting.into_iter().try_for_each(|starting| starting.wait())
    }

    /// Starts an LWP, with a slot that no LWP has had yet, or as a spare. There is room for it. Called by the
    /// builder; once the runtime runs, only by the thread that keeps the reserve.
    pub(super) fn add_lwp(&'static self, with_slot: bool) -> io::Result<Starting> {
        let lwp = self.pool.enlist(|index| {
            let tick = owner::Tick::take().ok_or_else(|| {
                io::Error::other("there are too many LWPs in this process, over all its runtimes")
            })?;
            Ok(Lwp::new(index, tick, policy::MIN_AGE))
        })?;
        if with_slot {
            self.pool.give(lwp, InHand::first_of_its_life());
        } else {
            lwp.life.show_awaited(true);
        }
        let name = format!("selvedge-{}", lwp.index);
        self.start_crew(&name, Some(lwp), move |share, ready| share.forever().lwp_main(lwp, ready))
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
        // Without an alternate stack, a thread that overflows its stack would end the process without a
        // message, and no thread could be preempted.
        let _alt_stack = match AltStack::install() {
            Ok(alt_stack) => alt_stack,
            Err(error) => {
                self.give_up(lwp);
                return ready.tell(Err(error));
            }
        };
        lwp.context.adopt();
        self.adopt_first_mask(lwp);
        lwp.request.forget_signals();
        lwp.life.show_tid(kthread::gettid().cast_unsigned());
        ready.tell(Ok(()));
        lwp::set_dispatches(Some(lwp));
        lwp.show_cpu(cpu::word());
        self.join_trace(lwp);
        self.dispatch(lwp);
        self.leave_trace(lwp);
        lwp.show_cpu(None);
        lwp::set_dispatches(None);
        lwp.stacks.drain();
        lwp.greens.flush();
        // When the runtime stops, it may still be among the spares. If it is not, it may have been given a
        // slot.
        let _ = self.pool.leave_spares(lwp);
        self.give_up(lwp);
        // The threads may have left more than the next runtime will want, and the reserve's thread is gone.
        while self.life.is_stopping() && stack::trim() {}
    }

    /// Makes a new LWP, which blocks all signals, block what others block.
    fn adopt_first_mask(&self, lwp: &Lwp) {
        lwp.mask.begin();
        if HAS_MASKS && lwp.mask.adopt_idle() {
            return;
        }
        // The same mask as on the thread that built the runtime: kernel threads that it starts inherit that.
        self.kernel_threads.signal_mask.adopt();
        if let Some(signal) = self.settings.preemption_signal.filter(|_| self.signals) {
            // The thread that built the runtime may have it blocked.
            sys::preempt::unblock(signal);
        }
        let mask = sys::preempt::baseline_mask();
        lwp.mask.note(mask);
        self.kernel_threads.show_usual_mask(mask);
    }

    /// Starts the monitor, or the thread that keeps the reserve.
    ///
    /// The monitor has a table of descriptors of its own, so it could not close those of the runtime. It is
    /// not the last to leave: the reserve's thread waits for that.
    fn start_helper(&'static self, helper: Helper, life: fn(&'static Self)) -> io::Result<Starting> {
        self.start_crew(helper.name(), None, move |share, ready| {
            let kernel_threads = &share.forever().kernel_threads;
            kernel_threads.show_helper(helper, kthread::gettid().cast_unsigned());
            ready.tell(Ok(()));
            life(share.forever());
            match helper {
                Helper::Monitor => {
                    drop(share);
                    kernel_threads.leave(helper);
                }
                Helper::Reserve => {
                    kernel_threads.await_left(Helper::Monitor);
                    // The monitor has told all LWPs to end, and cannot ring. One may sleep in the set.
                    share.ring();
                }
            }
        })
    }

    /// Starts a kernel thread of the runtime: an LWP's, or a helper's. Its `life` owns a share of the
    /// scheduler.
    fn start_crew(
        &'static self,
        name: &str,
        lwp: Option<&'static Lwp>,
        life: impl FnOnce(Arc<Self>, Ready) + Send + 'static,
    ) -> io::Result<Starting> {
        // A spare is not worth the last memory of threads that run.
        sys::mmap::check_headroom(KERNEL_STACK + sigstack::MAPPED)?;
        let share = self.share();
        let (ready, starting) = Starting::of(lwp);
        // The program's signals are for its own threads and for LWPs. The helpers have no alternate stack.
        let options = Options { name, stack_size: Some(KERNEL_STACK), block_signals: true };
        let badge = Badge::new(name);
        let theirs = badge.clone();
        let member = KernelThread::start(&options, move || {
            let _member = PoolThread::enter();
            theirs.tell(kthread::gettid().cast_unsigned());
            drop(theirs);
            life(share, ready);
        })?;
        self.kernel_threads.add(member, lwp, badge);
        Ok(starting)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::mxn::Builder;
    use crate::runtime::Runtime;
    use crate::sys::child_tests as child;

    /// A process that goes on in a child again and again once ran out of numbers of LWPs.
    #[test]
    fn a_child_has_room_for_lwps_whatever_its_parent_had() {
        child::isolated(
            concat!(module_path!(), "::a_child_has_room_for_lwps_whatever_its_parent_had"),
            || {
                let build = || Builder::default().concurrency(1).build();
                let _rt = build().unwrap();
                while owner::Tick::take().map(std::mem::forget).is_some() {}
                assert!(build().is_err());
                child::forked(|| assert_eq!(build().unwrap().run(|| 7), 7));
            },
        );
    }
}
