//! What only the machine can do: leave one stack for another, move the thread register with it, and make
//! interrupted code call a function.
//!
//! There is one file and one folder for each instruction set, all with the same names; this file only picks.
//! If none fits, `unsupported` stands in. So `onetoone` builds everywhere, and `mxn` returns an error
//! ([`SUPPORTED`]).

#[cfg(all(target_arch = "aarch64", target_pointer_width = "64", unix))]
mod aarch64;
#[cfg(all(target_arch = "riscv64", unix))]
mod riscv64;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    target_pointer_width = "64",
    target_os = "linux"
)))]
mod unsupported;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", unix))]
mod x86_64;

#[cfg(all(target_arch = "aarch64", target_pointer_width = "64", unix))]
use aarch64 as isa;
#[cfg(all(target_arch = "riscv64", unix))]
use riscv64 as isa;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    target_pointer_width = "64",
    unix
)))]
use unsupported as isa;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", unix))]
use x86_64 as isa;

#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    target_pointer_width = "64",
    target_os = "linux"
))]
pub(crate) use isa::{inject, tp};
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    target_pointer_width = "64",
    target_os = "linux"
)))]
pub(crate) use unsupported::{inject, tp};

pub(crate) mod valgrind;

#[cfg(all(
    test,
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod inject_tests;
#[cfg(all(
    test,
    target_pointer_width = "64",
    unix,
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
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
pub(crate) use isa::jump_probe;
pub(crate) use isa::{
    FRAME_BELOW, HAS_COUNTER, SUPPORTED, counter, fetch_to_write, init, is_start, suspended, switch,
    switch_tp, switch_tp_syscall,
};

#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
use std::ffi::c_void;

#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) use isa::{call_landed, checked_load, load_checked};

/// A function to call, and where a jump out of it lands (`call_landed`).
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Landing {
    /// The C library's `__sigsetjmp`.
    pub(crate) set: unsafe extern "C" fn(*mut c_void, i32) -> i32,
    /// The C library's `__pthread_register_cancel`.
    pub(crate) register: unsafe extern "C" fn(*mut c_void),
    /// The C library's `__pthread_unregister_cancel`.
    pub(crate) unregister: unsafe extern "C" fn(*mut c_void),
    pub(crate) function: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    /// The argument, then the result.
    pub(crate) value: *mut c_void,
    pub(crate) buffer: LandingBuffer,
}

/// Room for the C library's `__pthread_unwind_buf_t`.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct LandingBuffer(pub(crate) [u64; 48]);

#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
const _: () =
    assert!(std::mem::offset_of!(Landing, value) == 32 && std::mem::offset_of!(Landing, buffer) == 48);

/// Where a suspended context can be resumed: its stack pointer, with its frame beside it.
///
/// The switch that resumes it uses it up.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SavedSp(*mut u8);

impl SavedSp {
    /// The value for a context that runs, or has not been made yet.
    pub(crate) const NONE: Self = Self(std::ptr::null_mut());

    /// Begins to fetch what the switch to it reads first.
    #[inline(always)]
    pub(crate) fn fetch(self) {
        fetch_to_write(self.0);
    }
}

/// The first function of a context. `arg` is that of the first switch to it, and `data` that of [`init`].
///
/// It never returns. Its context ends when no thread switches to it again.
pub(crate) type Entry = unsafe extern "C" fn(arg: usize, data: *mut ()) -> !;

/// A function that [`inject`](inject::inject) makes interrupted code call.
///
/// It finds the machine as any function does. But the thread has not asked for the call, and the interrupted
/// code is in the middle of something. It may switch to other contexts, and return on another kernel thread.
pub(crate) trait Injected {
    /// Must not unwind, which `extern "C"` turns into an abort.
    extern "C" fn call();
}
