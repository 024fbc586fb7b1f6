//! The growth of costs: one crowd of threads, the command line, and the program that goes from one crowd to
//! the next.

pub(crate) mod crowd;
pub(crate) mod options;
pub(crate) mod program;
