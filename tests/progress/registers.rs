//! Registers that only assembly can fill and compare: flags, the x87 stack, AVX-512, AMX, SVE, V.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{general, sve, vectors};
#[cfg(target_arch = "riscv64")]
pub(crate) use riscv64::{general, rvv, vectors};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{amx, avx512, general, vectors};

/// What a kind says that needs registers of another machine.
pub(crate) fn elsewhere() -> Result<Box<dyn FnMut()>, String> {
    Err("other processors have it".into())
}

#[cfg(not(target_arch = "aarch64"))]
pub(crate) use elsewhere as sve;
#[cfg(not(target_arch = "riscv64"))]
pub(crate) use elsewhere as rvv;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere as amx;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere as avx512;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;
    use std::io;

    /// Turns of the loops below: some tens of microseconds, so that most slices of 50 us end in one.
    const SPINS: u64 = 60_000;

    /// Flags, general registers and the red zone, which a call must not touch; an interruption neither.
    pub(crate) fn general() {
        let (wrong, carry): (u64, u64);
        // SAFETY: writes only registers that are named, and the red zone, which is left to it.
        unsafe {
            asm!(
                "mov qword ptr [rsp - 8], {spins}",
                "mov qword ptr [rsp - 128], {spins}",
                "mov r8, 8", "mov r9, 9", "mov r10, 10", "mov r11, 11",
                "mov r12, 12", "mov r13, 13", "mov r14, 14", "mov r15, 15",
                "fldpi", "fldl2e",
                "xor {wrong:e}, {wrong:e}",
                // Carry stays set over the loop: neither DEC nor LEA nor JNZ changes it.
                "stc",
                "2:", "lea {wrong}, [{wrong} + 1]", "dec {spins}", "jnz 2b",
                "sbb {carry}, {carry}",
                "sub {wrong}, [rsp - 8]",
                "mov {spins}, [rsp - 8]", "sub {spins}, [rsp - 128]", "or {wrong}, {spins}",
                "sub r8, 8", "or {wrong}, r8", "sub r9, 9", "or {wrong}, r9",
                "sub r10, 10", "or {wrong}, r10", "sub r11, 11", "or {wrong}, r11",
                "sub r12, 12", "or {wrong}, r12", "sub r13, 13", "or {wrong}, r13",
                "sub r14, 14", "or {wrong}, r14", "sub r15, 15", "or {wrong}, r15",
                // st(1) - st(0) is pi - log2(e), and the top two are compared with fresh ones.
                "fldl2e", "fcomip st, st(1)", "fstp st(0)", "setne {spins:l}", "movzx {spins:e}, {spins:l}", "or {wrong}, {spins}",
                "fldpi", "fcomip st, st(1)", "fstp st(0)", "setne {spins:l}", "movzx {spins:e}, {spins:l}", "or {wrong}, {spins}",
                spins = inout(reg) SPINS => _,
                wrong = out(reg) wrong,
                carry = out(reg) carry,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
        assert_eq!((wrong, carry), (0, u64::MAX), "general registers, flags, red zone or x87 stack");
    }

    /// Checks the 16 registers of AVX, with the stack pointer `below` bytes lower than usual. `below` is a
    /// multiple of 8 and less than 64.
    pub(crate) fn vectors(below: usize) {
        if !std::arch::is_x86_feature_detected!("avx") {
            return;
        }
        let before: [u64; 16 * 4] = std::array::from_fn(|n| 0x5EED_0000 + n as u64);
        let mut after = [0_u64; 16 * 4];
        // SAFETY: reads and writes 512 bytes of the arrays. The processor has the instructions, and the stack
        // pointer is restored.
        unsafe {
            asm!(
                "mov r8, rsp",
                "and rsp, -64",
                "sub rsp, 256", // the red zone, and room for the next subtraction
                "sub rsp, r9",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu ymm\\n, [rsi + 32 * \\n]",
                ".endr",
                "2:", "dec rcx", "jnz 2b",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqu [rdi + 32 * \\n], ymm\\n",
                ".endr",
                "vzeroupper",
                "mov rsp, r8",
                inout("rsi") before.as_ptr() => _,
                inout("rdi") after.as_mut_ptr() => _,
                inout("rcx") SPINS => _,
                inout("r9") below => _,
                clobber_abi("sysv64"),
            );
        }
        assert_eq!(before, after, "AVX registers, at {below}");
    }

    /// All 32 vector registers and 7 mask registers.
    pub(crate) fn avx512() -> Result<Box<dyn FnMut()>, String> {
        if !std::arch::is_x86_feature_detected!("avx512f") || !std::arch::is_x86_feature_detected!("avx512bw")
        {
            return Err("the processor has no AVX-512".into());
        }
        let mut round = super::super::kinds::marker();
        Ok(Box::new(move || {
            round += 1000;
            let before: Vec<u64> = (0..32 * 8 + 8).map(|n| round + n).collect();
            let mut after = vec![0_u64; before.len()];
            // SAFETY: reads and writes 32 x 64 + 56 bytes there; the processor knows the instructions.
            // The upper halves of the registers are the compiler's nowhere, as this program is compiled
            // for processors without.
            unsafe {
                asm!(
                    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                    "vmovdqu64 zmm\\n, [rsi + 64 * \\n]",
                    ".endr",
                    ".irp n, 1,2,3,4,5,6,7",
                    "kmovq k\\n, [rsi + 64 * 32 + 8 * \\n]",
                    ".endr",
                    "2:", "dec rcx", "jnz 2b",
                    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                    "vmovdqu64 [rdi + 64 * \\n], zmm\\n",
                    ".endr",
                    ".irp n, 1,2,3,4,5,6,7",
                    "kmovq [rdi + 64 * 32 + 8 * \\n], k\\n",
                    ".endr",
                    "vzeroupper",
                    inout("rsi") before.as_ptr() => _,
                    inout("rdi") after.as_mut_ptr() => _,
                    inout("rcx") SPINS => _,
                    clobber_abi("sysv64"),
                );
            }
            after[32 * 8] = before[32 * 8];
            assert_eq!(before, after, "AVX-512 registers");
        }))
    }

    /// What LDTILECFG reads: eight tiles of 16 rows of 64 bytes.
    #[repr(C, align(64))]
    struct TileConfig {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        bytes_per_row: [u16; 16],
        rows: [u8; 16],
    }

    /// All eight tiles. From the first use on, the kernel thread that did it has larger signal frames.
    pub(crate) fn amx() -> Result<Box<dyn FnMut()>, String> {
        const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_ulong = 18;
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if !flags.split_whitespace().any(|flag| flag == "amx_tile") {
            return Err("the processor has no AMX".into());
        }
        // SAFETY: asks for the permission of the whole process; no memory is involved.
        if unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) } != 0 {
            return Err(format!("the kernel does not allow AMX: {}", io::Error::last_os_error()));
        }
        let mut config =
            TileConfig { palette: 1, start_row: 0, reserved: [0; 14], bytes_per_row: [0; 16], rows: [0; 16] };
        config.bytes_per_row[..8].fill(64);
        config.rows[..8].fill(16);
        let mut round = super::super::kinds::marker();
        Ok(Box::new(move || {
            round += 1000;
            let before: Vec<u64> = (0..8 * 128).map(|n| round + n).collect();
            let mut after = vec![0_u64; before.len()];
            // SAFETY: reads and writes 8 x 1,024 bytes there; the kernel has allowed the instructions;
            // the compiler uses no tile.
            unsafe {
                asm!(
                    "ldtilecfg [{config}]",
                    "tileloadd tmm0, [{from} + {stride}]",
                    "tileloadd tmm1, [{from} + {stride} + 1024]",
                    "tileloadd tmm2, [{from} + {stride} + 2048]",
                    "tileloadd tmm3, [{from} + {stride} + 3072]",
                    "tileloadd tmm4, [{from} + {stride} + 4096]",
                    "tileloadd tmm5, [{from} + {stride} + 5120]",
                    "tileloadd tmm6, [{from} + {stride} + 6144]",
                    "tileloadd tmm7, [{from} + {stride} + 7168]",
                    "2:", "dec {spins}", "jnz 2b",
                    "tilestored [{to} + {stride}], tmm0",
                    "tilestored [{to} + {stride} + 1024], tmm1",
                    "tilestored [{to} + {stride} + 2048], tmm2",
                    "tilestored [{to} + {stride} + 3072], tmm3",
                    "tilestored [{to} + {stride} + 4096], tmm4",
                    "tilestored [{to} + {stride} + 5120], tmm5",
                    "tilestored [{to} + {stride} + 6144], tmm6",
                    "tilestored [{to} + {stride} + 7168], tmm7",
                    "tilerelease",
                    config = in(reg) &raw const config,
                    from = in(reg) before.as_ptr(),
                    to = in(reg) after.as_mut_ptr(),
                    stride = in(reg) 64_u64,
                    spins = inout(reg) SPINS => _,
                );
            }
            assert_eq!(before, after, "AMX tiles");
        }))
    }
}
