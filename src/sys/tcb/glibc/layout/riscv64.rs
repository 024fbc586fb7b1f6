//! riscv64 (TLS variant I): the register points to the thread-locals, and the head lies just below them.
//!
//! ```text
//!   top of the slot, aligned to 64
//!   | note                        | ours, see layout.rs
//!   | surplus for later modules   |
//!   | of the C library, ...       |
//!   | thread-locals of the program|
//!   +-----------------------------+ <- thread register
//!   | dtv, one unused word        |
//!   | what alignment takes        |
//!   | struct pthread              |
//!   +-----------------------------+ <- first byte above the stack
//! ```
//!
//! Here `descriptor` is the length of all that lies below the register. Canary and pointer guard are the
//! process's, not the block's.

use super::super::super::unfit::Unfit;
use super::super::symbols::field;

/// Returns the distance from `struct pthread` to the register. The head is the last thing below that, and
/// begins with the vector of modules.
pub(in super::super) fn descriptor_size() -> Result<usize, Unfit> {
    const HEAD: usize = 16;
    Ok(field(c"_thread_db_pthread_dtvp")?.offset + HEAD)
}

/// `jmp_buf`: pc, s0 to s11, sp, fs0 to fs11.
pub(in super::super) type Jump = [usize; 26];

/// Where the program counter and the stack pointer are in a jump.
pub(super) const JUMP_TARGET: usize = 0;
pub(in super::super) const JUMP_SP: usize = 13;

/// Returns a word that changes nothing: up to glibc 2.43, no address is scrambled.
pub(in super::super) fn own_guard() -> Option<usize> {
    Some(0)
}
