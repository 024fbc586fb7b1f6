//! Selecting: one of several is done and no other, none is missed, each has its chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::channel::{
    RecvError, Select, SendError, TryRecvError, bounded, never, rendezvous, select, select_biased, unbounded,
};
use selvedge::{Runtime, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    what_is_ready_is_done,
    default_is_for_when_nothing_is,
    a_timeout_ends_a_select,
    all_that_are_ready_have_their_chance,
    all_that_wait_have_their_chance,
    the_first_is_preferred_if_asked,
    a_biased_select_can_be_cloned,
    messages_are_sent_by_selects_only,
    the_end_of_the_other_side_is_ready,
    a_message_is_made_when_it_is_wanted,
    two_that_select_agree,
    no_thread_meets_itself,
    nothing_is_lost_where_a_select_loses,
    many_select_at_a_rendezvous,
}

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_millis(3);

fn what_is_ready_is_done<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (s1, r1) = unbounded();
        let (s2, r2) = bounded(1);
        s1.send(1).unwrap();
        let got = select! {
            recv(r1) -> n => n.unwrap(),
            recv(r2) -> n => n.unwrap(),
        };
        assert_eq!((got, r1.len()), (1, 0));
        select! {
            recv(r1) -> _ => unreachable!(),
            send(s2, 5) -> sent => sent.unwrap(),
        }
        assert_eq!(r2.recv(), Ok(5));
        let waiter = thread::spawn(move || {
            select! {
                recv(r1) -> n => (1, n.unwrap()),
                recv(r2) -> n => (2, n.unwrap()),
            }
        });
        until_waits(&rt, &waiter);
        s2.send(7).unwrap();
        assert_eq!(waiter.join().unwrap(), (2, 7));
    });
}

fn default_is_for_when_nothing_is<L: Leg>() {
    L::new().run(|| {
        let (s, r) = bounded(1);
        let mut looks = Vec::new();
        for _ in 0..2 {
            looks.push(select! { recv(r) -> n => n, default => Ok(0), });
            s.send(7).unwrap();
            looks.push(select! { recv(r) -> n => n, default() => Ok(0) });
        }
        assert_eq!(looks, [Ok(0), Ok(7), Ok(0), Ok(7)]);
        assert_eq!(select! { default => 3 }, 3);
        assert!(Select::new().try_select().is_err());
    });
}

fn a_timeout_ends_a_select<L: Leg>() {
    L::new().run(|| {
        let (s, r) = rendezvous::<u32>();
        let start = Instant::now();
        assert!(select! {
            recv(r) -> _ => false,
            recv(never::<u32>()) -> _ => false,
            default(SHORT) => true,
        });
        assert!(select! { send(s, 1) -> _ => false, default(SHORT) => true });
        select! { default(SHORT) => {} }
        assert!(start.elapsed() >= 3 * SHORT);
        let mut sel = Select::new();
        sel.recv(&r);
        assert!(sel.select_timeout(SHORT).is_err() && sel.select_deadline(Instant::now() + SHORT).is_err());
        assert!(sel.ready_timeout(SHORT).is_err() && sel.ready_deadline(Instant::now() + SHORT).is_err());
        assert!(sel.try_select().is_err() && sel.try_ready().is_err());
        assert!(start.elapsed() >= 7 * SHORT);
    });
}

fn all_that_are_ready_have_their_chance<L: Leg>() {
    L::new().run(|| {
        let channels: Vec<_> = (0..3).map(|_| unbounded()).collect();
        let full = || {
            channels.iter().for_each(|(s, r)| {
                if r.is_empty() {
                    s.send(()).unwrap()
                }
            })
        };
        let mut hits = [0; 4];
        for _ in 0..1000 {
            full();
            select! {
                recv(channels[0].1) -> _ => hits[0] += 1,
                recv(channels[1].1) -> _ => hits[1] += 1,
                recv(channels[2].1) -> _ => hits[2] += 1,
                recv(channels[2].1) -> _ => hits[3] += 1,
            }
        }
        assert!(hits.iter().all(|&n| n > 150), "{hits:?}");
        let mut hits = [0; 3];
        for _ in 0..900 {
            full();
            let mut sel = Select::new();
            channels.iter().for_each(|(_, r)| _ = sel.recv(r));
            let selected = sel.select();
            let index = selected.index();
            selected.recv(&channels[index].1).unwrap();
            hits[index] += 1;
        }
        assert!(hits.iter().all(|&n| n > 200), "{hits:?}");
    });
}

