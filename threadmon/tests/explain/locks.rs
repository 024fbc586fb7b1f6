//! What the rules say of locks in recordings that are made up: convoys, slow owners, deadlocks, storms.

use selvedge::thread::WaitReason::{self, Barrier, Condvar, Mutex, Park, Readable, Sleep};
use threadmon::explain::{Kind, Subject};

use crate::made_up::{NORMAL, Script};
use crate::rules::{LOCK, assert_not, assert_says, kinds, spawn_workers, the};

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
fn slow_owners(reason: WaitReason) -> Script {
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
         with a). If they still have these locks, this is a deadlock. Take locks in the same order everywhere."
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

/// The other lock may have been passed on before its waiter came.
#[test]
fn locks_are_not_given_up_since_the_last_waiter_came() {
    let mut script = Script::new(2, 2);
    script.cast(&["a", "b", "c"]);
    script.dispatch(0, 0, 1);
    script.block(10, 0, 1, Mutex, LOCK);
    script.dispatch(20, 0, 3);
    script.dispatch(100_000, 1, 2);
    script.block(100_000, 1, 2, Mutex, OTHER);
    script.yields(300_000, 0, 3);
    let (finding, _) = the(&script, Kind::Deadlock);
    assert!(
        finding.to_string().contains("No thread has given one of these locks up for 200 ms"),
        "{finding}"
    );
}

/// All threads of the recording wait, one of them at a lock. Its owner waits for `reason`.
fn all_wait(reason: WaitReason, ms: u64) -> Script {
    let mut script = Script::new(1, 1);
    script.cast(&["owner", "waiter"]);
    script.dispatch(0, 0, 1);
    script.block(10, 0, 1, reason, 0);
    script.dispatch(20, 0, 2);
    script.block(30, 0, 2, Mutex, LOCK);
    script.idle(30, 0);
    // The recording ends here.
    script.idle(ms * 1_000, 0);
    script
}

/// It may be woken by another process, or soon by a time limit.
#[test]
fn threads_that_all_wait_are_a_deadlock_only_if_no_other_wakes_them() {
    let (finding, _) = the(&all_wait(Park, 200), Kind::Deadlock);
    assert_eq!(
        finding.to_string(),
        "waiter waits for the mutex at 0x1000. All threads of the recording wait. If no other thread and no \
         time limit ends one of these waits, this is a deadlock. 1 other thread waits for something else."
    );
    assert_not(&all_wait(Park, 99), Kind::Deadlock);
    assert_not(&all_wait(Readable, 200), Kind::Deadlock);
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

/// `storms` times, `threads` threads are woken at `LOCK` by one more, and wait there again after `ran` us.
fn storm(reason: WaitReason, ran: u64, threads: u64, storms: u64) -> Script {
    let mut script = Script::new(1, 1);
    let herald = threads + 1;
    spawn_workers(&mut script, herald);
    for thread in 1..=herald {
        script.dispatch(0, 0, thread);
        if thread < herald {
            script.block(0, 0, thread, reason, LOCK);
        }
    }
    let mut at = 0;
    for _ in 0..storms {
        at += 1_000;
        (1..=threads).for_each(|thread| script.ready(at, 0, thread, herald));
        script.block(at, 0, herald, Sleep, 0);
        for thread in 1..=threads {
            script.dispatch(at, 0, thread);
            at += ran;
            script.block(at, 0, thread, reason, LOCK);
        }
        script.ready(at, 0, herald, 0);
        script.dispatch(at, 0, herald);
    }
    // Too short a recording would say nothing anyhow.
    script.yields(at.max(10_000), 0, herald);
    script
}

#[test]
fn a_storm_is_for_nothing() {
    assert_says(
        &storm(Condvar, 10, 10, 20),
        Kind::WakeUpStorm,
        "20 times, 10 threads on average were woken at once at a condition variable at 0x1000 by worker-11, \
         and 100 % of them waited there again at once: 9 % of the time. Wake one thread for each thing that \
         there is to do.",
    );
    // They are few, or it was chance.
    assert_not(&storm(Condvar, 10, 7, 20), Kind::WakeUpStorm);
    assert_not(&storm(Condvar, 10, 10, 2), Kind::WakeUpStorm);
    // They had something to do.
    assert_not(&storm(Condvar, 60, 10, 20), Kind::WakeUpStorm);
    // All may go on.
    assert_not(&storm(Barrier, 10, 10, 20), Kind::WakeUpStorm);
}

#[test]
fn waits_that_end_by_time_are_no_storm() {
    let mut script = Script::new(1, 1);
    spawn_workers(&mut script, 10);
    for turn in 0..20 {
        (1..=10).for_each(|thread| script.ready(turn * 1_000, 0, thread, 0));
        for thread in 1..=10 {
            script.dispatch(turn * 1_000 + thread * 10, 0, thread);
            script.block(turn * 1_000 + thread * 10 + 10, 0, thread, Condvar, LOCK);
        }
    }
    assert_eq!(kinds(&script), []);
}
