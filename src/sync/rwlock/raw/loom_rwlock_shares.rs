//! Models of the read-write lock: shares that are upgraded, downgraded and handed over, and doors that
//! are opened again.

use super::super::word::{Bits, Mine, Queue, Share, Wish};
use super::loom_rwlock::{Guarded, start};
use super::{Entry, HANDED_OVER, RawRwLock, options, wait_queue};
use crate::park::tests::loom_model::{
    Core, body, both_outcomes, deadline, large_model, model, model_within, on, together,
};
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::Woken;
use crate::park::word_queues;
use crate::shim::strike;

#[test]
fn an_upgrader_and_a_deadline() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new();
        guarded.lock.acquire(Wish::Upgradable);
        guarded.lock.acquire(Wish::Read);
        let clock = loom::thread::spawn(strike);
        let (core, upgrader) = start(&guarded, |guarded| {
            let upgraded = guarded.lock.upgrade_with(Wait::by(deadline())).is_ok();
            if upgraded {
                guarded.count();
                guarded.lock.release(Wish::Write);
            } else {
                guarded.look();
                guarded.lock.release(Wish::Upgradable);
            }
            upgraded
        });
        guarded.look();
        guarded.lock.release(Wish::Read);
        let expired = !upgrader.join().unwrap();
        clock.join().unwrap();
        drop(core);
        guarded.ends_with(u32::from(!expired));
        seen.saw(expired);
    });
}

#[test]
fn an_upgrader_and_an_interrupt() {
    both_outcomes(model, |seen| {
        let guarded = Guarded::new();
        guarded.lock.acquire(Wish::Upgradable);
        guarded.lock.acquire(Wish::Read);
        let (core, upgrader) = start(&guarded, |guarded| {
            let upgraded = guarded.lock.upgrade_with(Wait::forever().interruptible());
            match upgraded {
                Ok(()) => {
                    guarded.count();
                    guarded.lock.release(Wish::Write);
                }
                Err(WaitError::TimedOut) => unreachable!("there is no deadline"),
                Err(_) => {
                    guarded.look();
                    guarded.lock.release(Wish::Upgradable);
                }
            }
            upgraded.is_err()
        });
        core.thread().interrupt();
        guarded.look();
        guarded.lock.release(Wish::Read);
        let interrupted = upgrader.join().unwrap();
        drop(core);
        guarded.ends_with(u32::from(!interrupted));
        seen.saw(interrupted);
    });
}

/// One thread upgrades, while another reads, and leaves by `leave`.
fn upgrade_against(leave: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    // Taken by a thread outside of the model, without a hint: the upgrader does not look twice.
    guarded.lock.acquire(Wish::Upgradable);
    guarded.lock.acquire(Wish::Read);
    let (core, upgrader) = start(&guarded, |guarded| {
        assert_eq!(guarded.lock.upgrade_with(Wait::forever()), Ok(()));
        guarded.count();
        guarded.lock.release(Wish::Write);
    });
    guarded.look();
    leave(&guarded.lock);
    upgrader.join().unwrap();
    guarded.ends_with(1);
    drop(core);
}

#[test]
fn an_upgrade_and_a_reader_that_leaves() {
    model(|| upgrade_against(|lock| lock.release(Wish::Read)));
}

/// A reader leaves without a look at the upgrader.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_the_last_reader_hands_nothing_to_the_upgrader() {
    model(|| {
        upgrade_against(|lock| {
            let mut seen = lock.bits();
            while let Err(now) = lock.word.try_leave(seen, seen.minus(Share::READ)) {
                seen = now;
            }
        });
    });
}

#[test]
fn an_upgrade_among_a_writer_and_a_reader() {
    // Two preemptions make millions of orders here.
    model_within(1, || {
        let guarded = Guarded::new();
        let upgrades = |guarded: &Guarded| {
            guarded.lock.acquire(Wish::Upgradable);
            assert_eq!(guarded.lock.upgrade_with(Wait::forever()), Ok(()));
            guarded.count();
            guarded.lock.downgrade_to(Wish::Upgradable);
            guarded.look();
            guarded.lock.leave_upgrade();
            guarded.look();
            guarded.lock.release(Wish::Read);
        };
        together([body(&guarded, upgrades), body(&guarded, Guarded::reads), body(&guarded, Guarded::writes)]);
        guarded.ends_with(2);
    });
}

/// The thread that started the others goes on, and stays until the other reader is in.
fn stays_with_a_reader(goes_on: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.acquire(Wish::Write);
    let (core, reader) = start(&guarded, Guarded::reads);
    guarded.count();
    goes_on(&guarded.lock);
    guarded.look();
    reader.join().unwrap();
    guarded.lock.release(Wish::Read);
    guarded.ends_with(1);
    drop(core);
}

