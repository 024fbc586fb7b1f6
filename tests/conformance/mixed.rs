//! One lock between threads of every kind: of two runtimes, bound, and of no runtime at all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use selvedge::sync::{Barrier, Condvar, Mutex};
use selvedge::{OneToOne, Runtime, thread};

use crate::legs::Leg;

both! {
    a_queue_feeds_all,
    a_barrier_holds_all,
    a_mutex_is_held_across_a_sleep,
    timed_waits_end_for_all,
}

/// Runs `work` on threads of every kind at once: green ones where the leg has them, bound, 1:1 and foreign.
pub(crate) fn everywhere<L: Leg, T: Send + 'static>(
    each: usize,
    work: impl Fn() -> T + Clone + Send + 'static,
) -> Vec<T> {
    let (rt, kernel) = (L::new(), OneToOne::new().unwrap());
    let mut ours = Vec::new();
    let mut foreign = Vec::new();
    for _ in 0..each {
        ours.push(rt.spawn(work.clone()));
        ours.push(rt.spawn_with(thread::Builder::new().bound(true), work.clone()).unwrap());
        ours.push(kernel.spawn(work.clone()));
        foreign.push(std::thread::spawn(work.clone()));
    }
    let ours = ours.into_iter().map(|handle| handle.join().unwrap());
    ours.chain(foreign.into_iter().map(|handle| handle.join().unwrap())).collect()
}

/// Kinds of threads that `everywhere` makes `each` of.
pub(crate) const KINDS: usize = 4;

fn a_queue_feeds_all<L: Leg>() {
    const EACH: usize = 200;
    struct Queue {
        items: Mutex<VecDeque<usize>>,
        filled: Condvar,
    }
    let queue = Arc::new(Queue { items: Mutex::new(VecDeque::new()), filled: Condvar::new() });
    let feeder = {
        let queue = Arc::clone(&queue);
        std::thread::spawn(move || {
            for item in 1..=2 * KINDS * EACH {
                queue.items.lock().push_back(item);
                queue.filled.notify_one();
            }
        })
    };
    let sums = everywhere::<L, _>(2, move || {
        let mut sum = 0;
        for _ in 0..EACH {
            let mut items = queue.items.lock();
            while items.is_empty() {
                queue.filled.wait(&mut items);
            }
            sum += items.pop_front().unwrap();
        }
        sum
    });
    feeder.join().unwrap();
    let all = 2 * KINDS * EACH;
    assert_eq!(sums.iter().sum::<usize>(), all * (all + 1) / 2);
}

fn a_barrier_holds_all<L: Leg>() {
    const ROUNDS: usize = 20;
    const THREADS: usize = 2 * KINDS;
    let barrier = Arc::new(Barrier::new(THREADS));
    let arrived = Arc::new(Mutex::new(0_usize));
    let leaders = everywhere::<L, _>(2, move || {
        let mut led = 0;
        for round in 1..=ROUNDS {
            *arrived.lock() += 1;
            led += usize::from(barrier.wait().is_leader());
            assert_eq!(*arrived.lock(), round * THREADS, "a thread went through before all had come");
            barrier.wait();
        }
        led
    });
    assert_eq!(leaders.iter().sum::<usize>(), ROUNDS);
}

fn a_mutex_is_held_across_a_sleep<L: Leg>() {
    let inside = Arc::new(Mutex::new(false));
    everywhere::<L, _>(1, move || {
        for _ in 0..3 {
            let mut guard = inside.lock();
            assert!(!*guard, "two at once");
            *guard = true;
            thread::sleep(Duration::from_millis(1));
            *guard = false;
        }
    });
}

fn timed_waits_end_for_all<L: Leg>() {
    let never = Arc::new((Mutex::new(()), Condvar::new()));
    let held = Arc::new(Mutex::new(()));
    let _held = held.lock();
    let theirs = Arc::clone(&held);
    let timed_out = everywhere::<L, _>(1, move || {
        let (lock, condvar) = &*never;
        let waited = condvar.wait_for(&mut lock.lock(), Duration::from_millis(5)).timed_out();
        waited && theirs.try_lock_for(Duration::from_millis(5)).is_none()
    });
    assert_eq!(timed_out, [true; KINDS]);
}
