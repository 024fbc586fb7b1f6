//! Requests to end a thread (`pthread_cancel`), and the calls in which it ends.
//!
//! **Problem.** A thread asks another to end. That one ends at its next *cancellation point*: a call that may
//! wait. If it waits already, the wait ends. Then the C library unwinds the stack, and runs what the program
//! has pushed by `pthread_cleanup_push`.
//!
//! **Rejected.** *To leave it to the C library*, as for kernel threads. It sends a signal to the kernel
//! thread, and its handler unwinds the stack from where the thread is. A green thread may be elsewhere by
//! then. And the frames of this crate would be left as they are.
//!
//! **Shape.** Each thread has a [`Cancel`], with the request and what the thread says of requests. A function
//! that is a cancellation point does all in a [`point`]. That looks for a request first. A request
//! [interrupts](crate::park::interrupt) the thread's [`wait`] within. Then the call returns as if it had
//! failed, all frames of this crate but the function's are gone, and the point ends the thread. A call that
//! has done what it was asked for returns that; then the next point ends the thread.
//!
//! **Calls that block the LWP.** The thread that asks sends the preemption signal to the LWP. If the signal
//! finds the C library's code, the thread ends there ([`in_call`]; `mxn/preempt.rs`). The C library does so
//! itself. Such a call is little more than a system call, and holds no lock. The thread says that it is in
//! the call, then looks for a request. The other one asks, and then looks if the thread is there
//! (`park/futex/cut.rs`). The signal may find this crate's code, so it is sent again.
//!
//! **Anywhere.** A thread may allow that, for code that only computes. The same signal ends it, but in no
//! call of this crate.
//!
//! **Streams**, `system` and the like. The C library itself marks where they may be left, up to 2.40. If the
//! signal finds the thread there, it ends. If the thread comes there later, it does not look for a request.
//! So a helper sends the signal again, until the thread ends (`pthreads/kill.rs`). Rejected: to tell the C
//! library of the request. Then it would also leave this crate's own calls.
//!
//! **What this crate's calls call.** They drop values of std, which may close a descriptor, and free memory by
//! the program's own `free`. None of that may be unwound. So a thread in a call of this crate ends only where
//! that says that the program waits, by a place of its [`Cut`] ([`Cancel::is_due_at`]). A point in another
//! point ends nothing.
//!
//! **The handler** may not use thread-locals by their names, in a library that is loaded (`sys/preempt.rs`).
//! The one of this file lies at the same distance from each thread register ([`DISTANCE`]): the loader has
//! it so for what is there when the program starts. It leads to all else.
//!
//! A kernel thread's request is the C library's, which judges it. What is here lets it wake from the waits
//! that are this crate's. In all other calls the C library ends it, so their functions may be unwound.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::arch;
use crate::park::futex::cut::Cut;
use crate::park::pending::Pending;
use crate::park::thread::ThreadRef;
use crate::sys::next;
use crate::sys::objects;

mod jumps;
pub(crate) mod kernel;
mod points;
mod running;
mod signals;
mod stands;
mod values;

pub(in crate::interpose) use jumps::with_other_mask;
pub(crate) use jumps::{has_other_mask, jumps};
pub(in crate::interpose) use points::{announced_call, in_call, is_cut, is_outside};
pub(crate) use points::{code_of_end, sleep_at, test, unended, wait_outside, wait_unless};
pub use points::{handles_signals, in_marked_call, lock, point, point_of_code, undisturbed, wait};
pub(crate) use signals::{
    Ends, begin_signals, ends_call, has_signals, in_child, is_told, own_signals, run_handlers, send_at,
    send_signal_here, send_unblocked, suspended, take_kernels, wait_for,
};

use running::Running;

unsafe extern "C-unwind" {
    /// This crate's (`pthreads/end.rs`).
    fn pthread_exit(value: *mut c_void) -> !;
}

/// Another thread asks for the end.
const REQUESTED: u32 = 1;
/// The thread ignores that for now (`PTHREAD_CANCEL_DISABLE`).
const DISABLED: u32 = 2;
/// It may be ended anywhere (`PTHREAD_CANCEL_ASYNCHRONOUS`).
const ANYWHERE: u32 = 4;
/// It ends already.
const ENDS: u32 = 8;
/// The request has ended a wait.
const CUT: u32 = 16;
/// It has been told of signals of its own. Set by the helper.
const POKED: u32 = 32;
/// It is the only thread of a forked child, and a kernel thread there.
const SURVIVES: u32 = 64;
/// The preemption signal has ended its `sigsuspend`; a kernel thread's `sigwait`.
const DISTURBED: u32 = 128;
/// It is in a call that ends at no point ([`refusing`]).
const REFUSING: u32 = 256;

