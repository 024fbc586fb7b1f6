//! Contexts on x86-64, System V ABI.
//!
//! **The problem.** The switch leaves this stack for another, in the few nanoseconds that a yield may
//! cost. It carries exactly what the calling convention says a function preserves.
//!
//! **Rejected.**
//!
//! - A function `switch` that ends in `ret`, as most libraries have it. The return predictor then misses
//!   every time, because another context's call pushed the address (10 ns instead of 3). Six registers
//!   are stored whether or not they hold anything. Here the switch is inlined, and the clobber list makes
//!   the compiler store just what is live. The last instruction is an indirect jump, predicted by its own
//!   history.
//! - Pushes. The frame is written below the stack pointer, in the 128 bytes that the ABI keeps from
//!   signal handlers. So the compiler's unwind tables hold until the last few instructions, and no
//!   address depends on the one before.
//!
//! A suspended context with the [`SavedSp`] `sp`:
//!
//! ```text
//!            ...                  the caller's own frame
//!   sp  ->  +------------------+
//!      -8   | rbp              |  the two registers that inline assembly may not
//!     -16   | rbx              |  name as clobbered, because LLVM keeps them
//!     -24   | resume address   |  label 2 of the switch that left, or `start`
//!     -28   | x87 control word |  two bytes, and two unused
//!     -32   | MXCSR            |
//!           +------------------+  at most 128 below sp: a handler on this stack
//!                                 skips them, and after the switch none runs here
//! ```
//!
//! **Floating point.** By the ABI, the control bits of MXCSR and the x87 control word belong to the
//! thread. The status bits do not survive a call. Those of MXCSR are not compared: any inexact sum would
//! cost a reload. Reading and comparing costs 1.4 ns, loading 30. So they are loaded only where they
//! differ.
//!
//! **Not carried.** The rights of memory protection keys (PKRU) and the shadow stack pointer stay with
//! the kernel thread. A thread that calls `pkey_set` should be a bound thread. A shadow stack is on only
//! if every object in the process is marked for it, which rustc's are not.
//!
//! The direction flag is clear on both sides, as at any call.

use core::arch::{asm, naked_asm};

use super::{Entry, SavedSp};
use crate::sys::registers::Registers;

#[cfg(target_os = "linux")]
pub(crate) mod inject;
#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
pub(crate) mod jump_probe;
#[cfg(test)]
pub(super) mod probe;
#[cfg(target_os = "linux")]
pub(crate) mod tp;

/// `true` if this machine can run green threads.
pub(crate) const SUPPORTED: bool = true;

/// What the ABI asks of a stack pointer just before a call.
const STACK_ALIGN: usize = 16;

/// MXCSR of a new thread: round to nearest, every exception masked, denormals as they are.
const MXCSR: u32 = 0x1F80;
/// x87 control word of a new thread: the same, with 64 bits of precision.
const X87: u32 = 0x037F;

/// `SYS_arch_prctl`.
const ARCH_PRCTL: u32 = 158;
/// Its operation that sets the base of FS.
const ARCH_SET_FS: u32 = 0x1002;

/// Asks valgrind, if it runs this program, to do `args[0]` with the rest. Otherwise returns `without`.
#[inline]
pub(super) fn valgrind_request(args: &[usize; 6], without: usize) -> usize {
    let answer;
    // SAFETY: to a processor, these are rotations by 128 bits in all and an exchange with itself.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",   // no compiler writes such a thing: valgrind looks for it,
            "xchg rbx, rbx", // and then for what is meant by it
            in("rax") args,
            inlateout("rdx") without => answer,
            options(nostack),
        );
    }
    answer
}

/// Lays out a context on the stack that ends at `top`. When it is first switched to, with `arg`, it calls
/// `entry(arg, data)`.
///
/// # Safety
/// `top` is aligned to [`STACK_ALIGN`]. The stack below it is writable and not in use (I2). `entry` never
/// returns or unwinds.
pub(crate) unsafe fn init(top: *mut u8, entry: Entry, data: *mut ()) -> SavedSp {
    debug_assert_eq!(top.addr() % STACK_ALIGN, 0);
    let start: unsafe extern "C" fn() -> ! = start;
    let floats = MXCSR as usize | (X87 as usize) << 32;
    // The picture above, lowest word first; then two zeros, so that the first stack pointer too lies
    // within the stack.
    let frame = [floats, start as usize, data.expose_provenance(), entry as usize, 0, 0];
    // SAFETY: the caller gives away the stack below `top`, which has room for six words or is no stack.
    let low = unsafe { top.sub(size_of_val(&frame)) };
    // SAFETY: the six words lie below `top`, which the caller gives away.
    unsafe { low.cast::<[usize; 6]>().write(frame) };
    // SAFETY: past the first four of the six words.
    SavedSp(unsafe { low.add(4 * size_of::<usize>()) })
}

