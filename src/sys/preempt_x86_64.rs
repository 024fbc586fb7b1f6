//! Where the kernel's signal frame on x86-64 has what `preempt.rs` wants.

use libc::ucontext_t;

const SP: usize = libc::REG_RSP as usize;
const PC: usize = libc::REG_RIP as usize;

pub(super) fn sp(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[SP] as usize
}

pub(super) fn pc(context: &ucontext_t) -> usize {
    context.uc_mcontext.gregs[PC] as usize
}

pub(super) fn go_on_at(context: &mut ucontext_t, sp: usize, pc: usize) {
    context.uc_mcontext.gregs[SP] = sp as i64;
    context.uc_mcontext.gregs[PC] = pc as i64;
}

/// `syscall`.
pub(super) const SYSTEM_CALL: &[u8] = &[0x0F, 0x05];

/// The components of the extended state that are not as in a new thread: `XSTATE_BV` of the frame.
pub(super) fn machine_state(context: &ucontext_t) -> u64 {
    /// Where the kernel says, in what the processor leaves unused of the x87 and SSE state, that more follows.
    const MAGIC_AT: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
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
