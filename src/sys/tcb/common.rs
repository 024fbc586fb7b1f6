//! What all C libraries with blocks have in public, and plain reads and writes in a block.

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
