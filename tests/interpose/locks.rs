//! std's locks, channels and parking, and what is built on the same calls, in thousands of green threads.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::time::{Duration, Instant};

use selvedge::thread::{ThreadState, WaitReason};
use selvedge::{LwpState, Mxn, Runtime, thread};

use crate::waiting::until_waits;
use crate::watchdog::Watchdog;
use crate::{all, green};

#[test]
fn std_locks_exclude_each_other() {
    green("std's locks exclude each other", |_| {
        const EACH: usize = 500;
        let counts = Arc::new((Mutex::new(0_usize), RwLock::new(0_usize), parking_lot::Mutex::new(0_usize)));
        let shared = Arc::clone(&counts);
        all(64, move |number| {
            for turn in 0..EACH {
                *shared.0.lock().unwrap() += 1;
                if turn % 16 == number % 16 {
                    let mut value = shared.1.write().unwrap();
                    let before = *value;
                    thread::yield_now();
                    *value = before + 1;
                } else {
                    let value = shared.1.read().unwrap();
                    assert!(*value <= 64 * EACH);
                }
                let mut value = shared.2.lock();
                let before = *value;
                if turn % 32 == 0 {
                    thread::yield_now();
                }
                *value = before + 1;
            }
        });
        assert_eq!(*counts.0.lock().unwrap(), 64 * EACH);
        let written = (0..64).map(|number| (0..EACH).filter(|turn| turn % 16 == number % 16).count()).sum();
        assert_eq!(*counts.1.read().unwrap(), written);
        assert_eq!(*counts.2.lock(), 64 * EACH);
    });
}

#[test]
fn std_channels_and_barriers_hand_over() {
    green("std's channels and barriers hand over", |_| {
        let barrier = Arc::new(Barrier::new(33));
        let passed = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = mpsc::sync_channel(2);
        let threads: Vec<_> = (0..32)
            .map(|number| {
                let (barrier, passed, sender) = (Arc::clone(&barrier), Arc::clone(&passed), sender.clone());
                thread::spawn(move || {
                    for round in 1..=20 {
                        barrier.wait();
                        passed.fetch_add(1, SeqCst);
                        barrier.wait();
                        assert_eq!(passed.load(SeqCst), 32 * round);
                        sender.send((number, round)).unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        for _ in 0..20 {
            barrier.wait();
            barrier.wait();
            let round: Vec<_> = receiver.iter().take(32).collect();
            assert_eq!(round.iter().map(|&(number, _)| number).sum::<usize>(), 31 * 32 / 2);
        }
        threads.into_iter().for_each(|it| it.join().unwrap());
        assert!(receiver.recv().is_err());
    });
}

#[test]
fn std_parking_wakes_and_times_out() {
    green("std's parking wakes and times out", |rt| {
        let (sender, receiver) = mpsc::channel();
        let parked = thread::spawn(move || {
            sender.send(std::thread::current()).unwrap();
            std::thread::park();
            let start = Instant::now();
            std::thread::park_timeout(Duration::from_millis(10));
            assert!(start.elapsed() >= Duration::from_millis(10));
        });
        let handle = receiver.recv().unwrap();
        until_waits(rt, &parked);
        handle.unpark();
        parked.join().unwrap();

        let pair = (Mutex::new(()), Condvar::new());
        let (_guard, result) = pair.1.wait_timeout(pair.0.lock().unwrap(), Duration::from_millis(3)).unwrap();
        assert!(result.timed_out());
        assert!(mpsc::channel::<()>().1.recv_timeout(Duration::from_millis(3)).is_err());
    });
}

#[test]
fn others_channels_hand_over() {
    green("others' channels hand over", |_| {
        let (requests, serve) = crossbeam_channel::bounded::<(u32, flume::Sender<u32>)>(0);
        let servers: Vec<_> = (0..4)
            .map(|_| {
                let serve = serve.clone();
                thread::spawn(move || serve.iter().for_each(|(value, reply)| reply.send(value + 1).unwrap()))
            })
            .collect();
        let clients = requests.clone();
        all(50, move |number| {
            let (reply, answer) = flume::bounded(0);
            for value in 0..20 {
                clients.send((value + number as u32, reply.clone())).unwrap();
                assert_eq!(answer.recv().unwrap(), value + number as u32 + 1);
            }
        });
        drop(requests);
        servers.into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn one_thread_initializes_and_the_others_wait() {
    green("one thread initializes and the others wait", |_| {
        let cells = Arc::new((Once::new(), OnceLock::new(), AtomicUsize::new(0)));
        let shared = Arc::clone(&cells);
        let values = all(40, move |number| {
            let count = || {
                std::thread::sleep(Duration::from_millis(2));
                shared.2.fetch_add(1, SeqCst);
            };
            shared.0.call_once(count);
            *shared.1.get_or_init(|| {
                count();
                number
            })
        });
        assert!(values.iter().all(|value| *value == values[0]));
        assert_eq!(cells.2.load(SeqCst), 2);
    });
}

/// Ten thousand green threads wait in primitives of std, parking_lot and crossbeam. No kernel thread waits
/// with them: there are as many as without them.
#[test]
fn ten_thousand_waiters_hold_no_kernel_threads() {
    let _watchdog = Watchdog::start("ten thousand waiters hold no kernel threads");
    const EACH: usize = 2_500;
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let stop = Arc::new((Mutex::new(false), Condvar::new()));
    let (opener, open) = crossbeam_channel::bounded::<()>(0);
    let gate = Arc::new((parking_lot::Mutex::new(false), parking_lot::Condvar::new()));
    let parked = Arc::new(AtomicBool::new(false));
    let wait: [Arc<dyn Fn() + Send + Sync>; 4] = [
        {
            let stop = Arc::clone(&stop);
            Arc::new(move || drop(stop.1.wait_while(stop.0.lock().unwrap(), |stop| !*stop).unwrap()))
        },
        Arc::new(move || assert!(open.recv().is_err())),
        {
            let gate = Arc::clone(&gate);
            Arc::new(move || gate.1.wait_while(&mut gate.0.lock(), |open| !*open))
        },
        {
            let parked = Arc::clone(&parked);
            Arc::new(move || {
                while !parked.load(SeqCst) {
                    std::thread::park_timeout(Duration::from_secs(200));
                }
            })
        },
    ];
    let handles = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..4 * EACH)
        .map(|number| {
            let (wait, handles) = (Arc::clone(&wait[number % 4]), Arc::clone(&handles));
            let body = move || {
                handles.lock().unwrap().push(std::thread::current());
                wait();
            };
            thread::Builder::new().spawn_on(&rt, body).unwrap()
        })
        .collect();
    let waits = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Futex, .. });
    while rt.threads().iter().filter(|it| waits(it.state())).count() < 4 * EACH {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(rt.stats().count(LwpState::InKernel), 0, "{}", rt.stats());
    parked.store(true, SeqCst);
    handles.lock().unwrap().iter().for_each(std::thread::Thread::unpark);
    drop(opener);
    *gate.0.lock() = true;
    gate.1.notify_all();
    *stop.0.lock().unwrap() = true;
    stop.1.notify_all();
    threads.into_iter().for_each(|it| it.join().unwrap());
}
