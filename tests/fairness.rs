//! No thread is forgotten: pairs that hand something to and fro all the time do not keep others from running.

#[path = "support/watchdog.rs"]
mod watchdog;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use selvedge::{LwpState, Mxn, Runtime, thread};

use watchdog::Watchdog;

/// Two threads that wake each other and wait, and as a rule do nothing else, until they are told to stop. On
/// one LWP each finds the other in the next-slot.
#[derive(Default)]
struct Pair {
    stop: AtomicBool,
    players: [OnceLock<thread::Thread>; 2],
    /// How long each computes before it waits.
    turn: Duration,
    turns: AtomicU64,
}

impl Pair {
    fn start() -> (Arc<Self>, [thread::JoinHandle<u64>; 2]) {
        Self::start_with(Duration::ZERO)
    }

    fn start_with(turn: Duration) -> (Arc<Self>, [thread::JoinHandle<u64>; 2]) {
        let pair = Arc::new(Self { turn, ..Self::default() });
        let handles = [0, 1].map(|me| {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.play(me))
        });
        (pair, handles)
    }

    fn play(&self, me: usize) -> u64 {
        self.players[me].set(thread::current()).expect("set once");
        let mut rounds = 0;
        while !self.stop.load(Ordering::Relaxed) {
            match self.players[1 - me].get() {
                Some(partner) => {
                    partner.unpark();
                    let begin = Instant::now();
                    while begin.elapsed() < self.turn {
                        std::hint::spin_loop();
                    }
                    self.turns.fetch_add(1, Ordering::Relaxed);
                    thread::park();
                    rounds += 1;
                }
                None => thread::yield_now(),
            }
        }
        if let Some(partner) = self.players[1 - me].get() {
            partner.unpark();
        }
        rounds
    }

    fn stop(&self, handles: [thread::JoinHandle<u64>; 2]) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in handles {
            assert!(handle.join().unwrap() > 0, "the pair never played");
        }
    }
}

/// A deadline that passes while a pair keeps the only LWP busy.
#[test]
fn a_pair_does_not_starve_a_sleeper() {
    let _watchdog = Watchdog::start("a sleeper beside a pair");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    rt.run(|| {
        let (pair, handles) = Pair::start();
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(2));
        }
        pair.stop(handles);
    });
}

/// A thread that a foreign one makes runnable while a pair keeps the only LWP busy.
#[test]
fn a_pair_does_not_starve_the_injection_queue() {
    let _watchdog = Watchdog::start("a thread from outside beside a pair");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (pair, handles) = rt.run(Pair::start);
    for n in 0..100 {
        assert_eq!(rt.spawn(move || n).join().unwrap(), n);
    }
    rt.run(move || pair.stop(handles));
}

/// A thread in the ring, while a pair keeps the next-slot full and a foreign thread the injection queue.
#[test]
fn a_pair_and_a_flood_do_not_starve_the_ring() {
    let _watchdog = Watchdog::start("a thread that yields beside a pair and a flood");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let over = AtomicBool::new(false);
    let (pair, handles) = rt.run(Pair::start);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let wave: Vec<_> = (0..200).map(|_| rt.spawn(|| ())).collect();
                wave.into_iter().for_each(|thread| thread.join().unwrap());
            }
        });
        rt.run(|| {
            for _ in 0..100 {
                thread::yield_now();
            }
        });
        over.store(true, Ordering::Relaxed);
    });
    rt.run(move || pair.stop(handles));
}

/// Threads compute in turns of a fraction of a millisecond, so that no LWP ever looks stuck. Another LWP,
/// asleep since the runtime started, must get its share of them.
#[test]
fn a_busy_ring_does_not_stay_with_one_lwp() {
    let _watchdog = Watchdog::start("a busy ring beside a sleeping LWP");
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    // Both LWPs search for a while, and then sleep.
    while rt.stats().count(LwpState::Idle) < 2 {
        std::thread::yield_now();
    }
    let shared = rt.run(|| {
        let lwps: Arc<Mutex<HashSet<PathBuf>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        // Fewer than it takes for a push to wake an LWP if another one watches.
        let threads = [(); 5].map(|()| {
            let (lwps, over) = (Arc::clone(&lwps), Arc::clone(&over));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let turn = Instant::now();
                    while turn.elapsed() < Duration::from_micros(300) {
                        std::hint::spin_loop();
                    }
                    let lwp = std::fs::read_link("/proc/thread-self").unwrap();
                    let mut lwps = lwps.lock().unwrap();
                    lwps.insert(lwp);
                    if lwps.len() > 1 {
                        over.store(true, Ordering::Relaxed);
                    }
                    drop(lwps);
                    thread::yield_now();
                }
            })
        });
        let patience = Instant::now() + Duration::from_secs(30);
        while !over.load(Ordering::Relaxed) && Instant::now() < patience {
            thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lwps.lock().unwrap().len() > 1
    });
    assert!(shared, "one LWP ran everything for half a minute, and the other slept");
}

