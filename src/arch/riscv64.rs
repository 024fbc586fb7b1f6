//! Contexts on riscv64, LP64D.
//!
//! The problem and the way are those of `context.rs`. What differs from `x86_64.rs`:
//!
//! - There is no red zone below the stack pointer, so the stack pointer moves to make the frame.
//! - The return address is in a register, so `ret` would gain nothing. Jumps go by `t2`. Processors predict a
//!   jump by `ra` or `t0` as a return, and one by `t2` needs no landing pad (Zicfilp).
//! - The rounding mode and the sticky flags of exceptions are one word, fcsr. By the ABI the whole word
//!   belongs to the thread.
//!
//! A suspended context with the [`SavedSp`](super::SavedSp) `sp`:
//!
//! ```text
//!            ...                  the caller's own frame
//!     +32   +------------------+
//!     +24   | fcsr             |
//!     +16   | resume address   |  label 2 of the switch that left, or `start`
//!      +8   | s1               |  the two registers that inline assembly may not
//!   sp  ->  | s0               |  name as clobbered, because LLVM keeps them
//!           +------------------+
//! ```
//!
//! **Not carried.** No call preserves anything of the vector unit. The global pointer, `gp`, is the same in
//! all threads of a process. A shadow stack (Zicfiss) is on only if every object in the process is marked for
//! it.

use core::arch::{asm, naked_asm};

use crate::sys::registers::Registers;

#[cfg(target_os = "linux")]
pub(crate) mod inject;
#[cfg(test)]
pub(super) mod probe;
#[cfg(target_os = "linux")]
pub(crate) mod tp;

/// `true` if this machine can run green threads.
pub(crate) const SUPPORTED: bool = true;

/// fcsr of a new thread: round to nearest, no exception has happened.
const FCSR: usize = 0;

/// Asks valgrind, if it runs this program, to do `args[0]` with the rest. Otherwise returns `without`.
#[inline]
pub(super) fn valgrind_request(args: &[usize; 6], without: usize) -> usize {
    let answer;
    // SAFETY: to a processor, these are shifts of the zero register, and an `or` of a register with itself.
    unsafe {
        asm!(
            ".option push",
            ".option norvc", // each takes four bytes
            "srli zero, zero, 3",
            "srli zero, zero, 13",
            "srli zero, zero, 51",
            "srli zero, zero, 61", // no compiler writes such a thing: valgrind looks for it,
            "or a0, a0, a0",       // and then for what is meant by it
            ".option pop",
            in("a4") args,
            inlateout("a3") without => answer,
            options(nostack),
        );
    }
    answer
}

/// Returns the frame of a new context: the picture above, lowest word first.
pub(super) fn first_frame(entry: usize, data: usize) -> [usize; 4] {
    [entry, data, start as *const () as usize, FCSR]
}

/// How far below the stack pointer of a suspended context its frame begins: see the picture.
pub(crate) const FRAME_BELOW: usize = 0;

/// Returns the registers of a suspended context, whose frame begins with these words. Its saved stack pointer
/// is `sp`.
pub(crate) fn suspended([s0, s1, resume, _fcsr]: [usize; 4], sp: usize) -> Registers {
    Registers::new(resume, sp + 32).with(8, s0).with(9, s1)
}

/// The bottom of every context: the resume address of a [`first_frame`].
///
/// It is reached by a jump with `a0` = arg, `s1` = data, `s0` = entry and `sp` = top - 16.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined ra", // unwinders that read tables stop here,
        "mv t2, s0",
        "mv s0, zero", // and those that follow frame pointers too
        "mv a1, s1",   // second argument: data; the first, arg, is in a0 already
        "lla ra, 2f",  // a return address, for unwinders;
        "jr t2",       // no call: entry never returns
        "2:",
        "ebreak",
        ".cfi_endproc",
    )
}

/// Loads by the first instruction: see `guarded.rs`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn load_checked(address: *const u32, found: *mut u32) -> bool {
    naked_asm!("lw a2, 0(a0)", "sw a2, 0(a1)", "li a0, 1", "ret")
}

/// See `guarded.rs`.
pub(crate) fn checked_load() -> (usize, usize) {
    #[unsafe(naked)]
    extern "C" fn failed() -> bool {
        naked_asm!("li a0, 0", "ret")
    }
    (load_checked as *const () as usize, failed as *const () as usize)
}

