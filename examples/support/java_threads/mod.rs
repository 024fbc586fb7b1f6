//! Many threads that compute: the workers, the models that they run on, the command line, and the program
//! that joins them.

pub(crate) mod models;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod workers;
