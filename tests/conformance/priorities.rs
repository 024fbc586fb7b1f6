//! Priorities: which thread is served first, on every leg; which runs first (`order`), and that none
//! starves (`turns`), where there is one slot, on every rung.

#[macro_use]
mod one_slot;

mod order;
mod turns;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::Priority::{self, High, Low, Normal};
use selvedge::thread::{Builder, JoinHandle, Thread};
use selvedge::{OneToOne, Runtime, thread};

use crate::legs::{Leg, settle};

both! {
    a_thread_is_normal_unless_it_says_otherwise,
    the_highest_is_notified_first,
    the_highest_gets_the_lock_first,
    the_highest_kernel_thread_gets_the_lock_first,
    a_low_waiter_lets_16_high_ones_pass_and_no_more,
    an_idle_runtime_runs_any_priority,
    no_thread_is_lost_while_priorities_change,
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

/// The threads that have come, those that were served, and those that wait to be.
#[derive(Default)]
struct Counter {
    state: Mutex<State>,
    called: Condvar,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// Calls that no thread has heard yet.
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

/// Queues one thread of each priority, in every order, kinds mixed; `serve` serves all. (Without
/// priorities at most one of the orders could come out as it must.)
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
    if !cfg!(target_os = "linux") {
        return println!("skipped: only on Linux does the kernel tell which of its threads sleep");
    }
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

/// An LWP that sleeps must be woken when a thread becomes runnable, whatever its priority.
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
fn no_thread_is_lost_while_priorities_change<L: Leg>() {
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
