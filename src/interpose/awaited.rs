//! Calls that wait for signals. Those for one green thread are in this crate, and all others in the kernel
//! (`cancel/signals.rs`). The thread blocks its LWP, and says so.

use std::ffi::c_int;
use std::mem;
use std::ptr;

use libc::{siginfo_t, sigset_t, timespec};

use super::caller::{announced, duration};
use super::cancel::kernel::{pass_to_kernel, with_marker};
use super::cancel::{self, in_call, point, with_other_mask};
use crate::sys::kthread::SignalMask;
use crate::sys::next::{self, errno};
use crate::sys::preempt;
use crate::time::{self, Moment};

/// Waits for one of the signals of a set, as `sigtimedwait` does.
unsafe fn wait(set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int {
    // SAFETY: null, or the caller's time.
    let limit = unsafe { timeout.as_ref() }.copied().and_then(duration);
    let Some(limit) = limit else {
        // Without a limit. The kernel refuses one that is no time.
        // SAFETY: the caller's promise.
        return unsafe { wait_by(set, info, || timeout) };
    };
    let deadline = time::after(limit);
    let mut left = timespec { tv_sec: 0, tv_nsec: 0 };
    let left_by = |deadline: Moment| deadline - time::now();
    let still = || {
        let limit = deadline.map_or(limit, left_by);
        left.tv_sec = limit.as_secs().cast_signed();
        left.tv_nsec = limit.subsec_nanos().into();
        &raw const left
    };
    // SAFETY: the caller's promise, and a time.
    unsafe { wait_by(set, info, still) }
}

/// Does so. `still` returns how long the kernel is to wait.
unsafe fn wait_by(
    set: *const sigset_t,
    info: *mut siginfo_t,
    mut still: impl FnMut() -> *const timespec,
) -> c_int {
    pass_to_kernel();
    // SAFETY: the caller's promise.
    let mut kernel = || in_call(|| unsafe { next::sigtimedwait(set, info, still()) });
    // SAFETY: the caller's set.
    point(|| announced(|| cancel::wait_for(unsafe { &*set }, info, &mut kernel)))
}

/// See `sigwait(3)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    loop {
        // SAFETY: the caller's promise.
        let found = unsafe { wait(set, ptr::null_mut(), ptr::null()) };
        if found > 0 {
            // SAFETY: the caller's place.
            unsafe { signal.write(found) };
            return 0;
        }
        if errno() != libc::EINTR {
            return errno();
        }
    }
}

/// See `sigwaitinfo(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { wait(set, info, ptr::null()) }
}

/// See `sigtimedwait(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { wait(set, info, timeout) }
}

/// Makes a call for the running thread, which is green, that takes a mask of signals for as long as it lasts.
/// `call` gets that mask. The signal by which green threads are told of others is not blocked meanwhile.
pub(super) fn with_mask(bits: u64, mut call: impl FnMut(*const sigset_t) -> c_int) -> c_int {
    let bits = bits & !preempt::signal_bit();
    // SAFETY: plain data.
    let mut mask: sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a set begins with the kernel's eight bytes.
    unsafe { (&raw mut mask).cast::<u64>().write(bits) };
    let mut kernel = || in_call(|| with_other_mask(|| call(&raw const mask)));
    cancel::suspended(bits, &mut kernel)
}

/// Suspends the running thread, which is green, or was until it forked, until a handler has run.
fn suspend(bits: u64) -> c_int {
    // SAFETY: a set.
    point(|| announced(|| with_mask(bits, |mask| unsafe { next::sigsuspend(mask) })))
}

/// See `sigsuspend(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sigsuspend(mask: *const sigset_t) -> c_int {
    if !cancel::has_signals() {
        // SAFETY: the caller's promise.
        let suspend = |mask| with_other_mask(|| unsafe { next::sigsuspend(mask) });
        return announced(|| with_marker(mask, suspend));
    }
    // SAFETY: the caller's set, which begins with the kernel's eight bytes.
    suspend(unsafe { mask.cast::<u64>().read_unaligned() })
}

/// See `pause(2)`.
#[unsafe(no_mangle)]
pub(super) extern "C-unwind" fn pause() -> c_int {
    if cancel::has_signals() {
        suspend(SignalMask::of_caller().bits())
    } else {
        // As `sigsuspend`: the preemption signal would end `pause`, perhaps after the handler of another.
        let own = SignalMask::of_caller().set();
        // SAFETY: a set.
        announced(|| with_marker(&raw const own, |mask| unsafe { next::sigsuspend(mask) }))
    }
}

/// See `sigpending(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sigpending(set: *mut sigset_t) -> c_int {
    pass_to_kernel();
    // SAFETY: the caller's promise.
    let code = unsafe { next::sigpending(set) };
    let own = cancel::own_signals();
    if code == 0 && own != 0 {
        let bits = set.cast::<u64>();
        // SAFETY: the caller's place, which begins with the kernel's eight bytes.
        let kernels = unsafe { bits.read_unaligned() };
        // SAFETY: the same.
        unsafe { bits.write_unaligned(kernels | own) };
    }
    code
}
