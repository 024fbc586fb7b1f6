//! Contexts on aarch64, AAPCS64.
//!
//! The problem, the rejected ways and the contract are those of `x86_64.rs`. What differs:
//!
//! - There is no red zone below the stack pointer, so the stack pointer moves to make the frame.
//! - The return address is in a register, so `ret` would gain nothing.
//! - The rounding and flushing modes are one word, FPCR. The status bits are in another, FPSR, which no
//!   call preserves.
//!
//! A suspended context with the [`SavedSp`] `sp`:
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

use super::{Entry, SavedSp};
use crate::sys::registers::Registers;

#[cfg(target_os = "linux")]
pub(crate) mod inject;
#[cfg(test)]
pub(super) mod probe;
#[cfg(target_os = "linux")]
pub(crate) mod tp;

/// `true` if this machine can run green threads.
pub(crate) const SUPPORTED: bool = true;

/// What the hardware asks of a stack pointer at every access through it.
const STACK_ALIGN: usize = 16;

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

/// Lays out a context on the stack that ends at `top`. When it is first switched to, with `arg`, it calls
/// `entry(arg, data)`.
///
/// # Safety
/// `top` is aligned to [`STACK_ALIGN`]. The stack below it is writable and not in use (I2). `entry` never
/// returns or unwinds.
pub(crate) unsafe fn init(top: *mut u8, entry: Entry, data: *mut ()) -> SavedSp {
    debug_assert_eq!(top.addr() % STACK_ALIGN, 0);
    let start: unsafe extern "C" fn() -> ! = start;
    // The picture above, lowest word first; then two zeros, so that the first stack pointer too lies
    // within the stack.
    let frame = [entry as usize, data.expose_provenance(), start as usize, FPCR, 0, 0];
    // SAFETY: the caller gives away the stack below `top`, which has room for six words or is no stack.
    let sp = unsafe { top.sub(size_of_val(&frame)) };
    // SAFETY: the six words lie below `top`, which the caller gives away.
    unsafe { sp.cast::<[usize; 6]>().write(frame) };
    SavedSp(sp)
}

/// How far below the stack pointer of a suspended context its frame begins: see the picture.
pub(crate) const FRAME_BELOW: usize = 0;

/// Returns the registers of a suspended context, whose frame begins with these words. Its saved stack pointer
/// is `sp`.
pub(crate) fn suspended([x29, x19, resume, _fpcr]: [usize; 4], sp: usize) -> Registers {
    Registers::new(resume, sp + 32).with(29, x29).with(19, x19)
}

/// Returns `true` if a context with this resume address has not been resumed since it was laid out.
pub(crate) fn is_start(resume: usize) -> bool {
    let start: unsafe extern "C" fn() -> ! = start;
    resume == start as usize
}

/// The bottom of every context: the resume address of a frame that [`init`] laid out.
///
/// It is reached by a jump with `x0` = arg, `x19` = data, `x29` = entry and `sp` = top - 16.
#[unsafe(naked)]
unsafe extern "C" fn start() -> ! {
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

/// Reads four bytes that may not be there: copies them to `found`, and returns `true`. If the first
/// instruction faults, a handler of the fault may let it go on at the second address of [`checked_load`],
/// which returns `false`.
///
/// # Safety
/// `found` can be written. A fault at `address` is answered, or ends the process.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load_checked(address: *const u32, found: *mut u32) -> bool {
    naked_asm!(
        "hint 34", // bti c: callers in another object come by a jump
        "ldr w2, [x0]",
        "str w2, [x1]",
        "mov w0, #1",
        "ret"
    )
}

/// Returns the address of the instruction of [`load_checked`] that may fault, the second one, and where it
/// goes on then.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn checked_load() -> (usize, usize) {
    #[unsafe(naked)]
    extern "C" fn failed() -> bool {
        naked_asm!("mov w0, wzr", "ret")
    }
    (load_checked as *const () as usize + 4, failed as *const () as usize)
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
        "hint 25", // paciasp: signs the return address, and is a landing pad, too
        ".cfi_negate_ra_state",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
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

/// Saves this context in `*save` and resumes `to`, on the same thread register. When another context
/// switches back, returns the `arg` that it passed.
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
    unsafe { exchange!(save, to, arg, ["msr tpidr_el0, x3"] in("x3") tp,) }
}

/// [`switch_tp`]: every processor has the instruction, so no other way is needed.
///
/// # Safety
/// As [`switch_tp`].
#[inline(always)]
pub(crate) unsafe fn switch_tp_syscall(save: *mut SavedSp, to: SavedSp, tp: usize, arg: usize) -> usize {
    // SAFETY: the caller's contract is that of `switch_tp`.
    unsafe { switch_tp(save, to, tp, arg) }
}

/// `true`: there is a counter, which is a clock.
pub(crate) const HAS_COUNTER: bool = true;

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
