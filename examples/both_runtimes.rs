//! Both runtimes in one process: green threads that serve requests, and kernel threads that compute. They
//! share a lock and a channel.
//!
//! ```text
//! cargo run --release --example both_runtimes
//! ```

use std::sync::Arc;

use selvedge::channel;
use selvedge::sync::Mutex;
use selvedge::{Mxn, OneToOne, Runtime};

/// The number of steps until `n` reaches 1.
fn collatz(mut n: u64) -> u32 {
    let mut steps = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn main() -> std::io::Result<()> {
    let (green, kernel) = (Mxn::new()?, OneToOne::new()?);
    let longest = Arc::new(Mutex::new((0, 0)));
    let (requests, todo) = channel::bounded(16);

    // One kernel thread for each CPU computes.
    let cpus = kernel.info().concurrency;
    let computing: Vec<_> = (0..cpus)
        .map(|_| {
            let (todo, longest) = (todo.clone(), Arc::clone(&longest));
            kernel.spawn(move || {
                for n in todo {
                    let steps = collatz(n);
                    let mut longest = longest.lock();
                    *longest = (*longest).max((steps, n));
                }
            })
        })
        .collect();

    // A green thread for each client. It blocks in `send` while 16 requests wait, and costs little meanwhile.
    let clients: Vec<_> = (0..1000)
        .map(|client| {
            let requests = requests.clone();
            green.spawn(move || {
                for n in 1..=100 {
                    requests.send(100 * client + n).expect("the computing threads receive");
                }
            })
        })
        .collect();
    drop(requests);

    clients.into_iter().for_each(|client| client.join().unwrap());
    computing.into_iter().for_each(|thread| thread.join().unwrap());
    let (steps, n) = *longest.lock();
    println!("{}\n{}", green.info(), kernel.info());
    println!("of the numbers up to 100,000, {n} takes the most steps: {steps}");
    assert_eq!((steps, n), (350, 77_031));
    Ok(())
}