/// See `guarded.rs`.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn call_landed(landing: *mut super::guarded::Landing) {
    naked_asm!(
        ".cfi_startproc",
        "addi sp, sp, -32",
        ".cfi_def_cfa_offset 32",
        "sd ra, 24(sp)",
        ".cfi_undefined ra", // unwinders stop here
        "sd s0, 16(sp)",
        ".cfi_offset s0, -16",
        "sd s1, 8(sp)",
        ".cfi_offset s1, -24",
        "addi s0, sp, 32",
        "mv s1, a0",
        "addi a0, s1, 48",
        "li a1, 0",
        "ld t1, 0(s1)",
        "jalr t1", // set the jump; it returns a second time, with something else than 0
        "bnez a0, 2f",
        "addi a0, s1, 48",
        "ld t1, 8(s1)",
        "jalr t1", // register it
        "ld a0, 32(s1)",
        "ld t1, 24(s1)",
        "jalr t1", // the function
        "sd a0, 32(s1)",
        "2:",
        "addi a0, s1, 48",
        "ld t1, 16(s1)",
        "jalr t1", // unregister it
        "ld s1, 8(sp)",
        "ld s0, 16(sp)",
        "ld ra, 24(sp)",
        "addi sp, sp, 32",
        "ret",
        ".cfi_endproc",
    )
}

/// The switch, with `$install` in the place where the thread register is written.
///
/// `a0` = arg, `a1` = the stack pointer to go to, `a2` = where to leave our own.
macro_rules! exchange {
    ($save:expr, $to:expr, $arg:expr) => { exchange!($save, $to, $arg, []) };
    // Every processor has the instruction, so no other way is needed.
    ($save:expr, $to:expr, $arg:expr, $way:ident: $tp:expr) => {
        exchange!($save, $to, $arg, ["mv tp, a3"] in("a3") $tp,)
    };
    ($save:expr, $to:expr, $arg:expr, [$($install:literal),*] $($operand:tt)*) => {{
        let got: usize;
        core::arch::asm!(
            "lla t0, 2f",
            "frcsr t1",
            "addi sp, sp, -32",           // the pointer first: a signal handler may use what is below it
            "sd s0, 0(sp)",
            "sd s1, 8(sp)",
            "sd t0, 16(sp)",              // come back to 2
            "sd t1, 24(sp)",
            "sd sp, 0(a2)",               // the frame is whole: name it
            $($install,)*
            "ld t2, 16(a1)",
            "ld t3, 24(a1)",
            "ld s0, 0(a1)",
            "ld s1, 8(a1)",
            "bne t1, t3, 3f",             // another thread's arithmetic: load it, out of line
            "4:",
            "addi sp, a1, 32",            // theirs from here
            "jr t2",
            "3:",
            "fscsr t3",
            "j 4b",
            "2:",                         // we are back; the context that switched to us left its arg in a0
            in("a2") $save,
            in("a1") $to.0,
            inlateout("a0") $arg => got,
            $($operand)*
            lateout("s2") _,              // callee-saved, so not in the list below
            lateout("s3") _,
            lateout("s4") _,
            lateout("s5") _,
            lateout("s6") _,
            lateout("s7") _,
            lateout("s8") _,
            lateout("s9") _,
            lateout("s10") _,
            lateout("s11") _,
            lateout("fs0") _,
            lateout("fs1") _,
            lateout("fs2") _,
            lateout("fs3") _,
            lateout("fs4") _,
            lateout("fs5") _,
            lateout("fs6") _,
            lateout("fs7") _,
            lateout("fs8") _,
            lateout("fs9") _,
            lateout("fs10") _,
            lateout("fs11") _,
            clobber_abi("C"),             // everything else, the return address included
        );
        got
    }};
}

pub(super) use exchange;

/// Returns how the calling thread computes: how it rounds.
pub(crate) fn float_modes() -> usize {
    let modes;
    // SAFETY: reads one register.
    unsafe { asm!("frrm {}", out(reg) modes, options(nomem, nostack, preserves_flags)) };
    modes
}

/// Makes the calling thread compute as one whose [`float_modes`] these are.
pub(crate) fn set_float_modes(modes: usize) {
    // SAFETY: a thread of the program has had these modes, and the caller runs its code next.
    unsafe { asm!("fsrm {}", in(reg) modes, options(nomem, nostack)) };
}

/// Reads the real-time counter. The processor may do so earlier or later than the program says, by some
/// instructions.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    let count: u64;
    // SAFETY: Linux lets programs read the counter, and reading has no effect.
    unsafe { asm!("rdtime {}", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

/// Begins to fetch the cache line of `at`, which is about to be written. Any address is valid.
#[inline(always)]
pub(crate) fn fetch_to_write(at: *const u8) {
    // `prefetch.w`. A processor without it (Zicbop) computes a number, and drops it.
    // SAFETY: a hint, which the program cannot see as a read or a write, and which does not fault.
    unsafe { asm!("ori zero, {}, 3", in(reg) at, options(nostack, preserves_flags, readonly)) };
}
