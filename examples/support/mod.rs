//! What the papers' programs share with each other, with the tests and with the benches.

pub(crate) mod library;
pub(crate) mod pingpong;
pub(crate) mod selvedge;
