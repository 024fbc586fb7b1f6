//! The servers among the examples, as processes: raw sockets talk to them, and public programs load them.

#[path = "../../examples/support/open_files.rs"]
mod open_files;
#[path = "../support/watchdog.rs"]
mod watchdog;

mod client;
mod ends;
mod http;
mod idle;
mod load;
mod proxy;
mod slow;
mod target;
mod tls;

use watchdog::Watchdog;

/// Runs a scenario on both runtimes, named as `-r` has them.
fn on_both(what: &str, scenario: impl Fn(&str)) {
    let _watchdog = Watchdog::start(what);
    ["mxn", "onetoone"].into_iter().for_each(scenario);
}

/// Returns `true` if the tests are to run at full length.
fn full() -> bool {
    std::env::var_os("SELVEDGE_STRESS").is_some_and(|value| value == "full")
}