/// `PTHREAD_CANCELED`.
const CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// Threads may be asked to end. If it is clear, no wait listens. See [`listen_if_used`].
static USED: AtomicBool = AtomicBool::new(true);
/// Threads may send signals to each other. If it is clear, only cancellation points listen.
static SIGNALS_USED: AtomicBool = AtomicBool::new(false);

/// Lets waits listen only if some object of a finished program mentions `pthread_cancel`, or `pthread_kill`
/// and its like: to listen takes a quarter of a wait for a condition variable. A library that is loaded later
/// and asks threads to end does not end the waits that have begun by then. Called before the program starts.
pub(crate) fn listen_if_used() {
    // Relaxed: before the program starts.
    USED.store(false, Ordering::Relaxed);
    listen_if_used_by_now();
}

/// Does so for what the program has loaded since. Called before its first thread starts.
pub(crate) fn listen_if_used_by_now() {
    let here = listen_if_used as fn() as usize;
    let library = next::address_of_pthread_cancel();
    let (mut used, mut signals_used) = (false, false);
    objects::each(|object| {
        let is_other = !object.code().any(|code| code.contains(&here) || code.contains(&library));
        let mentions = |name| is_other && object.mentions(name);
        used = used || mentions(c"pthread_cancel");
        signals_used = signals_used || mentions(c"pthread_kill") || mentions(c"pthread_sigqueue");
    });
    // Relaxed, all: there is no thread yet that waits.
    if used || signals_used {
        USED.store(true, Ordering::Relaxed);
    }
    if signals_used {
        SIGNALS_USED.store(true, Ordering::Relaxed);
    }
}

/// Returns `true` if waits listen.
#[inline]
pub(crate) fn is_used() -> bool {
    // Relaxed: a thread that asks another sets it first, and its request is seen or not.
    USED.load(Ordering::Relaxed)
}

/// Returns `true` if waits listen that are no cancellation points.
#[inline]
pub(crate) fn are_signals_used() -> bool {
    // Relaxed: as in `is_used`.
    SIGNALS_USED.load(Ordering::Relaxed)
}

/// What is known of the end of a thread, and of its signals.
#[derive(Debug)]
pub(crate) struct Cancel {
    /// Other threads set [`REQUESTED`] and [`POKED`] alone. All else is the thread's own.
    word: AtomicU32,
    /// Where a kernel thread waits for a semaphore; a green thread's calls that block its LWP.
    cut: Cut,
    is_kernel: bool,
    /// It is in a call of this crate. The thread's own.
    within: AtomicBool,
    /// What a handler of a signal must know of a green thread, from its beginning.
    running: OnceLock<Running>,
    /// The same of a kernel thread.
    stands: OnceLock<stands::Stands>,
    /// The signals that wait for it.
    pending: Pending,
    /// They have ended its wait.
    nudged: AtomicBool,
    /// How often it has been left alone.
    left_alone: AtomicU32,
    /// The call in which the helper has seen it asleep.
    call: Call,
}

/// Where a thread sleeps in the kernel: what both are when the call returns; 0: nowhere.
#[derive(Debug, Default)]
struct Call {
    sp: AtomicUsize,
    pc: AtomicUsize,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        // One may have come while the thread ended.
        self.forget_signals();
    }
}

thread_local! {
    /// That of the running thread, if it has one. It has no destructor, so that any code may read it.
    static OWN: Cell<*const Cancel> = const { Cell::new(ptr::null()) };
}

/// How far [`OWN`] lies from each thread register; 0: not known, or not the same for all.
static DISTANCE: AtomicUsize = AtomicUsize::new(0);
/// Threads have differed.
const DIFFERS: usize = usize::MAX;

/// Notes the distance of the calling thread.
fn learn_distance() {
    let own = OWN.with(|own| ptr::from_ref(own).addr().wrapping_sub(arch::tp::read()));
    // Relaxed, all: a number.
    if DISTANCE.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).is_err_and(|it| it != own) {
        DISTANCE.store(DIFFERS, Ordering::Relaxed);
    }
}

/// Does what [`own`] does, in a handler of a signal.
fn own_in_handler<'a>() -> Option<&'a Cancel> {
    // Relaxed: a number.
    let distance = DISTANCE.load(Ordering::Relaxed);
    if matches!(distance, 0 | DIFFERS) {
        return None;
    }
    let place = ptr::with_exposed_provenance::<Cell<*const Cancel>>(arch::tp::read().wrapping_add(distance));
    // SAFETY: all threads that have met this have it there, so it is a part of each thread's block.
    let own = unsafe { &*place };
    // SAFETY: see `own`.
    unsafe { own.get().as_ref() }
}

