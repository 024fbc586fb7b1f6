//! Open workloads in virtual time. The figures, the queue and the order of `sched::fair_share`, and the
//! slices of `monitor::policy`, are the real ones. The LWPs and the monitor around them are a few lines here.
//! Ideally, all threads alive share the LWPs equally at every moment.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use super::super::policy::{BALANCED, CANDIDATES};
use super::FairShare;
use crate::mxn::monitor::policy::{Sample, Waiting};
use crate::mxn::run_queue::inject::{Inject, Linked, Links};

const MS: u64 = 1_000_000;
/// The length of a step of the simulation.
const STEP: u64 = MS / 10;
/// The time between two rounds of the monitor.
const ROUND: u64 = MS;
const TIME: u64 = 5_000 * MS;

struct Thread {
    links: Links<Thread>,
    /// Its run time as `FairShare` counts it.
    ran: Cell<u64>,
    /// Its real run time.
    had: Cell<u64>,
    /// Its run time if all shared equally.
    ideal: Cell<f64>,
    /// The run time after which it ends.
    length: u64,
}

// SAFETY: a field of the node, which stays where it is until the simulation is over.
unsafe impl Linked for Thread {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Thread {
    /// Returns how much of its fair share it got.
    fn share(&self) -> f64 {
        self.had.get() as f64 / self.ideal.get()
    }
}

type Ref = NonNull<Thread>;

fn get<'a>(thread: Ref) -> &'a Thread {
    // SAFETY: the machine keeps all its threads, and no reference outlives the machine.
    unsafe { thread.as_ref() }
}

#[derive(Default)]
struct Slot {
    ring: VecDeque<Ref>,
    runs: Option<Ref>,
    /// When that thread began to run.
    since: u64,
    /// The monitor wants it to look at all queues.
    looks: bool,
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
struct Workload {
    slots: usize,
    /// Threads that compute all the time.
    long: usize,
    /// The number of short threads alive. When one ends, the next arrives.
    short: usize,
    /// The least and the most that a short thread computes, in ms.
    length: (u64, u64),
    /// Short threads arrive from outside the runtime.
    outside: bool,
    seed: u64,
}

struct Machine {
    workload: Workload,
    shares: FairShare,
    preempted: Inject<Thread>,
    injected: VecDeque<Ref>,
    slots: Vec<Slot>,
    #[expect(clippy::vec_box, reason = "queues point to the threads, so they must not move")]
    all: Vec<Box<Thread>>,
    alive: Vec<Ref>,
    ended: Vec<Ref>,
    now: u64,
    random: u64,
}

impl Machine {
    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn spawn(&mut self, length: u64) -> Ref {
        self.all.push(Box::new(Thread {
            links: Links::new(),
            ran: Cell::new(self.shares.fair()),
            had: Cell::new(0),
            ideal: Cell::new(0.0),
            length,
        }));
        let thread = NonNull::from(self.all.last().expect("just pushed").as_ref());
        self.alive.push(thread);
        thread
    }

    fn spawn_short(&mut self) -> Ref {
        let (least, most) = self.workload.length;
        let steps = least * MS / STEP + self.random((most - least) * MS / STEP + 1);
        self.spawn(steps * STEP)
    }

    fn take_preempted(&self, below: u64) -> Option<Ref> {
        let ran = |thread| get(thread).ran.get();
        self.preempted.take_least(CANDIDATES, below, ran, |left| self.shares.set_least(left))
    }

    /// Plays `Scheduler::pick`.
    fn pick(&mut self, at: usize) {
        let next = match self.pick_fresh(at) {
            Some(fresh) => {
                let below = self.shares.goes_behind(get(fresh).ran.get());
                let behind = if self.shares.least() < below { self.take_preempted(below) } else { None };
                if behind.is_some() {
                    self.slots[at].ring.push_front(fresh);
                }
                Some(behind.unwrap_or(fresh))
            }
            None => self.steal(at).or_else(|| self.take_preempted(u64::MAX)),
        };
        (self.slots[at].runs, self.slots[at].since) = (next, self.now);
    }

    /// Plays `Scheduler::pick_fresh`.
    fn pick_fresh(&mut self, at: usize) -> Option<Ref> {
        let slot = &mut self.slots[at];
        if std::mem::take(&mut slot.looks) {
            slot.turn += 1;
            if slot.turn.is_multiple_of(2)
                && let Some(injected) = self.injected.pop_front()
            {
                return Some(injected);
            }
            let victim = slot.turn % self.slots.len();
            let (theirs, ours) = (self.slots[victim].ring.len(), self.slots[at].ring.len());
            if theirs > 2 * ours + BALANCED {
                let moved: Vec<Ref> = self.slots[victim].ring.drain(..(theirs - ours) / 2).collect();
                self.slots[at].ring.extend(moved);
            }
        }
        self.slots[at].ring.pop_front().or_else(|| self.injected.pop_front())
    }

    /// Plays `Scheduler::steal_beside_preempted`, and the search.
    fn steal(&mut self, at: usize) -> Option<Ref> {
        if self.preempted.len() > 0 && self.shares.least() <= self.shares.fair() {
            return None;
        }
        let victim =
            (0..self.slots.len()).find(|&other| other != at && !self.slots[other].ring.is_empty())?;
        let half = self.slots[victim].ring.len().div_ceil(2);
        let stolen: Vec<Ref> = self.slots[victim].ring.drain(..half).collect();
        self.slots[at].ring.extend(stolen);
        self.slots[at].ring.pop_front()
    }

