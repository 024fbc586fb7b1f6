//! The seam between who waits and how a thread sleeps.

pub(crate) mod backend;
pub(crate) mod current;
pub(crate) mod permit;
pub(crate) mod reason;
pub(crate) mod thread;
