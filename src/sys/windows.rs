//! The names of `other_unix.rs` for Windows, where more is missing: what else differs has files in `windows`.

/// What stands for the signal that there is not.
pub(super) const SIGURG: libc::c_int = 0;

/// Returns `false`: a user's programs get no privileges by being started.
pub(super) fn is_privileged() -> bool {
    false
}

/// Runs `f`. Only code that comes in between needs `errno` kept.
pub(crate) fn keep_errno<R>(f: impl FnOnce() -> R) -> R {
    f()
}
