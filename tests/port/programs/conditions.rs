// Condition variables and barriers.

use std::collections::VecDeque;
use std::sync::{Arc, Barrier, BarrierWaitResult, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(100);

/// A queue with room for four.
#[derive(Default)]
struct Queue {
    items: Mutex<VecDeque<u32>>,
    changed: Condvar,
}

impl Queue {
    fn push(&self, item: u32) {
        let mut items =
            self.changed.wait_while(self.items.lock().unwrap(), |items| items.len() >= 4).unwrap();
        items.push_back(item);
        self.changed.notify_all();
    }

    fn pop(&self) -> u32 {
        let mut items = self.items.lock().unwrap();
        loop {
            if let Some(item) = items.pop_front() {
                self.changed.notify_all();
                return item;
            }
            items = self.changed.wait(items).unwrap();
        }
    }
}

fn queues() {
    let queue = Arc::new(Queue::default());
    let pushers: Vec<_> = (0..4)
        .map(|n| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || (0..100).for_each(|i| queue.push(100 * n + i)))
        })
        .collect();
    let poppers: Vec<_> = (0..4)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || (0..100).map(|_| queue.pop()).sum::<u32>())
        })
        .collect();
    pushers.into_iter().for_each(|thread| thread.join().unwrap());
    println!("{}", poppers.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>());
}

#[allow(deprecated, reason = "std has it")]
fn timeouts() {
    let (mutex, changed) = (Mutex::new(1), Condvar::new());
    let start = Instant::now();
    let guard = mutex.lock().unwrap();
    let (guard, result) = changed.wait_timeout_while(guard, SHORT, |value| *value == 1).unwrap();
    println!("{result:?} {} {}", result.timed_out(), start.elapsed() >= SHORT);
    let (guard, result) = changed.wait_timeout_while(guard, LONG, |value| *value == 2).unwrap();
    println!("{guard:?} {result:?}");
    let (guard, _may_be_either) = changed.wait_timeout(guard, SHORT).unwrap();
    let (guard, _may_be_either) = changed.wait_timeout_ms(guard, 5).unwrap();
    drop(guard);
    println!("{mutex:?} {changed:?}");

    thread::scope(|s| {
        let guard = mutex.lock().unwrap();
        s.spawn(|| {
            *mutex.lock().unwrap() = 2;
            changed.notify_one();
        });
        let (guard, result) = changed.wait_timeout_while(guard, LONG, |value| *value == 1).unwrap();
        println!("{guard} {result:?}");
    });

    // A wait returns the poison of its mutex.
    let poisoned = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = Arc::clone(&poisoned);
    let waiting = poisoned.0.lock().unwrap();
    let thread = thread::spawn(move || {
        let mut value = theirs.0.lock().unwrap();
        *value = true;
        theirs.1.notify_all();
        panic!("on purpose");
    });
    let waited = poisoned.1.wait_while(waiting, |value| !*value);
    println!(
        "{:?} {}",
        waited.map(|guard| *guard).map_err(|error| *error.into_inner()),
        thread.join().is_err()
    );
}

fn barriers() {
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                (0..50).map(|_| barrier.wait()).filter(BarrierWaitResult::is_leader).count()
            })
        })
        .collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>());
    println!("{barrier:?} {:?} {:?}", Barrier::new(0).wait(), Barrier::new(1).wait().is_leader());
}

fn main() {
    queues();
    timeouts();
    barriers();
}
