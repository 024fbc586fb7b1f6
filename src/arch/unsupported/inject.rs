//! No injected calls on this machine: names to compile against. No stack has room for one, so none is made.

use crate::arch::Injected;

/// `false`: calls cannot be injected on this machine.
pub(crate) const SUPPORTED: bool = false;

/// The bytes that an injected function may use.
pub(crate) const SLACK: usize = 0;

/// Returns `None`: no stack has enough room.
pub(crate) fn room(_in_use: u64) -> Option<usize> {
    None
}

/// # Safety
/// Not to be called where [`SUPPORTED`] is false.
pub(crate) unsafe fn inject<F: Injected>(_sp: &mut usize, _pc: &mut usize, _in_use: u64) {
    unreachable!("no injected calls on this machine")
}
