//! The registers of riscv64: x1 to x31 but for the pointers of data and thread, the float word, f0 to f31;
//! and those of vectors (V).

use std::arch::{asm, naked_asm};
use std::mem::offset_of;

use super::super::kinds::marker;

/// Turns of the loops below. Both take some tens of microseconds, so most slices of 50 us end in one.
const SPINS: u64 = 30_000;

/// What is loaded, and what is found afterwards.
#[repr(C)]
#[derive(Clone, Debug, PartialEq)]
struct State {
    general: [u64; 32],
    fcsr: u64,
    floats: [u64; 32],
    /// Only found: the stack pointer, and where it would be without the bytes that were asked for.
    sp: u64,
    usual_sp: u64,
}

impl State {
    /// A state that no other thread has.
    fn new() -> Self {
        let mark = marker();
        Self {
            general: std::array::from_fn(|n| (mark << 32) + 0x100 + n as u64),
            // One of the five rounding modes, and some of the sticky flags.
            fcsr: ((mark % 5) << 5) | (mark * 7 % 32),
            floats: std::array::from_fn(|n| (mark << 32) + 0x200 + n as u64),
            sp: 0,
            usual_sp: 0,
        }
    }

    /// Holds it for a while, with the stack pointer `below` bytes lower than usual, and checks what is left.
    fn check(&self, below: u64) {
        for hold in [count_in_x1, count_in_x10] {
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
                "addi sp, sp, -208",
                "sd ra, 192(sp)",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
                "sd s\\n, 8 * \\n(sp)",
                "fsd fs\\n, 96 + 8 * \\n(sp)",
                ".endr",
                "sd sp, {usual_sp}(a1)",
                "mv t0, sp",
                "sub sp, sp, a3",
                "addi sp, sp, -48",
                "sd a0, 0(sp)", // the states
                "sd a1, 8(sp)",
                "sd t0, 16(sp)", // the frame above
                "sd a2, 24(sp)", // the turns
                "ld t0, {fcsr}(a0)",
                "fscsr t0",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,\
                  30,31",
                "fld f\\n, {floats} + 8 * \\n(a0)",
                ".endr",
                concat!("ld x", $base, ", 0(sp)"),
                concat!("ld x", $counter, ", 24(sp)"),
                ".irp n, 5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                concat!("ld x\\n, 8 * \\n(x", $base, ")"),
                ".endr",
                concat!("ld x", $base, ", 8 * ", $base, "(x", $base, ")"),
                "2:",
                concat!("addi x", $counter, ", x", $counter, ", -1"),
                concat!("bnez x", $counter, ", 2b"),
                concat!("sd x", $base, ", 32(sp)"),
                concat!("ld x", $base, ", 8(sp)"),
                ".irp n, 5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                concat!("sd x\\n, 8 * \\n(x", $base, ")"),
                ".endr",
                "ld t0, 32(sp)",
                concat!("sd t0, 8 * ", $base, "(x", $base, ")"),
                "ld t0, 0(sp)",
                concat!("ld t0, 8 * ", $counter, "(t0)"),
                concat!("add t0, t0, x", $counter),
                concat!("sd t0, 8 * ", $counter, "(x", $base, ")"),
                "frcsr t0",
                concat!("sd t0, {fcsr}(x", $base, ")"),
                "fscsr zero",
                "addi t0, sp, 48",
                concat!("sd t0, {sp}(x", $base, ")"),
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,\
                  30,31",
                concat!("fsd f\\n, {floats} + 8 * \\n(x", $base, ")"),
                ".endr",
                "ld sp, 16(sp)",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
                "ld s\\n, 8 * \\n(sp)",
                "fld fs\\n, 96 + 8 * \\n(sp)",
                ".endr",
                "ld ra, 192(sp)",
                "addi sp, sp, 208",
                "ret",
                fcsr = const offset_of!(State, fcsr),
                floats = const offset_of!(State, floats),
                sp = const offset_of!(State, sp),
                usual_sp = const offset_of!(State, usual_sp),
            )
        }
    };
}

hold!(count_in_x1, "1", "10");
hold!(count_in_x10, "10", "1");

/// All 32 vector registers, and the words that say how they are used: vl, vtype, vcsr and vstart.
pub(crate) fn rvv() -> Result<Box<dyn FnMut()>, String> {
    const V: u64 = 1 << (b'V' - b'A');
    // SAFETY: reads a list that does not change.
    if unsafe { libc::getauxval(libc::AT_HWCAP) } & V == 0 {
        return Err("the processor has no vectors".into());
    }
    let length: usize;
    // SAFETY: the processor has the register, vlenb.
    unsafe { asm!("csrr {}, 0xC22", out(reg) length, options(nomem, nostack)) };
    let mut round = marker();
    Ok(Box::new(move || {
        round += 1000;
        let registers: Vec<u64> = (0..32 * length as u64 / 8).map(|n| round << 32 | n).collect();
        // Elements of two bytes, two registers at once; tails and masked elements are kept, or not.
        let words = [round % 8, 0b1001 | (round % 4) << 6, round % 8, round % 5];
        let (mut registers_after, mut words_after) = (vec![0; registers.len()], [0; 4]);
        let (before, after) = (registers.as_ptr(), registers_after.as_mut_ptr());
        // SAFETY: the processor has vectors, and the length is that of its registers.
        unsafe { hold_vectors(before, &raw const words, after, &raw mut words_after, SPINS) };
        assert_eq!(registers_after, registers, "vector registers");
        assert_eq!(words_after, words, "vl, vtype, vcsr, vstart");
    }))
}

/// Loads all registers of vectors and the words, counts to zero, and stores them.
#[unsafe(naked)]
unsafe extern "C" fn hold_vectors(
    registers: *const u64,
    words: *const [u64; 4],
    registers_after: *mut u64,
    words_after: *mut [u64; 4],
    turns: u64,
) {
    naked_asm!(
        ".option push",
        ".option arch, +v",
        "csrr t0, vlenb",
        "slli t0, t0, 3",
        ".irp n, 0,8,16,24",
        "vl8r.v v\\n, (a0)",
        "add a0, a0, t0",
        ".endr",
        "ld t1, 0(a1)",
        "ld t2, 8(a1)",
        "vsetvl zero, t1, t2",
        "ld t1, 16(a1)",
        "csrw vcsr, t1",
        "ld t1, 24(a1)",
        "csrw vstart, t1",
        "2:",
        "addi a4, a4, -1",
        "bnez a4, 2b",
        "csrr t1, vstart",
        "csrw vstart, zero",
        "sd t1, 24(a3)",
        "csrr t1, vcsr",
        "sd t1, 16(a3)",
        "csrr t1, vtype",
        "sd t1, 8(a3)",
        "csrr t1, vl",
        "sd t1, 0(a3)",
        ".irp n, 0,8,16,24",
        "vs8r.v v\\n, (a2)",
        "add a2, a2, t0",
        ".endr",
        "ret",
        ".option pop",
    )
}
