//! Signals for one green thread (`pthread_kill`), from the sender to the handler.
//!
//! **Problem.** A handler is to run in that thread, wherever it is: on an LWP, in a queue, in its wait. The
//! kernel knows LWPs alone, and the thread may leave one before a signal comes there.
//!
//! **Rejected.** *To send the signal to the LWP*: the handler could run in another thread. *To call the
//! handler from this crate*: the kernel knows best what a signal does, and which alternate stack and mask it
//! needs. *To let each switch look for signals*: all threads would pay.
//!
//! **Shape.** A signal waits in its thread's [`Pending`](crate::park::pending), with what is known of it in
//! `values`. The thread sends it to the kernel thread on which it stands, when that does not block it. So the
//! kernel calls the handler there, before another instruction of the thread. That is done
//!
//! - by the handler of the preemption signal, which finds the thread where it computes or is in a call
//!   ([`send_at`]);
//! - by the thread itself, when a wait has ended for that ([`wait`](super::wait)), at the end of a call that
//!   is a cancellation point, and where it changes its mask ([`send_unblocked`]).
//!
//! A helper sees to both, and tries again until the signal is taken (`pthreads/kill.rs`). It tells a thread
//! of nothing that this blocks (`park/pending.rs`).
//!
//! **Calls that block the LWP.** The preemption signal was installed with `SA_RESTART`: it finds the thread
//! where the call begins again. If a handler is about to run that lacks that flag, the signal's handler ends
//! the call itself (`EINTR`). Nothing there tells a call that was left from one that is about to begin, and
//! some that wait for nothing never return that. So the helper asks the kernel first if the thread sleeps,
//! and in which call. Rejected: a second signal without that flag. It would end a call of another thread, if
//! that runs on the LWP by then. And a process has few signals.
//!
//! **Handlers of signals** stay on their LWP. So what comes meanwhile is sent to the kernel at once, which
//! keeps it while the handler blocks it.
//!
//! **Not here**: this crate's own critical sections. The handler of the preemption signal leaves them alone.

use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering;

use libc::{siginfo_t, sigset_t};

use super::values::{self, Place, Sent};
use super::{Cancel, DISTURBED, POKED, SURVIVES, is_used, own, own_in_handler, points};
use crate::park::thread::ThreadRef;
use crate::sys::kthread::SignalMask;
use crate::sys::next;
use crate::sys::preempt::{self, Interrupted};
use crate::sys::task_state::{self, Tasks};

/// How the handlers of signals that have run meanwhile end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Any does (`nanosleep`, `poll`).
    Always,
    /// One does that was installed without `SA_RESTART`.
    AsAsked,
    /// None does.
    Never,
    /// The wait ends for less, and the caller waits again if it must.
    ForNothing,
}

/// What handlers run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ran {
    any: bool,
    /// One that was installed without `SA_RESTART`.
    pub(super) ending: bool,
}

impl Ran {
    /// Adds the handler of a signal, if there is one.
    fn add(&mut self, signal: c_int) {
        // SAFETY: plain data, for which zero is valid.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: a query into a valid place.
        unsafe { next::sigaction(signal, ptr::null(), &raw mut action) };
        if !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
            self.any = true;
            self.ending |= action.sa_flags & libc::SA_RESTART == 0;
        }
    }

    /// Returns what would run if these signals came.
    pub(super) fn of(signals: u64) -> Self {
        let mut ran = Self::default();
        (1..=64).filter(|&signal| signals & bit(signal) != 0).for_each(|signal| ran.add(signal));
        ran
    }
}

/// The first signal that waits as often as it is sent.
const FIRST_QUEUED: c_int = 32;
/// How often a thread is left alone that is in this crate's code.
pub(super) const PATIENCE: u32 = 4;
/// How many signals are sent at a time: all that may wait. Of more, some have come meanwhile, and the helper
/// looks at the thread once more.
pub(super) const MOST: usize = values::PLACES + 64;

