//! For the tests: every register of aarch64 that a program can see, filled, held for a while, and read again.

use core::arch::{asm, naked_asm};

use crate::arch::inject::probe::{Found, Random, differences};
use crate::arch::inject::{Injected, inject};

/// All registers: the general ones, of which x30 is the counter and x18 the platform's, the flags, the
/// two float words, the vectors.
#[repr(C, align(16))]
pub(in crate::arch) struct Registers {
    general: [u64; 32],
    flags: u64,
    fpcr: u64,
    fpsr: u64,
    _pad: u64,
    vectors: [u128; 32],
}

const FLAGS: u64 = 0xF000_0000;
/// The two rounding bits and flushing; the sticky bits of exceptions and saturation.
const FPCR: u64 = 0x01C0_0000;
const FPSR: u64 = 0x0800_001F;

const EMPTY: Registers =
    Registers { general: [0; 32], flags: 0, fpcr: 0, fpsr: 0, _pad: 0, vectors: [0; 32] };

/// Returns `true` if the machine can do what the tests want. With SVE it cannot: the C library uses it, and
/// injected calls are then refused for as long as the kernel likes.
pub(in crate::arch) fn is_possible() -> bool {
    let features: u64;
    // SAFETY: reads one register, by way of the kernel.
    unsafe { asm!("mrs {}, id_aa64pfr0_el1", out(reg) features, options(nostack, preserves_flags, nomem)) };
    features >> 32 & 0xF == 0
}

impl Registers {
    /// A state that has something in every register.
    pub(in crate::arch) fn filled(seed: u64, _tiles: bool) -> Box<Self> {
        let mut random = Random::new(seed);
        let mut state = Box::new(EMPTY);
        state.general = core::array::from_fn(|_| random.next());
        state.general[18] = 0; // the platform's
        state.general[30] = 0; // the counter, when it has run down
        state.general[31] = 0; // the stack pointer: if it was wrong, nothing would work
        state.flags = random.next() & FLAGS;
        state.fpcr = random.next() & FPCR;
        state.fpsr = random.next() & FPSR;
        state.vectors = core::array::from_fn(|_| u128::from(random.next()) << 64 | u128::from(random.next()));
        let mut after = Box::new(EMPTY);
        state.hold(&mut after, 1);
        assert_eq!(after.differences(&state), Vec::<String>::new());
        state
    }

    /// Loads all registers, counts to `turns`, and stores what they hold then in `after`.
    pub(in crate::arch) fn hold(&self, after: &mut Self, turns: usize) {
        assert!(turns > 0);
        // SAFETY: two states.
        unsafe { hold(self, after, turns) };
    }

