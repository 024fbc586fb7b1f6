//! Selecting what is no message: moments, the ends of threads, readiness.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::channel::{
    Receiver, RecvError, Select, Sender, after, at, bounded, never, rendezvous, select, tick, unbounded,
};
use selvedge::thread::{Builder, JoinHandle};
use selvedge::{OneToOne, Runtime, Wait, WaitError, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    moments_are_selected,
    the_moment_of_one_select_does_not_end_another,
    a_place_is_evaluated_once,
    ends_of_threads_are_selected,
    a_thread_that_is_not_selected_is_not_joined,
    scoped_and_bound_threads_are_joined_too,
    ends_and_messages_race,
    two_ends_race,
    readiness_is_told,
    readiness_is_told_to_all,
    operations_come_and_go,
    interrupts_end_selects,
    kinds_of_threads_select_together,
    a_select_in_a_loop_with_control_flow,
}

const LONG: Duration = Duration::from_secs(1000);
const SHORT: Duration = Duration::from_millis(3);

fn moments_are_selected<L: Leg>() {
    L::new().run(|| {
        let (_s, r) = rendezvous::<u32>();
        let start = Instant::now();
        let moment = start + SHORT;
        let got = select! {
            recv(r) -> _ => unreachable!(),
            recv(at(moment)) -> got => got.unwrap(),
            recv(after(LONG)) -> _ => unreachable!(),
            default(LONG) => unreachable!(),
        };
        assert!(got == moment && start.elapsed() >= SHORT);
        let last = Instant::now() + 10 * SHORT;
        let (ticks, end) = (tick(SHORT), at(last));
        let mut count = 0;
        loop {
            select! {
                // If the thread is late for the end, a later tick may be chosen before that.
                recv(ticks) -> tick => count += usize::from(tick.unwrap() <= last),
                recv(end) -> _ => break,
            }
        }
        // No tick is counted if the thread got no CPU until both were ready.
        assert!(count <= 10, "{count}");
        ticks.recv().unwrap();
        assert!(start.elapsed() >= 10 * SHORT);
        // Two that select one moment: one gets it.
        let shared = after(SHORT);
        let waiters: Vec<_> = (0..2)
            .map(|_| shared.clone())
            .map(|r| thread::spawn(move || select! { recv(r) -> _ => true, default(4 * SHORT) => false }))
            .collect();
        assert_eq!(
            waiters.into_iter().filter(|_| true).map(|w| w.join().unwrap()).filter(|&got| got).count(),
            1
        );
    });
}

/// Two selects wait for one moment. The one that does not get it waits on until its own timeout.
fn the_moment_of_one_select_does_not_end_another<L: Leg>() {
    const MOMENT: Duration = Duration::from_millis(20);
    const TIMEOUT: Duration = Duration::from_millis(80);
    L::new().run(|| {
        let moment = after(MOMENT);
        let waiters = [moment.clone(), moment].map(|r| {
            thread::spawn(move || {
                let start = Instant::now();
                let got = select! { recv(r) -> _ => true, default(TIMEOUT) => false };
                (got, start.elapsed())
            })
        });
        let ended = waiters.map(|waiter| waiter.join().unwrap());
        assert_eq!(ended.iter().filter(|(got, _)| *got).count(), 1, "{ended:?}");
        assert!(ended.iter().all(|(got, after)| *got || *after >= TIMEOUT), "{ended:?}");
    });
}

