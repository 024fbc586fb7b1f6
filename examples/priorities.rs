//! Priorities: a control loop that must run each 5 ms, beside threads that compute all the time. With high
//! priority it does not wait for the others' time slices.
//!
//! ```text
//! cargo run --release --example priorities
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::thread::{self, Builder, Priority};
use selvedge::{Mxn, Runtime};

const PERIOD: Duration = Duration::from_millis(5);

/// Runs each `PERIOD`, and returns how late it was in the median and at most.
fn control() -> (Duration, Duration) {
    let mut next = Instant::now();
    let mut late: Vec<Duration> = (0..100)
        .map(|_| {
            next += PERIOD;
            thread::sleep_until(next);
            next.elapsed()
        })
        .collect();
    late.sort();
    (late[50], late[99])
}

fn main() -> std::io::Result<()> {
    let rt = Mxn::new()?;
    // Dropped before the runtime, also after an error or a panic. The runtime then waits for its threads.
    let running = Arc::new(());
    // Four for each CPU. They never wait, and call nothing of the runtime's.
    let background = 4 * rt.info().concurrency;
    for _ in 0..background {
        let running = Arc::downgrade(&running);
        let compute = move || {
            let mut n = 0u64;
            while running.strong_count() > 0 {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            }
            std::hint::black_box(n);
        };
        let _ = rt.spawn_with(Builder::new().priority(Priority::Low), compute)?;
    }
    println!("a loop of {PERIOD:?} beside {background} threads that compute:");
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        let thread = rt.spawn_with(Builder::new().priority(priority), control)?;
        let (median, most) = thread.join().unwrap();
        println!("{priority:?}: late by {median:?} in the median, {most:?} at most");
    }
    Ok(())
}