/// The number of dispatches between two looks at the other queues: `FAIR_TICK` in `mxn/sched/policy.rs`.
const FAIR_TICK: u64 = 251;

/// When the fair tick did not look at the injection queue, a thread from outside waited until the monitor
/// happened to interfere.
#[test]
fn a_thread_from_outside_has_its_turn_at_the_fair_tick_beside_threads_that_yield() {
    let _watchdog = Watchdog::start("threads from outside beside three that yield");
    let rt = Mxn::builder().concurrency(1).max_lwps(1).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let yields = Arc::new(AtomicU64::new(0));
    let yielding = [(); 3].map(|()| {
        let (over, yields) = (Arc::clone(&over), Arc::clone(&yields));
        rt.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                yields.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        })
    });
    let mut waited: Vec<u64> = (0..101)
        .map(|_| {
            let theirs = Arc::clone(&yields);
            let thread = rt.spawn(move || theirs.load(Ordering::Relaxed));
            // From here on it waits, however long this kernel thread had no CPU before.
            let before = yields.load(Ordering::Relaxed);
            thread.join().unwrap().saturating_sub(before)
        })
        .collect();
    over.store(true, Ordering::Relaxed);
    yielding.into_iter().for_each(|thread| thread.join().unwrap());
    waited.sort_unstable();
    assert!(waited[50] < 8 * FAIR_TICK, "half of the threads waited for {} yields or more", waited[50]);
}

/// A pair does not look at the injection queue by itself, as a thread that yields does. Only turns count, so
/// a busy machine makes no wait longer.
#[test]
fn a_thread_from_outside_has_its_turn_at_the_fair_tick_beside_a_pair() {
    let _watchdog = Watchdog::start("threads from outside beside a pair");
    let rt = Mxn::builder().concurrency(1).max_lwps(1).build().unwrap();
    let (pair, handles) = rt.run(Pair::start);
    let waits = || {
        let theirs = Arc::clone(&pair);
        let thread = rt.spawn(move || theirs.turns.load(Ordering::Relaxed));
        let before = pair.turns.load(Ordering::Relaxed);
        thread.join().unwrap().saturating_sub(before)
    };
    // Some have run before this kernel thread looks.
    let longest = (0..500).map(|_| waits()).max().unwrap();
    rt.run(move || pair.stop(handles));
    assert!(longest < 4 * FAIR_TICK, "one thread waited for {longest} turns");
}

/// Each turn of a pair that computes takes as long as thousands of the others'. A thread that waits beside it
/// has its turn once the monitor has seen that, and not only after as many turns.
#[test]
fn a_pair_that_computes_lets_others_wait_for_few_of_its_turns() {
    const WAITS: u64 = 20;
    let _watchdog = Watchdog::start("threads beside a pair that computes");
    // With slices, a turn that is held up by another process would end by signal, and let others go first.
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
    let (pair, handles) = rt.run(|| Pair::start_with(Duration::from_micros(300)));
    let turns = || pair.turns.load(Ordering::Relaxed);
    let before = turns();
    (0..WAITS).for_each(|_| rt.spawn(|| ()).join().unwrap());
    let outside = (turns() - before) / WAITS;
    let beside = rt.run(|| {
        let before = turns();
        (0..WAITS).for_each(|_| thread::yield_now());
        (turns() - before) / WAITS
    });
    rt.run({
        let pair = Arc::clone(&pair);
        move || pair.stop(handles)
    });
    let most = FAIR_TICK / 2;
    assert!(outside < most && beside < most, "from outside: {outside}, in the ring: {beside}");
}

/// A thread that must stay on its LWP gets turns although threads that have not run yet keep the ring and the
/// next-slot full.
#[test]
fn two_chains_of_spawns_do_not_starve_a_pinned_thread() {
    const LINKS: u64 = 200_000;
    struct Chain {
        over: AtomicBool,
        links: AtomicU64,
    }
    fn link(chain: Arc<Chain>) {
        if chain.links.fetch_add(1, Ordering::Relaxed) < LINKS && !chain.over.load(Ordering::Relaxed) {
            drop(thread::spawn(move || link(chain)));
        }
    }
    let _watchdog = Watchdog::start("a pinned thread beside two chains of spawns");
    // SAFETY: nothing here keeps anything in a thread-local.
    let rt = unsafe { Mxn::builder().pinned() }.concurrency(1).max_lwps(1).build().unwrap();
    let chain = Arc::new(Chain { over: AtomicBool::new(false), links: AtomicU64::new(0) });
    let links = rt.run(|| {
        for _ in 0..2 {
            let chain = Arc::clone(&chain);
            drop(thread::spawn(move || link(chain)));
        }
        for _ in 0..20 {
            thread::yield_now();
        }
        chain.over.store(true, Ordering::Relaxed);
        chain.links.load(Ordering::Relaxed)
    });
    assert!(links < LINKS, "20 yields took {links} links");
}

