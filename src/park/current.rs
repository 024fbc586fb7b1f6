//! The thread of control that is running.
//!
//! It is kept in one native thread-local. A green thread has its own block of them, so it reads its own. The
//! code that switches stacks stores it again on the resumed side. If a kernel thread that Selvedge has not
//! met has to wait, it is adopted. It gets a core, and gives it back when it ends.

use std::cell::Cell;
use std::ptr;

use super::core_pool;
use super::fork;
use super::observed;
use super::owner::OwnerHint;
use super::specific;
use super::thread::{ThreadCore, ThreadRef};
use super::traced;
use crate::shim::atomic::Ordering;
use crate::shim::{STRANGER, cpu, local, thread_end};

/// What is stored at each switch, and read by each lock.
struct Here {
    /// The core of the running thread.
    core: Cell<*const ThreadCore>,
    /// See `cached_hint`. The core's `owner_hint` again, one load nearer: each acquire reads it, and a load
    /// between two read-modify-writes costs its whole latency.
    hint: Cell<u16>,
    /// Where the kernel keeps the CPU number of this kernel thread. Null until the thread has asked, and
    /// forever if the system has no such place. Not behind the core, because each lock would load the core
    /// first.
    cpu: Cell<*const cpu::Word>,
}

local! {
    // No destructor and a constant start: one load from the thread register, on a green thread's own block
    // too. One for all three: code in a library computes the address of each thread-local.
    static HERE: Here = Here {
        core: Cell::new(ptr::null()),
        hint: Cell::new(STRANGER),
        cpu: Cell::new(ptr::null()),
    };
}

/// Returns the running thread, or `None` for a kernel thread that Selvedge has not met.
#[inline]
pub(crate) fn try_current() -> Option<ThreadRef> {
    let core = HERE.with(|here| here.core.get());
    // SAFETY: only `set_current` writes it, with a type-stable core.
    unsafe { core.as_ref() }.map(ThreadRef::new)
}

/// Returns the id that the running thread has, or will have if it gave its core back; 0 if it has none yet.
pub(super) fn known_id() -> u64 {
    try_current().map_or_else(|| LAST_ID.with(Cell::get), |me| me.known_id())
}

/// Sets the thread that runs on this thread register.
#[inline]
pub(crate) fn set_current(thread: Option<ThreadRef>) {
    HERE.with(|here| here.core.set(thread.map_or(ptr::null(), |t| t.core())));
    if thread.is_none() {
        specific::leave();
    }
    cache_hint(thread);
}

/// Notes that the running thread, a kernel thread, has ended. What it gets if it waits in its last
/// destructors is another core.
pub(crate) fn set_ended() {
    ENDED.with(|ended| ended.set(true));
    set_current(None);
}

/// Fills the cache of [`cached_hint`] from the core of `me`, the running thread, after the core's
/// `owner_hint` has changed.
#[inline]
pub(crate) fn cache_hint(me: Option<ThreadRef>) {
    // Written by the code that mounted this thread, before the thread ran.
    let bits = me.map_or(0, |me| me.owner_hint.get().bits() | observed::hint_bits());
    HERE.with(|here| here.hint.set(bits));
}

/// Fills the cache like [`cache_hint`], when the recording of owners may have begun. The thread may be one
/// that Selvedge has not met.
#[cold]
pub(crate) fn recache_hint() {
    match try_current() {
        // The runtime meets the thread when it first acquires a lock.
        None if observed::are_owners_recorded() => {
            HERE.with(|here| here.hint.set(OwnerHint::RECORDING.bits()))
        }
        me => cache_hint(me),
    }
}

/// Returns the running thread. Adopts a kernel thread that Selvedge has not met.
#[inline]
pub(crate) fn current() -> ThreadRef {
    match try_current() {
        Some(thread) => thread,
        None => adopt(),
    }
}

