//! Receivers of moments, and channels under time pressure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::channel::{
    RecvTimeoutError, TryRecvError, after, at, bounded, never, rendezvous, tick, unbounded,
};
use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    moments_come_in_time,
    a_moment_comes_once,
    one_clone_gets_the_moment,
    ticks_do_not_pile_up,
    ticks_are_shared,
    ticks_do_not_drift,
    never_never_comes,
    a_pair_plays_ping_pong,
    a_ring_passes_a_token,
    large_messages_pass,
    timeouts_and_messages_agree,
}

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_millis(5);

fn moments_come_in_time<L: Leg>() {
    L::new().run(|| {
        let start = Instant::now();
        let moment = start + SHORT;
        for r in [after(SHORT), at(moment)] {
            assert_eq!(r.capacity(), Some(1));
            let got = r.recv().unwrap();
            assert!(got >= moment && Instant::now() >= got);
        }
        // One that has passed is there at once.
        let r = at(start);
        assert!(!r.is_empty() && r.is_full() && r.len() == 1);
        assert_eq!((r.try_recv(), r.try_recv()), (Ok(start), Err(TryRecvError::Empty)));
        assert!(r.is_empty() && !r.is_full());
        assert_eq!(after(Duration::ZERO).recv_timeout(LONG).map(|moment| moment <= Instant::now()), Ok(true));
        // One that the clock cannot count to does not come.
        assert_eq!(after(Duration::MAX).recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        assert!(after(LONG).try_recv().is_err());
        assert_eq!(after(LONG).recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        assert_eq!(at(Instant::now() + LONG).recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
    });
}

fn a_moment_comes_once<L: Leg>() {
    L::new().run(|| {
        let r = after(Duration::from_millis(1));
        assert!(r.recv().is_ok());
        assert_eq!(
            r.recv_timeout(SHORT),
            Err(RecvTimeoutError::Timeout),
            "never disconnected, and never again"
        );
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    });
}

fn one_clone_gets_the_moment<L: Leg>() {
    L::new().run(|| {
        for _ in 0..10 {
            let r = after(SHORT / 2);
            let waiters: Vec<_> = (0..4)
                .map(|_| r.clone())
                .map(|clone| {
                    assert!(clone.same_channel(&r));
                    thread::spawn(move || clone.recv_timeout(2 * SHORT).is_ok())
                })
                .collect();
            let got = waiters.into_iter().filter(|_| true).map(|waiter| waiter.join().unwrap());
            assert_eq!(got.filter(|&got| got).count(), 1);
        }
    });
}

fn ticks_do_not_pile_up<L: Leg>() {
    L::new().run(|| {
        let start = Instant::now();
        let r = tick(SHORT);
        let first = r.recv().unwrap();
        assert!(first >= start + SHORT);
        thread::sleep(4 * SHORT);
        assert_eq!(r.len(), 1, "those that were not taken");
        let before = Instant::now();
        let late = r.recv().unwrap();
        assert!(late >= first + SHORT && late <= Instant::now());
        // The next one comes a period after the late one was taken.
        assert!(r.recv().unwrap() >= before + SHORT);
        for _ in 0..3 {
            let before = r.recv().unwrap();
            assert!(r.recv().unwrap() >= before + SHORT);
        }
    });
}

fn ticks_are_shared<L: Leg>() {
    L::new().run(|| {
        let start = Instant::now();
        let r = tick(SHORT / 2);
        let waiters: Vec<_> = (0..3)
            .map(|_| r.clone())
            .map(|r| thread::spawn(move || (0..4).map(|_| r.recv().unwrap()).collect::<Vec<_>>()))
            .collect();
        let mut all: Vec<_> = waiters.into_iter().flat_map(|waiter| waiter.join().unwrap()).collect();
        assert!(start.elapsed() >= 12 * SHORT / 2);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12, "a tick was received twice");
    });
}

/// However late the receiver wakes up, the next tick is a period after the last. If the receiver slept
/// through that, the next tick is at least two periods after the last.
fn ticks_do_not_drift<L: Leg>() {
    L::new().run(|| {
        let r = tick(SHORT);
        let (mut last, mut in_time) = (r.recv().unwrap(), 0);
        // A busy machine may be late for many.
        while in_time < 10 {
            let next = r.recv().unwrap();
            let step = next - last;
            assert!(step == SHORT || step >= 2 * SHORT, "{step:?}");
            in_time += u32::from(step == SHORT);
            last = next;
        }
    });
}

fn never_never_comes<L: Leg>() {
    L::new().run(|| {
        let r = never::<u32>();
        assert_eq!((r.len(), r.capacity(), r.is_empty(), r.is_full()), (0, Some(0), true, true));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        let start = Instant::now();
        assert_eq!(r.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        assert!(start.elapsed() >= SHORT);
        assert!(r.same_channel(&never()));
        assert!(!never::<Instant>().same_channel(&after(LONG)));
    });
}

fn a_pair_plays_ping_pong<L: Leg>() {
    L::new().run(|| {
        for capacity in [0, 1] {
            let ((there, from_here), (back, from_there)) = (bounded(capacity), bounded(capacity));
            let other = thread::spawn(move || {
                for n in from_here {
                    back.send(n + 1).unwrap();
                }
            });
            let mut n = 0;
            for _ in 0..2000 {
                there.send(n).unwrap();
                n = from_there.recv().unwrap();
            }
            drop(there);
            other.join().unwrap();
            assert_eq!(n, 2000);
        }
    });
}

fn a_ring_passes_a_token<L: Leg>() {
    const MEMBERS: usize = 20;
    L::new().run(|| {
        let (first, mut r) = rendezvous::<usize>();
        let mut members = Vec::new();
        for _ in 0..MEMBERS {
            let (s, next) = rendezvous();
            let from = std::mem::replace(&mut r, next);
            members.push(thread::spawn(move || from.iter().for_each(|n| s.send(n + 1).unwrap())));
        }
        for round in 0..50 {
            first.send(round).unwrap();
            assert_eq!(r.recv(), Ok(round + MEMBERS));
        }
        drop(first);
        assert!(r.recv().is_err());
        members.into_iter().for_each(|member| member.join().unwrap());
    });
}

fn large_messages_pass<L: Leg>() {
    L::new().run(|| {
        for (s, r) in [rendezvous(), bounded(2), unbounded()] {
            let sender = thread::spawn(move || (0..50_u8).for_each(|n| s.send([n; 3000]).unwrap()));
            for n in 0..50 {
                assert!(r.recv().unwrap().iter().all(|&byte| byte == n));
            }
            sender.join().unwrap();
        }
        // And those that are nothing at all.
        let (s, r) = bounded(3);
        let sender = thread::spawn(move || (0..1000).for_each(|_| s.send(()).unwrap()));
        assert_eq!(r.iter().count(), 1000);
        sender.join().unwrap();
    });
}

/// Timeouts race with messages: whatever was sent was received.
fn timeouts_and_messages_agree<L: Leg>() {
    const ROUNDS: u64 = 300;
    L::new().run(|| {
        for (s, r) in [rendezvous(), bounded(1), bounded(3)] {
            let sent = Arc::new(AtomicUsize::new(0));
            let received = Arc::new(AtomicUsize::new(0));
            let senders: Vec<_> = (0..2)
                .map(|_| (s.clone(), Arc::clone(&sent)))
                .map(|(s, sent)| {
                    thread::spawn(move || {
                        for round in 0..ROUNDS {
                            let timeout = Duration::from_micros(round % 40);
                            sent.fetch_add(usize::from(s.send_timeout(round, timeout).is_ok()), SeqCst);
                        }
                    })
                })
                .collect();
            drop(s);
            let receivers: Vec<_> = (0..2)
                .map(|_| (r.clone(), Arc::clone(&received)))
                .map(|(r, received)| {
                    thread::spawn(move || {
                        for round in 0.. {
                            match r.recv_timeout(Duration::from_micros(round % 30)) {
                                Ok(_) => _ = received.fetch_add(1, SeqCst),
                                Err(RecvTimeoutError::Timeout) => {}
                                Err(RecvTimeoutError::Disconnected) => break,
                            }
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(|thread| thread.join().unwrap());
            receivers.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(sent.load(SeqCst), received.load(SeqCst));
            assert!(r.is_empty());
        }
    });
}
