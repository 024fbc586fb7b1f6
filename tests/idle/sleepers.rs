//! Threads sleep in different ways, in several runtimes of one process. Nothing wakes up meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister, mxn, thread};

use super::{SETTLED, full, unseen};

/// The most wake-ups in a process in which all threads sleep.
const WAKE_UPS_A_SECOND: u64 = 2;
/// The time for which wake-ups are counted.
const WINDOW: Duration = Duration::from_secs(2);
/// An answer is prompt if it comes within this time. One of [`TRIALS`] must be, as CPUs may be busy.
const PROMPT: Duration = Duration::from_millis(5);
const TRIALS: usize = 12;

/// Ends the sleep of a thread.
type Wake = Box<dyn FnOnce()>;

/// A way to sleep: what the thread does, and what ends its sleep.
type Kind = fn() -> (Box<dyn FnOnce() + Send>, Wake);

fn read() -> (Box<dyn FnOnce() + Send>, Wake) {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let sleep = move || assert!(unseen::read(&theirs));
    (Box::new(sleep), Box::new(move || ours.write_all(&[1]).expect("a reader")))
}

/// As a program does, so that the thread may wait without its LWP (feature `interpose`).
fn read_by_std() -> (Box<dyn FnOnce() + Send>, Wake) {
    let (mut ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    let sleep = move || theirs.read_exact(&mut [0]).expect("a byte");
    (Box::new(sleep), Box::new(move || ours.write_all(&[1]).expect("a reader")))
}

fn accept() -> (Box<dyn FnOnce() + Send>, Wake) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let sleep = move || unseen::accept(&listener);
    (Box::new(sleep), Box::new(move || drop(TcpStream::connect(address).expect("a listener"))))
}

fn poll() -> (Box<dyn FnOnce() + Send>, Wake) {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let sleep = move || unseen::poll(&theirs);
    (Box::new(sleep), Box::new(move || ours.write_all(&[1]).expect("a reader")))
}

fn blocking() -> (Box<dyn FnOnce() + Send>, Wake) {
    let (sleep, wake) = read();
    (Box::new(|| thread::blocking(sleep)), wake)
}

fn std_lock() -> (Box<dyn FnOnce() + Send>, Wake) {
    let lock: &'static Mutex<()> = Box::leak(Box::new(Mutex::new(())));
    let guard: MutexGuard<'static, ()> = lock.lock().expect("a fresh lock");
    (Box::new(|| drop(lock.lock().expect("no poison"))), Box::new(|| drop(guard)))
}

fn own_lock() -> (Box<dyn FnOnce() + Send>, Wake) {
    let lock: &'static selvedge::sync::Mutex<()> = Box::leak(Box::new(selvedge::sync::Mutex::new(())));
    let guard = lock.lock();
    (Box::new(|| drop(lock.lock())), Box::new(|| drop(guard)))
}

const KINDS: [Kind; 7] = [read, read_by_std, accept, poll, blocking, std_lock, own_lock];

fn mxn(slots: usize) -> mxn::Builder {
    Mxn::builder().concurrency(slots).max_lwps(64)
}

/// Returns runtimes of each kind and of each rung. The last of the green ones is pinned.
fn runtimes() -> (Vec<Mxn>, OneToOne) {
    // SAFETY: no thread here keeps anything in a thread-local, or runs for long.
    let pinned = unsafe { mxn(2).pinned() };
    let builders = [mxn(1), mxn(3), mxn(2).thread_register(ThreadRegister::Syscall), pinned];
    let green = builders.map(|builder| builder.build().expect("a runtime"));
    (green.into(), OneToOne::new().expect("a runtime"))
}

/// Returns the context switches of each kernel thread of this process except the caller.
fn switches() -> Vec<(String, u64)> {
    // SAFETY: no arguments.
    let me = unsafe { libc::gettid() }.to_string();
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").expect("a /proc").flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let tid = task.file_name().to_string_lossy().into_owned();
        if tid == me {
            continue;
        }
        let status = read("status");
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        let count = counts.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum();
        found.push((format!("{tid} {}", read("comm").trim()), count));
    }
    found.sort();
    found
}

