//! Programs with something wrong, each in a process of its own, and what `explain` says of them.
//!
//! A scheduler of the kernel may spoil a provocation on a busy machine. So each is tried a few times.

use std::collections::BTreeSet;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, Condvar, Mutex};
use selvedge::thread::{self, Builder, JoinHandle, OnDeadlock, Priority, WaitReason};
use selvedge::trace::{Event, EventKind, Level, Recording, set_level};
use selvedge::{Mxn, OneToOne, Runtime};
use threadmon::explain::{Kind, explain, report};

use crate::child;
use crate::watchdog::Watchdog;

/// The programs.
pub(crate) const ROLES: [(&str, fn()); 14] = [
    ("too few slots", too_few_slots),
    ("hog", hog),
    ("convoy", convoy),
    ("asleep with a lock", asleep_with_a_lock),
    ("in the kernel with a lock", in_the_kernel_with_a_lock),
    ("LWPs at their bound", lwps_at_their_bound),
    ("announced, and no LWP left", announced_and_no_lwp_left),
    ("imbalance", imbalance),
    ("starvation", starvation),
    ("storm", storm),
    ("never runs", never_runs),
    ("deadlock", deadlock),
    ("deadlock that the program finds", deadlock_that_the_program_finds),
    ("crash at the bound", crash_at_the_bound),
];

/// How often a provocation is tried.
const TRIES: usize = 5;

/// Held by each test that runs a program. Healthy programs run alone.
pub(crate) static TURNS: RwLock<()> = RwLock::new(());

/// Before the name of each finding's kind in what a program says. The threads' names follow, then the text.
pub(crate) const FINDING: &str = "finding: ";
pub(crate) const END: &str = "that was all";

/// Prints what `explain` says of the events until now.
pub(crate) fn tell() {
    let recording = Recording::take();
    set_level(Level::Off);
    print!("{}", report(&recording));
    for finding in explain(&recording) {
        let names: Vec<&str> = finding.threads().filter_map(|id| recording.name(id)).collect();
        println!("{FINDING}{:?}|{}|{:.3}|{finding}", finding.kind, names.join(","), finding.severity);
    }
    println!("{END}");
}

/// Runs a program, and again if it did not say what is expected: a finding of this kind. Its first threads
/// have these names, and its text has these words.
#[track_caller]
fn provoke(role: &str, kind: Kind, names: &[&str], words: &[&str]) {
    let _watchdog = Watchdog::start(role);
    let _turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
    let mut said = String::new();
    for _ in 0..TRIES {
        let ended = child::run(role, &[]);
        ended.expect_success();
        let found = ended.said.lines().filter_map(|line| line.strip_prefix(FINDING));
        let fits = |line: &str| {
            let parts: Vec<&str> = line.splitn(4, '|').collect();
            let [of, threads, _, text] = parts[..] else { panic!("no finding: {line}") };
            let threads: Vec<&str> = threads.split(',').collect();
            // A name that ends with a dash stands for any with that start.
            let is = |(name, expected): (&&str, &&str)| {
                name == expected || expected.ends_with('-') && name.starts_with(*expected)
            };
            of == format!("{kind:?}")
                && threads.len() >= names.len()
                && threads.iter().zip(names).all(is)
                && words.iter().all(|word| text.contains(word))
        };
        if found.into_iter().any(fits) {
            return;
        }
        said = ended.said;
    }
    panic!("no {kind:?} of {names:?} with {words:?} in:\n{said}");
}

/// Computes for some time.
pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub(crate) fn named(name: impl Into<String>) -> Builder {
    Builder::new().name(name.into())
}

/// Starts `count` threads, called `worker-0` and so on.
pub(crate) fn workers(count: usize, work: impl Fn(usize) + Send + Sync + 'static) -> Vec<JoinHandle<()>> {
    let work = Arc::new(work);
    let start = |n: usize| {
        let work = Arc::clone(&work);
        named(format!("worker-{n}")).spawn(move || work(n)).expect("a thread")
    };
    (0..count).map(start).collect()
}

pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it ends well"));
}

