//! The registers of aarch64: x0 to x30, the stack pointer, the flags, both float words, v0 to v31; and those
//! of SVE.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;

use super::super::kinds::marker;

/// Turns of the loops below. Both take some tens of microseconds, so most slices of 50 us end in one.
const SPINS: u64 = 30_000;

/// What is loaded, and what is found afterwards.
#[repr(C, align(16))]
#[derive(Clone, Debug, PartialEq)]
struct State {
    general: [u64; 31],
    flags: u64,
    fpcr: u64,
    fpsr: u64,
    vectors: [u128; 32],
    /// Only found: the stack pointer, and where it would be without the bytes that were asked for.
    sp: u64,
    usual_sp: u64,
}

impl State {
    /// A state that no other thread has.
    fn new() -> Self {
        let mark = marker() << 32;
        Self {
            general: std::array::from_fn(|n| mark + 0x100 + n as u64),
            flags: 0xB000_0000, // all but Z
            fpcr: 0x01C0_0000,  // flush to zero, round towards zero
            fpsr: 0x0800_0015,  // saturation, and three exceptions
            vectors: std::array::from_fn(|n| {
                u128::from(mark + 0x200 + n as u64) << 64 | u128::from(mark) >> n
            }),
            sp: 0,
            usual_sp: 0,
        }
    }

    /// Holds it for a while, with the stack pointer `below` bytes lower than usual, and checks what is left.
    fn check(&self, below: u64) {
        for hold in [count_in_x30, count_in_x0] {
            let mut after = self.clone();
            // SAFETY: two states; `below` is a multiple of 16, and small.
            unsafe { hold(self, &raw mut after, SPINS, below) };
            assert_eq!(after.usual_sp - after.sp, below, "the stack pointer");
            (after.sp, after.usual_sp) = (0, 0);
            assert_eq!(after, *self, "registers, {below} bytes lower");
        }
    }
}

/// All of them.
pub(crate) fn general() {
    State::new().check(0);
}

/// All of them, with the stack pointer `2 * below` bytes lower than usual. `below` is a multiple of 8 and
/// less than 64.
pub(crate) fn vectors(below: usize) {
    State::new().check(2 * below as u64);
}

/// Makes a function that loads all registers from the first state, counts to zero in `$counter`, and stores
/// what they hold in the second. `$base` is loaded last and points to the states. The value of the counter is
/// added to what the first state has in its place: it must be zero.
macro_rules! hold {
    ($name:ident, $counter:literal, $base:literal) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(before: *const State, after: *mut State, turns: u64, below: u64) {
            naked_asm!(
                "hint 34", // bti c
                "stp x29, x30, [sp, #-192]!",
                ".irp n, 18,19,20,21,22,23,24,25,26,27,28",
                "str x\\n, [sp, #8 * (\\n - 16)]",
                ".endr",
                ".irp n, 8,9,10,11,12,13,14,15",
                "str d\\n, [sp, #8 * (\\n + 8)]",
                ".endr",
                "mov x4, sp",
                "str x4, [x1, #{usual_sp}]",
                "sub x5, x4, x3",
                "sub sp, x5, #48",
                "stp x0, x1, [sp]", // the states
                "stp x4, x2, [sp, #16]", // the frame above, and the turns
                "ldr x3, [x0, #{flags}]",
                "msr nzcv, x3",
                "ldr x3, [x0, #{fpcr}]",
                "msr fpcr, x3",
                "ldr x3, [x0, #{fpsr}]",
                "msr fpsr, x3",
                "add x1, x0, #{vectors}",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "ldr q\\n, [x1, #16 * \\n]",
                ".endr",
                concat!("ldr x", $base, ", [sp]"),
                concat!("ldr x", $counter, ", [sp, #24]"),
                ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29",
                concat!("ldr x\\n, [x", $base, ", #8 * \\n]"),
                ".endr",
                concat!("ldr x", $base, ", [x", $base, ", #8 * ", $base, "]"),
                "2:",
                concat!("sub x", $counter, ", x", $counter, ", #1"), // changes no flag
                concat!("cbnz x", $counter, ", 2b"),
                concat!("str x", $base, ", [sp, #32]"),
                concat!("ldr x", $base, ", [sp, #8]"),
                ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29",
                concat!("str x\\n, [x", $base, ", #8 * \\n]"),
                ".endr",
                "ldr x1, [sp, #32]",
                concat!("str x1, [x", $base, ", #8 * ", $base, "]"),
                "ldr x1, [sp]",
                concat!("ldr x1, [x1, #8 * ", $counter, "]"),
                concat!("add x1, x1, x", $counter),
                concat!("str x1, [x", $base, ", #8 * ", $counter, "]"),
                "mrs x1, nzcv",
                concat!("str x1, [x", $base, ", #{flags}]"),
                "mrs x1, fpcr",
                concat!("str x1, [x", $base, ", #{fpcr}]"),
                "mrs x1, fpsr",
                concat!("str x1, [x", $base, ", #{fpsr}]"),
                "msr fpcr, xzr",
                "msr fpsr, xzr",
                "add x1, sp, #48",
                concat!("str x1, [x", $base, ", #{sp}]"),
                concat!("add x1, x", $base, ", #{vectors}"),
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "str q\\n, [x1, #16 * \\n]",
                ".endr",
                "ldr x1, [sp, #16]",
                "mov sp, x1",
                ".irp n, 18,19,20,21,22,23,24,25,26,27,28",
                "ldr x\\n, [sp, #8 * (\\n - 16)]",
                ".endr",
                ".irp n, 8,9,10,11,12,13,14,15",
                "ldr d\\n, [sp, #8 * (\\n + 8)]",
                ".endr",
                "ldp x29, x30, [sp], #192",
                "ret",
                flags = const offset_of!(State, flags),
                fpcr = const offset_of!(State, fpcr),
                fpsr = const offset_of!(State, fpsr),
                vectors = const offset_of!(State, vectors),
                sp = const offset_of!(State, sp),
                usual_sp = const offset_of!(State, usual_sp),
            )
        }
    };
}

