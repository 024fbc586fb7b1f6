//! For the tests: every register of x86-64 that a program can see, filled, held for a while, and read again.
//!
//! The extended state goes in and out by `xrstor` and `xsave` in their fixed layout. The trampoline uses the
//! compact layout where it can.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ops::Range;
use std::sync::OnceLock;

use super::{
    BASE, FXSAVE, INITIAL, LEGACY, RED_ZONE, RIGHTS, SMALL, TILE_DATA, XSAVE, adopt, cpuid, enabled, prepare,
};
use crate::arch::inject::Injected;
use crate::arch::inject::probe::{Found, Random, differences};

const AREA: usize = 16 << 10;
const TILE_CONFIG: u64 = 1 << 17;

/// All registers: the area of `xsave`, then the general ones in the order of their numbers, then the flags.
#[repr(C, align(64))]
pub(in crate::arch) struct Registers {
    area: [u8; AREA],
    general: [u64; 16],
    flags: u64,
}

const RCX: usize = 1;
const RSP: usize = 4;
/// Carry, parity, adjust, zero, sign, direction, overflow, identification.
const FLAGS: u64 = 0x20_0CD5;
/// Where the number of components in use stands.
const IN_USE: usize = LEGACY;

fn fill(random: &mut Random, bytes: &mut [u8]) {
    bytes.fill_with(|| (random.next() >> 32) as u8);
}

/// Returns `true` if the machine can do what the tests want: `xsave`.
pub(in crate::arch) fn is_possible() -> bool {
    cpuid(0, 0).eax >= 0xD && cpuid(1, 0).ecx & 1 << 27 != 0
}

/// Returns `true` if there are tiles.
pub(in crate::arch) fn has_tiles() -> bool {
    is_possible() && enabled() & TILE_DATA != 0
}

/// Has the older instructions used, as on a machine without the newer ones. Only before the first injection.
pub(in crate::arch) fn use_xsave() {
    adopt(XSAVE);
}

pub(in crate::arch) fn use_fxsave() {
    adopt(FXSAVE);
}

fn components() -> u64 {
    enabled() & !RIGHTS
}

/// Where each component lies in the fixed layout. Asked for once: under a hypervisor each `cpuid` takes
/// its time.
fn ranges() -> &'static [Range<usize>; 63] {
    static PLACES: OnceLock<[Range<usize>; 63]> = OnceLock::new();
    PLACES.get_or_init(|| {
        core::array::from_fn(|component| match component {
            0 => 0..416,
            _ if component == 1 || components() >> component & 1 == 0 => 0..0,
            _ => {
                let leaf = cpuid(0xD, component as u32);
                let start = leaf.ebx as usize;
                start..start + leaf.eax as usize
            }
        })
    })
}

fn range_of(component: usize) -> Range<usize> {
    ranges()[component].clone()
}

impl Registers {
    fn empty() -> Box<Self> {
        Box::new(Self { area: [0; AREA], general: [0; 16], flags: 2 })
    }

    /// A state that has something in every register, tiles if asked for; every third only in the general
    /// and SSE ones.
    pub(in crate::arch) fn filled(seed: u64, tiles: bool) -> Box<Self> {
        let mut random = Random::new(seed);
        let mut state = Self::empty();
        let mut in_use = if seed % 3 == 2 { BASE } else { components() };
        if !tiles {
            in_use &= !(TILE_DATA | TILE_CONFIG);
        }
        let area = &mut state.area;
        fill(&mut random, &mut area[32..416]); // x87 and SSE
        for register in 0..8 {
            area[32 + 16 * register + 10..][..6].fill(0);
        }
        area[..2].copy_from_slice(&[0x037F_u16, 0x0B7F, 0x077F][seed as usize % 3].to_le_bytes());
        area[2..4].copy_from_slice(&((seed as u16 & 7) << 11).to_le_bytes()); // which is the top
        area[4] = 0xFF; // all eight in use
        let mxcsr = 0x1F80 | random.next() as u32 & 0xE07F;
        area[24..28].copy_from_slice(&mxcsr.to_le_bytes());
        in_use &= (1 << 19) - 1; // of later components it is not known what they may hold
        for component in (2..17).filter(|i| in_use >> i & 1 != 0) {
            fill(&mut random, &mut area[range_of(component)]);
        }
        if in_use & TILE_DATA != 0 {
            let config = &mut area[range_of(17)];
            config[0] = 1; // the palette with eight tiles of 16 rows of 64 bytes
            config[16..32].copy_from_slice(&[64, 0].repeat(8));
            config[48..56].fill(16);
            fill(&mut random, &mut area[range_of(18)]);
        }
        area[IN_USE..IN_USE + 8].copy_from_slice(&in_use.to_le_bytes());
        state.general = core::array::from_fn(|_| random.next());
        state.general[RCX] = 0; // the counter, when it has run down
        state.general[RSP] = state.general[0]; // what is kept in the red zone; a wrong rsp is seen without a test
        state.flags = 2 | random.next() & FLAGS;
        // As the machine gives it back: it may fill in what was left open.
        let mut settled = Self::empty();
        state.hold(&mut settled, 1);
        settled.area[IN_USE..IN_USE + 8].copy_from_slice(&in_use.to_le_bytes());
        assert_eq!(settled.differences(&state), Vec::<String>::new());
        settled
    }

