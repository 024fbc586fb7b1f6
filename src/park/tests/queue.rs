//! The wait queue, with kernel threads as waiters.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::heap::allocations_with_locks;
use super::{until, watched};
use crate::park::current::current;
use crate::park::priority::Priority::{self, High, Low, Normal};
use crate::park::reason::WaitReason;
use crate::park::table;
use crate::park::wait::{Wait, WaitError};
use crate::park::wait_queue::{self, Invalid, Options, Order, Token, Woken};
use crate::park::word_queues::{self, First};

const TOKEN: Token = Token(5);

/// A key of its own for each test, and the order in which its waiters woke.
#[derive(Default)]
struct WaitPoint {
    anchor: AtomicUsize,
    linked: AtomicUsize,
    woke: Mutex<Vec<usize>>,
}

impl WaitPoint {
    fn key(&self) -> usize {
        std::ptr::from_ref(&self.anchor).addr()
    }

    /// Starts a waiter and returns once it is queued.
    fn queue<'s>(
        &'s self,
        s: &'s std::thread::Scope<'s, '_>,
        name: usize,
        (order, priority): (Order, Priority),
    ) {
        let before = self.linked.load(Ordering::Relaxed);
        s.spawn(move || {
            current().priority.begin(priority);
            let woken = wait_queue::wait(
                self.key(),
                &options(order),
                || true,
                || {
                    self.linked.fetch_add(1, Ordering::Relaxed);
                },
            );
            assert_eq!(woken, Ok(Woken::Granted(TOKEN)));
            self.woke.lock().unwrap().push(name);
        });
        until(|| self.linked.load(Ordering::Relaxed) != before);
    }

    /// Grants one waiter, and returns once it has woken.
    fn grant(&self) {
        let before = self.woke.lock().unwrap().len();
        wait_queue::grant_one(self.key(), |_| TOKEN).expect("a waiter").wake();
        until(|| self.woke.lock().unwrap().len() != before);
    }
}

fn options(order: Order) -> Options {
    Options { order, ..Options::new(WaitReason::Mutex, Wait::forever()) }
}

fn order_of(waiters: &[(Order, Priority)]) -> Vec<usize> {
    let _watched = watched();
    let point = WaitPoint::default();
    std::thread::scope(|s| {
        for (name, &waiter) in waiters.iter().enumerate() {
            point.queue(s, name, waiter);
        }
        waiters.iter().for_each(|_| point.grant());
    });
    assert!(
        wait_queue::grant_one(point.key(), |found| {
            assert!(found.is_none());
            TOKEN
        })
        .is_none()
    );
    point.woke.into_inner().unwrap()
}

#[test]
fn fifo_is_first_in_first_out() {
    assert_eq!(order_of(&[(Order::Fifo, Normal); 5]), [0, 1, 2, 3, 4]);
}

#[test]
fn the_front_is_last_in_first_out() {
    assert_eq!(order_of(&[(Order::Again, Normal); 5]), [4, 3, 2, 1, 0]);
}

#[test]
fn higher_priority_goes_first() {
    use Order::{Again, Fifo};
    assert_eq!(
        order_of(&[(Fifo, Low), (Fifo, High), (Fifo, Normal), (Fifo, High), (Fifo, Low)]),
        [1, 3, 2, 0, 4]
    );
    assert_eq!(
        order_of(&[(Again, Low), (Again, High), (Again, Normal), (Again, High), (Again, Low)]),
        [3, 1, 2, 4, 0]
    );
    assert_eq!(
        order_of(&[(Fifo, Normal), (Again, Low), (Again, Normal), (Fifo, Low), (Again, Low)]),
        [2, 0, 4, 1, 3]
    );
}

/// Two waiters of low priority are among others. After 16 grants, the one that came first is next, at
/// whichever end of its equals it is. Then the count begins anew.
#[test]
fn when_16_have_passed_the_oldest_of_the_lowest_goes_next() {
    const OTHERS: usize = 20;
    for order in [Order::Fifo, Order::Again] {
        let mut waiters = vec![(order, Normal); OTHERS];
        waiters[3] = (order, Low);
        waiters[7] = (order, Low);
        let woke = order_of(&waiters);
        assert_eq!(woke.iter().position(|&name| name == 3), Some(16), "{order:?}: {woke:?}");
        assert_eq!(woke[OTHERS - 1], 7, "{order:?}: {woke:?}");
    }
}

