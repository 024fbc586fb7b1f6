//! Where the kernel's signal frame on x86-64 has what `preempt.rs` needs.

use libc::ucontext_t;

use super::Registers;

const SP: usize = libc::REG_RSP as usize;
const PC: usize = libc::REG_RIP as usize;

pub(super) fn sp(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[SP] as usize
}

pub(super) fn pc(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[PC] as usize
}

/// Returns the registers that callers may need: `rbx`, `rbp`, and `r12` to `r15`, by their DWARF numbers.
pub(super) fn registers(context: &ucontext_t) -> Registers {
    const KEPT: [(u16, i32); 6] = [
        (3, libc::REG_RBX),
        (6, libc::REG_RBP),
        (12, libc::REG_R12),
        (13, libc::REG_R13),
        (14, libc::REG_R14),
        (15, libc::REG_R15),
    ];
    KEPT.into_iter().fold(Registers::new(pc(context), sp(context)), |registers, (number, at)| {
        registers.with(number, context.uc_mcontext.gregs[at as usize] as usize)
    })
}

pub(super) fn go_on_at(context: &mut ucontext_t, sp: usize, pc: usize) {
    context.uc_mcontext.gregs[SP] = sp as i64;
    context.uc_mcontext.gregs[PC] = pc as i64;
}

/// `syscall`.
pub(super) const SYSTEM_CALL: &[u8] = &[0x0F, 0x05];

/// Returns the number of the system call that is about to begin again, and its second argument.
pub(super) fn call(context: &ucontext_t) -> (i64, usize) {
    (
        context.uc_mcontext.gregs[libc::REG_RAX as usize],
        context.uc_mcontext.gregs[libc::REG_RSI as usize] as usize,
    )
}

/// Makes `result` that of a system call.
pub(super) fn set_result(context: &mut ucontext_t, result: i64) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
}

/// Returns `true` if the processor ran 64-bit code, and was not single-stepping. A process's other code
/// segments are for 32-bit code, which cannot run ours.
pub(super) fn is_ordinary(context: &ucontext_t) -> bool {
    /// The segment of Linux, and that of a Xen guest.
    const CODE: [u16; 2] = [0x33, 0xE033];
    const TRAP: i64 = 1 << 8;
    let segments = context.uc_mcontext.gregs[libc::REG_CSGSFS as usize];
    CODE.contains(&(segments as u16)) && context.uc_mcontext.gregs[libc::REG_EFL as usize] & TRAP == 0
}

/// Offset of a word in the x87 and SSE state that the processor leaves unused. There the kernel says that
/// more state follows.
const MAGIC_AT: usize = 464;
const MAGIC: u32 = 0x4650_5853;

/// Returns the mark of a signal frame: a word in it, and the word's possible places as an offset and an
/// alignment. On processors without `xsave`, frames have no such word.
pub(super) fn mark(_context: &ucontext_t) -> (u32, usize, usize) {
    /// The alignment that the kernel gives to the extended state.
    const AREA_ALIGN: usize = 64;
    (MAGIC, MAGIC_AT % AREA_ALIGN, AREA_ALIGN)
}

/// Returns the components of the extended state that are not as in a new thread: `XSTATE_BV` of the frame.
pub(super) fn machine_state(context: &ucontext_t) -> u64 {
    /// Where that begins.
    const HEADER_AT: usize = 512;
    const X87_AND_SSE: u64 = 0b11;
    let area = context.uc_mcontext.fpregs.cast::<u8>();
    if area.is_null() {
        return X87_AND_SSE;
    }
    // SAFETY: the area has these 512 bytes at least.
    let magic = unsafe { area.wrapping_add(MAGIC_AT).cast::<u32>().read() };
    if magic != MAGIC {
        return X87_AND_SSE;
    }
    // SAFETY: the kernel says so.
    unsafe { area.wrapping_add(HEADER_AT).cast::<u64>().read() }
}
