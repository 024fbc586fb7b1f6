//! Accounts: the times of a thread's states add up to its life.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::{Thread, ThreadId, ThreadState, ThreadTimes, ThreadsSeen};
use selvedge::trace::{Level, State, set_level};
use selvedge::{Mxn, OneToOne, Runtime, Wait, thread};

use super::{compute, live, named, traced};

/// Returns the times of a thread. Returns `None` if it has ended, or if its LWP has lost its CPU in the
/// middle of a change of them.
fn times_of<R: Runtime>(rt: &R, thread: ThreadId) -> Option<ThreadTimes> {
    let threads = rt.threads();
    threads.iter().find(|info| info.id() == thread)?.times().cloned()
}

fn of(times: &ThreadTimes, state: State) -> Duration {
    times.states[State::ALL.iter().position(|&it| it == state).unwrap()]
}

/// Unparks threads when it is dropped, also by a panic: the runtime waits for them.
struct Unparks(Vec<Thread>);

impl Drop for Unparks {
    fn drop(&mut self) {
        self.0.iter().for_each(Thread::unpark);
    }
}

/// How often a thread of `lives_add_up` does everything.
const ROUNDS: u32 = 150;

/// Threads that do all sorts of things are looked at while they do. The times add up, and the life that is
/// accounted for is the real one. In the end, each state has at least half of what the thread asked for: a
/// wait may begin late on a busy machine.
fn lives_add_up<R: Runtime>(rt: &R) {
    rt.run(|| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let (tell, told) = mpsc::channel();
        let lived = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..5)
            .map(|n| {
                let (shared, tell, lived) = (Arc::clone(&shared), tell.clone(), Arc::clone(&lived));
                let before = Instant::now();
                let thread = named(&format!("liver-{n}"), move || {
                    tell.send((thread::current().id(), before, Instant::now())).unwrap();
                    live(&shared, ROUNDS);
                    lived.fetch_add(1, Relaxed);
                    thread::park();
                });
                (thread, before)
            })
            .collect();
        let _unparks = Unparks(threads.iter().map(|(thread, _)| thread.thread().clone()).collect());
        let births: Vec<_> = (0..5).map(|_| told.recv().unwrap()).collect();
        let mut seen = 0;
        while lived.load(Relaxed) < 5 {
            thread::sleep(Duration::from_millis(3));
            for &(id, before, begun) in &births {
                let earliest = begun.elapsed();
                let Some(times) = times_of(rt, id) else { continue };
                let latest = before.elapsed();
                let sum: Duration = times.states.iter().sum();
                assert!(sum.abs_diff(times.life) < Duration::from_micros(1), "{times:?}");
                // The clocks of the account and of the test differ by their scale.
                let slack = latest / 100 + Duration::from_millis(1);
                assert!(times.life >= earliest.saturating_sub(slack), "{times:?} {earliest:?}");
                assert!(times.life <= latest + slack, "{times:?} {latest:?}");
                assert!(times.since <= times.life && times.dispatches >= 1, "{times:?}");
                seen += 1;
            }
        }
        assert!(seen > 5, "{seen}");
        for (thread, _) in threads {
            let times = long_in(rt, thread.thread(), State::Blocked);
            assert!(of(&times, State::Running) >= ROUNDS * Duration::from_micros(200) / 2, "{times:?}");
            assert!(of(&times, State::Sleeping) >= ROUNDS * Duration::from_micros(300) / 2, "{times:?}");
            assert!(of(&times, State::InKernel).is_zero(), "{times:?}");
            // It sleeps once in a round.
            assert!(times.dispatches >= ROUNDS.into(), "{times:?}");
            thread.thread().unpark();
            thread.join().unwrap();
        }
    });
}

#[test]
fn lives_of_green_threads_add_up() {
    traced("lives_of_green_threads_add_up", Level::Times, || {
        lives_add_up(&Mxn::builder().concurrency(2).build().unwrap());
    });
}

#[test]
fn lives_of_kernel_threads_add_up() {
    traced("lives_of_kernel_threads_add_up", Level::Times, || lives_add_up(&OneToOne::new().unwrap()));
}

