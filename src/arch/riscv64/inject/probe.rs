//! For the tests: every register of riscv64 that a program can see, filled, held for a while, and read again.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::inject::probe::{Found, Random, differences};
use crate::arch::inject::{Injected, inject};

/// All registers: the general ones, of which x1 is the counter, the float word, the float registers, and what
/// there is of vectors.
#[repr(C)]
pub(in crate::arch) struct Registers {
    general: [u64; 32],
    fcsr: u64,
    floats: [u64; 32],
    vectors: Vectors,
}

/// The words of vectors, and the 32 registers, of `vlenb` bytes each. If that is 0, nothing of them is used.
#[repr(C)]
struct Vectors {
    vlenb: u64,
    vstart: u64,
    vl: u64,
    vtype: u64,
    vcsr: u64,
    registers: [u64; MOST],
}

/// The words of the longest vector registers that are saved.
const MOST: usize = 32 * 128 / 8;

const EMPTY: Registers = Registers {
    general: [0; 32],
    fcsr: 0,
    floats: [0; 32],
    vectors: Vectors { vlenb: 0, vstart: 0, vl: 0, vtype: 0, vcsr: 0, registers: [0; MOST] },
};

/// Returns `true`: every machine can do what the tests want.
pub(in crate::arch) fn is_possible() -> bool {
    true
}

/// Returns the bytes of a vector register, or 0 if there are none that are saved.
pub(in crate::arch) fn vector_len() -> u64 {
    const AT_HWCAP: u64 = 16;
    const V: u64 = 1 << (b'V' - b'A');
    let vector = std::fs::read("/proc/self/auxv").unwrap();
    let words: Vec<u64> = vector.chunks_exact(8).map(|w| u64::from_ne_bytes(w.try_into().unwrap())).collect();
    if !words.chunks_exact(2).any(|pair| pair[0] == AT_HWCAP && pair[1] & V != 0) {
        return 0;
    }
    let len: u64;
    // SAFETY: reads a register that the processor has.
    unsafe { asm!("csrr {}, 0xC22", out(reg) len, options(nomem, nostack)) };
    if 32 * len <= 8 * MOST as u64 { len } else { 0 }
}

impl Registers {
    /// A state that has something in every register; in those of vectors only if asked for.
    pub(in crate::arch) fn filled(seed: u64, vectors: bool) -> Box<Self> {
        let mut random = Random::new(seed);
        let mut state = Box::new(EMPTY);
        state.general = core::array::from_fn(|_| random.next());
        // Zero itself, the counter when it has run down, and the pointers of stack, data and thread: if these
        // were wrong, nothing would work.
        state.general[..5].fill(0);
        // A rounding mode, of which there are five, and five sticky bits.
        state.fcsr = ((random.next() % 5) << 5) | (random.next() & 0x1F);
        state.floats = core::array::from_fn(|_| random.next());
        if vectors {
            state.vectors.fill(&mut random);
        }
        let mut after = Box::new(EMPTY);
        state.hold(&mut after, 1);
        assert_eq!(after.differences(&state), Vec::<String>::new());
        state
    }

    /// Loads all registers, counts to `turns`, and stores what they hold then in `after`.
    pub(in crate::arch) fn hold(&self, after: &mut Self, turns: usize) {
        assert!(turns > 0);
        after.vectors.vlenb = self.vectors.vlenb;
        // SAFETY: two states.
        unsafe { hold(self, after, turns) };
    }

    pub(in crate::arch) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = differences("x", &self.general, &other.general);
        found.extend(differences("f", &self.floats, &other.floats));
        found.extend(differences("fcsr", &[self.fcsr], &[other.fcsr]));
        found.extend(self.vectors.differences(&other.vectors));
        found
    }

    /// The modes in which the first function of a thread is called.
    pub(in crate::arch) fn new_thread() -> Box<Self> {
        Box::new(EMPTY)
    }

    /// Nothing here makes code slow that does not use it.
    pub(in crate::arch) fn is_burdened(&self) -> bool {
        false
    }
}