    /// Loads all registers, counts to `turns`, and stores what they hold then in `after`.
    pub(in crate::arch) fn hold(&self, after: &mut Self, turns: usize) {
        assert!(turns > 0);
        // SAFETY: two states, and the components that the kernel has enabled.
        unsafe { hold(self, after, turns, components()) };
    }

    /// What is not the same, apart from which components count as in use: a processor may say so of zeros.
    pub(in crate::arch) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = differences("general register", &self.general, &other.general);
        if (self.flags ^ other.flags) & FLAGS != 0 {
            found.push(format!("flags: {:#x}, {:#x}", self.flags, other.flags));
        }
        for (component, range) in ranges().iter().enumerate() {
            let (ours, theirs) = (&self.area[range.clone()], &other.area[range.clone()]);
            let own = |at: &usize| component == 0 && (28..32).contains(at); // which bits MXCSR has: the processor's
            if ours != theirs
                && let Some(at) = (0..ours.len()).find(|at| ours[*at] != theirs[*at] && !own(at))
            {
                found.push(format!("component {component}, byte {at}: {:#x}, {:#x}", ours[at], theirs[at]));
            }
        }
        found
    }

    /// Which components the processor counted as in use.
    fn in_use(&self) -> u64 {
        u64::from_le_bytes(self.area[IN_USE..IN_USE + 8].try_into().unwrap())
    }

    /// The extended state in which the first function of a thread is called, flags clear.
    pub(in crate::arch) fn new_thread() -> Box<Self> {
        let (mut initial, mut new) = (Self::empty(), Self::empty());
        initial.area[..4].copy_from_slice(&INITIAL.0[0].to_le_bytes());
        initial.area[24..28].copy_from_slice(&INITIAL.0[6].to_le_bytes());
        initial.hold(&mut new, 1);
        new.general = [0; 16];
        new
    }

    /// Returns `true` if vectors beyond SSE, or tiles, count as in use. That makes code slow that does
    /// not use them.
    pub(in crate::arch) fn is_burdened(&self) -> bool {
        self.in_use() & components() & !BASE != 0
    }
}

/// What an injected function finds.
pub(in crate::arch) static FOUND: Found<Registers> =
    Found::new(Registers { area: [0; AREA], general: [0; 16], flags: 2 });

/// A state to spoil everything with; tile data only where tiles may be used.
pub(in crate::arch) struct Garbage(UnsafeCell<Registers>);

// SAFETY: written before there are signals.
unsafe impl Sync for Garbage {}

pub(in crate::arch) static GARBAGE: Garbage =
    Garbage(UnsafeCell::new(Registers { area: [0; AREA], general: [0; 16], flags: 2 }));

impl Garbage {
    pub(in crate::arch) fn set(&self, state: Registers) {
        // SAFETY: called before there are signals.
        unsafe { *self.0.get() = state };
    }
}

/// Calls `T`'s function, with what was found at the entry in [`FOUND`], and then changes every register but
/// rsp and rbp.
pub(in crate::arch) struct Spoil<T>(T);