#[test]
fn a_downgrade_lets_readers_in() {
    model(|| stays_with_a_reader(|lock| lock.downgrade_to(Wish::Read)));
}

/// A downgrade leaves the threads in the queue where they are.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_downgrade_wakes_no_reader() {
    model(|| {
        stays_with_a_reader(|lock| {
            let mut seen = lock.bits();
            let downgraded = |seen: Bits| seen.minus(Share::WRITE).plus(Share::READ).unwrap();
            while let Err(now) = lock.word.try_leave(seen, downgraded(seen)) {
                seen = now;
            }
        });
    });
}

/// A reader stays until another is in. The other came while a writer waited, which gives up.
fn a_door_is_opened(gives_up: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.acquire(Wish::Read);
    let (core, waiter) = start(&guarded, move |guarded| gives_up(&guarded.lock));
    let (other_core, reader) = start(&guarded, Guarded::reads);
    let clock = loom::thread::spawn(strike);
    reader.join().unwrap();
    guarded.lock.release(Wish::Read);
    waiter.join().unwrap();
    clock.join().unwrap();
    guarded.ends_with(0);
    drop((core, other_core));
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    // Two preemptions make hundred thousands of orders here; the twin below needs one.
    model_within(1, || {
        a_door_is_opened(|lock| {
            if lock.acquire_with(Wish::Write, Wait::by(deadline())).is_ok() {
                lock.release(Wish::Write);
            }
        });
    });
}

/// A writer gives up and only clears its bit.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_writer_that_gives_up_says_nothing() {
    model_within(1, || {
        a_door_is_opened(|lock| {
            let options = options(Wait::by(deadline()));
            let announce = || lock.word.announce(Wish::Write, Mine::NOTHING);
            match wait_queue::wait(lock.key(Queue::Writers), &options, announce, || ()) {
                Ok(Woken::Ended { why: WaitError::TimedOut, .. }) => {
                    word_queues::with(lock.word.address(), |_| {
                        lock.word.clear_queue(Queue::Writers);
                    })
                }
                Ok(Woken::Granted(token)) => {
                    if token == HANDED_OVER || lock.try_enter(Wish::Write, Mine::WOKEN) == Entry::In {
                        lock.release(Wish::Write);
                    } else {
                        lock.word.give_up_way(Mine::WOKEN);
                    }
                }
                _ => {}
            }
        });
    });
}

#[test]
fn an_upgrader_that_gives_up_lets_readers_in() {
    large_model(|| {
        a_door_is_opened(|lock| {
            lock.acquire(Wish::Upgradable);
            if lock.upgrade_with(Wait::by(deadline())).is_ok() {
                lock.release(Wish::Write);
            } else {
                lock.release(Wish::Upgradable);
            }
        });
    });
}

/// An upgradable reader that gives up upgrading keeps its share until another reader has entered.
fn a_door_is_opened_while_it_reads_on(gives_up: fn(&RawRwLock) -> bool) {
    let guarded = Guarded::new();
    guarded.lock.acquire(Wish::Read);
    let (core, reader) = start(&guarded, Guarded::reads);
    let (other_core, upgrader) = {
        let core = Core::new();
        let (guarded, thread) = (guarded.clone(), core.thread());
        let upgrades = move || {
            guarded.lock.acquire(Wish::Upgradable);
            if gives_up(&guarded.lock) {
                guarded.lock.release(Wish::Write);
                reader.join().unwrap();
            } else {
                reader.join().unwrap();
                guarded.lock.release(Wish::Upgradable);
            }
        };
        (core, loom::thread::spawn(move || on(thread, upgrades)))
    };
    let clock = loom::thread::spawn(strike);
    clock.join().unwrap();
    guarded.lock.release(Wish::Read);
    upgrader.join().unwrap();
    guarded.ends_with(0);
    drop((core, other_core));
}

#[test]
fn an_upgrader_that_gives_up_and_reads_on_lets_readers_in() {
    // Two preemptions would make hundreds of thousands of orders here. The twin below needs only one.
    model_within(1, || {
        a_door_is_opened_while_it_reads_on(|lock| lock.upgrade_with(Wait::by(deadline())).is_ok())
    });
}

/// An upgrader gives up and opens the door, but wakes no reader.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_an_upgrader_that_gives_up_wakes_no_reader() {
    model_within(1, || {
        a_door_is_opened_while_it_reads_on(|lock| {
            lock.word.close_door();
            let options = options(Wait::by(deadline()));
            let others_read = || lock.bits().readers() > 1;
            let woken = wait_queue::wait(lock.key(Queue::Upgrader), &options, others_read, || ());
            if !matches!(woken, Ok(Woken::Ended { why: WaitError::TimedOut, .. })) {
                return matches!(woken, Ok(Woken::Granted(_))) || lock.try_upgrade();
            }
            let mut seen = lock.bits();
            while let Err(now) = lock.word.try_leave(seen, seen.minus(Share::DOOR)) {
                seen = now;
            }
            false
        });
    });
}

