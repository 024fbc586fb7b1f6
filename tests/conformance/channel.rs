//! Channels: what the documentation of crossbeam-channel promises, one promise after the other, between
//! threads of all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::channel::{
    Receiver, RecvError, RecvTimeoutError, RecvWithError, SendError, SendTimeoutError, SendWithError, Sender,
    TryRecvError, TrySendError, after, at, bounded, never, rendezvous, tick, unbounded,
};
use selvedge::thread::Builder;
use selvedge::{OneToOne, Runtime, Wait, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    messages_come_in_order,
    each_message_is_received_once,
    an_unbounded_channel_never_makes_a_sender_wait,
    a_bounded_channel_holds_its_capacity,
    a_rendezvous_holds_nothing,
    a_sender_waits_for_the_receiver,
    a_waiting_sender_gets_the_room_at_once,
    without_senders_what_is_left_can_be_received,
    without_receivers_sending_fails_and_messages_are_dropped,
    the_last_handle_disconnects_the_waiters,
    timeouts_end_waits,
    timed_out_messages_come_back_and_are_not_sent,
    interrupts_end_waits,
    a_wait_that_no_interrupt_ends_leaves_it_for_the_next,
    an_interrupt_and_a_message_agree,
    iterators_end_with_the_senders,
    messages_are_dropped_once,
    threads_of_all_kinds_share_a_channel,
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_millis(3);
/// Only an interrupt ends it.
const ENDLESS: Wait = Wait::forever().interruptible();

/// Every kind of channel.
fn kinds<T>() -> Vec<(Sender<T>, Receiver<T>)> {
    vec![rendezvous(), bounded(0), bounded(1), bounded(3), bounded(64), unbounded()]
}

fn messages_come_in_order<L: Leg>() {
    L::new().run(|| {
        for (s, r) in kinds() {
            let sender = thread::spawn(move || (0..1000).for_each(|n| s.send(n).unwrap()));
            assert!(r.iter().eq(0..1000));
            sender.join().unwrap();
        }
    });
}

fn each_message_is_received_once<L: Leg>() {
    const EACH: usize = 300;
    L::new().run(|| {
        for (s, r) in kinds() {
            let mut receivers = Vec::new();
            for _ in 0..3 {
                let r = r.clone();
                receivers.push(thread::spawn(move || r.into_iter().collect::<Vec<usize>>()));
            }
            let senders: Vec<_> = (0..4)
                .map(|me| {
                    let s = s.clone();
                    thread::spawn(move || (0..EACH).for_each(|n| s.send(me * EACH + n).unwrap()))
                })
                .collect();
            drop((s, r));
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let mut all = Vec::new();
            for receiver in receivers {
                let got = receiver.join().unwrap();
                for me in 0..4 {
                    // Those of one sender keep their order.
                    let of_one = got.iter().filter(|&&n| n / EACH == me);
                    assert!(of_one.is_sorted());
                }
                all.extend(got);
            }
            all.sort_unstable();
            assert!(all.into_iter().eq(0..4 * EACH));
        }
    });
}

fn an_unbounded_channel_never_makes_a_sender_wait<L: Leg>() {
    L::new().run(|| {
        let (s, r) = unbounded();
        for n in 0..10_000 {
            assert_eq!(s.try_send(n), Ok(()));
        }
        assert_eq!((s.len(), r.len(), s.capacity(), s.is_full()), (10_000, 10_000, None, false));
        assert!(r.try_iter().eq(0..10_000));
        assert!(r.is_empty() && s.is_empty());
    });
}

fn a_bounded_channel_holds_its_capacity<L: Leg>() {
    L::new().run(|| {
        for capacity in [1, 2, 31, 32, 33, 100] {
            let (s, r) = bounded(capacity);
            for n in 0..capacity {
                assert!(!s.is_full() && s.len() == n);
                s.try_send(n).unwrap();
            }
            assert!(s.is_full() && r.is_full() && r.len() == capacity);
            assert_eq!((s.capacity(), r.capacity()), (Some(capacity), Some(capacity)));
            assert_eq!(s.try_send(7), Err(TrySendError::Full(7)));
            assert_eq!(r.recv(), Ok(0));
            s.send(capacity).unwrap();
            assert!(s.send_timeout(0, SHORT).is_err());
            assert!(r.try_iter().eq(1..=capacity));
        }
    });
}

fn a_rendezvous_holds_nothing<L: Leg>() {
    L::new().run(|| {
        for (s, r) in [rendezvous(), bounded(0)] {
            assert_eq!(s.try_send(1), Err(TrySendError::Full(1)));
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            assert_eq!((s.len(), s.capacity()), (0, Some(0)));
            assert!(s.is_empty() && s.is_full() && r.is_empty() && r.is_full());
            // If a thread waits on the other side, a try succeeds.
            let receiver = thread::spawn(move || r.recv());
            while s.try_send(2).is_err() {
                thread::yield_now();
            }
            assert_eq!(receiver.join().unwrap(), Ok(2));
            let (s, r) = rendezvous();
            let sender = thread::spawn(move || s.send(3));
            let got = loop {
                match r.try_recv() {
                    Ok(n) => break n,
                    Err(error) => assert_eq!(error, TryRecvError::Empty),
                }
                thread::yield_now();
            };
            assert_eq!((got, sender.join().unwrap()), (3, Ok(())));
        }
    });
}

fn a_sender_waits_for_the_receiver<L: Leg>() {
    L::new().run(|| {
        for capacity in [0, 1, 5] {
            let (s, r) = bounded(capacity);
            let sent = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&sent);
            let sender = thread::spawn(move || {
                for n in 0..20 {
                    s.send(n).unwrap();
                    count.fetch_add(1, SeqCst);
                }
            });
            for n in 0..20 {
                thread::yield_now();
                assert!(sent.load(SeqCst) <= n + capacity, "sent, and not received");
                assert_eq!(r.recv(), Ok(n));
            }
            sender.join().unwrap();
        }
    });
}

