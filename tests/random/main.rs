//! Random scripts of calls, on threads of all kinds, against a sequential reference for each primitive.
//! `engine.rs` describes the algorithm. `tests/support/random.rs` says how to repeat a failure, and how to
//! play more scripts.

#[path = "../support/random.rs"]
#[allow(dead_code, reason = "scripts come from strategies")]
mod random;
#[path = "../support/watchdog.rs"]
mod watchdog;

mod crew;
mod engine;

mod channels;
mod locks;
mod meetings;
mod once;
mod own;
mod rwlock;
mod waits;

/// The number of scripts for each primitive in an ordinary run.
const CASES: u32 = 30;
