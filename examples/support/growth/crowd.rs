//! What one crowd of threads costs.
//!
//! All threads of the crowd exist all the time. They park, are called to a step, do it, and park again:
//!
//! - *start*: from the first spawn until all have parked, in a process that has had no others
//! - *yield*: one yield of each while all of them want to run, so that each finds its caches cold
//! - *wake*: one unpark, the switch to the thread, and its next park
//! - *lock*: one entry of a critical region that is left with a yield inside: the others queue
//! - *own lock*: each waits for a lock of its own, which the caller holds. From the first unlock until all
//!   have their locks
//! - *timer*: a sleep until one moment, the same for all: from then until the last has run
//! - *end*: the last unpark, the end of the thread, and its join
//! - *again*: start, of as many threads where the first have ended
//!
//! A crowd of fewer than [`ENOUGH`] does a step several times.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::library::{Attributes, Lock};
use crate::support::nt_solaris::workers::process::usage;
use crate::support::parking::Named;

/// What it costs, for each thread and step.
#[derive(Debug)]
pub(crate) struct Costs {
    /// By name, in ns.
    pub(crate) each: [(&'static str, f64); 8],
    /// Of memory, page tables included, while it is parked.
    pub(crate) bytes: u64,
    /// Steps that a thread has not done.
    pub(crate) missed: u32,
}

impl Costs {
    pub(crate) const NAMES: [&str; 8] =
        ["start", "yield", "wake", "lock", "own lock", "timer", "end", "again"];
}

/// How many threads a step needs, to be measured.
const ENOUGH: u32 = 10_000;

/// Of a step that itself sleeps, there are at most so many rounds.
const SLEEPY_ROUNDS: u32 = 500;

/// How long before its moment a sleep is called for: at least, and for each thread.
const AHEAD: Duration = Duration::from_millis(100);
const AHEAD_EACH: Duration = Duration::from_micros(10);

/// How long after its last step a thread waits, at the latest.
const SETTLED: Duration = Duration::from_millis(1);

/// What a thread is called for.
const YIELD: usize = 1;
const WAKE: usize = 2;
const LOCK: usize = 3;
const TIMER: usize = 4;
const END: usize = 5;
const OWN_LOCK: usize = 6;

/// What the threads share with the one that calls them.
struct Stage<L: Named> {
    /// Calls so far, with the step of the last: `call * 8 + step`.
    call: AtomicUsize,
    threads: u32,
    done: AtomicU32,
    region: L::Mutex<u32>,
    /// One for each thread.
    own: Vec<L::Mutex<u32>>,
    /// How many are about to wait for their own.
    waiting: AtomicU32,
    moment: L::Mutex<Instant>,
    owner: L::Handle,
}

impl<L: Named> Stage<L> {
    /// Counts the caller in. The last one wakes the owner.
    fn arrive(&self) {
        // AcqRel: the owner sees what all have done.
        if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            L::unpark(&self.owner);
        }
    }

    fn until_all_arrive(&self) {
        while self.done.load(Ordering::Acquire) < self.threads {
            L::park();
        }
    }

    /// What each thread does.
    fn play(&self, number: u32) {
        let mut heard = 0;
        loop {
            self.arrive();
            let mut call = self.call.load(Ordering::Acquire);
            while call == heard {
                L::park();
                call = self.call.load(Ordering::Acquire);
            }
            heard = call;
            match call % 8 {
                YIELD => L::yield_now(),
                LOCK => {
                    let mut entries = self.region.lock();
                    L::yield_now();
                    *entries += 1;
                }
                OWN_LOCK => {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    *self.own[number as usize].lock() += 1;
                }
                TIMER => {
                    let moment = *self.moment.lock();
                    L::sleep(moment.saturating_duration_since(Instant::now()));
                }
                END => return self.arrive(),
                _ => {}
            }
        }
    }

    /// Calls the members to a step.
    fn call(&self, step: usize, members: &[L::Thread]) {
        let call = self.call.load(Ordering::Relaxed) / 8 + 1;
        self.call.store(call * 8 + step, Ordering::Release);
        members.iter().for_each(L::wake);
    }

    /// Lets each wait for a lock of its own, and unlocks them. Returns the time of that.
    fn unlock_each(&self, members: &[L::Thread]) -> Duration {
        self.done.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        let held: Vec<_> = self.own.iter().map(Lock::lock).collect();
        self.call(OWN_LOCK, members);
        while self.waiting.load(Ordering::Relaxed) < self.threads {
            L::sleep(SETTLED);
        }
        // The last of them may be on their way into the queue.
        L::sleep(SETTLED);
        let begin = Instant::now();
        drop(held);
        self.until_all_arrive();
        begin.elapsed()
    }

    /// Calls all to a step, and waits until all have done it. Returns the time of that.
    fn step(&self, members: &[L::Thread], step: usize) -> Duration {
        self.done.store(0, Ordering::Relaxed);
        let begin = Instant::now();
        self.call(step, members);
        self.until_all_arrive();
        begin.elapsed()
    }
}

/// A crowd of which all have parked.
struct Crowd<L: Named> {
    stage: Arc<Stage<L>>,
    members: Vec<L::Thread>,
    /// How long it took to start.
    start: Duration,
}

/// Starts so many.
fn gather<L: Named>(threads: u32) -> io::Result<Crowd<L>> {
    let mut members = Vec::with_capacity(threads as usize);
    let begin = Instant::now();
    let stage = Arc::new(Stage::<L> {
        call: AtomicUsize::new(0),
        threads,
        done: AtomicU32::new(0),
        region: Lock::new(0),
        own: (0..threads).map(|_| Lock::new(0)).collect(),
        waiting: AtomicU32::new(0),
        moment: Lock::new(begin),
        owner: L::current(),
    });
    for number in 0..threads {
        let theirs = Arc::clone(&stage);
        match L::spawn(Attributes::default(), move || theirs.play(number)) {
            Ok(started) => members.push(started),
            Err(error) => {
                stage.call(END, &members);
                members.into_iter().for_each(L::join);
                let message = format!("cannot start thread {} of {threads}: {error}", number + 1);
                return Err(io::Error::new(error.kind(), message));
            }
        }
    }
    stage.until_all_arrive();
    Ok(Crowd { stage, members, start: begin.elapsed() })
}

/// Ends them. Returns the time of that.
fn disband<L: Named>(crowd: Crowd<L>) -> Duration {
    let begin = Instant::now();
    crowd.stage.step(&crowd.members, END);
    crowd.members.into_iter().for_each(L::join);
    begin.elapsed()
}

/// Measures a crowd of so many.
///
/// # Errors
/// The library cannot start so many.
pub(crate) fn measure<L: Named>(threads: u32) -> io::Result<Costs> {
    let rounds = (ENOUGH / threads).max(1);
    let before = usage();
    let crowd = gather::<L>(threads)?;
    let (stage, members, start) = (&crowd.stage, &crowd.members, crowd.start);
    let bytes = usage().beyond(before).memory(false) / u64::from(threads);
    let each = |time: Duration, rounds: u32| time.as_nanos() as f64 / f64::from(threads) / f64::from(rounds);
    let all = |step| each((0..rounds).map(|_| stage.step(members, step)).sum(), rounds);
    let (wake, yields, lock) = (all(WAKE), all(YIELD), all(LOCK));
    let sleepy = rounds.min(SLEEPY_ROUNDS);
    let own = each((0..sleepy).map(|_| stage.unlock_each(members)).sum(), sleepy);
    let missed = (threads * rounds).abs_diff(*stage.region.lock())
        + stage.own.iter().map(|own| sleepy.abs_diff(*own.lock())).sum::<u32>();
    let moment = Instant::now() + AHEAD + AHEAD_EACH * threads;
    *stage.moment.lock() = moment;
    stage.step(members, TIMER);
    let timer = moment.elapsed();
    let end = disband(crowd);
    let crowd = gather::<L>(threads)?;
    let again = crowd.start;
    disband(crowd);
    let each = [
        each(start, 1),
        // A call to yield is a wake-up, too.
        (yields - wake).max(0.0),
        wake,
        lock,
        own,
        each(timer, 1),
        each(end, 1),
        each(again, 1),
    ];
    let mut named = Costs::NAMES.iter().zip(each);
    let each = std::array::from_fn(|_| named.next().map(|(&name, nanos)| (name, nanos)).expect("one each"));
    Ok(Costs { each, bytes, missed })
}
