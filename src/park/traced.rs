//! The hooks of the trace: what is counted and recorded of a thread when it waits, is woken, and runs.
//!
//! They run only while the trace is on (`observed.rs`). None of them allocates, waits, or takes a lock,
//! because they run in the middle of a sleep, or of a wake-up. What they need is made before: a core gets its
//! account when it begins a life while the trace is on, or from [`open_kernel_threads`] when that is switched
//! on.

use super::core_pool::{self, KernelThread};
use super::current;
use super::no_preempt::{self, NoPreempt};
use super::observed;
use super::reason::WaitReason;
use super::thread::ThreadRef;
use crate::recorder::account::{ITS_OWN, State};
use crate::recorder::event::{Event, Kind};
use crate::recorder::follow::follow;
use crate::recorder::{clock, known, rings, session};

/// Returns the state of a thread that waits for this reason.
pub(crate) fn state_of(reason: WaitReason) -> State {
    if reason == WaitReason::Sleep { State::Sleeping } else { State::Blocked }
}

/// Gives all kernel threads that Selvedge has met accounts, if the trace is on. May allocate.
pub(crate) fn open_kernel_threads() {
    follow(observed::is_traced, |traced| {
        if traced {
            core_pool::all().for_each(open);
        }
    });
}

/// Gives a kernel thread a ring and an account. May allocate.
fn open(kernel: &'static KernelThread) {
    if kernel.thread().account.get().is_none() {
        // It waits less often than all threads of an LWP together, and there may be many more of its kind.
        let listed = kernel.ring.open(0, rings::NO_LWP, rings::events() / 32);
        kernel.thread().account.fill(listed.account());
    }
}

/// Notes that a kernel thread is about to be started. May allocate.
#[cold]
pub(super) fn kernel_thread_spawned(thread: ThreadRef) {
    open(KernelThread::of(thread));
    // A green thread that starts it must not lose its LWP while it writes into the ring of that.
    let _no_preempt = NoPreempt::hold();
    spawned(thread);
}

/// Prepares the running thread to start others. A kernel thread that Selvedge has not met has no ring for
/// that. May allocate.
#[cold]
pub(crate) fn about_to_spawn() {
    let _ = current::current();
}

/// Notes a new thread, which is runnable. Called by the thread that starts it.
pub(crate) fn spawned(thread: ThreadRef) {
    let now = clock::now();
    if let Some(account) = thread.account.get() {
        account.spawned(session::current(), now, current::try_current().map_or(0, |me| me.id().get()));
    }
    record(thread, |by| {
        let event = Event::new(now, Kind::Spawn, thread.id().get()).with(by, thread.priority.number());
        event.numbered(thread.backend().runtime())
    });
    if is_recorded(thread)
        && let Some(name) = thread.name()
    {
        record_name(now, thread, name);
    }
}

/// Records the first bytes of a thread's name.
fn record_name(now: u64, thread: ThreadRef, name: &str) {
    for (part, bytes) in name.as_bytes().chunks(12).take(4).enumerate() {
        let mut room = [0; 12];
        room[..bytes.len()].copy_from_slice(bytes);
        let (object, number) = room.split_at(8);
        let object = u64::from_le_bytes(object.try_into().expect("eight bytes"));
        let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
        let event = Event::new(now, Kind::Name, thread.id().get());
        record(thread, |_| event.with(object, part as u8).numbered(number));
    }
    // The event is soon overwritten.
    known::named(thread.id().get(), name);
}

/// Notes that the running kernel thread is about to sleep in the kernel.
#[cold]
pub(super) fn blocks(me: ThreadRef) {
    let now = clock::now();
    let (reason, at) = me.awaits().unwrap_or((WaitReason::Park, 0));
    if let Some(account) = me.account.get() {
        account.stops(session::current(), now, state_of(reason), false);
    }
    record(me, |id| block_event(now, id, reason, at));
}

/// Returns the event of a thread that waits.
pub(crate) fn block_event(now: u64, id: u64, reason: WaitReason, at: usize) -> Event {
    Event::new(now, Kind::Block, id).with(reason.known_address(at).unwrap_or(0) as u64, reason as u8)
}

/// Notes that the running kernel thread runs: for the first time, or again.
#[cold]
pub(crate) fn runs(me: ThreadRef) {
    let (now, cpu) = (clock::now(), current::cpu());
    let session = session::current();
    if let Some(account) = me.account.get()
        && let Some(waited) = account.runs(session, now, ITS_OWN, cpu)
        && let Some(waits) = me.spawner().and_then(|it| it.waits_for_cpu())
    {
        waits.add_shared(session, clock::nanos(waited));
    }
    record(me, |id| Event::new(now, Kind::Dispatch, id).on_cpu(cpu));
}

/// Notes that the running kernel thread ends, as a thread of Selvedge.
#[cold]
pub(crate) fn ends(me: ThreadRef) {
    record(me, |id| Event::new(clock::now(), Kind::Exit, id));
    forget_name(me);
    debug_assert!(current::try_current() == Some(me));
}

/// Lets the name of a thread that ends be forgotten, if there is no room for others.
pub(crate) fn forget_name(thread: ThreadRef) {
    if thread.name().is_some() && is_recorded(thread) {
        known::ends(thread.id().get());
    }
}

/// Notes that a thread was woken. `chosen`: an LWP was chosen for it. Called by the thread that won its
/// sleep, before others can run it.
#[cold]
pub(crate) fn readied(target: ThreadRef, chosen: bool) {
    let now = clock::now();
    if let Some(account) = target.account.get() {
        account.readied(now, chosen);
    }
    record(target, |by| {
        let event = Event::new(now, Kind::Ready, target.id().get()).with(by, u8::from(chosen));
        // A kernel thread may have gone on by now, and ended. What does not change in a life may change then.
        event.numbered(if target.is_kernel() { 0 } else { target.backend().runtime() })
    });
}

/// Returns `true` if events of this thread are recorded.
pub(crate) fn is_recorded(thread: ThreadRef) -> bool {
    observed::are_events_recorded() && session::samples(thread.id().get())
}

/// Records an event of `thread` that the running thread causes, if events of it are recorded, and the running
/// thread has a ring. `event` gets the identity of the running thread.
fn record(thread: ThreadRef, event: impl FnOnce(u64) -> Event) {
    if !is_recorded(thread) {
        return;
    }
    if let Some(me) = current::try_current()
        && let Some(ring) = me.backend().ring(&me)
    {
        debug_assert!(me.is_kernel() || !no_preempt::is_allowed(), "each ring has one writer");
        ring.push(event(me.id().get()));
    }
}
