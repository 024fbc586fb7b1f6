//! Preemption: taking an LWP from a thread that does not give it up.
//!
//! **The problem.** A thread that computes for long keeps its LWP, and a thread that waits for that LWP waits
//! forever. (Cantrill, section 5.2: five threads on four LWPs took twice as long.)
//!
//! **Rejected.**
//!
//! - To count at function entries or loops. Code outside this crate does not count.
//! - To switch away inside of the signal handler. The kernel restores a signal frame's vector registers by
//!   what the *resuming* kernel thread has used. So a frame that is left on another loses them. And a red
//!   zone that is too small for a frame is written past.
//!
//! **Protocol.**
//!
//! 1. If a slice is over while other threads wait (`monitor::policy`), the monitor asks by the LWP's
//!    [`PreemptRequest`], and sends the signal. The signal goes only to an LWP that the kernel says is
//!    running. So it interrupts no system call that could tell (but see below).
//! 2. The handler runs on the LWP's alternate stack, and checks that. It preempts the thread if
//!    - the request is for this dispatch;
//!    - the thread's no-preempt count is zero;
//!    - the signal mask is the LWP's own, so no handler of the program is under way; and
//!    - the stack has room.
//!
//!    Then it raises the count. It makes the interrupted code continue in a function of this crate, as if
//!    that code had called it (`arch::inject`). It returns on the same kernel thread (I10).
//! 3. That function saves all registers on the green stack. It gives the LWP up like any thread that yields.
//!    But the thread goes into a queue of its own, behind all that yielded or woke.
//!
//! **Signals are blocked during the call.** A handler of the program may leave by `siglongjmp`. If it left
//! the call in this way, the thread would be queued and run at the same time. So the signal's handler writes
//! a full mask into the signal frame. The call always leaves for the dispatcher, which restores the LWP's
//! mask. The thread is marked (`fiber/on_cpu.rs`): only a dispatcher continues it, with all signals blocked
//! again. At its end, the call restores the mask of the LWP on which it runs then. From there on, nothing is
//! lost if the call is abandoned.
//!
//! **Locks of libraries.** The C library, the loader and the allocator have locks that every thread wants,
//! also the one that makes LWPs. If the signal finds a thread there, the handler puts the preemption off and
//! wakes the monitor. The thread is asked again a few times soon.
//!
//! **Locks of preempted threads.** A thread that has lost its slice may hold another lock. All LWPs that
//! there may be can then sleep behind that lock. If there has been no spare for a millisecond, threads that
//! sleep in certain system calls are asked to leave, too. These are calls that begin again by themselves, and
//! the thread goes on with its call when its turn comes. All take turns, until the thread comes that can go
//! on.
//!
//! **Requests to end.** The same signal ends a thread where it is, if another thread has asked for that, and
//! the thread allows it there (`interpose/cancel.rs`). The handler makes it call a function that unwinds.
//! That is also so in a library that is loaded before the program, where no thread is preempted.
//!
//! **Signals for one thread.** It also makes a thread take the signals that others have sent to it
//! (`interpose/cancel/signals.rs`).
//!
//! **Hand-off.** A thread may refuse twice in a row, or signals may not be available (`Pinned`, forbidden,
//! valgrind). Then its LWP's slot goes to a spare. The thread goes on as a kernel thread among others, until
//! it next calls the runtime.
//!
//! [`PreemptRequest`]: super::lwp::preempt_request::PreemptRequest

use std::io;
use std::ops::{Range, RangeInclusive};

use super::backtrace;
use super::green::Green;
use super::lwp::preempt_request::Manner;
use super::lwp::{self, First, Lwp};
use super::sched::Scheduler;
use crate::arch::{Injected, inject, tp, valgrind};
use crate::fiber::ThreadRegister;
use crate::interpose::cancel;
use crate::park::current;
use crate::park::no_preempt::{self, NoPreempt};
use crate::sys::kthread;
use crate::sys::preempt::{self, Interrupted};

/// Makes it possible to preempt green threads by `signal`. Returns `false` if it is not, on this machine or
/// this rung. If threads may be asked to end, the signal may be installed for that alone.
///
/// # Errors
///
/// If there is no such signal, or the kernel refuses it.
pub(super) fn prepare(rung: ThreadRegister, signal: Option<i32>) -> io::Result<bool> {
    let Some(signal) = signal else { return Ok(false) };
    preempt::check(signal)?;
    let possible = rung.is_per_thread() && preempt::SUPPORTED && !valgrind::is_running();
    let is_static = possible && preempt::own_thread_locals_are_static();
    if !possible || !is_static && !cancel::is_used() {
        return Ok(false);
    }
    // The first time takes long, so it is done before a handler has to.
    let _ = inject::room(0);
    preempt::install(signal, if is_static { decide } else { end })?;
    Ok(is_static)
}

