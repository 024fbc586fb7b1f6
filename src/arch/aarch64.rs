//! Contexts on aarch64, AAPCS64.
//!
//! The problem, the ways rejected and the contract are those of `x86_64.rs`. What differs: there is no red zone below the
//! stack pointer, so the frame is made by moving it; the return address is a register, so nothing tempts one to use
//! `ret`; and the rounding and flushing modes are one word, FPCR, whose status bits live elsewhere (FPSR, which no call
//! preserves).
//!
//! A suspended context, whose [`SavedSp`] is `sp`:
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
//! **Not carried**: streaming mode and the ZA array of SME (off at any call that does not share them) and the guarded
//! control stack (on only if every object in the process is marked for it). Pointer authentication needs nothing: its keys
//! belong to the process and its modifier is the stack pointer, which comes back as it was.

use core::arch::{asm, naked_asm};

use super::{Entry, SavedSp};

#[cfg(test)]
#[path = "aarch64_probe.rs"]
pub(super) mod probe;

/// Whether this machine can run green threads.
pub(crate) const SUPPORTED: bool = true;

/// What the hardware asks of a stack pointer at every access through it.
const STACK_ALIGN: usize = 16;

/// FPCR of a new thread: round to nearest, every exception masked, denormals as they are.
const FPCR: usize = 0;

/// Asks valgrind, if it runs this program, to do `args[0]` with the rest; anywhere else it answers `without`.
#[inline]
pub(super) fn valgrind_request(args: &[usize; 6], without: usize) -> usize {
    let answer;
    // SAFETY: to a processor, rotations by 128 bits in all and an `or` with itself.
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

/// Lays out a context that will call `entry(arg, data)` on the stack ending at `top`, when first switched to with `arg`.
///
/// # Safety
/// `top` is aligned to [`STACK_ALIGN`], the stack below it is writable and nobody's (I2), and `entry` never returns or
/// unwinds.
pub(crate) unsafe fn init(top: *mut u8, entry: Entry, data: *mut ()) -> SavedSp {
    debug_assert_eq!(top.addr() % STACK_ALIGN, 0);
    let start: unsafe extern "C" fn() -> ! = start;
    // The picture above, lowest word first; then two zeros, so that the first stack pointer too lies within the stack.
    let frame = [entry as usize, data.expose_provenance(), start as usize, FPCR, 0, 0];
    // SAFETY: the caller gives away the stack below `top`, which has room for six words or is no stack.
    let sp = unsafe { top.sub(size_of_val(&frame)) };
    // SAFETY: as above.
    unsafe { sp.cast::<[usize; 6]>().write(frame) };
    SavedSp(sp)
}

/// The bottom of every context: the resume address of a frame that [`init`] laid out.
///
/// Reached by a jump with `x0` = arg, `x19` = data, `x29` = entry and `sp` = top - 16.
#[unsafe(naked)]
unsafe extern "C" fn start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30", // unwinders that read tables stop here,
        "hint 36",            // bti j: we are jumped to
        "mov x16, x29",
        "mov x29, xzr", // and those that follow frame pointers too
        "mov x1, x19",  // second argument: data; the first, arg, is in x0 already
        "adr x30, 2f",  // a return address, which says who is below;
        "br x16",       // not by a call: entry never returns (x16: a `bti c` lets it in)
        "2:",
        "brk #1",
        ".cfi_endproc",
    )
}

/// The switch, with `$install` in the place where the thread register is written.
///
/// `x0` = arg, `x1` = the stack pointer to go to, `x2` = where to leave our own.
macro_rules! exchange {
    ($save:expr, $to:expr, $arg:expr, [$($install:literal),*] $($operand:tt)*) => {{
        let got: usize;
        asm!(
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
            "2:",                         // we are back; whoever came here left its arg in x0
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
            clobber_abi("C"),             // everything else, link register and all of the vector registers included
        );
        got
    }};
}

/// Leaves this context in `*save` and takes up `to`, on the same thread register; returns, when somebody switches back,
/// what they passed as `arg`.
///
/// # Safety
/// `to` came from [`init`] or from a switch, nobody has taken it up since, its stack is mapped, and no other kernel thread
/// stands on it (I2). `save` may be written. Signal handlers do not switch.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut SavedSp, to: SavedSp, arg: usize) -> usize {
    // SAFETY: `to`'s frame has the layout above, so its code goes on as if its own call returned; ours does once
    // somebody takes up `*save`, which the caller's contract makes happen at most once.
    unsafe { exchange!(save, to, arg, []) }
}

/// [`switch`] that also writes the thread register: `tp` is that of the thread whose context `to` is.
///
/// # Safety
/// As [`switch`]; [`super::tp::can_write`] is true; and `tp` is the one register value of the thread taken up (I1).
#[inline(always)]
pub(crate) unsafe fn switch_tp(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: as `switch`. No code that could use a thread-local runs between the register and the stack pointer.
    unsafe { exchange!(save, to, arg, ["msr tpidr_el0, x3"] in("x3") tp,) }
}

/// [`switch_tp`]: every processor has the instruction, so there is no other way to need.
///
/// # Safety
/// As [`switch_tp`].
#[inline(always)]
pub(crate) unsafe fn switch_tp_syscall(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: the caller's contract is that of `switch_tp`.
    unsafe { switch_tp(save, to, tp, arg) }
}

/// Begins to fetch the cache line of `at`, which is about to be written. Any address will do.
#[inline(always)]
pub(crate) fn fetch_to_write(at: *const u8) {
    // SAFETY: a hint: it neither reads nor writes as far as the program can see, and does not fault.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
}