/// A select that waits twice at one channel is served at either place.
fn all_that_wait_have_their_chance<L: Leg>() {
    L::new().run(|| {
        let (s, r) = rendezvous();
        let waiter = thread::spawn(move || {
            let mut hits = [0; 3];
            for _ in 0..600 {
                select! {
                    recv(r) -> _ => hits[0] += 1,
                    recv(r) -> _ => hits[1] += 1,
                    recv(r) -> _ => hits[2] += 1,
                }
            }
            hits
        });
        (0..600).for_each(|_| s.send(()).unwrap());
        let hits = waiter.join().unwrap();
        assert!(hits.iter().all(|&n| n > 100), "{hits:?}");
    });
}

fn the_first_is_preferred_if_asked<L: Leg>() {
    L::new().run(|| {
        let (s, r) = unbounded();
        for n in 0..50 {
            s.send(n).unwrap();
            let got = select_biased! {
                recv(never::<i32>()) -> _ => -1,
                recv(r) -> n => n.unwrap(),
                send(s, n) -> _ => -1,
                default => -1,
            };
            assert_eq!(got, n);
        }
    });
}

fn a_biased_select_can_be_cloned<L: Leg>() {
    L::new().run(|| {
        let (s, r) = unbounded();
        let mut select = Select::new_biased();
        let receives = select.recv(&r);
        let sends = select.send(&s);
        for select in [&mut select.clone(), &mut select] {
            for n in 0..50 {
                let operation = select.select();
                assert_eq!(operation.index(), sends);
                operation.send(&s, n).unwrap();
                let operation = select.select();
                assert_eq!(operation.index(), receives);
                assert_eq!(operation.recv(&r), Ok(n));
            }
        }
    });
}

/// More messages than fit in one part of a channel's memory.
fn messages_are_sent_by_selects_only<L: Leg>() {
    const MESSAGES: u32 = 500;
    L::new().run(|| {
        for (s, r) in [unbounded(), bounded(MESSAGES as usize), bounded(3)] {
            let sender = thread::spawn(move || {
                for n in 0..MESSAGES {
                    select! {
                        recv(never::<()>()) -> _ => unreachable!(),
                        send(s, n) -> sent => sent.unwrap(),
                    }
                }
            });
            let receiver = thread::spawn(move || {
                for n in 0..MESSAGES {
                    let got = select! {
                        recv(r) -> got => got,
                        recv(never()) -> got => got,
                    };
                    assert_eq!(got, Ok(n));
                }
            });
            sender.join().unwrap();
            receiver.join().unwrap();
        }
    });
}

fn the_end_of_the_other_side_is_ready<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        for (s, r) in [rendezvous::<u32>(), bounded(1), unbounded()] {
            let waiter = thread::spawn(move || {
                select! {
                    recv(r) -> n => n,
                    recv(never()) -> n => n,
                }
            });
            thread::yield_now();
            drop(s);
            assert_eq!(waiter.join().unwrap(), Err(RecvError));
        }
        for (s, r) in [rendezvous(), bounded(1)] {
            let _ = s.try_send(0);
            let waiter = thread::spawn(move || {
                select! {
                    send(s, 5) -> sent => sent,
                    recv(never::<u32>()) -> _ => unreachable!(),
                }
            });
            until_waits(&rt, &waiter);
            drop(r);
            assert_eq!(waiter.join().unwrap(), Err(SendError(5)));
        }
    });
}

fn a_message_is_made_when_it_is_wanted<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (s, r) = bounded(1);
        let mut made = 0;
        for _ in 0..2 {
            select! {
                send(s, { made += 1; made }) -> sent => sent.unwrap(),
                default => {}
            }
        }
        assert_eq!((made, r.recv()), (1, Ok(1)));
        // While it is made, which may take its time, the room is kept, and the receiver waits on.
        for (s, r) in [rendezvous(), bounded(1)] {
            let receiver = thread::spawn(move || (r.recv_timeout(LONG), r));
            let slow = || {
                until_waits(&rt, &receiver);
                7
            };
            select! { send(s, slow()) -> sent => sent.unwrap() }
            assert_eq!(receiver.join().unwrap().0, Ok(7));
        }
    });
}