/// Handles the signal where no thread is preempted by it: see [`ends`].
fn end(at: &mut Interrupted<'_>) {
    if at.is_marked() || cancel::is_told() {
        at.claim();
        let _ = cancel::send_at(at);
        ends(at);
    }
}

/// If the interrupted thread is to end, and may be ended there, makes it do so, and returns `true`. It uses
/// no thread-local by its name.
fn ends(at: &mut Interrupted<'_>) -> bool {
    // What this crate calls is in the library, but for system calls of the program's own.
    let is_own = || at.in_own_library() || at.in_library() && !at.is_by_call();
    let Some((me, is_in_call)) = cancel::due_at(|| at.in_library(), is_own) else { return false };
    // SAFETY: such threads are green.
    let green = unsafe { Green::of(me) };
    let takes_call = match stack_of(green, at, UNWINDING) {
        Some((stack, enough)) if is_in_call => at.takes_call_under_any_mask(&stack, enough),
        Some((stack, enough)) => {
            at.takes_call(green.lwp.get().and_then(|lwp| lwp.mask.get()), &stack, enough)
        }
        None => false,
    };
    if takes_call {
        inject_into::<End>(at);
    }
    true
}

/// The bytes of the stack that unwinding needs, besides those of an injected call.
const UNWINDING: usize = 8 << 10;

/// What a thread runs that is to end where it is, on its own stack, as if it had called it.
struct End;

impl Injected for End {
    extern "C-unwind" fn call() {
        if cancel::is_due_here() {
            if let Some(me) = current::try_current() {
                let _no_preempt = NoPreempt::hold();
                // SAFETY: such threads are green.
                unblock_signals(unsafe { Green::of(me) }.lwp());
            }
            cancel::test();
        }
    }
}

/// Handles the signal, on the interrupted kernel thread: preempts the green thread, or answers that it may
/// not be preempted.
fn decide(at: &mut Interrupted<'_>) {
    let green = match current::try_current() {
        // SAFETY: only green threads own no kernel thread.
        Some(me) if !me.is_kernel() => Some(unsafe { Green::of(me) }),
        _ => None,
    };
    if green.is_some_and(|green| backtrace::answer(green, at)) {
        // The signal may have been sent for both reasons: one of a number can be pending.
        at.claim();
    }
    let lwp = match green {
        Some(green) => green.lwp.get(),
        None => lwp::dispatches(),
    };
    let Some(lwp) = lwp else { return };
    if !at.is_marked() && lwp.life.tid() != kthread::gettid().cast_unsigned() {
        // This is a forked child, and the request was for its parent.
        return;
    }
    if lwp.request.note_signal() || cancel::is_told() {
        at.claim();
    } else if !at.is_marked() {
        return;
    }
    let asked = lwp.request.take();
    let has_signals = cancel::send_at(at);
    if ends(at) {
        return;
    }
    let Some(asked) = asked else { return };
    // Otherwise it has given the LWP up by itself meanwhile.
    let Some(green) = green.filter(|_| lwp.tick.get() == asked.tick) else { return };
    if has_signals || !may_preempt(green, lwp, at) {
        // Their handlers are about to run, on this kernel thread.
        lwp.request.refuse(asked.tick);
    } else if at.in_library() && !may_leave_library(asked.manner, at) {
        lwp.request.defer(asked.tick);
        Scheduler::of(green.thread()).watch.wake();
    } else {
        lwp.evicted.set(asked.manner == Manner::InCall);
        preempt(at);
    }
}

/// Makes the interrupted code of a thread that [may be preempted](may_preempt) run [`Preempted`].
fn preempt(at: &mut Interrupted<'_>) {
    // Lowered by `Preempted`.
    std::mem::forget(NoPreempt::hold());
    inject_into::<Preempted>(at);
    at.block_all();
}

