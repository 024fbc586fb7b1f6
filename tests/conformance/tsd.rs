//! Thread-specific data: each thread has its own values, wherever it runs; `ends` says what becomes of them.

mod ends;
#[cfg(unix)]
mod forked;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, Mutex};
use selvedge::thread::Builder;
use selvedge::tsd::Key;
use selvedge::{Runtime, thread};

use crate::legs::Leg;

both! {
    values_are_each_threads_own,
    values_move_with_their_thread,
    values_stay_when_a_thread_is_preempted,
    values_need_not_be_fit_to_be_sent,
    a_thread_starts_without_values,
    threads_of_other_kinds_have_values_too,
    a_new_key_in_an_old_ones_place_has_no_values,
    thousands_of_keys,
    ten_thousand_threads,
    keys_come_and_go_in_all_threads_at_once,
}

/// Counts one more when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn values_are_each_threads_own<L: Leg>() {
    static KEYS: [Key<usize>; 3] = [const { Key::new() }; 3];
    let rt = L::new();
    let barrier = Arc::new(Barrier::new(12));
    let body = |n: usize, barrier: Arc<Barrier>| {
        move || {
            assert!(KEYS.iter().all(|key| key.get().is_none()));
            KEYS.iter().zip(1..).for_each(|(key, by)| key.set(n * by));
            barrier.wait();
            assert!(KEYS.iter().zip(1..).all(|(key, by)| key.get() == Some(n * by)));
            KEYS[0].set(n + 1);
            assert_eq!(KEYS[1].take(), Some(2 * n));
            barrier.wait();
            assert_eq!([0, 1, 2].map(|key| KEYS[key].get()), [Some(n + 1), None, Some(3 * n)]);
        }
    };
    let handles: Vec<_> = (0..8)
        .map(|n| rt.spawn_with(Builder::new().bound(n % 4 == 0), body(n, Arc::clone(&barrier))).unwrap())
        .collect();
    let foreign: Vec<_> = (8..12).map(|n| std::thread::spawn(body(n, Arc::clone(&barrier)))).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    foreign.into_iter().for_each(|handle| handle.join().unwrap());
    assert!(KEYS.iter().all(|key| key.get().is_none()));
}

