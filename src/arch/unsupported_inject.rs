//! No injected calls on this machine: names to compile against. There is no room for one anywhere, so none is made.

use super::Injected;

/// Whether calls can be injected on this machine.
pub(crate) const SUPPORTED: bool = false;

/// Bytes that an injected function may use.
pub(crate) const SLACK: usize = 0;

/// No stack has enough.
pub(crate) fn room(_in_use: u64) -> Option<usize> {
    None
}

/// # Safety
/// Not to be called where [`SUPPORTED`] is false.
pub(crate) unsafe fn inject<F: Injected>(_sp: &mut usize, _pc: &mut usize, _in_use: u64) {
    unreachable!("no injected calls on this machine")
}
