//! Threads that never yield: a thread that sleeps or yields beside them gets its turns all the same.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::{LwpState, LwpStats, Mxn, Runtime, RuntimeStats, thread};

use crate::calls::Pipe;
use crate::ladder::{ALL, CONTROL, MIGRATING, ThreadRegister, best_of, builder, on, report, sized};
use crate::waiting::soon;

/// Threads that compute until this is dropped.
pub(crate) struct Hogs {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Hogs {
    /// Two for each slot. A thread that comes after them finds no slot free.
    pub(crate) fn start(rt: &Mxn) -> Self {
        Self::with(rt, || ())
    }

    /// The same; now and then they call the runtime, so that one takes part again after its slot was
    /// handed off.
    pub(crate) fn that_come_back(rt: &Mxn) -> Self {
        Self::with(rt, thread::yield_now)
    }

    fn with(rt: &Mxn, now_and_then: fn()) -> Self {
        let slots = rt.info().concurrency;
        let over = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicUsize::new(0));
        let hog = |_| {
            let (over, begun) = (Arc::clone(&over), Arc::clone(&begun));
            rt.spawn(move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    let turn = Instant::now();
                    while turn.elapsed() < Duration::from_millis(20) && !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    now_and_then();
                }
            })
        };
        let threads = (0..2 * slots).map(hog).collect();
        while begun.load(Ordering::Relaxed) < slots {
            std::thread::yield_now();
        }
        Self { over, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|hog| hog.join().unwrap());
    }
}

/// How many of a hundred turns of `act` the caller does in a second.
fn turns_of_a_hundred(mut act: impl FnMut()) -> usize {
    let second = Instant::now() + Duration::from_secs(1);
    let mut turns = 0;
    while turns < 100 && Instant::now() < second {
        act();
        turns += 1;
    }
    turns
}

/// Returns what a green thread gets done in a second beside hogs, in percent of what a kernel thread does.
/// Both share the machine. At full length, it is of a hundred turns.
fn share(rt: &Mxn, mine: fn(), kernel: fn()) -> usize {
    let hogs = Hogs::start(rt);
    let kernel = std::thread::spawn(move || turns_of_a_hundred(kernel));
    let turns = rt.spawn(move || turns_of_a_hundred(mine)).join().unwrap();
    let kernel = kernel.join().unwrap();
    drop(hogs);
    let stats = rt.stats();
    report(format_args!(
        "{turns} turns, a kernel thread {kernel}; {} preempted, {} handed off",
        stats.preempted, stats.handed_off
    ));
    // Where other processes have the CPUs, all may have become kernel threads.
    assert!(stats.preempted + stats.handed_off > 0, "{stats}");
    100 * turns / sized(kernel.max(1), 100)
}

/// Percent. A thread that waits for every hog's slice gets half of the lower.
const ENOUGH: (usize, usize) = (50, 90);
/// A hundred of these make a second.
const SLEEP: Duration = Duration::from_millis(10);

#[test]
fn a_sleeper_beside_hogs_wakes_nearly_on_time() {
    on(MIGRATING, "100 sleeps beside hogs", |rung| {
        let enough = sized(ENOUGH.0, ENOUGH.1);
        let sleeps = || {
            let rt = builder(rung).concurrency(2).build().unwrap();
            share(&rt, || thread::sleep(SLEEP), || std::thread::sleep(SLEEP))
        };
        best_of(&format!("{rung:?}: sleeps of 10 ms in a second, percent"), |&n| n >= enough, sleeps);
    });
}

#[test]
fn a_thread_that_yields_to_hogs_gets_its_turn_back() {
    on(MIGRATING, "100 yields beside hogs", |rung| {
        let enough = sized(ENOUGH.0, ENOUGH.1);
        let yields = || {
            let rt = builder(rung).concurrency(2).build().unwrap();
            share(&rt, thread::yield_now, std::thread::yield_now)
        };
        best_of(&format!("{rung:?}: yields in a second, percent"), |&n| n >= enough, yields);
    });
}

/// Returns `true` if a slot went to a spare, whatever for. One may also have been lent, beside an LWP that
/// the kernel kept from running. That is not counted, but the spare has run threads.
fn moved(stats: &RuntimeStats) -> bool {
    let is_beside = |lwp: &LwpStats| lwp.number >= stats.concurrency && lwp.dispatches > 0;
    stats.handed_off + stats.compensated > 0 || stats.lwps.iter().any(is_beside)
}

/// Where threads stay with their LWP, and no signal may move them: hogs are handed off, and new threads run.
#[test]
fn new_threads_run_beside_hogs() {
    on(ALL, "new threads beside hogs", |rung| {
        let enough = sized(ENOUGH.0, ENOUGH.1);
        let threads = || {
            let rt = builder(rung).concurrency(2).build().unwrap();
            let _hogs = Hogs::start(&rt);
            let started = turns_of_a_hundred(|| rt.spawn(|| ()).join().unwrap());
            let stats = rt.stats();
            match rung {
                ThreadRegister::Pinned => assert!(stats.preempted == 0 && moved(&stats), "{stats}"),
                _ => assert!(stats.preempted + stats.handed_off > 0, "{stats}"),
            }
            started
        };
        best_of(&format!("{rung:?}: threads in a second, of 100"), |&n| n >= enough, threads);
    });
}

