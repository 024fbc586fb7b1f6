//! The C library's thread control blocks: made, entered, left, used again.
//!
//! **The problem.** A compiler takes for granted that the thread register of a function does not change under it. A
//! thread that moves between kernel threads keeps that promise only if the register moves with it, so every green thread
//! needs a block of its own that is, to the C library and to every module with thread-locals, a thread's block. No public
//! interface makes one without a kernel thread.
//!
//! **Rejected.** Harvesting blocks from real pthreads that then sleep for ever: a kernel task for each green thread.
//! Copying one kernel thread's block: its thread-locals are in use. Writing the layout of `struct pthread` down for each
//! version: wrong on the next one. Linking the private entry points: the binary then names `GLIBC_PRIVATE` in its version
//! needs, which distributions refuse, and it fails at load where this fails at start, with words.
//!
//! **The way.** Two private functions of the loader, `_dl_allocate_tls` and `_dl_deallocate_tls`, have kept their
//! signatures since 2.17; `_dl_allocate_tls_init`, which has not, is never called. They and everything else are bound by
//! name at the first use (`symbols.rs`). Offsets of private fields come from the tables that glibc exports for debuggers,
//! and from observing two real threads whose values are known (`calibrate.rs`); every one of them is checked against those
//! threads. Whatever is missing or does not fit makes [`Glibc::get`] an error that says which.
//!
//! **A block's life**: `create` by the spawner; `enter`, user code and `exit` by the thread, on its own register; `renew` by
//! the next spawner, as often as wanted; `destroy`. What is the C library's own in the block, its allocator's cache above
//! all, survives renewal and even destruction: the next block that is made inherits it (`estate.rs`), because nothing
//! outside the library can free it.
//!
//! **Soundness.** Only the thread whose register points to a block touches it between `enter` and `exit` (I1), and
//! whoever makes, renews or destroys it stands on another stack, with another register (I8). The C library keeps
//! lists of its threads; a block is on none of them, which is what `setxid.rs` mends and the limits below come from.
//!
//! **Limits**, each a consequence of the kernel thread not being the block's own:
//! - The thread's id, as the library sees it, is one that no kernel thread can have. Locks that the kernel takes part in
//!   (priority-inheriting, robust and process-shared pthread mutexes) and calls that pass the id to the kernel
//!   (`pthread_getattr_np`, `pthread_setname_np`, `pthread_getschedparam` of oneself) want bound threads.
//! - A module with *static* thread-locals that is loaded while green threads live reads zeros in them until they end; load
//!   such modules before the runtime starts, or use them from bound threads. A block made or renewed later has them right.
//! - A module must not be unloaded while a green thread runs in it, lazy binding included.
//! - A library that replaces the alternate signal stack of its thread replaces that of the kernel thread.
//! - With glibc before 2.34, `setuid` and its kin wait for every busy thread to leave its block, and called on a block never
//!   return; call them before the runtime starts.
//! - `pthread_exit` and cancellation end the process, with a message.

use std::fmt;
use std::io;

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[path = "glibc/mod.rs"]
mod imp;
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "absent.rs"]
mod imp;

pub(crate) use imp::{Glibc, check_library, hwcap2};

/// What [`Glibc::renew`] had to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Renewed {
    /// Copied the first values of the thread-locals into place.
    Reset,
    /// Had the loader make the thread-locals again: modules were loaded or unloaded since, or the last thread used those
    /// of a module that has them apart from the block.
    Rebuilt,
}

/// Why this process cannot have thread control blocks of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// The C library has no such symbol: it is another one, or an old one, or linked statically.
    Missing(&'static str),
    /// What this names could not be found in, or was otherwise than expected in, the block of a real thread.
    Unexpected(&'static str),
    /// The process runs on a shadow stack, which a switch of stacks does not know of.
    ShadowStack,
    /// No real thread could be made to compare with: the error number.
    NoThread(i32),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Missing(name) => write!(
                f,
                "the C library has no symbol {name} (it takes glibc 2.22 or newer, linked dynamically, on x86-64 or aarch64)"
            ),
            Unfit::Unexpected(what) => write!(f, "this glibc keeps {what} where this crate does not find it"),
            Unfit::ShadowStack => f.write_str("shadow stacks are on in this process"),
            Unfit::NoThread(errno) => {
                write!(f, "no thread for calibration: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        io::Error::new(io::ErrorKind::Unsupported, unfit.to_string())
    }
}