/// How far below the stack pointer of a suspended context its frame begins: see the picture.
pub(crate) const FRAME_BELOW: usize = 32;

/// Returns the registers of a suspended context, whose frame begins with these words. Its stack pointer is
/// `sp`.
pub(crate) fn suspended([_floats, resume, rbx, rbp]: [usize; 4], sp: usize) -> Registers {
    Registers::new(resume, sp).with(3, rbx).with(6, rbp)
}

/// Returns `true` if a context with this resume address has not been resumed since it was laid out.
pub(crate) fn is_start(resume: usize) -> bool {
    let start: unsafe extern "C" fn() -> ! = start;
    resume == start as usize
}

/// The bottom of every context: the resume address of a frame that [`init`] laid out.
///
/// It is reached by a jump with `r8` = arg, `rbx` = data, `rbp` = entry and `rsp` = top - 16.
#[unsafe(naked)]
unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip", // unwinders that read tables stop here,
        "mov rax, rbp",
        "xor ebp, ebp", // and those that follow frame pointers too
        "mov rdi, r8",  // first argument: arg
        "mov rsi, rbx", // second: data
        "lea rcx, [rip + 2f]",
        "push rcx", // a return address, for unwinders; it aligns the stack as entry expects
        "jmp rax",  // no call: entry never returns, so the return predictor would get out of step
        "2:",
        "ud2",
        ".cfi_endproc",
    )
}

/// Reads four bytes that may not be there: copies them to `found`, and returns `true`. If the first
/// instruction faults, a handler of the fault may let it go on at the second address of [`checked_load`],
/// which returns `false`.
///
/// # Safety
/// `found` can be written. A fault at `address` is answered, or ends the process.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_checked(address: *const u32, found: *mut u32) -> bool {
    naked_asm!("mov eax, [rdi]", "mov [rsi], eax", "mov eax, 1", "ret")
}

/// Returns the address of the instruction of [`load_checked`] that may fault, and where it goes on then.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn checked_load() -> (usize, usize) {
    #[unsafe(naked)]
    extern "C" fn failed() -> bool {
        naked_asm!("xor eax, eax", "ret")
    }
    (load_checked as *const () as usize, failed as *const () as usize)
}

/// Calls `landing.function(landing.value)`, and stores what it returns in `landing.value`. If a function
/// below jumps to `landing.buffer`, this returns all the same, with the value as it was.
///
/// # Safety
/// The functions are what their names say, `buffer` is theirs to use, and frames that a jump leaves own
/// nothing.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn call_landed(landing: *mut super::Landing) {
    naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "mov rbx, rdi",
        "lea rdi, [rbx + 48]",
        "xor esi, esi",
        "call [rbx]", // set the jump; it returns a second time, with something else than 0
        "test eax, eax",
        "jnz 2f",
        "lea rdi, [rbx + 48]",
        "call [rbx + 8]", // register it
        "mov rdi, [rbx + 32]",
        "call [rbx + 24]", // the function
        "mov [rbx + 32], rax",
        "2:",
        "lea rdi, [rbx + 48]",
        "call [rbx + 16]", // unregister it
        "pop rbx",
        ".cfi_def_cfa_offset 8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_endproc",
    )
}

