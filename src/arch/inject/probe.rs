//! For the tests: what the probes of all instruction sets share.

use core::cell::UnsafeCell;
use core::fmt::LowerHex;

/// Numbers that look random.
pub(in crate::arch) struct Random(u64);

impl Random {
    pub(in crate::arch) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(in crate::arch) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Says which registers of one kind are not the same.
pub(in crate::arch) fn differences<T: PartialEq + LowerHex>(
    kind: &str,
    ours: &[T],
    theirs: &[T],
) -> Vec<String> {
    let pairs = ours.iter().zip(theirs).enumerate();
    let unequal = pairs.filter(|(_, (ours, theirs))| ours != theirs);
    unequal.map(|(i, (ours, theirs))| format!("{kind} {i}: {ours:#x}, {theirs:#x}")).collect()
}

/// A place for what an injected function finds.
pub(in crate::arch) struct Found<Registers>(UnsafeCell<Registers>);

// SAFETY: written by `Spoil::call` alone, read by the function that it calls, on one kernel thread.
unsafe impl<Registers> Sync for Found<Registers> {}

impl<Registers> Found<Registers> {
    pub(in crate::arch) const fn new(empty: Registers) -> Self {
        Self(UnsafeCell::new(empty))
    }

    pub(in crate::arch) fn get(&self) -> &Registers {
        // SAFETY: written before the function that reads it is called, on one kernel thread.
        unsafe { &*self.0.get() }
    }
}
