//! x86-64 (TLS variant II): the register points to `struct pthread`, and thread-locals lie below it.
//!
//! ```text
//!   top of the slot, aligned to 64
//!   | note                        | ours, see layout.rs
//!   | struct pthread              |
//!   +-----------------------------+ <- thread register: itself, dtv, itself again, ...
//!   | thread-locals of the program|
//!   | of the C library, ...       |
//!   | surplus for later modules   |
//!   +-----------------------------+ <- first byte above the stack
//! ```

use super::super::super::common::{peek, poke};
use super::super::super::unfit::Unfit;
use super::super::exit::Scramble;
use super::super::symbols::{Static, number};
use super::own_descriptor;

/// The process runs with a shadow stack if this bit of `feature_1` is set.
const FEATURE_1_SHSTK: u32 = 2;

// The head of the block is de-facto ABI: compilers read the canary through it, and sanitizers rely on its
// size.
const SELF_FIRST: usize = 0x00;
const SELF_AGAIN: usize = 0x10;
const MULTIPLE_THREADS: usize = 0x18;
const CANARY: usize = 0x28;
const POINTER_GUARD: usize = 0x30;
const FEATURE_1: usize = 0x48;

/// Returns `sizeof (struct pthread)`.
pub(in super::super) fn descriptor_size() -> Result<usize, Unfit> {
    number(c"_thread_db_sizeof_pthread")
}

/// Returns, for a block that ends below `end`, the thread register and the first byte above the stack.
pub(in super::super) fn place_below(end: usize, sizes: &Static) -> (usize, usize) {
    let tp = (end - sizes.descriptor) & !(sizes.align.max(64) - 1);
    (tp, (tp - (sizes.size - sizes.descriptor)) & !63)
}

/// Returns how far above the thread register the note is. The register is aligned to 64.
pub(in super::super) fn note_offset(sizes: &Static) -> usize {
    sizes.descriptor.next_multiple_of(64)
}

/// Returns the `struct pthread` of a thread register.
#[inline]
pub(in super::super) fn descriptor(tp: usize, _sizes: &Static) -> usize {
    tp
}

/// Returns the thread register of a `struct pthread`.
#[inline]
pub(in super::super) fn register(descriptor: usize, _sizes: &Static) -> usize {
    descriptor
}

/// Returns the addresses at which static thread-locals of this block can be.
pub(in super::super) fn statics(tp: usize, sizes: &Static) -> std::ops::Range<usize> {
    tp - (sizes.size - sizes.descriptor)..tp
}

/// Fills in the head of block `tp`, with the caller's canary and guard.
///
/// # Safety
/// The caller alone uses the block at `tp`. `own` is the caller's thread register.
pub(in super::super) unsafe fn fill_head(tp: usize, own: usize, _sizes: &Static) {
    // SAFETY: all of this lies within the block (contract).
    unsafe { poke(tp + SELF_FIRST, tp) };
    // SAFETY: within the block.
    unsafe { poke(tp + SELF_AGAIN, tp) };
    // SAFETY: within the block.
    unsafe { poke(tp + MULTIPLE_THREADS, 1_u32) };
    // No function is entered on one register and left on another (I1), but `fork` and the like compare.
    for word in [CANARY, POINTER_GUARD] {
        // SAFETY: within the caller's own block, which is complete.
        let value: usize = unsafe { peek(own + word) };
        // SAFETY: within the new block.
        unsafe { poke(tp + word, value) };
    }
    // SAFETY: within the block.
    let feature: u32 = unsafe { peek(own + FEATURE_1) };
    // SAFETY: within the block.
    unsafe { poke(tp + FEATURE_1, feature) };
}

/// `jmp_buf`: rbx, rbp, r12 to r15, rsp, rip; of these rbp, rsp and rip are scrambled.
pub(in super::super) type Jump = [usize; 8];

/// Where the stack pointer is in a jump.
pub(in super::super) const JUMP_SP: usize = 6;

/// Returns a jump to `target` with stack pointer `sp`.
pub(in super::super) fn jump(target: usize, sp: usize, scramble: Scramble) -> Jump {
    [0, scramble.apply(0), 0, 0, 0, 0, scramble.apply(sp), scramble.apply(target)]
}

/// Returns the word that is the pointer guard up to glibc 2.43, from the caller's block.
pub(in super::super) fn own_guard() -> Option<usize> {
    // SAFETY: the head of the caller's own block.
    Some(unsafe { peek(own_descriptor() + POINTER_GUARD) })
}

/// Returns the stack pointer at the beginning of a function, below a stack that ends at `end`. A call would
/// have pushed the return address.
pub(in super::super) fn first_sp(end: usize) -> usize {
    end - 8
}

/// Returns `true` if the calling thread, which has the register `own`, has a shadow stack.
pub(in super::super) fn has_shadow_stack(own: usize) -> bool {
    // SAFETY: the head of a complete block is readable.
    let feature: u32 = unsafe { peek(own + FEATURE_1) };
    feature & FEATURE_1_SHSTK != 0
}
