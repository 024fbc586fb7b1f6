//! The calls in which a thread ends, and those in which it ends nowhere.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;

use super::signals::{self, Ends};
use super::{ANYWHERE, CUT, Cancel, POKED, REFUSING, REQUESTED, are_signals_used, is_used, own, refusing};
use crate::interpose::caller::{announced, green};
use crate::park::current;
use crate::park::wait::Wait;
use crate::sys::next::{self, errno, fail};
use crate::sys::preempt::keep_errno;

/// Ends the running thread if another has asked for that. It unwinds.
#[inline]
pub(crate) fn test() {
    match own() {
        Some(own) if own.is_due() => own.act(),
        Some(own) if !own.is_kernel => {}
        // SAFETY: no arguments. The callers have nothing to drop.
        _ => unsafe { next::pthread_testcancel() },
    }
}

/// Makes a call that is a cancellation point of the running thread. Unwinds if the thread ends. The caller
/// and `call` have nothing to drop then. Where this crate, or what it calls, makes such a call in another,
/// a green thread goes on: the outer one ends it.
#[inline]
pub fn point<R>(call: impl FnOnce() -> R) -> R {
    if !is_used() {
        return call();
    }
    if is_nested() {
        return refusing(call);
    }
    test();
    let result = undisturbed(call);
    if let Some(own) = own()
        && own.has(CUT | ANYWHERE | POKED)
    {
        end_point(own);
    }
    result
}

/// Does what is to be done at the end of a call that is a cancellation point. Unwinds if the thread ends.
#[cold]
fn end_point(own: &Cancel) {
    if own.has(POKED) {
        // The program looks at it next.
        keep_errno(signals::run_handlers);
    }
    if own.has(CUT) || own.has(ANYWHERE) && own.is_due() {
        own.change(CUT, false);
        own.act();
    }
}

/// Returns `true` if the running thread is green, and is in a call of this crate already. A handler of a
/// signal that has interrupted such a call is not.
#[inline]
fn is_nested() -> bool {
    own().is_some_and(|own| own.is_within() && is_green())
}

#[cold]
fn is_green() -> bool {
    green().is_some()
}

/// Returns `true` if calls that seldom wait are cancellation points here. They are none where this crate
/// calls them in another call, such as `close` where a value is dropped.
#[inline]
pub(in crate::interpose) fn is_outside() -> bool {
    is_used() && own().is_none_or(|own| !own.is_within())
}