/// Makes the interrupted code of a thread that [takes a call](Interrupted::takes_call) run `F`.
fn inject_into<F: Injected>(at: &mut Interrupted<'_>) {
    // SAFETY: the interrupted code is a green thread's, and can continue in the trampoline. Its stack has
    // room for the call. The signal frame and this handler are on the alternate stack.
    unsafe { at.redirect(inject::inject::<F>) };
}

/// Returns `true` if a thread that is found in a library may be preempted there. A thread that slept for a
/// lock and was woken meanwhile may have got that lock.
fn may_leave_library(manner: Manner, at: &Interrupted<'_>) -> bool {
    match manner {
        Manner::Polite => false,
        Manner::InCall => at.is_at_call(),
        Manner::Anywhere => true,
    }
}

fn may_preempt(green: &Green, lwp: &Lwp, at: &Interrupted<'_>) -> bool {
    no_preempt::is_allowed()
        && green.blocking.get() == 0
        && stack_of(green, at, 0).is_some_and(|(stack, enough)| at.takes_call(lwp.mask.get(), &stack, enough))
}

/// Returns where the stack of a thread is, and where the stack pointer leaves room for an injected call that
/// needs so much `more`.
fn stack_of(
    green: &Green,
    at: &Interrupted<'_>,
    more: usize,
) -> Option<(Range<usize>, RangeInclusive<usize>)> {
    let (stack, room) = (green.fiber.stack()?, inject::room(at.machine_state())?);
    let (limit, start, top) = (stack.limit().addr(), stack.start().addr(), stack.top().addr());
    // Not above the start: a coroutine's stack may lie in a thread-local, and its room is unknown.
    Some((limit..top, (limit + room + more)..=start))
}

/// What a preempted thread runs, on its own stack, as if it had called it.
struct Preempted;

impl Injected for Preempted {
    extern "C-unwind" fn call() {
        // The code below may set `errno`.
        let lwp = preempt::keep_errno(|| {
            let me = current::try_current().expect("only green threads are preempted");
            // SAFETY: only green threads are preempted.
            let me = unsafe { Green::of(me) };
            let scheduler = Scheduler::of(me.thread());
            // The machine's other thread register (x86-64: the base of GS), which programs may use. Only a
            // preempted thread keeps it. In a call to the runtime, the kernel thread may change, and a
            // program can know that.
            let fast = scheduler.rung == ThreadRegister::Switched;
            let other = tp::read_other(fast);
            scheduler.queue_for_lost_slice(me);
            scheduler.leave_preempted(me);
            tp::write_other(fast, other);
            me.lwp()
        });
        // The handler has raised it.
        no_preempt::lower();
        unblock_signals(lwp);
        cancel::test_anywhere();
    }
}

/// Makes the calling LWP block what `next` blocks, which it is about to run.
#[cold]
pub(super) fn take_mask(lwp: &Lwp, next: &Green) {
    if next.fiber.mounted.is_preempted() {
        // All signals are blocked, until the thread restores its mask.
        lwp.mask.note(next.mask());
    } else {
        lwp.mask.change(next.mask());
    }
}

/// Restores the signal mask of the calling LWP.
pub(super) fn unblock_signals(lwp: &Lwp) {
    if let Some(mask) = lwp.mask.get() {
        preempt::set_mask(mask);
    }
}

impl Scheduler {
    /// Gives the LWP up, because the slice of the thread `me` is over.
    pub(super) fn yield_preempted(&'static self, me: &'static Green) {
        self.queue_for_lost_slice(me);
        self.leave(me);
    }

    /// Queues the running thread `me`, because its slice is over. The caller leaves for the dispatcher next.
    pub(in crate::mxn) fn queue_for_lost_slice(&'static self, me: &'static Green) {
        let lwp = me.lwp();
        lwp.flags.look();
        lwp.counters.preempted.add_alone();
        let now = self.clock.now();
        self.shares.want(now);
        if lwp.evicted.replace(false) {
            // It slept, and that is no share of anything. A preempted thread may hold the lock that holds up
            // all, so the preempted threads take turns with the others.
            lwp.counted.set(now);
            let oldest = !lwp.oldest_was_first.get() && !self.levels.are_urgent();
            lwp.oldest_was_first.set(oldest);
            lwp.look_first.set(if oldest { First::Oldest } else { First::Injected });
        } else {
            lwp.look_first.set(First::Injected);
            self.count_share(lwp, now);
        }
        self.queue_preempted(me);
        // This LWP is about to look there, but a thread that has waited longer may be first.
        self.wake_searcher();
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod jumps_tests;
