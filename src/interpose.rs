//! The calls of programs that have never heard of this crate (feature `interpose`).
//!
//! **Problem.** std's locks, channels and sockets, and most crates, wait in the C library. A green thread
//! that does so takes its LWP along. Their sources cannot be changed, and std is compiled already.
//!
//! **Rejected.**
//!
//! - To hook functions by writing into the code or the tables of a library. Each C library, linker and
//!   hardening option needs its own way, and a mistake is found by a crash.
//! - `ptrace`, or a filter of system calls with a signal: microseconds for each call, of threads that are
//!   not concerned, too.
//!
//! **Shape.** An executable's functions come before those of the libraries that it is linked with. The
//! functions here have the names of the C library's, so they are called in their place. The callers are std,
//! all crates, and shared libraries that the executable is linked with. Each asks whether the calling thread
//! is green and may wait where it stands ([`caller`]). If not, it calls the C library's function of the same
//! name (`sys/next.rs`). That is so in all other threads, in handlers of signals, and in forked children. It
//! is also so in this crate's own code while it must not be preempted. A function here asks of its caller what
//! the C library's asks: that is its safety contract.
//!
//! | file | calls | a green thread |
//! |---|---|---|
//! | [`futex`] | `syscall(SYS_futex, ..)` | waits in a queue |
//! | [`bytes`], [`sockets`] | `read`, `recv`, `accept`, `connect` and their like | waits for the descriptor |
//! | [`many`] | `poll`, `select`, `epoll_wait` and their like | waits for descriptors |
//! | [`fortified`] | some of these, in programs that are compiled with checks | as there |
//! | [`clocks`] | `nanosleep`, `usleep`, `sched_yield` and their like | sleeps, or yields |
//! | [`children`] | `waitpid` and its like | waits for the process |
//! | [`noted`] | `setsockopt`, `sigaction`, `signal` and its like | makes them, and others need not ask the kernel |
//! | [`awaited`] | `sigwait`, `sigsuspend`, `pause` and their like, `sigpending` | blocks its LWP, and says so |
//! | [`mod@announced`] | `getaddrinfo`, `fsync`, `flock` and their like | blocks its LWP, and says so |
//!
//! What this crate does not see: system calls that are made as instructions, in the C library itself or by
//! `rustix`. They block the LWP, which the monitor makes up for.
//!
//! Three functions do something of this crate's own in any thread: `close` and `dup2` tell those that wait
//! for the descriptor, and the wake-up of a futex looks for green waiters. In a handler of a signal that has
//! interrupted this crate's code, the first two leave it, and the third must not be called. (No lock of std
//! or of the C library may be used there.)

use std::io;

use crate::sys::next;

mod announced;
mod awaited;
mod bytes;
mod caller;
pub(crate) mod cancel;
mod children;
mod clocks;
mod descriptor;
mod fortified;
mod futex;
mod many;
mod noted;
mod sockets;
mod user_memory;

pub(crate) use caller::{announced, duration, green};
pub(crate) use clocks::moment;
pub(crate) use noted::handler_is_unmasked;

/// Threads may have signal masks of their own.
pub(crate) const HAS_MASKS: bool = true;

/// Returns `true` if the program's calls come here first. In a library that is loaded by a program, they do
/// not.
pub(crate) fn is_on() -> bool {
    next::is_first(futex::syscall as *const ())
}

/// Prepares what green threads need here. Returns an error if another library must see all calls.
///
/// # Errors
///
/// Under a sanitizer. If threads of std are to be green, and the program's calls do not come here.
pub(crate) fn check(green_std_threads: bool) -> io::Result<()> {
    if next::is_sanitized() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "feature `interpose`: a sanitizer has functions of the same names; build without one of them",
        ));
    }
    if green_std_threads && !is_on() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "green threads of std (SELVEDGE_STD_THREADS, or green_std_threads): the program's calls go to the \
             C library itself, as those of a library do that a program loads",
        ));
    }
    user_memory::prepare();
    Ok(())
}

#[cfg(test)]
mod tests;
