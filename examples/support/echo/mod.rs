//! The echo: the workers, the command line, and the program that joins the two.

pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod workers;
