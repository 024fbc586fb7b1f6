//! Injected calls on x86-64: the trampoline, and what it saves.
//!
//! The problem and the way are those of `arch/inject.rs`.
//!
//! The stack of a thread that was interrupted with the stack pointer `s`:
//!
//! ```text
//!            ...                  its own frame
//!    s  ->  +------------------+
//!           | red zone         |  128 bytes that the ABI lets it use
//!    -128   +------------------+
//!    -136   | program counter  |  written by `inject`; the trampoline starts here
//!    -144   | rbp              |  with that, a frame for unwinders by frame pointer
//!    -152   | flags            |
//!    -264   | r15 ... rax      |  fourteen registers, rax on top
//!           +------------------+
//!           | alignment        |
//!           | extended state   |  as `xsavec`, `xsave` or `fxsave` leave it, aligned to 64
//!           +------------------+
//!           | the function     |  `SLACK` bytes for it and all that it calls
//! ```
//!
//! While the trampoline runs, all that it needs is in registers and on that stack. So it may itself be
//! interrupted, also by a second injection, if there is room.
//!
//! **Extended state** is all that the kernel has enabled (XCR0): x87, vectors, masks, tiles, and future
//! components. While the function runs, it is as in a new thread. So the next thread gets no full x87
//! stack, no dirty upper halves that make its SSE code slow, and no tiles. If `xsavec` is missing, the
//! older instructions are used.
//!
//! Tile data takes 8 KiB, and only threads that have some need room for it. The kernel tells in the signal
//! frame, and the handler passes it on (`in_use`). If tiles are restored on a kernel thread that has used
//! none yet, it traps (#NM). The kernel then makes room, because the permission to use tiles is the
//! process's, and the instruction is repeated. At that moment it needs 11 KiB of kernel memory. If there is
//! none, it ends the process, as at any first use of a tile.
//!
//! **Not carried.** The rights of memory protection keys (PKRU) and the shadow stack, as in `x86_64.rs`.
//! The rights are neither saved nor restored, so they stay with the kernel thread. With a shadow stack,
//! the last `ret` would fail; green threads do not run there.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::arch::inject::Injected;

/// What the ABI lets a function use below its stack pointer.
const RED_ZONE: usize = 128;
/// Where the general registers end, below the interrupted stack pointer.
const REGISTERS: usize = RED_ZONE + 17 * size_of::<usize>();
/// What `xsave` asks of its area.
const AREA_ALIGN: usize = 64;

/// The legacy region of the area, then its header.
const LEGACY: usize = 512;
const HEADER: usize = 64;

/// Some components of the extended state: x87 and SSE, which are always there; the rights of protection
/// keys; tile data.
const BASE: u64 = 0b11;
const RIGHTS: u64 = 1 << 9;
const TILE_DATA: u64 = 1 << 18;

/// What to save, and in how many bytes. [`prepare`] writes it, and the trampolines read it.
#[repr(C)]
struct Plan {
    /// The components to save.
    save: AtomicU64,
    /// Those to restore. What was not saved becomes as in a new thread.
    restore: AtomicU64,
    size: AtomicUsize,
}

/// The trampolines use these offsets.
const _: () = assert!(offset_of!(Plan, restore) == 8 && offset_of!(Plan, size) == 16);

impl Plan {
    const fn new() -> Self {
        Self { save: AtomicU64::new(0), restore: AtomicU64::new(0), size: AtomicUsize::new(0) }
    }

