//! The thread register of x86-64: the base of the FS segment.
//!
//! The C library's thread-locals, `errno` and stack guard are addressed relative to it. By the ABI, the
//! word to which it points holds its own address. If processor and kernel allow `wrfsbase` (FSGSBASE), it
//! is written by that, in a few cycles; otherwise by the system call `arch_prctl`, in a hundred
//! nanoseconds. The switches in `x86_64.rs` write it in passing. It is written by itself only where a
//! signal handler of the C library must find the kernel thread's own.

use core::arch::asm;

use super::{ARCH_PRCTL, ARCH_SET_FS};

/// Operations of `arch_prctl`: set and get the base of GS.
const ARCH_SET_GS: u32 = 0x1001;
const ARCH_GET_GS: u32 = 0x1004;

/// `HWCAP2_FSGSBASE`: the kernel has turned the instructions on.
const HWCAP2_FSGSBASE: usize = 1 << 1;

/// Returns `true` if an unprivileged instruction writes the register. `hwcap2` is `AT_HWCAP2` of the
/// auxiliary vector.
pub(crate) const fn can_write(hwcap2: usize) -> bool {
    hwcap2 & HWCAP2_FSGSBASE != 0
}

/// `true` if a system call writes it.
pub(crate) const SYSCALL: bool = true;

/// Returns the register of the calling kernel thread.
#[inline]
pub(crate) fn read() -> usize {
    let tp;
    // SAFETY: by the ABI of thread-local storage, the word at that address holds the register's own
    // value. That is so for every thread that the C library or this crate (I1) has made.
    unsafe { asm!("mov {}, fs:0", out(reg) tp, options(nostack, preserves_flags, readonly)) };
    tp
}

/// Writes the register by `wrfsbase`.
///
/// # Safety
/// [`can_write`] is true, and `tp` is the thread register of a complete control block. Until the old
/// value is back, no other code uses a thread-local (I1).
pub(crate) unsafe fn write(tp: usize) {
    // SAFETY: the instruction is allowed (`can_write`), and the caller vouches for the block.
    unsafe { asm!("wrfsbase {}", in(reg) tp, options(nostack, preserves_flags)) };
}

/// Writes the register by a system call.
///
/// # Safety
/// As [`write()`], without its first condition; [`SYSCALL`] is true.
pub(crate) unsafe fn write_syscall(tp: usize) {
    // SAFETY: the call touches nothing but the register, and the caller vouches for the block. It fails
    // only for an address outside user space, and then traps.
    unsafe {
        asm!(
            "syscall",
            "test eax, eax",
            "jz 2f",
            "ud2",
            "2:",
            inlateout("eax") ARCH_PRCTL => _,
            in("edi") ARCH_SET_FS,
            in("rsi") tp,
            lateout("rcx") _, // the kernel returns through rcx
            lateout("r11") _, // and r11
            options(nostack),
        );
    }
}

/// Returns the base of the GS segment, which programs may use as they like.
pub(crate) fn read_other(can_write: bool) -> usize {
    let mut base = 0_usize;
    if can_write {
        // SAFETY: the instruction is allowed where the thread register can be written.
        unsafe { asm!("rdgsbase {}", out(reg) base, options(nostack, preserves_flags, nomem)) };
    } else {
        // SAFETY: the kernel writes the base to a local variable.
        unsafe { arch_prctl(ARCH_GET_GS, (&raw mut base).expose_provenance()) };
    }
    base
}

/// Sets the base of the GS segment.
pub(crate) fn write_other(can_write: bool, base: usize) {
    if can_write {
        // SAFETY: the instruction is allowed where the thread register can be written. The base is one
        // that a kernel thread of ours has had, and safe code does not use it.
        unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags, nomem)) };
    } else {
        // SAFETY: the base is one that a kernel thread of ours has had; no memory is involved.
        unsafe { arch_prctl(ARCH_SET_GS, base) };
    }
}

/// Makes the system call `arch_prctl`.
///
/// # Safety
/// `argument` is as the operation requires.
unsafe fn arch_prctl(operation: u32, argument: usize) {
    // SAFETY: the caller's contract; the kernel keeps all other registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("eax") ARCH_PRCTL => _,
            in("edi") operation,
            in("rsi") argument,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
}
