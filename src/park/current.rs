//! Which thread of control is running.
//!
//! One native thread-local: a green thread has its own block of them, so it reads its own, and whoever switches stacks
//! stores it again on the resumed side. A kernel thread that Selvedge has not met is adopted when it first has to wait:
//! it gets a core, and gives it back when it ends.

use std::cell::Cell;
use std::ptr;

use super::fork;
use super::ledger;
use super::owner::OwnerHint;
use super::registry;
use super::specific;
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::Ordering;
use crate::shim::{STRANGER, cpu, local, thread_end};

local! {
    // No destructor and a constant start: one load from the thread register, also on a green thread's own block.
    static CURRENT: Cell<*const ThreadCore> = Cell::new(ptr::null());
}

local! {
    // The core's `owner_hint` again, one load nearer: each lock writes it, and a load between two
    // read-modify-writes costs its whole latency. `OwnerHint::RECORDING`: the locks that the thread takes are
    // recorded.
    static HINT: Cell<u16> = Cell::new(STRANGER);
}

local! {
    // Where the kernel keeps the CPU number of this kernel thread; null until it has asked, and for good where the system has no
    // such place. Not behind the core: each lock would load that first.
    static CPU: Cell<*const cpu::Word> = Cell::new(ptr::null());
}

/// The running thread, or `None` for a kernel thread that Selvedge has not met.
#[inline]
pub(crate) fn try_current() -> Option<ThreadRef> {
    let core = CURRENT.with(Cell::get);
    // SAFETY: only `set_current` writes it, with a type-stable core.
    unsafe { core.as_ref() }.map(ThreadRef::new)
}

/// Says which thread runs on this thread register.
#[inline]
pub(crate) fn set_current(thread: Option<ThreadRef>) {
    CURRENT.with(|current| current.set(thread.map_or(ptr::null(), |t| t.core())));
    if thread.is_none() {
        specific::leave();
    }
    refresh_hint(thread);
}

/// Says where the running thread runs, after its core's `owner_hint` has changed.
#[inline]
pub(crate) fn refresh_hint(me: Option<ThreadRef>) {
    // Relaxed: written by whoever mounted this thread, before it ran.
    let bits = me.map_or(0, |me| me.owner_hint.load(Ordering::Relaxed) | ledger::switch());
    HINT.with(|hint| hint.set(bits));
}

/// [`refresh_hint`] for a thread of any kind: the recording of owners may have begun.
#[cold]
pub(crate) fn restamp() {
    match try_current() {
        // The runtime meets the thread when it first takes a lock.
        None if ledger::is_on() => HINT.with(|hint| hint.set(OwnerHint::RECORDING.bits())),
        me => refresh_hint(me),
    }
}

/// The running thread; a kernel thread that Selvedge has not met is adopted.
#[inline]
pub(crate) fn current() -> ThreadRef {
    match try_current() {
        Some(thread) => thread,
        None => adopt(),
    }
}

/// What the running thread writes into a lock it has taken. [`OwnerHint::RECORDED`]: it writes that down (`ledger.rs`).
#[inline]
pub(crate) fn hint() -> OwnerHint {
    hint_of(stamp())
}

/// Of a green thread its [`hint`] as a rule, in one load; else what is [for a kernel thread](OwnerHint::is_kernel), and needs
/// [`hint_of`] to become one.
#[inline]
pub(crate) fn stamp() -> OwnerHint {
    // Unknown before a thread is adopted, which does not happen here: the fast path neither allocates nor registers
    // destructors.
    OwnerHint::from_bits(HINT.with(Cell::get))
}

/// Returns `true` if the running thread, which has a core, is a kernel thread.
#[inline]
pub(crate) fn is_kernel() -> bool {
    let stamp = stamp();
    stamp.is_kernel() && (stamp != OwnerHint::RECORDING || exact_hint().is_kernel())
}

/// Returns where the running thread, which waits, runs: its [`hint`], even while owners are recorded.
#[inline]
pub(crate) fn place() -> OwnerHint {
    match hint() {
        OwnerHint::RECORDED => exact_hint(),
        here => here,
    }
}

/// The running thread's hint, whose [`stamp`] this is.
#[inline]
pub(crate) fn hint_of(stamp: OwnerHint) -> OwnerHint {
    if stamp.is_kernel() { kernel_hint(stamp) } else { stamp }
}

#[inline]
fn kernel_hint(hint: OwnerHint) -> OwnerHint {
    if hint != OwnerHint::OF_KERNEL_THREAD {
        return OwnerHint::RECORDED;
    }
    cpu_hint()
}