/// Waits until all threads sleep and nothing wakes up any more.
fn settle(what: &str) {
    let deadline = Instant::now() + SETTLED;
    loop {
        let before = switches();
        std::thread::sleep(WINDOW);
        let after = switches();
        let sum = |counts: &[(String, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
        if sum(&after).abs_diff(sum(&before)) <= WAKE_UPS_A_SECOND * WINDOW.as_secs() {
            return;
        }
        if Instant::now() > deadline {
            let busy: Vec<_> = after.iter().filter(|task| !before.contains(task)).collect();
            eprintln!("{what}: these go on: {busy:?}");
            // Not by a panic: dropping the runtimes would wait for the sleepers.
            std::process::exit(1);
        }
    }
}

/// Puts threads of `kinds` to sleep, `count` of each in each runtime. Then wakes them one by one, except the
/// pinned ones. Of these, one may wait for the LWP in which another one sleeps, so they are woken together.
fn sleep_and_wake(what: &str, kinds: &[Kind], count: usize) {
    let (green, kernel) = runtimes();
    let (pinned, free) = green.split_last().expect("runtimes");
    let (mut sleepers, mut together) = (Vec::new(), Vec::new());
    for kind in kinds.iter().cycle().take(kinds.len() * count) {
        for rt in free {
            let (sleep, wake) = kind();
            sleepers.push((rt.spawn(sleep), wake));
        }
        let (sleep, wake) = kind();
        together.push((pinned.spawn(sleep), wake));
        let (sleep, wake) = kind();
        sleepers.push((kernel.spawn(sleep), wake));
        let (sleep, wake) = kind();
        let bound = thread::Builder::new().bound(true).spawn_on(&green[0], sleep);
        sleepers.push((bound.expect("a bound thread"), wake));
    }
    settle(what);
    for (sleeper, wake) in sleepers {
        wake();
        sleeper.join().expect("a sleeper");
    }
    let pinned: Vec<_> = together.into_iter().map(|(sleeper, wake)| (sleeper, wake())).collect();
    pinned.into_iter().for_each(|(sleeper, ())| sleeper.join().expect("a pinned sleeper"));
    settle(what);
    green.iter().for_each(|rt| rt.spawn(|| ()).join().expect("a thread"));
}

pub(super) fn one_reads() {
    sleep_and_wake("one in read", &[read], 1);
}

pub(super) fn one_accepts() {
    sleep_and_wake("one in accept", &[accept], 1);
}

pub(super) fn one_polls() {
    sleep_and_wake("one in poll", &[poll], 1);
}

pub(super) fn one_blocks() {
    sleep_and_wake("one in a region", &[blocking], 1);
}

pub(super) fn several_block() {
    sleep_and_wake("five in regions", &[blocking], 5);
}

pub(super) fn one_waits_for_std() {
    sleep_and_wake("one at a lock of std", &[std_lock], 1);
}

pub(super) fn all_sleep() {
    sleep_and_wake("two of each kind", &KINDS, if full() { 6 } else { 2 });
}

/// Other threads drop the runtimes, and wait for the threads that sleep.
pub(super) fn dropped_while_they_sleep() {
    let (green, kernel) = runtimes();
    let mut wakes = Vec::new();
    for kind in [read, std_lock, own_lock, blocking] {
        for rt in &green {
            let (sleep, wake) = kind();
            let _ = rt.spawn(sleep);
            wakes.push(wake);
        }
        let (sleep, wake) = kind();
        let _ = kernel.spawn(sleep);
        wakes.push(wake);
        // The runtime learns of this thread only when it ends.
        let (sleep, wake) = kind();
        let _ = thread::Builder::new().bound(true).spawn_on(&green[0], sleep).expect("a bound thread");
        wakes.push(wake);
    }
    let droppers: Vec<_> = green.into_iter().map(|rt| std::thread::spawn(|| drop(rt))).collect();
    let dropper = std::thread::spawn(|| drop(kernel));
    settle("in runtimes that were dropped");
    wakes.into_iter().for_each(|wake| wake());
    droppers.into_iter().chain([dropper]).for_each(|dropper| dropper.join().expect("a runtime's end"));
}

/// Checks that an answer is prompt after all threads have slept. The closure returns the time of the answer.
fn answer_after_sleep(what: &str, mut ask: impl FnMut() -> Instant) {
    let mut took = Vec::new();
    for _ in 0..TRIALS {
        settle(what);
        let asked = Instant::now();
        took.push(ask().saturating_duration_since(asked));
        if took.last().is_some_and(|took| *took < PROMPT) {
            return;
        }
    }
    eprintln!("{what}: no answer within {PROMPT:?}: {took:?}");
    std::process::exit(1);
}

/// A thread sleeps in the kernel on the only slot, while others are spawned and their deadlines pass.
pub(super) fn others_go_on_beside_a_sleeper() {
    // SAFETY: no thread here keeps anything in a thread-local, or runs for long.
    let pinned = unsafe { mxn(1).pinned() };
    for (rung, builder) in [("its own register", mxn(1)), ("pinned", pinned)] {
        let rt = builder.build().expect("a runtime");
        let (sleep, wake) = read();
        let sleeper = rt.spawn(sleep);
        answer_after_sleep(&format!("a spawn, {rung}"), || rt.spawn(Instant::now).join().expect("a thread"));
        let due = Duration::from_secs(6);
        let begun = Instant::now();
        let late: thread::JoinHandle<Duration> = rt.spawn(move || {
            thread::sleep(due);
            begun.elapsed()
        });
        settle("one sleeps for some time");
        let late = late.join().expect("a thread");
        assert!(late >= due && late < due + SETTLED, "{rung}: {late:?}");
        wake();
        sleeper.join().expect("the sleeper");
    }
}

/// A thread that sleeps in the kernel gets a byte. It goes on, and unparks another thread.
pub(super) fn a_sleeper_goes_on() {
    for slots in [1, 2] {
        let rt = mxn(slots).build().expect("a runtime");
        let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let answers = Arc::new(selvedge::sync::Mutex::new(Vec::new()));
        let parked = {
            let answers = Arc::clone(&answers);
            let mut theirs = theirs.try_clone().expect("another end");
            rt.spawn(move || {
                loop {
                    thread::park();
                    if answers.lock().is_empty() {
                        return;
                    }
                    theirs.write_all(&[2]).expect("the other side");
                }
            })
        };
        let reader = {
            let (answers, parked) = (Arc::clone(&answers), parked.thread().clone());
            rt.spawn(move || {
                while unseen::read(&theirs) {
                    answers.lock().push(1);
                    parked.unpark();
                }
            })
        };
        answer_after_sleep(&format!("a byte, {slots} slots"), || {
            ours.write_all(&[1]).expect("a reader");
            ours.read_exact(&mut [0]).expect("an answer");
            Instant::now()
        });
        drop(ours);
        reader.join().expect("the reader");
        answers.lock().clear();
        parked.thread().unpark();
        parked.join().expect("the parked one");
    }
}
