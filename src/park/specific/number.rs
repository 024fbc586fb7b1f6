//! The numbers of keys, and the marks of values, which are compared with them.

/// Near entries: two cache lines.
pub(super) const NEAR: usize = 16;

const _: () = assert!(NEAR <= 256, "a byte says which");

/// The number of a key: an index below, a generation above. No two keys of a process have the same number.
///
/// | bits | value |
/// |---|---|
/// | 0 to 7 | the index modulo [`NEAR`]: a byte, so a look extracts it with one instruction |
/// | 8 to 31 | the index divided by `NEAR` |
/// | from 32 | the generation |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(u64);

impl KeyId {
    /// The number of a key that has none yet. Generations of keys are odd, so no key has it.
    pub(crate) const NONE: Self = Self(0);
    /// The mark of a value that is in use.
    pub(super) const IN_USE: Self = Self(1);
    /// The mark of no value.
    pub(super) const NOTHING: Self = Self(2);

    #[inline]
    pub(crate) fn new(index: u32, generation: u32) -> Self {
        debug_assert!(generation & 1 == 1, "generations of keys are odd");
        let (far, near) = (index / NEAR as u32, index % NEAR as u32);
        debug_assert!(far < 1 << 24, "there are not so many keys");
        Self(u64::from(generation) << 32 | u64::from(far << 8 | near))
    }

    /// Returns the number of these [bits](Self::bits).
    ///
    /// # Safety
    /// The bits are those of a number.
    #[inline]
    pub(crate) unsafe fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        (self.0 as u32 >> 8) as usize * NEAR + self.near()
    }

    /// Returns the index of its near entry.
    #[inline]
    pub(super) fn near(self) -> usize {
        usize::from(self.0 as u8)
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
