//! A program to look at: hogs keep all CPUs, others queue at a lock, and some sleep or park.
//!
//! ```text
//! cargo run -p selvedge-threadmon -- -- target/debug/examples/hogs
//! ```
//!
//! `hogs SECONDS` ends by itself, with the status 7; without a number it ends after 60 s. `hogs SECONDS park
//! N` has N parked threads instead. `hogs SECONDS deadlock` has two that wait for each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::sync::{Mutex, stats};
use selvedge::{Mxn, Runtime, thread};

fn start(rt: &Mxn, name: String, main: impl FnOnce() + Send + 'static) {
    rt.spawn_with(thread::Builder::new().name(name), main).expect("a thread");
}

fn compute(for_time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < for_time {
        std::hint::spin_loop();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = words.first().map_or(60.0, |word| word.parse().expect("a number of seconds"));
    let kind = words.get(1).map(String::as_str);
    let number = words.get(2).map_or(100, |word| word.parse().expect("a number of threads"));
    let time = Duration::from_secs_f64(seconds);
    // A slot for each CPU.
    let mut builder = Mxn::builder();
    if kind != Some("slices") {
        builder = builder.time_slice(None);
    }
    if kind == Some("deadlock") {
        // So that owners are known.
        builder = builder.on_deadlock(thread::OnDeadlock::Report);
    }
    let rt = builder.build().expect("a runtime");
    match kind {
        Some("park") => {
            for id in 0..number {
                start(&rt, format!("parked-{id}"), || {
                    loop {
                        thread::park();
                    }
                });
            }
        }
        Some("deadlock") => deadlock(&rt),
        _ => busy(&rt, time),
    }
    println!("hogs run for {seconds} s");
    // The main thread is none of Selvedge's.
    std::thread::sleep(time);
    std::process::exit(7);
}

/// Threads of each kind.
fn busy(rt: &Mxn, time: Duration) {
    let table = Arc::new(Mutex::new(0_u64));
    stats::name(&*table, "table");
    for id in 0..8 {
        let table = Arc::clone(&table);
        start(rt, format!("writer-{id}"), move || {
            loop {
                let mut table = table.lock();
                *table += 1;
                thread::sleep(Duration::from_millis(2));
            }
        });
    }
    for id in 0..3 {
        start(rt, format!("ticker-{id}"), || {
            loop {
                thread::sleep(Duration::from_millis(5));
            }
        });
    }
    start(rt, "waiter".into(), || {
        loop {
            thread::park();
        }
    });
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    for id in 0..cpus {
        start(rt, format!("hog-{id}"), move || {
            compute(Duration::from_millis(10));
            let begin = Instant::now();
            while begin.elapsed() < time {
                compute(Duration::from_millis(700));
                thread::yield_now();
            }
        });
    }
}

fn deadlock(rt: &Mxn) {
    let locks = [Arc::new(Mutex::new(())), Arc::new(Mutex::new(()))];
    let both = Arc::new(selvedge::sync::Barrier::new(2));
    for id in 0..2 {
        let (first, second) = (Arc::clone(&locks[id]), Arc::clone(&locks[1 - id]));
        let both = Arc::clone(&both);
        start(rt, format!("philosopher-{id}"), move || {
            let _first = first.lock();
            both.wait();
            let _second = second.lock();
        });
    }
}
