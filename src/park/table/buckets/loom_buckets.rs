//! A bucket is split while another thread queues a waiter under a key that moves, or takes it off.

use std::sync::Arc;

use super::{SIZE, Size, TABLE, split, with};
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::lock_pair;
use crate::park::reason::WaitReason;
use crate::park::table::Order;
use crate::park::tests::loom_model::{Core, model};
use crate::park::wait::Wait;
use crate::park::wait_queue::Options;
use crate::park::waiter::Waiter;
use crate::shim::{MODEL_STRIDE, hash_of};

/// A key of the first bucket of two. Of three buckets, it has the third.
#[repr(C, align(4096))]
struct Point([u8; 4096]);

impl Point {
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr() + 2 * MODEL_STRIDE
    }

    fn waiter(&self, core: &Core) -> Waiter {
        Waiter::new(core.thread(), self.key(), &Options::new(WaitReason::Mutex, Wait::forever()))
    }

    /// # Safety
    /// The waiter is new, and is taken off before it goes.
    unsafe fn link(&self, waiter: &Waiter) {
        // SAFETY: the caller's promise.
        with(&NoPreempt::hold(), self.key(), |bucket| unsafe { bucket.link(waiter, Order::Fifo) });
    }

    fn take(&self) -> Option<*const Waiter> {
        with(&NoPreempt::hold(), self.key(), |bucket| bucket.pop(self.key())).map(|(waiter, _)| waiter)
    }
}

/// Models a waiter that is queued before one thread splits the bucket, or else meanwhile. `take` is what the
/// other does meanwhile, or else after.
fn a_split_meanwhile(queued_before: bool, split: fn(), take: fn(&Point) -> Option<*const Waiter>) {
    model(move || {
        let point = Arc::new(Point([0; 4096]));
        let core = Core::new();
        let waiter = point.waiter(&core);
        // All of it exists before the threads do.
        TABLE.iter().for_each(|bucket| bucket.0.with(|_| ()));
        let place = |size| Size(size).place(hash_of(point.key()));
        assert_eq!((Size::load().0, place(2), place(3)), (2, 0, 2));
        if queued_before {
            // SAFETY: it is new, and taken off below.
            unsafe { point.link(&waiter) };
        }
        let splitter = loom::thread::spawn(split);
        let taken = if queued_before {
            take(&point)
        } else {
            // SAFETY: it is new, and taken off below.
            unsafe { point.link(&waiter) };
            None
        };
        splitter.join().unwrap();
        let taken = taken.or_else(|| if queued_before { None } else { take(&point) });
        if taken.is_none() {
            TABLE.iter().for_each(|bucket| _ = bucket.0.with(|bucket| bucket.pop(point.key())));
        }
        assert_eq!(taken, Some(&raw const waiter), "it was lost");
        assert_eq!(Size::load().0, 3);
    });
}

#[test]
fn a_waiter_is_found_in_either_bucket() {
    a_split_meanwhile(true, split, Point::take);
}

#[test]
fn a_waiter_is_queued_in_either_bucket() {
    a_split_meanwhile(false, split, Point::take);
}

#[test]
fn two_that_split_make_one_bucket() {
    a_split_meanwhile(true, split, |point| {
        split();
        point.take()
    });
}

/// The bucket that was right before the lock is taken for right.
#[test]
#[should_panic(expected = "it was lost")]
fn negative_without_a_second_look() {
    a_split_meanwhile(true, split, |point| {
        let lock = Size::load().lock_of(point.key());
        lock.with(|bucket| bucket.pop(point.key())).map(|(waiter, _)| waiter)
    });
}

/// The size is stored after the locks are free.
#[test]
#[should_panic(expected = "it was lost")]
fn negative_the_size_follows_later() {
    let split = || {
        let more = Size(3);
        lock_pair(&TABLE[0].0, &TABLE[2].0, |from, to| {
            from.move_to(to.unwrap(), |key| more.place(hash_of(key)) == 2);
        });
        SIZE.store(3, crate::shim::atomic::Ordering::Release);
    };
    a_split_meanwhile(true, split, Point::take);
}
