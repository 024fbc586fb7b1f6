//! What is done at a signal: asked for, set, and done for a handler that this crate has put itself in front
//! of.

use std::ffi::{c_int, c_void};
use std::{io, mem, ptr};

/// A handler of three arguments, as `SA_SIGINFO` asks for.
pub(super) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The same of a program, which may unwind (Ada raises exceptions there).
pub(super) type Unwinding = extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Returns the action that calls `handler`: on the alternate stack, if there is one. It has these flags
/// besides.
pub(super) fn calling(handler: Handler, flags: c_int) -> libc::sigaction {
    let mut action = default();
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
    action
}

/// Does what [`calling`] does, for a handler that calls a program's.
pub(super) fn calling_unwinding(handler: Unwinding, flags: c_int) -> libc::sigaction {
    // SAFETY: the kernel calls both in the same way.
    calling(unsafe { mem::transmute::<Unwinding, Handler>(handler) }, flags)
}

/// Returns the default action.
pub(super) fn default() -> libc::sigaction {
    // SAFETY: plain data, for which zero is valid: SIG_DFL, no flags, no signals.
    unsafe { mem::zeroed() }
}

/// Returns `true` if `action` has a function to call.
pub(super) fn is_handler(action: &libc::sigaction) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

/// Returns `true` if two actions do the same, with the same signals blocked.
#[cfg(all(feature = "signal", target_os = "linux"))]
pub(super) fn are_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    // SAFETY: sets that came from the kernel, or are empty.
    let has =
        |action: &libc::sigaction, signal| unsafe { libc::sigismember(&raw const action.sa_mask, signal) };
    (one.sa_sigaction, one.sa_flags) == (other.sa_sigaction, other.sa_flags)
        && (1..=super::signals::LARGEST).all(|signal| has(one, signal) == has(other, signal))
}

/// Returns `true` if `signal` comes to `handler` first.
pub(super) fn comes_to(signal: c_int, handler: Handler) -> bool {
    of(signal).is_ok_and(|now| now.sa_sigaction == handler as libc::sighandler_t)
}

/// Returns the action of `signal`.
pub(super) fn of(signal: c_int) -> io::Result<libc::sigaction> {
    let mut now = default();
    // SAFETY: a query into a valid place.
    done(unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) }).map(|()| now)
}

/// Makes `action` that of `signal`.
///
/// # Safety
/// It came from [`of`], or is the default, or its handler is async-signal-safe.
pub(super) unsafe fn set(signal: c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: an action of the type that its flags say (contract).
    done(unsafe { libc::sigaction(signal, action, ptr::null_mut()) })
}

fn done(rc: c_int) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Calls the function of `action`, in a handler, with what that got. It may unwind.
///
/// # Safety
/// The action [has one](is_handler), and came from [`of`].
pub(super) unsafe fn call(
    action: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let address = action.sa_sigaction;
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: installed with SA_SIGINFO, so it is of this type.
        let handler = unsafe { mem::transmute::<libc::sighandler_t, Unwinding>(address) };
        handler(signal, info, context);
    } else {
        // SAFETY: installed without SA_SIGINFO, so it is of this type.
        let handler = unsafe { mem::transmute::<libc::sighandler_t, extern "C-unwind" fn(c_int)>(address) };
        handler(signal);
    }
}