    // Relaxed: published by `INSTRUCTION`; two threads that prepare at once write the same.
    fn set(&self, save: u64, restore: u64, size: usize) {
        self.save.store(save, Ordering::Relaxed);
        self.restore.store(restore, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }
}

/// The plans without and with tile data.
static SMALL: Plan = Plan::new();
static WHOLE: Plan = Plan::new();

/// The instruction that saves: one of the constants below, or 0 before the first [`prepare`].
static INSTRUCTION: AtomicU8 = AtomicU8::new(0);
const FXSAVE: u8 = 1;
const XSAVE: u8 = 2;
const XSAVEC: u8 = 3;

/// The extended state of a new thread, for `fxrstor` and `xrstor`. To the latter it says that no
/// component is in use. Then only MXCSR is read.
#[repr(C, align(64))]
struct Image([u32; (LEGACY + HEADER) / 4]);

static INITIAL: Image = {
    let mut words = [0; (LEGACY + HEADER) / 4];
    words[0] = 0x037F; // x87 control word
    words[6] = 0x1F80; // MXCSR
    Image(words)
};

/// Finds out how to save, at the first call. May be called in a signal handler: it does not wait.
fn prepare() -> u8 {
    // Acquire: pairs with the release in `adopt`.
    match INSTRUCTION.load(Ordering::Acquire) {
        0 => adopt(best()),
        known => known,
    }
}

/// Returns the last of the three instructions that this processor has and the kernel allows.
fn best() -> u8 {
    const OSXSAVE: u32 = 1 << 27;
    const HAS_XSAVEC: u32 = 1 << 1;
    if cpuid(0, 0).eax < 0xD || cpuid(1, 0).ecx & OSXSAVE == 0 {
        FXSAVE
    } else if cpuid(0xD, 1).eax & HAS_XSAVEC == 0 {
        XSAVE
    } else {
        XSAVEC
    }
}

/// Makes the plans for an instruction, and returns it.
fn adopt(instruction: u8) -> u8 {
    if instruction == FXSAVE {
        // The trampoline clears a header that this instruction does not have.
        SMALL.set(BASE, BASE, LEGACY + HEADER);
        WHOLE.set(BASE, BASE, LEGACY + HEADER);
    } else {
        let compact = instruction == XSAVEC;
        let all = enabled() & !RIGHTS;
        let small = all & !TILE_DATA;
        SMALL.set(small, all, area(small, compact));
        WHOLE.set(all, all, area(all, compact));
    }
    // Release: pairs with `prepare`, so that its reader sees the plans.
    INSTRUCTION.store(instruction, Ordering::Release);
    instruction
}

/// Returns the bytes that `xsavec` (`compact`) or `xsave` use for these components.
fn area(components: u64, compact: bool) -> usize {
    (2..63).filter(|i| components >> i & 1 != 0).fold(LEGACY + HEADER, |end, i| {
        const ALIGNED: u32 = 1 << 1;
        let component = cpuid(0xD, i);
        let start = match compact {
            true if component.ecx & ALIGNED != 0 => end.next_multiple_of(AREA_ALIGN),
            true => end,
            false => component.ebx as usize,
        };
        end.max(start + component.eax as usize)
    })
}

struct Leaf {
    eax: u32,
    ebx: u32,
    ecx: u32,
}

fn cpuid(leaf: u32, subleaf: u32) -> Leaf {
    let (eax, ebx, ecx): (u32, u64, u32);
    // SAFETY: every 64-bit processor has the instruction. LLVM keeps rbx to itself, so it is put back.
    unsafe {
        asm!(
            "mov {ebx}, rbx",
            "cpuid",
            "xchg {ebx}, rbx",
            ebx = out(reg) ebx,
            inlateout("eax") leaf => eax,
            inlateout("ecx") subleaf => ecx,
            lateout("edx") _,
            options(nostack, preserves_flags, nomem),
        );
    }
    Leaf { eax, ebx: ebx as u32, ecx }
}

/// Returns XCR0: the components that the kernel has enabled. It must have enabled `xgetbv`.
fn enabled() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller has looked at OSXSAVE.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nostack, preserves_flags, nomem));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Returns the bytes that a trampoline needs. `in_use` is the extended state that, by the signal frame, is
/// not as in a new thread.
pub(in crate::arch) fn room(in_use: u64) -> Option<usize> {
    prepare();
    let plan = plan(in_use);
    // Relaxed: `prepare` has acquired what was written.
    let savable = plan.save.load(Ordering::Relaxed) | RIGHTS;
    // Relaxed: `prepare` has acquired it, too.
    let area = plan.size.load(Ordering::Relaxed);
    (in_use & !savable == 0).then_some(REGISTERS + AREA_ALIGN + area)
}

fn plan(in_use: u64) -> &'static Plan {
    if in_use & TILE_DATA != 0 { &WHOLE } else { &SMALL }
}

/// Writes what the trampoline needs below `sp`. Returns the stack pointer and program counter to go on with.
///
/// # Safety
/// As [`inject`](crate::arch::inject::inject).
pub(in crate::arch) unsafe fn divert<F: Injected>(sp: usize, pc: usize, in_use: u64) -> (usize, usize) {
    let trampoline: unsafe extern "C" fn() = match prepare() {
        XSAVEC if in_use & TILE_DATA != 0 => compact_whole::<F>,
        XSAVEC => compact_small::<F>,
        XSAVE if in_use & TILE_DATA != 0 => standard_whole::<F>,
        XSAVE => standard_small::<F>,
        _ => legacy::<F>,
    };
    let sp = sp - (RED_ZONE + size_of::<usize>());
    // SAFETY: the caller's room. The interrupted code may have a stack pointer that is not aligned.
    unsafe { ptr::with_exposed_provenance_mut::<usize>(sp).write_unaligned(pc) };
    (sp, trampoline as usize)
}

