//! A waiter was woken and does not come: the others do not sleep on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::park::current::current;
use crate::park::mutex_handoff::HeldMutex;
use crate::park::reason::WaitReason;
use crate::park::table::all_waiters;
use crate::park::tests::{until, watched};
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, Options, Woken};
use crate::sys::child_tests::isolated;

use super::{HANDED_OVER, RawMutex, WAITERS, WOKEN};
use crate::shim::MAX_SKIPPED_WAKES;

#[test]
fn a_waiter_that_never_comes_keeps_no_other_asleep() {
    let _watched = watched();
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
    until(|| mutex.word.look() & WAITERS != 0);
    // The owner of this bit will never take the lock.
    mutex.word.0.fetch_or(WOKEN, Ordering::Relaxed);
    for unlocks in 1..u32::from(MAX_SKIPPED_WAKES) {
        mutex.release();
        mutex.acquire();
        assert!(mutex.has_waiters(), "a waiter was woken after {unlocks} unlocks");
    }
    mutex.release();
    waiter.join().unwrap();
    assert!(had_it.load(Ordering::Relaxed));
}

/// With the bit, each lock and unlock takes the slow path.
#[test]
fn a_lock_forgets_a_waiter_that_never_comes() {
    let mutex = RawMutex::new();
    assert!(mutex.try_acquire());
    mutex.word.0.fetch_or(WOKEN, Ordering::Relaxed);
    for unlocks in 0..MAX_SKIPPED_WAKES {
        mutex.release();
        assert_eq!(mutex.word.look(), WOKEN, "forgotten after {unlocks} unlocks");
        mutex.acquire();
    }
    mutex.release();
    assert!(mutex.word.is_idle());
    assert!(mutex.try_acquire() && mutex.is_alone());
}

#[test]
fn an_urgent_waiter_is_handed_the_lock() {
    let _watched = watched();
    let mutex = Arc::new(RawMutex::new());
    mutex.acquire();
    let waiter = thread::spawn({
        let mutex = mutex.clone();
        move || {
            current();
            let mut options = Options::new(WaitReason::Mutex, Wait::forever());
            options.urgent = true;
            wait_queue::wait(mutex.key(), &options, || mutex.announce(0), || ())
        }
    });
    until(|| mutex.has_waiters());
    mutex.release();
    assert!(!mutex.try_acquire(), "another thread was faster");
    assert!(matches!(waiter.join().unwrap(), Ok(Woken::Granted(HANDED_OVER))));
    mutex.release();
}

#[test]
fn a_free_lock_can_be_had_while_a_waiter_is_on_its_way() {
    let mutex = RawMutex::new();
    mutex.word.0.fetch_or(WOKEN, Ordering::Relaxed);
    assert!(mutex.try_acquire() && !mutex.try_acquire());
    assert!(!mutex.is_alone(), "a waiter is on its way");
}

#[test]
fn a_hint_of_waiters_that_are_not_there_is_cleared() {
    let mutex = RawMutex::new();
    assert!(mutex.try_acquire() && mutex.is_alone());
    mutex.queued.set(true);
    assert!(!mutex.is_alone());
    mutex.release();
    assert!(!mutex.is_taken());
    assert!(mutex.try_acquire() && mutex.is_alone(), "the hint is gone");
}

#[test]
#[should_panic(expected = "unlocked a mutex that is not locked")]
fn a_free_lock_cannot_be_unlocked() {
    RawMutex::new().release();
}

/// Most waiters go to the front of the queue. If all did, the first would starve while others come.
#[test]
fn a_waiter_goes_to_the_back_of_the_queue_now_and_then() {
    isolated(concat!(module_path!(), "::a_waiter_goes_to_the_back_of_the_queue_now_and_then"), || {
        const WAITERS: usize = 32;
        let mutex = &RawMutex::new();
        let served = &std::sync::Mutex::new(Vec::new());
        mutex.acquire();
        thread::scope(|s| {
            for number in 0..WAITERS {
                s.spawn(move || {
                    mutex.acquire();
                    served.lock().unwrap().push(number);
                    mutex.release_fair();
                });
                let queued = || all_waiters().into_iter().filter(|(_, key)| *key == mutex.key()).count();
                until(|| queued() > number);
            }
            mutex.release_fair();
        });
        let served = served.lock().unwrap();
        assert_eq!(served.len(), WAITERS);
        assert!(!served.is_sorted_by(|one, next| one > next), "all went to the front: {served:?}");
    });
}
