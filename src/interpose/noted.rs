//! Calls that only change something. They are noted, so that others need not ask the kernel each time.
//!
//! A program that makes them in another way (as instructions, or in the parent process) is not noticed. Then
//! a timeout of a socket does not end a wait, and a call waits for one byte only. A handler of a signal may
//! wait while the signals are blocked that the kernel blocks for it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{sighandler_t, socklen_t};

use super::cancel;
use crate::sys::next;

/// Some socket has, or had, a timeout.
static TIMEOUTS: AtomicBool = AtomicBool::new(false);
/// Some socket has, or had, a least number of bytes to receive.
static LOW_MARKS: AtomicBool = AtomicBool::new(false);
/// Some signal has, or had, a handler that runs on the stack of the thread that it interrupts.
static HANDLERS: AtomicBool = AtomicBool::new(false);
/// The same of one that blocks no signal meanwhile, or for a part of that.
static UNMASKED: AtomicBool = AtomicBool::new(false);

/// Where handlers of signals run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handlers {
    /// On alternate stacks.
    Elsewhere,
    /// On the threads' own stacks, too. The signals that are blocked tell.
    Masked,
    /// There, and nothing tells. No thread waits: a program pays for such a handler.
    Unmasked,
}

/// Returns `true` if sockets may have timeouts.
pub(super) fn are_timeouts_set() -> bool {
    // Relaxed: the program orders its calls.
    TIMEOUTS.load(Ordering::Relaxed)
}

/// Returns `true` if calls may wait for more than one byte.
pub(super) fn are_low_marks_set() -> bool {
    // Relaxed: the program orders its calls.
    LOW_MARKS.load(Ordering::Relaxed)
}

/// Returns where handlers may run.
pub(super) fn handlers() -> Handlers {
    // Relaxed, both: a handler runs after it was installed.
    if !HANDLERS.load(Ordering::Relaxed) {
        Handlers::Elsewhere
    } else if !UNMASKED.load(Ordering::Relaxed) {
        Handlers::Masked
    } else {
        Handlers::Unmasked
    }
}

/// Notes that a handler of a signal blocks what its thread does, and goes on.
#[cold]
pub(crate) fn handler_is_unmasked() {
    note(&UNMASKED);
}

fn note(what: &AtomicBool) {
    what.store(true, Ordering::Relaxed);
}

/// See `setsockopt(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    match option {
        libc::SO_RCVTIMEO | libc::SO_SNDTIMEO if level == libc::SOL_SOCKET => note(&TIMEOUTS),
        libc::SO_RCVLOWAT if level == libc::SOL_SOCKET => note(&LOW_MARKS),
        _ => {}
    }
    // SAFETY: the caller's promise.
    unsafe { next::setsockopt(fd, level, option, value, len) }
}

/// See `sigaction(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: null, or the caller's promise.
    if let Some(new) = unsafe { new.as_ref() } {
        let is_handler = !matches!(new.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        if is_handler && new.sa_flags & libc::SA_ONSTACK == 0 {
            if new.sa_flags & libc::SA_NODEFER != 0 {
                note(&UNMASKED);
            }
            note(&HANDLERS);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { next::sigaction(signal, new, old) }
}

/// Defines functions of the C library that install a handler of a signal, each with what to note of it.
macro_rules! installers {
    ($($name:ident notes $($what:ident),+;)*) => {$(
        #[doc = concat!("See the C library's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            if !matches!(handler, libc::SIG_DFL | libc::SIG_IGN) {
                $(note(&$what);)+
            }
            // SAFETY: the caller's promise.
            unsafe { next::$name(signal, handler) }
        }
    )*};
}

// In System V, a handler's own signal is not blocked while it runs. Where a program asks for standard C alone
// (`cc -std=c99`), the C library's headers turn `signal` into `__sysv_signal`.
installers! {
    signal notes HANDLERS;
    bsd_signal notes HANDLERS;
    ssignal notes HANDLERS;
    sigset notes HANDLERS;
    sysv_signal notes UNMASKED, HANDLERS;
    __sysv_signal notes UNMASKED, HANDLERS;
}

/// Defines functions of the C library that jump. They do not return.
macro_rules! jumps {
    ($($name:ident)*) => {$(
        #[doc = concat!("See the C library's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C-unwind" fn $name(buffer: *mut c_void, value: c_int) {
            cancel::jumps();
            // SAFETY: the caller's promise.
            unsafe { next::$name(buffer, value) }
        }
    )*};
}

jumps! { longjmp _longjmp siglongjmp __longjmp_chk }
