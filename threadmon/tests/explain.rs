//! What `explain` says. Each finding is provoked, by a real program and by a recording that is made up. Of
//! healthy programs it says nothing.

#[path = "../../tests/support/child.rs"]
mod child;
#[path = "explain/healthy.rs"]
mod healthy;
#[path = "explain/locks.rs"]
mod locks;
#[path = "explain/made_up.rs"]
mod made_up;
#[path = "explain/real.rs"]
mod real;
#[path = "explain/rules.rs"]
mod rules;
#[path = "../../tests/support/watchdog.rs"]
mod watchdog;

/// What [`child::run`] starts.
#[test]
#[ignore = "not a test: the program of a child process"]
fn child() {
    child::play(&[real::ROLES.as_slice(), healthy::ROLES.as_slice()].concat());
}
