//! Threads that take turns with a condition variable, and others that want the same mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::{self, JoinHandle};
use selvedge::{Runtime, Wait};

use crate::legs::Leg;

both! {
    a_pair_that_takes_turns_lets_others_lock,
    a_pair_that_takes_turns_lets_others_try,
    turns_are_kept_however_one_waits,
}

/// What is played for.
#[derive(Default)]
struct Table {
    /// The player to move, and how many moves there were.
    turns: Mutex<u64>,
    changed: Condvar,
    over: AtomicBool,
}

/// Starts a pair that takes turns at the table until the game is over. Gives each one's turns.
fn pair<L: Leg>(rt: &L::Rt, table: &Arc<Table>) -> [JoinHandle<u64>; 2] {
    [0, 1].map(|mine| {
        let table = Arc::clone(table);
        rt.spawn(move || {
            let mut turns = table.turns.lock();
            let mut played = 0;
            loop {
                while *turns % 2 != mine && !table.over.load(Ordering::Relaxed) {
                    table.changed.wait(&mut turns);
                }
                if table.over.load(Ordering::Relaxed) {
                    table.changed.notify_all();
                    return played;
                }
                *turns += 1;
                played += 1;
                table.changed.notify_one();
            }
        })
    })
}

/// Runs `others` beside a pair: as a thread of no runtime, alone, and with a thread of the runtime.
fn beside_a_pair<L: Leg>(others: fn(&Table)) {
    let (rt, table) = (L::new(), Arc::new(Table::default()));
    let pair = pair::<L>(&rt, &table);
    // Alone first: a second thread of the runtime comes between the two of the pair.
    std::thread::scope(|scope| scope.spawn(|| others(&table)).join().unwrap());
    let ours = Arc::clone(&table);
    let ours = rt.spawn(move || others(&ours));
    std::thread::scope(|scope| scope.spawn(|| others(&table)).join().unwrap());
    ours.join().unwrap();
    table.over.store(true, Ordering::Relaxed);
    drop(table.turns.lock());
    table.changed.notify_all();
    let played: u64 = pair.into_iter().map(|player| player.join().unwrap()).sum();
    assert_eq!(played, *table.turns.lock());
    assert!(table.turns.try_lock().is_some(), "the last has unlocked it");
}

fn a_pair_that_takes_turns_lets_others_lock<L: Leg>() {
    beside_a_pair::<L>(|table| {
        for _ in 0..50 {
            let before = *table.turns.lock();
            while *table.turns.lock() == before {
                thread::yield_now();
            }
        }
    });
}

fn a_pair_that_takes_turns_lets_others_try<L: Leg>() {
    beside_a_pair::<L>(|table| {
        let mut before = None;
        // On one CPU, a kernel thread finds it free at one of 400 of its turns there.
        for _ in 0..4 {
            // The last owner finds it free for as long as the pair is on its way.
            before = loop {
                let now = table.turns.try_lock().map(|turns| *turns);
                if now.is_some() && now != before {
                    break now;
                }
                thread::yield_now();
            };
        }
    });
}

fn turns_are_kept_however_one_waits<L: Leg>() {
    const ROUNDS: u64 = 2_000;
    const LONG: Duration = Duration::from_secs(1_000);
    let (rt, table) = (L::new(), Arc::new(Table::default()));
    let players: Vec<_> = (0..4)
        .map(|mine| {
            let table = Arc::clone(&table);
            rt.spawn(move || {
                for _ in 0..ROUNDS {
                    let mut turns = table.turns.lock();
                    while *turns % 4 != mine {
                        match mine {
                            0 | 1 => table.changed.wait(&mut turns),
                            2 => assert!(!table.changed.wait_for(&mut turns, LONG).timed_out()),
                            _ => {
                                table.changed.wait_with(&mut turns, Wait::forever().interruptible()).unwrap()
                            }
                        }
                    }
                    *turns += 1;
                    table.changed.notify_all();
                }
            })
        })
        .collect();
    players.into_iter().for_each(|player| player.join().unwrap());
    assert_eq!(*table.turns.lock(), 4 * ROUNDS);
}
