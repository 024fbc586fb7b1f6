//! Contexts on aarch64, AAPCS64.
//!
//! The problem and the way are those of `context.rs`. What differs from `x86_64.rs`:
//!
//! - There is no red zone below the stack pointer, so the stack pointer moves to make the frame.
//! - The return address is in a register, so `ret` would gain nothing.
//! - The rounding and flushing modes are one word, FPCR. The status bits are in another, FPSR, which no
//!   call preserves.
//!
//! A suspended context with the [`SavedSp`](super::SavedSp) `sp`:
//!
//! ```text
//!            ...                  the caller's own frame
//!     +32   +------------------+
//!     +24   | FPCR             |
//!     +16   | resume address   |  label 2 of the switch that left, or `start`
//!      +8   | x19              |  the two registers that inline assembly may not
//!   sp  ->  | x29              |  name as clobbered, because LLVM keeps them
//!           +------------------+
//! ```
//!
//! **Not carried.** Streaming mode and the ZA array of SME are off at any call that does not share them.
//! The guarded control stack is on only if every object in the process is marked for it. Pointer
//! authentication needs nothing: its keys belong to the process, and its modifier is the stack pointer,
//! which is the same afterwards.

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

/// FPCR of a new thread: round to nearest, every exception masked, denormals as they are.
const FPCR: usize = 0;

/// Asks valgrind, if it runs this program, to do `args[0]` with the rest. Otherwise returns `without`.
#[inline]
pub(super) fn valgrind_request(args: &[usize; 6], without: usize) -> usize {
    let answer;
    // SAFETY: to a processor, these are rotations by 128 bits in all and an `or` with itself.
    unsafe {
        asm!(
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61", // no compiler writes such a thing: valgrind looks for it,
            "orr x10, x10, x10", // and then for what is meant by it
            in("x4") args,
            inlateout("x3") without => answer,
            options(nostack),
        );
    }
    answer
}

/// Returns the frame of a new context: the picture above, lowest word first.
pub(super) fn first_frame(entry: usize, data: usize) -> [usize; 4] {
    [entry, data, start as *const () as usize, FPCR]
}

/// How far below the stack pointer of a suspended context its frame begins: see the picture.
pub(crate) const FRAME_BELOW: usize = 0;

/// Returns the registers of a suspended context, whose frame begins with these words. Its saved stack pointer
/// is `sp`.
pub(crate) fn suspended([x29, x19, resume, _fpcr]: [usize; 4], sp: usize) -> Registers {
    Registers::new(resume, sp + 32).with(29, x29).with(19, x19)
}

/// The bottom of every context: the resume address of a [`first_frame`].
///
/// It is reached by a jump with `x0` = arg, `x19` = data, `x29` = entry and `sp` = top - 16.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30", // unwinders that read tables stop here,
        "hint 36",            // bti j: we are jumped to
        "mov x16, x29",
        "mov x29, xzr", // and those that follow frame pointers too
        "mov x1, x19",  // second argument: data; the first, arg, is in x0 already
        "adr x30, 2f",  // a return address, for unwinders;
        "br x16",       // no call: entry never returns (x16: a `bti c` accepts it)
        "2:",
        "brk #1",
        ".cfi_endproc",
    )
}

/// Loads by the second instruction: see `guarded.rs`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn load_checked(address: *const u32, found: *mut u32) -> bool {
    naked_asm!(
        "hint 34", // bti c: callers in another object come by a jump
        "ldr w2, [x0]",
        "str w2, [x1]",
        "mov w0, #1",
        "ret"
    )
}

/// See `guarded.rs`.
pub(crate) fn checked_load() -> (usize, usize) {
    #[unsafe(naked)]
    extern "C" fn failed() -> bool {
        naked_asm!("mov w0, wzr", "ret")
    }
    (load_checked as *const () as usize + 4, failed as *const () as usize)
}