/// Calls `call`, in which the running thread is ended nowhere but in calls of the C library.
#[inline]
pub fn undisturbed<R>(call: impl FnOnce() -> R) -> R {
    let Some(own) = own() else { return call() };
    let outside = own.is_within();
    // Relaxed, both: the thread's own.
    own.within.store(true, Ordering::Relaxed);
    let result = call();
    own.within.store(outside, Ordering::Relaxed);
    result
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

/// Calls `call`, in which the running thread is ended nowhere. A kernel thread is to end at the C library's
/// cancellation points, which this crate calls, too. It may unwind when `call` has returned, as
/// `pthread_setcancelstate` does.
pub(crate) fn unended<R>(call: impl FnOnce() -> R) -> R {
    if own().is_some_and(|own| !own.is_kernel) {
        return refusing(call);
    }
    let mut before = 0;
    // SAFETY: a place for the old state.
    unsafe { next::pthread_setcancelstate(DISABLE, &raw mut before) };
    let result = refusing(call);
    // SAFETY: no place for the old state.
    unsafe { next::pthread_setcancelstate(before, ptr::null_mut()) };
    result
}

/// Makes a call of the C library that blocks the LWP, or may, and holds no lock there. If the running thread
/// is green, a request ends the thread within. Only used in a [`point`].
pub(in crate::interpose) fn in_call<R: From<i8> + PartialEq>(call: impl FnOnce() -> R) -> R {
    in_call_at(|own| own.word.as_ptr(), call)
}

/// Makes such a call of which the C library marks the part that may be left, up to 2.40. In later ones, a
/// request is seen before the call.
pub fn in_marked_call<R: From<i8> + PartialEq>(call: impl FnOnce() -> R) -> R {
    in_call_at(|own| ptr::from_ref(&own.cut).cast(), call)
}

/// Makes a call, and shows that the thread is in this place meanwhile.
#[inline]
fn in_call_at<R: From<i8> + PartialEq>(
    place: impl FnOnce(&Cancel) -> *const u32,
    call: impl FnOnce() -> R,
) -> R {
    let listens = |own: &&Cancel| !own.is_kernel && own.listens();
    let own = if is_used() { own().filter(listens) } else { None };
    let Some(own) = own else { return call() };
    let Some(result) = own.cut.sleep(place(own), call) else {
        own.cut();
        return fail(libc::ECANCELED);
    };
    // The signal came at a moment when it could do no more.
    if result == R::from(-1) && errno() == libc::EINTR {
        own.cut();
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

/// Returns `true` if a request has ended a wait of this call. It makes no other wait, and returns. In a call
/// within, which refuses requests, that has ended none of its own.
pub(in crate::interpose) fn is_cut() -> bool {
    own().is_some_and(|own| own.has(CUT) && !own.has(REFUSING))
}

/// Returns the code of a call whose wait has ended for a request (`ECANCELED`), or for a handler of a signal.
pub(crate) fn code_of_end() -> c_int {
    if is_cut() { libc::ECANCELED } else { libc::EINTR }
}

/// Makes a wait that a request ends, too, or a signal for the thread: the thread is then woken for nothing.
/// `call` waits, and `is_interrupted` tells from its result if an interrupt has ended that. Only used in a
/// [`point`].
pub fn wait<R>(wait: Wait, call: impl FnMut(Wait) -> R, is_interrupted: impl Fn(&R) -> bool) -> R {
    wait_unless(Ends::ForNothing, wait, call, is_interrupted)
}

/// Makes a wait that neither a request nor a signal ends, and in which handlers of signals run. For the
/// arguments, see [`wait`].
#[inline]
pub fn lock<R>(wait: Wait, call: impl FnMut(Wait) -> R, is_interrupted: impl Fn(&R) -> bool) -> R {
    wait_outside(Ends::Never, wait, call, is_interrupted)
}

/// Returns `true` if handlers of signals run in locks of the running thread.
#[inline]
pub fn handles_signals() -> bool {
    are_signals_used() && own().is_some_and(|own| !own.is_kernel)
}

/// Makes a wait that is no cancellation point, and that handlers of signals end, as `ends` says. For the
/// other arguments, see [`wait`].
pub(crate) fn wait_outside<R>(
    ends: Ends,
    wait: Wait,
    mut call: impl FnMut(Wait) -> R,
    is_interrupted: impl Fn(&R) -> bool,
) -> R {
    if handles_signals() {
        let result = listen(|_| false, ends, wait, call, is_interrupted);
        keep_errno(signals::run_handlers);
        result
    } else {
        call(wait)
    }
}

/// Makes a wait that a request ends, too, or handlers of signals, as `ends` says. For the other arguments,
/// see [`wait`].
pub(crate) fn wait_unless<R>(
    ends: Ends,
    wait: Wait,
    call: impl FnMut(Wait) -> R,
    is_interrupted: impl Fn(&R) -> bool,
) -> R {
    listen(Cancel::cut, ends, wait, call, is_interrupted)
}

/// Makes a wait that ends if `is_cut` returns `true` after an interrupt, too, or for a signal.
fn listen<R>(
    is_cut: impl Fn(&Cancel) -> bool,
    ends: Ends,
    wait: Wait,
    mut call: impl FnMut(Wait) -> R,
    is_interrupted: impl Fn(&R) -> bool,
) -> R {
    let Some(own) = own().filter(|own| is_used() && own.may_wake()) else { return call(wait) };
    let mut is_noted = false;
    let result = loop {
        own.forget_nudge();
        let result = call(wait.interruptible());
        if !is_interrupted(&result) || is_cut(own) {
            break result;
        }
        match own.ends_wait(ends) {
            Some(true) => break result,
            Some(false) => {}
            None if ends == Ends::ForNothing => break result,
            // The request is for a later point.
            None if own.has(REQUESTED) && !std::mem::replace(&mut is_noted, true) => {}
            None => {
                // The program's own interrupt, or the end of a runtime. It is for a wait that asks for that.
                current::current().interrupt();
                break call(wait);
            }
        }
    };
    if is_noted && own.is_within() {
        // That may be the one that this call is in. It waits next, and looks for no request before.
        current::current().interrupt();
    }
    result
}

/// Makes such a call, announced.
pub(in crate::interpose) fn announced_call<R: From<i8> + PartialEq>(call: impl FnOnce() -> R) -> R {
    announced(|| in_call(call))
}

/// Sleeps by `sleep` at a futex, in the kernel, until that returns, or a request ends the sleep
/// (`ECANCELED`). Only used in a [`point`].
pub(crate) fn sleep_at(futex: *const u32, sleep: impl FnOnce() -> Result<(), c_int>) -> Result<(), c_int> {
    match own() {
        Some(own) if is_used() && own.listens() => {
            let slept = own.cut.sleep(futex, sleep).unwrap_or(Err(libc::ECANCELED));
            if matches!(slept, Err(libc::ECANCELED | libc::EINTR)) {
                if own.is_kernel {
                    // Its signal is the C library's way to ask. It may come before it is known here.
                    own.change(CUT, true);
                } else {
                    own.cut();
                }
            }
            slept
        }
        _ => sleep(),
    }
}
