//! Open workloads: short threads arrive and end all the time, beside long ones that always compute. Each
//! thread gets its share, and both kinds make progress.
//!
//! Everything is counted in steps of computing and not in time, so that other processes change nothing. Every
//! LWP has a slot. With more LWPs, threads would be handed to the kernel beside other processes, and the
//! kernel has a different idea of shares.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use selvedge::mxn::Mxn;
use selvedge::{Runtime, thread};

use crate::ladder::{MIGRATING, best_of, builder, on, sized};

/// The time of a step of computing, on an otherwise idle CPU.
const STEP: Duration = Duration::from_micros(20);
/// The time limit of a workload, for a crowded machine. On an idle one it takes half a second.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
struct Workload {
    what: &'static str,
    slots: usize,
    long: usize,
    /// The number of short threads at a time: when one ends, the next arrives.
    short: usize,
    /// The least and the most that a short thread computes, in steps.
    length: (u64, u64),
    /// `true` if a kernel thread spawns the short threads; otherwise each spawns the next.
    outside: bool,
}

const WORKLOADS: [Workload; 3] = [
    Workload { what: "four of 20 ms", slots: 1, long: 1, short: 4, length: (1000, 1000), outside: false },
    Workload { what: "ten of 2 to 4 ms", slots: 1, long: 1, short: 10, length: (100, 200), outside: true },
    Workload {
        what: "twelve of 1 to 40 ms",
        slots: 2,
        long: 4,
        short: 12,
        length: (50, 2000),
        outside: false,
    },
];

struct Scene {
    workload: Workload,
    /// The rounds of computing in a step.
    step: u64,
    /// The steps of all threads.
    done: AtomicU64,
    over: AtomicBool,
    random: AtomicU64,
    ended: Sender<Ended>,
}

/// The steps of a short thread, and of all threads meanwhile.
struct Ended {
    own: u64,
    all: u64,
}

fn compute(rounds: u64) {
    black_box((0..rounds).fold(1_u64, |x, round| black_box(x.wrapping_mul(31) ^ round)));
}

fn calibrated() -> u64 {
    let took = (0..20).map(|_| {
        let start = Instant::now();
        compute(10_000);
        start.elapsed()
    });
    let fastest = took.min().expect("some").as_nanos().max(1);
    u64::try_from(10_000 * STEP.as_nanos() / fastest).expect("a number").max(1)
}

impl Scene {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn step(&self) {
        compute(self.step);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the body of a short thread that arrives now.
    fn short(self: &Arc<Self>) -> impl FnOnce() + Send + 'static {
        let (scene, born) = (Arc::clone(self), self.done());
        let (least, most) = self.workload.length;
        let random = self
            .random
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let own = least + (random >> 33) % (most - least + 1);
        move || {
            for _ in 0..own {
                scene.step();
            }
            let _ = scene.ended.send(Ended { own, all: scene.done() - born });
            if !scene.workload.outside && !scene.is_over() {
                drop(thread::spawn(scene.short()));
            }
        }
    }
}

/// The part of its fair share that a thread got: the least served long one, and the median short one.
#[derive(Debug, PartialEq, PartialOrd)]
struct Shares {
    long: f64,
    short: f64,
}

/// Collects the short threads that end, and spawns the next ones, until `steps` steps are done.
fn watch(rt: &Mxn, scene: &Arc<Scene>, ended: &Receiver<Ended>, steps: u64) -> Vec<Ended> {
    let end = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while scene.done() < steps && Instant::now() < end {
        let Ok(one) = ended.recv_timeout(Duration::from_millis(10)) else { continue };
        all.push(one);
        if scene.workload.outside {
            drop(rt.spawn(scene.short()));
        }
    }
    all
}

fn play(rt: &Mxn, workload: Workload) -> Shares {
    let (sender, ended) = channel();
    let scene = Arc::new(Scene {
        workload,
        step: calibrated(),
        done: AtomicU64::new(0),
        over: AtomicBool::new(false),
        random: AtomicU64::new(1),
        ended: sender,
    });
    let steps =
        (sized(1, 10) * workload.slots as u64) * Duration::from_millis(500).div_duration_f64(STEP) as u64;
    let long = |_| {
        let scene = Arc::clone(&scene);
        rt.spawn(move || {
            let mut own = 0;
            while !scene.is_over() {
                scene.step();
                own += 1;
            }
            own
        })
    };
    let long: Vec<thread::JoinHandle<u64>> = (0..workload.long).map(long).collect();
    for _ in 0..workload.short {
        drop(rt.spawn(scene.short()));
    }
    let ended = watch(rt, &scene, &ended, steps);
    scene.over.store(true, Ordering::Relaxed);
    let threads = (workload.long + workload.short) as f64;
    let fair = scene.done() as f64 / threads;
    let shares = long.into_iter().map(|long| long.join().unwrap() as f64 / fair);
    let mut short: Vec<f64> = ended.iter().map(|one| one.own as f64 / (one.all as f64 / threads)).collect();
    short.sort_by(f64::total_cmp);
    Shares {
        long: shares.fold(f64::MAX, f64::min),
        short: short.get(short.len() / 2).copied().unwrap_or(0.0),
    }
}

/// New threads once started with no use of the CPU. Each was owed more than it ever computed, so long ones
/// starved.
#[test]
fn threads_that_arrive_and_threads_that_stay_get_their_shares() {
    on(MIGRATING, "open workloads", |rung| {
        for workload in WORKLOADS {
            let rt = builder(rung).concurrency(workload.slots).max_lwps(workload.slots).build().unwrap();
            let enough = |shares: &Shares| shares.long >= 0.5 && shares.short >= 0.5;
            best_of(&format!("{rung:?}: {}", workload.what), enough, || play(&rt, workload));
        }
    });
}
