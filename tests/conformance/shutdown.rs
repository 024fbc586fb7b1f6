//! The end of a runtime by a deadline: which threads are waited for, which are interrupted, and what the
//! error says.

use std::io::{PipeReader, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, Condvar, LockWith, Mutex};
use selvedge::thread::{Builder, Interrupted, JoinHandle, ShutdownTimeout, ThreadState, WaitReason};
use selvedge::{Mxn, OneToOne, Runtime, Wait, channel, future, thread};

use crate::legs::Leg;
use crate::threads::seen;
use crate::unseen;

both! {
    without_threads_it_is_over_at_once,
    threads_that_end_are_waited_for,
    waits_that_can_be_interrupted_end_at_half_of_the_time,
    threads_that_look_see_it,
    threads_that_do_not_stop_are_named,
    zero_does_not_wait,
    no_more_threads_start,
    a_task_that_waits_at_a_clock_hears_it,
    its_own_thread_may_shut_it_down,
    all_of_a_crowd_are_listed,
    threads_of_other_runtimes_are_left_alone,
}

/// Both runtimes have it, but it is no part of the trait: a reference to a runtime, which is one too,
/// cannot be consumed.
pub(crate) trait Shutdown: Runtime {
    fn stop(self, timeout: Duration) -> Result<(), ShutdownTimeout>;
}

impl Shutdown for Mxn {
    fn stop(self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        self.shutdown(timeout)
    }
}

impl Shutdown for OneToOne {
    fn stop(self, timeout: Duration) -> Result<(), ShutdownTimeout> {
        self.shutdown(timeout)
    }
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1000);

/// More than a thread needs that is going to stop.
const AMPLE: Duration = Duration::from_secs(100);

/// Only an interrupt ends it.
const ENDLESS: Wait = Wait::forever().interruptible();

fn sleep(time: Duration) -> Result<(), Interrupted> {
    thread::sleep_with(Wait::timeout(time).interruptible())
}

/// Stops a runtime, and tries again with more time: a busy machine may need the first for something else.
fn with_enough_time(stop: impl Fn(Duration) -> Result<(), ShutdownTimeout>) {
    let tries = [2, 8, 32].map(Duration::from_secs);
    let late: Vec<_> = tries.into_iter().map_while(|time| stop(time).err()).collect();
    assert!(late.len() < tries.len(), "{late:?}");
}

fn without_threads_it_is_over_at_once<L: Leg>() {
    let start = Instant::now();
    L::new().stop(AMPLE).unwrap();
    let rt = L::new();
    rt.spawn(|| ()).join().unwrap();
    rt.stop(AMPLE).unwrap();
    assert!(start.elapsed() < AMPLE / 2);
}

fn threads_that_end_are_waited_for<L: Leg>() {
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = L::new();
    for n in 0..20 {
        let theirs = Arc::clone(&ended);
        // Detached; and each starts another one.
        let builder = Builder::new().bound(n % 4 == 0);
        let spawned = rt.spawn_with(builder, move || {
            thread::sleep(Duration::from_millis(n));
            drop(thread::spawn(move || theirs.fetch_add(1, SeqCst)));
        });
        drop(spawned.unwrap());
    }
    let start = Instant::now();
    rt.stop(AMPLE).unwrap();
    assert_eq!(ended.load(SeqCst), 20);
    assert!(start.elapsed() < AMPLE / 2, "no thread had to be interrupted");
}

fn waits_that_can_be_interrupted_end_at_half_of_the_time<L: Leg>() {
    with_enough_time(|timeout| waits_end_at_half_of::<L>(timeout));
}

fn waits_end_at_half_of<L: Leg>(timeout: Duration) -> Result<(), ShutdownTimeout> {
    let rt = L::new();
    // Two of each kind wait, so the barrier is for three.
    let shared = Arc::new((Mutex::new(()), Condvar::new(), Barrier::new(3), Mutex::new(())));
    let held = Arc::clone(&shared);
    let _held = held.0.lock();
    type IsRefused = fn(&(Mutex<()>, Condvar, Barrier, Mutex<()>)) -> bool;
    let waits: [IsRefused; 7] = [
        |_| sleep(LONG).is_err(),
        |_| thread::park_with(ENDLESS).is_err(),
        |shared| shared.0.lock_with(Wait::forever().interruptible()).is_err(),
        |shared| shared.2.wait_with(Wait::forever().interruptible()).is_err(),
        |shared| shared.1.wait_with(&mut shared.3.lock(), Wait::forever().interruptible()).is_err(),
        // It is refused again and again.
        |_| (0..3).all(|_| sleep(LONG).is_err()),
        |_| {
            let other = thread::spawn(|| thread::park_with(ENDLESS).is_err());
            match other.join_with(ENDLESS) {
                Ok(_) => true,
                Err((other, _)) => other.join().unwrap(),
            }
        },
    ];
    let threads: Vec<JoinHandle<(bool, Duration)>> = waits
        .into_iter()
        .flat_map(|wait| [false, true].map(|bound| (wait, bound)))
        .map(|(wait, bound)| {
            let shared = Arc::clone(&shared);
            let start = Instant::now();
            let waits = move || (wait(&shared), start.elapsed());
            rt.spawn_with(Builder::new().bound(bound), waits).unwrap()
        })
        .collect();
    // A join ends with what it waits for, so a moment after the interrupts all are gone.
    let stopped = rt.stop(timeout);
    for thread in threads {
        // One is to be refused again and again, for which there may not have been the time.
        while stopped.is_err() && !thread.is_finished() {
            thread.thread().interrupt();
            std::thread::yield_now();
        }
        let (interrupted, waited) = thread.join().unwrap();
        assert!(interrupted && waited >= timeout / 2, "{interrupted} after {waited:?}");
    }
    stopped
}