/// Waits of all kinds, after each of which a green thread may be elsewhere.
fn values_move_with_their_thread<L: Leg>() {
    static NAME: Key<String> = Key::new();
    static COUNT: Key<Cell<usize>> = Key::new();
    let mutex = Arc::new(Mutex::new(0));
    let rt = L::new();
    let handles: Vec<_> = (0..32)
        .map(|n| {
            let mutex = Arc::clone(&mutex);
            rt.spawn(move || {
                NAME.set(format!("thread {n}"));
                for round in 0..60 {
                    COUNT.with_or_init(|| Cell::new(n), |count| count.set(count.get() + 1));
                    match round % 4 {
                        0 => thread::yield_now(),
                        1 => thread::park_timeout(Duration::from_micros(50)),
                        2 => *mutex.lock() += 1,
                        _ => thread::blocking(std::thread::yield_now),
                    }
                    assert_eq!(COUNT.with(|count| count.map(Cell::get)), Some(n + round + 1));
                    // In use while it moves.
                    NAME.with(|name| {
                        thread::yield_now();
                        assert_eq!(name.unwrap(), &format!("thread {n}"));
                    });
                }
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// Threads that never wait look at their values for some time slices.
fn values_stay_when_a_thread_is_preempted<L: Leg>() {
    static KEY: Key<Cell<u64>> = Key::new();
    static COPY: Key<u64> = Key::new();
    L::new().run(|| {
        thread::scope(|s| {
            for n in 0..6u64 {
                s.spawn(move || {
                    let start = Instant::now();
                    let mut rounds = n << 32;
                    KEY.set(Cell::new(rounds));
                    while start.elapsed() < Duration::from_millis(60) {
                        for _ in 0..1000 {
                            COPY.set(rounds);
                            rounds += 1;
                            KEY.with(|cell| cell.unwrap().set(cell.unwrap().get() + 1));
                            assert_eq!(COPY.take(), Some(rounds - 1));
                        }
                        assert_eq!(KEY.with(|cell| cell.map(Cell::get)), Some(rounds));
                    }
                });
            }
        });
    });
}

fn values_need_not_be_fit_to_be_sent<L: Leg>() {
    static KEY: Key<Rc<RefCell<Vec<u32>>>> = Key::new();
    let rt = L::new();
    let handles: Vec<_> = (0..10)
        .map(|n| {
            rt.spawn(move || {
                let mine = Rc::new(RefCell::new(vec![n]));
                KEY.set(Rc::clone(&mine));
                thread::yield_now();
                KEY.with(|list| list.unwrap().borrow_mut().push(n + 1));
                assert_eq!((Rc::strong_count(&mine), &*mine.borrow()), (2, &vec![n, n + 1]));
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

fn a_thread_starts_without_values<L: Leg>() {
    static KEYS: [Key<usize>; 40] = [const { Key::new() }; 40];
    let rt = L::new();
    for n in 0..200 {
        let fresh = rt.spawn_with(Builder::new().bound(n % 5 == 0), move || {
            let fresh = KEYS.iter().all(|key| key.get().is_none());
            KEYS.iter().for_each(|key| key.set(n));
            fresh
        });
        assert!(fresh.unwrap().join().unwrap(), "left by another thread");
    }
}

/// In foreign threads values are dropped among the destructors of thread-locals, before std's `join` returns.
fn threads_of_other_kinds_have_values_too<L: Leg>() {
    static KEY: Key<Counted> = Key::new();
    let ended = Arc::new(AtomicUsize::new(0));
    let rt = L::new();
    for n in 1..=5 {
        let (theirs, mutex) = (Arc::clone(&ended), Mutex::new(0));
        let handle = std::thread::spawn(move || {
            KEY.set(Counted(Arc::clone(&theirs)));
            *mutex.lock() += 1;
            assert_eq!(theirs.load(SeqCst), 2 * n - 2);
        });
        handle.join().unwrap();
        assert_eq!(ended.load(SeqCst), 2 * n - 1);
        let theirs = Arc::clone(&ended);
        rt.run(move || KEY.set(Counted(theirs)));
        assert_eq!(ended.load(SeqCst), 2 * n);
    }
    // A scope's threads end before it does, as far as values go too.
    thread::scope(|s| s.spawn(|| KEY.set(Counted(Arc::clone(&ended)))).join().unwrap());
    assert_eq!(ended.load(SeqCst), 11);
}

fn a_new_key_in_an_old_ones_place_has_no_values<L: Leg>() {
    let rt = L::new();
    let old: Arc<Vec<Key<usize>>> = Arc::new((0..50).map(|_| Key::new()).collect());
    let (dropped, barrier) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
    let (send, receive) = std::sync::mpsc::channel::<Vec<Key<Counted>>>();
    let theirs = (Arc::clone(&old), Arc::clone(&dropped), Arc::clone(&barrier));
    let handle = rt.spawn(move || {
        let (old, dropped, barrier) = theirs;
        old.iter().for_each(|key| key.set(7));
        drop(old);
        barrier.wait();
        let new = thread::blocking(|| receive.recv().unwrap());
        // Other types in the same places.
        assert!(new.iter().all(|key| key.with(|value| value.is_none()) && key.take().is_none()));
        new.iter().for_each(|key| key.set(Counted(Arc::clone(&dropped))));
        new.iter().for_each(|key| assert!(key.with(|value| Arc::strong_count(&value.unwrap().0) > 1)));
    });
    barrier.wait();
    drop(old);
    send.send((0..60).map(|_| Key::try_new().unwrap()).collect()).unwrap();
    handle.join().unwrap();
    assert_eq!(dropped.load(SeqCst), 60);
}

fn thousands_of_keys<L: Leg>() {
    const KEYS: usize = 3000;
    let rt = L::new();
    let keys: Arc<Vec<Key<usize>>> = Arc::new((0..KEYS).map(|_| Key::new()).collect());
    let handles: Vec<_> = (0..8)
        .map(|n| {
            let keys = Arc::clone(&keys);
            rt.spawn(move || {
                for (index, key) in keys.iter().enumerate() {
                    key.set(index * n);
                    if index % 500 == 0 {
                        thread::yield_now();
                    }
                }
                assert!(keys.iter().enumerate().all(|(index, key)| key.get() == Some(index * n)));
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

fn ten_thousand_threads<L: Leg>() {
    const THREADS: usize = 10_000;
    static KEYS: [Key<(usize, Arc<AtomicUsize>)>; 3] = [
        const { Key::new() },
        const {
            Key::with_destructor(|(_, dropped)| {
                dropped.fetch_add(1, SeqCst);
            })
        },
        const { Key::new() },
    ];
    // All at once, where they cost no kernel thread each.
    let at_once = if L::Rt::NAME == "mxn" { THREADS } else { 250 };
    let (rt, dropped) = (L::new(), Arc::new(AtomicUsize::new(0)));
    for wave in 0..THREADS / at_once {
        let barrier = Arc::new(Barrier::new(at_once));
        let body = |n: usize| {
            let (barrier, dropped) = (Arc::clone(&barrier), Arc::clone(&dropped));
            move || {
                KEYS.iter().for_each(|key| key.set((n, Arc::clone(&dropped))));
                barrier.wait();
                assert!(KEYS.iter().all(|key| key.with(|value| value.unwrap().0 == n)));
            }
        };
        let handles: Vec<_> = (0..at_once).map(|n| rt.spawn(body(wave * at_once + n))).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
    assert_eq!((dropped.load(SeqCst), Arc::strong_count(&dropped)), (THREADS, 1));
}

fn keys_come_and_go_in_all_threads_at_once<L: Leg>() {
    let (rt, live) = (L::new(), Arc::new(AtomicUsize::new(0)));
    struct Live(Arc<AtomicUsize>, usize);
    impl Live {
        fn new(live: &Arc<AtomicUsize>, n: usize) -> Self {
            live.fetch_add(1, SeqCst);
            Self(Arc::clone(live), n)
        }
    }
    impl Drop for Live {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    let shared: Arc<Mutex<Arc<Key<Live>>>> = Arc::new(Mutex::new(Arc::new(Key::new())));
    let handles: Vec<_> = (0..8)
        .map(|n| {
            let (shared, live) = (Arc::clone(&shared), Arc::clone(&live));
            rt.spawn_with(Builder::new().bound(n % 4 == 3), move || {
                for round in 0..300 {
                    // A key of its own, a key that all use for a while, and a new one for all.
                    let own = Key::new();
                    own.set(Live::new(&live, round));
                    let key = Arc::clone(&shared.lock());
                    key.set(Live::new(&live, n));
                    if round % 3 == 0 {
                        thread::yield_now();
                    }
                    assert_eq!(own.with(|value| value.unwrap().1), round);
                    assert_eq!(key.with(|value| value.unwrap().1), n);
                    if round % 7 == n {
                        *shared.lock() = Arc::new(Key::new());
                    }
                }
            })
            .unwrap()
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(live.load(SeqCst), 0, "values are left when their threads are gone");
}