/// Returns the signal's bit.
fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Returns a bit for each signal of a set, the lowest for signal 1.
fn bits(set: &sigset_t) -> u64 {
    // SAFETY: the C library's type begins with the kernel's eight bytes.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}

impl Cancel {
    fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Adds a signal for the thread, perhaps with a value. Async-signal-safe.
    ///
    /// # Errors
    /// `EAGAIN` if too many wait.
    pub(crate) fn add_signal(&self, signal: c_int, value: Option<usize>) -> Result<(), c_int> {
        let is_queued = signal >= FIRST_QUEUED;
        if !is_queued && self.pending.has(bit(signal)) {
            // The thread takes it later than this.
            return Ok(());
        }
        if is_queued || value.is_some() {
            let is_kept = values::keep(self.number(), Sent { signal, value });
            if !is_kept && is_queued {
                return Err(libc::EAGAIN);
            }
        }
        self.pending.add(bit(signal));
        Ok(())
    }

    /// Gives one of these signals to `to`, and takes it if that returns `true`. Otherwise it keeps its turn.
    /// Returns what `to` does; `None`: none waits. Called by the thread, which has this; for a kernel thread,
    /// by one thread at a time.
    pub(super) fn give_signal(&self, of: u64, to: impl FnOnce(Sent) -> bool) -> Option<bool> {
        loop {
            let signals = self.pending.get() & of;
            if signals == 0 {
                return None;
            }
            let signal = signals.trailing_zeros().cast_signed() + 1;
            let is_queued = signal >= FIRST_QUEUED;
            let first = || values::first(self.number(), signal);
            // As long as it waits, no sender keeps another of its number. What comes later has its own value.
            let only = if is_queued { None } else { values::only(self.number(), signal) };
            self.pending.take(bit(signal));
            let kept = if is_queued { first() } else { only };
            if kept.is_none() && is_queued {
                continue;
            }
            let is_taken = to(kept.map_or(Sent { signal, value: None }, Place::sent));
            if let Some(kept) = kept.filter(|_| is_taken) {
                kept.free();
            }
            if !is_taken || is_queued && first().is_some() {
                self.pending.add(bit(signal));
            }
            return Some(is_taken);
        }
    }

    /// Returns `true` if the kernel knows the thread, and keeps its signals.
    pub(crate) fn is_kernels(&self) -> bool {
        self.is_kernel || self.has(SURVIVES)
    }

    /// Returns `true` if it is a kernel thread's.
    pub(crate) fn is_of_kernel(&self) -> bool {
        self.is_kernel
    }

    /// Returns the thread's signals.
    pub(crate) fn signals(&self) -> u64 {
        self.pending.get()
    }

    /// Tells the thread of its signals, if it wants one, or that it is to end: ends its wait, or interrupts
    /// it where it is. Returns `false` if there was no need.
    pub(crate) fn tell(&self, thread: ThreadRef, tasks: &Tasks) -> bool {
        let backend = thread.backend();
        let is_wanted = self.pending.is_wanted(|| backend.mask_of(&thread).unwrap_or(0));
        if is_wanted {
            if Ran::of(self.signals()).ending
                && let Some(call) =
                    backend.runs_on(&thread).and_then(|tid| tasks.in_kernel(tid.cast_signed()))
            {
                // Not if it is in none: it may be about to look, in the handler.
                // Relaxed, both: `POKED` orders them.
                self.call.sp.store(call.sp, Ordering::Relaxed);
                self.call.pc.store(call.pc, Ordering::Relaxed);
            }
            // Release: pairs with `run_handlers`.
            self.word.fetch_or(POKED, Ordering::Release);
            // Relaxed: the lock that is held meanwhile orders it.
            thread.end_sleep(|| self.nudged.store(true, Ordering::Relaxed));
        }
        let is_told = is_wanted || self.is_asked();
        if is_told {
            backend.interrupt_running(&thread);
        }
        is_told
    }

    /// Forgets the thread's signals.
    pub(crate) fn forget_signals(&self) {
        if self.pending.get() != 0 {
            self.pending.forget();
            values::forget(Some(self.number()));
        }
    }

    /// Sends these signals to the kernel thread on which the running thread stands, which has this. Returns
    /// what is going to run.
    pub(super) fn send_here(&self, of: u64) -> Ran {
        let mut ran = Ran::default();
        let mut send = |sent: Sent| {
            let is_sent = sent.send_here();
            if is_sent {
                ran.add(sent.signal);
            }
            is_sent
        };
        let given = (0..MOST).map_while(|_| self.give_signal(of, &mut send)).find(|&given| !given);
        if given.is_some() {
            // The kernel has no memory for it. The helper comes again, or the thread at its next call.
            self.change(POKED, true);
        }
        ran
    }

    /// Runs the handlers of the signals that wait for the running thread, which has this, and that it does
    /// not block.
    #[cold]
    fn run_handlers(&self) -> Ran {
        if self.is_kernel {
            self.send_all_here();
            return Ran::default();
        }
        // Acquire: pairs with `tell`.
        self.word.fetch_and(!POKED, Ordering::Acquire);
        // All come at once, in the end. And the thread does not leave its LWP meanwhile.
        let before = SignalMask::of_caller();
        SignalMask::asynchronous().adopt();
        let ran = self.send_here(!before.bits());
        before.adopt();
        ran
    }

    /// Returns `true` if the wait of the running thread, which has this, has ended for a signal and is to
    /// end. `None`: it has ended for something else. The handlers that end a call run after that, since they
    /// may jump: a call may have memory and descriptors until then.
    pub(super) fn ends_wait(&self, ends: Ends) -> Option<bool> {
        // Relaxed: see `tell`.
        if !self.nudged.load(Ordering::Relaxed) {
            return None;
        }
        let is_ended_by = |ran: Ran| match ends {
            Ends::Always => ran.any,
            Ends::AsAsked => ran.ending,
            Ends::Never | Ends::ForNothing => false,
        };
        if is_ended_by(Ran::of(self.signals() & !SignalMask::of_caller().bits())) {
            // In any case: one may just have come.
            self.change(POKED, true);
            return Some(true);
        }
        let ran = self.run_handlers();
        Some(is_ended_by(ran) || ends == Ends::ForNothing)
    }

    /// Notes that no signal has ended a wait yet. Called before each.
    pub(super) fn forget_nudge(&self) {
        // Relaxed: see `tell`. It is set only while the thread is in a wait that it listens in.
        self.nudged.store(false, Ordering::Relaxed);
    }
}

/// Sends a signal to the running thread, which does not block it, perhaps with a value.
///
/// # Errors
/// `EAGAIN` if the kernel has no memory for it.
pub(crate) fn send_signal_here(signal: c_int, value: Option<usize>) -> Result<(), c_int> {
    // The thread does not leave its LWP meanwhile.
    let before = SignalMask::of_caller();
    SignalMask::asynchronous().adopt();
    let is_sent = Sent { signal, value }.send_here();
    before.adopt();
    if is_sent { Ok(()) } else { Err(libc::EAGAIN) }
}

/// Runs the handlers of the signals that wait for the running thread, if it has been told of any.
#[inline]
pub(crate) fn run_handlers() {
    if let Some(own) = own()
        && own.has(POKED)
    {
        own.run_handlers();
    }
}

/// Does so after a wait has [ended](Ends::Always) in a call that begins again. Returns `true` if that is to
/// return: a handler was installed without `SA_RESTART`, or another thread has asked for the end.
pub(crate) fn ends_call() -> bool {
    points::is_cut() || own().is_none_or(|own| own.run_handlers().ending)
}

/// Runs the handlers of the signals that have come for the running thread before it began.
pub(crate) fn begin_signals() {
    if let Some(own) = own()
        && own.signals() != 0
    {
        own.run_handlers();
    }
}

/// Sends the running thread's signals to the kernel thread on which it stands, but for those that it is about
/// to block. It blocks all until then, and has said what it is about to block. Returns `true` if the kernel
/// has memory for some, and others are left.
pub(crate) fn send_unblocked(blocked: u64) -> bool {
    let Some(own) = own().filter(|own| !own.is_kernel) else { return false };
    own.pending.after_mask();
    let is_any = || own.signals() & !blocked != 0;
    is_any() && own.send_here(!blocked).any && is_any()
}

/// Returns `true` if signals may wait for the running thread alone.
pub(crate) fn has_signals() -> bool {
    is_used() && own().is_some_and(|own| !own.is_kernel)
}

/// Returns the signals that wait for the running thread alone, if it is green.
pub(crate) fn own_signals() -> u64 {
    own().map_or(0, Cancel::signals)
}

/// Returns `true` if the preemption signal may have been sent to tell something to the thread that its
/// handler has interrupted. Where the kernel had no memory for the mark, that thread alone can say so.
pub(crate) fn is_told() -> bool {
    own_in_handler().is_some_and(|own| own.has(POKED) || own.is_due())
}

/// Sends its signals to the thread that the handler of the preemption signal has interrupted. The kernel
/// calls their handlers when this handler returns. Returns `true` if there were any. A thread in this crate's
/// code may have its locks. It is left alone, for a while: it may also wait there for a thread whose handler
/// waits for its own.
pub(crate) fn send_at(at: &mut Interrupted<'_>) -> bool {
    let Some(own) = own_in_handler() else { return false };
    if own.is_kernel {
        return own.send_at_kernel(at);
    }
    // What this crate calls is in the library, but for system calls.
    let is_own = at.in_own_library() || own.is_within() && at.in_library() && !at.is_by_call();
    let blocked = at.mask().bits();
    if blocked & preempt::signal_bit() != 0 {
        // It is let through in `suspended` alone. It has ended that, and no handler has.
        own.change(DISTURBED, true);
    }
    if !own.has(POKED) {
        return false;
    }
    let Some(running) = own.running.get() else { return false };
    // SAFETY: the thread that the handler has interrupted.
    if !unsafe { running.count.is_zero() } {
        return false;
    }
    if is_own && own.left_alone.fetch_add(1, Ordering::Relaxed) < PATIENCE {
        return false;
    }
    // Relaxed, both: handlers on the thread itself.
    own.left_alone.store(0, Ordering::Relaxed);
    let usual = running.thread.backend().mask_of(&running.thread).unwrap_or(blocked);
    // In a handler, more is blocked. The thread stays on this LWP until that returns.
    let is_in_handler = blocked & !usual != 0;
    let held = if is_in_handler { usual & blocked } else { blocked };
    // Acquire: pairs with `tell`.
    own.word.fetch_and(!POKED, Ordering::Acquire);
    let before = own.signals();
    let ran = own.send_here(!held);
    // Relaxed: see `tell`.
    let [sp, pc] = [&own.call.sp, &own.call.pc].map(|place| place.swap(0, Ordering::Relaxed));
    if ran.ending {
        at.end_call(sp, pc);
    }
    before & !held != 0
}

/// Waits for one of the signals of `set`, by `call`, which asks the kernel for them: of the running thread's
/// own, it takes one itself. `call` returns -1 and sets `errno` if there was none. Returns what `call` does.
pub(crate) fn wait_for(set: &sigset_t, info: *mut siginfo_t, mut call: impl FnMut() -> c_int) -> c_int {
    let Some(own) = own() else { return call() };
    if own.is_kernel {
        return own.undisturbed(call);
    }
    own.pending.await_these(bits(set));
    let result = loop {
        let mut found = 0;
        let take = |sent: Sent| {
            found = sent.signal;
            if !info.is_null() {
                // SAFETY: the caller's place.
                unsafe { info.write(preempt::info(sent.signal, sent.value)) };
            }
            true
        };
        if own.give_signal(bits(set), take).is_some() {
            break found;
        }
        let result = call();
        let is_told = || result < 0 && next::errno() == libc::EINTR && own.signals() & bits(set) != 0;
        if !is_told() {
            break result;
        }
    };
    own.pending.await_these(0);
    result
}

/// Suspends the running thread by `suspend`, with other signals blocked than usually, until a handler has
/// run. `mask` is what is blocked meanwhile. `suspend` returns when it has run, or for the preemption signal,
/// or for another reason. What was not handled then waits for the thread again.
pub(crate) fn suspended(mask: u64, mut suspend: impl FnMut() -> c_int) -> c_int {
    let Some(own) = own().filter(|own| !own.is_kernel) else { return suspend() };
    let before = SignalMask::of_caller();
    SignalMask::asynchronous().adopt();
    own.pending.await_these(!mask);
    let mut sent = 0;
    let result = loop {
        sent |= own.signals() & !mask;
        own.send_here(!mask);
        own.change(DISTURBED, false);
        let result = suspend();
        if !own.has(DISTURBED) {
            break result;
        }
    };
    own.pending.await_these(0);
    take_kernels(sent & before.bits(), |info| {
        // SAFETY: signals with that code have the field.
        let value = (info.si_code == libc::SI_QUEUE).then(|| unsafe { info.si_value() });
        let _ = own.add_signal(info.si_signo, value.map(|value| value.sival_ptr.expose_provenance()));
    });
    before.adopt();
    result
}

/// Takes the signals of a set that wait for the calling kernel thread alone, which blocks them. (The kernel
/// takes a thread's own before the process's.) Async-signal-safe if `take` is.
pub(crate) fn take_kernels(of: u64, mut take: impl FnMut(&siginfo_t)) {
    // SAFETY: plain data.
    let mut set: sigset_t = unsafe { mem::zeroed() };
    // SAFETY: plain data.
    let mut info: siginfo_t = unsafe { mem::zeroed() };
    // SAFETY: a place for a set.
    unsafe { next::sigpending(&raw mut set) };
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    while bits(&set) & of != 0 {
        let own = task_state::own_signals().unwrap_or(0) & of;
        // SAFETY: a set begins with the kernel's eight bytes.
        unsafe { (&raw mut set).cast::<u64>().write(own & own.wrapping_neg()) };
        // SAFETY: a set, a place and a time.
        if own == 0 || unsafe { next::sigtimedwait(&raw const set, &raw mut info, &raw const now) } < 0 {
            return;
        }
        take(&info);
    }
}

/// Forgets what the parent knows of signals for its threads, in the child of a fork.
pub(crate) fn in_child() {
    if let Some(own) = own() {
        own.pending.forget();
        own.change(SURVIVES, true);
        own.kernel_in_child();
    }
    values::forget(None);
}