fn threads_that_look_see_it<L: Leg>() {
    with_enough_time(|time| {
        let rt = L::new();
        for _ in 0..3 {
            rt.spawn(|| {
                while !thread::take_interrupt() {
                    thread::yield_now();
                }
            });
        }
        rt.stop(time)
    });
}

/// What stubborn threads wait for, until they are let go.
struct Stage {
    go: AtomicBool,
    mutex: Mutex<()>,
    other: Mutex<()>,
    changed: Condvar,
    two: Barrier,
}

type Part = fn(&Stage, PipeReader);
type Looks = fn(ThreadState) -> bool;

fn waits_for(state: ThreadState, what: WaitReason) -> bool {
    matches!(state, ThreadState::Waiting { reason, .. } if reason == what)
}

/// Only on Linux does the runtime learn that a kernel thread sleeps.
fn is_in_kernel(state: ThreadState) -> bool {
    match state {
        ThreadState::InKernel { tid } => tid > 0,
        ThreadState::Running { .. } => !cfg!(target_os = "linux"),
        _ => false,
    }
}

fn wait_at(state: ThreadState) -> Option<usize> {
    match state {
        ThreadState::Waiting { at, .. } => at,
        _ => None,
    }
}

/// The name, whether it is bound, what it does, and how it must look from outside.
const PARTS: [(&str, bool, Part, Looks); 9] = [
    (
        "holder",
        false,
        |stage, _| {
            let _held = stage.mutex.lock();
            while !stage.go.load(SeqCst) {
                thread::park();
            }
        },
        |state| waits_for(state, WaitReason::Park),
    ),
    ("locker", false, |stage, _| drop(stage.mutex.lock()), |state| waits_for(state, WaitReason::Mutex)),
    (
        "listener",
        false,
        |stage, _| {
            let mut guard = stage.other.lock();
            while !stage.go.load(SeqCst) {
                stage.changed.wait(&mut guard);
            }
        },
        |state| waits_for(state, WaitReason::Condvar),
    ),
    (
        "party",
        false,
        |stage, _| assert!(!stage.two.wait().is_leader()),
        |state| waits_for(state, WaitReason::Barrier),
    ),
    ("reader", false, |_, pipe| read(&pipe), is_in_kernel),
    ("announced", false, |_, pipe| thread::blocking(|| read(&pipe)), is_in_kernel),
    ("bound locker", true, |stage, _| drop(stage.mutex.lock()), |state| waits_for(state, WaitReason::Mutex)),
    ("bound reader", true, |_, pipe| read(&pipe), is_in_kernel),
    (
        "spinner",
        false,
        |stage, _| {
            while !stage.go.load(SeqCst) {
                std::hint::spin_loop();
            }
        },
        |state| matches!(state, ThreadState::Running { .. }),
    ),
];

fn read(pipe: &PipeReader) {
    assert!(unseen::read(pipe), "a byte, at last");
}

