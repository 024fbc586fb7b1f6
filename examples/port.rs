//! A port from std, shown as a diff. These are all the lines that change:
//!
//! ```diff
//! -use std::sync::mpsc::channel;
//! -use std::sync::{Arc, Condvar, Mutex};
//! -use std::thread;
//! +use selvedge::sync::mpsc::channel;
//! +use selvedge::sync::poison::{Arc, Condvar, Mutex};
//! +use selvedge::thread;
//! ```
//!
//! `thread::spawn` then starts threads of the runtime that `SELVEDGE_RUNTIME` names, or green threads.
//!
//! ```text
//! cargo run --release --example port
//! ```

use selvedge::sync::mpsc::channel;
use selvedge::sync::poison::{Arc, Condvar, Mutex};
use selvedge::thread;

use std::cell::Cell;

thread_local! {
    // Each green thread has its own, as each kernel thread has.
    static VISITS: Cell<u32> = const { Cell::new(0) };
}

fn main() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (send, results) = channel();
    let threads: Vec<_> = (0..1000)
        .map(|number| {
            let (gate, send) = (Arc::clone(&gate), send.clone());
            thread::spawn(move || {
                let (open, opened) = &*gate;
                let guard = opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap();
                drop(guard);
                for _ in 0..10 {
                    VISITS.set(VISITS.get() + 1);
                    thread::yield_now();
                }
                send.send((number, VISITS.get())).unwrap();
            })
        })
        .collect();
    drop(send);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let visits: u32 = results.iter().map(|(_, visits)| visits).sum();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("1,000 threads waited for a gate, and counted {visits} visits");
    assert_eq!(visits, 10_000);
}
