//! NT against Solaris: the workers, the command line, and the program that joins the two.

pub(crate) mod workers;