fn threads_that_do_not_stop_are_named<L: Leg>() {
    let rt = L::new();
    let stage = Arc::new(Stage {
        go: AtomicBool::new(false),
        mutex: Mutex::new(()),
        other: Mutex::new(()),
        changed: Condvar::new(),
        two: Barrier::new(2),
    });
    let mut pipes = Vec::new();
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    for (name, bound, part, looks) in PARTS {
        let (theirs, ours) = std::io::pipe().unwrap();
        pipes.push(ours);
        let scene = Arc::clone(&stage);
        let builder = Builder::new().name(name.into()).bound(bound);
        let thread = rt.spawn_with(builder, move || part(&scene, theirs)).unwrap();
        // The holder holds before others come. The spinner comes last.
        seen(&rt, thread.thread().id(), |info| looks(info.state()));
        threads.push(thread);
    }
    let ids: Vec<_> = threads.iter().map(|thread| thread.thread().id()).collect();
    let start = Instant::now();
    let unstopped = rt.stop(Duration::from_millis(600)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(600));
    let text = unstopped.to_string();
    let listed = unstopped.threads();
    assert_eq!(listed.len(), PARTS.len(), "{text}");
    assert!(text.starts_with("9 threads have not stopped:\n  ThreadId("), "{text}");
    for ((name, _, _, looks), id) in PARTS.into_iter().zip(ids) {
        let info =
            listed.iter().find(|info| info.id() == id).unwrap_or_else(|| panic!("no {name} in {text}"));
        assert_eq!(info.name(), Some(name));
        assert!(looks(info.state()), "{name} is {:?}", info.state());
        assert!(text.contains(&info.to_string()) && info.to_string().contains(name), "{text}");
    }
    // Both wait for the same mutex, and the text says where.
    let at = |name: &str| {
        let state = listed.iter().find(|info| info.name() == Some(name)).unwrap().state();
        wait_at(state).unwrap_or_else(|| panic!("{name} waits nowhere: {text}"))
    };
    assert_eq!(at("locker"), at("bound locker"));
    assert_ne!(at("locker"), at("listener"));
    assert!(text.contains(&format!("waiting for a mutex at {:#x}", at("locker"))), "{text}");
    // They go on, without the runtime's value.
    stage.go.store(true, SeqCst);
    threads[0].thread().unpark();
    stage.two.wait();
    pipes.iter_mut().for_each(|pipe| pipe.write_all(&[0]).unwrap_or(()));
    while !threads.iter().all(JoinHandle::is_finished) {
        drop(stage.other.lock());
        stage.changed.notify_all();
        std::thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn zero_does_not_wait<L: Leg>() {
    let rt = L::new();
    let parked = rt.spawn(thread::park);
    let joiner = rt
        .spawn_with(Builder::new().name("joiner".into()), move || parked.thread().id())
        .unwrap()
        .join()
        .unwrap();
    let start = Instant::now();
    let unstopped = rt.stop(Duration::ZERO).unwrap_err();
    assert!(start.elapsed() < AMPLE);
    assert_eq!(unstopped.threads().len(), 1);
    assert_eq!(unstopped.threads()[0].id(), joiner);
    assert!(unstopped.to_string().starts_with("1 thread has not stopped:\n"));
}

fn no_more_threads_start<L: Leg>() {
    let rt = L::new();
    let refused = rt.spawn(|| {
        loop {
            match Builder::new().spawn(|| ()) {
                Ok(started) => started.join().unwrap(),
                Err(error) => return error.to_string(),
            }
        }
    });
    // On a busy machine, the time may be over before the thread has run again.
    let _ = rt.stop(Duration::from_secs(2));
    assert!(refused.join().unwrap().contains("shutting down"));
}

/// No thread can be started that sleeps for the task.
fn a_task_that_waits_at_a_clock_hears_it<L: Leg>() {
    let rt = L::new();
    let heard = rt.spawn(|| {
        while let Ok(started) = Builder::new().spawn(|| ()) {
            started.join().unwrap();
        }
        let begun = Instant::now();
        let clock = channel::after(Duration::from_millis(30));
        let struck = future::block_on(clock.recv_async()).unwrap();
        (struck - begun, begun.elapsed())
    });
    // On a busy machine, the time may be over before the thread has run again.
    let _ = rt.stop(Duration::from_secs(2));
    let (struck, elapsed) = heard.join().unwrap();
    assert!(struck >= Duration::from_millis(30) && elapsed >= struck);
}

fn its_own_thread_may_shut_it_down<L: Leg>() {
    with_enough_time(|time| {
        let rt = L::new();
        let (tell, hear) = std::sync::mpsc::channel::<L::Rt>();
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..4 {
            let theirs = Arc::clone(&ended);
            drop(rt.spawn(move || {
                let _ = sleep(LONG);
                theirs.fetch_add(1, SeqCst);
            }));
        }
        let own = rt.spawn(move || {
            let rt = thread::blocking(|| hear.recv().unwrap());
            rt.stop(time).map(|()| ended.load(SeqCst))
        });
        tell.send(rt).map_err(|_| "no listener").unwrap();
        own.join().unwrap().map(|ended| assert_eq!(ended, 4))
    });
}

fn all_of_a_crowd_are_listed<L: Leg>() {
    const CROWD: usize = 300;
    let rt = L::new();
    let go = Arc::new(AtomicBool::new(false));
    let crowd: Vec<JoinHandle<()>> = (0..CROWD)
        .map(|n| {
            let go = Arc::clone(&go);
            let builder = Builder::new().name(format!("member {n}")).stack_size(64 << 10);
            let waits = move || {
                while !go.load(SeqCst) {
                    thread::park();
                }
            };
            rt.spawn_with(builder, waits).unwrap()
        })
        .collect();
    let unstopped = rt.stop(Duration::from_millis(50)).unwrap_err();
    let mut names: Vec<_> = unstopped.threads().iter().map(|info| info.name().unwrap().to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), CROWD);
    go.store(true, SeqCst);
    crowd.iter().for_each(|member| member.thread().unpark());
    crowd.into_iter().for_each(|member| member.join().unwrap());
}

fn threads_of_other_runtimes_are_left_alone<L: Leg>() {
    with_enough_time(|time| {
        let (rt, other) = (L::new(), L::new());
        // Asleep when the others are interrupted.
        let sleeper = other.spawn(move || sleep(time * 3 / 4));
        let parked = other.spawn(|| thread::park_with(ENDLESS));
        rt.spawn(|| sleep(LONG));
        let stopped = rt.stop(time);
        assert!(sleeper.join().unwrap().is_ok());
        parked.thread().unpark();
        assert!(parked.join().unwrap().is_ok());
        stopped
    });
}
