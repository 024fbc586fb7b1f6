//! The names of `sigstack.rs` for a system without signals. std says it if a kernel thread overflows its
//! stack.

use std::io;

/// What an alternate stack maps.
pub(crate) const MAPPED: usize = 0;

/// Returns 0: no signal is delivered.
pub(crate) fn minimum() -> usize {
    0
}

/// An alternate signal stack: a type without values.
#[derive(Debug)]
pub(crate) enum AltStack {}

impl AltStack {
    /// Returns an error.
    pub(crate) fn install() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The thread that has overflowed its stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overflow {
    pub(crate) name: Option<&'static str>,
    pub(crate) id: Option<u64>,
    pub(crate) size: usize,
}

/// Does nothing: no stack of a green thread overflows.
pub(crate) fn explain_with(_explain: fn(usize) -> Option<Overflow>) {}

/// Does nothing: std has a handler.
pub(crate) fn install_handler() -> io::Result<()> {
    Ok(())
}

/// Runs `body`, the main function of a kernel thread.
pub(crate) fn watched<R>(_name: Option<&str>, _id: Option<u64>, body: impl FnOnce() -> R) -> R {
    body()
}
