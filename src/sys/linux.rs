//! The calls that only Linux has, under names that its sibling `other_unix.rs` has too.

use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{mem, ptr};

pub(super) use libc::SIGURG;

use super::mmap::page_size;
use super::{Tid, pthread};

/// Flags for a mapping that is not charged until it is touched.
pub(super) const UNCHARGED: libc::c_int = libc::MAP_NORESERVE;

/// The advice that makes a range fault by markers in the page tables. Not in libc (Linux 6.13,
/// `mman-common.h`).
pub(super) const GUARD_BY_MARKERS: Option<libc::c_int> = Some(102);

/// The advice that keeps the kernel from backing a range with huge pages.
pub(super) const NO_HUGE_PAGES: Option<libc::c_int> = Some(libc::MADV_NOHUGEPAGE);

/// The advice that fills a range with memory. Older kernels than 5.14 refuse it.
pub(super) const TOUCH: Option<libc::c_int> = Some(libc::MADV_POPULATE_WRITE);

/// Gives the kernel the same advice on many ranges of this process. Returns how many bytes, from the first
/// range's start, it has taken it for. Returns `None` if it has no such call: any advice is allowed since
/// 6.13, and `PIDFD_SELF_THREAD_GROUP` since 6.14.
///
/// # Safety
/// The ranges are the caller's, and may lose their contents if the advice says so.
pub(super) unsafe fn advise_each(ranges: &[libc::iovec], advice: libc::c_int) -> Option<usize> {
    /// Not in libc (`pidfd.h`).
    const SELF: libc::c_int = -10_001;
    // SAFETY: as many ranges as the argument says. What happens to them, the caller has allowed.
    let done = unsafe {
        libc::syscall(libc::SYS_process_madvise, SELF, ranges.as_ptr(), ranges.len(), advice, 0_u32)
    };
    match usize::try_from(done) {
        Ok(done) => Some(done),
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOSYS | libc::EBADF | libc::EPERM) => None,
            _ => Some(0),
        },
    }
}

/// Returns `true` if the program or a library of it wants stacks that hold code. Then the C library lets
/// those of all threads do so.
pub(super) fn stacks_may_run() -> bool {
    let mut wanted = false;
    #[cfg(target_pointer_width = "64")]
    super::objects::each(|object| wanted |= object.wants_executable_stacks());
    wanted
}

/// Labels a range in `/proc/PID/maps`, if the kernel can do that (5.17, if so configured).
pub(super) fn name_mapping(start: *mut u8, len: usize, name: &'static CStr) {
    // SAFETY: a static string. Only the label of the range is changed.
    unsafe { libc::prctl(libc::PR_SET_VMA, libc::PR_SET_VMA_ANON_NAME, start, len, name.as_ptr()) };
}

/// Returns how late the kernel may make the calling kernel thread's timers, in ns.
pub(super) fn timer_slack() -> u64 {
    // SAFETY: no memory is involved.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    u64::try_from(slack).unwrap_or(0)
}

/// Sets how late the kernel may make the calling kernel thread's timers, in ns. 0 would be its default.
pub(super) fn set_timer_slack(slack: u64) {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) };
}

/// Names the calling kernel thread.
pub(super) fn name_thread(name: &CStr) {
    // SAFETY: a valid string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Returns the kernel's number of the calling kernel thread.
pub(super) fn gettid() -> Tid {
    // Not `libc::gettid`, which glibc has only since 2.30.
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_gettid) as Tid }
}

/// Joins a thread that has ended. Returns `false` if it has not.
///
/// # Safety
/// Neither joined nor detached before, and not again if this returns `true`.
pub(super) unsafe fn try_join(thread: libc::pthread_t) -> bool {
    // SAFETY: the caller's promise.
    let code = unsafe { pthread::pthread_tryjoin_np(thread, std::ptr::null_mut()) };
    debug_assert!(matches!(code, 0 | libc::EBUSY), "{code}");
    code == 0
}

/// Returns the least stack that the kernel needs to deliver a signal; 0 if it does not say.
pub(super) fn minimum_signal_stack() -> usize {
    /// Absent from libc on some targets (Linux 5.14, `auxvec.h`).
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: no memory is involved.
    unsafe { libc::getauxval(AT_MINSIGSTKSZ) as usize }
}

