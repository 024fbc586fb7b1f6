//! What the papers' programs share with each other, with the tests and with the benches.
#![allow(dead_code, reason = "each program compiles this for itself and uses the part it needs")]

pub(crate) mod barriers;
pub(crate) mod command_line;
pub(crate) mod concurrency;
pub(crate) mod contention;
pub(crate) mod creation;
pub(crate) mod crew;
#[cfg(feature = "net")]
pub(crate) mod echo;
pub(crate) mod growth;
pub(crate) mod java_threads;
pub(crate) mod latency;
pub(crate) mod library;
pub(crate) mod load;
pub(crate) mod million;
pub(crate) mod nt_solaris;
pub(crate) mod open_files;
pub(crate) mod outcome;
pub(crate) mod parking;
pub(crate) mod pingpong;
pub(crate) mod progress;
pub(crate) mod selvedge;
#[cfg(feature = "net")]
pub(crate) mod sockets;
pub(crate) mod storms;
