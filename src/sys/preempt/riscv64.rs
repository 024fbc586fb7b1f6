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

/// Returns the number of the system call that is about to begin again (`a7`), and its second argument.
pub(super) fn call(context: &ucontext_t) -> (i64, usize) {
    (context.uc_mcontext.__gregs[17].cast_signed(), context.uc_mcontext.__gregs[11] as usize)
}

/// Makes `result` that of a system call (`a0`).
pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
    context.uc_mcontext.__gregs[10] = result.cast_unsigned();
}

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

/// Returns the length of the record of vectors in the frame, or 0 if there is none. Returns `u64::MAX` if
/// there are other registers beyond general and float ones.
pub(super) fn machine_state(context: &ucontext_t) -> u64 {
    /// Where the first record is, behind the float registers (`sigcontext.h` of the kernel).
    const RECORDS_AT: usize = offset_of!(ucontext_t, uc_mcontext) + 256 + 520;
    const END: u32 = 0;
    const VECTORS: u32 = 0x5346_5457;
    match record(context, RECORDS_AT) {
        // Emulators make shorter frames.
        None | Some([END, _]) => 0,
        Some([VECTORS, size]) if has_vectors() => match record(context, RECORDS_AT + size as usize) {
            Some([END, _]) => u64::from(size),
            _ => u64::MAX,
        },
        Some(_) => u64::MAX,
    }
}

/// Returns the head of the record at this offset of the context: what it is, and its length. Returns `None`
/// if the alternate stack has ended there. Elsewhere than on that stack, no call is inserted.
fn record(context: &ucontext_t, at: usize) -> Option<[u32; 2]> {
    let head = ptr::from_ref(context).cast::<u8>().wrapping_add(at).cast::<[u32; 2]>();
    let stack = &context.uc_stack;
    let end = head.addr().wrapping_sub(stack.ss_sp.addr()).saturating_add(size_of::<[u32; 2]>());
    // SAFETY: it lies on the alternate stack, above this frame's beginning.
    (end <= stack.ss_size).then(|| unsafe { head.read() })
}

/// Returns `true` if the processor has vectors of version 1.0. Before that, they had other instructions, and
/// the kernel keeps them in the same record.
fn has_vectors() -> bool {
    const V: u64 = 1 << (b'V' - b'A');
    // SAFETY: reads a list that does not change. It may be called in a handler of signals.
    unsafe { libc::getauxval(libc::AT_HWCAP) & V != 0 }
}
