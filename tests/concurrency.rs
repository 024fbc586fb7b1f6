//! What can be seen of a runtime's kernel threads, how many run at once, and how they come and go. In
//! processes of their own, because the kernel threads that are counted are the process's.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "shared; no role here ends by an abort")]
#[path = "support/child.rs"]
mod child;
#[path = "support/cpus.rs"]
mod cpus;
#[path = "concurrency/lwps.rs"]
mod lwps;
#[path = "concurrency/pipe.rs"]
mod pipe;
#[path = "concurrency/refuse.rs"]
mod refuse;
#[macro_use]
#[path = "support/isolated.rs"]
mod isolated;
#[path = "support/unseen.rs"]
mod unseen;
#[path = "support/waiting.rs"]
mod waiting;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lwps::*;
use pipe::Pipe;
use selvedge::thread::{self, ThreadInfo, ThreadState};
use selvedge::{LwpState, Mxn, OneToOne, Runtime, RuntimeStats, Wait, WaitError, mxn};
use waiting::soon;
use watchdog::Watchdog;

/// How long to wait for what must happen.
const PATIENCE: Duration = Duration::from_secs(100);

/// The kernel threads of this process that a runtime has named.
fn named() -> BTreeSet<u32> {
    let tasks = fs::read_dir("/proc/self/task").expect("a /proc").map(|task| task.expect("a task"));
    let ours = tasks.filter(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("selvedge-"))
    });
    ours.map(|task| task.file_name().to_string_lossy().parse().expect("a number")).collect()
}

fn listed(stats: &RuntimeStats) -> BTreeSet<u32> {
    let tids = stats.lwps.iter().map(|lwp| lwp.tid).chain(stats.helpers.iter().map(|helper| helper.tid));
    tids.collect()
}

/// How many LWPs have the right to run green threads.
fn holders(stats: &RuntimeStats) -> usize {
    let holds = [LwpState::Running, LwpState::Searching, LwpState::Idle, LwpState::Blocking];
    holds.into_iter().map(|state| stats.count(state)).sum()
}

fn builder(slots: usize) -> mxn::Builder {
    Mxn::builder().concurrency(slots)
}

fn no_kernel_thread_is_hidden() {
    let rt = builder(2).build().unwrap();
    // From the first moment, and not only soon.
    let stats = rt.stats();
    assert_eq!(listed(&stats), named(), "{stats}");
    assert_eq!((stats.lwps.len(), stats.helpers.len()), (4, 2));
    assert!(!listed(&stats).contains(&0));

    // While there are many, each with something else to do.
    let pipe = Pipe::new();
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let pipe = pipe.clone();
            rt.spawn(move || pipe.read())
        })
        .collect();
    let (announced, end) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let blocking = {
        let (announced, pipe) = (Arc::clone(&announced), pipe.clone());
        rt.spawn(move || {
            thread::blocking(|| {
                announced.store(true, Ordering::Release);
                pipe.read();
            });
        })
    };
    let hog = {
        let end = Arc::clone(&end);
        rt.spawn(move || while !end.load(Ordering::Relaxed) {})
    };
    soon("all readers in the kernel", &rt, |stats| {
        // One may be there unnoticed: no other thread wants to run.
        announced.load(Ordering::Acquire) && stats.count(LwpState::InKernel) >= 19
    });
    soon("the lists agree", &rt, |stats| listed(stats) == named());
    let stats = rt.stats();
    // Beside a load, some may have lost their slots before they got so far.
    assert!(stats.compensated + stats.handed_off >= 15 && stats.threads == 22, "{stats}");
    // Unless it has just been made to yield.
    soon("the hog runs", &rt, |stats| {
        stats.count(LwpState::Running) + stats.count(LwpState::WithoutSlot) >= 1
    });
    let text = stats.to_string();
    assert!(stats.lwps.iter().all(|lwp| text.contains(&lwp.tid.to_string())), "{text}");

    end.store(true, Ordering::Relaxed);
    pipe.write(21);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    blocking.join().unwrap();
    hog.join().unwrap();
    // A thread is counted as ended a moment after it can be joined.
    soon("no thread", &rt, |stats| stats.threads == 0);
    assert_eq!(rt.stats().lwps.iter().map(|lwp| lwp.ended).sum::<u64>(), 22);

    let bound = rt.spawn_with(thread::Builder::new().bound(true), thread::park).unwrap();
    assert_eq!((rt.stats().bound, rt.stats().threads), (1, 1));
    bound.thread().unpark();
    bound.join().unwrap();
    soon("the bound thread is gone", &rt, |stats| stats.bound == 0);
    drop(rt);
    let limit = Instant::now() + PATIENCE;
    while !named().is_empty() {
        assert!(Instant::now() < limit, "{}", watchdog::kernel_threads());
    }

    let kernel = OneToOne::new().unwrap();
    let one = kernel.spawn(thread::park);
    let stats = kernel.stats();
    assert_eq!((stats.threads, stats.bound, stats.lwps.len(), stats.max_lwps), (1, 1, 0, None));
    one.thread().unpark();
    one.join().unwrap();
}