/// If the count were the waiter's, each that comes would take it from the one before.
#[test]
fn newcomers_of_low_priority_do_not_make_the_oldest_wait_longer() {
    const HIGH: usize = 40;
    let _watched = watched();
    let point = WaitPoint::default();
    let last = std::thread::scope(|s| {
        let queue = |name, priority| point.queue(s, name, (Order::Fifo, priority));
        (0..HIGH).for_each(|name| queue(name, Normal));
        let has_woken = |name| point.woke.lock().unwrap().contains(&name);
        let last = (HIGH..2 * HIGH).find(|&low| {
            queue(low, Low);
            point.grant();
            has_woken(HIGH)
        });
        while point.woke.lock().unwrap().len() < point.linked.load(Ordering::Relaxed) {
            point.grant();
        }
        last
    });
    assert_eq!(last, Some(HIGH + 16));
}

#[test]
fn near_lifo_sends_every_16th_to_the_back() {
    const WAITERS: usize = 40;
    let order = order_of(&[(Order::NearLifo, Normal); WAITERS]);
    // The counter is the bucket's, so the waiter that goes to the back depends on what shared the bucket
    // before.
    let to_the_back = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((2..=3).contains(&to_the_back), "{order:?}");
    assert_ne!(*order.last().unwrap(), 0, "the oldest is not the last: {order:?}");
}

#[test]
fn a_thread_that_fails_the_last_look_is_not_queued() {
    let point = WaitPoint::default();
    let result = wait_queue::wait(point.key(), &options(Order::Fifo), || false, || panic!("not queued"));
    assert_eq!(result, Err(Invalid));
    wait_queue::if_empty(point.key(), || point.anchor.store(1, Ordering::Relaxed));
    assert_eq!(point.anchor.load(Ordering::Relaxed), 1);
}

#[test]
fn a_deadline_takes_the_waiter_off_the_queue() {
    let _watched = watched();
    let point = WaitPoint::default();
    let options = Options::new(WaitReason::Mutex, Wait::timeout(Duration::from_millis(10)));
    let woken = wait_queue::wait(point.key(), &options, || true, || ());
    assert_eq!(woken, Ok(Woken::Ended { why: WaitError::TimedOut, moved: false }));
    assert!(wait_queue::grant_one(point.key(), |_| TOKEN).is_none());
}

#[test]
fn all_are_granted_at_once() {
    let _watched = watched();
    let point = WaitPoint::default();
    std::thread::scope(|s| {
        (0..20).for_each(|name| point.queue(s, name, (Order::NearLifo, Normal)));
        assert_eq!(wait_queue::grant_all(point.key(), TOKEN, || true).unwrap().wake_all(), 20);
    });
    assert_eq!(point.woke.into_inner().unwrap().len(), 20);
}

#[test]
fn the_queues_of_a_word_are_apart_and_under_one_lock() {
    let _watched = watched();
    let point = WaitPoint::default();
    std::thread::scope(|s| {
        for (queue, count) in [(0, 3), (3, 2)] {
            for priority in [Low, Normal, High].into_iter().take(count) {
                let before = point.linked.load(Ordering::Relaxed);
                let point = &point;
                s.spawn(move || {
                    current().priority.begin(priority);
                    let linked = || _ = point.linked.fetch_add(1, Ordering::Relaxed);
                    let woken = wait_queue::wait(point.key() + queue, &options(Order::Fifo), || true, linked);
                    assert_eq!(woken, Ok(Woken::Granted(Token(queue as u8))));
                    point.woke.lock().unwrap().push(queue);
                });
                until(|| point.linked.load(Ordering::Relaxed) != before);
            }
        }
        let (all, one) = word_queues::with(point.key(), |queues| {
            assert_eq!([0, 1, 2, 3].map(|queue| queues.count(queue)), [3, 0, 0, 2]);
            assert_eq!(queues.first(0), Some(First { priority: High as u8, more: true, urgent: false }));
            assert_eq!(queues.first(1), None);
            assert!(queues.grant_one(2, TOKEN).is_none());
            let one = queues.grant_one(3, Token(3)).unwrap();
            assert_eq!(queues.first(3), Some(First { priority: Low as u8, more: false, urgent: false }));
            (queues.grant_all(0, Token(0)), one)
        });
        one.wake();
        assert_eq!(all.wake_all(), 3);
        until(|| point.woke.lock().unwrap().len() >= 4);
        let last = word_queues::with(point.key(), |queues| {
            assert_eq!([0, 1, 2, 3].map(|queue| queues.count(queue)), [0, 0, 0, 1]);
            queues.grant_one(3, Token(3))
        });
        last.unwrap().wake();
    });
    assert_eq!(point.woke.into_inner().unwrap().iter().filter(|&&queue| queue == 3).count(), 2);
}

