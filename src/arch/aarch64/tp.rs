//! The thread register of aarch64: `TPIDR_EL0`.

pub(crate) use crate::arch::writable_tp::*;

/// The instructions that read and write it.
macro_rules! instruction {
    (read) => {
        "mrs {}, tpidr_el0"
    };
    (write) => {
        "msr tpidr_el0, {}"
    };
}
pub(in crate::arch) use instruction;