/// Runs `program` on one runtime, and tells what happened.
pub(crate) fn play(rt: &Mxn, program: impl FnOnce() + Send + 'static) {
    set_level(Level::Events);
    rt.run(program);
    tell();
}

pub(crate) fn slots(slots: usize) -> Mxn {
    Mxn::builder().concurrency(slots).build().expect("the runtime starts")
}

pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().expect("a number of CPUs").get()
}

fn too_few_slots() {
    play(&slots(1), || {
        join(workers(4, |_| {
            for _ in 0..20 {
                spin(ms(1));
                thread::yield_now();
            }
        }));
    });
}

#[test]
fn threads_that_wait_for_too_few_slots() {
    if cpus() < 2 {
        println!("skipped: with one CPU, one slot is enough");
        return;
    }
    provoke("too few slots", Kind::TooFewSlots, &["worker-"], &["1 slot", "CPUs", "concurrency of"]);
}

fn hog() {
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().expect("the runtime starts");
    play(&rt, || {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let victim = named("victim").spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        let hog = named("hog").spawn(move || {
            spin(ms(150));
            done.store(true, Ordering::Relaxed);
        });
        join([victim.expect("a thread"), hog.expect("a thread")]);
    });
}

#[test]
fn a_hog_without_slices() {
    provoke("hog", Kind::Hog, &["hog", "victim"], &["no time slices", "yield"]);
}

fn convoy() {
    play(&slots(1), || {
        let lock = Arc::new(Mutex::new(0));
        join(workers(5, move |_| {
            for _ in 0..100 {
                let mut value = lock.lock();
                spin(us(50));
                // The owner leaves its LWP with the lock.
                thread::yield_now();
                *value += 1;
            }
        }));
    });
}

#[test]
fn a_convoy() {
    provoke("convoy", Kind::Convoy, &["worker-", "worker-", "worker-"], &["The mutex at 0x", "passed on"]);
}

/// One thread waits by `wait` with a lock, and three others want that.
fn with_a_lock(wait: impl Fn() + Send + 'static) {
    play(&slots(2), move || {
        let lock = Arc::new(Mutex::new(()));
        let theirs = Arc::clone(&lock);
        let others = workers(3, move |_| {
            for _ in 0..20 {
                drop(theirs.lock());
                thread::sleep(ms(1));
            }
        });
        let owner = named("owner").spawn(move || {
            for _ in 0..20 {
                let held = lock.lock();
                wait();
                drop(held);
                thread::yield_now();
            }
        });
        join(others.into_iter().chain([owner.expect("a thread")]));
    });
}

fn asleep_with_a_lock() {
    with_a_lock(|| thread::sleep(ms(5)));
}

#[test]
fn a_lock_held_by_a_sleeper() {
    provoke("asleep with a lock", Kind::HeldWhileBlocked, &["owner"], &["while asleep", "the mutex at 0x"]);
}

fn in_the_kernel_with_a_lock() {
    with_a_lock(|| thread::blocking(|| std::thread::sleep(ms(5))));
}

#[test]
fn a_lock_held_across_a_call_that_blocks() {
    provoke("in the kernel with a lock", Kind::HeldWhileBlocked, &["owner"], &["in the kernel"]);
}

/// Five threads block in the kernel by `block`, where three can.
fn at_the_bound(block: impl Fn() + Send + Sync + 'static) {
    let rt = Mxn::builder().concurrency(1).max_lwps(2).build().expect("the runtime starts");
    play(&rt, || {
        join(workers(5, move |_| {
            for _ in 0..5 {
                block();
                thread::yield_now();
            }
        }));
    });
}

fn lwps_at_their_bound() {
    at_the_bound(|| std::thread::sleep(ms(20)));
}

#[test]
fn lwps_at_their_bound_without_announcement() {
    provoke("LWPs at their bound", Kind::LwpsAtBound, &["worker-"], &["2 LWPs", "max_lwps", "not announce"]);
}

fn announced_and_no_lwp_left() {
    at_the_bound(|| thread::blocking(|| std::thread::sleep(ms(20))));
}

#[test]
fn lwps_at_their_bound_with_announcement() {
    provoke("announced, and no LWP left", Kind::LwpsAtBound, &["worker-", "worker-"], &["in the kernel"]);
}

