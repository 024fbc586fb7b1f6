//! What the rules say of locks in recordings that are made up: convoys, slow owners, deadlocks.

use selvedge::thread::WaitReason::{Condvar, Mutex, Park, Sleep};
use threadmon::explain::{Kind, Subject};

use crate::made_up::{NORMAL, Script};
use crate::rules::{LOCK, assert_not, kinds, spawn_workers, the};

/// Another lock.
const OTHER: u64 = 0x2000;

/// The first of so many threads owns a lock, and runs. The others wait for it.
fn queue(threads: u64) -> Script {
    let mut script = Script::new(1, 1);
    spawn_workers(&mut script, threads);
    for thread in 2..=threads {
        script.dispatch(0, 0, thread);
        script.block(0, 0, thread, Mutex, LOCK);
    }
    script.dispatch(0, 0, 1);
    script
}

/// `c` owns both locks, `a` waits for the first and `b` for the other one. At 1 ms, `c` passes both on.
fn passed_on() -> Script {
    let mut script = Script::new(3, 3);
    script.cast(&["a", "b", "c"]);
    script.dispatch(0, 0, 3);
    for (thread, lock) in [(1, LOCK), (2, OTHER)] {
        script.dispatch(10, thread, thread);
        script.block(20, thread, thread, Mutex, lock);
        script.ready(1_000, 0, thread, 3);
        script.dispatch(1_100, thread, thread);
    }
    script
}

/// The owner of a lock computes for 1 ms; then its next waiter has it, and so on. The four others wait.
fn convoy(threads: u64, turns: u64) -> Script {
    let mut script = queue(threads);
    for turn in 0..turns {
        let (me, next) = (1 + turn % threads, 1 + (turn + 1) % threads);
        let at = (turn + 1) * 1_000;
        script.ready(at, 0, next, me);
        script.block(at, 0, me, Mutex, LOCK);
        script.dispatch(at, 0, next);
    }
    script
}

#[test]
fn a_convoy_is_told_with_its_length() {
    let (finding, _) = the(&convoy(5, 50), Kind::Convoy);
    assert_eq!(finding.subjects[0], Subject::Object(LOCK as usize));
    assert_eq!(finding.threads().count(), 5);
    let text = finding.to_string();
    assert!(text.starts_with("The mutex at 0x1000 has a convoy: at least two threads waited"), "{text}");
    assert!(text.contains("4.0 on average and 4 at most, and it was passed on 50 times"), "{text}");
}

#[test]
fn two_threads_and_a_lock_are_no_convoy() {
    assert_not(&convoy(2, 50), Kind::Convoy);
}

#[test]
fn a_lock_that_is_seldom_passed_on_has_no_convoy() {
    assert_not(&convoy(5, 9), Kind::Convoy);
}

/// The owner of a lock waits for `reason` for 9 of 10 ms, and then passes the lock on. Three others wait for
/// it.
fn slow_owners(reason: selvedge::thread::WaitReason) -> Script {
    let mut script = queue(4);
    for turn in 0..20 {
        let (me, next, at) = (1 + turn % 4, 1 + (turn + 1) % 4, turn * 10_000);
        script.block(at + 500, 0, me, reason, 0);
        script.ready(at + 9_500, 0, me, 0);
        script.dispatch(at + 9_500, 0, me);
        script.ready(at + 10_000, 0, next, me);
        script.block(at + 10_000, 0, me, Mutex, LOCK);
        script.dispatch(at + 10_000, 0, next);
    }
    script
}

#[test]
fn a_lock_held_by_sleepers_is_blamed_on_them_and_is_no_convoy() {
    let script = slow_owners(Sleep);
    let (finding, _) = the(&script, Kind::HeldWhileBlocked);
    let text = finding.to_string();
    assert!(text.contains("held the mutex at 0x1000 while asleep"), "{text}");
    assert!(text.contains("for 90 % of the time, 9.0 ms at longest, 4 waiters in all"), "{text}");
    assert_eq!(finding.threads().count(), 4);
    assert_not(&script, Kind::Convoy);
}

/// A wait for a condition variable gives the lock up, as far as can be known.
#[test]
fn a_wait_for_a_condition_variable_is_not_blamed() {
    assert_not(&slow_owners(Condvar), Kind::HeldWhileBlocked);
}

/// The second waiter's lock was held by the first since that was woken, and not before.
#[test]
fn a_sleep_before_the_lock_is_acquired_is_not_blamed() {
    let mut script = Script::new(2, 2);
    script.cast(&["owner", "late", "waiter"]);
    script.dispatch(0, 0, 1);
    script.dispatch(0, 1, 3);
    script.block(10, 1, 3, Mutex, LOCK);
    script.dispatch(20, 1, 2);
    script.block(30, 1, 2, Sleep, 0);
    // It computes with the lock.
    script.ready(50_000, 1, 2, 0);
    script.dispatch(50_000, 1, 2);
    script.block(50_010, 1, 2, Mutex, LOCK);
    script.ready(60_000, 0, 2, 1);
    script.dispatch(60_000, 1, 2);
    script.ready(61_000, 1, 3, 2);
    script.exit(62_000, 1, 2);
    script.dispatch(62_000, 1, 3);
    script.exit(63_000, 1, 3);
    script.exit(64_000, 0, 1);
    assert_not(&script, Kind::HeldWhileBlocked);
}

