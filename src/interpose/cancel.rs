//! Requests to end a thread (`pthread_cancel`), and the calls in which it ends.
//!
//! **Problem.** A thread asks another to end. That one ends at its next *cancellation point*: a call that may
//! wait. If it waits already, the wait ends. Then the C library unwinds the stack, and runs what the program
//! has pushed by `pthread_cleanup_push`.
//!
//! **Rejected.** *To leave it to the C library*, as for kernel threads. It sends a signal to the kernel
//! thread, and its handler unwinds the stack from where the thread is. A green thread may be elsewhere by then. And
//! the frames of this crate would be left as they are.
//!
//! **Shape.** Each thread has a [`Cancel`], with the request and what the thread says of requests. A function
//! that is a cancellation point does all in a [`point`]. That looks for a request first. A request
//! [interrupts](crate::park::interrupt) the thread's [`wait`] within. Then the call returns as if it had
//! failed, all frames of this crate but the function's are gone, and the point ends the thread. A call that
//! has done what it was asked for returns that; then the next point ends the thread.
//!
//! A thread may allow to be ended *anywhere*, for code that only computes. If it runs, it gets the preemption
//! signal, leaves its LWP, and ends when it comes back (`mxn/preempt.rs`).
//!
//! A kernel thread's request is the C library's, which judges it. What is here lets it wake from the waits
//! that are this crate's. In all other calls the C library ends it, so their functions may be unwound.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::park::current;
use crate::park::futex::cut::Cut;
use crate::park::wait::Wait;
use crate::sys::{next, objects};

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

/// `PTHREAD_CANCELED`.
const CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// Threads may be asked to end. If it is clear, no wait listens. See [`listen_if_used`].
static USED: AtomicBool = AtomicBool::new(true);

/// Lets waits listen only if some object of a finished program mentions `pthread_cancel`: to listen takes a
/// quarter of a wait for a condition variable. A library that is loaded later and asks threads to end does
/// not end the waits that have begun by then. Called before the program starts.
pub(crate) fn listen_if_used() {
    let here = listen_if_used as fn() as usize;
    let library = next::address_of_pthread_cancel();
    let mut used = false;
    objects::each(|object| {
        let is_other = !object.code().any(|code| code.contains(&here) || code.contains(&library));
        used = used || is_other && object.mentions(c"pthread_cancel");
    });
    // Relaxed: before the program starts.
    USED.store(used, Ordering::Relaxed);
}

#[inline]
fn is_used() -> bool {
    // Relaxed: a thread that asks another sets it first, and its request is seen or not.
    USED.load(Ordering::Relaxed)
}

/// What is known of the end of a thread.
#[derive(Debug)]
pub(crate) struct Cancel {
    /// Other threads set [`REQUESTED`] alone. All else is the thread's own.
    word: AtomicU32,
    /// Where a kernel thread waits for a semaphore; `None`: it is a green thread's.
    kernel: Option<Cut>,
}