fn imbalance() {
    // SAFETY: the program has no thread-locals that threads on other LWPs could reach.
    let builder = unsafe { Mxn::builder().concurrency(2).pinned() };
    let rt = builder.build().expect("the runtime starts");
    play(&rt, || {
        static BESIDE: AtomicBool = AtomicBool::new(false);
        static PINNED: AtomicUsize = AtomicUsize::new(0);
        const MANY: usize = 3;
        // It keeps the other LWP while the workers start, so that all of them start on this one.
        let beside = named("beside").spawn(|| {
            BESIDE.store(true, Ordering::Release);
            while PINNED.load(Ordering::Acquire) < MANY {
                hint::spin_loop();
            }
        });
        // This thread must not leave its LWP, or the other thread would start on it.
        while !BESIDE.load(Ordering::Acquire) {
            hint::spin_loop();
        }
        let pinned = workers(MANY, |_| {
            PINNED.fetch_add(1, Ordering::Release);
            for _ in 0..20 {
                thread::yield_now();
                spin(ms(2));
            }
        });
        join(pinned.into_iter().chain([beside.expect("a thread")]));
    });
}

#[test]
fn an_lwp_that_is_idle_beside_waiting_threads() {
    provoke("imbalance", Kind::Imbalance, &["worker-"], &["LWP 0", "LWP 1", "idle"]);
}

fn starvation() {
    play(&slots(1), || {
        static DONE: AtomicBool = AtomicBool::new(false);
        let low = named("low").priority(Priority::Low).spawn(|| {
            while !DONE.load(Ordering::Relaxed) {
                spin(us(100));
                thread::yield_now();
            }
        });
        let high = ["high-0", "high-1"].map(|name| {
            let high = named(name).priority(Priority::High).spawn(|| {
                for _ in 0..100 {
                    spin(ms(2));
                    thread::yield_now();
                }
            });
            high.expect("a thread")
        });
        join(high);
        DONE.store(true, Ordering::Relaxed);
        join([low.expect("a thread")]);
    });
}

#[test]
fn a_low_thread_that_starves() {
    provoke("starvation", Kind::Starvation, &["low", "high-"], &["of low priority", "dispatched"]);
}

fn storm() {
    play(&slots(1), || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let waiters = workers(20, move |_| {
            let (done, changed) = &*theirs;
            let mut done = done.lock();
            while !*done {
                changed.wait(&mut done);
            }
        });
        let herald = named("herald").spawn(move || {
            let (done, changed) = &*shared;
            for _ in 0..50 {
                thread::sleep(us(200));
                // The lock makes sure that no waiter is between its look and its wait.
                drop(done.lock());
                changed.notify_all();
            }
            *done.lock() = true;
            changed.notify_all();
        });
        join(waiters.into_iter().chain([herald.expect("a thread")]));
    });
}

#[test]
fn a_storm_of_wake_ups() {
    provoke("storm", Kind::WakeUpStorm, &["herald", "worker-"], &["a condition variable at 0x", "by herald"]);
}

fn never_runs() {
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().expect("the runtime starts");
    let other = OneToOne::new().expect("the runtime starts");
    set_level(Level::Events);
    static STARTED: AtomicBool = AtomicBool::new(false);
    static DONE: AtomicBool = AtomicBool::new(false);
    let start = || {
        let keeper = named("keeper").spawn(|| {
            STARTED.store(true, Ordering::Release);
            while !DONE.load(Ordering::Acquire) {
                hint::spin_loop();
            }
        });
        // It comes second. If it runs first nevertheless, there is nothing to see, and the test tries again.
        let never = named("never").spawn(|| {});
        join([keeper.expect("a thread"), never.expect("a thread")]);
    };
    let main = rt.spawn_with(named("main"), start).expect("a thread");
    while !STARTED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    // Its events say how long the recording is.
    other.run(|| thread::sleep(ms(400)));
    tell();
    DONE.store(true, Ordering::Release);
    join([main]);
}

#[test]
fn a_thread_that_never_runs() {
    provoke("never runs", Kind::NeverRuns, &["never", "keeper"], &["has never run", "keeper ran"]);
}

