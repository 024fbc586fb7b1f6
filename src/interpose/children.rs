//! `waitpid` and its like.

use std::ffi::{c_int, c_long};

use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};

use super::bytes::close_own;
use super::caller::green;
use super::cancel::{self, Ends, in_call, point};
use super::descriptor::{self, Direction, Ready};
use crate::park::backend;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::sys::next::{self, fail};

/// Waits, for the green thread `me`, until the process of this number has ended; 0 or less: no one process.
fn until_ended(me: ThreadRef, pid: pid_t) -> Ready {
    if pid <= 0 {
        return Ready::Unknown;
    }
    // SAFETY: no memory is involved.
    let descriptor = unsafe { next::syscall(libc::SYS_pidfd_open, c_long::from(pid), 0, 0, 0, 0, 0) };
    let Ok(descriptor) = c_int::try_from(descriptor) else { return Ready::Unknown };
    if descriptor < 0 {
        return Ready::Unknown;
    }
    let ready = until_ready(me, descriptor, Ends::Always);
    close_own(descriptor);
    // Handlers run after that, since they may jump.
    if matches!(ready, Ready::Cut) && !cancel::ends_call() { Ready::Yes } else { ready }
}

/// Waits for a descriptor of a process.
fn until_ready(me: ThreadRef, descriptor: c_int, ends: Ends) -> Ready {
    descriptor::until_ready(me, descriptor, Direction::Read, Wait::forever(), ends)
}

/// Asks with `look` for a child's state until there is one, or an error. `ended` waits for the child's end.
fn ask<T: From<i8> + PartialEq>(
    me: ThreadRef,
    options: c_int,
    look: impl Fn(c_int) -> T,
    is_there: impl Fn(&T) -> bool,
    ended: impl Fn() -> Ready,
) -> T {
    // Other changes of state make no event.
    let only_ends = options & (libc::WSTOPPED | libc::WCONTINUED) == 0;
    if options & libc::WNOHANG != 0 {
        return look(options);
    }
    if only_ends {
        loop {
            let found = look(options | libc::WNOHANG);
            if found == T::from(-1) || is_there(&found) {
                return found;
            }
            match ended() {
                Ready::Yes => {}
                Ready::Cut => return fail(cancel::code_of_end()),
                Ready::TimedOut | Ready::Unknown => break,
            }
        }
    }
    backend::blocking(me, || in_call(|| look(options)))
}

/// See `waitpid(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    // SAFETY: the caller's promise.
    let look = |options| unsafe { next::waitpid(pid, status, options) };
    match green() {
        Some(me) => point(|| ask(me, options, look, |&found| found != 0, || until_ended(me, pid))),
        None => look(options),
    }
}

/// See `wait4(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn wait4(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    // SAFETY: the caller's promise.
    let look = |options| unsafe { next::wait4(pid, status, options, usage) };
    match green() {
        Some(me) => point(|| ask(me, options, look, |&found| found != 0, || until_ended(me, pid))),
        None => look(options),
    }
}

/// See `waitid(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn waitid(
    kind: idtype_t,
    id: id_t,
    info: *mut siginfo_t,
    options: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let look = |options| unsafe { next::waitid(kind, id, info, options) };
    let Some(me) = green() else { return look(options) };
    point(|| {
        if kind == libc::P_PIDFD && !descriptor::blocks(id as c_int) {
            return look(options);
        }
        if info.is_null() {
            // It would not be said whether a child was found.
            return backend::blocking(me, || in_call(|| look(options)));
        }
        let is_there = |_: &c_int| {
            // SAFETY: the caller's promise.
            let found = unsafe { &*info };
            // SAFETY: the kernel has written it; without a child, the number is 0.
            unsafe { found.si_pid() != 0 }
        };
        let ended = || match kind {
            libc::P_PID => until_ended(me, id as pid_t),
            libc::P_PIDFD => until_ready(me, id as c_int, Ends::AsAsked),
            _ => Ready::Unknown,
        };
        ask(me, options, look, is_there, ended)
    })
}