/// Returns the hint that the running thread writes into a lock that it has acquired.
///
/// While owners are recorded it is [`OwnerHint::RECORDED`]: no hint is written, and the thread is recorded
/// instead (`lock_owners.rs`). A green thread's hint is true until its next switch. A kernel thread's may be
/// stale at once, since the kernel may move the thread. Costs one load of a thread-local; for a kernel
/// thread, also a load of the address of its CPU number, and of the number.
#[inline]
pub(crate) fn owner_hint() -> OwnerHint {
    owner_hint_from(cached_hint())
}

/// Returns what the running thread has cached of its [`owner_hint`], by one load of a thread-local.
///
/// This is the hint itself for a green thread, if owners are not recorded. Otherwise it is a placeholder,
/// which is [a kernel thread's](OwnerHint::is_kernel); [`owner_hint_from`] makes a hint of it. The cache is
/// stale from a call of `lock_owners::begin` until the thread's next switch or wait.
#[inline]
pub(crate) fn cached_hint() -> OwnerHint {
    // Unknown before a thread is adopted. Adoption does not happen here: the fast path neither allocates nor
    // registers destructors.
    OwnerHint::from_bits(HERE.with(|here| here.hint.get()))
}

/// Returns `true` if the running thread, which has a core, is a kernel thread.
#[inline]
pub(crate) fn is_kernel() -> bool {
    let cached = cached_hint();
    cached.is_kernel() && (cached != OwnerHint::RECORDING || slow_owner_hint().is_kernel())
}

/// Returns where the running thread runs, for a comparison with the hint in the lock that it waits for.
///
/// It is the same as [`slow_owner_hint`], also while owners are recorded. It is stale like [`owner_hint`],
/// and costs the same while owners are not recorded.
#[inline]
pub(crate) fn waiter_hint() -> OwnerHint {
    match owner_hint() {
        OwnerHint::RECORDED => slow_owner_hint(),
        here => here,
    }
}

/// Returns the running thread's [`owner_hint`], for a caller that has its [`cached_hint`] already.
#[inline]
pub(crate) fn owner_hint_from(cached: OwnerHint) -> OwnerHint {
    if !cached.is_kernel() {
        return cached;
    }
    if cached != OwnerHint::OF_KERNEL_THREAD {
        return OwnerHint::RECORDED;
    }
    cpu_hint()
}

/// Returns the hint of the running thread, which is a kernel thread with a core.
#[inline]
pub(super) fn cpu_hint() -> OwnerHint {
    // SAFETY: null, or this thread's own area, which lives as long as the thread.
    match unsafe { HERE.with(|here| here.cpu.get()).as_ref() } {
        // Relaxed: the kernel writes it.
        Some(cpu) => OwnerHint::kernel(cpu.load(Ordering::Relaxed)),
        None => OwnerHint::KERNEL_ANYWHERE,
    }
}

/// Returns the CPU of the running thread, which is a kernel thread with a core, if that can be had at once.
pub(super) fn cpu() -> Option<u32> {
    // SAFETY: null, or this thread's own area, which lives as long as the thread.
    match unsafe { HERE.with(|here| here.cpu.get()).as_ref() } {
        // Relaxed: the kernel writes it.
        Some(cpu) => Some(cpu.load(Ordering::Relaxed)),
        None => cpu::quick(),
    }
}

/// Finds where the kernel keeps the running thread's CPU number. Called by a kernel thread, on slow paths.
#[inline]
pub(super) fn learn_cpu() {
    HERE.with(|here| {
        if here.cpu.get().is_null() {
            here.cpu.set(cpu::word().map_or(ptr::null(), |word| word.as_ptr()));
        }
    });
}

/// Returns where the running thread runs, even while owners are recorded. It does not use the cache, so it is
/// never older than the thread's last switch. Costs a load of the core, and one of its hint: for slow paths.
#[cold]
pub(crate) fn slow_owner_hint() -> OwnerHint {
    match try_current() {
        None => OwnerHint::UNKNOWN,
        Some(me) if me.is_kernel() => cpu_hint(),
        Some(me) => me.owner_hint.get(),
    }
}