/// Two threads take two locks in different orders, and a third waits for their ends.
fn wait_for_each_other() {
    let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
    let both = Arc::new(Barrier::new(2));
    let threads = [("left", 0), ("right", 1)].map(|(name, first)| {
        let (locks, both) = (Arc::clone(&locks), Arc::clone(&both));
        let thread = named(name).spawn(move || {
            let _first = locks[first].lock();
            both.wait();
            let _second = locks[1 - first].lock();
        });
        thread.expect("a thread")
    });
    join(threads);
}

fn deadlock() {
    let rt = slots(2);
    set_level(Level::Events);
    // No thread that the recording knows may go on.
    std::thread::spawn(move || rt.run(wait_for_each_other));
    let at_a_mutex =
        |event: &&Event| matches!(event.kind, EventKind::Block { reason: WaitReason::Mutex, .. });
    while Recording::take().events().iter().filter(at_a_mutex).count() < 2 {
        std::thread::sleep(ms(2));
    }
    std::thread::sleep(ms(150));
    tell();
    std::process::exit(0);
}

#[test]
fn a_deadlock() {
    provoke("deadlock", Kind::Deadlock, &[], &["left waits for the mutex", "right waits for", "same order"]);
}

fn deadlock_that_the_program_finds() {
    let rt = Mxn::builder().concurrency(2).on_deadlock(OnDeadlock::Abort).build();
    rt.expect("the runtime starts").spawn(wait_for_each_other);
    std::thread::sleep(Duration::from_secs(600));
}

/// Runs a program that aborts and says `words`. Returns the recording that it leaves behind for this reason.
fn left_behind(role: &str, reason: &str, words: &[&str]) -> Recording {
    let room = tempfile::tempdir().expect("a folder");
    let path = room.path().join("svt");
    let trace = path.to_str().expect("a path in UTF-8");
    child::run(role, &[("SELVEDGE_TRACE", trace)]).expect_abort(words);
    let left = std::fs::File::open(path.with_extension(reason)).expect("it is left behind");
    Recording::read(left).expect("a recording")
}

fn crash_at_the_bound() {
    let rt = Mxn::builder().concurrency(1).max_lwps(2).build().expect("the runtime starts");
    rt.run(|| {
        join(workers(5, |_| {
            for _ in 0..5 {
                thread::blocking(|| std::thread::sleep(ms(20)));
                thread::yield_now();
            }
        }));
    });
    std::process::abort();
}

/// The recording of a crash knows the settings of the runtime, and names that were no events any more.
#[test]
fn a_crash_is_explained_as_any_other_end() {
    let _watchdog = Watchdog::start("a crash at the bound");
    let _turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
    let fits = || {
        let recording = left_behind("crash at the bound", "abort", &[]);
        let text = report(&recording);
        assert!(text.contains("It was written because the process aborts."), "{text}");
        let found = explain(&recording);
        let bound = found.iter().find(|finding| finding.kind == Kind::LwpsAtBound);
        let bound = bound.ok_or_else(|| text.clone())?.to_string();
        assert!(bound.contains("There may be 2 LWPs: raise `max_lwps`"), "{bound}");
        assert!(bound.contains("worker-"), "{bound}");
        Ok::<(), String>(())
    };
    let tried: Vec<_> = (0..TRIES).map_while(|_| fits().err()).collect();
    assert!(tried.len() < TRIES, "{tried:?}");
}

#[test]
fn a_deadlock_that_the_program_has_found_is_certain() {
    let _watchdog = Watchdog::start("a deadlock that the program finds");
    let recording = left_behind("deadlock that the program finds", "deadlock", &["deadlock"]);
    let found = explain(&recording);
    let worst = found.first().expect("a finding");
    let names: BTreeSet<_> = worst.threads().filter_map(|id| recording.name(id)).collect();
    assert_eq!((worst.kind, worst.severity), (Kind::Deadlock, 1.0), "{worst}");
    assert_eq!(names, BTreeSet::from(["left", "right"]), "{worst}");
    assert!(worst.to_string().contains("The program has found"), "{worst}");
    assert!(report(&recording).contains("It was written because threads wait forever."));
}