/// `join` once evaluated its place, an index with a side effect, for the wait and again for the handle.
fn a_place_is_evaluated_once<L: Leg>() {
    struct Workers {
        first: Option<JoinHandle<u32>>,
        rest: (JoinHandle<u32>, u32),
    }
    L::new().run(|| {
        let mut handles = [1, 2].map(|n| Some(thread::spawn(move || n)));
        let mut looks = 0;
        let mut next = || {
            looks += 1;
            looks - 1
        };
        assert_eq!(select! { join(handles[next()]) -> result => result.unwrap() }, 1);
        assert_eq!(select! { join(handles[next()]) -> result => result.unwrap(), default(LONG) => 0 }, 2);
        assert!(handles.iter().all(Option::is_none) && looks == 2);

        let mut workers = Workers { first: Some(thread::spawn(|| 3)), rest: (thread::spawn(|| 4), 5) };
        let first = &mut workers.first;
        assert_eq!(select! { join(*first) -> result => result.unwrap() }, 3);
        assert!(select! { join(workers.first) -> _ => false, default => true });
        assert_eq!(select! { join(workers.rest.0) -> result => result.unwrap() }, 4);
        assert_eq!(workers.rest.1, 5);
    });
}

fn ends_of_threads_are_selected<L: Leg>() {
    L::new().run(|| {
        let handle = thread::spawn(|| 5);
        let mut ended = handle;
        while !ended.is_finished() {
            thread::yield_now();
        }
        assert_eq!(select! { join(ended) -> result => result.unwrap() }, 5);
        let mut later = thread::spawn(|| {
            thread::sleep(SHORT);
            6
        });
        let got = select! {
            join(later) -> result => result.unwrap(),
            recv(never::<i32>()) -> _ => unreachable!(),
            default(LONG) => unreachable!(),
        };
        assert_eq!(got, 6);
        let mut panics = thread::spawn(|| std::panic::resume_unwind(Box::new("on purpose")));
        let payload: Result<(), _> = select! { join(panics) -> result => result };
        assert_eq!(*payload.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
    });
}

fn a_thread_that_is_not_selected_is_not_joined<L: Leg>() {
    L::new().run(|| {
        let mut parked = thread::spawn(|| {
            thread::park();
            7
        });
        for _ in 0..3 {
            select! {
                join(parked) -> _ => unreachable!("it is parked"),
                default(SHORT) => {}
            }
            select! { join(parked) -> _ => unreachable!(), default => {} }
        }
        let mut none: Option<JoinHandle<u32>> = None;
        assert!(select! { join(none) -> _ => false, default(SHORT) => true });
        assert!(none.is_none());
        parked.thread().unpark();
        assert_eq!(parked.join().unwrap(), 7);
    });
}

fn scoped_and_bound_threads_are_joined_too<L: Leg>() {
    let rt = L::new();
    let mut bound = rt.spawn_with(Builder::new().bound(true), || 1).unwrap();
    assert_eq!(select! { join(bound) -> result => result.unwrap(), default(LONG) => 0 }, 1);
    // By a foreign thread, of a green one.
    let mut green = rt.spawn(|| {
        thread::sleep(SHORT);
        2
    });
    assert_eq!(select! { join(green) -> result => result.unwrap(), default(LONG) => 0 }, 2);
    rt.run(|| {
        let n = 3;
        let got = thread::scope(|s| {
            let mut scoped = s.spawn(|| n);
            select! { join(scoped) -> result => result.unwrap(), default(LONG) => 0 }
        });
        assert_eq!(got, 3);
    });
}

fn ends_and_messages_race<L: Leg>() {
    L::new().run(|| {
        for round in 0..300 {
            let (s, r) = bounded(1);
            let mut thread = thread::spawn(move || {
                if round % 3 == 0 {
                    thread::yield_now();
                }
                round
            });
            let sender = thread::spawn(move || s.send(round));
            let mut both = 0;
            let ended = select! {
                join(thread) -> result => { both += result.unwrap(); None }
                recv(r) -> n => { both += n.unwrap(); Some(()) }
            };
            both += if ended.is_none() { r.recv().unwrap() } else { round };
            assert_eq!(both, 2 * round);
            let _ = sender.join().unwrap();
        }
    });
}

fn two_ends_race<L: Leg>() {
    L::new().run(|| {
        for round in 0..300_u32 {
            let spawn = |n| {
                Some(thread::spawn(move || {
                    (0..round % 4).for_each(|_| thread::yield_now());
                    n
                }))
            };
            let (mut one, mut two) = (spawn(1), spawn(2));
            let mut sum = 0;
            while one.is_some() || two.is_some() {
                sum += select! {
                    join(one) -> n => n.unwrap(),
                    join(two) -> n => n.unwrap(),
                };
            }
            assert_eq!(sum, 3);
        }
    });
}

fn readiness_is_told<L: Leg>() {
    L::new().run(|| {
        for capacity in [0, 1] {
            let (s, r) = bounded(capacity);
            let watcher = {
                let r = r.clone();
                thread::spawn(move || {
                    let mut sel = Select::new();
                    let receives = sel.recv(&r);
                    assert_eq!(sel.ready(), receives);
                })
            };
            thread::yield_now();
            let sender = thread::spawn(move || s.send(1));
            watcher.join().unwrap();
            assert_eq!(r.recv(), Ok(1));
            sender.join().unwrap().unwrap();
            let (s, r) = bounded(capacity);
            let _ = s.try_send(0);
            let watcher = {
                let s = s.clone();
                thread::spawn(move || {
                    let mut sel = Select::new();
                    let sends = sel.send(&s);
                    assert_eq!(sel.ready(), sends);
                })
            };
            thread::yield_now();
            let receiver = thread::spawn(move || (0..capacity + 1).map(|_| r.recv().unwrap()).sum::<u32>());
            watcher.join().unwrap();
            s.send(1).unwrap();
            assert_eq!(receiver.join().unwrap(), 1);
        }
        // The end of the other side is told too, and that of a thread.
        let (s, r) = unbounded::<u32>();
        let mut sel = Select::new();
        let gone = sel.recv(&r);
        drop(s);
        assert_eq!((sel.ready(), sel.try_ready()), (gone, Ok(gone)));
        let mut thread = thread::spawn(|| ());
        let mut sel = Select::new();
        assert_eq!(sel.join(&mut thread), sel.ready());
    });
}

fn readiness_is_told_to_all<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (s, r) = unbounded();
        let watchers: Vec<_> = (0..4)
            .map(|_| r.clone())
            .map(|r| {
                thread::spawn(move || {
                    let mut sel = Select::new();
                    sel.recv(&r);
                    sel.recv(&r);
                    sel.ready()
                })
            })
            .collect();
        watchers.iter().for_each(|watcher| until_waits(&rt, watcher));
        s.send(1).unwrap();
        watchers.into_iter().for_each(|watcher| assert!(watcher.join().unwrap() < 2));
        assert_eq!(r.recv(), Ok(1));
    });
}

