//! NT against Solaris: the workers, the command line, and the program that joins the two.

pub(crate) mod apart;
pub(crate) mod journal;
pub(crate) mod options;
pub(crate) mod parts;
pub(crate) mod program;
pub(crate) mod workers;
