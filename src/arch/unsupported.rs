//! No context switch for this machine: names to compile against, which are never reached.
//!
//! Every maker of contexts asks [`SUPPORTED`] first, and returns an error.

#![allow(unused_macros, unused_imports, reason = "on some systems, only the modules below are needed")]

use crate::sys::registers::Registers;

pub(crate) mod inject;
pub(crate) mod tp;

/// `false`: this machine cannot run green threads.
pub(crate) const SUPPORTED: bool = false;

/// There is no frame.
pub(crate) const FRAME_BELOW: usize = 0;

stand_in! {
    /// No program is known to run under valgrind here.
    pub(super) fn valgrind_request(args: &[usize; 6], without: usize) -> usize = without;
    pub(super) fn first_frame(entry: usize, data: usize) -> [usize; 4] =
        unreachable!("no contexts on this machine");
    pub(crate) fn suspended(frame: [usize; 4], sp: usize) -> Registers =
        unreachable!("no contexts on this machine");
    pub(super) fn start() -> ! = unreachable!("no contexts on this machine");
}

/// Reads four bytes. No green thread calls it here.
///
/// # Safety
/// Both addresses are valid.
pub(super) unsafe fn load_checked(address: *const u32, found: *mut u32) -> bool {
    // SAFETY: the caller's promise.
    let value = unsafe { *address };
    // SAFETY: the caller's promise.
    unsafe { *found = value };
    true
}

stand_in! {
    /// Returns addresses at which no code stands.
    pub(crate) fn checked_load() -> (usize, usize) = (0, 0);
    /// # Safety
    /// Not to be called: there are no green threads.
    pub(super) unsafe fn call_landed(landing: *mut super::guarded::Landing) =
        unreachable!("no green threads on this machine");
    /// Returns a number without a meaning: there are no green threads.
    pub(crate) fn float_modes() -> usize = 0;
    pub(crate) fn set_float_modes(modes: usize) = ();
}

/// # Safety
/// Not to be called where [`SUPPORTED`] is false.
pub(super) unsafe fn never<T>(_operands: T) -> usize {
    unreachable!("no contexts on this machine")
}

macro_rules! exchange {
    ($save:expr, $to:expr, $arg:expr $(, $way:ident: $tp:expr)?) => {
        $crate::arch::isa::never(($save, $to, $arg $(, $tp)?))
    };
}
pub(super) use exchange;

stand_in! {
    pub(crate) fn fetch_to_write(at: *const u8) = ();
    /// Not to be called where [`SUPPORTED`] is false.
    pub(crate) fn counter() -> u64 = unreachable!("no counter on this machine");
}