#[test]
fn a_requeue_keeps_the_order() {
    let _watched = watched();
    let (from, to) = (WaitPoint::default(), WaitPoint::default());
    std::thread::scope(|s| {
        (0..4).for_each(|name| from.queue(s, name, (Order::Fifo, Normal)));
        let moved = wait_queue::requeue(from.key(), to.key(), |_| true);
        assert_eq!(moved, 4);
        assert!(wait_queue::grant_one(from.key(), |_| TOKEN).is_none());
        for rest in (0..4).rev() {
            wait_queue::grant_one(to.key(), |found| {
                assert_eq!(found.unwrap().more, rest != 0);
                TOKEN
            })
            .unwrap()
            .wake();
            until(|| from.woke.lock().unwrap().len() >= 4 - rest);
        }
    });
    assert_eq!(from.woke.into_inner().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn waiters_that_were_moved_are_granted_in_company() {
    let _watched = watched();
    let (from, to) = (WaitPoint::default(), WaitPoint::default());
    std::thread::scope(|s| {
        to.queue(s, 0, (Order::Fifo, Normal));
        (0..5).for_each(|name| from.queue(s, name, (Order::Fifo, Normal)));
        let moved = wait_queue::requeue(from.key(), to.key(), |_| true);
        assert_eq!(moved, 5);
        to.queue(s, 1, (Order::Fifo, Normal));
        // First the waiter that was there before. Then the first of those moved, if no others may go
        // with it. Then the next, with as many as may be kernel threads. Then the last two of them,
        // without the waiter behind them.
        let steps = [(2, 2, true, 0), (0, 2, true, 0), (2, 1, true, 1), (2, 2, true, 1), (2, 2, false, 0)];
        for (others, kernel, left, company) in steps {
            let room = || kernel;
            let told = |kernel| {
                assert_eq!(kernel, company);
                TOKEN
            };
            let grant = wait_queue::grant_batch(to.key(), others, room, told, |found| {
                assert_eq!(found.unwrap().more, left);
                TOKEN
            });
            let (first, with_it) = grant.unwrap();
            first.wake();
            assert_eq!(with_it.wake_all(), company);
        }
        let none = wait_queue::grant_batch(
            to.key(),
            2,
            || 2,
            |_| TOKEN,
            |found| {
                assert!(found.is_none());
                TOKEN
            },
        );
        assert!(none.is_none());
    });
    assert_eq!(from.woke.into_inner().unwrap().len(), 5);
    assert_eq!(to.woke.into_inner().unwrap().len(), 2);
}

#[test]
fn deadlines_and_grants_never_both_win() {
    const ROUNDS: usize = 2_000;
    let _watched = watched();
    let point = WaitPoint::default();
    let (granted, expired, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut given = 0;
    std::thread::scope(|s| {
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    for round in 0..ROUNDS {
                        let timeout = Duration::from_micros((round % 100) as u64);
                        let options = Options::new(WaitReason::Mutex, Wait::timeout(timeout));
                        match wait_queue::wait(point.key(), &options, || true, || ()).unwrap() {
                            Woken::Granted(_) => granted.fetch_add(1, Ordering::Relaxed),
                            Woken::Ended { why: WaitError::TimedOut, .. } => {
                                expired.fetch_add(1, Ordering::Relaxed)
                            }
                            Woken::Ended { why: WaitError::Interrupted, .. } => {
                                unreachable!("no thread interrupts it")
                            }
                        };
                    }
                    done.store(true, Ordering::Relaxed);
                })
            })
            .collect();
        while !waiters.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            if let Some(grant) = wait_queue::grant_one(point.key(), |_| TOKEN) {
                grant.wake();
                given += 1;
            }
            std::hint::spin_loop();
        }
    });
    assert_eq!(granted.into_inner(), given);
    assert_eq!(given + expired.into_inner(), 3 * ROUNDS);
}

#[test]
fn a_walk_finds_which_thread_waits_where() {
    let _watched = watched();
    // Otherwise its core would be one of theirs.
    let (me, point) = (current(), WaitPoint::default());
    let (found, allocations) = std::thread::scope(|s| {
        (0..3).for_each(|name| point.queue(s, name, (Order::Fifo, Normal)));
        let found = allocations_with_locks(table::all_waiters);
        (0..3).for_each(|_| point.grant());
        found
    });
    let mut threads: Vec<_> =
        found.into_iter().filter(|&(_, key)| key == point.key()).map(|(thread, _)| thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert!(threads.len() == 3 && !threads.contains(&me.address()));
    assert_eq!(allocations, 0, "with a bucket's lock held");
}
