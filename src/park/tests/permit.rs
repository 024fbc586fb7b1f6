//! `park` and `unpark` between kernel threads.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::watched;
use crate::park::current::current;
use crate::park::permit::{park, sleep, unpark};
use crate::park::reason::WaitReason;
use crate::park::wait::Wait;

fn park_for(timeout: Duration) -> bool {
    park(|| Wait::timeout(timeout), WaitReason::Park).is_ok()
}

#[test]
fn a_token_that_came_before_is_not_lost_and_not_doubled() {
    let _watched = watched();
    let me = current();
    unpark(me);
    unpark(me);
    assert!(park(|| unreachable!("the clock is not asked"), WaitReason::Park).is_ok());
    assert!(!park_for(Duration::from_millis(1)));
}

#[test]
fn a_deadline_ends_a_park_and_not_before() {
    let _watched = watched();
    let timeout = Duration::from_millis(20);
    let begin = Instant::now();
    assert!(!park_for(timeout));
    assert!(begin.elapsed() >= timeout);
    // Once more: the first one has left nothing behind.
    assert!(!park_for(Duration::ZERO));
}

#[test]
fn a_sleep_ends_on_time_and_ignores_tokens() {
    let _watched = watched();
    let begin = Instant::now();
    unpark(current());
    sleep(Wait::timeout(Duration::from_millis(20))).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(20));
    assert!(park_for(Duration::ZERO), "the token is still there");
}

/// Each side sleeps until the other's token. Covers both spinning and sleeping, with the writes visible.
#[test]
fn tokens_go_to_and_fro() {
    const ROUNDS: u64 = 20_000;
    let _watched = watched();
    let turn = std::sync::atomic::AtomicU64::new(0);
    let (send_a, receive_a) = mpsc::channel();
    let (send_b, receive_b) = mpsc::channel();
    let play = |mine: u64, send: mpsc::Sender<_>, receive: mpsc::Receiver<_>| {
        let me = current().retain();
        send.send(me).unwrap();
        let other = receive.recv().unwrap();
        for round in 0..ROUNDS {
            while turn.load(std::sync::atomic::Ordering::Relaxed) != 2 * round + mine {
                let _ = park(Wait::forever, WaitReason::Park);
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
}