/// A program that wants no signals: hogs are handed off, on every rung.
#[test]
fn new_threads_run_beside_hogs_without_a_signal() {
    on(ALL, "new threads beside hogs, no signal", |rung| {
        let rt = builder(rung).concurrency(2).preemption_signal(None).build().unwrap();
        let _hogs = Hogs::start(&rt);
        (0..20).for_each(|_| rt.spawn(|| ()).join().unwrap());
        let stats = rt.stats();
        assert!(stats.preempted == 0 && moved(&stats), "{stats}");
    });
}

/// The same, if another runtime of the process uses signals, and no LWP is left that the slot could go to.
#[test]
fn no_signal_comes_to_a_runtime_that_wants_none() {
    on(MIGRATING, "a hog on the only LWP, no signal", |rung| {
        let _with_signals = builder(rung).concurrency(1).build().unwrap();
        let rt = builder(rung).concurrency(1).max_lwps(1).preemption_signal(None).build().unwrap();
        let hog = rt.spawn(|| {
            let before = cpu_time();
            while cpu_time() - before < Duration::from_millis(300) {
                std::hint::spin_loop();
            }
        });
        rt.spawn(|| ()).join().unwrap();
        hog.join().unwrap();
        assert_eq!(rt.stats().preempted, 0);
    });
}

/// A thread blocks a signal that its LWP does not, so no signal can move it. Its slot is handed off, and it
/// goes on beside. Once it can be moved it is, though it never calls the runtime. Then no more kernel threads
/// are at work than slots. The thread asks the kernel, for `pthread_sigmask` may be ours, by which a mask goes
/// where its thread goes.
#[test]
fn a_thread_is_preempted_once_it_can_be() {
    on(MIGRATING, "a hog that blocks a signal for some time", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let (masked, over) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let stubborn = {
            let (masked, over) = (Arc::clone(&masked), Arc::clone(&over));
            rt.spawn(move || {
                block(libc::SIG_BLOCK);
                while masked.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                block(libc::SIG_UNBLOCK);
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let hogs = Hogs::start(&rt);
        // If it fails, the runtime does not wait for that thread for ever.
        let is_handed_off = || soon("a hand-off", &rt, |stats| stats.handed_off > 0);
        let handed_off = catch_unwind(AssertUnwindSafe(is_handed_off));
        masked.store(false, Ordering::Relaxed);
        if let Err(why) = handed_off {
            over.store(true, Ordering::Relaxed);
            resume_unwind(why);
        }
        let (begin, used) = (Instant::now(), cpu_time());
        let patience = sized(Duration::from_secs(5), Duration::from_secs(30));
        let beside = || rt.stats().lwps.iter().any(|lwp| lwp.state == LwpState::WithoutSlot);
        while beside() && begin.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (stays, stats) = (begin.elapsed() >= patience, rt.stats());
        let share = (cpu_time() - used).as_secs_f64() / begin.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        stubborn.join().unwrap();
        drop(hogs);
        if stays {
            // Where other processes have the CPUs, it is to stay beside.
            let cpus = std::thread::available_parallelism().unwrap().get().min(2);
            assert!(share < 0.9 * cpus as f64, "two threads run on one slot: {stats}");
            report(format_args!("skipped: the process had {share:.2} CPUs"));
        }
    });
}

/// A thread is queued on an LWP, and the LWP's own thread sleeps in the kernel until that one has run. It
/// runs, although there are always preempted threads.
#[test]
fn a_thread_queued_on_an_lwp_that_sleeps_runs_beside_hogs() {
    on(MIGRATING, "a thread that is queued on an LWP that sleeps", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        // More than become kernel threads where other processes have the CPUs.
        let hogs = [(); 5].map(|()| Hogs::start(&rt));
        for turn in 0..5 {
            let waiter = rt.spawn(|| {
                let pipe = Arc::new(Pipe::new());
                let theirs = Arc::clone(&pipe);
                let writer = thread::spawn(move || theirs.write());
                pipe.read();
                writer.join().unwrap();
            });
            let ended = waiter.join_timeout(Duration::from_secs(100));
            if ended.is_err() {
                let stats = rt.stats();
                drop(hogs);
                panic!("still not, in turn {turn}: {stats:#?}");
            }
        }
    });
}

/// Blocks or unblocks a signal for the calling kernel thread.
fn block(how: i32) {
    let set = 1_u64 << (libc::SIGUSR2 - 1);
    // SAFETY: the call reads eight bytes of a set, and the old one is not asked for.
    let refused = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, ptr::null::<u64>(), size_of_val(&set))
    };
    assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
}

/// What the process has had of the CPUs.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The control: without slices, no thread does.
#[test]
fn without_slices_no_thread_runs_beside_hogs() {
    on(ALL, "hogs without slices", |rung| {
        let rt = builder(rung).concurrency(2).max_lwps(2).time_slice(None).build().unwrap();
        let hogs = Hogs::start(&rt);
        let turns = Arc::new(AtomicU32::new(0));
        let others = [(); 2].map(|()| {
            let turns = Arc::clone(&turns);
            rt.spawn(move || {
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            })
        });
        std::thread::sleep(CONTROL);
        assert_eq!(turns.load(Ordering::Relaxed), 0, "a thread ran beside hogs that were not stopped");
        let stats = rt.stats();
        assert_eq!((stats.preempted, stats.handed_off), (0, 0), "{stats}");
        drop(hogs);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