/// The switch, with `$install` in the place where the thread register is written.
///
/// `r8` = arg, `r9` = the stack pointer to go to, `r10` = where to leave our own: registers that a system
/// call keeps.
macro_rules! exchange {
    ($save:expr, $to:expr, $arg:expr, [$($install:literal),*] $($operand:tt)*) => {{
        let got: usize;
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rsp - 8], rbp",
            "mov [rsp - 16], rbx",
            "mov [rsp - 24], rax",        // come back to 2
            "stmxcsr [rsp - 32]",
            "fnstcw [rsp - 28]",
            "mov [r10], rsp",             // the frame is whole: name it
            $($install,)*
            "mov eax, [rsp - 32]",
            "movzx ecx, word ptr [rsp - 28]", // loads as wide as the stores, which forward only then
            "xor eax, [r9 - 32]",
            "xor cx, [r9 - 28]",
            "and eax, 0xFFC0",            // status bits may differ
            "or eax, ecx",
            "jnz 3f",                     // another thread's arithmetic: load it, out of line
            "4:",
            "mov rbx, [r9 - 16]",
            "mov rbp, [r9 - 8]",
            "mov rax, [r9 - 24]",
            "mov rsp, r9",                // theirs from here
            "jmp rax",                    // not `ret`: see above
            "3:",
            "ldmxcsr [r9 - 32]",
            "fnclex",                     // our x87 exceptions are not to trap where theirs are unmasked
            "fldcw [r9 - 28]",
            "jmp 4b",
            "2:",                         // we are back; the context that switched to us left its arg in r8
            in("r10") $save,
            in("r9") $to.0,
            inlateout("r8") $arg => got,
            $($operand)*
            lateout("r12") _,             // callee-saved, so not in the list below
            lateout("r13") _,
            lateout("r14") _,
            lateout("r15") _,
            clobber_abi("sysv64"),        // everything else, vector, mask and x87 registers included
        );
        got
    }};
}

/// Saves this context in `*save` and resumes `to`, on the same thread register. When another context switches
/// back, returns the `arg` that it passed.
///
/// # Safety
/// `to` came from [`init`] or from a switch, and was not resumed since. Its stack is mapped, and no other
/// kernel thread stands on it (I2). `save` may be written. Signal handlers do not switch.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut SavedSp, to: SavedSp, arg: usize) -> usize {
    // SAFETY: `to`'s frame has the layout above, so its code continues as if its own call returned. Ours
    // does when `*save` is resumed, which by the caller's contract happens at most once.
    unsafe { exchange!(save, to, arg, []) }
}

/// [`switch`] that also writes the thread register: `tp` is that of the thread of context `to`.
///
/// # Safety
/// As [`switch`]. [`tp::can_write`] is true, and `tp` is the one register value of the resumed
/// thread (I1).
#[inline(always)]
pub(crate) unsafe fn switch_tp(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: `to`'s code continues as if its own call returned, and `tp` is its thread's (I1). No code
    // that could use a thread-local runs between the two writes, of the register and of the stack pointer.
    unsafe { exchange!(save, to, arg, ["wrfsbase rsi"] in("rsi") tp,) }
}

/// [`switch_tp`] by a system call, for machines without the instruction.
///
/// # Safety
/// As [`switch_tp`], with [`tp::SYSCALL`] in place of `can_write`.
#[inline(always)]
pub(crate) unsafe fn switch_tp_syscall(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: `to`'s code continues as if its own call returned, and `tp` is its thread's (I1). The kernel
    // keeps every register but rax, rcx and r11, and writes nothing below the stack pointer. It refuses only
    // an address outside user space: then a trap is better than a wrong register.
    unsafe {
        exchange!(save, to, arg, [
            "mov eax, {arch_prctl}",
            "mov edi, {arch_set_fs}",
            "syscall",
            "test eax, eax",
            "jz 5f",
            "ud2",
            "5:"
        ]
        in("rsi") tp,
        arch_prctl = const ARCH_PRCTL,
        arch_set_fs = const ARCH_SET_FS,)
    }
}

/// `true`: there is a counter, which is a clock if the kernel says so.
pub(crate) const HAS_COUNTER: bool = true;

/// Reads the time-stamp counter. The processor may do so earlier or later than the program says, by some
/// instructions.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    // SAFETY: every 64-bit processor has it. A kernel that forbids it does not offer it as a clock either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Begins to fetch the cache line of `at`, which is about to be written. Any address is valid.
#[inline(always)]
pub(crate) fn fetch_to_write(at: *const u8) {
    // SAFETY: a hint, which the program cannot see as a read or a write, and which does not fault. All 64-bit
    // processors of AMD have it. Intel's, except the first of 2004, at least take it for a `nop`.
    unsafe { asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
}
