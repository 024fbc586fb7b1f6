//! Models: a look beside a keeper and a waker.

use loom::sync::Arc;

use super::*;
use crate::shim;

const SESSION: Session = Session { number: 1, began: 0 };

/// A thread runs from 10 to 20, and is woken at 30. A look comes at any time. `check` gets the sum that the
/// look must find equal to the life.
fn model(stop: fn(&Account), look: fn(&Account) -> Option<Statement>) {
    // One thread stores, and the other loads: two loads need no order.
    shim::let_loads_conflict(false);
    loom::model(move || {
        let account = Arc::new(Account::new());
        account.spawned(SESSION, 0, 0);
        account.runs(SESSION, 10, 0, None);
        let looker = loom::thread::spawn({
            let account = Arc::clone(&account);
            move || {
                if let Some(seen) = look(&account) {
                    assert_eq!(seen.times.iter().sum::<u64>(), seen.life, "half of a change: {seen:?}");
                    assert!(seen.times[State::Queued as usize] <= 80, "more than there was: {seen:?}");
                }
            }
        });
        stop(&account);
        account.readied(30, false);
        looker.join().unwrap();
        let Look::Says(last) = account.look(SESSION, 100) else { panic!("no keeper is there") };
        assert_eq!(last.times, [10, 0, 80, 10, 0, 0]);
    });
}

fn stop(account: &Account) {
    account.stops(SESSION, 20, State::Blocked, false);
}

fn look_once(account: &Account) -> Option<Statement> {
    account.look_once(SESSION, 100).flatten()
}

#[test]
fn a_look_finds_whole_changes() {
    model(stop, look_once);
}

#[test]
#[should_panic(expected = "half of a change")]
fn without_the_version_a_look_finds_half_of_a_change() {
    model(stop, |account| account.read(SESSION, 100));
}

/// The keeper without its fence.
fn stop_without_a_fence(account: &Account) {
    let version = account.version.load(Ordering::Relaxed);
    account.version.store(version.wrapping_add(1), Ordering::Relaxed);
    account.charge(account.state(), 20);
    account.set_state(State::Blocked, 20);
    account.version.store(version.wrapping_add(2), Ordering::Release);
}

#[test]
#[should_panic(expected = "half of a change")]
fn without_the_fence_a_look_finds_half_of_a_change() {
    model(stop_without_a_fence, look_once);
}
