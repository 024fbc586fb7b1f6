//! `sigaltstack`.
//!
//! **Problem.** The kernel keeps an alternate stack for each kernel thread. A green thread may set one, end
//! on another LWP, and free it. Handlers on the first LWP would then run on memory that is used for something
//! else.
//!
//! **Shape.** What a green thread sets is only noted, for its own questions. Handlers run on the alternate
//! stack of the LWP. (Rejected: to tell the kernel at each switch, a system call each time.)

use std::cell::Cell;
use std::ffi::c_int;
use std::mem;
use std::ptr;

use libc::stack_t;

use super::record;
use crate::sys::next::{self, fail};
use crate::sys::sigstack;

thread_local! {
    /// What the running thread has set. It has no destructor, so that handlers may use it.
    static OWN: Cell<Option<stack_t>> = const { Cell::new(None) };
}

/// A bit beside the flags that Linux has since 4.7.
const AUTODISARM: c_int = 1 << 31;

/// See `sigaltstack(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    if record::with_own(|_| ()).is_none() {
        // SAFETY: the caller's promise.
        return unsafe { next::sigaltstack(new, old) };
    }
    // SAFETY: plain data.
    let mut lwps: stack_t = unsafe { mem::zeroed() };
    // SAFETY: a place for the answer.
    if unsafe { next::sigaltstack(ptr::null(), &raw mut lwps) } != 0 {
        return -1;
    }
    let in_use = lwps.ss_flags & libc::SS_ONSTACK;
    // In a handler, it is the one on which that runs.
    let before = OWN.get().filter(|_| in_use == 0).unwrap_or(lwps);
    // SAFETY: null, or the caller's stack.
    if let Some(&new) = unsafe { new.as_ref() } {
        if in_use != 0 {
            return fail(libc::EPERM);
        }
        let own = match new.ss_flags & !AUTODISARM {
            libc::SS_DISABLE => stack_t { ss_sp: ptr::null_mut(), ss_size: 0, ..new },
            0 | libc::SS_ONSTACK if new.ss_size < sigstack::minimum().max(libc::MINSIGSTKSZ) => {
                return fail(libc::ENOMEM);
            }
            0 | libc::SS_ONSTACK => stack_t { ss_flags: new.ss_flags & AUTODISARM, ..new },
            _ => return fail(libc::EINVAL),
        };
        OWN.set(Some(own));
    }
    // SAFETY: null, or the caller's place.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = before;
    }
    0
}
