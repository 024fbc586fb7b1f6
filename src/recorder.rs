//! What is recorded of threads while they run: how long each was in each state, and the last events of each
//! kernel thread. Nothing here knows a thread; `park/traced.rs` and `mxn/sched/traced.rs` call it.

pub(crate) mod account;
pub(crate) mod clock;
pub(crate) mod crash;
pub(crate) mod event;
pub(crate) mod follow;
pub(crate) mod format;
pub(crate) mod known;
pub(crate) mod late;
mod notes;
pub(crate) mod ring;
pub(crate) mod rings;
pub(crate) mod session;
pub(crate) mod waits;
