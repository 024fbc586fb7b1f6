//! The contenders, and the harness that lets them take turns.
#![allow(dead_code, reason = "each bench compiles this for itself and uses the part it needs")]

pub(crate) mod affinity;
pub(crate) mod apart;
pub(crate) mod contender;
pub(crate) mod harness;
pub(crate) mod ours;
pub(crate) mod peers;
pub(crate) mod pthread;
pub(crate) mod split;
pub(crate) mod tasks;

#[path = "../../examples/support/barriers/workers.rs"]
pub(crate) mod barriers;
#[path = "../../examples/support/contention/workers.rs"]
pub(crate) mod contention;
#[path = "../../examples/support/crew.rs"]
pub(crate) mod crew;
#[path = "../../examples/support/fairness/workers.rs"]
pub(crate) mod fairness;
#[path = "../../examples/support/pingpong/game.rs"]
pub(crate) mod game;
#[path = "../../examples/support/library.rs"]
pub(crate) mod library;
#[path = "../../examples/support/load.rs"]
pub(crate) mod load;
#[path = "../../examples/support/selvedge.rs"]
pub(crate) mod selvedge;
