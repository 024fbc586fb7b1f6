//! What the contenders are asked to do, where more than one program asks.

pub(crate) mod barriers;
pub(crate) mod channel;
pub(crate) mod condvar;
pub(crate) mod contention;
pub(crate) mod crowd;
pub(crate) mod echo;
pub(crate) mod java_threads;
pub(crate) mod lock;
pub(crate) mod nt_solaris;
pub(crate) mod open;
pub(crate) mod park;
pub(crate) mod pingpong;
pub(crate) mod resting;
pub(crate) mod server;
pub(crate) mod spawn;
pub(crate) mod switch;