/// Defines a trampoline. It is entered by a return from a signal handler, with every register live. On
/// top of the stack lies the program counter at which the code continues. From the second instruction on,
/// `rbp` holds the frame.
macro_rules! trampoline {
    ($(#[$doc:meta])* $name:ident, plan: $plan:ident, save: [$($save:literal),*], new: $new:literal, restore: $restore:literal) => {
        $(#[$doc])*
        #[unsafe(naked)]
        unsafe extern "C" fn $name<F: Injected>() {
            naked_asm!(
                ".cfi_startproc",
                ".cfi_signal_frame",            // for unwinders: no call lies below, but code that may have stopped
                ".cfi_def_cfa rsp, 136",        // at any instruction, and its red zone
                ".cfi_offset rip, -136",
                "push rbp",
                ".cfi_def_cfa_offset 144",
                ".cfi_offset rbp, -144",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",    // nothing below moves it
                "pushfq",                       // before the first instruction that changes flags
                ".cfi_offset rflags, -152",
                "push rax",
                ".cfi_offset rax, -160",
                "push rcx",
                ".cfi_offset rcx, -168",
                "push rdx",
                ".cfi_offset rdx, -176",
                "push rbx",
                ".cfi_offset rbx, -184",
                "push rsi",
                ".cfi_offset rsi, -192",
                "push rdi",
                ".cfi_offset rdi, -200",
                "push r8",
                ".cfi_offset r8, -208",
                "push r9",
                ".cfi_offset r9, -216",
                "push r10",
                ".cfi_offset r10, -224",
                "push r11",
                ".cfi_offset r11, -232",
                "push r12",
                ".cfi_offset r12, -240",
                "push r13",
                ".cfi_offset r13, -248",
                "push r14",
                ".cfi_offset r14, -256",
                "push r15",
                ".cfi_offset r15, -264",
                "push 2",
                "popfq",                        // direction upwards, alignment checks (AC) off
                "sub rsp, [rip + {plan} + 16]", // the area
                "and rsp, -64",                 // on its alignment, which does for the call, too
                "lea rdi, [rsp + 512]",
                "xor eax, eax",
                "mov ecx, 8",
                "rep stosq",                    // its header: a restore needs zeros where a save writes nothing
                "mov eax, [rip + {plan}]",      // the components to save
                "mov edx, [rip + {plan} + 4]",
                $($save,)*
                "mov eax, [rip + {plan} + 8]",  // those to make new
                "mov edx, [rip + {plan} + 12]",
                $new,
                "call {function}",
                "mov eax, [rip + {plan} + 8]",  // here it may be another kernel thread
                "mov edx, [rip + {plan} + 12]",
                $restore,
                "lea rsp, [rbp - 120]",         // to the general registers
                "pop r15",
                "pop r14",
                "pop r13",
                "pop r12",
                "pop r11",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rbx",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "popfq",                        // after the last instruction that changes flags
                "pop rbp",
                ".cfi_def_cfa rsp, 136",
                ".cfi_same_value rbp",
                "ret 128",                      // to the program counter, over the red zone
                ".cfi_endproc",
                plan = sym $plan,
                initial = sym INITIAL,
                function = sym F::call,
            )
        }
    };
}

trampoline! {
    /// Saves only what is in use, and so writes least.
    compact_small, plan: SMALL, save: ["xsavec64 [rsp]"], new: "xrstor64 [rip + {initial}]", restore: "xrstor64 [rsp]"
}
trampoline! {
    /// The same, tile data included.
    compact_whole, plan: WHOLE, save: ["xsavec64 [rsp]"], new: "xrstor64 [rip + {initial}]", restore: "xrstor64 [rsp]"
}
trampoline! {
    /// Each component has a fixed place.
    standard_small, plan: SMALL, save: ["xsave64 [rsp]"], new: "xrstor64 [rip + {initial}]", restore: "xrstor64 [rsp]"
}
trampoline! {
    /// The same, tile data included.
    standard_whole, plan: WHOLE, save: ["xsave64 [rsp]"], new: "xrstor64 [rip + {initial}]", restore: "xrstor64 [rsp]"
}
trampoline! {
    /// For processors with no more than x87 and SSE.
    legacy, plan: SMALL, save: ["fxsave64 [rsp]"], new: "fxrstor64 [rip + {initial}]", restore: "fxrstor64 [rsp]"
}

#[cfg(test)]
pub(in crate::arch) mod probe;
#[cfg(all(test, target_env = "gnu"))]
mod tests;