impl<T: Injected> Injected for Spoil<T> {
    #[unsafe(naked)]
    extern "C-unwind" fn call() {
        naked_asm!(
            "pushfq",
            "pop rcx",
            "and ecx, -2262", // apart from the results of arithmetic
            "lea rdi, [rip + {found}]",
            "mov [rdi + {flags}], rcx",
            "mov eax, -1",
            "mov edx, -1",
            "xsave64 [rdi]",
            "sub rsp, 8",
            "call {then}",
            "add rsp, 8",
            "lea rdi, [rip + {garbage}]",
            "mov eax, -513", // all but the protection keys' rights
            "mov edx, -1",
            "xrstor64 [rdi]",
            "mov rax, -1",
            "mov rcx, rax",
            "mov rdx, rax",
            "mov rbx, rax",
            "mov rsi, rax",
            "mov rdi, rax",
            "mov r8, rax",
            "mov r9, rax",
            "mov r10, rax",
            "mov r11, rax",
            "mov r12, rax",
            "mov r13, rax",
            "mov r14, rax",
            "mov r15, rax",
            "add rax, 1", // zero, carry, adjust, parity
            "std",
            "ret",
            found = sym FOUND,
            garbage = sym GARBAGE,
            then = sym T::call,
            flags = const core::mem::offset_of!(Registers, flags),
        )
    }
}

#[unsafe(naked)]
unsafe extern "C" fn hold(state: *const Registers, after: *mut Registers, turns: usize, components: u64) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rsi", // 16: after
        "push rdx", //  8: turns
        "push rcx", //  0: components
        "mov eax, [rsp]",
        "mov edx, [rsp + 4]",
        "xrstor64 [rdi]",
        "mov rcx, [rsp + 8]",
        "push qword ptr [rdi + {flags}]",
        "mov rax, [rdi + {general}]",
        "mov rdx, [rdi + {general} + 16]",
        "mov rbx, [rdi + {general} + 24]",
        "mov rbp, [rdi + {general} + 40]",
        "mov rsi, [rdi + {general} + 48]",
        "mov r8, [rdi + {general} + 64]",
        "mov r9, [rdi + {general} + 72]",
        "mov r10, [rdi + {general} + 80]",
        "mov r11, [rdi + {general} + 88]",
        "mov r12, [rdi + {general} + 96]",
        "mov r13, [rdi + {general} + 104]",
        "mov r14, [rdi + {general} + 112]",
        "mov r15, [rdi + {general} + 120]",
        "mov rdi, [rdi + {general} + 56]",
        "popfq",
        "mov [rsp - 128], rax", // in the red zone, for the handler to find
        "2:",
        "pause",
        "loop 2b", // changes no flag
        "pushfq",
        "push rax",
        "push 2",
        "popfq",
        "mov rax, [rsp + 32]",
        "mov [rax + {general} + 8], rcx",
        "mov [rax + {general} + 16], rdx",
        "mov [rax + {general} + 24], rbx",
        "mov [rax + {general} + 40], rbp",
        "mov [rax + {general} + 48], rsi",
        "mov [rax + {general} + 56], rdi",
        "mov [rax + {general} + 64], r8",
        "mov [rax + {general} + 72], r9",
        "mov [rax + {general} + 80], r10",
        "mov [rax + {general} + 88], r11",
        "mov [rax + {general} + 96], r12",
        "mov [rax + {general} + 104], r13",
        "mov [rax + {general} + 112], r14",
        "mov [rax + {general} + 120], r15",
        "mov rdi, rax",
        "mov rax, [rsp + 16 - 128]", // what the red zone kept
        "mov [rdi + {general} + 32], rax",
        "pop rax",
        "mov [rdi + {general}], rax",
        "pop rax",
        "mov [rdi + {flags}], rax",
        "mov eax, [rsp]",
        "mov edx, [rsp + 4]",
        "xsave64 [rdi]",
        "xrstor64 [rip + {initial}]",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        flags = const core::mem::offset_of!(Registers, flags),
        general = const core::mem::offset_of!(Registers, general),
        initial = sym INITIAL,
    )
}

/// What is wrong with a trampoline that saves the general registers only.
///
/// # Safety
/// As `inject`; only `hold` needs the others.
pub(in crate::arch) unsafe fn inject_carelessly<F: Injected>(sp: &mut usize, pc: &mut usize, _: u64) {
    prepare();
    *sp -= RED_ZONE + size_of::<usize>();
    // SAFETY: the caller's, as of `inject`.
    unsafe { core::ptr::with_exposed_provenance_mut::<usize>(*sp).write_unaligned(*pc) };
    let careless: unsafe extern "C" fn() = careless::<F>;
    *pc = careless as usize;
}

trampoline! {
    /// The control.
    careless, plan: SMALL, save: ["nop"], new: "/* not {initial} */", restore: "nop"
}
