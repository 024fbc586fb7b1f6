//! How many processors this process may use, where only std knows.

/// How many threads this process can run at once: at least one.
pub(crate) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
