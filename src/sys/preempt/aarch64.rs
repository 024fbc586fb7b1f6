//! Where the kernel's signal frame on aarch64 has what `preempt.rs` needs.

use std::mem::offset_of;
use std::ptr;

use libc::ucontext_t;

use super::Registers;

pub(super) fn sp(context: &ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

pub(super) fn pc(context: &ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

/// Returns the registers that callers may need: `x19` to `x29`, and the return address, `x30`.
pub(super) fn registers(context: &ucontext_t) -> Registers {
    (19..=30).fold(Registers::new(pc(context), sp(context)), |registers, number: u16| {
        registers.with(number, context.uc_mcontext.regs[usize::from(number)] as usize)
    })
}

/// `svc #0`.
pub(super) const SYSTEM_CALL: &[u8] = &0xD400_0001_u32.to_le_bytes();

/// Returns the number of the system call that is about to begin again, and its second argument.
pub(super) fn call(context: &ucontext_t) -> (i64, usize) {
    (context.uc_mcontext.regs[8].cast_signed(), context.uc_mcontext.regs[1] as usize)
}

/// Makes `result` that of a system call.
pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
    context.uc_mcontext.regs[0] = result.cast_unsigned();
}

pub(super) fn go_on_at(context: &mut ucontext_t, sp: usize, pc: usize) {
    context.uc_mcontext.sp = sp as u64;
    context.uc_mcontext.pc = pc as u64;
}

/// Returns `true` if the processor ran 64-bit code, and was not single-stepping.
pub(super) fn is_ordinary(context: &ucontext_t) -> bool {
    const MODE: u64 = 0x1F;
    const SINGLE_STEP: u64 = 1 << 21;
    context.uc_mcontext.pstate & (MODE | SINGLE_STEP) == 0
}

/// The head of the record of the vector registers, which is the first of all records.
const FPSIMD: u32 = 0x4650_8001;

/// Returns the mark of a signal frame: a word in it, and the word's possible places as an offset and an
/// alignment.
pub(super) fn mark(_context: &ucontext_t) -> (u32, usize, usize) {
    (FPSIMD, 0, 16)
}

/// Returns PSTATE, and the highest bit if there are registers with something in them beyond general and
/// vector ones.
pub(super) fn machine_state(context: &ucontext_t) -> u64 {
    context.uc_mcontext.pstate | u64::from(has_more(context)) << 63
}

/// Looks at the records behind the general registers (`sigcontext.h` of the kernel).
fn has_more(context: &ucontext_t) -> bool {
    const RECORDS_AT: usize = offset_of!(ucontext_t, uc_mcontext) + 288;
    const RECORDS: usize = 4096;
    const HEAD: usize = 8;
    const ESR: u32 = 0x4553_5201;
    const POE: u32 = 0x504F_4530;
    /// Both exist, without contents, if the machine has them and the thread does not use them.
    const SVE: u32 = 0x5356_4501;
    const ZA: u32 = 0x5436_6345;
    const EMPTY: u32 = 16;
    /// One word each: a pointer to where ZA is saved lazily, and a mode of arithmetic.
    const TPIDR2: u32 = 0x5450_4902;
    const FPMR: u32 = 0x4650_4D52;

    let records = ptr::from_ref(context).cast::<u8>().wrapping_add(RECORDS_AT);
    let mut at = 0;
    while at + 2 * HEAD <= RECORDS {
        // SAFETY: within the frame. The kernel's type has this many bytes of it.
        let [magic, size] = unsafe { records.wrapping_add(at).cast::<[u32; 2]>().read() };
        // SAFETY: within the frame.
        let word = unsafe { records.wrapping_add(at + HEAD).cast::<u64>().read() };
        match magic {
            0 => return false,
            FPSIMD | ESR | POE => {}
            SVE | ZA if size <= EMPTY => {}
            TPIDR2 | FPMR if word == 0 => {}
            _ => return true,
        }
        if size == 0 {
            return true;
        }
        at += size as usize;
    }
    true
}
