//! What only the machine can do: leave one stack for another, move the thread register with it, and make
//! interrupted code call a function.
//!
//! `context`, `inject` and `guarded` say what each instruction set does, and hold what is the same in all.
//! There is one file and one folder for each set, all with the same names: assembly, its pictures and its
//! reasons. This file only picks. If none fits, `unsupported` stands in. So `onetoone` builds everywhere, and
//! `mxn` returns an error ([`SUPPORTED`]).

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
pub(crate) use isa::{inject as trampoline, tp};
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    target_pointer_width = "64",
    target_os = "linux"
)))]
pub(crate) use unsupported::{inject as trampoline, tp};

mod context;
pub(crate) mod guarded;
pub(crate) mod inject;
pub(crate) mod valgrind;
#[cfg(all(
    any(target_arch = "aarch64", target_arch = "riscv64"),
    target_pointer_width = "64",
    target_os = "linux"
))]
mod writable_tp;

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

pub(crate) use context::{Entry, SavedSp, init, is_start, switch, switch_tp, switch_tp_syscall};
pub(crate) use inject::Injected;
pub(crate) use isa::{FRAME_BELOW, SUPPORTED, counter, fetch_to_write, suspended};
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) use isa::{checked_load, float_modes, set_float_modes};

/// `true` if there is a [`counter`]: each instruction set with contexts has one.
pub(crate) const HAS_COUNTER: bool = SUPPORTED;
