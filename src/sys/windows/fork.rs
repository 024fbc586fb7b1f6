//! The names of `fork.rs` for a system without forks.

use std::io;

/// There are no children.
pub(crate) fn until_others_have_ended() {}

/// The one process that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// Returns this process's generation. `duty` is not called.
    pub(crate) fn watched(_duty: fn()) -> io::Result<Self> {
        Ok(Self::now())
    }

    #[cfg(test)]
    pub(crate) fn of_another_process() -> Self {
        Self(u32::MAX)
    }

    /// Returns this process's generation.
    #[inline]
    pub(crate) fn now() -> Self {
        Self(0)
    }

    /// Returns 0, except for a test's generation.
    pub(crate) fn number(self) -> u64 {
        self.0.into()
    }

    /// Returns `true`, except for a test's generation.
    #[inline]
    pub(crate) fn is_mine(self) -> bool {
        self.0 == 0
    }
}

/// Returns `false`.
#[inline]
pub(crate) fn is_child() -> bool {
    false
}

/// Returns `false`: it cannot be known.
pub(crate) fn is_alone() -> bool {
    false
}
