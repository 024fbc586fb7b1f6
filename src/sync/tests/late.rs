//! A waiter that was sent on its way and does not come: the others are not left to sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::park::tests::watched;

use super::{LATE, RawMutex, WAITERS, WOKEN};

#[test]
fn who_never_comes_keeps_nobody_asleep() {
    watched(|| {
        let mutex = Arc::new(RawMutex::new());
        let had_it = Arc::new(AtomicBool::new(false));
        mutex.acquire();
        let waiter = thread::spawn({
            let (mutex, had_it) = (mutex.clone(), had_it.clone());
            move || {
                mutex.acquire();
                had_it.store(true, Ordering::Relaxed);
                mutex.release();
            }
        });
        let limit = Instant::now() + Duration::from_secs(20);
        while mutex.state.look() & WAITERS == 0 {
            assert!(Instant::now() < limit, "nobody waits");
            thread::yield_now();
        }
        // Who owns this bit will never take the lock.
        mutex.state.0.fetch_or(WOKEN, Ordering::Relaxed);
        for unlocks in 1..u32::from(LATE) {
            mutex.release();
            mutex.acquire();
            assert!(mutex.has_waiters(), "somebody was woken after {unlocks} unlocks");
        }
        mutex.release();
        waiter.join().unwrap();
        assert!(had_it.load(Ordering::Relaxed));
    });
}