/// Returns the running thread's, while it runs.
#[inline]
fn own<'a>() -> Option<&'a Cancel> {
    // SAFETY: null, or what the thread keeps until it calls `end`.
    unsafe { OWN.get().as_ref() }
}

impl Cancel {
    /// Creates that of a green thread.
    pub(crate) fn green() -> Self {
        Self::new(false)
    }

    /// Creates that of a kernel thread.
    pub(crate) fn kernel() -> Self {
        Self::new(true)
    }

    fn new(is_kernel: bool) -> Self {
        Self {
            word: AtomicU32::new(0),
            cut: Cut::new(),
            is_kernel,
            within: AtomicBool::new(false),
            running: OnceLock::new(),
            stands: OnceLock::new(),
            pending: Pending::new(),
            nudged: AtomicBool::new(false),
            left_alone: AtomicU32::new(0),
            call: Call::default(),
        }
    }

    /// Makes it the running thread's, which keeps it until it calls [`end`].
    pub(crate) fn begin(&self) {
        OWN.set(self);
        if is_used() {
            learn_distance();
            if self.is_kernel {
                let _ = self.stands.set(stands::Stands::here());
            } else if let Some(running) = Running::here() {
                let _ = self.running.set(running);
            }
        }
    }

    /// Asks the thread to end. For a kernel thread, the C library has been asked before. `wake` is as
    /// [`Cut::cut`] says: it sends a green thread's LWP the signal, or wakes a [futex](Self::is_futex). If this
    /// returns `true`, the caller interrupts the thread then: it was not asked before.
    pub(crate) fn request(&self, wake: impl FnMut(*const u32) -> bool) -> bool {
        // Relaxed: see `is_used`.
        USED.store(true, Ordering::Relaxed);
        // Release: what the caller did comes before the end. Pairs with `is_due`.
        let before = self.word.fetch_or(REQUESTED, Ordering::Release);
        self.cut.cut(wake);
        before & REQUESTED == 0
    }

    /// Returns `true` if a thread that is in this place sleeps at a futex there, not in a call.
    pub(crate) fn is_futex(&self, place: *const u32) -> bool {
        !ptr::eq(place, self.word.as_ptr()) && !ptr::eq(place, ptr::from_ref(&self.cut).cast())
    }

    fn has(&self, flag: u32) -> bool {
        // Relaxed: the thread's own.
        self.word.load(Ordering::Relaxed) & flag != 0
    }

