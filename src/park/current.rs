//! The thread of control that is running.
//!
//! It is kept in one native thread-local. A green thread has its own block of them, so it reads its own. The
//! code that switches stacks stores it again on the resumed side. If a kernel thread that Selvedge has not
//! met has to wait, it is adopted: it gets a core, and gives it back when it ends.

use std::cell::Cell;
use std::ptr;

use super::core_pool;
use super::fork;
use super::observed;
use super::owner::OwnerHint;
use super::specific;
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::Ordering;
use crate::shim::{STRANGER, cpu, local, thread_end};

local! {
    // No destructor and a constant start: one load from the thread register, on a green thread's own block
    // too.
    static CURRENT: Cell<*const ThreadCore> = Cell::new(ptr::null());
}

local! {
    // The core's `owner_hint` again, one load nearer. Each lock writes it, and a load between two
    // read-modify-writes costs its whole latency. `OwnerHint::RECORDING`: the locks that the thread acquires
    // are recorded.
    static HINT: Cell<u16> = Cell::new(STRANGER);
}

local! {
    // Where the kernel keeps the CPU number of this kernel thread. Null until the thread has asked, and
    // forever if the system has no such place. Not behind the core, because each lock would load the core
    // first.
    static CPU: Cell<*const cpu::Word> = Cell::new(ptr::null());
}

/// Returns the running thread, or `None` for a kernel thread that Selvedge has not met.
#[inline]
pub(crate) fn try_current() -> Option<ThreadRef> {
    let core = CURRENT.with(Cell::get);
    // SAFETY: only `set_current` writes it, with a type-stable core.
    unsafe { core.as_ref() }.map(ThreadRef::new)
}

/// Sets the thread that runs on this thread register.
#[inline]
pub(crate) fn set_current(thread: Option<ThreadRef>) {
    CURRENT.with(|current| current.set(thread.map_or(ptr::null(), |t| t.core())));
    if thread.is_none() {
        specific::leave();
    }
    refresh_hint(thread);
}

/// Copies the running thread's hint from its core, after `owner_hint` has changed.
#[inline]
pub(crate) fn refresh_hint(me: Option<ThreadRef>) {
    // Relaxed: written by the code that mounted this thread, before the thread ran.
    let bits = me.map_or(0, |me| me.owner_hint.load(Ordering::Relaxed) | observed::hint_bits());
    HINT.with(|hint| hint.set(bits));
}

/// Does what [`refresh_hint`] does, for a thread of any kind, when the recording of owners may have begun.
#[cold]
pub(crate) fn restamp() {
    match try_current() {
        // The runtime meets the thread when it first acquires a lock.
        None if observed::are_owners_recorded() => HINT.with(|hint| hint.set(OwnerHint::RECORDING.bits())),
        me => refresh_hint(me),
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

/// Returns what the running thread writes into a lock that it has acquired. [`OwnerHint::RECORDED`]: the
/// thread must be recorded as the owner (`lock_owners.rs`).
#[inline]
pub(crate) fn hint() -> OwnerHint {
    hint_of(stamp())
}

/// Returns the stamp of the running thread, by one load. For a green thread this is usually its [`hint`].
/// Otherwise it is one [of a kernel thread](OwnerHint::is_kernel), and [`hint_of`] makes a hint of it.
#[inline]
pub(crate) fn stamp() -> OwnerHint {
    // Unknown before a thread is adopted. Adoption does not happen here: the fast path neither allocates nor
    // registers destructors.
    OwnerHint::from_bits(HINT.with(Cell::get))
}

/// Returns `true` if the running thread, which has a core, is a kernel thread.
#[inline]
pub(crate) fn is_kernel() -> bool {
    let stamp = stamp();
    stamp.is_kernel() && (stamp != OwnerHint::RECORDING || exact_hint().is_kernel())
}

/// Returns where the running thread, which waits, runs. This is its [`hint`], even while owners are
/// recorded.
#[inline]
pub(crate) fn place() -> OwnerHint {
    match hint() {
        OwnerHint::RECORDED => exact_hint(),
        here => here,
    }
}

/// Returns the running thread's hint. The argument is its [`stamp`].
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

/// Returns the hint of the running thread, which is a kernel thread with a core.
#[inline]
fn cpu_hint() -> OwnerHint {
    // SAFETY: null, or this thread's own area, which lives as long as the thread.
    match unsafe { CPU.with(Cell::get).as_ref() } {
        // Relaxed: the kernel writes it.
        Some(cpu) => OwnerHint::kernel(cpu.load(Ordering::Relaxed)),
        None => OwnerHint::KERNEL_ANYWHERE,
    }
}

/// Finds where the kernel keeps the running thread's CPU number. Called by a kernel thread, on slow paths.
#[inline]
pub(super) fn learn_cpu() {
    CPU.with(|known| {
        if known.get().is_null() {
            known.set(cpu::word().map_or(ptr::null(), |word| word.as_ptr()));
        }
    });
}

/// Returns where the running thread runs, even while owners are recorded.
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
            // Thread-locals that are destroyed later may still hold its locks, so the thread ends after
            // them.
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
    // SAFETY: `call_last` passed it on. It is a type-stable core, which is this thread's until `end`.
    let thread = ThreadRef::new(unsafe { &*core.cast::<ThreadCore>() });
    // Destructors may have stored values since.
    specific::end(thread);
    end(thread);
}

/// Arranges that `end_last` is called when `thread`, the running thread, ends. Returns `false` if it will
/// not be called.
fn ends_last(thread: ThreadRef) -> bool {
    thread_end::call_last(end_last, ptr::from_ref(thread.core()).cast())
}

local! {
    // The id of a thread that has given its core back. If the thread is adopted again in its last
    // destructors, it must be the same thread to code that compares ids. Zero: there is none, or the id's
    // owner counts as dead.
    static LAST_ID: Cell<u64> = Cell::new(0);
}

local! {
    static ADOPTED: Adopted = Adopted(Cell::new(None));
}

#[cold]
fn adopt() -> ThreadRef {
    // From now on a fork of this thread is handled as a fork, with or without a runtime. If there is no
    // memory for that, it is not.
    let _ = fork::watch();
    let name = std::thread::current().name().map(Box::from);
    let thread = core_pool::take(1, None, name);
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
            let cores = || core_pool::all().count();
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
        crate::sys::child_tests::isolated(&[module_path!(), name].concat(), body);
    }

    /// A thread that is not known has no hint. While owners are recorded, all kinds of threads have the same
    /// stamp.
    #[test]
    fn stamps_say_whether_owners_are_recorded() {
        crate::sys::child_tests::isolated(
            concat!(module_path!(), "::stamps_say_whether_owners_are_recorded"),
            || {
                let on_a_thread = |f: fn()| std::thread::spawn(f).join().unwrap();
                on_a_thread(|| {
                    restamp();
                    assert_eq!(stamp(), OwnerHint::UNKNOWN);
                    current();
                    assert_eq!(stamp(), OwnerHint::OF_KERNEL_THREAD);
                    crate::observe::lock_owners::begin();
                    assert!(observed::are_owners_recorded());
                    assert_eq!(stamp(), OwnerHint::RECORDING);
                });
                on_a_thread(|| {
                    restamp();
                    assert_eq!(stamp(), OwnerHint::RECORDING);
                    assert!(try_current().is_none());
                    current();
                    assert_eq!(stamp(), OwnerHint::RECORDING);
                });
            },
        );
    }
}
