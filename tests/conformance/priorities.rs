//! Priorities: who is served first, on every leg; who runs first, where there is one slot, on every rung; and that nobody
//! starves.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::Priority::{self, High, Low, Normal};
use selvedge::thread::{Builder, JoinHandle, Thread};
use selvedge::{Mxn, OneToOne, Runtime, ThreadRegister, thread};

use crate::legs::{Leg, settle};
use crate::watchdog::Watchdog;

both! {
    a_thread_is_normal_unless_it_says_otherwise,
    the_highest_is_notified_first,
    the_highest_gets_the_lock_first,
    the_highest_kernel_thread_gets_the_lock_first,
    a_low_waiter_lets_16_high_ones_pass_and_no_more,
    an_idle_runtime_runs_any_priority,
    nobody_is_lost_while_priorities_change,
    an_ended_thread_has_a_priority_too,
}

const ALL: [Priority; 3] = [Low, Normal, High];

/// All orders in which three things can come.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn a_thread_is_normal_unless_it_says_otherwise<L: Leg>() {
    let rt = L::new();
    for bound in [false, true] {
        for priority in ALL {
            let builder = Builder::new().priority(priority).bound(bound);
            let seen = rt.spawn_with(builder, || {
                let children = [thread::spawn(priority_of_me), bound_thread(priority_of_me)];
                let children = children.map(|child| child.join().unwrap());
                assert_eq!(children, [Normal; 2], "inherited");
                thread::scope(|s| assert_eq!(s.spawn(priority_of_me).join().unwrap(), Normal));
                priority_of_me()
            });
            assert_eq!(seen.unwrap().join().unwrap(), priority);
        }
        // What was a thread of another priority once.
        let others: Vec<_> =
            (0..100).map(|_| rt.spawn_with(Builder::new().bound(bound), priority_of_me)).collect();
        assert!(others.into_iter().all(|thread| thread.unwrap().join().unwrap() == Normal));
    }
    let parked = rt.spawn(|| {
        thread::park();
        priority_of_me()
    });
    for priority in [High, Low, Low, Normal, High] {
        parked.thread().set_priority(priority);
        assert_eq!(parked.thread().priority(), priority);
    }
    parked.thread().unpark();
    assert_eq!(parked.join().unwrap(), High);
    std::thread::spawn(|| {
        assert_eq!(priority_of_me(), Normal);
        thread::current().set_priority(Low);
        assert_eq!(priority_of_me(), Low);
    })
    .join()
    .unwrap();
}

fn priority_of_me() -> Priority {
    thread::current().priority()
}

fn bound_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().bound(true).spawn(f).unwrap()
}

/// Kinds of threads: the leg's own, bound, 1:1, and of no runtime.
const KINDS: usize = 4;

/// Threads of any kind.
struct Everywhere<R> {
    rt: R,
    kernel: OneToOne,
    ends: Vec<Box<dyn FnOnce()>>,
}

impl<R: Runtime> Everywhere<R> {
    fn new(rt: R) -> Self {
        Self { rt, kernel: OneToOne::new().unwrap(), ends: Vec::new() }
    }

    fn start(&mut self, kind: usize, priority: Priority, f: impl FnOnce() + Send + 'static) {
        let builder = Builder::new().priority(priority);
        let ours = match kind % KINDS {
            0 => self.rt.spawn_with(builder, f),
            1 => self.rt.spawn_with(builder.bound(true), f),
            2 => self.kernel.spawn_with(builder, f),
            _ => {
                let foreign = std::thread::spawn(move || {
                    thread::current().set_priority(priority);
                    f();
                });
                return self.ends.push(Box::new(move || foreign.join().unwrap()));
            }
        };
        let ours = ours.unwrap();
        self.ends.push(Box::new(move || ours.join().unwrap()));
    }

    fn join(&mut self) {
        self.ends.drain(..).for_each(|join| join());
    }
}

/// Who has come, who has been served, and who waits to be.
#[derive(Default)]
struct Counter {
    state: Mutex<State>,
    called: Condvar,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// Calls that nobody has heard yet.
    calls: usize,
    served: Vec<Priority>,
}

impl Counter {
    /// Waits to be called.
    fn queue(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.calls == 0 {
            self.called.wait(&mut state);
        }
        state.calls -= 1;
        state.waiting -= 1;
        state.served.push(priority_of_me());
        self.changed.notify_all();
    }

    fn wait_for(&self, what: impl Fn(&State) -> bool) {
        let mut state = self.state.lock();
        while !what(&state) {
            self.changed.wait(&mut state);
        }
    }

