//! Channels and `select!`: workers take jobs from one channel and send results to another. A third thread
//! reports progress, and stops when the workers have ended.
//!
//! ```text
//! cargo run --release --example channels
//! ```

use std::time::Duration;

use selvedge::channel::{self, Receiver, select};
use selvedge::thread;

fn is_prime(n: u64) -> bool {
    n > 1 && (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor| !n.is_multiple_of(divisor))
}

/// Receives primes until the last worker has dropped its sender.
fn collect(primes: Receiver<u64>) -> Vec<u64> {
    let ticks = channel::tick(Duration::from_millis(20));
    let mut found = Vec::new();
    loop {
        // Waits for the first of these to be ready.
        select! {
            recv(primes) -> prime => match prime {
                Ok(prime) => found.push(prime),
                Err(_) => return found, // All senders are gone, and the channel is empty.
            },
            recv(ticks) -> _ => println!("{} so far", found.len()),
        }
    }
}

fn main() {
    selvedge::run(|| {
        // If 64 jobs wait, `send` blocks until a worker takes one.
        let (jobs, todo) = channel::bounded(64);
        let (results, primes) = channel::unbounded();
        for _ in 0..100 {
            let (todo, results) = (todo.clone(), results.clone());
            thread::spawn(move || {
                for n in todo {
                    if is_prime(n) {
                        results.send(n).expect("the collector receives until all workers have ended");
                    }
                }
            });
        }
        drop((todo, results)); // The workers have clones.
        let collector = thread::spawn(|| collect(primes));
        (1..=100_000).for_each(|n| jobs.send(n).expect("the workers receive until this sender is gone"));
        drop(jobs);
        let found = collector.join().unwrap();
        println!("{} primes below 100,000", found.len());
        assert_eq!(found.len(), 9592);
    });
}