fn two_that_select_agree<L: Leg>() {
    const ROUNDS: usize = 1000;
    L::new().run(|| {
        let ((s1, r1), (s2, r2)) = (rendezvous(), rendezvous());
        let (t1, u2) = (s1.clone(), r2.clone());
        // Each offers to send and to receive; whatever they agree on, both did it.
        let other = thread::spawn(move || {
            let mut balance = 0_isize;
            for _ in 0..ROUNDS {
                select! {
                    send(t1, 1) -> sent => { sent.unwrap(); balance += 1 }
                    recv(u2) -> got => { got.unwrap(); balance -= 1 }
                }
            }
            balance
        });
        let mut balance = 0_isize;
        for _ in 0..ROUNDS {
            select! {
                recv(r1) -> got => { got.unwrap(); balance -= 1 }
                send(s2, 1) -> sent => { sent.unwrap(); balance += 1 }
            }
        }
        assert_eq!(other.join().unwrap() + balance, 0);
    });
}

fn no_thread_meets_itself<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (s, r) = rendezvous();
        assert!(select! {
            send(s, 1) -> _ => false,
            recv(r) -> _ => false,
            default(SHORT) => true,
        });
        let (t, u) = (s.clone(), r.clone());
        let waiter = thread::spawn(move || {
            select! {
                send(t, 1) -> sent => { sent.unwrap(); 0 }
                recv(u) -> got => got.unwrap(),
            }
        });
        until_waits(&rt, &waiter);
        s.send(5).unwrap();
        assert_eq!(waiter.join().unwrap(), 5);
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    });
}

/// Two channels, threads that select from both, and threads that receive from one: every message arrives
/// once.
fn nothing_is_lost_where_a_select_loses<L: Leg>() {
    const EACH: usize = 400;
    L::new().run(|| {
        for capacity in [Some(0), Some(1), Some(2), None] {
            let make = || capacity.map_or_else(unbounded, bounded::<usize>);
            let ((s1, r1), (s2, r2)) = (make(), make());
            let total = Arc::new(AtomicUsize::new(0));
            let mut threads = Vec::new();
            for (s, t) in [(&s1, &s2), (&s2, &s1)] {
                let (s, t) = (s.clone(), t.clone());
                threads.push(thread::spawn(move || {
                    for n in 1..=EACH {
                        select! {
                            send(s, n) -> sent => sent.unwrap(),
                            send(t, n) -> sent => sent.unwrap(),
                        }
                    }
                }));
            }
            for s in [s1, s2] {
                threads.push(thread::spawn(move || (1..=EACH).for_each(|n| s.send(n).unwrap())));
            }
            for _ in 0..2 {
                let (r1, r2, total) = (r1.clone(), r2.clone(), Arc::clone(&total));
                threads.push(thread::spawn(move || {
                    let add = |n: Result<usize, RecvError>| n.map(|n| total.fetch_add(n, SeqCst)).is_ok();
                    while select! { recv(r1) -> n => add(n), recv(r2) -> n => add(n) } {}
                    r1.iter().chain(r2.iter()).for_each(|n| _ = total.fetch_add(n, SeqCst));
                }));
            }
            for r in [r1, r2] {
                let total = Arc::clone(&total);
                threads.push(thread::spawn(move || _ = total.fetch_add(r.iter().sum(), SeqCst)));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(total.load(SeqCst), 4 * EACH * (EACH + 1) / 2);
        }
    });
}

fn many_select_at_a_rendezvous<L: Leg>() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 200;
    L::new().run(|| {
        let (s, r) = rendezvous();
        let sent = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..THREADS)
            .map(|me| {
                let (s, r, sent) = (s.clone(), r.clone(), Arc::clone(&sent));
                thread::spawn(move || {
                    let mut received = 0;
                    for _ in 0..ROUNDS {
                        select! {
                            send(s, me) -> done => { done.unwrap(); sent.fetch_add(1, SeqCst); }
                            recv(r) -> from => { assert_ne!(from.unwrap(), me); received += 1 }
                            default(SHORT) => {}
                        }
                    }
                    received
                })
            })
            .collect();
        let received: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(received, sent.load(SeqCst));
        assert_ne!(received, 0);
    });
}
