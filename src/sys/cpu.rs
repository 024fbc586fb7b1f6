//! The CPU that a kernel thread runs on.
//!
//! Linux writes the number into the thread's restartable-sequence area at every migration. glibc (2.35 and
//! later) registers such an area for every thread. To read it is one load; `sched_getcpu` is a call and some
//! 3 ns.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::once::OnceLock;
use super::pthread;
use super::system::symbol;

/// Returns the CPU of the calling kernel thread. It may be out of date at once. 0 if the system cannot say.
pub(crate) fn current() -> u32 {
    // SAFETY: no arguments, no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// Returns the CPU of the calling kernel thread, whatever thread register it runs on. It may be out of date
/// at once. `None` if the system cannot say that without a system call.
pub(crate) fn quick() -> Option<u32> {
    // The kernel's own page answers there, in some 3 ns. On aarch64, it has no such function.
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    // SAFETY: no arguments, no memory.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Written by the kernel alone.
pub(crate) type Word = AtomicU32;

/// Returns where the kernel keeps the CPU number of the calling *kernel* thread, for as long as that thread
/// lives. `None` without a registered area.
///
/// Only for kernel threads that run on their own thread register: a green thread's block has no registered
/// area.
pub(crate) fn word() -> Option<NonNull<Word>> {
    // Asked on every machine: see `leave_area_of`.
    let offset = (*rseq_offset())?;
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    // On x86-64, the C library's handle of a thread is the address of its control block, from which offsets
    // count.
    // SAFETY: no arguments, no memory.
    let base = unsafe { pthread::pthread_self() } as usize;
    let word = NonNull::new(base.wrapping_add_signed(offset + CPU_ID) as *mut AtomicU32)?;
    // SAFETY: glibc has reserved the area in each thread's block, aligned to 32 bytes. The kernel writes the
    // word with plain stores of this same thread, so an atomic load reads one of them.
    let number = unsafe { word.as_ref() }.load(std::sync::atomic::Ordering::Relaxed);
    // Unregistered areas hold negative numbers.
    (i32::try_from(number).is_ok_and(|n| n < 1 << 15)).then_some(word)
}

/// The offset of `cpu_id` in `struct rseq`.
const CPU_ID: isize = 4;

static OFFSET: OnceLock<Option<isize>> = OnceLock::new();

/// Returns `__rseq_offset`, if the C library has it and has registered areas.
fn rseq_offset() -> &'static Option<isize> {
    OFFSET.get_or_init(|| {
        if !cfg!(target_env = "gnu") {
            return None;
        }
        let size = symbol(c"__rseq_size")?.cast::<u32>();
        let offset = symbol(c"__rseq_offset")?.cast::<isize>();
        // SAFETY: glibc's documented constants of these types, written before `main`.
        let size = unsafe { size.read() };
        // SAFETY: glibc's documented constants.
        let offset = unsafe { offset.read() };
        // Size 0: registration was switched off or refused.
        (size != 0).then_some(offset)
    })
}

/// Makes the kernel stop writing to the area in the block of thread register `base`.
///
/// For the child of a fork, if it runs on another thread register than `base`, which is the kernel thread's
/// own. The C library then takes the memory of that block for free.
///
/// May run in the child: it makes a few system calls.
pub(crate) fn leave_area_of(base: usize) {
    // Set when the process first asked for its CPU word. If it is not set, there was no such area.
    let Some(&Some(offset)) = OFFSET.get() else { return };
    let area = base.wrapping_add_signed(offset);
    // The kernel wants the length that was registered, and the C library does not tell it. It is 32, or more
    // if a newer kernel has more to write. The kernel refuses a wrong length.
    for len in (32_usize..=512).step_by(32) {
        // SAFETY: unregisters an area. It reads or writes no memory of this process.
        if unsafe { libc::syscall(libc::SYS_rseq, area, len, UNREGISTER, SIGNATURE) } == 0 {
            return;
        }
    }
}

/// `RSEQ_FLAG_UNREGISTER`.
const UNREGISTER: libc::c_int = 1;
/// `RSEQ_SIG`, with which the C library has registered its areas.
const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") {
    0xd428_bc00
} else if cfg!(target_arch = "riscv64") {
    0xf140_1073
} else {
    0x5305_3053
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_ways_agree() {
        let Some(word) = word() else {
            eprintln!("skipped: no registered rseq area");
            return;
        };
        // A migration between the reads makes them differ: rare, so some try must agree.
        // SAFETY: this thread's own area, which lives as long as the thread.
        assert!((0..100).any(|_| unsafe { word.as_ref() }.load(Ordering::Relaxed) == current()));
    }

    /// Otherwise a child would not know which area to leave.
    #[test]
    fn to_ask_for_the_word_is_to_learn_of_the_area() {
        let _ = word();
        assert!(OFFSET.get().is_some());
    }

    #[test]
    fn the_quick_way_agrees_too() {
        if !cfg!(target_arch = "x86_64") {
            assert_eq!(quick(), None);
            return;
        }
        assert!((0..100).any(|_| quick() == Some(current())));
    }
}
