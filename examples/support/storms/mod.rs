//! The storms: threads that block, threads that never yield, the command line, and the program that joins
//! them.

pub(crate) mod blocking;
pub(crate) mod hogs;
pub(crate) mod options;
pub(crate) mod program;
