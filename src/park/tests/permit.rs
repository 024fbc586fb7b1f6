//! `park` and `unpark` between kernel threads.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::watched;
use crate::park::current::current;
use crate::park::permit::{park, sleep_until, unpark};
use crate::park::reason::WaitReason;
use crate::time;

fn park_for(timeout: Duration) -> bool {
    park(|| time::after(timeout), WaitReason::Park)
}

#[test]
fn a_token_that_came_before_is_not_lost_and_not_doubled() {
    watched(|| {
        let me = current();
        unpark(me);
        unpark(me);
        assert!(park(|| unreachable!("the clock is not asked"), WaitReason::Park));
        assert!(!park_for(Duration::from_millis(1)));
    });
}

#[test]
fn a_deadline_ends_a_park_and_not_before() {
    watched(|| {
        let timeout = Duration::from_millis(20);
        let begin = Instant::now();
        assert!(!park_for(timeout));
        assert!(begin.elapsed() >= timeout);
        // And again: the first one has left nothing behind.
        assert!(!park_for(Duration::ZERO));
    });
}

#[test]
fn sleep_until_ends_on_time_and_ignores_tokens() {
    watched(|| {
        let begin = Instant::now();
        unpark(current());
        sleep_until(time::after(Duration::from_millis(20)));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert!(park_for(Duration::ZERO), "the token is still there");
    });
}

/// Each side sleeps until the other's token: spinning and sleeping paths both, with the writes visible.
#[test]
fn tokens_go_to_and_fro() {
    const ROUNDS: u64 = 20_000;
    watched(|| {
        let turn = std::sync::atomic::AtomicU64::new(0);
        let (send_a, receive_a) = mpsc::channel();
        let (send_b, receive_b) = mpsc::channel();
        let play = |mine: u64, send: mpsc::Sender<_>, receive: mpsc::Receiver<_>| {
            let me = current().retain();
            send.send(me).unwrap();
            let other = receive.recv().unwrap();
            for round in 0..ROUNDS {
                while turn.load(std::sync::atomic::Ordering::Relaxed) != 2 * round + mine {
                    park(|| None, WaitReason::Park);
                }
                turn.store(2 * round + mine + 1, std::sync::atomic::Ordering::Relaxed);
                unpark(other);
            }
            other.release();
        };
        std::thread::scope(|s| {
            s.spawn(|| play(0, send_a, receive_b));
            s.spawn(|| play(1, send_b, receive_a));
        });
    });
}