/// The sender goes on because of the room that one receive makes, without another receive.
fn a_waiting_sender_gets_the_room_at_once<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        for capacity in [1, 5] {
            let (s, r) = bounded(capacity);
            let senders: Vec<_> = (0..2)
                .map(|_| {
                    let s = s.clone();
                    thread::spawn(move || (0..capacity).for_each(|n| s.send(n).unwrap()))
                })
                .collect();
            while r.len() < capacity {
                thread::yield_now();
            }
            // Those that come too late for the buffer wait, or have sent all.
            senders.iter().for_each(|sender| until_waits(&rt, sender));
            for _ in 0..capacity {
                r.recv().unwrap();
            }
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert_eq!(r.len(), capacity);
            assert!(!s.is_empty() && s.is_full());
            assert_eq!(r.try_iter().count(), capacity);
            assert!(s.is_empty() && !s.is_full());
        }
    });
}

fn without_senders_what_is_left_can_be_received<L: Leg>() {
    L::new().run(|| {
        for (s, r) in [bounded(3), unbounded()] {
            let other = s.clone();
            s.send(1).unwrap();
            other.send(2).unwrap();
            drop(s);
            assert_eq!(r.try_recv(), Ok(1));
            other.send(3).unwrap();
            drop(other);
            assert_eq!(r.recv(), Ok(2));
            assert_eq!(r.recv_timeout(LONG), Ok(3));
            assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
            assert_eq!(r.recv(), Err(RecvError));
            assert_eq!(r.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(r.recv_until(Instant::now() + LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(r.recv_with(ENDLESS), Err(RecvWithError::Disconnected));
            assert_eq!((r.iter().next(), r.try_iter().next()), (None, None));
        }
    });
}

fn without_receivers_sending_fails_and_messages_are_dropped<L: Leg>() {
    L::new().run(|| {
        for (s, r) in kinds() {
            let token = Arc::new(());
            while s.try_send(Arc::clone(&token)).is_ok() && s.len() < 100 {}
            let other = r.clone();
            drop(r);
            assert_eq!(Arc::strong_count(&token), 1 + s.len());
            drop(other);
            assert_eq!(Arc::strong_count(&token), 1, "they can no longer be received");
            assert!(s.is_empty());
            let message = || Arc::clone(&token);
            assert!(matches!(s.try_send(message()), Err(TrySendError::Disconnected(_))));
            assert!(matches!(s.send(message()), Err(SendError(_))));
            assert!(matches!(s.send_timeout(message(), LONG), Err(SendTimeoutError::Disconnected(_))));
            assert!(matches!(s.send_with(message(), ENDLESS), Err(SendWithError::Disconnected(_))));
            assert_eq!(Arc::strong_count(&token), 1);
        }
    });
}

fn the_last_handle_disconnects_the_waiters<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        for (s, r) in kinds::<u32>() {
            let waiters: Vec<_> =
                (0..4).map(|_| r.clone()).map(|r| thread::spawn(move || r.recv())).collect();
            waiters.iter().for_each(|waiter| until_waits(&rt, waiter));
            let other = s.clone();
            drop(s);
            thread::yield_now();
            drop(other);
            waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), Err(RecvError)));
        }
        for capacity in [0, 1, 5] {
            let (s, r) = bounded(capacity);
            (0..capacity).for_each(|n| s.send(n).unwrap());
            let waiters: Vec<_> =
                (0..4).map(|n| (n, s.clone())).map(|(n, s)| thread::spawn(move || s.send(n))).collect();
            waiters.iter().for_each(|waiter| until_waits(&rt, waiter));
            drop(r);
            for (n, waiter) in waiters.into_iter().enumerate() {
                assert_eq!(waiter.join().unwrap(), Err(SendError(n)));
            }
        }
    });
}