/// Two LWPs that never run dry. One used to keep many pairs, and the other a single pair.
#[test]
fn pairs_are_spread_though_no_lwp_runs_dry() {
    const PAIRS: usize = 60;
    const ROUNDS: u64 = 2_000;
    struct Count {
        over: AtomicBool,
        /// Rounds of the single pair, and of all others together.
        rounds: [AtomicU64; 2],
        lwp: Mutex<Option<PathBuf>>,
    }
    fn pair(count: &Arc<Count>, number: usize) -> [thread::JoinHandle<()>; 2] {
        let players: Arc<[OnceLock<thread::Thread>; 2]> = Arc::default();
        let handles = [0, 1].map(|me| {
            let (players, count) = (Arc::clone(&players), Arc::clone(count));
            thread::spawn(move || {
                let partner = loop {
                    match players[1 - me].get() {
                        Some(partner) => break partner,
                        None => thread::park(),
                    }
                };
                while !count.over.load(Ordering::Relaxed) {
                    if number == 0 && count.rounds[0].fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
                        *count.lwp.lock().unwrap() = std::fs::read_link("/proc/thread-self").ok();
                    } else if number == 1 {
                        count.rounds[1].fetch_add(1, Ordering::Relaxed);
                    }
                    partner.unpark();
                    thread::park();
                }
                partner.unpark();
            })
        });
        for (player, handle) in players.iter().zip(&handles) {
            player.set(handle.thread().clone()).expect("set once");
        }
        handles.iter().for_each(|handle| handle.thread().unpark());
        handles
    }
    let _watchdog = Watchdog::start("a pair and many pairs");
    let rt = Mxn::builder().concurrency(2).max_lwps(2).time_slice(None).build().unwrap();
    let (one, each) = rt.run(|| {
        let count = Arc::new(Count {
            over: AtomicBool::new(false),
            rounds: Default::default(),
            lwp: Mutex::default(),
        });
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        let mut threads = Vec::from(pair(&count, 0));
        // Waits until the other LWP has taken the pair.
        while count.lwp.lock().unwrap().as_ref().is_none_or(|lwp| *lwp == own) {
            std::hint::spin_loop();
        }
        threads.extend((0..PAIRS).flat_map(|_| pair(&count, 1)));
        let before = count.rounds[0].load(Ordering::Relaxed);
        let first = count.rounds[1].load(Ordering::Relaxed);
        while count.rounds[1].load(Ordering::Relaxed) - first < PAIRS as u64 * ROUNDS {
            thread::yield_now();
        }
        let one = count.rounds[0].load(Ordering::Relaxed) - before;
        count.over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        (one, ROUNDS)
    });
    // Alone on an LWP, the pair would play as many rounds as all the others together.
    assert!(one < each * PAIRS as u64 / 4, "one pair played {one} rounds, each of the {PAIRS} others {each}");
}

/// A thread without a time slice computes for a while, and then lets others go first. A thread that was
/// started from outside, and waits where all LWPs look, gets its turn at one of the first yields. (It used to
/// wait for some hundred of them.)
#[test]
fn a_thread_that_yields_rarely_lets_threads_from_outside_go_first() {
    let _watchdog = Watchdog::start("a_thread_that_yields_rarely_lets_threads_from_outside_go_first");
    static DONE: AtomicBool = AtomicBool::new(false);
    static BEGAN: AtomicBool = AtomicBool::new(false);
    static YIELDS: AtomicU64 = AtomicU64::new(0);
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
    let hogs = [(); 2].map(|()| {
        rt.spawn(|| {
            let mut yields = 0;
            while !DONE.load(Ordering::Relaxed) {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(3) {
                    std::hint::spin_loop();
                }
                yields += u64::from(BEGAN.load(Ordering::Relaxed));
                YIELDS.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
            yields
        })
    });
    // Both take turns by now.
    while YIELDS.load(Ordering::Relaxed) < 4 {
        std::thread::yield_now();
    }
    let outside = rt.spawn(|| DONE.store(true, Ordering::Relaxed));
    BEGAN.store(true, Ordering::Relaxed);
    outside.join().unwrap();
    let yields: u64 = hogs.into_iter().map(|hog| hog.join().unwrap()).sum();
    assert!(yields <= 30, "{yields} yields before it ran");
}
