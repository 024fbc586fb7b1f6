//! Two LWPs on one CPU, as it is where other processes have the others.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::JoinHandle;
use selvedge::{Mxn, Runtime};
use watchdog::Watchdog;

/// How long a pair is looked at, and for how long other processes may disturb it.
const WINDOW: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(15);
/// A pair must make more than this part of the other pair's trips. If each nap of the watcher tears a pair
/// apart, it makes a tenth. If its two threads wait for each other's slice of the CPU, it makes a thousandth.
const PART: f64 = 1.0 / 3.0;

/// The LWP that watches keeps the other from running: what it sees there is not stale.
#[test]
fn a_pair_that_wakes_each_other_stays_together() {
    let _alone = ALONE.lock();
    let _watchdog = Watchdog::start("a pair on one CPU");
    pin_to_one_cpu();
    let (two, one) = (Pair::start(2), Pair::start(1));
    // Each has the CPU to itself for a window, and the best windows count: in some, other processes have it.
    let end = Instant::now() + PATIENCE;
    let (mut best_of_two, mut best_of_one) = (0, 0);
    let stays = loop {
        best_of_two = best_of_two.max(two.trips_in(WINDOW));
        best_of_one = best_of_one.max(one.trips_in(WINDOW));
        let stays = best_of_one > 0 && best_of_two as f64 > best_of_one as f64 * PART;
        if stays || Instant::now() > end {
            break stays;
        }
    };
    two.stop();
    one.stop();
    assert!(stays, "trips in {WINDOW:?}: {best_of_two} with two LWPs, {best_of_one} with one");
}

const HAND_OFFS: u32 = 4000;
/// The most CPU time for two hand-offs, from a kernel thread to a green one and back. A search of 50 us would
/// take more.
const TRIP: Duration = Duration::from_micros(45);
const ROUNDS: usize = 20;
/// Held by a test: the CPU time is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// An LWP without work does not keep the CPU from the kernel thread that makes work for it.
#[test]
fn a_kernel_thread_and_a_green_one_take_turns() {
    let _alone = ALONE.lock();
    let _watchdog = Watchdog::start("a kernel thread and a green one on one CPU");
    pin_to_one_cpu();
    let runtime = Mxn::builder().concurrency(1).build().unwrap();
    take_turns(&runtime, |_| ());
}

/// A green thread that yields while no other is runnable does not keep the CPU from a kernel thread either.
#[test]
fn a_green_thread_that_yields_lets_a_kernel_thread_run() {
    let _alone = ALONE.lock();
    let _watchdog = Watchdog::start("yielding on one CPU");
    pin_to_one_cpu();
    let runtime = Mxn::builder().concurrency(1).build().unwrap();
    take_turns(&runtime, |turn: &AtomicU64| {
        while turn.load(Ordering::Acquire).is_multiple_of(2) {
            selvedge::thread::yield_now();
        }
    });
}

/// The caller and a green thread pass a turn to and fro. The green thread calls `yields` before it sleeps.
fn take_turns(runtime: &Mxn, yields: fn(&AtomicU64)) {
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let table = Arc::new((Mutex::new(()), Condvar::new(), AtomicU64::new(0)));
        let theirs = Arc::clone(&table);
        let (before, begun) = (cpu_time(), Instant::now());
        let green = runtime.spawn(move || {
            for _ in 0..HAND_OFFS / 2 {
                yields(&theirs.2);
                hand_over(&theirs, 1);
            }
        });
        for _ in 0..HAND_OFFS / 2 {
            hand_over(&table, 0);
        }
        green.join().unwrap();
        took.push((cpu_time() - before) / (HAND_OFFS / 2));
        println!(
            "{:?} of the CPU, {:?} in all for a trip",
            took[took.len() - 1],
            begun.elapsed() / (HAND_OFFS / 2)
        );
        if took[took.len() - 1] < TRIP {
            return;
        }
    }
    panic!("CPU time for a trip: {took:?}");
}

/// Waits for the turn of `me`, and passes it on.
fn hand_over((lock, changed, turn): &(Mutex<()>, Condvar, AtomicU64), me: u64) {
    let mut held = lock.lock();
    changed.wait_while(&mut held, |()| turn.load(Ordering::Relaxed) % 2 != me);
    turn.fetch_add(1, Ordering::Release);
    changed.notify_one();
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Two green threads that wake each other, while they are let.
struct Pair {
    runtime: Mxn,
    table: Arc<Table>,
    players: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Table {
    /// Which thread is next, if any.
    turn: Mutex<(usize, State)>,
    changed: Condvar,
    trips: AtomicU64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Resting,
    Playing,
    Over,
}

impl Pair {
    fn start(concurrency: usize) -> Self {
        let runtime = Mxn::builder().concurrency(concurrency).build().unwrap();
        let table = Arc::new(Table::default());
        let player = |me| {
            let table = Arc::clone(&table);
            runtime.spawn(move || table.play(me))
        };
        let players = vec![player(0), player(1)];
        Self { runtime, table, players }
    }

    fn trips_in(&self, window: Duration) -> u64 {
        let before = self.table.trips.load(Ordering::Relaxed);
        self.table.change(State::Playing);
        std::thread::sleep(window);
        self.table.change(State::Resting);
        self.table.trips.load(Ordering::Relaxed) - before
    }

    fn stop(self) {
        self.table.change(State::Over);
        self.players.into_iter().for_each(|player| player.join().unwrap());
        drop(self.runtime);
    }
}

impl Table {
    fn play(&self, me: usize) {
        let mut turn = self.turn.lock();
        loop {
            self.changed.wait_while(&mut turn, |turn| *turn != (me, State::Playing) && turn.1 != State::Over);
            if turn.1 == State::Over {
                return;
            }
            turn.0 = 1 - me;
            self.changed.notify_one();
            self.trips.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn change(&self, state: State) {
        self.turn.lock().1 = state;
        self.changed.notify_all();
    }
}

fn pin_to_one_cpu() {
    // SAFETY: of zeros, it is an empty set.
    let mut one: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: no arguments, no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    // SAFETY: within its bounds.
    unsafe { libc::CPU_SET(usize::try_from(cpu).unwrap(), &mut one) };
    // SAFETY: a set of this size. Threads made from here on inherit it.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&one), &one) }, 0);
}