impl Vectors {
    fn fill(&mut self, random: &mut Random) {
        self.vlenb = vector_len();
        self.vstart = random.next() % 8;
        // Tails and masked elements kept or not; elements of one byte or two; one or two registers at once.
        self.vtype = (random.next() & 0b1100_0000) | (random.next() % 2) << 3 | (random.next() % 2);
        self.vl = random.next() % (self.vlenb / 2 + 1);
        self.vcsr = random.next() & 7;
        self.registers[..4 * self.vlenb as usize].fill_with(|| random.next());
    }

    fn differences(&self, other: &Self) -> Vec<String> {
        let words = |v: &Self| [v.vlenb, v.vstart, v.vl, v.vtype, v.vcsr];
        let mut found = Vec::new();
        if self.vlenb == 0 {
            return found;
        }
        if words(self) != words(other) {
            found.push(format!("vlenb, vstart, vl, vtype, vcsr: {:x?}, {:x?}", words(self), words(other)));
        }
        let len = self.vlenb as usize / 8;
        for (i, (ours, theirs)) in
            self.registers.chunks(len).zip(other.registers.chunks(len)).take(32).enumerate()
        {
            if ours != theirs {
                found.push(format!("v{i}: {ours:x?}, {theirs:x?}"));
            }
        }
        found
    }
}

/// What an injected function finds: the modes.
pub(in crate::arch) static FOUND: Found<Registers> = Found::new(EMPTY);

/// How long vector registers are, if garbage is to be left in these, too. The garbage is in the code.
pub(in crate::arch) struct Garbage(AtomicU64);

pub(in crate::arch) static GARBAGE: Garbage = Garbage(AtomicU64::new(0));

impl Garbage {
    pub(in crate::arch) fn set(&self, state: Registers) {
        self.0.store(state.vectors.vlenb, Ordering::Relaxed);
    }
}

/// Calls `T`'s function, with the modes found at the entry in [`FOUND`], and then changes every register but
/// the pointers of stack, data and thread.
pub(in crate::arch) struct Spoil<T>(T);

impl<T: Injected> Injected for Spoil<T> {
    #[unsafe(naked)]
    extern "C-unwind" fn call() {
        naked_asm!(
            "addi sp, sp, -16",
            "sd ra, 8(sp)",
            "lla t0, {found}",
            "frcsr t1",
            "sd t1, {fcsr}(t0)",
            "call {then}",
            "ld ra, 8(sp)",
            "addi sp, sp, 16",
            "lla t0, {garbage}",
            "ld t0, 0(t0)",
            "beqz t0, 2f",
            ".option push",
            ".option arch, +v",
            "vsetvli t0, zero, e8, m8, ta, ma",
            ".irp n, 0,8,16,24",
            "vmv.v.i v\\n, -1",
            ".endr",
            "csrwi vcsr, 7",
            ".option pop",
            "2:",
            "li t0, 0x7F",
            "fscsr t0",
            "li t0, -1",
            ".irp n, 6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "mv x\\n, t0",
            ".endr",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "fmv.d.x f\\n, t0",
            ".endr",
            "ret",
            found = sym FOUND,
            garbage = sym GARBAGE,
            then = sym T::call,
            fcsr = const offset_of!(Registers, fcsr),
        )
    }
}

