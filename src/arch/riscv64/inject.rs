//! Injected calls on riscv64: the trampoline, and what it saves.
//!
//! The problem and the way are those of `arch/inject.rs`; the way back is that of `aarch64/inject.rs`. The
//! trampoline saves the registers in the form of a signal frame. In the end it returns from a signal handler,
//! so the kernel restores them from the frame. What differs:
//!
//! **The thread register** is one of the registers in the frame. The trampoline writes there what it is at
//! the end. (It has not changed: each green thread has one for its whole life. Tests of this folder move
//! contexts to other registers.)
//!
//! The stack of a thread that was interrupted with the stack pointer `s`:
//!
//! ```text
//!            ...                  its own frame
//!    s  ->  +------------------+
//!           | signal frame     |  1,088 bytes; with vectors, 5,248, of which the upper ones may stay unused.
//!           |                  |  Its lower 152 bytes hold nothing. `inject` writes `s` and the program
//!           |                  |  counter to their places; the trampoline starts at its low end
//!           +------------------+
//!           | the function     |  `SLACK` bytes for it and all that it calls
//! ```
//!
//! **Vectors** (V) are in the kernel's frame from the kernel thread's first use of a vector register on, so
//! then the trampoline saves them, too. On the way back, the kernel takes them only if that kernel thread has
//! used a vector register before. So the trampoline uses one first. (A system call makes the registers
//! invalid, but does not undo that.)
//!
//! **Refused** are threads with more in the frame, as records of later extensions. The same holds for vectors
//! of an extension before V 1.0, and for registers of more than 1,024 bits. The slot of such a thread is
//! handed off instead ([`room`] returns `None`).

use core::arch::naked_asm;
use core::ptr;

use crate::arch::inject::Injected;

/// The signal frame without a record of an extension, and what alignment may cost.
const PLAIN: usize = 1088;
const ALIGNMENT: usize = 16;

/// The registers of vectors, of which each may have 128 bytes.
const VECTORS: usize = 32 * 128;
/// The head of the record of vectors, and five words with a pointer to the registers. These lie behind.
const RECORD: usize = 8 + 48;
/// A frame with that record, and with the end of the list of records in a place that depends on its length.
const WITH_VECTORS: usize = PLAIN + 48 + VECTORS + 16;

/// Returns the bytes that a trampoline needs. `record` is the length of the record of vectors in the signal
/// frame, 0 if there is none, or a number that no record can have. In the last case the frame has more than
/// is saved here.
pub(in crate::arch) fn room(record: u64) -> Option<usize> {
    const MOST: u64 = (RECORD + VECTORS) as u64;
    (record <= MOST).then_some(frame(record) + ALIGNMENT)
}

/// Returns how long the frame is that the trampoline makes.
fn frame(record: u64) -> usize {
    if record == 0 { PLAIN } else { WITH_VECTORS }
}

/// Writes what the trampoline needs below `sp`. Returns the stack pointer and program counter to go on with.
///
/// # Safety
/// As [`inject`](crate::arch::inject::inject).
pub(in crate::arch) unsafe fn divert<F: Injected>(sp: usize, pc: usize, record: u64) -> (usize, usize) {
    let trampoline: unsafe extern "C" fn() = if record == 0 { plain::<F> } else { with_vectors::<F> };
    let base = (sp - frame(record)) & !(ALIGNMENT - 1);
    let registers = ptr::with_exposed_provenance_mut::<usize>(base + 304);
    // SAFETY: the caller has checked the room.
    unsafe { registers.write(pc) };
    // SAFETY: the room reaches up to the old stack pointer, which is `x2`.
    unsafe { registers.wrapping_add(2).write(sp) };
    (base, trampoline as usize)
}