/// A woken reader stays until the other one that waited is in.
fn a_phase_begins(read: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.acquire(Wish::Write);
    let (core, second) = start(&guarded, move |guarded| {
        read(&guarded.lock);
        guarded.look();
        guarded.lock.release(Wish::Read);
    });
    let (other_core, first) = start(&guarded, move |guarded| {
        read(&guarded.lock);
        guarded.look();
        second.join().unwrap();
        guarded.lock.release(Wish::Read);
    });
    guarded.count();
    guarded.lock.release(Wish::Write);
    first.join().unwrap();
    guarded.ends_with(1);
    drop((core, other_core));
}

#[test]
fn a_reader_that_is_woken_lets_the_others_in() {
    large_model(|| a_phase_begins(|lock| lock.acquire(Wish::Read)));
}

/// A woken reader comes in by itself.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_reader_that_is_woken_comes_in_alone() {
    model(|| {
        a_phase_begins(|lock| {
            let mut mine = Mine::NOTHING;
            loop {
                let seen = lock.bits();
                if seen.lets_in(Wish::Read, mine.is_woken()) {
                    if lock.word.try_take(seen, seen.without(mine).plus(Share::READ).unwrap()) {
                        return;
                    }
                    continue;
                }
                let announce = || lock.word.announce(Wish::Read, mine);
                match wait_queue::wait(lock.key(Queue::Readers), &options(Wait::forever()), announce, || ()) {
                    Ok(Woken::Granted(token)) if token == HANDED_OVER => return,
                    Ok(_) => mine = Mine::WOKEN,
                    Err(_) => {}
                }
            }
        });
    });
}

#[test]
fn fair_unlocks_hand_over() {
    large_model(|| {
        let guarded = Guarded::new();
        let writes = |guarded: &Guarded| {
            guarded.lock.acquire(Wish::Write);
            guarded.count();
            guarded.lock.release_fair(Wish::Write);
        };
        let reads = |guarded: &Guarded| {
            guarded.lock.acquire(Wish::Read);
            guarded.look();
            guarded.lock.release_fair(Wish::Read);
        };
        together([body(&guarded, writes), body(&guarded, reads), body(&guarded, writes)]);
        guarded.ends_with(2);
    });
}

/// Two readers leave, and the last one hands the lock to a writer.
fn handed_over_after_both(leave: fn(&RawRwLock)) {
    let guarded = Guarded::new();
    guarded.lock.acquire(Wish::Read);
    guarded.lock.acquire(Wish::Read);
    let (core, writer) = start(&guarded, Guarded::writes);
    let (other_core, reader) = start(&guarded, |guarded| {
        guarded.look();
        guarded.lock.release(Wish::Read);
    });
    leave(&guarded.lock);
    writer.join().unwrap();
    reader.join().unwrap();
    guarded.ends_with(1);
    drop((core, other_core));
}

#[test]
fn a_writer_that_is_handed_the_lock_comes_after_all_readers() {
    model(|| handed_over_after_both(|lock| lock.release_fair(Wish::Read)));
}

/// The last reader does not acquire what the one before it has released. The writer that it hands the
/// lock to may come before that one.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_handed_over_without_acquire() {
    model(|| {
        handed_over_after_both(|lock| {
            let handed = word_queues::with(lock.word.address(), |queues| {
                let seen = lock.bits();
                if seen.readers() > 1 || queues.first(Queue::Writers as usize).is_none() {
                    return None;
                }
                let passed = seen.minus(Share::READ).plus(Share::WRITE)?.with_queue(Queue::Writers, false);
                lock.word.try_leave(seen, passed).ok()?;
                queues.grant_one(Queue::Writers as usize, HANDED_OVER)
            });
            match handed {
                Some(grant) => grant.wake(),
                None => lock.release(Wish::Read),
            }
        });
    });
}

#[test]
fn upgradable_readers_follow_each_other() {
    model(|| {
        let guarded = Guarded::new();
        guarded.lock.acquire(Wish::Read);
        // No thread is ever alone: the lock is not free in between.
        let upgradable = |guarded: &Guarded| {
            guarded.lock.acquire(Wish::Upgradable);
            guarded.look();
            guarded.lock.release(Wish::Upgradable);
        };
        let (core, other) = start(&guarded, upgradable);
        let me = Core::new();
        on(me.thread(), || upgradable(&guarded));
        other.join().unwrap();
        guarded.lock.release(Wish::Read);
        guarded.ends_with(0);
        drop(core);
    });
}