    fn change(&self, flag: u32, on: bool) {
        // Relaxed, both: the thread's own.
        if on {
            self.word.fetch_or(flag, Ordering::Relaxed);
        } else {
            self.word.fetch_and(!flag, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the running thread, which has this, is in a call of this crate.
    #[inline]
    fn is_within(&self) -> bool {
        // Relaxed: the thread's own.
        self.within.load(Ordering::Relaxed)
    }

    /// Returns `true` if the thread is to end, and does not ignore that: at once, or after a call in which it
    /// refuses.
    pub(crate) fn is_asked(&self) -> bool {
        // Acquire: as in `is_due`.
        self.word.load(Ordering::Acquire) & (REQUESTED | DISABLED | ENDS) == REQUESTED
    }

    /// Returns `true` if the thread is to end, and does not refuse that.
    fn is_due(&self) -> bool {
        // Acquire: pairs with `request`.
        self.word.load(Ordering::Acquire) & (REQUESTED | DISABLED | ENDS | REFUSING) == REQUESTED
    }

    /// Returns `true` if the running thread, which has this, minds requests.
    fn listens(&self) -> bool {
        !self.has(DISABLED | ENDS | REFUSING)
    }

    /// Returns `true` if the running thread, which has this, lets others end its waits: by a request, or for
    /// a signal. Handlers run in a green thread until it has ended, also in destructors of its keys.
    fn may_wake(&self) -> bool {
        !self.is_kernel || self.listens()
    }

    /// Notes that a request has ended a wait. Returns `false` if there is none.
    fn cut(&self) -> bool {
        let is_due = self.is_due();
        if is_due {
            self.change(CUT, true);
        }
        is_due
    }

    /// Returns `true` if the thread is to end, and may be ended anywhere.
    pub(crate) fn is_due_anywhere(&self) -> bool {
        self.is_due() && self.has(ANYWHERE)
    }

    /// Returns `true` if the running thread, which has this, is to end, and may be ended in what it does.
    /// `is_library`: it stands in the C library's code. `is_own`: in this crate's, or perhaps in a function
    /// that this crate has called.
    fn is_due_at(&self, is_library: bool, is_own: bool) -> bool {
        let place = self.cut.place();
        let is_outside = !self.is_within();
        let may_end = if self.is_in_section() {
            // In a call of this crate, such a part may be one of a function that std calls, as `close` where a
            // value is dropped. A call that the program waits in says so.
            is_outside || !place.is_null()
        } else if place.is_null() {
            self.has(ANYWHERE) && is_outside && !is_own
        } else {
            ptr::eq(place, self.word.as_ptr()) && is_library
        };
        may_end && self.is_due()
    }

    /// Returns `true` if the running thread, which has this, is in a part of the C library that may be left.
    fn is_in_section(&self) -> bool {
        // SAFETY: the running thread.
        self.running.get().is_some_and(|running| unsafe { running.is_in_section() })
    }

    /// Ends the running thread, which has this, unless the C library judges otherwise. It unwinds.
    #[cold]
    fn act(&self) {
        if self.is_kernel {
            let is_due = self.is_due();
            // SAFETY: no arguments. The callers have nothing to drop.
            unsafe { next::pthread_testcancel() };
            if is_due {
                // The thread ends already: the C library began that elsewhere, and unwinds.
                self.change(ENDS, true);
            }
        } else {
            // SAFETY: as above.
            unsafe { pthread_exit(CANCELED) };
        }
    }
}

/// Lets the running thread mind requests, or not (`PTHREAD_CANCEL_DISABLE`). Returns what was before, unless
/// it is a kernel thread: the C library knows that.
pub(crate) fn set_disabled(disabled: bool) -> Option<bool> {
    set(DISABLED, disabled)
}

/// Lets the running thread be ended anywhere (`PTHREAD_CANCEL_ASYNCHRONOUS`), or in calls that are
/// cancellation points. Returns as [`set_disabled`] does.
pub(crate) fn set_anywhere(anywhere: bool) -> Option<bool> {
    set(ANYWHERE, anywhere)
}

/// Calls `call`, in which the running thread refuses requests.
pub(crate) fn refusing<R>(call: impl FnOnce() -> R) -> R {
    let Some(own) = own() else { return call() };
    let before = own.has(REFUSING);
    own.change(REFUSING, true);
    let result = call();
    own.change(REFUSING, before);
    result
}

fn set(flag: u32, on: bool) -> Option<bool> {
    let own = own()?;
    let before = own.has(flag);
    own.change(flag, on);
    (!own.is_kernel).then_some(before)
}

/// Returns the thread that a handler of a signal has interrupted, if that is green, is to end, and may be
/// ended there; for the arguments, see [`Cancel::is_due_at`]. Also returns `true` if that is in a call of the
/// C library, which may have changed the signal mask for a while. Async-signal-safe.
pub(crate) fn due_at(
    is_library: impl FnOnce() -> bool,
    is_own: impl FnOnce() -> bool,
) -> Option<(ThreadRef, bool)> {
    let own = own_in_handler().filter(|own| !own.is_kernel && own.is_due_at(is_library(), is_own()))?;
    let running = own.running.get()?;
    // SAFETY: the thread that the handler has interrupted.
    let is_allowed = unsafe { running.count.is_zero() };
    is_allowed.then(|| (running.thread, !own.cut.place().is_null() || own.is_in_section()))
}

/// Returns `true` if the running thread, which a handler of a signal has [found](due_at) fit, is to end here.
pub(crate) fn is_due_here() -> bool {
    own().is_some_and(|own| own.is_due_at(true, false))
}

/// Ends the running thread if another thread has asked for that, and it may be ended anywhere. It unwinds.
pub(crate) fn test_anywhere() {
    if let Some(own) = own()
        && own.is_due_at(false, false)
    {
        own.act();
    }
}

/// The thread ends: no request matters any more.
pub(crate) fn leave() {
    jumps::leave_other_mask();
    if let Some(own) = own() {
        own.change(ENDS, true);
        own.cut.leave();
        own.pending.await_these(0);
        // It leaves that call, and its cleanup makes others. Relaxed: the thread's own.
        own.within.store(false, Ordering::Relaxed);
    }
}

/// Takes from the running thread what [`Cancel::begin`] gave it.
pub(crate) fn end() {
    OWN.set(ptr::null());
}

#[cfg(test)]
mod tests;