/// `a` gets the first lock from `c`, and `b` the other one. Then each waits for the other's, and `c` runs on.
fn deadlock(until: u64) -> Script {
    let mut script = passed_on();
    script.block(2_000, 1, 1, Mutex, OTHER);
    script.block(3_000, 2, 2, Mutex, LOCK);
    script.yields(until, 0, 3);
    script
}

#[test]
fn a_deadlock_is_a_cycle_of_the_owners_last_seen() {
    let (finding, _) = the(&deadlock(200_000), Kind::Deadlock);
    assert_eq!(
        finding.to_string(),
        "a waits for the mutex at 0x2000 (last seen with b) and b waits for the mutex at 0x1000 (last seen \
         with a). Take locks in the same order everywhere."
    );
    assert_eq!((finding.severity, finding.threads().count()), (1.0, 2));
    // They have not waited for long yet.
    assert_not(&deadlock(90_000), Kind::Deadlock);
}

/// A thread that was woken at a lock, and waits for it again, has not got it. Nor has one that a timer woke.
#[test]
fn a_thread_that_has_not_got_a_lock_does_not_own_it() {
    let mut script = passed_on();
    for (thread, lock) in [(1, LOCK), (2, OTHER)] {
        script.block(1_200, thread, thread, Mutex, lock);
        script.ready(2_000, 0, thread, 0);
        script.dispatch(2_100, thread, thread);
    }
    script.block(3_000, 1, 1, Mutex, OTHER);
    script.block(3_000, 2, 2, Mutex, LOCK);
    script.yields(200_000, 0, 3);
    let (finding, _) = the(&script, Kind::Deadlock);
    let text = finding.to_string();
    assert!(text.contains("may be a deadlock") && !text.contains("last seen"), "{text}");
}

#[test]
fn without_owners_a_deadlock_is_a_guess() {
    let guess = |grants: bool| {
        let mut script = Script::new(2, 2);
        script.cast(&["a", "b", "c"]);
        for (thread, lock) in [(1, LOCK), (2, OTHER)] {
            script.dispatch(0, 0, thread);
            script.block(10, 0, thread, Mutex, lock);
        }
        script.dispatch(20, 0, 3);
        if grants {
            // The lock is passed on to another waiter, so it has an owner that goes on.
            script.spawn(30, 1, 4, "d", NORMAL);
            script.dispatch(30, 1, 4);
            script.block(40, 1, 4, Mutex, LOCK);
            script.ready(150_000, 0, 4, 3);
            script.dispatch(150_000, 1, 4);
        }
        script.yields(300_000, 0, 3);
        script
    };
    let (finding, _) = the(&guess(false), Kind::Deadlock);
    assert!(finding.to_string().contains("this may be a deadlock"), "{finding}");
    assert_not(&guess(true), Kind::Deadlock);
}

/// A thread may have gone on where the first events were overwritten.
#[test]
fn what_was_last_seen_before_events_were_lost_is_not_believed() {
    let lost = |since: Option<u64>| {
        let mut script = Script::new(2, 2).lost_until(since);
        script.cast(&["a", "b", "busy", "new"]);
        for (thread, lock) in [(1, LOCK), (2, OTHER)] {
            script.dispatch(0, 0, thread);
            script.block(10, 0, thread, Mutex, lock);
        }
        // `new` is runnable, as far as is known.
        for turn in 0..500 {
            script.dispatch(1_000 + turn * 600, 1, 3);
            script.yields(1_300 + turn * 600, 1, 3);
        }
        script
    };
    let all = kinds(&lost(None));
    assert!(all.contains(&Kind::Deadlock) && all.contains(&Kind::NeverRuns), "{all:?}");
    assert_eq!(kinds(&lost(Some(1_000))), []);
}

#[test]
fn what_a_program_has_found_itself_is_certain() {
    let mut script = Script::of_crash("threads wait forever");
    script.cast(&["a", "b"]);
    for thread in [1, 2] {
        script.dispatch(thread, 0, thread);
        script.block(thread + 1, 0, thread, Park, 0);
    }
    let (finding, _) = the(&script, Kind::Deadlock);
    assert_eq!(
        finding.to_string(),
        "a waits for its permit (park) and b waits for its permit (park). The program has found that threads \
         wait forever."
    );
    let mut script = Script::of_crash("a thread panicked");
    script.cast(&["a"]);
    script.dispatch(1, 0, 1);
    script.block(2, 0, 1, Park, 0);
    assert_eq!(kinds(&script), []);
}