/// The hint of the running thread, which is a kernel thread with a core.
#[inline]
fn cpu_hint() -> OwnerHint {
    // SAFETY: null, or this thread's own area, which lives as long as the thread.
    match unsafe { CPU.with(Cell::get).as_ref() } {
        // Relaxed: the kernel writes it.
        Some(cpu) => OwnerHint::kernel(cpu.load(Ordering::Relaxed)),
        None => OwnerHint::KERNEL_ANYWHERE,
    }
}

/// Finds out where the kernel keeps the running thread's CPU number. By a kernel thread, on slow paths.
#[inline]
pub(super) fn learn_cpu() {
    CPU.with(|known| {
        if known.get().is_null() {
            known.set(cpu::word().map_or(ptr::null(), |word| word.as_ptr()));
        }
    });
}

/// Where the running thread runs, whatever is written down.
#[cold]
pub(crate) fn exact_hint() -> OwnerHint {
    match try_current() {
        None => OwnerHint::UNKNOWN,
        Some(me) if me.is_kernel() => cpu_hint(),
        // Relaxed: as in `refresh_hint`.
        Some(me) => OwnerHint::from_bits(me.owner_hint.load(Ordering::Relaxed)),
    }
}

/// Gives the core back when an adopted thread ends.
struct Adopted(Cell<Option<ThreadRef>>);

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            specific::end(thread);
            // What it holds may be held by thread-locals that are yet to be destroyed: it ends after them.
            if !thread.leaves_robust() || !ends_last(thread) {
                end(thread);
            }
        }
    }
}

fn end(thread: ThreadRef) {
    if thread.leaves_robust() {
        thread.dies_with_robust();
    } else {
        LAST_ID.with(|id| id.set(thread.known_id()));
    }
    set_current(None);
    thread.release();
}

/// Ends a thread that held robust locks when its core was to be given back, or that got its core after that.
fn end_last(core: *const ()) {
    // SAFETY: `call_last` passed it on: a type-stable core, which is this thread's until `end`.
    let thread = ThreadRef::new(unsafe { &*core.cast::<ThreadCore>() });
    // Destructors may have stored values since.
    specific::end(thread);
    end(thread);
}

/// Arranges that `end_last` is called when `thread`, the running thread, ends. `false`: it will not be
/// called.
fn ends_last(thread: ThreadRef) -> bool {
    thread_end::call_last(end_last, ptr::from_ref(thread.core()).cast())
}

local! {
    // Of a thread that has given its core back: should it be adopted again, in its last destructors, it is the same thread to
    // those who tell threads by their ids. Zero: none, or the id's owner counts as dead.
    static LAST_ID: Cell<u64> = Cell::new(0);
}

local! {
    static ADOPTED: Adopted = Adopted(Cell::new(None));
}

#[cold]
fn adopt() -> ThreadRef {
    // Its forks are then forks, whether or not there is a runtime. Without memory for that they are not.
    let _ = fork::watch();
    let name = std::thread::current().name().map(Box::from);
    let thread = registry::take(1, None, name);
    learn_cpu();
    thread.go_on_with_id(LAST_ID.with(Cell::get));
    set_current(Some(thread));
    restamp();
    if ADOPTED.try_with(|adopted| adopted.0.set(Some(thread))).is_err() {
        // The thread waits in one of its last thread-local destructors, and cannot register another
        // destructor. If the C library has no key left, the core stays taken.
        let _ = ends_last(thread);
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_thread_is_adopted_once() {
        std::thread::Builder::new()
            .name("foreign".into())
            .spawn(|| {
                assert!(try_current().is_none());
                assert_eq!(exact_hint(), OwnerHint::UNKNOWN);
                let me = current();
                assert_eq!(current(), me);
                assert_eq!(me.name(), Some("foreign"));
                assert!(exact_hint().is_kernel());
            })
            .unwrap()
            .join()
            .unwrap();
    }

    /// If a thread-local destructor runs after the thread's core was given back, and waits, the thread gets
    /// another core. That core must be given back, too.
    #[test]
    fn threads_that_wait_in_their_last_destructors_leave_no_core_behind() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                assert!(try_current().is_none(), "the core was given back");
                let _ = current();
            }
        }
        thread_local! {
            static LATE: Late = const { Late };
        }
        let body = || {
            let cores = || registry::all().count();
            let wait_late = || {
                // Destructors run last in, first out: this one runs after the destructor of the adoption.
                LATE.with(|_| ());
                let _ = current();
            };
            for _ in 0..3 {
                std::thread::spawn(wait_late).join().unwrap();
            }
            let warm = cores();
            for _ in 0..100 {
                std::thread::spawn(wait_late).join().unwrap();
            }
            assert_eq!(cores(), warm);
        };
        let name = "::threads_that_wait_in_their_last_destructors_leave_no_core_behind";
        crate::sys::child::isolated(&[module_path!(), name].concat(), body);
    }
}