    /// Calls one, and waits until it has been served.
    fn serve_one(&self) {
        let served = {
            let mut state = self.state.lock();
            state.calls += 1;
            state.served.len()
        };
        self.called.notify_one();
        self.wait_for(|state| state.served.len() > served);
    }

    fn served(&self) -> Vec<Priority> {
        std::mem::take(&mut self.state.lock().served)
    }
}

/// Queues one thread of each priority, in every order, kinds mixed; `serve` serves all. (Without priorities at most one of the
/// orders could come out as it must.)
fn serve_three<L: Leg>(serve: fn(&Counter)) {
    let mut threads = Everywhere::new(L::new());
    let counter = Arc::new(Counter::default());
    for (round, order) in ORDERS.into_iter().enumerate() {
        for shift in 0..KINDS {
            for (came, which) in order.into_iter().enumerate() {
                let theirs = Arc::clone(&counter);
                threads.start(round + shift + which, ALL[which], move || theirs.queue());
                counter.wait_for(|state| state.waiting == came + 1);
            }
            serve(&counter);
            threads.join();
            assert_eq!(counter.served(), [High, Normal, Low], "came as {order:?}");
        }
    }
}

fn the_highest_is_notified_first<L: Leg>() {
    serve_three::<L>(|counter| (0..3).for_each(|_| counter.serve_one()));
}

fn the_highest_gets_the_lock_first<L: Leg>() {
    serve_three::<L>(|counter| {
        // They are moved to the queue of the mutex, and get it one after the other.
        let mut state = counter.state.lock();
        state.calls = 3;
        counter.called.notify_all();
        drop(state);
    });
}

/// Kernel threads that wait for a lock itself: the kernel tells when they sleep.
fn the_highest_kernel_thread_gets_the_lock_first<L: Leg>() {
    let mut threads = Everywhere::new(L::new());
    for (round, order) in ORDERS.into_iter().enumerate() {
        let served = Arc::new(Mutex::new(Vec::new()));
        let held = served.lock();
        for which in order {
            let (served, (tell, told)) = (Arc::clone(&served), mpsc::channel());
            // Kind 0 would be a green thread.
            threads.start(1 + (round + which) % (KINDS - 1), ALL[which], move || {
                let me = std::fs::read_link("/proc/thread-self").unwrap();
                tell.send(me).unwrap();
                served.lock().push(priority_of_me());
            });
            let task = std::path::Path::new("/proc").join(told.recv().unwrap());
            while !std::fs::read_to_string(task.join("stat")).unwrap().contains(") S ") {
                std::thread::yield_now();
            }
        }
        drop(held);
        threads.join();
        assert_eq!(*served.lock(), [High, Normal, Low], "came as {order:?}");
    }
}

fn a_low_waiter_lets_16_high_ones_pass_and_no_more<L: Leg>() {
    const HIGH: usize = 3;
    const LET_PASS: usize = 16;
    let mut threads = Everywhere::new(L::new());
    for kind in 0..KINDS {
        let counter = Arc::new(Counter::default());
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&counter);
        threads.start(kind, Low, move || theirs.queue());
        for n in 0..HIGH {
            let (counter, over) = (Arc::clone(&counter), Arc::clone(&over));
            threads.start(kind + n, High, move || {
                while !over.load(SeqCst) {
                    counter.queue();
                }
            });
        }
        for _ in 0..=LET_PASS {
            counter.wait_for(|state| state.waiting == HIGH + 1);
            counter.serve_one();
        }
        let served = counter.served();
        assert_eq!((&served[..LET_PASS], served[LET_PASS]), (&[High; LET_PASS][..], Low));
        over.store(true, SeqCst);
        counter.wait_for(|state| state.waiting == HIGH);
        (0..HIGH).for_each(|_| counter.serve_one());
        threads.join();
    }
}

/// Whoever sleeps when a thread becomes runnable must be woken for it, whatever its priority.
fn an_idle_runtime_runs_any_priority<L: Leg>() {
    let rt = L::new();
    for round in 0..100 {
        let priority = ALL[round % 3];
        rt.spawn_with(Builder::new().priority(priority), || ()).unwrap().join().unwrap();
        let parked = rt.spawn_with(Builder::new().priority(priority), thread::park).unwrap();
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_micros(50 * round as u64));
        }
        parked.thread().unpark();
        parked.join().unwrap();
    }
}

