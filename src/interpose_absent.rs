//! The names of `interpose.rs` for programs whose calls go to the C library itself.

/// `false`: they do.
pub(crate) fn is_on() -> bool {
    false
}