/// Defines a trampoline. It is entered by a return from a signal handler, with every register live. The stack
/// pointer is at the low end of the frame of `$size` bytes.
macro_rules! trampoline {
    (
        $(#[$doc:meta])* $name:ident, size: $size:ident, extension: $extension:literal,
        save: [$($save:literal),* $(,)?], before_restore: [$($restore:literal),* $(,)?]
    ) => {
        $(#[$doc])*
        #[unsafe(naked)]
        unsafe extern "C" fn $name<F: Injected>() {
            naked_asm!(
                ".option push", // with link-time optimization, LLVM forgets what the target has
                concat!(".option arch, +", $extension),
                ".cfi_startproc",
                ".cfi_signal_frame",      // for unwinders: no call lies below, but code that may have stopped
                ".cfi_return_column 64",  // at any instruction: 64 stands for its program counter
                ".cfi_def_cfa sp, {size}",
                ".cfi_offset 64, 304 - {size}",
                // The frame: 128 bytes about a signal, then the context. The registers begin at 304, with the
                // program counter in the place of x0, and the float registers at 560.
                ".irp n, 1,3,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "sd x\\n, 304 + 8 * \\n(sp)",
                ".cfi_offset \\n, 304 + 8 * \\n - {size}",
                ".endr",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,\
                  30,31",
                "fsd f\\n, 560 + 8 * \\n(sp)",
                ".endr",
                "frcsr t0",
                "sw t0, 816(sp)",
                "sw zero, 1076(sp)",      // reserved: the kernel wants zero
                $($save,)*                // the records, from 1080 on
                "fscsr zero",             // as in a new thread
                "call {function}",
                "li a7, 135",             // rt_sigprocmask, here perhaps on another kernel thread:
                "li a0, 0",
                "li a1, 0",               // change nothing
                "addi a2, sp, 168",       // and write the mask into the frame
                "li a3, 8",
                "ecall",
                "li t0, -1",              // impossible flags of an alternate stack
                "sw t0, 152(sp)",
                "sd tp, 336(sp)",         // x4
                $($restore,)*
                "li a7, 139",             // rt_sigreturn
                "ecall",
                "ebreak",
                ".cfi_endproc",
                ".option pop",
                size = const $size,
                function = sym F::call,
            )
        }
    };
}

trampoline! {
    /// Saves the general and the float registers.
    plain, size: PLAIN, extension: "d",
    save: [
        "sd zero, 1080(sp)", // no record
    ],
    before_restore: []
}
trampoline! {
    /// Saves vectors, too.
    with_vectors, size: WITH_VECTORS, extension: "v",
    save: [
        "csrr t0, vstart",
        "csrw vstart, zero",      // all of each register is stored, and functions find a zero there
        "sd t0, 1088(sp)",
        "csrr t0, vl",
        "sd t0, 1096(sp)",
        "csrr t0, vtype",
        "sd t0, 1104(sp)",
        "csrr t0, vcsr",
        "sd t0, 1112(sp)",
        "csrr t0, vlenb",         // the bytes of a register
        "sd t0, 1120(sp)",
        "addi t1, sp, 1136",      // where the registers are
        "sd t1, 1128(sp)",
        "slli t0, t0, 3",
        "vs8r.v v0, (t1)",
        "add t1, t1, t0",
        "vs8r.v v8, (t1)",
        "add t1, t1, t0",
        "vs8r.v v16, (t1)",
        "add t1, t1, t0",
        "vs8r.v v24, (t1)",
        "add t1, t1, t0",
        "sd zero, 0(t1)",         // no record after this one
        "li t0, 0x53465457",      // RISCV_V_MAGIC,
        "sw t0, 1080(sp)",
        "addi t0, sp, 1080",      // and how long it is
        "sub t0, t1, t0",
        "sw t0, 1084(sp)",
    ],
    before_restore: [
        "vsetivli zero, 0, e8, m1, ta, ma", // a use
    ]
}

#[cfg(test)]
pub(in crate::arch) mod probe;
#[cfg(test)]
mod tests;