/// Waits until the thread has been in `state` for 20 ms, and returns its times. On a busy machine it may have
/// been in others for longer before.
fn long_in<R: Runtime>(rt: &R, thread: &Thread, state: State) -> ThreadTimes {
    loop {
        if let Some(times) = times_of(rt, thread.id())
            && of(&times, state) >= Duration::from_millis(20)
        {
            return times;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the thread has been in `state` for half of its life.
fn mostly_in<R: Runtime>(rt: &R, thread: &Thread, state: State) {
    while {
        let times = long_in(rt, thread, state);
        of(&times, state) < times.life / 2
    } {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Computes until it is told to stop.
fn until(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        std::hint::spin_loop();
    }
}

/// Each state is charged for what belongs to it.
fn states_are_charged<R: Runtime>(rt: &R) {
    let sleeper =
        rt.spawn(|| _ = thread::sleep_with(Wait::timeout(Duration::from_secs(100)).interruptible()));
    mostly_in(rt, sleeper.thread(), State::Sleeping);
    let parked = rt.spawn(thread::park);
    mostly_in(rt, parked.thread(), State::Blocked);
    parked.thread().unpark();
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    let hog = rt.spawn(move || until(&stops));
    mostly_in(rt, hog.thread(), State::Running);
    stop.store(true, Relaxed);
    sleeper.thread().interrupt();
    [sleeper, parked, hog].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn states_of_green_threads_are_charged() {
    traced("states_of_green_threads_are_charged", Level::Times, || {
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        states_are_charged(&rt);
        let (ends, end) = std::io::pipe().unwrap();
        let blocks = rt.spawn(move || thread::blocking(|| assert!(!crate::unseen::read(&ends))));
        long_in(&rt, blocks.thread(), State::InKernel);
        drop(end);
        blocks.join().unwrap();
        // Without slices, the second waits in the run queue until the first has ended.
        static STOP: AtomicBool = AtomicBool::new(false);
        let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
        let hogs = [(); 2].map(|()| rt.spawn(|| until(&STOP)));
        let times = long_in(&rt, hogs[1].thread(), State::Runnable);
        assert_eq!(of(&times, State::Runnable), times.life);
        STOP.store(true, Relaxed);
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

#[test]
fn states_of_kernel_threads_are_charged() {
    traced("states_of_kernel_threads_are_charged", Level::Times, || {
        states_are_charged(&OneToOne::new().unwrap());
    });
}

/// A thread that was woken does not wait any more. It is dispatchable if an LWP was chosen for it, and
/// otherwise in a run queue.
#[test]
fn a_woken_thread_is_not_charged_for_its_wait() {
    traced("a_woken_thread_is_not_charged_for_its_wait", Level::Times, || {
        static STOP: AtomicBool = AtomicBool::new(false);
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let parks = rt.spawn(|| {
            while !STOP.load(Relaxed) {
                thread::park();
            }
        });
        let sleeps = rt.spawn(|| {
            while !STOP.load(Relaxed) {
                thread::sleep(Duration::from_micros(100));
            }
        });
        let parked = parks.thread().clone();
        let computes = rt.spawn(move || {
            while !STOP.load(Relaxed) {
                parked.unpark();
                compute(Duration::from_millis(2));
                thread::yield_now();
            }
            parked.unpark();
        });
        long_in(&rt, parks.thread(), State::Dispatchable);
        long_in(&rt, sleeps.thread(), State::Runnable);
        STOP.store(true, Relaxed);
        [parks, sleeps, computes].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A bound thread of `mxn` is a kernel thread with an account.
#[test]
fn bound_threads_are_charged() {
    traced("bound_threads_are_charged", Level::Times, || {
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let bound = rt.spawn_with(thread::Builder::new().bound(true), thread::park).unwrap();
        long_in(&rt, bound.thread(), State::Blocked);
        bound.thread().unpark();
        bound.join().unwrap();
    });
}

/// A thread that has run before the counting began is charged for what it does since.
fn threads_from_before_are_charged(rt: &impl Runtime) {
    let stop = Arc::new(AtomicBool::new(false));
    // More than one chunk of green threads, with those that other tests have left.
    let threads: Vec<_> = (0..200)
        .map(|_| {
            let stop = Arc::clone(&stop);
            rt.spawn(move || {
                thread::park();
                until(&stop);
            })
        })
        .collect();
    while !rt.threads().iter().all(|info| matches!(info.state(), ThreadState::Waiting { .. })) {
        std::thread::sleep(Duration::from_millis(1));
    }
    set_level(Level::Times);
    let unparks = Unparks(threads.iter().map(|thread| thread.thread().clone()).collect());
    for thread in [threads[0].thread(), threads[199].thread()] {
        thread.unpark();
        // Without time slices, the other one goes on as well.
        let times = long_in(rt, thread, State::Running);
        assert!(times.dispatches >= 1, "{times:?}");
    }
    stop.store(true, Relaxed);
    drop(unparks);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn green_threads_from_before_are_charged() {
    traced("green_threads_from_before_are_charged", Level::Off, || {
        threads_from_before_are_charged(&Mxn::builder().concurrency(1).build().unwrap());
    });
}

#[test]
fn kernel_threads_from_before_are_charged() {
    traced("kernel_threads_from_before_are_charged", Level::Off, || {
        threads_from_before_are_charged(&OneToOne::new().unwrap());
    });
}

/// A thread that was parked before the counting began has been parked all the time since.
#[test]
fn a_thread_that_does_not_move_is_charged_for_its_state() {
    traced("a_thread_that_does_not_move_is_charged_for_its_state", Level::Off, || {
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let parked = rt.spawn(thread::park);
        while !matches!(rt.threads()[0].state(), ThreadState::Waiting { .. }) {
            std::thread::sleep(Duration::from_millis(1));
        }
        set_level(Level::Times);
        let times = long_in(&rt, parked.thread(), State::Blocked);
        set_level(Level::Off);
        let later = rt.threads()[0].times().cloned();
        parked.thread().unpark();
        parked.join().unwrap();
        assert_eq!(of(&times, State::Blocked), times.life);
        assert_eq!(later, None, "times are not counted any more");
    });
}

/// A list of changes has all threads when times begin to be counted, and when that ends.
#[test]
fn times_that_begin_or_end_are_a_change() {
    traced("times_that_begin_or_end_are_a_change", Level::Off, || {
        let rt = Mxn::new().unwrap();
        let parked: Vec<_> = (0..5).map(|_| rt.spawn(thread::park)).collect();
        let mut seen = ThreadsSeen::new();
        while !rt.threads_changed(&mut seen, 100).threads().is_empty() {
            thread::yield_now();
        }
        for (level, counted) in [(Level::Times, true), (Level::Off, false)] {
            set_level(level);
            let changes = rt.threads_changed(&mut seen, 100);
            assert_eq!(changes.threads().len(), 5, "{changes:?}");
            assert!(changes.threads().iter().all(|it| it.times().is_some() == counted), "{changes:?}");
            assert!(rt.threads_changed(&mut seen, 100).threads().is_empty());
        }
        parked.iter().for_each(|it| it.thread().unpark());
        parked.into_iter().for_each(|it| it.join().unwrap());
    });
}
