//! A wait with a deadline in the past returns at once, even while other threads have all slots and yield all
//! the time. If the green thread left its LWP, it would wait behind all of them.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::channel;
use selvedge::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore};
use selvedge::{OneToOne, Runtime, thread};

use crate::legs::Leg;

both! {
    waits_without_time_return_at_once_beside_busy_threads,
}

/// A turn of each of these threads takes ten times as long, in all, as a wait may take.
const BUSY: usize = 20;
/// The time between two yields.
const TURN: Duration = Duration::from_millis(1);
/// The lower quartile of this many waits counts, because other processes may have the CPU during most of
/// them.
const WAITS: usize = 9;
const AT_ONCE: Duration = Duration::from_millis(2);

/// Threads that have all slots until this is dropped.
struct Busy(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>);

impl Busy {
    fn start(threads: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let turn = Instant::now();
                    while turn.elapsed() < TURN {
                        std::hint::spin_loop();
                    }
                    thread::yield_now();
                }
            })
        };
        Self(Arc::clone(&over), (0..threads).map(busy).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|busy| busy.join().unwrap());
    }
}

fn at_once(what: &str, mut wait: impl FnMut()) {
    let mut took: Vec<Duration> = (0..WAITS)
        .map(|_| {
            let start = Instant::now();
            wait();
            start.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[WAITS / 4] < AT_ONCE, "{what}: {took:?}");
}

fn waits_without_time_return_at_once_beside_busy_threads<L: Leg>() {
    const NONE: Duration = Duration::ZERO;
    L::new().run(|| {
        let lock = Arc::new(Mutex::new(()));
        let shared = Arc::new(RwLock::new(()));
        let (sender, receiver) = channel::bounded::<u32>(1);
        let (semaphore, barrier) = (Semaphore::new(0), Barrier::new(2));
        let (condition, own) = (Condvar::new(), Mutex::new(()));
        let held = (Arc::clone(&lock), Arc::clone(&shared));
        let (locked, is_locked) = channel::bounded(1);
        // Dropping `end` releases the owner, even if a wait takes too long and the test fails.
        let (end, until_end) = channel::bounded::<()>(0);
        let until_end_too = until_end.clone();
        let owner = thread::spawn(move || {
            let _held = (held.0.lock(), held.1.write());
            locked.send(()).unwrap();
            let _ = until_end.recv();
        });
        is_locked.recv().unwrap();
        let mut sleeper = Some(thread::spawn(move || {
            let _ = until_end_too.recv();
        }));
        // The kernel schedules kernel threads, so there the test has no busy threads.
        let kernel = TypeId::of::<L::Rt>() == TypeId::of::<OneToOne>();
        let busy = Busy::start(if kernel { 0 } else { BUSY });
        at_once("sleep_until", || thread::sleep_until(Instant::now()));
        at_once("park_timeout", || thread::park_timeout(NONE));
        at_once("try_lock_for", || assert!(lock.try_lock_for(NONE).is_none()));
        at_once("try_lock_until", || assert!(lock.try_lock_until(Instant::now()).is_none()));
        at_once("try_read_for", || assert!(shared.try_read_for(NONE).is_none()));
        at_once("try_write_for", || assert!(shared.try_write_for(NONE).is_none()));
        at_once("Condvar::wait_for", || assert!(condition.wait_for(&mut own.lock(), NONE).timed_out()));
        at_once("try_acquire_for", || assert!(semaphore.try_acquire_for(NONE).is_none()));
        at_once("Barrier::wait_timeout", || assert!(barrier.wait_timeout(NONE).is_none()));
        at_once("recv_timeout", || assert!(receiver.recv_timeout(NONE).is_err()));
        sender.send(1).unwrap();
        at_once("send_timeout", || assert!(sender.send_timeout(2, NONE).is_err()));
        at_once("join_timeout", || {
            sleeper = sleeper.take().expect("put back").join_timeout(NONE).err();
            assert!(sleeper.is_some());
        });
        drop((busy, end));
        owner.join().unwrap();
        sleeper.expect("asleep").join().unwrap();
    });
}
