//! Creation: the workers, their curves, the command line, and the program that joins them.

pub(crate) mod at_once;
pub(crate) mod curves;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod workers;