/// `n` threads that meet only if all of them run at once: they wait for each other in user space.
fn meet(rt: &Mxn, n: usize) {
    let here = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..n)
        .map(|_| {
            let here = Arc::clone(&here);
            rt.spawn(move || {
                here.fetch_add(1, Ordering::AcqRel);
                while here.load(Ordering::Acquire) < n {
                    std::hint::spin_loop();
                    unseen::yield_now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Sets the flag when it is dropped.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn the_default_follows_the_cpus() {
    let all = cpus::mine();
    if all.len() == 1 || std::env::var_os("SELVEDGE_CONCURRENCY").is_some() {
        println!("skipped: one CPU, or a concurrency that is set");
        return;
    }

    let end = Arc::new(AtomicBool::new(false));
    let start = |builder: mxn::Builder| {
        let (rt, end) = (builder.build().unwrap(), Arc::clone(&end));
        // In use: the monitor of a runtime that sleeps looks once an LWP wakes.
        let busy = rt.spawn(move || {
            while !end.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
        });
        (rt, busy)
    };
    let ((follows, a), (fixed, b), (set, c)) =
        (start(Mxn::builder()), start(builder(all.len())), start(Mxn::builder()));
    // Dropped before the runtimes, also if an assertion fails: they wait for their threads.
    let _ends = Ends(Arc::clone(&end));
    set.set_concurrency(all.len()).unwrap();
    assert_eq!(follows.concurrency(), thread::available_parallelism().unwrap().get());
    for (set, slots) in [(&all[..1], 1), (&all, follows.concurrency()), (&all[..1], 1)] {
        cpus::send_all(set);
        soon("it follows", &follows, |stats| stats.concurrency == slots && holders(stats) == slots);
    }
    // Longer than the others may need to see what this one saw.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!([fixed.concurrency(), set.concurrency()], [all.len(); 2]);
    cpus::send_all(&all);
    end.store(true, Ordering::Relaxed);
    [a, b, c].into_iter().for_each(|busy| busy.join().unwrap());
}

fn concurrency_grows_and_shrinks() {
    // Without time slices: only slots let two run at once.
    let rt = builder(1).time_slice(None).build().unwrap();
    for n in [3, 6, 2, 4, 1, 5] {
        rt.set_concurrency(n).unwrap();
        assert_eq!((rt.concurrency(), rt.info().concurrency, rt.stats().concurrency), (n, n, n));
        soon("as many slots as were asked for", &rt, |stats| holders(stats) == n);
        meet(&rt, n);
        soon("and still as many", &rt, |stats| holders(stats) == n);
    }
    // A surplus LWP that runs goes on until its thread waits, and what is queued there runs elsewhere.
    rt.set_concurrency(2).unwrap();
    soon("two slots", &rt, |stats| holders(stats) == 2);
    let stop = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let begun = Arc::new(AtomicUsize::new(0));
    let hogs = stop.clone().map(|stop| {
        let begun = Arc::clone(&begun);
        rt.spawn(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    });
    // One may have been found by an LWP that was just losing its slot.
    let run = |stats: &RuntimeStats| stats.count(LwpState::Running) + stats.count(LwpState::WithoutSlot);
    soon("both run", &rt, |stats| begun.load(Ordering::Relaxed) == 2 && holders(stats) == 2);
    rt.set_concurrency(1).unwrap();
    soon("one slot, and both run on", &rt, |stats| holders(stats) == 1 && run(stats) == 2);
    stop.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    soon("one slot", &rt, |stats| holders(stats) == 1);

    for slots in [0, 1025, usize::MAX] {
        let error = rt.set_concurrency(slots).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1 to 1024"), "{error}");
    }
    assert_eq!(rt.concurrency(), 1);
}

/// One slot really is one, and several callers, among green threads that block and wake, do not disturb
/// the count.
fn many_set_the_concurrency_at_once() {
    // LWPs end all the time, too.
    let age = Some(Duration::from_millis(1));
    let rt = Arc::new(builder(2).max_lwps(40).lwp_age(age).build().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let work: Vec<_> = (0..8)
        .map(|n| {
            let stop = Arc::clone(&stop);
            rt.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match n % 4 {
                        0 => unseen::sleep(Duration::from_micros(300)),
                        1 => thread::blocking(|| unseen::sleep(Duration::from_micros(300))),
                        2 => thread::sleep(Duration::from_micros(100)),
                        _ => thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    let seed = |n: usize| (n * 7 + 3) % 12 + 1;
    let callers: Vec<_> = (0..3)
        .map(|caller| {
            let rt = Arc::clone(&rt);
            let call = move || {
                for round in 0..150 {
                    rt.set_concurrency(seed(caller + round)).unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            };
            std::thread::spawn(call)
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    // From within, too.
    {
        let own = Arc::clone(&rt);
        rt.spawn(move || own.set_concurrency(5).unwrap()).join().unwrap();
    }
    assert_eq!(rt.concurrency(), 5);
    // However long ago: nothing may be lost, or doubled, on the way.
    stop.store(true, Ordering::Relaxed);
    work.into_iter().for_each(|thread| thread.join().unwrap());
    soon("five slots", &*rt, |stats| holders(stats) == 5);
    rt.set_concurrency(3).unwrap();
    soon("three slots", &*rt, |stats| holders(stats) == 3);
    meet(&rt, 3);
}

/// `Pinned`: threads are lent a slot where they have to run.
fn concurrency_where_threads_are_pinned() {
    // SAFETY: the threads here keep nothing in thread-locals.
    let rt = unsafe { builder(3).pinned() }.build().unwrap();
    let hop = |_| rt.spawn(|| (0..200).for_each(|_| thread::sleep(Duration::from_micros(50))));
    let threads: Vec<_> = (0..30).map(hop).collect();
    for n in [1, 4, 2, 3, 1] {
        rt.set_concurrency(n).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    soon("one slot, and no loans", &rt, |stats| holders(stats) == 1);
}

/// LWPs end while others are still made: one in the place of another finds no slot there.
fn a_runtime_goes_while_it_grows() {
    for round in 0..300 {
        let rt = builder(1).build().unwrap();
        rt.set_concurrency(4).unwrap();
        if round % 2 == 0 {
            rt.run(thread::yield_now);
        }
    }
}

/// In a fork there is no thread that could make it so.
fn a_fork_is_told() {
    let rt = builder(2).build().unwrap();
    // SAFETY: the child calls what it may after a fork of a process with threads: nothing that takes a lock.
    match unsafe { libc::fork() } {
        0 => {
            let refused = rt.set_concurrency(1).is_err() && rt.concurrency() == 2;
            // SAFETY: ends the child, and runs nothing else.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        child => {
            let mut status = -1;
            // SAFETY: our child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child's verdict");
        }
    }
    rt.set_concurrency(1).unwrap();
    soon("one slot", &rt, |stats| holders(stats) == 1);
}

isolated!(
    also: [("bound", the_bound_is_reached)],
    no_kernel_thread_is_hidden,
    concurrency_grows_and_shrinks,
    the_default_follows_the_cpus,
    many_set_the_concurrency_at_once,
    concurrency_where_threads_are_pinned,
    lwps_age_and_are_used_again,
    a_fork_is_told,
    a_runtime_goes_while_it_grows,
    a_wide_reserve_ages_too,
    deadlines_keep_no_lwp,
    deadlines_outlive_their_lwps,
    lwps_may_stay,
    what_cannot_be_done_is_tried_rarely,
    a_child_outlives_idleness,
    an_lwp_that_cannot_start_is_an_error,
    an_lwp_that_cannot_start_later_is_counted,
);

#[test]
fn reaching_max_lwps_is_counted_and_said_once() {
    let _watchdog = Watchdog::start("max_lwps");
    let ended = child::run("bound", &[]);
    ended.expect_success();
    assert_eq!(ended.said.matches("all 6 kernel threads (LWPs)").count(), 1, "{}", ended.said);
    for word in ["SELVEDGE_MAX_LWPS", "Builder::max_lwps"] {
        assert!(ended.said.contains(word), "{}", ended.said);
    }
}

/// What a program is told is what a runtime does by default.
#[test]
fn the_default_is_what_is_available() {
    let _watchdog = Watchdog::start("the default");
    let available = thread::available_parallelism().unwrap().get();
    if std::env::var_os("SELVEDGE_CONCURRENCY").is_none() {
        assert_eq!(Mxn::new().unwrap().concurrency(), available);
    }
    assert_eq!(OneToOne::new().unwrap().info().concurrency, available);
}