/// Returns `true` if the process has privileges that its user does not have. `secure_getenv` asks the same.
pub(super) fn is_privileged() -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns where `name` is, in the first object of the global scope that has it. For a thread-local, that of
/// the calling thread. Takes a lock of the loader.
pub(super) fn symbol(name: &CStr) -> Option<NonNull<libc::c_void>> {
    // SAFETY: a terminated name, and the handle that stands for what is loaded already.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Returns the bytes of each kernel thread's stack that the C library takes for itself, in whole pages.
/// Returns 0 if the library adds them on its own, or does not tell. Most of it is static thread-locals; the
/// libraries that are loaded at the start decide how many.
pub(super) fn own_share_of_stacks() -> usize {
    /// Not known yet.
    const UNKNOWN: usize = usize::MAX;
    // Kept, because the look-up takes a lock of the loader, and a thread that starts LWPs must not wait for
    // that.
    static SHARE: AtomicUsize = AtomicUsize::new(UNKNOWN);
    // Relaxed, both: a number that is the same for all threads.
    let known = SHARE.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let share = symbol(c"__pthread_get_minstack").map_or(0, |ask| {
        // SAFETY: glibc has `size_t __pthread_get_minstack (const pthread_attr_t *)` since 2.15. std relies
        // on it, too.
        let ask = unsafe { mem::transmute::<NonNull<libc::c_void>, AskMinimum>(ask) };
        // SAFETY: plain data. No guard, which glibc 2.23 would add.
        let attributes: libc::pthread_attr_t = unsafe { mem::zeroed() };
        // SAFETY: it reads the size of the guard, or nothing.
        unsafe { ask(&raw const attributes) }.next_multiple_of(page_size())
    });
    SHARE.store(share, Ordering::Relaxed);
    share
}

type AskMinimum = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;

/// Returns where accesses below the calling kernel thread's stack fault, and the stack's size.
pub(super) fn own_stack() -> Option<(Range<usize>, usize)> {
    // SAFETY: plain data, filled in by the call below.
    let mut attributes: libc::pthread_attr_t = unsafe { mem::zeroed() };
    // SAFETY: no arguments.
    let me = unsafe { pthread::pthread_self() };
    // SAFETY: a real thread's handle, and a place for the attributes.
    if unsafe { pthread::pthread_getattr_np(me, &raw mut attributes) } != 0 {
        return None;
    }
    let (mut low, mut size, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: attributes filled in above; two places to write to.
    let got_stack =
        unsafe { libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) } == 0;
    // SAFETY: attributes filled in above, and two places to write to.
    let got_guard = unsafe { libc::pthread_attr_getguardsize(&raw const attributes, &raw mut guard) } == 0;
    // SAFETY: initialized by pthread_getattr_np, and not used after this.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    // glibc before 2.27 counted the guard into the stack, so it lies above or below `low`.
    let low = low.addr();
    (got_stack && got_guard && guard > 0).then(|| (low - guard..low + guard, size))
}

/// Asks the kernel to let the calling kernel thread run soon after it wakes. In return it runs only shortly,
/// with a scheduling slice of its own (Linux 6.12; before that the kernel ignores it).
pub(super) fn ask_for_short_slice(slice: Duration) {
    /// `struct sched_attr`, as far as it went first.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    // SAFETY: plain data, for which zero is valid.
    let mut now: Attributes = unsafe { mem::zeroed() };
    let size = size_of::<Attributes>() as u32;
    // SAFETY: a place that is as long as the argument says. 0 is the caller.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
    if got == 0 && now.policy == libc::SCHED_OTHER.cast_unsigned() {
        let wanted =
            Attributes { size, flags: 0, runtime: u64::try_from(slice.as_nanos()).unwrap_or(0), ..now };
        // SAFETY: reads the attributes. If it fails, all is as before.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    }
}

/// Runs `f` and leaves `errno` as it was. For code that runs in the middle of other code.
pub(crate) fn keep_errno<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's own `errno`.
    let before = unsafe { errno.read() };
    let result = f();
    // SAFETY: a thread keeps its thread register (I1), and with it the place of `errno`.
    unsafe { errno.write(before) };
    result
}