hold!(count_in_x30, "30", "0");
hold!(count_in_x0, "0", "30");

/// All 32 vector registers of SVE, its 16 predicates, and the register of first faults.
pub(crate) fn sve() -> Result<Box<dyn FnMut()>, String> {
    if !std::arch::is_aarch64_feature_detected!("sve") {
        return Err("the processor has no SVE".into());
    }
    let length: usize;
    // SAFETY: the processor has the instruction, which reads no memory.
    unsafe {
        asm!(".arch_extension sve", "rdvl {}, #1", out(reg) length, options(nomem, nostack, preserves_flags))
    };
    let mut round = marker();
    Ok(Box::new(move || {
        round += 1000;
        let vectors: Vec<u64> = (0..32 * length as u64 / 8).map(|n| round << 32 | n).collect();
        // A bit for each byte of a vector.
        let mut predicates: Vec<u8> = (0..17 * length / 8).map(|n| (round as usize + 3 * n) as u8).collect();
        // Only low bits: first faults come in the order of elements.
        predicates[16 * length / 8..].fill(0);
        predicates[16 * length / 8] = 0x7F;
        let (mut vectors_after, mut predicates_after) = (vec![0; vectors.len()], vec![0; predicates.len()]);
        let (before, after) = (vectors.as_ptr(), vectors_after.as_mut_ptr());
        // SAFETY: the processor has SVE, and the lengths are those of its registers.
        unsafe { hold_sve(before, predicates.as_ptr(), after, predicates_after.as_mut_ptr(), SPINS) };
        assert_eq!(vectors_after, vectors, "vectors of SVE");
        assert_eq!(predicates_after, predicates, "predicates of SVE");
    }))
}

/// Loads all registers of SVE, counts to zero, and stores them.
#[unsafe(naked)]
unsafe extern "C" fn hold_sve(
    vectors: *const u64,
    predicates: *const u8,
    vectors_after: *mut u64,
    predicates_after: *mut u8,
    turns: u64,
) {
    naked_asm!(
        ".arch_extension sve",
        "hint 34", // bti c
        "stp d8, d9, [sp, #-64]!",
        "stp d10, d11, [sp, #16]",
        "stp d12, d13, [sp, #32]",
        "stp d14, d15, [sp, #48]",
        "ldr p0, [x1, #16, mul vl]",
        "wrffr p0.b",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "ldr z\\n, [x0, #\\n, mul vl]",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "ldr p\\n, [x1, #\\n, mul vl]",
        ".endr",
        "2:",
        "sub x4, x4, #1",
        "cbnz x4, 2b",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "str z\\n, [x2, #\\n, mul vl]",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "str p\\n, [x3, #\\n, mul vl]",
        ".endr",
        "rdffr p0.b",
        "str p0, [x3, #16, mul vl]",
        "ldp d14, d15, [sp, #48]",
        "ldp d12, d13, [sp, #32]",
        "ldp d10, d11, [sp, #16]",
        "ldp d8, d9, [sp], #64",
        "ret",
    )
}
