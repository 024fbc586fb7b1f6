//! The C library and the kernel, and nothing of Selvedge: every system call of the crate is made here.
//!
//! Each file wraps one facility, says what the kernel promises, and turns failures into [`std::io::Error`]s
//! that name the limit that was reached. A file that exists for one platform only has a sibling with the same
//! names for the rest.

#[cfg_attr(not(target_os = "linux"), path = "sys/affinity_other.rs")]
pub(crate) mod affinity;
pub(crate) mod bytes;
pub(crate) mod caches;
#[cfg(test)]
#[cfg_attr(windows, path = "sys/windows/child_tests.rs")]
pub(crate) mod child_tests;
pub(crate) mod children;
#[cfg_attr(windows, path = "sys/windows/clock.rs")]
pub(crate) mod clock;
#[cfg_attr(not(target_os = "linux"), path = "sys/cpu_other.rs")]
pub(crate) mod cpu;
#[cfg_attr(windows, path = "sys/windows/crash.rs")]
pub(crate) mod crash;
#[cfg_attr(windows, path = "sys/windows/fork.rs")]
pub(crate) mod fork;
#[cfg_attr(any(not(target_os = "linux"), selvedge_futex = "parking_lot"), path = "sys/futex_other.rs")]
pub(crate) mod futex;
#[cfg_attr(windows, path = "sys/windows/kthread.rs")]
pub(crate) mod kthread;
#[cfg_attr(not(target_os = "linux"), path = "sys/memory_other.rs")]
pub(crate) mod memory;
pub(crate) mod message;
#[cfg_attr(windows, path = "sys/windows/mmap.rs")]
pub(crate) mod mmap;
pub(crate) mod moment;
pub(crate) mod nap;
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) mod next;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(crate) mod objects;
pub(crate) mod once;
#[cfg(all(feature = "signal", target_os = "linux"))]
pub(crate) mod per_process;
#[cfg(unix)]
pub(crate) mod poll;
pub(crate) mod poll_event;
#[cfg_attr(not(target_os = "linux"), path = "sys/poll_set_other.rs")]
pub(crate) mod poll_set;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_env = "gnu",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    path = "sys/preempt_other.rs"
)]
pub(crate) mod preempt;
#[cfg(unix)]
pub(crate) mod process;
pub(crate) mod pthread;
#[cfg(target_os = "linux")]
pub(crate) mod quit;
pub(crate) mod registers;
#[cfg(unix)]
mod short_file;
#[cfg(unix)]
mod sigaction;
#[cfg(all(feature = "signal", target_os = "linux"))]
pub(crate) mod signals;
#[cfg_attr(windows, path = "sys/windows/sigstack.rs")]
pub(crate) mod sigstack;
#[cfg(unix)]
pub(crate) mod socket;
#[cfg_attr(not(target_os = "linux"), path = "sys/task_state_other.rs")]
pub(crate) mod task_state;
pub(crate) mod tcb;
#[cfg_attr(windows, path = "sys/windows/thread_end.rs")]
pub(crate) mod thread_end;

/// Single calls that only one system has, for the files above.
#[cfg_attr(target_os = "linux", path = "sys/linux.rs")]
#[cfg_attr(all(unix, not(target_os = "linux")), path = "sys/other_unix.rs")]
#[cfg_attr(windows, path = "sys/windows.rs")]
mod system;

use std::io;

/// The kernel's number of a kernel thread.
pub(crate) type Tid = i32;

/// Returns `true` if the process has privileges that its user does not have: then the user's environment is
/// not to be trusted.
pub(crate) fn is_privileged() -> bool {
    system::is_privileged()
}

/// Returns the last error of the C library, with `context` in front of what the system says.
#[cold]
pub(crate) fn last_error(context: impl std::fmt::Display) -> io::Error {
    explain(&io::Error::last_os_error(), context)
}

/// Returns an error of the same kind that says what was being done.
#[cold]
pub(crate) fn explain(error: &io::Error, context: impl std::fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{context}: {error}"))
}
