//! Contexts on x86-64, System V ABI.
//!
//! The problem and the way are those of `context.rs`.
//!
//! **Rejected**: pushes. The frame is written below the stack pointer, in the 128 bytes that the ABI keeps
//! from signal handlers. So the compiler's unwind tables hold until the last few instructions, and no
//! address depends on the one before.
//!
//! A suspended context with the [`SavedSp`](super::SavedSp) `sp`:
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

/// MXCSR of a new thread: round to nearest, every exception masked, denormals as they are.
const MXCSR: u32 = 0x1F80;
/// x87 control word of a new thread: the same, with 64 bits of precision.
const X87: u32 = 0x037F;

/// `SYS_arch_prctl`.
pub(super) const ARCH_PRCTL: u32 = 158;
/// Its operation that sets the base of FS.
pub(super) const ARCH_SET_FS: u32 = 0x1002;

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

/// Returns the frame of a new context: the picture above, lowest word first.
pub(super) fn first_frame(entry: usize, data: usize) -> [usize; 4] {
    let floats = MXCSR as usize | (X87 as usize) << 32;
    [floats, start as *const () as usize, data, entry]
}

/// How far below the stack pointer of a suspended context its frame begins: see the picture.
pub(crate) const FRAME_BELOW: usize = 32;

/// Returns the registers of a suspended context, whose frame begins with these words. Its stack pointer is
/// `sp`.
pub(crate) fn suspended([_floats, resume, rbx, rbp]: [usize; 4], sp: usize) -> Registers {
    Registers::new(resume, sp).with(3, rbx).with(6, rbp)
}

/// The bottom of every context: the resume address of a [`first_frame`].
///
/// It is reached by a jump with `r8` = arg, `rbx` = data, `rbp` = entry and `rsp` = top - 16.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn start() -> ! {
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

/// Loads by the first instruction: see `guarded.rs`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn load_checked(address: *const u32, found: *mut u32) -> bool {
    naked_asm!("mov eax, [rdi]", "mov [rsi], eax", "mov eax, 1", "ret")
}

/// See `guarded.rs`.
pub(crate) fn checked_load() -> (usize, usize) {
    #[unsafe(naked)]
    extern "C" fn failed() -> bool {
        naked_asm!("xor eax, eax", "ret")
    }
    (load_checked as *const () as usize, failed as *const () as usize)
}

/// See `guarded.rs`.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn call_landed(landing: *mut super::guarded::Landing) {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip", // unwinders stop here
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
    ($save:expr, $to:expr, $arg:expr) => { exchange!($save, $to, $arg, []) };
    ($save:expr, $to:expr, $arg:expr, instruction: $tp:expr) => {
        exchange!($save, $to, $arg, ["wrfsbase rsi"] in("rsi") $tp,)
    };
    // The kernel keeps every register but rax, rcx and r11, and writes nothing below the stack pointer. It
    // refuses only an address outside user space: then a trap is better than a wrong register.
    ($save:expr, $to:expr, $arg:expr, system_call: $tp:expr) => {
        exchange!(
            $save, $to, $arg,
            ["mov eax, {call}", "mov edi, {set_fs}", "syscall", "test eax, eax", "jz 5f", "ud2", "5:"]
            in("rsi") $tp,
            call = const $crate::arch::isa::ARCH_PRCTL,
            set_fs = const $crate::arch::isa::ARCH_SET_FS,
        )
    };
    ($save:expr, $to:expr, $arg:expr, [$($install:literal),*] $($operand:tt)*) => {{
        let got: usize;
        core::arch::asm!(
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
            "jmp rax",                    // not `ret`: see `context.rs`
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

pub(super) use exchange;

/// Returns how the calling thread computes: MXCSR without its status, and above it the x87 control word.
pub(crate) fn float_modes() -> usize {
    let mut modes = 0_usize;
    // SAFETY: writes six bytes of a local variable.
    unsafe {
        asm!(
            "stmxcsr [{modes}]",
            "fnstcw [{modes} + 4]",
            modes = in(reg) &raw mut modes,
            options(nostack, preserves_flags),
        );
    }
    modes & !0x3f
}

/// Makes the calling thread compute as one whose [`float_modes`] these are.
pub(crate) fn set_float_modes(modes: usize) {
    // SAFETY: a thread of the program has had these modes, and the caller runs its code next.
    unsafe {
        asm!(
            "ldmxcsr [{modes}]",
            "fnclex", // exceptions of another thread are not to trap where these are unmasked
            "fldcw [{modes} + 4]",
            modes = in(reg) &raw const modes,
            options(nostack, preserves_flags, readonly),
        );
    }
}

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
