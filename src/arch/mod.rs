//! What only the machine can do: leave one stack for another, move the thread register with it, and call a function in the
//! place of code that knows nothing of it.
//!
//! One file per instruction set, all with the same names; this file only picks. Where no file fits, `unsupported.rs`
//! stands in, so that the one-to-one runtime builds everywhere and the green one can say no ([`SUPPORTED`]).

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", unix))]
#[path = "x86_64.rs"]
mod isa;
#[cfg(all(target_arch = "aarch64", target_pointer_width = "64", unix))]
#[path = "aarch64.rs"]
mod isa;
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_pointer_width = "64", unix)))]
#[path = "unsupported.rs"]
mod isa;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux"))]
#[path = "x86_64_tp.rs"]
pub(crate) mod tp;
#[cfg(all(target_arch = "aarch64", target_pointer_width = "64", target_os = "linux"))]
#[path = "aarch64_tp.rs"]
pub(crate) mod tp;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    target_os = "linux"
)))]
#[path = "unsupported_tp.rs"]
pub(crate) mod tp;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux"))]
#[path = "x86_64_inject.rs"]
pub(crate) mod inject;
#[cfg(all(target_arch = "aarch64", target_pointer_width = "64", target_os = "linux"))]
#[path = "aarch64_inject.rs"]
pub(crate) mod inject;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    target_os = "linux"
)))]
#[path = "unsupported_inject.rs"]
pub(crate) mod inject;

pub(crate) mod valgrind;

#[cfg(all(
    test,
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod inject_tests;
#[cfg(all(test, target_pointer_width = "64", target_os = "linux", target_arch = "x86_64"))]
#[path = "x86_64_jump_probe.rs"]
pub(crate) mod jump_probe;
#[cfg(all(test, target_pointer_width = "64", unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests;
#[cfg(all(test, target_pointer_width = "64", unix, target_arch = "x86_64"))]
mod valgrind_tests;
#[cfg(all(
    test,
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    target_arch = "x86_64"
))]
mod x86_64_inject_tests;

pub(crate) use isa::{SUPPORTED, fetch_to_write, init, switch, switch_tp, switch_tp_syscall};

/// Where a context that nobody runs can be taken up again: its stack pointer, with its frame beside it.
///
/// It is spent by the switch that resumes it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SavedSp(*mut u8);

impl SavedSp {
    /// Of a context that runs, or has not been made: the other value of a slot that a switch fills.
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());
}

/// The first function of a context: `arg` from the first switch to it, `data` from [`init`].
///
/// It never returns; its context ends by never being switched to again.
pub(crate) type Entry = unsafe extern "C" fn(arg: usize, data: *mut ()) -> !;

/// A function that [`inject`](inject::inject) makes interrupted code call.
///
/// It finds the machine as any function does, except that the thread has not asked for it: whatever the code it stopped
/// was in the middle of, it still is. It may switch to other contexts, and return on another kernel thread.
pub(crate) trait Injected {
    /// Must not unwind, which `extern "C"` turns into an abort.
    extern "C" fn call();
}
