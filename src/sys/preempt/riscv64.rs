//! Where the kernel's signal frame on riscv64 has what `preempt.rs` needs.

use std::mem::offset_of;
use std::ptr;

use libc::ucontext_t;

use super::Registers;

/// The registers are those of the processor, with the program counter in the place of `x0`.
const PC: usize = 0;
const SP: usize = 2;

pub(super) fn sp(context: &ucontext_t) -> usize {
    context.uc_mcontext.__gregs[SP] as usize
}

pub(super) fn pc(context: &ucontext_t) -> usize {
    context.uc_mcontext.__gregs[PC] as usize
}

/// Returns the registers that callers may need: the return address, `s0` and `s1`, and `s2` to `s11`.
pub(super) fn registers(context: &ucontext_t) -> Registers {
    let kept = [1, 8, 9].into_iter().chain(18..=27);
    kept.fold(Registers::new(pc(context), sp(context)), |registers, number: u16| {
        registers.with(number, context.uc_mcontext.__gregs[usize::from(number)] as usize)
    })
}

/// `ecall`.
pub(super) const SYSTEM_CALL: &[u8] = &0x0000_0073_u32.to_le_bytes();

pub(super) fn go_on_at(context: &mut ucontext_t, sp: usize, pc: usize) {
    context.uc_mcontext.__gregs[SP] = sp as u64;
    context.uc_mcontext.__gregs[PC] = pc as u64;
}

/// Returns `true`: Linux runs no code for other widths here, and steps by breakpoints.
pub(super) fn is_ordinary(_context: &ucontext_t) -> bool {
    true
}

/// Returns the mark of a signal frame: a word in it, and the word's possible places as an offset and an
/// alignment.
///
/// A frame has no word here that is the same in all processes. But each has the address of the alternate
/// stack that the kernel thread had when the signal came, and `context` has it too.
pub(super) fn mark(context: &ucontext_t) -> (u32, usize, usize) {
    const FRAME_ALIGN: usize = 16;
    /// What lies below the context: `siginfo_t`.
    const INFO: usize = 128;
    const AT: usize = INFO + offset_of!(ucontext_t, uc_stack) + offset_of!(libc::stack_t, ss_sp);
    (context.uc_stack.ss_sp.addr() as u32, AT % FRAME_ALIGN, FRAME_ALIGN)
}

/// Returns the highest bit if there are registers beyond general and float ones, otherwise 0.
pub(super) fn machine_state(context: &ucontext_t) -> u64 {
    u64::from(has_more(context)) << 63
}

/// Looks at the head of the first record behind the float registers (`sigcontext.h` of the kernel).
fn has_more(context: &ucontext_t) -> bool {
    const RECORD_AT: usize = offset_of!(ucontext_t, uc_mcontext) + 256 + 520;
    const END: u32 = 0;
    let record = ptr::from_ref(context).cast::<u8>().wrapping_add(RECORD_AT).cast::<u32>();
    // Emulators make shorter frames, and the alternate stack ends with the frame. Elsewhere than on that
    // stack, no call is inserted.
    let stack = &context.uc_stack;
    let is_there = record.addr().wrapping_sub(stack.ss_sp.addr()) + size_of::<u32>() <= stack.ss_size;
    // SAFETY: it lies on the alternate stack, above this frame's beginning.
    is_there && unsafe { record.read() } != END
}
