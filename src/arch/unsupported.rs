//! No context switch for this machine: names to compile against, none of which is ever reached.
//!
//! Every maker of contexts asks [`SUPPORTED`] first and answers with an error.

use super::{Entry, SavedSp};

/// Whether this machine can run green threads.
pub(crate) const SUPPORTED: bool = false;

/// No program is known to run under valgrind here.
pub(super) fn valgrind_request(_args: &[usize; 6], without: usize) -> usize {
    without
}

/// # Safety
/// Not to be called where [`SUPPORTED`] is false.
pub(crate) unsafe fn init(_top: *mut u8, _entry: Entry, _data: *mut ()) -> SavedSp {
    unreachable!("no contexts on this machine")
}

/// # Safety
/// As [`init`], which would have made `_to`.
pub(crate) unsafe fn switch(_save: *mut SavedSp, _to: SavedSp, _arg: usize) -> usize {
    unreachable!("no contexts on this machine")
}

/// # Safety
/// As [`init`], which would have made `_to`.
pub(crate) unsafe fn switch_tp(_save: *mut SavedSp, _to: SavedSp, _tp: usize, _arg: usize) -> usize {
    unreachable!("no contexts on this machine")
}

/// # Safety
/// As [`init`], which would have made `_to`.
pub(crate) unsafe fn switch_tp_syscall(_save: *mut SavedSp, _to: SavedSp, _tp: usize, _arg: usize) -> usize {
    unreachable!("no contexts on this machine")
}

/// There is nothing to be gained.
pub(crate) fn fetch_to_write(_at: *const u8) {}
