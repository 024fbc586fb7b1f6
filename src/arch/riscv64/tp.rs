//! The thread register of riscv64: `tp`, a general register that compilers leave alone.

pub(crate) use crate::arch::writable_tp::*;

/// The instructions that read and write it.
macro_rules! instruction {
    (read) => {
        "mv {}, tp"
    };
    (write) => {
        "mv tp, {}"
    };
}
pub(in crate::arch) use instruction;
