//! What `threadmon` does, apart from its command line: so that tests can call it.

pub mod explain;
