//! aarch64 (TLS variant I): the register points between `struct pthread` and the thread-locals.
//!
//! ```text
//!   top of the slot, aligned to 64
//!   | note                        | ours, see layout.rs
//!   | surplus for later modules   |
//!   | of the C library, ...       |
//!   | thread-locals of the program|
//!   | dtv, one unused word        |
//!   +-----------------------------+ <- thread register
//!   | struct pthread              |
//!   +-----------------------------+ <- first byte above the stack
//! ```
//!
//! Canary and pointer guard are the process's here, not the block's.

use super::super::super::unfit::Unfit;
use super::super::symbols::number;

/// Returns `sizeof (struct pthread)`.
pub(in super::super) fn descriptor_size() -> Result<usize, Unfit> {
    number(c"_thread_db_sizeof_pthread")
}

/// `jmp_buf`: x19 to x29, lr, an unused word, sp, d8 to d15. Of these, lr and sp are scrambled.
pub(in super::super) type Jump = [usize; 22];

/// Where the program counter and the stack pointer are in a jump.
pub(super) const JUMP_TARGET: usize = 11;
pub(in super::super) const JUMP_SP: usize = 13;

/// Returns `None`: the pointer guard is the process's.
pub(in super::super) fn own_guard() -> Option<usize> {
    None
}