fn operations_come_and_go<L: Leg>() {
    L::new().run(|| {
        let channels: Vec<_> = (0..10).map(|_| unbounded::<usize>()).collect();
        let mut sel = Select::new();
        let indices: Vec<_> = channels.iter().map(|(_, r)| sel.recv(r)).collect();
        assert!(indices.into_iter().eq(0..10));
        let senders: Vec<_> = channels.iter().enumerate().map(|(n, (s, _))| (n, s.clone())).collect();
        for (n, s) in senders {
            thread::spawn(move || s.send(n).unwrap());
        }
        let mut left = 10;
        while left > 0 {
            let operation = sel.select();
            let index = operation.index();
            assert_eq!(operation.recv(&channels[index].1), Ok(index));
            sel.remove(index);
            left -= 1;
        }
        assert!(sel.try_select().is_err());
        assert_eq!(sel.recv(&channels[0].1), 10, "numbers are not used again");
        for index in [0, 11] {
            assert!(catch_unwind(AssertUnwindSafe(|| sel.remove(index))).is_err());
        }
        assert!(catch_unwind(|| Select::new().select().index()).is_err());
        assert!(catch_unwind(|| Select::new().ready()).is_err());
        let endless = Wait::forever().interruptible();
        assert!(catch_unwind(|| Select::new().select_with(endless).is_ok()).is_err());
        assert!(catch_unwind(|| Select::new().ready_with(endless)).is_err());
        // With a deadline, there is an end to it.
        assert_eq!(Select::new().ready_with(Wait::timeout(SHORT)), Err(WaitError::TimedOut));
    });
}

