// Permits, sleeps and yields.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(100);
const SHORT: Duration = Duration::from_millis(5);

fn main() {
    // An available permit is consumed at once. There is at most one.
    thread::current().unpark();
    thread::current().unpark();
    thread::park();
    let start = Instant::now();
    thread::park_timeout(SHORT);
    println!("one permit: {}", start.elapsed() >= SHORT);

    thread::current().unpark();
    let start = Instant::now();
    thread::park_timeout(LONG);
    thread::current().unpark();
    #[allow(deprecated, reason = "std has it")]
    thread::park_timeout_ms(100_000);
    println!("at once: {}", start.elapsed() < LONG);

    // Writes before `unpark` are visible after `park`.
    let flag = Arc::new(AtomicBool::new(false));
    let waiter = thread::spawn({
        let flag = flag.clone();
        move || {
            while !flag.load(Ordering::Relaxed) {
                thread::park();
            }
        }
    });
    flag.store(true, Ordering::Relaxed);
    waiter.thread().unpark();
    waiter.join().unwrap();

    // A handle of a thread that has ended can be unparked.
    let ended = thread::spawn(|| thread::current()).join().unwrap();
    ended.unpark();
    println!("{:?}", ended.name());

    let start = Instant::now();
    thread::sleep(SHORT);
    #[allow(deprecated, reason = "std has it")]
    thread::sleep_ms(5);
    thread::sleep(Duration::ZERO);
    println!("slept: {}", start.elapsed() >= 2 * SHORT);

    // Neither a permit nor a yield shortens a sleep, and a sleep does not consume the permit.
    thread::current().unpark();
    let start = Instant::now();
    thread::sleep(SHORT);
    thread::park();
    println!("slept: {}", start.elapsed() >= SHORT);

    let turns = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let turns = turns.clone();
            thread::spawn(move || {
                for _ in 0..100 {
                    turns.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{turns:?}");
}
