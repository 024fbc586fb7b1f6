//! Two LWPs on one CPU, as it is where other processes have the others.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex};
use selvedge::{Mxn, Runtime};
use watchdog::Watchdog;

/// How long the pair is looked at, at least: where other processes have the CPU, until it has made so many trips.
const WINDOW: Duration = Duration::from_millis(100);
const TRIPS: u64 = 1_000;
/// For how long it may be disturbed in every window.
const PATIENCE: Duration = Duration::from_secs(15);
/// A watcher naps for a millisecond at most. If each nap ended with a theft, there were some fifty of them in a window.
const FEW: u64 = 5;

/// The LWP that watches keeps the other from running: what it sees there is not stale.
#[test]
fn a_pair_that_wakes_each_other_stays_together() {
    let _watchdog = Watchdog::start("a pair on one CPU");
    pin_to_one_cpu();
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let table = Arc::new((Mutex::new(0), Condvar::new()));
    let (trips, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let players: Vec<_> = (0..2)
        .map(|me| {
            let (table, trips, over) = (Arc::clone(&table), Arc::clone(&trips), Arc::clone(&over));
            rt.spawn(move || {
                let (turn, changed) = &*table;
                let mut turn = turn.lock();
                while !over.load(Ordering::Relaxed) {
                    changed.wait_while(&mut turn, |turn| *turn != me && !over.load(Ordering::Relaxed));
                    *turn = 1 - me;
                    changed.notify_one();
                    trips.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let look = || (rt.stats().lwps.iter().map(|lwp| lwp.steals).sum::<u64>(), trips.load(Ordering::Relaxed));
    // Other processes may disturb some windows.
    let end = Instant::now() + PATIENCE;
    let mut windows = Vec::new();
    let stays = loop {
        let before = look();
        let (steals, made) = loop {
            std::thread::sleep(WINDOW);
            let after = look();
            let (steals, made) = (after.0 - before.0, after.1 - before.1);
            if steals > FEW || made > TRIPS || Instant::now() > end {
                break (steals, made);
            }
        };
        windows.push((steals, made));
        let stays = steals <= FEW && made > TRIPS;
        if stays || Instant::now() > end {
            break stays;
        }
    };
    over.store(true, Ordering::Relaxed);
    table.1.notify_all();
    players.into_iter().for_each(|player| player.join().unwrap());
    assert!(stays, "they were torn apart again and again: thefts and trips of each window: {windows:?}");
}

fn pin_to_one_cpu() {
    // SAFETY: of zeros, it is an empty set.
    let mut one: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: no arguments, no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    // SAFETY: within its bounds.
    unsafe { libc::CPU_SET(usize::try_from(cpu).unwrap(), &mut one) };
    // SAFETY: a set of this size. Threads made from here on inherit it.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) }, 0);
}
