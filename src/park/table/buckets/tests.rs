use std::collections::HashSet;

use super::*;
use crate::park::current::current;
use crate::park::reason::WaitReason;
use crate::park::table::Order;
use crate::park::tests::watched;
use crate::park::wait::Wait;
use crate::park::wait_queue::Options;
use crate::park::waiter::{Linked, Waiter};
use crate::shim::atomic::AtomicUsize;

const FIRST: u32 = 1 << BUCKET_BITS;

#[test]
fn each_split_moves_half_of_one_bucket() {
    let hashes: Vec<usize> = (0..32 * FIRST as usize).map(|key| hash_of(key << 4)).collect();
    for size in (FIRST..FIRST + 20).chain(2 * FIRST - 3..2 * FIRST + 3) {
        let (before, after) = (Size(size), Size(size + 1));
        let split = size as usize ^ 1 << size.ilog2();
        for &hash in &hashes {
            let (from, to) = (before.place(hash), after.place(hash));
            assert!(from < size as usize);
            assert!(from == to || from == split && to == size as usize, "{from} {to} of {size}");
        }
        let moved = hashes.iter().filter(|&&hash| before.place(hash) != after.place(hash)).count();
        assert!(moved > 0, "{size}");
    }
}

#[test]
fn keys_at_regular_distances_are_spread() {
    let distances = [4, 8, 16, 24, 40, 48, 64, 72, 128, 256, 1024, 4096, 1 << 16, 331_776, 1 << 20];
    for base in [0x7F12_3456_7000, 0x55AA_0000_1230, 0x7FFF_DEAD_BEE0] {
        for distance in distances {
            for size in [FIRST, FIRST + FIRST / 2, 1 << 16] {
                let place = |at: usize| Size(size).place(hash_of(base + at * distance));
                let used: HashSet<usize> = (0..1000).map(place).collect();
                // By chance, it would be some 890 of the least number of buckets.
                assert!(used.len() > 950, "{} of {size} at a distance of {distance}", used.len());
            }
        }
    }
}

/// Each of many waiters has a key of its own. Some threads queue them, while others look for them: each is found
/// once, whatever bucket it is in by then.
#[test]
fn a_crowd_of_keys_makes_more_buckets_and_no_waiter_is_lost() {
    const KEYS: usize = 20_000;
    watched(|| {
        let keys = vec![0_u64; KEYS];
        let options = Options::new(WaitReason::Mutex, Wait::forever());
        let waiters: Vec<Waiter> =
            keys.iter().map(|key| Waiter::new(current(), std::ptr::from_ref(key).addr(), &options)).collect();
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
                        let pop =
                            || with(&NoPreempt::hold(), waiter.key(), |bucket| bucket.pop(waiter.key()));
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
    });
}

#[test]
fn a_chain_that_is_long_splits_buckets() {
    watched(|| {
        let keys = vec![0_u64; 8 * FIRST as usize];
        let options = Options::new(WaitReason::Mutex, Wait::forever());
        let waiters: Vec<Waiter> =
            keys.iter().map(|key| Waiter::new(current(), std::ptr::from_ref(key).addr(), &options)).collect();
        for waiter in &waiters {
            // SAFETY: it is new, and outlives the loop that takes it off.
            with(&NoPreempt::hold(), waiter.key(), |bucket| unsafe { bucket.link(waiter, Order::Fifo) });
        }
        let size = Size::load().0 as usize;
        assert!(size * LONG_CHAIN > waiters.len(), "{} keys in {size} buckets", waiters.len());
        for waiter in &waiters {
            assert!(with(&NoPreempt::hold(), waiter.key(), |bucket| bucket.pop(waiter.key())).is_some());
        }
    });
}

/// A queue that moves keeps its order, and what comes later is behind it.
#[test]
fn a_queue_moves_in_its_order() {
    let options = Options::new(WaitReason::Mutex, Wait::forever());
    let waiter = |key| Waiter::new(current(), key, &options);
    let (stays, goes) = ([waiter(16), waiter(32)], [waiter(48), waiter(48), waiter(48), waiter(64)]);
    let (mut old, mut new) = (Bucket::new(), Bucket::new());
    for waiter in stays.iter().chain(&goes[..2]).chain(&goes[3..]) {
        // SAFETY: they are new, no other thread has these buckets, and they are taken off below.
        unsafe { old.link(waiter, Order::Fifo) };
    }
    old.move_to(&mut new, |key| key >= 48);
    // SAFETY: as above.
    unsafe { new.link(&goes[2], Order::Fifo) };
    let popped = |bucket: &mut Bucket, key| {
        std::iter::from_fn(|| bucket.pop(key)).map(|(it, _)| it).collect::<Vec<_>>()
    };
    assert_eq!(popped(&mut new, 48), [&raw const goes[0], &raw const goes[1], &raw const goes[2]]);
    assert_eq!(popped(&mut new, 64), [&raw const goes[3]]);
    assert_eq!(popped(&mut old, 16), [&raw const stays[0]]);
    assert_eq!(popped(&mut old, 32), [&raw const stays[1]]);
    assert!(old.chain.is_null() && new.chain.is_null());
}