fn timeouts_end_waits<L: Leg>() {
    L::new().run(|| {
        for (s, r) in kinds::<u32>() {
            let start = Instant::now();
            assert_eq!(r.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            assert_eq!(r.recv_deadline(Instant::now() + SHORT), Err(RecvTimeoutError::Timeout));
            assert_eq!(r.recv_with(Wait::timeout(SHORT).interruptible()), Err(RecvWithError::Timeout));
            assert!(start.elapsed() >= 3 * SHORT);
            assert_eq!(r.recv_deadline(start), Err(RecvTimeoutError::Timeout));
            while s.try_send(1).is_ok() && s.len() < 100 {}
            if s.len() < 100 {
                let start = Instant::now();
                assert_eq!(s.send_timeout(1, SHORT), Err(SendTimeoutError::Timeout(1)));
                assert_eq!(s.send_until(2, Instant::now() + SHORT), Err(SendTimeoutError::Timeout(2)));
                let late = s.send_with(3, Wait::until(Instant::now() + SHORT).interruptible());
                assert_eq!(late, Err(SendWithError::Timeout(3)));
                assert!(start.elapsed() >= 3 * SHORT);
            }
            if !r.is_empty() {
                // What is there is received, however late it is.
                assert_eq!(r.recv_deadline(start), Ok(1));
                assert_eq!(s.send_deadline(1, start), Ok(()));
            }
        }
    });
}

fn timed_out_messages_come_back_and_are_not_sent<L: Leg>() {
    L::new().run(|| {
        let (s, r) = bounded(1);
        s.send(Arc::new(0)).unwrap();
        let message = Arc::new(1);
        let error = s.send_timeout(Arc::clone(&message), SHORT).unwrap_err();
        assert!(error.is_timeout() && Arc::ptr_eq(&error.into_inner(), &message));
        assert_eq!(Arc::strong_count(&message), 1);
        assert_eq!(*r.recv().unwrap(), 0);
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    });
}

fn interrupts_end_waits<L: Leg>() {
    L::new().run(|| {
        for (s, r) in kinds::<u32>() {
            let theirs = r.clone();
            let waiter = thread::spawn(move || {
                let first = theirs.recv_with(ENDLESS);
                let second = theirs.recv_with(Wait::timeout(LONG).interruptible());
                let third = theirs.recv_with(Wait::until(Instant::now() + LONG).interruptible());
                [first, second, third]
            });
            while !waiter.is_finished() {
                waiter.thread().interrupt();
                thread::sleep(Duration::from_micros(100));
            }
            assert_eq!(waiter.join().unwrap(), [Err(RecvWithError::Interrupted); 3]);
            while s.try_send(0).is_ok() && s.len() < 100 {}
            if s.is_full() {
                let waiter = thread::spawn(move || {
                    let first = s.send_with(1, ENDLESS);
                    let second = s.send_with(2, Wait::timeout(LONG).interruptible());
                    let third = s.send_with(3, Wait::until(Instant::now() + LONG).interruptible());
                    [first, second, third].map(|sent| sent.unwrap_err().is_interrupted())
                });
                while !waiter.is_finished() {
                    waiter.thread().interrupt();
                    thread::sleep(Duration::from_micros(100));
                }
                assert_eq!(waiter.join().unwrap(), [true; 3]);
                assert!(r.try_iter().all(|n| n == 0), "a message that came back was sent");
            }
        }
        // Moments too, and what never comes.
        for r in [after(LONG), tick(LONG), at(Instant::now() + LONG), never()] {
            let waiter = thread::spawn(move || r.recv_with(ENDLESS));
            thread::yield_now();
            waiter.thread().interrupt();
            assert_eq!(waiter.join().unwrap(), Err(RecvWithError::Interrupted));
        }
    });
}

fn a_wait_that_no_interrupt_ends_leaves_it_for_the_next<L: Leg>() {
    L::new().run(|| {
        let (s, r) = bounded(1);
        thread::current().interrupt();
        assert_eq!(s.send_with(1, Wait::forever()), Ok(()));
        assert_eq!(s.send_with(2, Wait::timeout(SHORT)), Err(SendWithError::Timeout(2)));
        assert_eq!(r.recv_with(Wait::forever()), Ok(1));
        assert_eq!(r.recv_with(Wait::timeout(SHORT)), Err(RecvWithError::Timeout));
        assert_eq!(r.recv_with(ENDLESS), Err(RecvWithError::Interrupted));
        assert!(!thread::take_interrupt());
    });
}

fn an_interrupt_and_a_message_agree<L: Leg>() {
    L::new().run(|| {
        for round in 0..300 {
            let (s, r) = if round % 2 == 0 { rendezvous() } else { bounded(1) };
            let waiter = thread::spawn(move || (r.recv_with(ENDLESS), thread::take_interrupt(), r));
            let of = waiter.thread().clone();
            if round % 3 == 0 {
                thread::yield_now();
            }
            let sent = s.send_timeout(7, Duration::from_micros(round));
            of.interrupt();
            let (received, flag, r) = waiter.join().unwrap();
            match received {
                Ok(n) => assert_eq!((n, sent), (7, Ok(()))),
                Err(error) => {
                    assert_eq!((error, flag), (RecvWithError::Interrupted, false));
                    // It is still there, or it came back.
                    assert_eq!(r.try_recv().is_ok(), sent.is_ok());
                }
            }
        }
    });
}

fn iterators_end_with_the_senders<L: Leg>() {
    L::new().run(|| {
        let (s, r) = bounded(2);
        let sender = thread::spawn(move || (0..10).for_each(|n| s.send(n).unwrap()));
        let mut sum = 0;
        for n in &r {
            sum += n;
        }
        assert_eq!(sum, 45);
        sender.join().unwrap();
        let mut iter = r.into_iter();
        assert_eq!((iter.next(), iter.next()), (None, None));
        let (s, r) = unbounded();
        s.send(1).unwrap();
        assert_eq!(r.try_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(r.try_iter().next(), None, "it does not wait");
    });
}

/// Counts those that are there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert_ne!(self.0.fetch_sub(1, SeqCst), 0, "dropped twice");
    }
}

