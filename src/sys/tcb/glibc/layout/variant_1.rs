//! What instruction sets with TLS variant I share: thread-locals lie above the register, and `struct pthread`
//! below it. Where its parts lie exactly, the set's own file shows.

use super::super::super::common::poke;
use super::super::exit::Scramble;
use super::super::symbols::Static;
use super::machine::{JUMP_SP, JUMP_TARGET, Jump};

/// Of `prctl`: a request for the state of the shadow stack, and the bit that says it is on.
const GET_SHADOW_STACK: libc::c_int = 74;
const SHADOW_STACK_ON: u64 = 1;

/// Returns, for a block that ends below `end`, the thread register and the first byte above the stack.
pub(in super::super) fn place_below(end: usize, sizes: &Static) -> (usize, usize) {
    let tp = (end - sizes.size) & !(sizes.align.max(64) - 1);
    (tp, (tp - sizes.descriptor) & !63)
}

/// Returns how far above the thread register the note is. The register is aligned to 64.
pub(in super::super) fn note_offset(sizes: &Static) -> usize {
    sizes.size.next_multiple_of(64)
}

/// Returns the `struct pthread` of a thread register.
#[inline]
pub(in super::super) fn descriptor(tp: usize, sizes: &Static) -> usize {
    tp - sizes.descriptor
}

/// Returns the thread register of a `struct pthread`.
#[inline]
pub(in super::super) fn register(descriptor: usize, sizes: &Static) -> usize {
    descriptor + sizes.descriptor
}

/// Returns the addresses at which static thread-locals of this block can be.
pub(in super::super) fn statics(tp: usize, sizes: &Static) -> std::ops::Range<usize> {
    tp..tp + sizes.size
}

/// Fills in the head of block `tp`: the first word of `struct pthread`, "this process has several threads".
///
/// # Safety
/// The caller alone uses the block at `tp`.
pub(in super::super) unsafe fn fill_head(tp: usize, _own: usize, sizes: &Static) {
    // SAFETY: within the block (contract).
    unsafe { poke(descriptor(tp, sizes), 1_u32) };
}

/// Returns a jump to `target` with stack pointer `sp`.
pub(in super::super) fn jump(target: usize, sp: usize, scramble: Scramble) -> Jump {
    let mut jump = Jump::default();
    jump[JUMP_TARGET] = scramble.apply(target);
    jump[JUMP_SP] = scramble.apply(sp);
    jump
}

/// Returns the stack pointer at the beginning of a function, below a stack that ends at `end`.
pub(in super::super) fn first_sp(end: usize) -> usize {
    end
}

/// Returns `true` if the calling thread has a shadow stack.
pub(in super::super) fn has_shadow_stack(_own: usize) -> bool {
    let mut state = 0_u64;
    // SAFETY: the kernel writes the word, or knows no such request.
    let known = unsafe { libc::prctl(GET_SHADOW_STACK, &raw mut state, 0, 0, 0) } == 0;
    known && state & SHADOW_STACK_ON != 0
}
