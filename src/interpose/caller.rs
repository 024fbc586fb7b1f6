//! Which thread calls, and whether it may wait here.

use std::time::Duration;

use super::cancel;
use super::noted::{self, Handlers};
use crate::park::backend;
use crate::park::current;
use crate::park::no_preempt;
use crate::park::thread::ThreadRef;

/// Returns the running thread if it is green and may wait where it stands. One load of a thread-local and a
/// comparison for a thread that Selvedge has not met.
#[inline]
pub(crate) fn green() -> Option<ThreadRef> {
    let me = current::try_current()?;
    if me.is_kernel() { None } else { may_wait(me) }
}

/// Returns the green thread `me`, unless this crate's own code calls, or a handler of a signal. A handler
/// must not leave the LWP: the kernel would restore the LWP's mask and its alternate stack on another one.
fn may_wait(me: ThreadRef) -> Option<ThreadRef> {
    if !no_preempt::is_allowed() {
        return None;
    }
    let here = 0_u8;
    let backend = me.backend();
    let on_own_stack = backend.may_wait_at(&me, (&raw const here).addr());
    let in_handler = || match noted::handlers() {
        Handlers::Elsewhere => false,
        Handlers::Masked => cancel::has_other_mask() || !backend.has_usual_mask(&me),
        Handlers::Unmasked => true,
    };
    (on_own_stack && !in_handler()).then_some(me)
}

/// Makes a call that may block for long. If the running thread is green, its slot may be released meanwhile.
#[inline]
pub(crate) fn announced<R>(call: impl FnOnce() -> R) -> R {
    match green() {
        Some(me) => backend::blocking(me, call),
        None => call(),
    }
}

/// Returns what a C time means, or `None` if it is none.
pub(crate) fn duration(time: libc::timespec) -> Option<Duration> {
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}
