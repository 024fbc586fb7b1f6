//! No injected calls on this machine: names to compile against. No stack has room for one, so none is made.

use crate::arch::inject::Injected;

/// Returns `None`: no stack has enough room.
pub(in crate::arch) fn room(_state: u64) -> Option<usize> {
    None
}

/// # Safety
/// Not to be called: see [`room`].
pub(in crate::arch) unsafe fn divert<F: Injected>(_sp: usize, _pc: usize, _state: u64) -> (usize, usize) {
    unreachable!("no injected calls on this machine")
}
