//! A thread that waits for a lock of the runtime is not taken for blocked. One LWP that is stuck brings one
//! more.

#[cfg(unix)]
mod survey;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::mxn::{Builder, Mxn};
use crate::park::queue_lock::{QueueLock, Rank};
use crate::runtime::Runtime;

const THREADS: u32 = 40;

/// An LWP that naps there must not lose its slot to another, which naps there too. Otherwise hundreds run at
/// once, and none gets far. (Seen in `tsd::mxn_pinned::ten_thousand_threads`, beside two other processes that
/// compute.)
fn a_held_lock_brings_no_lwps(builder: Builder) {
    let rt: Mxn = builder.concurrency(2).time_slice(None).build().unwrap();
    let lock = &*Box::leak(Box::new(QueueLock::new(Rank::Bucket, 0)));
    let coming = &*Box::leak(Box::new(AtomicU32::new(0)));
    let held = AtomicBool::new(false);
    let started = rt.stats().compensated;
    let handles: Vec<_> = std::thread::scope(|s| {
        s.spawn(|| {
            lock.with(|_| {
                held.store(true, Ordering::Release);
                while coming.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(300));
            });
        });
        while !held.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let come = || {
            coming.fetch_add(1, Ordering::Relaxed);
            lock.with(|n| *n += 1);
        };
        (0..THREADS).map(|_| rt.spawn(come)).collect()
    });
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(lock.with(|n| *n), THREADS);
    // One or two may be looked at the very moment that a nap ends.
    let compensated = rt.stats().compensated - started;
    assert!(compensated <= 3, "{compensated} of {THREADS} were taken for blocked: {}", rt.stats());
}

#[test]
fn a_held_lock_brings_no_lwps_where_threads_migrate() {
    a_held_lock_brings_no_lwps(Builder::default());
}

#[test]
fn a_held_lock_brings_no_lwps_where_threads_are_pinned() {
    // SAFETY: nothing here keeps anything in a thread-local.
    a_held_lock_brings_no_lwps(unsafe { Builder::default().pinned() });
}

/// `Pinned`: if a thread computes while others wait, one slot is lent for that, not one at each look of the
/// monitor.
#[test]
fn a_hog_where_threads_are_pinned_brings_one_slot() {
    // SAFETY: nothing here keeps anything in a thread-local.
    let rt = unsafe { Builder::default().pinned() }.concurrency(2).build().unwrap();
    let compute = || {
        let until = Instant::now() + Duration::from_micros(200);
        while Instant::now() < until {}
    };
    // As long as others wait, however slow the machine is.
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let hog = rt.spawn(move || while !is_over.load(Ordering::Relaxed) {});
    let others: Vec<_> = (0..2_000).map(|_| rt.spawn(compute)).collect();
    others.into_iter().for_each(|thread| thread.join().unwrap());
    over.store(true, Ordering::Relaxed);
    hog.join().unwrap();
    // The hog's. If others have the CPUs, also those of some threads that took too long.
    let stats = rt.stats();
    assert!((1..20).contains(&stats.handed_off), "{stats}");
}
