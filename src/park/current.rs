//! Which thread of control is running.

use std::cell::Cell;

use super::thread::{ThreadCore, ThreadRef};

thread_local! {
    // No destructor and a constant start: one load from the thread register, also on a green thread's own block.
    static CURRENT: Cell<*const ThreadCore> = const { Cell::new(std::ptr::null()) };
}

/// The running thread, or `None` for a kernel thread that Selvedge has not met.
#[inline]
pub(crate) fn try_current() -> Option<ThreadRef> {
    let core = CURRENT.get();
    // SAFETY: only `set_current` writes it, with a type-stable core.
    unsafe { core.as_ref() }.map(ThreadRef::new)
}

/// Says which thread runs on this thread register.
#[inline]
pub(crate) fn set_current(thread: Option<ThreadRef>) {
    CURRENT.set(thread.map_or(std::ptr::null(), |t| t.core()));
}
