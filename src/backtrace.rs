//! Backtraces of threads that are looked at from outside, for dumps.
//!
//! **Problem.** A debugger stops the process before it reads a stack. A dump does not: threads run, park and
//! end meanwhile. A look must neither stop them nor cost them anything, and must not show a stack that
//! changed while it was read.
//!
//! **Rejected.**
//!
//! - A call, injected as for preemption, that captures the thread's own backtrace. It needs stack of the
//!   thread, and its unwinder allocates and takes locks in the middle of the thread's code.
//! - To unwind the stack where it is. A thread that runs on meanwhile leads the unwinder anywhere.
//! - To unwind by frame pointers: most programs have none.
//!
//! **The way.** The looker copies registers and stack, and finds out if the thread ran meanwhile. Then it
//! unwinds the copy ([`Unwinder`]). A frame's caller is found by the unwind tables of the loaded objects. If
//! these do not lead on, or if they need a register that is not known, the backtrace ends there. There are no
//! guesses, so no frame is wrong.
//!
//! Where the registers are depends on what the thread does:
//!
//! - A green thread that does not run has them in its last frame (`mxn/backtrace.rs`).
//! - A thread in a system call: the kernel tells stack pointer and program counter, without disturbing it
//!   ([`of_kernel_thread`]).
//! - A green thread that computes is asked by the preemption signal, and its handler copies all
//!   ([`slot`]). No other kernel thread is sent signals: its program has not agreed to that.

#[cfg_attr(
    not(all(
        feature = "backtraces",
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    path = "backtrace/absent.rs"
)]
mod present;
pub(crate) mod slot;

pub(crate) use self::present::{Unwinder, of_kernel_thread};

/// The most bytes of a stack that are copied.
pub(crate) const MOST: usize = 64 << 10;

/// How often a thread that ran while its stack was copied is looked at again.
pub(crate) const TRIES: usize = 5;

/// Where a thread stands, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Backtrace {
    /// For each frame an address in the instruction that is under way there.
    pub(crate) frames: Vec<usize>,
    /// Why there are no frames, or no more of them.
    pub(crate) note: Option<&'static str>,
}

impl Backtrace {
    /// Returns one without frames.
    pub(crate) fn none(why: &'static str) -> Self {
        Self { frames: Vec::new(), note: Some(why) }
    }
}

/// One function of a frame: the one that runs, or one that it was inlined into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its path; `None` if the program has no symbol there.
    pub(crate) name: Option<String>,
    /// The file, and the line there.
    pub(crate) place: Option<(String, u32)>,
}
