//! A call at the very end of a kernel thread that this crate did not start, as in its sibling
//! `thread_end.rs`.
//!
//! **Rejected**: a thread-local with a destructor. Some targets destroy those in the reverse order of their
//! first use, so one that is used late cannot come last.
//!
//! **The way.** The loader calls the functions in the sections `.CRT$XL*` of a program when a thread ends, in
//! the order of the sections' names. The standard library destroys thread-locals in `.CRT$XLB`, or before all
//! sections, and the C library in `.CRT$XLD`. The value is in a slot of the system's own. By then, std has
//! taken back those thread-locals for which it uses slots.

use std::ffi::c_void;
use std::ptr;

use super::once::OnceLock;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn TlsAlloc() -> u32;
    fn TlsGetValue(slot: u32) -> *mut c_void;
    fn TlsSetValue(slot: u32, value: *const c_void) -> i32;
}

struct Last {
    slot: u32,
    call: fn(*const ()),
}

static LAST: OnceLock<Option<Last>> = OnceLock::new();

/// Makes the running thread call `call` with `about` when it ends. `call` is always the same. Returns `false`
/// if the system has no slot left. (Its sibling needs to know if the thread's values are being destroyed.)
#[must_use]
pub(crate) fn call_last(call: fn(*const ()), about: *const (), _soon: bool) -> bool {
    debug_assert!(!about.is_null());
    let last = LAST.get_or_init(|| {
        const NONE: u32 = u32::MAX;
        // The linker keeps what is read.
        // SAFETY: a static.
        let _ = unsafe { (&raw const AT_END).read_volatile() };
        // SAFETY: no arguments.
        let slot = unsafe { TlsAlloc() };
        (slot != NONE).then_some(Last { slot, call })
    });
    // SAFETY: the slot is never freed.
    last.as_ref().is_some_and(|last| unsafe { TlsSetValue(last.slot, about.cast()) } != 0)
}

#[unsafe(link_section = ".CRT$XLY")]
static AT_END: unsafe extern "system" fn(*mut c_void, u32, *mut c_void) = at_end;

unsafe extern "system" fn at_end(_image: *mut c_void, reason: u32, _reserved: *mut c_void) {
    const THREAD_ENDS: u32 = 3;
    let Some(Some(last)) = LAST.get().filter(|_| reason == THREAD_ENDS) else { return };
    // SAFETY: the slot is never freed.
    let about = unsafe { TlsGetValue(last.slot) };
    if !about.is_null() {
        // SAFETY: the slot is never freed.
        unsafe { TlsSetValue(last.slot, ptr::null()) };
        (last.call)(about.cast_const().cast());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    include!("../thread_end_tests.rs");
}