    pub(in crate::arch) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = differences("general register", &self.general, &other.general);
        found.extend(differences("vector register", &self.vectors, &other.vectors));
        let words = |state: &Self| [state.flags, state.fpcr, state.fpsr];
        found.extend(differences("flags, fpcr, fpsr, word", &words(self), &words(other)));
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

/// What an injected function finds: the modes.
pub(in crate::arch) static FOUND: Found<Registers> = Found::new(EMPTY);

/// Not needed here: the garbage is in the code.
pub(in crate::arch) struct Garbage;

pub(in crate::arch) static GARBAGE: Garbage = Garbage;

impl Garbage {
    pub(in crate::arch) fn set(&self, _state: Registers) {}
}

/// Calls `T`'s function, with the modes found at the entry in [`FOUND`], and then changes every register but
/// sp, x18 and x29.
pub(in crate::arch) struct Spoil<T>(T);

impl<T: Injected> Injected for Spoil<T> {
    #[unsafe(naked)]
    extern "C-unwind" fn call() {
        naked_asm!(
            "stp x29, x30, [sp, #-16]!",
            "adrp x9, {found}",
            "add x9, x9, :lo12:{found}",
            "mrs x10, fpcr",
            "mrs x11, fpsr",
            "str x10, [x9, #264]",
            "str x11, [x9, #272]",
            "bl {then}",
            "ldp x29, x30, [sp], #16",
            "mov x0, #-1",
            "msr fpsr, x0",
            "mov x1, #0x00C00000",
            "msr fpcr, x1",
            "mov x1, x0",
            "mov x2, x0",
            "mov x3, x0",
            "mov x4, x0",
            "mov x5, x0",
            "mov x6, x0",
            "mov x7, x0",
            "mov x8, x0",
            "mov x9, x0",
            "mov x10, x0",
            "mov x11, x0",
            "mov x12, x0",
            "mov x13, x0",
            "mov x14, x0",
            "mov x15, x0",
            "mov x16, x0",
            "mov x17, x0",
            "mov x19, x0",
            "mov x20, x0",
            "mov x21, x0",
            "mov x22, x0",
            "mov x23, x0",
            "mov x24, x0",
            "mov x25, x0",
            "mov x26, x0",
            "mov x27, x0",
            "mov x28, x0",
            "dup v0.2d, x0",
            "dup v1.2d, x0",
            "dup v2.2d, x0",
            "dup v3.2d, x0",
            "dup v4.2d, x0",
            "dup v5.2d, x0",
            "dup v6.2d, x0",
            "dup v7.2d, x0",
            "dup v8.2d, x0",
            "dup v9.2d, x0",
            "dup v10.2d, x0",
            "dup v11.2d, x0",
            "dup v12.2d, x0",
            "dup v13.2d, x0",
            "dup v14.2d, x0",
            "dup v15.2d, x0",
            "dup v16.2d, x0",
            "dup v17.2d, x0",
            "dup v18.2d, x0",
            "dup v19.2d, x0",
            "dup v20.2d, x0",
            "dup v21.2d, x0",
            "dup v22.2d, x0",
            "dup v23.2d, x0",
            "dup v24.2d, x0",
            "dup v25.2d, x0",
            "dup v26.2d, x0",
            "dup v27.2d, x0",
            "dup v28.2d, x0",
            "dup v29.2d, x0",
            "dup v30.2d, x0",
            "dup v31.2d, x0",
            "cmp xzr, x0",
            "ret",
            found = sym FOUND,
            then = sym T::call,
        )
    }
}

#[unsafe(naked)]
unsafe extern "C" fn hold(state: *const Registers, after: *mut Registers, turns: usize) {
    naked_asm!(
        "stp x29, x30, [sp, #-192]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "str x1, [sp, #160]", // after
        "mov x30, x2",
        "ldr x3, [x0, #256]",
        "msr nzcv, x3",
        "ldr x3, [x0, #264]",
        "msr fpcr, x3",
        "ldr x3, [x0, #272]",
        "msr fpsr, x3",
        "add x1, x0, #288",
        "ldp q0, q1, [x1]",
        "ldp q2, q3, [x1, #32]",
        "ldp q4, q5, [x1, #64]",
        "ldp q6, q7, [x1, #96]",
        "ldp q8, q9, [x1, #128]",
        "ldp q10, q11, [x1, #160]",
        "ldp q12, q13, [x1, #192]",
        "ldp q14, q15, [x1, #224]",
        "ldp q16, q17, [x1, #256]",
        "ldp q18, q19, [x1, #288]",
        "ldp q20, q21, [x1, #320]",
        "ldp q22, q23, [x1, #352]",
        "ldp q24, q25, [x1, #384]",
        "ldp q26, q27, [x1, #416]",
        "ldp q28, q29, [x1, #448]",
        "ldp q30, q31, [x1, #480]",
        "ldp x2, x3, [x0, #16]",
        "ldp x4, x5, [x0, #32]",
        "ldp x6, x7, [x0, #48]",
        "ldp x8, x9, [x0, #64]",
        "ldp x10, x11, [x0, #80]",
        "ldp x12, x13, [x0, #96]",
        "ldp x14, x15, [x0, #112]",
        "ldp x16, x17, [x0, #128]",
        "ldr x19, [x0, #152]",
        "ldp x20, x21, [x0, #160]",
        "ldp x22, x23, [x0, #176]",
        "ldp x24, x25, [x0, #192]",
        "ldp x26, x27, [x0, #208]",
        "ldp x28, x29, [x0, #224]",
        "ldp x0, x1, [x0]",
        "2:",
        "yield",
        "sub x30, x30, #1", // changes no flag
        "cbnz x30, 2b",
        "str x0, [sp, #168]",
        "ldr x0, [sp, #160]",
        "str x1, [x0, #8]",
        "stp x2, x3, [x0, #16]",
        "stp x4, x5, [x0, #32]",
        "stp x6, x7, [x0, #48]",
        "stp x8, x9, [x0, #64]",
        "stp x10, x11, [x0, #80]",
        "stp x12, x13, [x0, #96]",
        "stp x14, x15, [x0, #112]",
        "stp x16, x17, [x0, #128]",
        "stp xzr, x19, [x0, #144]",
        "stp x20, x21, [x0, #160]",
        "stp x22, x23, [x0, #176]",
        "stp x24, x25, [x0, #192]",
        "stp x26, x27, [x0, #208]",
        "stp x28, x29, [x0, #224]",
        "stp x30, xzr, [x0, #240]",
        "ldr x1, [sp, #168]",
        "str x1, [x0]",
        "mrs x1, nzcv",
        "str x1, [x0, #256]",
        "mrs x1, fpcr",
        "str x1, [x0, #264]",
        "mrs x1, fpsr",
        "str x1, [x0, #272]",
        "msr fpcr, xzr",
        "msr fpsr, xzr",
        "add x1, x0, #288",
        "stp q0, q1, [x1]",
        "stp q2, q3, [x1, #32]",
        "stp q4, q5, [x1, #64]",
        "stp q6, q7, [x1, #96]",
        "stp q8, q9, [x1, #128]",
        "stp q10, q11, [x1, #160]",
        "stp q12, q13, [x1, #192]",
        "stp q14, q15, [x1, #224]",
        "stp q16, q17, [x1, #256]",
        "stp q18, q19, [x1, #288]",
        "stp q20, q21, [x1, #320]",
        "stp q22, q23, [x1, #352]",
        "stp q24, q25, [x1, #384]",
        "stp q26, q27, [x1, #416]",
        "stp q28, q29, [x1, #448]",
        "stp q30, q31, [x1, #480]",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #192",
        "ret",
    )
}

/// An injected call that forgets one of the vector registers.
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
            "str xzr, [sp, #608]", // q0 in the frame, which is at sp
            "b {function}",
            function = sym F::call,
        )
    }
}
