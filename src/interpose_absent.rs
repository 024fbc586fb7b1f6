//! The names of `interpose.rs` for programs whose calls go to the C library itself.

/// `false`: what changes a thread's signal mask is not seen.
pub(crate) const HAS_MASKS: bool = false;

/// `false`: they do.
pub(crate) fn is_on() -> bool {
    false
}

/// No thread is asked to end.
pub(crate) mod cancel {
    pub(crate) fn is_used() -> bool {
        false
    }

    #[inline]
    pub(crate) fn due_at<T>(_: impl FnOnce() -> bool, _: impl FnOnce() -> bool) -> Option<(T, bool)> {
        None
    }

    pub(crate) fn is_due_here() -> bool {
        false
    }

    pub(crate) fn test() {}

    #[inline]
    pub(crate) fn test_anywhere() {}

    #[inline]
    pub(crate) fn is_told() -> bool {
        false
    }

    #[inline]
    pub(crate) fn send_at<T>(_at: &mut T) -> bool {
        false
    }
}

/// Returns an error if a runtime wants calls to be answered here.
pub(crate) fn check(green_std_threads: bool) -> std::io::Result<()> {
    if green_std_threads {
        return Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "green threads of std (SELVEDGE_STD_THREADS, or green_std_threads): the program is built without \
             the feature `interpose`, or not for Linux with glibc",
        ));
    }
    Ok(())
}