/// See `guarded.rs`.
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn call_landed(landing: *mut super::guarded::Landing) {
    naked_asm!(
        ".cfi_startproc",
        "hint 25", // paciasp: signs the return address, and is a landing pad, too
        ".cfi_negate_ra_state",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_undefined x30", // unwinders stop here
        "str x19, [sp, #16]",
        ".cfi_offset x19, -16",
        "mov x29, sp",
        "mov x19, x0",
        "add x0, x19, #48",
        "mov w1, wzr",
        "ldr x9, [x19]",
        "blr x9",  // set the jump; it returns a second time, with something else than 0,
        "hint 36", // by a jump (bti j)
        "cbnz w0, 2f",
        "add x0, x19, #48",
        "ldr x9, [x19, #8]",
        "blr x9", // register it
        "ldr x0, [x19, #32]",
        "ldr x9, [x19, #24]",
        "blr x9", // the function
        "str x0, [x19, #32]",
        "2:",
        "add x0, x19, #48",
        "ldr x9, [x19, #16]",
        "blr x9", // unregister it
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "hint 29", // autiasp: a return address that was changed leads nowhere
        "ret",
        ".cfi_endproc",
    )
}

/// The switch, with `$install` in the place where the thread register is written.
///
/// `x0` = arg, `x1` = the stack pointer to go to, `x2` = where to leave our own.
macro_rules! exchange {
    ($save:expr, $to:expr, $arg:expr) => { exchange!($save, $to, $arg, []) };
    // Every processor has the instruction, so no other way is needed.
    ($save:expr, $to:expr, $arg:expr, $way:ident: $tp:expr) => {
        exchange!($save, $to, $arg, ["msr tpidr_el0, x3"] in("x3") $tp,)
    };
    ($save:expr, $to:expr, $arg:expr, [$($install:literal),*] $($operand:tt)*) => {{
        let got: usize;
        core::arch::asm!(
            "adr x9, 2f",
            "mrs x10, fpcr",
            "stp x29, x19, [sp, #-32]!",  // the pointer first: a signal handler may use what is below it
            "stp x9, x10, [sp, #16]",     // come back to 2
            "mov x9, sp",
            "str x9, [x2]",               // the frame is whole: name it
            $($install,)*
            "ldp x9, x11, [x1, #16]",
            "ldp x29, x19, [x1]",
            "cmp x10, x11",
            "b.ne 3f",                    // another thread's arithmetic: load it, out of line
            "4:",
            "add sp, x1, #32",            // theirs from here
            "br x9",
            "3:",
            "msr fpcr, x11",
            "b 4b",
            "2:",                         // we are back; the context that switched to us left its arg in x0
            "hint 36",                    // bti j
            in("x2") $save,
            in("x1") $to.0,
            inlateout("x0") $arg => got,
            $($operand)*
            lateout("x20") _,             // callee-saved, so not in the list below
            lateout("x21") _,
            lateout("x22") _,
            lateout("x23") _,
            lateout("x24") _,
            lateout("x25") _,
            lateout("x26") _,
            lateout("x27") _,
            lateout("x28") _,
            clobber_abi("C"),             // everything else, link and vector registers included
        );
        got
    }};
}

pub(super) use exchange;

/// Returns how the calling thread computes: FPCR.
pub(crate) fn float_modes() -> usize {
    let modes;
    // SAFETY: reads one register.
    unsafe { asm!("mrs {}, fpcr", out(reg) modes, options(nomem, nostack, preserves_flags)) };
    modes
}

/// Makes the calling thread compute as one whose [`float_modes`] these are.
pub(crate) fn set_float_modes(modes: usize) {
    // SAFETY: a thread of the program has had these modes, and the caller runs its code next.
    unsafe { asm!("msr fpcr, {}", in(reg) modes, options(nomem, nostack, preserves_flags)) };
}

/// Reads the virtual counter. The processor may do so earlier or later than the program says, by some
/// instructions.
#[inline(always)]
pub(crate) fn counter() -> u64 {
    let count: u64;
    // SAFETY: the register can be read without privileges, and reading has no effect.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

/// Begins to fetch the cache line of `at`, which is about to be written. Any address is valid.
#[inline(always)]
pub(crate) fn fetch_to_write(at: *const u8) {
    // SAFETY: a hint, which the program cannot see as a read or a write, and which does not fault.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
}