    /// Plays `Scheduler::count_share`, for a thread that leaves.
    fn leave(&mut self, at: usize) -> Ref {
        let slot = &mut self.slots[at];
        let (left, more) = (slot.runs.take().expect("one that runs"), self.now - slot.since);
        let ran = self.shares.add(get(left).ran.get(), more);
        self.shares.advance(more, ran);
        get(left).ran.set(ran);
        left
    }

    /// Does a round of the monitor.
    fn round(&mut self) {
        self.shares.compete(self.alive.len());
        let fresh = self.injected.len() + self.slots.iter().map(|slot| slot.ring.len()).sum::<usize>();
        let ahead = self.preempted.len().div_ceil(self.slots.len()) as u32;
        let waiting = match (fresh, ahead) {
            (0, 0) => Waiting::NoThread,
            (0, ahead) => Waiting::Preempted { ahead },
            _ => Waiting::Woken,
        };
        for at in 0..self.slots.len() {
            self.slots[at].looks = ahead > 0;
            let had = self.now - self.slots[at].since;
            let sample = Sample { holds_slot: true, had, slice: 10 * MS, ..Sample::default() };
            if self.slots[at].runs.is_some() && sample.left(waiting) == Some(0) {
                let left = self.leave(at);
                self.shares.note(get(left).ran.get());
                self.preempted.push(left);
            }
        }
    }

    fn step(&mut self) {
        if self.now.is_multiple_of(ROUND) {
            self.round();
        }
        for at in 0..self.slots.len() {
            if self.slots[at].runs.is_none() {
                self.pick(at);
            }
        }
        let ideal = STEP as f64 * (self.slots.len() as f64 / self.alive.len() as f64).min(1.0);
        self.alive.iter().for_each(|&thread| get(thread).ideal.update(|so_far| so_far + ideal));
        self.now += STEP;
        for at in 0..self.slots.len() {
            let Some(runs) = self.slots[at].runs.map(get) else { continue };
            runs.had.update(|so_far| so_far + STEP);
            if runs.had.get() >= runs.length {
                let ended = self.leave(at);
                self.alive.retain(|&thread| thread != ended);
                self.ended.push(ended);
                let next = self.spawn_short();
                let queue = if self.workload.outside { &mut self.injected } else { &mut self.slots[at].ring };
                queue.push_back(next);
            }
        }
    }

    fn play(workload: Workload) -> Self {
        let mut machine = Self {
            workload,
            shares: FairShare::new(),
            preempted: Inject::new(),
            injected: VecDeque::new(),
            slots: (0..workload.slots).map(|_| Slot::default()).collect(),
            all: Vec::new(),
            alive: Vec::new(),
            ended: Vec::new(),
            now: 0,
            random: workload.seed,
        };
        for _ in 0..workload.long {
            let long = machine.spawn(u64::MAX);
            machine.injected.push_back(long);
        }
        for _ in 0..workload.short {
            let short = machine.spawn_short();
            machine.injected.push_back(short);
        }
        while machine.now < TIME {
            machine.step();
        }
        machine
    }

    /// Returns four shares:
    ///
    /// - the least of the long threads;
    /// - the least of the short threads that are alive and should have run for some slices;
    /// - the median of the threads that have ended;
    /// - the first percentile of the threads that have ended.
    fn figures(&self) -> [f64; 4] {
        let shares = |threads: &mut dyn Iterator<Item = &Thread>| {
            let mut shares: Vec<f64> = threads.map(Thread::share).collect();
            shares.sort_by(f64::total_cmp);
            shares
        };
        let is_long = |thread: &&Thread| thread.length == u64::MAX;
        let long = shares(&mut self.alive.iter().copied().map(get).filter(is_long));
        let waits = |thread: &&Thread| thread.ideal.get() >= 5.0 * MS as f64;
        let alive = shares(&mut self.alive.iter().copied().map(get).filter(waits));
        let short = shares(&mut self.ended.iter().copied().map(get));
        [long[0], alive[0], short[short.len() / 2], short[short.len() / 100]]
    }
}

/// If new threads started at zero, a thread of `(1, 1, 4, (20, 20))` would get 0.01 of its share.
#[test]
fn long_and_short_threads_get_their_shares_of_open_workloads() {
    let mut random = 1_u64;
    let mut draw = |least: u64, most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (random >> 33) % (most - least + 1)
    };
    let fixed = [
        (1, 1, 4, (20, 20)),
        (2, 2, 100, (1, 40)),
        (1, 1, 1, (1, 1)),
        (2, 2, 20, (1, 1)),
        (2, 50, 5, (1, 4)),
    ];
    for number in 0..60 {
        let (slots, long, short, length) = fixed.get(number).copied().unwrap_or_else(|| {
            let least = draw(1, 20);
            (draw(1, 4) as usize, draw(1, 12) as usize, draw(1, 100) as usize, (least, draw(least, 40)))
        });
        let workload =
            Workload { slots, long, short, length, outside: draw(0, 1) == 1, seed: draw(1, 1 << 30) };
        let figures = Machine::play(workload).figures();
        let [long, alive, median, slow] = figures;
        println!("{workload:?}: long {long:.2}, alive {alive:.2}, short {median:.2}, {slow:.2}");
        assert!(long >= 0.9, "a long thread got {long:.2} of its share: {workload:?}");
        assert!(alive >= 0.5, "a short thread got {alive:.2} of its share so far: {workload:?}");
        assert!(
            median >= 0.9,
            "half of the short threads got {median:.2} of their shares at most: {workload:?}"
        );
        assert!(
            slow >= 0.5,
            "one in a hundred short threads got {slow:.2} of its share at most: {workload:?}"
        );
    }
}
