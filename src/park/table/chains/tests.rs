use std::collections::HashSet;

use super::*;
use crate::park::current::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::reason::WaitReason;
use crate::park::table::{Bucket, Order, with};
use crate::park::tests::watched;
use crate::park::wait::Wait;
use crate::park::wait_queue::Options;
use crate::park::waiter::Linked;
use crate::shim::atomic::{AtomicUsize, Ordering};

fn waiter(key: usize) -> Waiter {
    Waiter::new(current(), key, &Options::new(WaitReason::Mutex, Wait::forever()))
}

#[test]
fn keys_at_regular_distances_are_spread() {
    let distances = [4, 8, 16, 24, 40, 48, 64, 72, 128, 256, 1024, 4096, 1 << 16, 331_776, 1 << 20];
    for base in [0x7F12_3456_7000, 0x55AA_0000_1230, 0x7FFF_DEAD_BEE0] {
        for distance in distances {
            for bits in [BUCKET_BITS, BUCKET_BITS + 1, BUCKET_BITS + 4] {
                let place = |at: usize| hash_of(base + at * distance) & ((1 << bits) - 1);
                let used: HashSet<usize> = (0..1000).map(place).collect();
                // By chance, it would be some 890 of the least number of places.
                assert!(used.len() > 950, "{} of 2^{bits} at a distance of {distance}", used.len());
            }
        }
    }
}

/// Each of many waiters has a key of its own. Some threads queue them, while others look for them: each is
/// found once, however many chains there are by then.
#[test]
fn a_crowd_of_keys_makes_more_chains_and_no_waiter_is_lost() {
    const KEYS: usize = 20_000;
    let _watched = watched();
    let keys = vec![0_u64; KEYS];
    let waiters: Vec<Waiter> = keys.iter().map(|key| waiter(ptr::from_ref(key).addr())).collect();
    let taken = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for part in waiters.chunks(KEYS / 3) {
            s.spawn(move || {
                for waiter in part {
                    with(&NoPreempt::hold(), waiter.key(), |bucket| {
                        // SAFETY: it is new, and outlives the threads that take it off.
                        unsafe { bucket.link(waiter, Order::Fifo) };
                    });
                }
            });
            let taken = &taken;
            s.spawn(move || {
                for waiter in part {
                    let pop = || with(&NoPreempt::hold(), waiter.key(), |bucket| bucket.pop(waiter.key()));
                    while pop().map(|(popped, more)| assert!(popped == waiter && !more)).is_none() {
                        std::thread::yield_now();
                    }
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(taken.load(Ordering::Relaxed), KEYS);
    assert!(waiters.iter().all(|waiter| waiter.peek(|links| links.linked_as) == Linked::Out));
}

/// Waiters with keys of one bucket.
fn crowd(many: usize) -> Vec<Waiter> {
    (1..).map(|key| key << 3).filter(|&key| bucket_of(key) == 7).take(many).map(waiter).collect()
}

/// A bucket with a row of its own: the rows of the table are other tests' too.
fn bucket(row: &mut Row) -> Bucket {
    let mut bucket = Bucket::new();
    (bucket.chains.row, bucket.chains.count) = (row.as_mut_ptr(), 1);
    bucket
}

#[test]
fn chains_are_never_long_until_there_are_as_many_as_may_be() {
    let waiters = crowd(2000);
    let mut row = [ptr::null(); MOST];
    let mut bucket = bucket(&mut row);
    let mut counts = Vec::new();
    for (at, waiter) in waiters.iter().enumerate() {
        // SAFETY: it is new, no other thread has this bucket, and it is taken off below.
        unsafe { bucket.link(waiter, Order::Fifo) };
        if [1, 3, 60, 1000].contains(&(at + 1)) {
            counts.push(bucket.chains.count);
        }
        bucket.verify();
    }
    assert_eq!(counts[..2], [1, 1], "one chain");
    assert!((16..=64).contains(&counts[2]) && counts[3] as usize == MOST, "{counts:?}");
    assert_eq!(bucket.rings().count(), waiters.len());
    for waiter in &waiters {
        assert_eq!(bucket.pop(waiter.key()), Some((ptr::from_ref(waiter), false)));
    }
    assert_eq!(bucket.rings().count(), 0);
}

/// What a child of a fork does: it forgets its parent's waiters. A thread of the parent may have been making
/// chains more.
#[test]
fn chains_are_cleared() {
    for torn in [false, true] {
        let waiters = crowd(20);
        let mut row = [ptr::null(); MOST];
        let mut bucket = bucket(&mut row);
        // SAFETY: they are new, no other thread has this bucket, and it is cleared below.
        waiters.iter().for_each(|waiter| unsafe { bucket.link(waiter, Order::Fifo) });
        assert!(bucket.chains.count > 1);
        let place = bucket.chains.row;
        if torn {
            (bucket.chains.row, bucket.chains.count) = (ptr::null_mut(), 0);
        }
        bucket.chains.clear(&bucket.only, place, torn);
        assert!(waiters.iter().all(|waiter| bucket.is_empty(waiter.key())) && bucket.rings().count() == 0);
        assert!(row.iter().all(|head| head.is_null()));
    }
}

/// A queue that is moved to another chain keeps its order, and what comes later is behind it.
#[test]
fn a_queue_moves_in_its_order() {
    let waiters = crowd(40);
    let key = waiters[0].key();
    let queue = [waiter(key), waiter(key), waiter(key)];
    let mut row = [ptr::null(); MOST];
    let mut bucket = bucket(&mut row);
    for waiter in queue[..2].iter().chain(&waiters[1..]).chain(&queue[2..]) {
        // SAFETY: it is new, no other thread has this bucket, and it is taken off below.
        unsafe { bucket.link(waiter, Order::Fifo) };
    }
    let popped: Vec<_> = std::iter::from_fn(|| bucket.pop(key)).map(|(waiter, _)| waiter).collect();
    assert_eq!(popped, queue.each_ref().map(ptr::from_ref));
    waiters[1..].iter().for_each(|waiter| assert!(bucket.pop(waiter.key()).is_some()));
}
