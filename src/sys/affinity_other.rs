//! How many processors this process may use, if only std knows.

use std::io;

stand_in! {
    /// Returns how many threads this process can run at once: at least one.
    pub(crate) fn available() -> usize = std::thread::available_parallelism().map_or(1, usize::from);
    /// Returns how many threads can run at once on so many processors. (No runtime has processors of its own
    /// here.)
    pub(crate) fn available_of(cpus: &[usize]) -> usize = cpus.len().max(1);
    /// Returns how many threads run at once on so many processors' time: at least one.
    pub(crate) fn at_once(processors: f64) -> usize = (processors.ceil() as usize).max(1);
    /// Does nothing: see [`pin`].
    pub(crate) fn allowed() -> io::Result<Vec<usize>> = Err(refusal());
}

/// What the process may have of the processors: what it had at first.
#[derive(Debug)]
pub(crate) struct Grant(());

impl Grant {
    stand_in! {
        /// Makes the value. It does not ask the system anything.
        pub(crate) fn find() -> Self = Self(());
        /// Returns the processors' time that the process can have.
        pub(crate) fn processors(&self, cpus: Option<&[usize]>) -> f64 = available() as f64;
    }
}

stand_in! {
    /// Returns `true` if there is one processor.
    pub(crate) fn is_single() -> bool = available() == 1;
    /// Does nothing: there is no such call, or it is only a hint.
    pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> = Err(refusal());
    /// Does nothing: no kernel thread is pinned.
    pub(crate) fn pin_like(other: u32) = ();
    /// Returns `false`: no kernel thread is pinned.
    pub(crate) fn strays_from(cpus: &[usize]) -> bool = false;
    /// Does nothing: no kernel thread is pinned.
    pub(crate) fn take_back(threads: impl Iterator<Item = u32>, cpus: &[usize]) = ();
    fn refusal() -> io::Error =
        io::Error::new(io::ErrorKind::Unsupported, "this system binds no thread to processors");
}