thread_local! {
    /// That of the running thread, if it has one. It has no destructor, so that any code may read it.
    static OWN: Cell<*const Cancel> = const { Cell::new(ptr::null()) };
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
        Self { word: AtomicU32::new(0), kernel: None }
    }

    /// Creates that of a kernel thread.
    pub(crate) fn kernel() -> Self {
        Self { word: AtomicU32::new(0), kernel: Some(Cut::new()) }
    }

    /// Makes it the running thread's, which keeps it until it calls [`end`].
    pub(crate) fn begin(&self) {
        OWN.set(self);
    }

    /// Asks the thread to end. The caller interrupts it then. For a kernel thread, the C library has been
    /// asked before. `wake` is as [`Cut::cut`] says.
    pub(crate) fn request(&self, wake: impl FnMut(*const u32)) {
        // Relaxed: see `is_used`.
        USED.store(true, Ordering::Relaxed);
        // Release: what the caller did comes before the end. Pairs with `is_due`.
        self.word.fetch_or(REQUESTED, Ordering::Release);
        if let Some(cut) = &self.kernel {
            cut.cut(wake);
        }
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

    fn is_due(&self) -> bool {
        // Acquire: pairs with `request`.
        self.word.load(Ordering::Acquire) & (REQUESTED | DISABLED | ENDS) == REQUESTED
    }

    /// Returns `true` if the running thread, which has this, minds requests.
    fn listens(&self) -> bool {
        !self.has(DISABLED | ENDS)
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

    /// Ends the running thread, which has this, unless the C library judges otherwise. It unwinds.
    #[cold]
    fn act(&self) {
        if self.kernel.is_some() {
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

fn set(flag: u32, on: bool) -> Option<bool> {
    let own = own()?;
    let before = own.has(flag);
    own.change(flag, on);
    own.kernel.is_none().then_some(before)
}

/// Returns `true` if another thread has asked the running one to end, and that may be ended anywhere.
pub(crate) fn is_due_anywhere() -> bool {
    own().is_some_and(Cancel::is_due_anywhere)
}

/// Ends the running thread in this case. It unwinds.
pub(crate) fn test_anywhere() {
    if is_due_anywhere() {
        test();
    }
}

/// The thread ends: no request matters any more.
pub(crate) fn leave() {
    if let Some(own) = own() {
        own.change(ENDS, true);
    }
}

/// Takes from the running thread what [`Cancel::begin`] gave it.
pub(crate) fn end() {
    OWN.set(ptr::null());
}

/// Ends the running thread if another has asked for that. It unwinds.
#[inline]
pub(crate) fn test() {
    match own() {
        Some(own) if own.is_due() => own.act(),
        Some(Cancel { kernel: None, .. }) => {}
        // SAFETY: no arguments. The callers have nothing to drop.
        _ => unsafe { next::pthread_testcancel() },
    }
}

/// Makes a call that is a cancellation point of the running thread. Unwinds if the thread ends. The caller
/// and `call` have nothing to drop then.
#[inline]
pub fn point<R>(call: impl FnOnce() -> R) -> R {
    if !is_used() {
        return call();
    }
    test();
    let result = call();
    if let Some(own) = own()
        && own.has(CUT)
    {
        own.change(CUT, false);
        own.act();
    }
    result
}

/// Makes a call as [`point`] does, in which a request ends the wait by `ECANCELED`. In the cleanup of a
/// thread that ends already, no request does: the call is made again.
pub fn point_of_code(mut call: impl FnMut() -> c_int) -> c_int {
    loop {
        let code = point(&mut call);
        if code != libc::ECANCELED {
            return code;
        }
    }
}

/// Returns `true` if a request has ended a wait of this call. It makes no other wait, and returns.
pub(crate) fn is_cut() -> bool {
    own().is_some_and(|own| own.has(CUT))
}

/// Makes a wait that a request ends, too. `call` waits, and `is_interrupted` tells from its result if an
/// interrupt has ended that. Only used in a [`point`].
pub fn wait<R>(wait: Wait, mut call: impl FnMut(Wait) -> R, is_interrupted: impl Fn(&R) -> bool) -> R {
    if !is_used() || !own().is_some_and(Cancel::listens) {
        return call(wait);
    }
    let result = call(wait.interruptible());
    if !is_interrupted(&result) || own().is_some_and(Cancel::cut) {
        return result;
    }
    // The program's own interrupt, or the end of a runtime. It is for a wait that asks for that.
    current::current().interrupt();
    call(wait)
}

/// Sleeps by `sleep` at a futex, in the kernel, until that returns, or a request ends the sleep
/// (`ECANCELED`). Only used in a [`point`].
pub(crate) fn sleep_at(futex: *const u32, sleep: impl FnOnce() -> Result<(), c_int>) -> Result<(), c_int> {
    match own() {
        Some(own @ Cancel { kernel: Some(cut), .. }) if is_used() && own.listens() => {
            let slept = cut.sleep(futex, sleep).unwrap_or(Err(libc::ECANCELED));
            // Its signal is the C library's way to ask. It may come before it is known here.
            if matches!(slept, Err(libc::ECANCELED | libc::EINTR)) {
                own.change(CUT, true);
            }
            slept
        }
        _ => sleep(),
    }
}
