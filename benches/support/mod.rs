//! The contenders, and the harness that lets them take turns.
#![allow(dead_code, reason = "each bench compiles this for itself and uses the part it needs")]

pub(crate) mod affinity;
pub(crate) mod contender;
pub(crate) mod harness;
pub(crate) mod ours;
pub(crate) mod peers;
pub(crate) mod pthread;
pub(crate) mod pthread_shared;
pub(crate) mod split;
pub(crate) mod tasks;
pub(crate) mod workloads;

#[path = "../../examples/support/barriers/workers.rs"]
pub(crate) mod barriers;
#[path = "../../examples/support/contention/workers.rs"]
pub(crate) mod contention;
#[path = "../../examples/support/creation/workers.rs"]
pub(crate) mod creation;
#[path = "../../examples/support/crew.rs"]
pub(crate) mod crew;
#[path = "../../examples/support/echo/workers.rs"]
pub(crate) mod echo;
#[path = "../../examples/support/pingpong/game.rs"]
pub(crate) mod game;
#[path = "../../examples/support/java_threads/workers.rs"]
pub(crate) mod java_threads;
#[path = "../../examples/support/latency.rs"]
pub(crate) mod latency;
#[path = "../../examples/support/library.rs"]
pub(crate) mod library;
#[path = "../../examples/support/load.rs"]
pub(crate) mod load;
#[path = "../../examples/support/nt_solaris/workers/mod.rs"]
pub(crate) mod nt_solaris;
#[path = "../../examples/support/open_files.rs"]
pub(crate) mod open_files;
#[path = "../../examples/support/parking.rs"]
pub(crate) mod parking;
#[path = "../../examples/support/selvedge.rs"]
pub(crate) mod selvedge;
#[path = "../../examples/support/sockets.rs"]
pub(crate) mod sockets;
