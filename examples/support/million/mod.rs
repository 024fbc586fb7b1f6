//! A million parked threads: the workers, what the system lets, the command line, and the program that
//! joins them.

pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod warden;
pub(crate) mod workers;
