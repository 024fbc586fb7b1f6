//! Where a block's parts lie: a file for each instruction set, and what those with TLS variant I share.

#[cfg_attr(target_arch = "x86_64", path = "layout/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "layout/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "layout/riscv64.rs")]
mod machine;
#[cfg(not(target_arch = "x86_64"))]
mod variant_1;

pub(super) use machine::*;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use variant_1::*;
