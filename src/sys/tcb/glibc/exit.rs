//! `pthread_exit` and cancellation in a block's thread: a message and the end of the process.
//!
//! glibc unwinds the stack up to the first frame of the thread. At each frame it asks whether it has come so
//! far, and then it jumps to where `start_thread` waits. In a block there is neither. Left alone, glibc would
//! ask through a null pointer and crash inside the library, and the report would blame the code on the stack.
//!
//! So the block names a way out. The end of the unwinding is the end of the green stack, which glibc finds
//! passed at the very first frame. The jump leads to a function that says what happened. No frame is unwound,
//! so no destructor runs for a thread that cannot end in an orderly way.
//!
//! The same two words tell the library the size of the stack (`set`).
//!
//! **Rejected**: to unwind to the thread's first frame and end the thread there. The forced unwinding passes
//! through Rust frames, where it is undefined unless they have nothing to drop.

use std::ffi::c_void;
use std::ops::Range;

use super::super::common::poke;
use super::layout;
use super::symbols::symbol;

/// `struct pthread_unwind_buf`: the jump, a flag that a signal mask is to be restored, and four words of the
/// library's.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct WayOut {
    jump: layout::Jump,
    mask_was_saved: usize,
    rest: [usize; 4],
}

/// How the library scrambles addresses in a jump: by a random word, and a rotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scramble {
    guard: usize,
    rotation: u32,
}

impl Scramble {
    /// Returns the ways of all versions. The word is in each block on x86-64 up to glibc 2.43, and otherwise
    /// one of the process. From 2.44 on, every architecture rotates.
    pub(super) fn known() -> impl Iterator<Item = Self> {
        let exported = symbol(c"__pointer_chk_guard").ok().map(|at| {
            // SAFETY: `uintptr_t __pointer_chk_guard`, constant since the program began.
            unsafe { at.cast::<usize>().read() }
        });
        let guards = layout::own_guard().into_iter().chain(exported);
        guards.flat_map(|guard| [17, 0].map(|rotation| Self { guard, rotation }))
    }

    pub(super) fn apply(self, address: usize) -> usize {
        (address ^ self.guard).rotate_left(self.rotation)
    }

    pub(super) fn undo(self, word: usize) -> usize {
        word.rotate_right(self.rotation) ^ self.guard
    }
}

/// Fields of `struct pthread`, and what is in the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExitFields {
    /// `cleanup_jmp_buf`: the way out.
    pub(super) jump: usize,
    pub(super) scramble: Scramble,
    /// `stackblock`. The word after it is the size. Addresses are compared relative to their sum.
    pub(super) stack: usize,
}

/// Names the way out of block `descriptor` with stack `stack`, and tells the library the size of that stack.
/// `way_out` is the place for it in the block's note.
///
/// # Safety
/// The caller alone uses the block.
pub(super) unsafe fn set(descriptor: usize, stack: Range<usize>, way_out: *mut WayOut, fields: ExitFields) {
    let sp = layout::first_sp(stack.end);
    let target = report as extern "C" fn() -> ! as usize;
    let jump = layout::jump(target, sp, fields.scramble);
    // SAFETY: within the note.
    unsafe { way_out.write(WayOut { jump, ..WayOut::default() }) };
    // SAFETY: a field of the descriptor.
    unsafe { poke(descriptor + fields.jump, way_out.expose_provenance()) };
    // Relative to the sum of the two words, every address on the stack lies beyond the end of the unwinding.
    // The second word alone tells the library how much it may put on the stack by `alloca`: at most a
    // quarter. Zero would mean the main thread, and up to 64 KiB.
    // SAFETY: a field of the descriptor.
    unsafe { poke(descriptor + fields.stack, stack.start) };
    // SAFETY: a field of the descriptor.
    unsafe { poke(descriptor + fields.stack + 8, sp.saturating_sub(stack.start)) };
}

/// Reports what happened. The jump lands here, on the thread's own register, at the end of its stack. It is
/// over frames that are never returned to.
extern "C" fn report() -> ! {
    const TEXT: &[u8] = b"selvedge: pthread_exit or pthread_cancel in a green thread, which it cannot end; \
        use a bound thread. Aborting.\n";
    // SAFETY: the text is as long as the argument says. The call takes no lock: the thread may hold any.
    unsafe { libc::write(2, TEXT.as_ptr().cast::<c_void>(), TEXT.len()) };
    // SAFETY: takes nothing.
    unsafe { libc::abort() }
}
