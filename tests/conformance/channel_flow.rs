//! Channels in motion:
//!
//! - many threads at small buffers, and their lengths meanwhile
//! - blocks that fill up and are used again
//! - ends that close while messages are on their way

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use selvedge::channel::{bounded, select, unbounded};
use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    small_buffers_keep_order_and_messages,
    lengths_stay_within_the_capacity,
    queues_of_all_lengths,
    blocks_are_left_to_many_receivers,
    the_last_receiver_goes_while_messages_come,
    the_last_sender_goes_while_messages_are_taken,
    room_that_is_kept_and_room_that_is_taken,
}

/// Odd numbers of threads, and buffers around the sizes at which something changes.
fn small_buffers_keep_order_and_messages<L: Leg>() {
    const EACH: usize = 500;
    L::new().run(|| {
        for (capacity, senders, receivers) in
            [(1, 3, 1), (1, 1, 3), (2, 3, 5), (3, 5, 3), (4, 7, 1), (63, 3, 3), (64, 1, 5), (65, 5, 2)]
        {
            let (s, r) = bounded(capacity);
            let senders: Vec<_> = (0..senders)
                .map(|me| {
                    let s = s.clone();
                    thread::spawn(move || (0..EACH).for_each(|n| s.send((me, n)).unwrap()))
                })
                .collect();
            drop(s);
            let receivers: Vec<_> = (0..receivers)
                .map(|_| r.clone())
                .map(|r| thread::spawn(move || r.iter().collect::<Vec<_>>()))
                .collect();
            drop(r);
            let mut all = Vec::new();
            for receiver in receivers {
                let got = receiver.join().unwrap();
                for me in 0..senders.len() {
                    assert!(got.iter().filter(|(of, _)| *of == me).is_sorted(), "out of order");
                }
                all.extend(got);
            }
            all.sort_unstable();
            let sent = (0..senders.len()).flat_map(|me| (0..EACH).map(move |n| (me, n)));
            assert!(all.into_iter().eq(sent), "lost or doubled");
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        }
    });
}

fn lengths_stay_within_the_capacity<L: Leg>() {
    L::new().run(|| {
        for capacity in [1, 2, 3, 10, 64, 100] {
            let (s, r) = bounded(capacity);
            let over = Arc::new(AtomicBool::new(false));
            let (t, stop) = (s.clone(), over.clone());
            let watcher = thread::spawn(move || {
                let mut looks = 0;
                while !stop.load(SeqCst) || looks == 0 {
                    let len = t.len();
                    assert!(len <= capacity, "{len} in {capacity}");
                    looks += 1;
                    thread::yield_now();
                }
            });
            let sender = thread::spawn(move || {
                (0..2000).for_each(|n| s.send(n).unwrap());
                s
            });
            assert!((0..2000).all(|n| r.recv() == Ok(n)));
            let s = sender.join().unwrap();
            over.store(true, SeqCst);
            watcher.join().unwrap();
            assert!(s.is_empty() && r.is_empty() && !s.is_full());
            (0..capacity).for_each(|n| s.send(n).unwrap());
            assert!(s.is_full() && r.len() == capacity);
        }
    });
}

/// Filled and emptied, and dropped with some left.
fn queues_of_all_lengths<L: Leg>() {
    L::new().run(|| {
        let token = Arc::new(());
        let (s, r) = unbounded();
        let mut left = 0;
        for length in [0, 1, 31, 62, 63, 64, 65, 66, 127, 128, 129, 1000, 1, 64, 5000, 3] {
            for n in 0..length {
                s.send((n, token.clone())).unwrap();
            }
            assert_eq!(s.len(), length + left);
            let keep = length / 3;
            for _ in 0..left + length - keep {
                r.recv().unwrap();
            }
            left = keep;
            assert_eq!((r.len(), Arc::strong_count(&token)), (left, left + 1));
            let (t, u) = unbounded();
            (0..length).for_each(|n| t.send((n, token.clone())).unwrap());
            (0..length / 2).for_each(|n| assert_eq!(u.recv().unwrap().0, n));
            drop((t, u));
            assert_eq!(Arc::strong_count(&token), left + 1);
        }
    });
}

fn blocks_are_left_to_many_receivers<L: Leg>() {
    const ALL: usize = 20_000;
    L::new().run(|| {
        let (s, r) = unbounded();
        let sum = Arc::new(AtomicUsize::new(0));
        let receivers: Vec<_> = (0..7)
            .map(|_| {
                let (r, sum) = (r.clone(), sum.clone());
                thread::spawn(move || r.iter().for_each(|n: Box<usize>| _ = sum.fetch_add(*n, SeqCst)))
            })
            .collect();
        drop(r);
        for n in 0..ALL {
            s.send(Box::new(n)).unwrap();
            if n % 1000 == 0 {
                // They catch up now and then.
                thread::yield_now();
            }
        }
        drop(s);
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        assert_eq!(sum.load(SeqCst), ALL * (ALL - 1) / 2);
    });
}

fn the_last_receiver_goes_while_messages_come<L: Leg>() {
    L::new().run(|| {
        for round in 0..60 {
            let token = Arc::new(());
            let (s, r) = if round % 2 == 0 { unbounded() } else { bounded(round) };
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let (s, token) = (s.clone(), token.clone());
                    // Not forever: where threads are not preempted, no other would run.
                    thread::spawn(move || (0..1000).all(|_| s.send(token.clone()).is_ok()))
                })
                .collect();
            (0..round * 5).for_each(|_| drop(r.recv().unwrap()));
            drop(r);
            senders.into_iter().for_each(|sender| _ = sender.join().unwrap());
            assert_eq!(Arc::strong_count(&token), 1, "a message is lost, or dropped twice");
            assert!(s.is_empty() && s.send(token).is_err());
        }
    });
}

fn the_last_sender_goes_while_messages_are_taken<L: Leg>() {
    L::new().run(|| {
        for round in 0..60 {
            let (s, r) = if round % 2 == 0 { unbounded() } else { bounded(round) };
            let receivers: Vec<_> =
                (0..3).map(|_| r.clone()).map(|r| thread::spawn(move || r.iter().sum::<usize>())).collect();
            (0..round * 5).for_each(|n| s.send(n).unwrap());
            drop(s);
            let sum: usize = receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum();
            let all = round * 5;
            assert_eq!(sum, all * all.saturating_sub(1) / 2, "what was sent before the end is received");
            assert!(r.recv().is_err());
        }
    });
}

/// Selected sends keep room, while others send and receive without looking at them.
fn room_that_is_kept_and_room_that_is_taken<L: Leg>() {
    const EACH: usize = 400;
    L::new().run(|| {
        for capacity in [1, 2, 3, 64] {
            let (s, r) = bounded(capacity);
            let mut threads = Vec::new();
            for selects in [true, false, true] {
                let s = s.clone();
                threads.push(thread::spawn(move || {
                    for n in 1..=EACH {
                        if selects {
                            let message = || {
                                thread::yield_now();
                                n
                            };
                            select! { send(s, message()) -> sent => sent.unwrap() }
                        } else {
                            s.send(n).unwrap();
                        }
                    }
                }));
            }
            drop(s);
            let received: usize = (0..2)
                .map(|_| r.clone())
                .map(|r| thread::spawn(move || r.iter().sum::<usize>()))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|receiver| receiver.join().unwrap())
                .sum();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(received, 3 * EACH * (EACH + 1) / 2);
        }
    });
}
