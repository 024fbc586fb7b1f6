//! The C library's thread control blocks: made, entered, left, used again.
//!
//! **The problem.** A compiler takes for granted that the thread register of a function does not change under
//! it. A thread that moves between kernel threads keeps that promise only if the register moves with it. So
//! every green thread needs a block of its own that is a thread's block to the C library and to every module
//! with thread-locals. No public interface makes one without a kernel thread.
//!
//! **Rejected.**
//!
//! - To harvest blocks from real pthreads that then sleep forever: a kernel task for each green thread. (On
//!   musl the kernel task can end. On glibc the kernel then tells the library.)
//! - To copy one kernel thread's block: its thread-locals are in use.
//! - To write the layout of `struct pthread` down for each version: wrong on the next one.
//! - To link the private entry points. The binary then names `GLIBC_PRIVATE` in its version needs, which
//!   distributions refuse. It fails at load, where this fails at start, with a message.
//!
//! **The way, on glibc** (musl has one of its own: `musl.rs`). Two private functions of the loader,
//! `_dl_allocate_tls` and `_dl_deallocate_tls`, have the same signatures from 2.23 to 2.44, as far as was
//! seen (`docs/glibc.md`). (`_dl_allocate_tls_init` has not, and is never called.) They and everything else
//! are bound by name at the first use (`symbols.rs`). Offsets of private fields come from the tables that
//! glibc has for debuggers, and from observing two real threads with known values (`calibrate.rs`). Every one
//! of them is checked against those threads. If anything is missing or does not fit, [`Library::get`] returns
//! an error that says which.
//!
//! **A block's life**: `create` by the spawner; `enter`, user code and `exit` by the thread, on its own
//! register; `renew` by the next spawner, as often as needed; `destroy`. Some of the block is the C library's
//! own, above all its allocator's cache. That survives renewal and even destruction: the next block that is
//! made inherits it (`carry_over.rs`), because only the library can free it.
//!
//! **Soundness.** Between `enter` and `exit`, only the thread that has the block's register touches a block
//! (I1). The thread that makes, renews or destroys it stands on another stack, with another register (I8).
//! The C library keeps lists of its threads, and a block is on none of them. `setxid.rs` mends one effect of
//! that; the others are among the limits below.
//!
//! **Limits**, each because the kernel thread is not the block's own:
//! - The thread's id, as the library sees it, is one that no kernel thread can have. These need bound
//!   threads: pthread mutexes that pass on priorities, and calls that pass the id to the kernel
//!   (`pthread_getattr_np`, `pthread_setname_np`, `pthread_getschedparam` of oneself).
//! - If the process ends while green threads hold robust mutexes, those of other processes do not learn it.
//!   At the end of a thread, `robust.rs` tells the next owner, in the kernel's place.
//! - If a module with *static* thread-locals is loaded while green threads live, it reads zeros in them until
//!   they end. Load such modules before the runtime starts, or use them from bound threads. A block made or
//!   renewed later has them right.
//! - A module must not be unloaded while a green thread runs in it, lazy binding included.
//! - A library that replaces the alternate signal stack of its thread replaces that of the kernel thread.
//! - `pthread_exit` and cancellation end the process, with a message.

#[cfg(any(
    all(
        target_os = "linux",
        target_env = "gnu",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    ),
    all(target_os = "linux", target_env = "musl", target_pointer_width = "64", target_arch = "x86_64")
))]
mod common;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod glibc;
#[cfg(not(any(
    all(
        target_os = "linux",
        target_env = "gnu",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    ),
    all(target_os = "linux", target_env = "musl", target_pointer_width = "64", target_arch = "x86_64")
)))]
#[path = "tcb/absent.rs"]
mod library;
#[cfg(all(target_os = "linux", target_env = "musl", target_pointer_width = "64", target_arch = "x86_64"))]
mod musl;
mod unfit;

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
use glibc as library;
#[cfg(all(
    target_os = "linux",
    target_env = "musl",
    target_pointer_width = "64",
    target_arch = "x86_64"
))]
use musl as library;

pub(crate) use library::{Library, SUPPORTED, check_library, hwcap2};

/// `true` if threads that belong to no runtime are green. On musl they are not: a green thread that calls
/// `setuid` there would change the user of one kernel thread only.
pub(crate) const DEFAULT: bool = SUPPORTED && !cfg!(target_env = "musl");

/// How code runs on a context of its own, so that it can be left from any depth. It runs on the stack of the
/// calling thread, below its frames.
#[allow(dead_code, reason = "glibc runs its destructors where it is asked to")]
#[derive(Debug)]
pub(crate) struct Aside {
    /// Runs a function with its argument and a way back. Returns once [`back`](Self::back) has been called
    /// with that.
    pub(crate) call: unsafe fn(unsafe extern "C" fn(*mut (), *mut ()) -> !, *mut ()),
    /// Leaves everything that `call` has begun.
    pub(crate) back: unsafe fn(*mut ()) -> !,
}

/// What [`Library::renew`] had to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renewed {
    /// Copied the first values of the thread-locals into place.
    Reset,
    /// Had the loader make the thread-locals again. Modules were loaded or unloaded since, or the last thread
    /// used those of a module that has them apart from the block.
    Rebuilt,
}
