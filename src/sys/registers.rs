//! The registers of a thread that stands still, as far as its callers' frames may need them.
//!
//! They have the numbers that unwind tables give them (DWARF). A register that is not known is `None`: then
//! an unwinder stops where a frame needs it, and guesses nothing. Registers that a call may change are not
//! kept, because no caller can need them.

/// How many registers have a place.
const COUNT: usize = 32;

/// The number of the stack pointer.
#[cfg(target_arch = "x86_64")]
const SP: u16 = 7;
#[cfg(target_arch = "riscv64")]
const SP: u16 = 2;
#[cfg(not(any(target_arch = "x86_64", target_arch = "riscv64")))]
const SP: u16 = 31;

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The address of its next instruction.
    pub(crate) pc: usize,
    /// Its stack pointer.
    pub(crate) sp: usize,
    kept: [Option<usize>; COUNT],
}

impl Registers {
    /// Returns those of a thread of which no more is known.
    pub(crate) const fn new(pc: usize, sp: usize) -> Self {
        Self { pc, sp, kept: [None; COUNT] }
    }

    /// Returns the same with one more register.
    pub(crate) fn with(mut self, number: u16, value: usize) -> Self {
        self.set(number, Some(value));
        self
    }

    /// Sets a register, if it has a place.
    pub(crate) fn set(&mut self, number: u16, value: Option<usize>) {
        if let Some(kept) = self.kept.get_mut(usize::from(number)) {
            *kept = value;
        }
    }

    /// Returns a register, if it is known.
    pub(crate) fn get(&self, number: u16) -> Option<usize> {
        if number == SP { Some(self.sp) } else { *self.kept.get(usize::from(number))? }
    }
}
