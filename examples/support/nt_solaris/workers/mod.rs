//! What the threads of the comparison do: an experiment per file, generic over the library.

pub(crate) mod bursts;
pub(crate) mod compute;
pub(crate) mod create;
pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod most;
pub(crate) mod neighbors;
pub(crate) mod process;
pub(crate) mod search;
pub(crate) mod tour;
pub(crate) mod tsplib;

use std::io;
use std::time::Duration;

/// How long it took, and whether all was done that was to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was lost is not to be overlooked"]
pub(crate) struct Tally {
    pub(crate) elapsed: Duration,
    /// What the threads did, each of them or under a lock.
    pub(crate) counted: u64,
    /// What they were to do.
    pub(crate) due: u64,
}

impl Tally {
    pub(crate) fn exact(&self) -> bool {
        self.counted == self.due
    }

    /// The time, for callers that have no use for a run that went wrong.
    pub(crate) fn expect_exact(self) -> Duration {
        assert_eq!(self.counted, self.due, "not all was done, or some twice");
        self.elapsed
    }
}

/// The error of a thread that could not be made, with its place among all.
fn cannot_start(error: &io::Error, number: u32, threads: u32) -> io::Error {
    io::Error::new(error.kind(), format!("cannot start thread {} of {threads}: {error}", number + 1))
}