fn messages_are_dropped_once<L: Leg>() {
    L::new().run(|| {
        let count = Arc::new(AtomicUsize::new(0));
        for (s, r) in kinds() {
            for stops_after in [0, 1, 40, 100] {
                let theirs = Arc::clone(&count);
                let (s, r) = (s.clone(), r.clone());
                let sender = thread::spawn(move || {
                    (0..100).filter(|_| s.send_timeout(Counted::new(&theirs), SHORT / 3).is_ok()).count()
                });
                let received = r.iter().take(stops_after.min(20)).count();
                let sent = sender.join().unwrap();
                assert!(sent >= received);
                drop(r.try_iter().collect::<Vec<_>>());
                assert_eq!(count.load(SeqCst), 0);
            }
            while s.try_send(Counted::new(&count)).is_ok() && s.len() < 100 {}
            drop(r);
            assert_eq!(count.load(SeqCst), 0);
        }
        let (s, r) = unbounded();
        (0..100).for_each(|_| assert!(s.send(Counted::new(&count)).is_ok()));
        drop(s);
        assert_eq!(r.iter().take(10).count(), 10);
        drop(r);
        assert_eq!(count.load(SeqCst), 0);
    });
}

fn threads_of_all_kinds_share_a_channel<L: Leg>() {
    const EACH: usize = 100;
    for (s, r) in kinds() {
        let (rt, kernel) = (L::new(), OneToOne::new().unwrap());
        let total = Arc::new(AtomicUsize::new(0));
        let sends = |s: Sender<usize>| move || (1..=EACH).for_each(|n| s.send(n).unwrap());
        let receives = |r: Receiver<usize>| {
            let total = Arc::clone(&total);
            move || {
                total.fetch_add(r.iter().sum::<usize>(), SeqCst);
            }
        };
        let mut ours = Vec::new();
        let mut foreign = Vec::new();
        ours.push(rt.spawn(sends(s.clone())));
        ours.push(rt.spawn(receives(r.clone())));
        ours.push(rt.spawn_with(Builder::new().bound(true), sends(s.clone())).unwrap());
        ours.push(rt.spawn_with(Builder::new().bound(true), receives(r.clone())).unwrap());
        ours.push(kernel.spawn(sends(s.clone())));
        ours.push(kernel.spawn(receives(r.clone())));
        foreign.push(std::thread::spawn(sends(s)));
        foreign.push(std::thread::spawn(receives(r)));
        ours.into_iter().for_each(|thread| thread.join().unwrap());
        foreign.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(total.load(SeqCst), 4 * EACH * (EACH + 1) / 2);
    }
}
