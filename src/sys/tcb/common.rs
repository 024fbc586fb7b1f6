//! What all C libraries with blocks have in public, how the one of this process is found, and plain reads and
//! writes in a block.

use std::hint::unreachable_unchecked;

use super::Library;
use super::unfit::Unfit;
use crate::sys::once::OnceLock;

static LIBRARY: OnceLock<Result<Library, Unfit>> = OnceLock::new();

impl Library {
    /// Returns the one of this process. The first call starts two short-lived threads. It must come from a
    /// thread that the C library made.
    pub(crate) fn get() -> Result<&'static Self, Unfit> {
        let found = LIBRARY.get_or_try_init(|| match Self::find() {
            // The next call looks again.
            Err(unfit) if unfit.may_pass() => Err(unfit),
            found => Ok(found),
        });
        found?.as_ref().map_err(|unfit| *unfit)
    }

    /// Returns what [`get`](Self::get) has returned before, without a look.
    ///
    /// # Safety
    /// [`get`](Self::get) has returned `Ok` in this process, or in one that it was forked from.
    #[inline]
    pub(crate) unsafe fn found() -> &'static Self {
        // SAFETY: the caller's promise.
        match unsafe { LIBRARY.get_unchecked() } {
            Ok(library) => library,
            // SAFETY: the caller's promise.
            Err(_) => unsafe { unreachable_unchecked() },
        }
    }
}

/// The locale that `setlocale` sets. It is public: a cast of -1.
pub(super) const LC_GLOBAL_LOCALE: libc::locale_t = std::ptr::without_provenance_mut(usize::MAX);

/// Returns `AT_HWCAP2`: what the kernel lets programs use of the processor.
pub(crate) fn hwcap2() -> usize {
    // SAFETY: takes a number and returns one; zero for what it does not know.
    unsafe { libc::getauxval(libc::AT_HWCAP2) as usize }
}

/// Uses what the C library keeps in a block, on one that has just been entered. `Err` names what was wrong.
pub(crate) fn check_library() -> Result<(), &'static str> {
    // SAFETY: takes nothing.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's own `errno`.
    if unsafe { errno.read() } != 0 {
        return Err("errno");
    }
    // SAFETY: a descriptor that never exists, so nothing is closed.
    let failed = unsafe { libc::close(-1) } == -1;
    // SAFETY: the calling thread's own `errno`.
    if !failed || unsafe { errno.read() } != libc::EBADF {
        return Err("errno");
    }
    // SAFETY: takes a byte.
    let (letter, digit) = (unsafe { libc::isalpha(b'x'.into()) }, unsafe { libc::isalpha(b'7'.into()) });
    if letter == 0 || digit != 0 {
        return Err("the table of characters");
    }
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(100) };
    if memory.is_null() {
        return Err("malloc");
    }
    // SAFETY: allocated above.
    unsafe { libc::free(memory) };
    let mut text = [0_u8; 16];
    // SAFETY: the buffer is as long as the argument says. The function checks the canary when it returns.
    let len = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%d".as_ptr(), 4711) };
    if len != 4 || !text.starts_with(b"4711\0") {
        return Err("snprintf");
    }
    Ok(())
}

/// Reads a field.
///
/// # Safety
/// `at` is the address of a readable `T`, aligned for it, that no other thread writes meanwhile.
#[inline]
pub(in crate::sys::tcb) unsafe fn peek<T: Copy>(at: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::with_exposed_provenance::<T>(at).read() }
}

/// Writes a field.
///
/// # Safety
/// `at` is the address of a writable `T`, aligned for it, that no other thread uses meanwhile.
#[inline]
pub(in crate::sys::tcb) unsafe fn poke<T: Copy>(at: usize, value: T) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(at).write(value) };
}
