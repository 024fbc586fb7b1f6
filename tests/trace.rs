//! The trace from outside: switched on and off in a running process.

use std::time::{Duration, Instant};

use selvedge::trace::{EventKind, Level, Recording, Track, set_level};
use selvedge::{Mxn, OneToOne, Runtime, thread};

#[test]
fn smoke() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    set_level(Level::Events);
    let start = Instant::now();
    rt.run(|| {
        let threads: Vec<_> = (0..3)
            .map(|n| {
                thread::Builder::new()
                    .name(format!("worker-{n} with a long name indeed"))
                    .spawn(move || {
                        for _ in 0..5 {
                            thread::yield_now();
                            thread::sleep(Duration::from_millis(1));
                        }
                    })
                    .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
    let one = OneToOne::new().unwrap();
    one.run(|| thread::sleep(Duration::from_millis(2)));
    let recording = Recording::take();
    set_level(Level::Off);
    println!("{:?}", start.elapsed());
    for event in recording.events() {
        println!(
            "{:>10?} {:?} {:?} {:?} {:?}",
            event.at,
            event.track,
            event.thread,
            event.thread.and_then(|t| recording.name(t)),
            event.kind
        );
    }
}
