//! Code that may be left in the middle: a load that may fault, and a call that a jump may end.

use std::ffi::c_void;

use super::isa;

/// Reads four bytes that may not be there: copies them to `found`, and returns `true`. If the load faults, a
/// handler of the fault may let it go on at the second address of [`checked_load`](super::checked_load), which
/// returns `false`.
///
/// # Safety
/// `found` can be written. A fault at `address` is answered, or ends the process.
#[inline(always)]
pub(crate) unsafe fn load_checked(address: *const u32, found: *mut u32) -> bool {
    // SAFETY: `found` can be written, and a fault is answered (contract).
    unsafe { isa::load_checked(address, found) }
}

/// A function to call, and where a jump out of it lands ([`call_landed`]).
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Landing {
    /// The C library's `__sigsetjmp`.
    pub(crate) set: unsafe extern "C" fn(*mut c_void, i32) -> i32,
    /// The C library's `__pthread_register_cancel`.
    pub(crate) register: unsafe extern "C" fn(*mut c_void),
    /// The C library's `__pthread_unregister_cancel`.
    pub(crate) unregister: unsafe extern "C" fn(*mut c_void),
    pub(crate) function: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    /// The argument, then the result.
    pub(crate) value: *mut c_void,
    pub(crate) buffer: LandingBuffer,
}

/// Room for the C library's `__pthread_unwind_buf_t`.
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct LandingBuffer(pub(crate) [u64; 48]);

const _: () =
    assert!(std::mem::offset_of!(Landing, value) == 32 && std::mem::offset_of!(Landing, buffer) == 48);

/// Calls `landing.function(landing.value)`, and stores what it returns in `landing.value`. If a function
/// below jumps to `landing.buffer`, this returns all the same, with the value as it was.
///
/// For unwinders, the thread begins here. So an exception that `function` does not catch ends the process as
/// it does in a thread of the C library. If a frame above caught it, the buffer would stay registered.
///
/// # Safety
/// The functions are what their names say, `buffer` is theirs to use, and frames that a jump leaves own
/// nothing.
#[inline(always)]
pub(crate) unsafe fn call_landed(landing: *mut Landing) {
    // SAFETY: functions and buffer are what their names say, and a jump leaves nothing behind (contract).
    unsafe { isa::call_landed(landing) }
}
