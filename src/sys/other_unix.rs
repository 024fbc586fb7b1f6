//! The names of `linux.rs` for systems that have nothing of the kind. What is lost is speed, or a better
//! message.

use std::ffi::CStr;
use std::ops::Range;
use std::time::Duration;

pub(super) use libc::SIGURG;

use super::{Tid, pthread};

pub(super) const UNCHARGED: libc::c_int = 0;

pub(super) const GUARD_BY_MARKERS: Option<libc::c_int> = None;

pub(super) const NO_HUGE_PAGES: Option<libc::c_int> = None;

pub(super) const TOUCH: Option<libc::c_int> = None;

stand_in! {
    /// Returns `None`: there is no such call.
    pub(super) unsafe fn advise_each(ranges: &[libc::iovec], advice: libc::c_int) -> Option<usize> = None;
    /// Returns `false`: green threads do not run there.
    pub(super) fn stacks_may_run() -> bool = false;
    /// Mappings have no names.
    pub(super) fn name_mapping(start: *mut u8, len: usize, name: &'static CStr) = ();
    /// The system has no such setting.
    pub(super) fn timer_slack() -> u64 = 0;
    /// The system has no such setting.
    pub(super) fn set_timer_slack(slack: u64) = ();
    /// Threads go unnamed.
    pub(super) fn name_thread(name: &CStr) = ();
    /// Returns 0: kernel threads have no numbers that `task_state` could use.
    pub(super) fn gettid() -> Tid = 0;
    /// Returns 0: the system does not say.
    pub(super) fn minimum_signal_stack() -> usize = 0;
    /// Returns 0: the system does not say.
    pub(super) fn own_share_of_stacks() -> usize = 0;
    /// Returns `None`, so an overflow of a kernel thread is left to std.
    pub(super) fn own_stack() -> Option<(Range<usize>, usize)> = None;
    /// Does nothing: there is no such thing.
    pub(super) fn ask_for_short_slice(slice: Duration) = ();
}

/// Joins a thread. The system does not say whether it has to wait.
///
/// # Safety
/// Neither joined nor detached before, and not again.
pub(super) unsafe fn try_join(thread: libc::pthread_t) -> bool {
    // SAFETY: the caller's promise.
    unsafe { pthread::pthread_join(thread, std::ptr::null_mut()) };
    true
}

/// Returns `true` if the process has privileges that its user does not have.
pub(super) fn is_privileged() -> bool {
    // SAFETY: no arguments.
    let (user, rights) = (unsafe { libc::getuid() }, unsafe { libc::geteuid() });
    // SAFETY: no arguments.
    let (group, group_rights) = (unsafe { libc::getgid() }, unsafe { libc::getegid() });
    user != rights || group != group_rights
}

/// Runs `f`. Only code that comes in between needs `errno` kept.
pub(crate) fn keep_errno<R>(f: impl FnOnce() -> R) -> R {
    f()
}
