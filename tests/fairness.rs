//! Nobody is forgotten: threads that hand something to and fro all the time do not keep others from running.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use watchdog::Watchdog;

/// Two threads that wake each other and wait, and do nothing else, until they are told to stop. On one LWP each finds
/// the other in the next-slot.
#[derive(Default)]
struct Pair {
    stop: AtomicBool,
    players: [OnceLock<thread::Thread>; 2],
}

impl Pair {
    fn start() -> (Arc<Self>, [thread::JoinHandle<u64>; 2]) {
        let pair = Arc::new(Self::default());
        let handles = [0, 1].map(|me| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.play(me))
        });
        (pair, handles)
    }

    fn play(&self, me: usize) -> u64 {
        self.players[me].set(thread::current()).expect("set once");
        let mut rounds = 0;
        while !self.stop.load(Ordering::Relaxed) {
            match self.players[1 - me].get() {
                Some(partner) => {
                    partner.unpark();
                    thread::park();
                    rounds += 1;
                }
                None => thread::yield_now(),
            }
        }
        if let Some(partner) = self.players[1 - me].get() {
            partner.unpark();
        }
        rounds
    }

    fn stop(&self, handles: [thread::JoinHandle<u64>; 2]) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in handles {
            assert!(handle.join().unwrap() > 0, "the pair never played");
        }
    }
}

/// A deadline that passes while a pair keeps the only LWP busy.
#[test]
fn a_pair_does_not_starve_a_sleeper() {
    let _watchdog = Watchdog::start("a sleeper beside a pair");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    rt.run(|| {
        let (pair, handles) = Pair::start();
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(2));
        }
        pair.stop(handles);
    });
}

/// A thread that somebody outside makes runnable while a pair keeps the only LWP busy.
#[test]
fn a_pair_does_not_starve_the_injection_queue() {
    let _watchdog = Watchdog::start("a thread from outside beside a pair");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (pair, handles) = rt.run(Pair::start);
    for n in 0..100 {
        assert_eq!(rt.spawn(move || n).join().unwrap(), n);
    }
    rt.run(move || pair.stop(handles));
}

/// A thread in the ring, while a pair keeps the next-slot full and somebody outside the injection queue.
#[test]
fn a_pair_and_a_flood_do_not_starve_the_ring() {
    let _watchdog = Watchdog::start("a thread that yields beside a pair and a flood");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let over = AtomicBool::new(false);
    let (pair, handles) = rt.run(Pair::start);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let wave: Vec<_> = (0..200).map(|_| rt.spawn(|| ())).collect();
                wave.into_iter().for_each(|thread| thread.join().unwrap());
            }
        });
        rt.run(|| {
            for _ in 0..100 {
                thread::yield_now();
            }
        });
        over.store(true, Ordering::Relaxed);
    });
    rt.run(move || pair.stop(handles));
}

/// Threads that compute in turns of a fraction of a millisecond, so that no LWP ever looks stuck: another LWP, asleep since
/// the runtime started, must get its share of them.
#[test]
fn a_busy_ring_does_not_stay_with_one_lwp() {
    let _watchdog = Watchdog::start("a busy ring beside a sleeping LWP");
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    // Both LWPs search for a while, and then sleep.
    std::thread::sleep(Duration::from_millis(20));
    let shared = rt.run(|| {
        let lwps: Arc<Mutex<HashSet<PathBuf>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        // Fewer than it takes for a push to wake an LWP that somebody else watches for.
        let threads = [(); 5].map(|()| {
            let (lwps, over) = (Arc::clone(&lwps), Arc::clone(&over));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let turn = Instant::now();
                    while turn.elapsed() < Duration::from_micros(300) {
                        std::hint::spin_loop();
                    }
                    let lwp = std::fs::read_link("/proc/thread-self").unwrap();
                    let mut lwps = lwps.lock().unwrap();
                    lwps.insert(lwp);
                    if lwps.len() > 1 {
                        over.store(true, Ordering::Relaxed);
                    }
                    drop(lwps);
                    thread::yield_now();
                }
            })
        });
        let patience = Instant::now() + Duration::from_secs(30);
        while !over.load(Ordering::Relaxed) && Instant::now() < patience {
            thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lwps.lock().unwrap().len() > 1
    });
    assert!(shared, "one LWP ran everything for half a minute, and the other slept");
}