#[unsafe(naked)]
unsafe extern "C" fn hold(state: *const Registers, after: *mut Registers, turns: usize) {
    naked_asm!(
        "addi sp, sp, -224",
        "sd ra, 192(sp)",
        "sd a1, 200(sp)", // after
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "sd s\\n, 8 * \\n(sp)",
        "fsd fs\\n, 96 + 8 * \\n(sp)",
        ".endr",
        "mv ra, a2",
        "li t0, {vectors}",
        "add t0, a0, t0",
        "ld t1, 0(t0)",
        "sd t1, 216(sp)", // the length of vectors
        "beqz t1, 2f",
        ".option push",
        ".option arch, +v",
        "csrw vstart, zero",
        "slli t1, t1, 3",
        "addi t2, t0, 40",
        ".irp n, 0,8,16,24",
        "vl8r.v v\\n, (t2)",
        "add t2, t2, t1",
        ".endr",
        "ld t1, 16(t0)", // vl
        "ld t2, 24(t0)", // vtype
        "vsetvl zero, t1, t2",
        "ld t1, 32(t0)",
        "csrw vcsr, t1",
        "ld t1, 8(t0)",
        "csrw vstart, t1",
        ".option pop",
        "2:",
        "ld t0, {fcsr}(a0)",
        "fscsr t0",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "fld f\\n, {floats} + 8 * \\n(a0)",
        ".endr",
        ".irp n, 5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "ld x\\n, 8 * \\n(a0)",
        ".endr",
        "ld a0, 80(a0)",
        "2:",
        ".word 0x0100000F", // pause
        "addi ra, ra, -1",
        "bnez ra, 2b",
        "sd a0, 208(sp)",
        "ld a0, 200(sp)",
        "sd ra, 8(a0)",
        ".irp n, 5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "sd x\\n, 8 * \\n(a0)",
        ".endr",
        "ld t0, 208(sp)",
        "sd t0, 80(a0)",
        "frcsr t0",
        "sd t0, {fcsr}(a0)",
        "fscsr zero",
        "ld t1, 216(sp)",
        "beqz t1, 2f",
        ".option push",
        ".option arch, +v",
        "li t0, {vectors}",
        "add t0, a0, t0",
        "csrr t2, vstart",
        "csrw vstart, zero",
        "sd t2, 8(t0)",
        "csrr t2, vl",
        "sd t2, 16(t0)",
        "csrr t2, vtype",
        "sd t2, 24(t0)",
        "csrr t2, vcsr",
        "sd t2, 32(t0)",
        "slli t1, t1, 3",
        "addi t2, t0, 40",
        ".irp n, 0,8,16,24",
        "vs8r.v v\\n, (t2)",
        "add t2, t2, t1",
        ".endr",
        ".option pop",
        "2:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "fsd f\\n, {floats} + 8 * \\n(a0)",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11",
        "ld s\\n, 8 * \\n(sp)",
        "fld fs\\n, 96 + 8 * \\n(sp)",
        ".endr",
        "ld ra, 192(sp)",
        "addi sp, sp, 224",
        "ret",
        fcsr = const offset_of!(Registers, fcsr),
        floats = const offset_of!(Registers, floats),
        vectors = const offset_of!(Registers, vectors),
    )
}

/// An injected call that forgets one of the float registers.
///
/// # Safety
/// As `inject`; only `hold` needs that register.
pub(in crate::arch) unsafe fn inject_carelessly<F: Injected>(sp: &mut usize, pc: &mut usize, state: u64) {
    // SAFETY: the caller's.
    unsafe { inject::<Careless<F>>(sp, pc, state) };
}

/// The control: the trampoline has saved everything, so one of the registers is changed there.
struct Careless<F>(F);

impl<F: Injected> Injected for Careless<F> {
    #[unsafe(naked)]
    extern "C-unwind" fn call() {
        naked_asm!(
            "sd zero, 560(sp)", // f0 in the frame, which is at sp
            "tail {function}",
            function = sym F::call,
        )
    }
}

/// An injected call that forgets one of the vector registers.
///
/// # Safety
/// As `inject`; only `hold` needs that register. `record` is not 0.
pub(in crate::arch) unsafe fn inject_without_v0<F: Injected>(sp: &mut usize, pc: &mut usize, record: u64) {
    // SAFETY: the caller's.
    unsafe { inject::<WithoutV0<F>>(sp, pc, record) };
}

/// The control of vectors, made in the same way.
struct WithoutV0<F>(F);

impl<F: Injected> Injected for WithoutV0<F> {
    #[unsafe(naked)]
    extern "C-unwind" fn call() {
        naked_asm!(
            "sd zero, 1136(sp)", // the beginning of v0 in the frame
            "tail {function}",
            function = sym F::call,
        )
    }
}
