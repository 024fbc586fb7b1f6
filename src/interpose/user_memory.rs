//! Reading memory that the program names, where nothing may be.
//!
//! The kernel answers `EFAULT` for an address that cannot be read. Here the instruction that reads is known
//! to the handler of faults, which goes on behind it (`sys/sigstack.rs`).

use crate::arch::{self, guarded};
use crate::sys::sigstack;

/// Makes faults of [`word`] be answered. Process-wide, once.
pub(super) fn prepare() {
    let (load, failed) = arch::checked_load();
    sigstack::answer_faults(load, failed);
}

/// Returns the four bytes at an address, or `None` if they cannot be read. The load is atomic and relaxed.
pub(super) fn word(address: *const u32) -> Option<u32> {
    let mut found = 0;
    // SAFETY: a fault of the load is answered (`prepare`), and `found` is written.
    unsafe { guarded::load_checked(address, &raw mut found) }.then_some(found)
}

/// Returns the time at an address, or `None` if it cannot be read.
pub(super) fn time(address: *const libc::timespec) -> Option<libc::timespec> {
    const WORDS: usize = size_of::<libc::timespec>() / size_of::<u32>();
    let mut words = [0_u32; WORDS];
    for (at, to) in words.iter_mut().enumerate() {
        *to = word(address.cast::<u32>().wrapping_add(at))?;
    }
    // SAFETY: plain numbers, of the same size.
    Some(unsafe { std::mem::transmute::<[u32; WORDS], libc::timespec>(words) })
}