/// Threads that yield, wake each other and sleep, while others change what they are.
fn nobody_is_lost_while_priorities_change<L: Leg>() {
    const THREADS: usize = 24;
    const ROUNDS: usize = 300;
    let rt = L::new();
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<JoinHandle<()>> = (0..THREADS)
        .map(|n| {
            rt.spawn_with(Builder::new().priority(ALL[n % 3]), move || {
                let lock = Mutex::new(());
                for round in 0..ROUNDS {
                    match (n + round) % 7 {
                        0 => thread::park_timeout(Duration::from_micros(100)),
                        1 => thread::current().set_priority(ALL[round % 3]),
                        2 => drop(lock.lock()),
                        3 => thread::spawn(thread::yield_now).join().unwrap(),
                        _ => thread::yield_now(),
                    }
                }
            })
            .unwrap()
        })
        .collect();
    let handles: Vec<Thread> = threads.iter().map(|thread| thread.thread().clone()).collect();
    let meddle = {
        let over = Arc::clone(&over);
        move || {
            let mut n = 0_usize;
            while !over.load(SeqCst) {
                n = n.wrapping_mul(25).wrapping_add(7);
                handles[n % THREADS].set_priority(ALL[n / THREADS % 3]);
                if n.is_multiple_of(5) {
                    handles[n % THREADS].unpark();
                }
                thread::yield_now();
            }
        }
    };
    let (ours, foreign) = (rt.spawn(meddle.clone()), std::thread::spawn(meddle));
    for thread in threads {
        thread.join().unwrap();
    }
    over.store(true, SeqCst);
    ours.join().unwrap();
    foreign.join().unwrap();
    settle(&rt, 0);
}

fn an_ended_thread_has_a_priority_too<L: Leg>() {
    let rt = L::new();
    let threads: Vec<Thread> = (0..10)
        .map(|_| {
            let handle = rt.spawn(|| ());
            let thread = handle.thread().clone();
            handle.join().unwrap();
            thread
        })
        .collect();
    threads[0].set_priority(High);
    // While it ends.
    let closing = {
        let threads = threads.clone();
        std::thread::spawn(move || threads.iter().for_each(|thread| thread.set_priority(High)))
    };
    drop(rt);
    closing.join().unwrap();
    for thread in threads {
        thread.set_priority(Low);
        assert_eq!(thread.priority(), Low);
    }
}

/// Makes a test of each scenario for each rung, with one slot: there who runs before whom is certain.
macro_rules! one_slot {
    ($($scenario:ident),* $(,)?) => {
        one_slot! { @rung switched, Mxn::builder().thread_register(ThreadRegister::Switched), $($scenario),* }
        one_slot! { @rung syscall, Mxn::builder().thread_register(ThreadRegister::Syscall), $($scenario),* }
        // SAFETY: the scenarios keep nothing in a thread-local across a wait.
        one_slot! { @rung pinned, unsafe { Mxn::builder().pinned() }, $($scenario),* }
    };
    (@rung $name:ident, $builder:expr, $($scenario:ident),*) => {
        mod $name {
            use super::*;

            $(
                #[test]
                fn $scenario() {
                    let what = concat!(module_path!(), "::", stringify!($scenario));
                    match $builder.concurrency(1).time_slice(None).build() {
                        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                            println!("skipped: {what}: {error}");
                        }
                        rt => {
                            let _watchdog = Watchdog::start(what);
                            super::$scenario(&rt.expect("an M:N runtime"));
                        }
                    }
                }
            )*
        }
    };
}

one_slot! {
    high_threads_run_before_a_thousand_normal_ones,
    a_woken_high_thread_runs_next,
    the_highest_green_thread_gets_the_lock_first,
    a_raised_thread_overtakes_all_others,
    a_raised_thread_that_has_run_overtakes_too,
    a_foreign_thread_raises_one_beside_a_hog,
    a_lowered_thread_runs_last,
    a_yield_lets_a_high_thread_go_first_and_a_low_one_not,
    a_low_thread_gets_its_turn,
    a_normal_thread_gets_its_turn_among_high_ones,
}

/// What ran, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<usize>>>);

impl Log {
    fn note(&self, what: usize) {
        self.0.lock().push(what);
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock())
    }

    /// A thread that notes that it ran.
    fn spawn(&self, what: usize, priority: Priority) -> JoinHandle<()> {
        let log = self.clone();
        Builder::new().priority(priority).spawn(move || log.note(what)).unwrap()
    }
}

