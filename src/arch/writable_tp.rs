//! The thread register where any code may write it, by one instruction of the instruction set.
//!
//! The switches write it in passing. It is written by itself only where a signal handler of the C library
//! must find the kernel thread's own.

use core::arch::asm;

use super::isa::tp::instruction;

/// Returns `true`: on every processor, an unprivileged instruction writes the register.
pub(crate) const fn can_write(_hwcap2: usize) -> bool {
    true
}

/// `true`: the way of machines that need a system call is the same way here.
pub(crate) const SYSCALL: bool = true;

/// Returns the register of the calling kernel thread.
#[inline]
pub(crate) fn read() -> usize {
    let tp;
    // SAFETY: reads one register.
    unsafe { asm!(instruction!(read), out(reg) tp, options(nostack, preserves_flags, nomem)) };
    tp
}

/// Writes the register.
///
/// # Safety
/// `tp` is the thread register of a complete control block. Until the old value is back, no other code uses a
/// thread-local (I1).
pub(crate) unsafe fn write(tp: usize) {
    // SAFETY: the caller vouches for the block.
    unsafe { asm!(instruction!(write), in(reg) tp, options(nostack, preserves_flags)) };
}

/// [`write()`] under the name of the other rung.
pub(crate) use write as write_syscall;

/// Returns 0: this architecture has no other register of this kind.
pub(crate) fn read_other(_can_write: bool) -> usize {
    0
}

/// Does nothing: this architecture has no other register of this kind.
pub(crate) fn write_other(_can_write: bool, _base: usize) {}
