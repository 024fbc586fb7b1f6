//! No context switch for this machine: names to compile against, which are never reached.
//!
//! Every maker of contexts asks [`SUPPORTED`] first, and returns an error.

use super::{Entry, SavedSp};
use crate::sys::registers::Registers;

pub(crate) mod inject;
pub(crate) mod tp;

/// `false`: this machine cannot run green threads.
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

/// There is no frame.
pub(crate) const FRAME_BELOW: usize = 0;

pub(crate) fn suspended(_frame: [usize; 4], _sp: usize) -> Registers {
    unreachable!("no contexts on this machine")
}

pub(crate) fn is_start(_resume: usize) -> bool {
    unreachable!("no contexts on this machine")
}

/// Reads four bytes. No green thread calls it here.
///
/// # Safety
/// Both addresses are valid.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) unsafe fn load_checked(address: *const u32, found: *mut u32) -> bool {
    // SAFETY: the caller's promise.
    let value = unsafe { *address };
    // SAFETY: the caller's promise.
    unsafe { *found = value };
    true
}

/// Calls a function. No green thread calls it here.
///
/// # Safety
/// As the function's.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) unsafe fn call_landed(_landing: *mut super::Landing) {
    unreachable!("no green threads on this machine")
}

/// Returns addresses at which no code stands.
#[cfg(all(feature = "interpose", target_os = "linux", target_env = "gnu"))]
pub(crate) fn checked_load() -> (usize, usize) {
    (0, 0)
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

/// Does nothing.
pub(crate) fn fetch_to_write(_at: *const u8) {}

/// `false`: no counter is known.
pub(crate) const HAS_COUNTER: bool = false;

/// Not to be called where [`HAS_COUNTER`] is false.
pub(crate) fn counter() -> u64 {
    unreachable!("no counter on this machine")
}