/// An adopted thread, and whether `end_last` will be called. Its values end with its thread-locals. Those
/// that are destroyed later may wait, and others may unpark the thread by the handle that they have. So the
/// core is given back after all of them.
struct Adopted(Cell<Option<(ThreadRef, bool)>>);

/// On Windows, thread-locals may be slots of the system. The one that says which thread runs is then gone
/// before others are destroyed, and these find a thread without a core. So the core is given back with the
/// thread-locals, unless those may still hold the thread's locks.
const ENDS_EARLY: bool = cfg!(windows);

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some((thread, mut ends_last)) = self.0.take() {
            thread.specific.end();
            if ENDS_EARLY && thread.leaves_robust() {
                ends_last = call_end_last(thread, true);
            }
            if !ends_last {
                end(thread);
            }
        }
    }
}

fn end(thread: ThreadRef) {
    if observed::is_traced() {
        traced::ends(thread);
    }
    let dies = thread.leaves_robust();
    LAST_ID.with(|id| id.set(if dies { 0 } else { thread.known_id() }));
    if dies {
        thread.dies_with_robust();
    }
    thread.finish_without_handle();
    set_ended();
    thread.release();
}

/// Ends an adopted thread, unless it has given this core back.
fn end_last(core: *const ()) {
    // SAFETY: `call_last` passed it on. It is a type-stable core.
    let thread = ThreadRef::new(unsafe { &*core.cast::<ThreadCore>() });
    if ENDS_EARLY || try_current() == Some(thread) {
        // Destructors may have stored values since.
        thread.specific.end();
        end(thread);
    }
}

/// Arranges that `end_last` is called for `thread`, the running thread, when it ends: `soon`, if its values
/// are being destroyed. Returns `false` if it will not be called, since no key of the C library is left. If
/// the thread-locals are gone by then, the core stays taken.
fn call_end_last(thread: ThreadRef, soon: bool) -> bool {
    thread_end::call_last(end_last, ptr::from_ref(thread.core()).cast(), soon)
}

local! {
    // The id of a thread that has given its core back. If the thread is adopted again in its last
    // destructors, it must be the same thread to code that compares ids. Zero: there is none, or the id's
    // owner counts as dead.
    static LAST_ID: Cell<u64> = Cell::new(0);
}

local! {
    // Set when the thread has given a core back. From then on, a destructor that is registered may never run:
    // values of pthread keys are destroyed after all others.
    static ENDED: Cell<bool> = Cell::new(false);
}

local! {
    static ADOPTED: Adopted = Adopted(Cell::new(None));
}

#[cold]
fn adopt() -> ThreadRef {
    // From now on a fork of this thread is handled as a fork, with or without a runtime. If there is no
    // memory for that, it is not.
    let _ = fork::watch();
    let ended = ENDED.with(Cell::get);
    let name = name_by_std();
    let thread = core_pool::take(1, None, name);
    if let Some(met) = try_current() {
        // An allocator may wait, too, and so have had its thread met meanwhile.
        thread.finish_without_handle();
        thread.release();
        return met;
    }
    learn_cpu();
    thread.go_on_with_id(LAST_ID.with(Cell::get));
    set_current(Some(thread));
    recache_hint();
    if observed::is_traced() {
        traced::runs(thread);
    }
    let ends_last = !ENDS_EARLY && call_end_last(thread, ended);
    // Last: where thread-locals are slots of the system (Windows, GNU), the newest are destroyed first.
    let will_drop = !ended && ADOPTED.try_with(|adopted| adopted.0.set(Some((thread, ends_last)))).is_ok();
    if ENDS_EARLY && !will_drop {
        let _ = call_end_last(thread, true);
    }
    thread
}

/// Returns the name of the running thread, if std knows the thread and has a name for it.
///
/// `std::thread::current` panics where std has forgotten the thread: in some of its last destructors. A scope
/// does not, and shows its thread without a name then.
fn name_by_std() -> Option<Box<str>> {
    let is_named = std::thread::scope(|scope| format!("{scope:?}").contains("name: Some("));
    if is_named { std::thread::current().name().map(Box::from) } else { None }
}

#[cfg(test)]
mod tests;
