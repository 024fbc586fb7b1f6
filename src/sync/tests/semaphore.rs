//! The order in which threads are served, seen from inside: here a test can ask if a thread has queued.

use std::sync::{Arc, mpsc};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::{until, watched};
use crate::park::current::current;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::table::all_waiters;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::sync::{OwnedSemaphorePermit, Semaphore};

/// Starts a thread that does `body`. When this returns, the thread sleeps in its semaphore's queue.
fn asleep<'scope, T: Send + 'scope>(
    s: &'scope Scope<'scope, '_>,
    priority: Priority,
    body: impl FnOnce() -> T + Send + 'scope,
) -> (ScopedJoinHandle<'scope, T>, ThreadRef) {
    let (tell, told) = mpsc::channel();
    let thread = s.spawn(move || {
        let me = current();
        me.priority.begin(priority);
        tell.send(me.retain()).unwrap();
        body()
    });
    let core = told.recv().unwrap();
    // It reports that after it has queued.
    while !core
        .snapshot_with(0, |_| ())
        .is_some_and(|(seen, ())| seen.wait.is_some_and(|wait| wait.reason == WaitReason::Semaphore))
    {
        std::thread::yield_now();
    }
    (thread, core)
}

/// Returns `true` if a thread has not been served: before one is woken, it is taken off its queue.
fn is_queued(thread: ThreadRef) -> bool {
    all_waiters().into_iter().any(|(waiter, _)| waiter == thread.address())
}

/// Queues requests. Returns the order in which they were served when permits come one by one.
fn order(requests: &[(Priority, usize)], permits: usize) -> Vec<usize> {
    let _watched = watched();
    let semaphore = Semaphore::new(0);
    let served = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for (which, &(priority, n)) in requests.iter().enumerate() {
            let (semaphore, served) = (&semaphore, &served);
            let (_, core) = asleep(s, priority, move || {
                semaphore.acquire_many(n).forget();
                served.lock().unwrap().push(which);
            });
            core.release();
        }
        let mut given = 0;
        while given < permits {
            semaphore.add_permits(1);
            given += 1;
            // The next permit comes when the requests that can be served have been.
            let due = |list: &Vec<usize>| list.iter().map(|&which| requests[which].1).sum::<usize>();
            until(|| due(&served.lock().unwrap()) + semaphore.available_permits() >= given);
        }
    });
    assert!(semaphore.try_acquire().is_none() && semaphore.available_permits() == 0);
    semaphore.add_permits(1);
    assert!(semaphore.try_acquire().is_some(), "no thread waits any more");
    served.into_inner().unwrap()
}

#[test]
fn the_first_to_come_is_served_first() {
    let requests = [(Priority::Normal, 1); 20];
    assert_eq!(order(&requests, 20), (0..20).collect::<Vec<_>>());
}

#[test]
fn small_requests_do_not_pass_a_big_one() {
    let n = Priority::Normal;
    assert_eq!(order(&[(n, 1), (n, 5), (n, 1), (n, 2)], 9), [0, 1, 2, 3]);
}

#[test]
fn higher_priorities_go_first() {
    use Priority::{High, Low, Normal};
    let requests = [(Low, 1), (Normal, 2), (High, 1), (Normal, 1), (High, 3)];
    assert_eq!(order(&requests, 8), [2, 4, 1, 3, 0]);
}

/// The one at the back lets 16 pass, as in all queues, however many it asks for. Then all others wait for
/// it.
#[test]
fn the_lowest_is_not_starved() {
    let mut requests = vec![(Priority::Low, 2)];
    requests.extend([(Priority::High, 1); 20]);
    let served = order(&requests, 22);
    assert_eq!(served.iter().position(|&which| which == 0), Some(16));
}

#[test]
fn a_request_that_fits_passes_lower_ones_at_once() {
    let _watched = watched();
    let semaphore = Semaphore::new(1);
    std::thread::scope(|s| {
        let (big, core) = asleep(s, Priority::Normal, || semaphore.acquire_many(2).num_permits());
        assert!(semaphore.try_acquire().is_none(), "what is left is not for threads that come later");
        let high = s.spawn(|| {
            current().priority.begin(Priority::High);
            semaphore.acquire().num_permits()
        });
        assert_eq!(high.join().unwrap(), 1);
        assert!(is_queued(core));
        semaphore.add_permits(1);
        assert_eq!(big.join().unwrap(), 2);
        core.release();
    });
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn a_waiter_that_gives_up_makes_way() {
    let _watched = watched();
    let semaphore = Semaphore::new(1);
    std::thread::scope(|s| {
        let (big, first) = asleep(s, Priority::Normal, || {
            semaphore.acquire_many_with(2, Wait::forever().interruptible()).is_err()
        });
        let (small, second) = asleep(s, Priority::Normal, || semaphore.acquire().num_permits());
        assert!(is_queued(second));
        first.interrupt();
        assert!(big.join().unwrap());
        assert_eq!(small.join().unwrap(), 1);
        first.release();
        second.release();
    });
    assert_eq!(semaphore.available_permits(), 1);
    assert!(semaphore.try_acquire().is_some());
}

#[test]
fn nothing_is_there_always() {
    let _watched = watched();
    let semaphore = Semaphore::new(0);
    std::thread::scope(|s| {
        let (one, core) = asleep(s, Priority::Normal, || semaphore.acquire().num_permits());
        assert_eq!(semaphore.acquire_many(0).num_permits(), 0);
        assert!(semaphore.try_acquire_many(0).is_some());
        semaphore.add_permits(0);
        assert!(is_queued(core));
        semaphore.add_permits(1);
        one.join().unwrap();
        core.release();
    });
}

#[test]
fn owned_permits_are_waited_for_until_a_deadline() {
    let semaphore = Arc::new(Semaphore::new(2));
    let (now, short) = (Instant::now(), Duration::ZERO);
    type Take = fn(&Arc<Semaphore>, Instant, Duration) -> Option<OwnedSemaphorePermit>;
    let takes: [Take; 5] = [
        |semaphore, _, short| semaphore.try_acquire_owned_for(short),
        |semaphore, now, _| semaphore.try_acquire_owned_until(now),
        |semaphore, _, short| semaphore.acquire_owned_with(Wait::timeout(short).interruptible()).ok(),
        |semaphore, now, _| semaphore.acquire_owned_with(Wait::until(now).interruptible()).ok(),
        |semaphore, now, _| semaphore.acquire_many_owned_with(1, Wait::until(now).interruptible()).ok(),
    ];
    for take in takes {
        let permits = [take(&semaphore, now, short), take(&semaphore, now, short)];
        assert!(permits.iter().all(Option::is_some) && semaphore.available_permits() == 0);
        assert!(take(&semaphore, now, short).is_none());
        drop(permits);
        assert_eq!(semaphore.available_permits(), 2);
    }
}