fn interrupts_end_selects<L: Leg>() {
    L::new().run(|| {
        let waiter = thread::spawn(|| {
            let ((s, r), (_t, u)) = (rendezvous::<u32>(), unbounded::<u32>());
            let mut sel = Select::new();
            sel.send(&s);
            sel.recv(&u);
            sel.recv(&r);
            let mut is_ended_by =
                |why, wait: Wait| sel.select_with(wait.interruptible()).is_err_and(|error| error == why);
            assert!(is_ended_by(WaitError::Interrupted, Wait::forever()));
            assert!(is_ended_by(WaitError::Interrupted, Wait::timeout(LONG)));
            assert!(is_ended_by(WaitError::Interrupted, Wait::until(Instant::now() + LONG)));
            // An interrupt may come first, again and again on a slow machine.
            while !is_ended_by(WaitError::TimedOut, Wait::timeout(SHORT)) {}
        });
        while !waiter.is_finished() {
            waiter.thread().interrupt();
            thread::sleep(2 * SHORT);
        }
        waiter.join().unwrap();
    });
}

fn kinds_of_threads_select_together<L: Leg>() {
    const EACH: usize = 100;
    let (rt, kernel) = (L::new(), OneToOne::new().unwrap());
    let ((s1, r1), (s2, r2)) = (rendezvous::<usize>(), bounded(1));
    let total = Arc::new(AtomicUsize::new(0));
    let sends = |s: &Sender<usize>, t: &Sender<usize>| {
        let (s, t) = (s.clone(), t.clone());
        move || {
            for n in 1..=EACH {
                select! { send(s, n) -> sent => sent.unwrap(), send(t, n) -> sent => sent.unwrap() }
            }
        }
    };
    let receives = |r: &Receiver<usize>, q: &Receiver<usize>| {
        let (r, q, total) = (r.clone(), q.clone(), Arc::clone(&total));
        move || {
            let add = |n: Result<usize, RecvError>| n.map(|n| total.fetch_add(n, SeqCst)).is_ok();
            while select! { recv(r) -> n => add(n), recv(q) -> n => add(n) } {}
            r.iter().chain(q.iter()).for_each(|n| _ = total.fetch_add(n, SeqCst));
        }
    };
    let ours = [
        rt.spawn(sends(&s1, &s2)),
        rt.spawn(receives(&r1, &r2)),
        rt.spawn_with(Builder::new().bound(true), sends(&s1, &s2)).unwrap(),
        rt.spawn_with(Builder::new().bound(true), receives(&r1, &r2)).unwrap(),
        kernel.spawn(sends(&s2, &s1)),
        kernel.spawn(receives(&r2, &r1)),
    ];
    let foreign = [std::thread::spawn(sends(&s1, &s2)), std::thread::spawn(receives(&r1, &r2))];
    drop((s1, s2));
    ours.into_iter().for_each(|thread| thread.join().unwrap());
    foreign.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(total.load(SeqCst), 4 * EACH * (EACH + 1) / 2);
}

fn a_select_in_a_loop_with_control_flow<L: Leg>() {
    fn until(r: &Receiver<u32>, stop: u32) -> Option<u32> {
        let mut seen = 0;
        'all: loop {
            select! {
                recv(r) -> n => match n {
                    Ok(n) if n == stop => break 'all,
                    Ok(0) => continue,
                    Ok(n) => seen += n,
                    Err(_) => return None,
                },
                default(LONG) => unreachable!(),
            }
        }
        Some(seen)
    }

    L::new().run(|| {
        let (s, r) = unbounded();
        [1, 0, 2, 9, 3].into_iter().for_each(|n| s.send(n).unwrap());
        drop(s);
        assert_eq!((until(&r, 9), until(&r, 9)), (Some(3), None));
    });
}
