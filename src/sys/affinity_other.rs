//! How many processors this process may use, if only std knows.

use std::io;

/// Returns how many threads this process can run at once: at least one.
pub(crate) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the process may have of the processors: what it had at first.
#[derive(Debug)]
pub(crate) struct Grant(());

impl Grant {
    /// Makes the value. It does not ask the system anything.
    pub(crate) fn find() -> Self {
        Self(())
    }

    /// Returns the processors' time that the process can have.
    pub(crate) fn processors(&self) -> f64 {
        available() as f64
    }

    /// Returns how many threads the process can run at once: at least one.
    pub(crate) fn threads(&self) -> usize {
        available()
    }
}

/// Returns `true` if there is one processor.
pub(crate) fn is_single() -> bool {
    available() == 1
}

/// Does nothing: there is no such call, or it is only a hint.
pub(crate) fn pin(_cpus: &[usize]) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system binds no thread to processors"))
}