const MANY: usize = 1000;

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn high_threads_run_before_a_thousand_normal_ones(rt: &Mxn) {
    // Inside; the control: three more normal ones.
    for priority in [High, Normal] {
        let ran = rt.run(move || {
            let log = Log::default();
            let normal: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
            let three: Vec<_> = (MANY..MANY + 3).map(|n| log.spawn(n, priority)).collect();
            join_all(three);
            join_all(normal);
            log.take()
        });
        assert_eq!(ran[..3] == [MANY, MANY + 1, MANY + 2], priority == High, "{:?}", &ran[..3]);
    }
    // From outside, while a thread keeps the slot.
    let log = Log::default();
    let hog = Hog::start(rt);
    let spawn = |what: usize, priority| {
        let log = log.clone();
        rt.spawn_with(Builder::new().priority(priority), move || log.note(what)).unwrap()
    };
    let mut threads: Vec<_> = (0..MANY).map(|n| spawn(n, Normal)).collect();
    threads.extend((MANY..MANY + 3).map(|n| spawn(n, High)));
    hog.stop();
    join_all(threads);
    assert_eq!(log.take()[..3], [MANY, MANY + 1, MANY + 2]);
}

/// A thread that runs all the time and never yields: what is queued meanwhile stays queued. (No longer than a slice.)
struct Hog {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Hog {
    fn start(rt: &Mxn) -> Self {
        let (over, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (until, begun) = (Arc::clone(&over), Arc::clone(&runs));
        let thread = rt.spawn(move || {
            begun.store(true, SeqCst);
            while !until.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        while !runs.load(SeqCst) {
            std::thread::yield_now();
        }
        Self { over, thread }
    }

    fn stop(self) {
        self.over.store(true, SeqCst);
        self.thread.join().unwrap();
    }
}

fn a_woken_high_thread_runs_next(rt: &Mxn) {
    let ran = rt.run(|| {
        let log = Log::default();
        let parked: Vec<_> = (MANY..MANY + 3)
            .map(|n| {
                let log = log.clone();
                let park = move || {
                    thread::park();
                    log.note(n);
                };
                Builder::new().priority(High).spawn(park).unwrap()
            })
            .collect();
        // They run, and wait.
        thread::yield_now();
        let normal: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
        for thread in &parked {
            thread.thread().unpark();
        }
        thread::yield_now();
        let mut ran = log.take();
        ran.truncate(3);
        join_all(parked);
        join_all(normal);
        ran
    });
    assert_eq!(ran, [MANY, MANY + 1, MANY + 2]);
}

fn the_highest_green_thread_gets_the_lock_first(rt: &Mxn) {
    for order in ORDERS {
        let served = rt.run(move || {
            let served = Arc::new(Mutex::new(Vec::new()));
            let coming = Arc::new(AtomicUsize::new(0));
            let held = served.lock();
            let waiters = order.map(|which| {
                let (served, coming) = (Arc::clone(&served), Arc::clone(&coming));
                let wait = move || {
                    coming.fetch_add(1, SeqCst);
                    served.lock().push(priority_of_me());
                };
                Builder::new().priority(ALL[which]).spawn(wait).unwrap()
            });
            // A few more: one that has come may have been preempted before it waits.
            while coming.load(SeqCst) < 3 {
                thread::sleep(Duration::from_micros(10));
            }
            thread::sleep(Duration::from_millis(1));
            drop(held);
            join_all(waiters);
            std::mem::take(&mut *served.lock())
        });
        assert_eq!(served, [High, Normal, Low], "came as {order:?}");
    }
}

fn a_raised_thread_overtakes_all_others(rt: &Mxn) {
    // The first is in the injection queue by then, the others in the ring; then the same without raising, as a control.
    for raised in [[3, 900, 999], [999, 3, 901]] {
        let ran = rt.run(move || {
            let log = Log::default();
            let threads: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
            for n in raised {
                threads[n].thread().set_priority(High);
            }
            join_all(threads);
            log.take()
        });
        assert_eq!(ran[..3], raised);
        assert_eq!(ran.len(), MANY);
    }
    let control = rt.run(|| {
        let log = Log::default();
        join_all((0..MANY).map(|n| log.spawn(n, Normal)).collect::<Vec<_>>());
        log.take()
    });
    assert_ne!(control[..3], [3, 900, 999]);
}

fn a_raised_thread_that_has_run_overtakes_too(rt: &Mxn) {
    const THREADS: usize = 100;
    let ran = rt.run(|| {
        let log = Log::default();
        let over = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let (log, over) = (log.clone(), Arc::clone(&over));
                thread::spawn(move || {
                    while !over.load(SeqCst) {
                        log.note(n);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        while log.0.lock().len() < 3 * THREADS {
            thread::yield_now();
        }
        log.take();
        let raised = THREADS / 2;
        threads[raised].thread().set_priority(High);
        thread::yield_now();
        let ran = log.take();
        threads[raised].thread().set_priority(Normal);
        over.store(true, SeqCst);
        join_all(threads);
        (ran, raised)
    });
    assert_eq!(ran.0.first(), Some(&ran.1), "{:?}", ran.0);
}

fn a_foreign_thread_raises_one_beside_a_hog(rt: &Mxn) {
    for raised in [0, 500, 999] {
        let log = Log::default();
        let hog = Hog::start(rt);
        let threads: Vec<_> = (0..MANY)
            .map(|n| {
                let log = log.clone();
                rt.spawn(move || log.note(n))
            })
            .collect();
        threads[raised].thread().set_priority(High);
        hog.stop();
        join_all(threads);
        assert_eq!(log.take()[0], raised);
    }
}

fn a_lowered_thread_runs_last(rt: &Mxn) {
    for lowered in [3, 990] {
        let ran = rt.run(move || {
            let log = Log::default();
            let threads: Vec<_> = (0..MANY).map(|n| log.spawn(n, Normal)).collect();
            threads[lowered].thread().set_priority(Low);
            join_all(threads);
            log.take()
        });
        assert_eq!(ran.last(), Some(&lowered));
    }
}

/// What is due after this long without a turn (see [`Priority`]).
const LOW_AGE: Duration = Duration::from_millis(50);

fn a_yield_lets_a_high_thread_go_first_and_a_low_one_not(rt: &Mxn) {
    const YIELDS: usize = 100;
    for _ in 0..100 {
        let (took, ran) = rt.run(|| {
            let start = Instant::now();
            let log = Log::default();
            let low = log.spawn(1, Low);
            let mut ran = Vec::new();
            // Alone with it, and then with another normal one.
            (0..YIELDS).for_each(|_| thread::yield_now());
            ran.extend(log.take());
            let normal = log.spawn(2, Normal);
            let high = log.spawn(3, High);
            (0..YIELDS).for_each(|_| thread::yield_now());
            ran.extend(log.take());
            let took = start.elapsed();
            join_all([high, normal, low]);
            (took, ran)
        });
        // Whoever was held up for longer may have seen aging.
        if took < LOW_AGE {
            assert_eq!(ran, [3, 2]);
            return;
        }
    }
    panic!("this machine is too slow to tell");
}

/// Two threads that yield for ever.
struct Yielders {
    over: Arc<AtomicBool>,
    threads: [JoinHandle<()>; 2],
    turns: Arc<AtomicUsize>,
}

impl Yielders {
    fn start(rt: &Mxn, priority: Priority) -> Self {
        let (over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = [(); 2].map(|()| {
            let (over, turns) = (Arc::clone(&over), Arc::clone(&turns));
            let yields = move || {
                while !over.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    thread::yield_now();
                }
            };
            rt.spawn_with(Builder::new().priority(priority), yields).unwrap()
        });
        while turns.load(SeqCst) < 100 {
            std::thread::yield_now();
        }
        Self { over, threads, turns }
    }

    fn stop(self) {
        self.over.store(true, SeqCst);
        join_all(self.threads);
    }
}

/// Far beyond what the docs promise for a few turns, far below what a machine with other work could hold it up by.
const BOUND: Duration = Duration::from_secs(10);

fn a_low_thread_gets_its_turn(rt: &Mxn) {
    for others in [Normal, High] {
        let yielders = Yielders::start(rt, others);
        let start = Instant::now();
        let low = rt.spawn_with(Builder::new().priority(Low), || {
            thread::yield_now();
            thread::yield_now();
        });
        low.unwrap().join().unwrap();
        // Three turns, each of which it had to wait for. Pinned threads that have begun count turns instead.
        let waits = if rt.info().thread_register == Some(selvedge::Rung::Pinned) { 1 } else { 3 };
        let took = start.elapsed();
        assert!(took >= LOW_AGE * waits, "it did not wait for its turns: {took:?}");
        assert!(took < BOUND, "{took:?}");
        yielders.stop();
    }
}

fn a_normal_thread_gets_its_turn_among_high_ones(rt: &Mxn) {
    let yielders = Yielders::start(rt, High);
    let start = Instant::now();
    let before = yielders.turns.load(SeqCst);
    let normal = rt.spawn(|| {
        for _ in 0..3 {
            thread::yield_now();
        }
    });
    normal.join().unwrap();
    let (took, turns) = (start.elapsed(), yielders.turns.load(SeqCst) - before);
    assert!(took < BOUND, "{took:?}");
    assert!(turns > 100, "it had {turns} turns of the high threads for 4 of its own");
    yielders.stop();
}
