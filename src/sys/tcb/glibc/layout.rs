//! Where a block's parts lie: a file for each instruction set, with the same names.

#[cfg_attr(target_arch = "x86_64", path = "layout/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "layout/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "layout/riscv64.rs")]
mod machine;

pub(super) use machine::*;
