//! Memory: what a primitive has allocated, it gives back; and what it can use again, it does not allocate.
//!
//! The global allocator counts. The tests take turns, since the count is the process's.

#[path = "support/waiting.rs"]
mod waiting;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use selvedge::channel::{Receiver, Sender, bounded, never, rendezvous, select, unbounded};
use selvedge::sync::{self, Barrier, Condvar, OnceLock, RwLock, Semaphore};
use selvedge::thread::Builder;
use selvedge::tsd::Key;
use selvedge::{Mxn, OneToOne, Runtime, thread};
use waiting::until_waits;
use watchdog::Watchdog;

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

/// Bytes that are allocated now.
static BYTES: AtomicIsize = AtomicIsize::new(0);
/// Calls that have allocated.
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Relaxed);
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

/// A leak has at least so many bytes in each round. In all rounds, the test harness may allocate some
/// hundred.
const LEAST: isize = 8;

/// Runs `test` while no other test of this program runs.
fn alone(what: &str, test: impl FnOnce()) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = Watchdog::start(what);
    test();
}

/// Returns by how many bytes a round makes the heap grow, when what is kept for later does not grow any more.
fn growth(mut round: impl FnMut()) -> isize {
    const ROUNDS: isize = 100;
    let mut measure = || {
        let before = BYTES.load(Relaxed);
        (0..ROUNDS).for_each(|_| round());
        let begin = Instant::now();
        loop {
            let grown = (BYTES.load(Relaxed) - before) / ROUNDS;
            // On a busy machine, some threads are still on their way out.
            if grown < LEAST || begin.elapsed() > Duration::from_millis(100) {
                return grown;
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    let mut grown = measure();
    for _ in 0..30 {
        if grown < LEAST {
            break;
        }
        grown = measure();
    }
    grown
}

type Make<T> = fn() -> (Sender<T>, Receiver<T>);

fn kinds<T>() -> [Make<T>; 4] {
    [unbounded, || bounded(1), || bounded(100), || bounded(5000)]
}

#[test]
fn a_channel_gives_back_its_memory() {
    alone("a_channel_gives_back_its_memory", || {
        for make in kinds::<[u64; 4]>() {
            for (sent, received) in [(0, 0), (1, 0), (1, 1), (100, 37), (1000, 0), (1000, 999), (5000, 5000)]
            {
                for receiver_first in [false, true] {
                    let grown = growth(|| {
                        let (s, r) = make();
                        let sent = (0..sent).take_while(|&n| s.try_send([n; 4]).is_ok()).count();
                        assert_eq!(r.try_iter().take(received).count(), received.min(sent));
                        if receiver_first {
                            drop(r);
                            drop(s);
                        } else {
                            drop(s);
                            drop(r);
                        }
                    });
                    assert!(
                        grown < LEAST,
                        "{grown} bytes: {sent} sent, {received} received, {receiver_first}"
                    );
                }
            }
        }
    });
}

/// A kernel thread with a stack for which the machine has no memory, unless it promises more than it has.
#[test]
fn a_thread_that_cannot_be_started_leaves_nothing_behind() {
    alone("a_thread_that_cannot_be_started_leaves_nothing_behind", || {
        let rt = OneToOne::new().unwrap();
        let grown = growth(|| {
            let huge = Builder::new().stack_size(1 << 40);
            if let Ok(thread) = rt.spawn_with(huge, || ()) {
                thread.join().unwrap();
            }
        });
        assert!(grown < LEAST, "{grown} bytes");
    });
}

/// Messages that own memory, in channels that go with them.
#[test]
fn messages_that_are_left_are_dropped() {
    alone("messages_that_are_left_are_dropped", || {
        for make in kinds::<Vec<u8>>() {
            let grown = growth(|| {
                let (s, r) = make();
                while s.len() < 300 && s.try_send(vec![0; 100]).is_ok() {}
                drop(r);
                assert!(s.send(vec![0; 100]).is_err());
            });
            assert!(grown < LEAST, "{grown} bytes");
        }
    });
}

#[test]
fn a_long_queue_gives_back_what_it_does_not_need_any_more() {
    alone("a_long_queue_gives_back_what_it_does_not_need_any_more", || {
        let (s, r) = unbounded::<u64>();
        let before = BYTES.load(Relaxed);
        for _ in 0..3 {
            (0..100_000).for_each(|n| s.send(n).unwrap());
            assert!(BYTES.load(Relaxed) - before > 800_000);
            assert_eq!(r.try_iter().count(), 100_000);
            let kept = BYTES.load(Relaxed) - before;
            assert!(kept < 100_000, "an empty channel keeps {kept} bytes");
        }
    });
}

#[test]
fn a_queue_that_grows_and_shrinks_allocates_once() {
    alone("a_queue_that_grows_and_shrinks_allocates_once", || {
        for make in [unbounded, || bounded(1000)] as [Make<u64>; 2] {
            let (s, r) = make();
            let cycle = || {
                (0..300).for_each(|n| s.send(n).unwrap());
                assert_eq!(r.try_iter().count(), 300);
            };
            (0..3).for_each(|_| cycle());
            let calls = || {
                let before = CALLS.load(Relaxed);
                (0..100).for_each(|_| cycle());
                CALLS.load(Relaxed) - before
            };
            // The program's other threads may allocate a little, now and then.
            let calls = (0..5).map(|_| calls()).min().unwrap();
            assert!(calls < 20, "{calls} allocations");
        }
    });
}

/// A message on its way to a select has a place of its own, which is used again, and goes with the channel.
#[test]
fn selects_give_back_their_memory() {
    type Channel = (Sender<[u64; 100]>, Receiver<[u64; 100]>);
    alone("selects_give_back_their_memory", || {
        let runtime = OneToOne::new().unwrap();
        let pass = |(s, r): Channel| {
            let receiver = runtime.spawn(move || {
                select! {
                    recv(r) -> got => assert_eq!(got.unwrap()[0], 7),
                    recv(never()) -> got => got.unwrap(),
                }
            });
            until_waits(&runtime, &receiver);
            s.send([7; 100]).unwrap();
            receiver.join().unwrap();
        };
        let grown = growth(|| pass(rendezvous()));
        assert!(grown < 50, "with a channel for each round: {grown} bytes a round");
        let (s, r) = rendezvous();
        let grown = growth(|| pass((s.clone(), r.clone())));
        assert!(grown < 50, "with one channel: {grown} bytes a round");
    });
}

/// The kernel threads of this process.
fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Plays `round` until the process has no more memory and no more kernel threads than before.
fn leaves_nothing(what: &str, mut round: impl FnMut()) {
    round();
    // The harness may start a few threads for other tests. A leak is one a round, of a hundred.
    let before = kernel_threads() + 20;
    let grown = growth(&mut round);
    assert!(grown < LEAST, "{what}: {grown} bytes a round");
    // A detached thread may still be on its way out.
    let patience = Instant::now() + Duration::from_secs(20);
    while kernel_threads() > before {
        assert!(Instant::now() < patience, "{what}: {} kernel threads, {before} before", kernel_threads());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn threads_leave_nothing() {
    alone("threads_leave_nothing", || {
        static KEY: Key<Vec<u8>> = Key::new();
        let kernel = OneToOne::new().unwrap();
        // On a busy machine, LWPs are started beside those that get no CPU. They keep their memory for seconds.
        let green = Mxn::builder().concurrency(2).max_lwps(4).build().unwrap();
        fn work() -> Vec<u8> {
            KEY.set(vec![0; 100]);
            vec![0; 100]
        }
        let named = || Builder::new().name("a name of its own".to_owned());
        leaves_nothing("kernel threads", || {
            drop(kernel.spawn_with(named(), work).unwrap().join().unwrap());
        });
        leaves_nothing("green threads", || {
            drop(green.spawn_with(named(), work).unwrap().join().unwrap());
        });
        leaves_nothing("bound threads", || {
            drop(green.spawn_with(named().bound(true), work).unwrap().join().unwrap());
        });
        leaves_nothing("foreign threads", || {
            std::thread::spawn(|| drop((thread::current().id(), work()))).join().unwrap();
        });
        leaves_nothing("scopes", || {
            green.run(|| thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(work)))));
        });
        let (begun, has_begun) = unbounded();
        let detached = |spawn: &dyn Fn(Box<dyn FnOnce() + Send>)| {
            let (begun, (end, ends)) = (begun.clone(), rendezvous::<()>());
            spawn(Box::new(move || {
                drop(work());
                begun.send(()).unwrap();
                let _ = ends.recv();
            }));
            has_begun.recv().unwrap();
            drop(end);
        };
        // So many that the last of them make no difference.
        let many = |spawn: &dyn Fn(Box<dyn FnOnce() + Send>)| (0..20).for_each(|_| detached(spawn));
        leaves_nothing("detached kernel threads", || many(&|body| drop(kernel.spawn(body))));
        leaves_nothing("detached green threads", || many(&|body| drop(green.spawn(body))));
    });
}

#[test]
fn runtimes_leave_nothing() {
    alone("runtimes_leave_nothing", || {
        leaves_nothing("onetoone", || {
            let runtime = OneToOne::new().unwrap();
            runtime.run(|| thread::spawn(|| vec![0u8; 100]).join().unwrap());
        });
        leaves_nothing("mxn", || {
            let runtime = Mxn::builder().concurrency(2).build().unwrap();
            runtime.run(|| thread::spawn(|| vec![0u8; 100]).join().unwrap());
        });
    });
}

#[test]
fn locks_leave_nothing() {
    alone("locks_leave_nothing", || {
        let kernel = OneToOne::new().unwrap();
        leaves_nothing("locks", || {
            let all = Arc::new((
                sync::Mutex::new(vec![0; 10]),
                Condvar::new(),
                RwLock::new(vec![0; 10]),
                Semaphore::new(1),
                OnceLock::new(),
                Barrier::new(2),
            ));
            let (mutex, condition, shared, semaphore, once, barrier) = &*all;
            let other = {
                let all = Arc::clone(&all);
                kernel.spawn(move || {
                    all.5.wait();
                    *all.0.lock() = Vec::new();
                    all.1.notify_all();
                    all.2.write().push(all.4.get_or_init(|| vec![7])[0]);
                })
            };
            let mut values = mutex.lock();
            barrier.wait();
            while !values.is_empty() {
                condition.wait(&mut values);
            }
            drop(values);
            once.get_or_init(|| vec![7]);
            let _permit = semaphore.acquire();
            shared.write().clear();
            other.join().unwrap();
        });
    });
}

/// A thread that ends gives back the places of its values, but for a few that the next thread finds.
#[test]
fn thousands_of_keys_leave_nothing() {
    alone("thousands_of_keys_leave_nothing", || {
        let kernel = OneToOne::new().unwrap();
        let keys: Arc<Vec<Key<u64>>> = Arc::new((0..3000).map(|_| Key::new()).collect());
        let use_keys = |count: usize| {
            let keys = Arc::clone(&keys);
            kernel.spawn(move || keys[..count].iter().for_each(|key| key.set(7))).join().unwrap();
            // The next life of the same core.
            kernel.spawn(|| ()).join().unwrap();
        };
        (0..3).for_each(|_| use_keys(1));
        let before = BYTES.load(Relaxed);
        use_keys(3000);
        let kept = BYTES.load(Relaxed) - before;
        // The numbers of the keys take 16 KB for good; the places of the values took 32.
        assert!(kept < 24_000, "{kept} bytes are kept");
        leaves_nothing("keys", || use_keys(1000));
        // So few that their places are kept: the second thread allocates none.
        use_keys(60);
        let before = BYTES.load(Relaxed);
        use_keys(60);
        let kept = BYTES.load(Relaxed) - before;
        assert!(kept < 256, "{kept} bytes are kept");
    });
}
