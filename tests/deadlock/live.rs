//! Programs that go on are left alone, however they wait.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge::sync::{Barrier, Condvar, LockWith as _, Mutex, RwLock};
use selvedge::thread::{self, Builder, EndsBy, Standstill, WaitReason};
use selvedge::{Mxn, OneToOne, Runtime, Wait};

use super::watchdog::Watchdog;
use super::{BOTH, RT, Scene, Step, child, meet, on_named, report_when};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("under_load", || on_named(&UnderLoad)),
    ("ended_by_an_interrupt", || on_named(&EndedByAnInterrupt)),
    ("done_with_its_scope", || on_named(&DoneWithItsScope)),
    ("forgotten_guard", || on_named(&ForgottenGuard { reader_is_known: true })),
    (UNKNOWN_READER, || on_named(&ForgottenGuard { reader_is_known: false })),
    (UNKNOWN_OWNER, || on_named(&ForgottenMutexGuard)),
];

/// Of these owners are recorded later.
const UNKNOWN_READER: &str = "forgotten_guard_and_unknown_reader";
const UNKNOWN_OWNER: &str = "forgotten_mutex_guard_and_unknown_owner";

/// How long a live program is watched.
const LOAD: Duration = Duration::from_secs(3);

/// A thread that was woken, and has not run since, waits no more: both looks at it are the same.
#[test]
fn woken_threads_do_not_wait() {
    let _watchdog = Watchdog::start("woken threads");
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
    rt.run(|| {
        let parked = thread::spawn(thread::park);
        while rt.deadlocks().waiting().is_empty() {
            thread::yield_now();
        }
        // The slot is the caller's, so the other thread cannot run at once.
        parked.thread().unpark();
        let report = rt.deadlocks();
        assert!(report.waiting().is_empty() && !report.any(), "{report}");
        parked.join().unwrap();
    });
}

/// Everything that waits, all the time, for each other, in chains that end.
struct UnderLoad;

impl Scene for UnderLoad {
    fn play<R: Runtime>(&self, rt: &R) {
        let stop = Arc::new(AtomicBool::new(false));
        let locks: Arc<Vec<Mutex<u64>>> = Arc::new((0..4).map(|_| Mutex::new(0)).collect());
        let pair = Arc::new((Mutex::new(0u64), Condvar::new()));
        let table = Arc::new(RwLock::new(0u64));
        let barrier = Arc::new(Barrier::new(4));
        let mut threads = Vec::new();
        let mut start = |bound: bool, f: Box<dyn Fn(u64) + Send>| {
            let stop = Arc::clone(&stop);
            let builder = Builder::new().bound(bound);
            let runs = move || (0..).take_while(|_| !stop.load(Ordering::Relaxed)).for_each(f);
            threads.push(rt.spawn_with(builder, runs).unwrap());
        };
        for me in 0..6 {
            // Two locks at once, always in order: chains of waiters, and no cycle.
            let locks = Arc::clone(&locks);
            start(
                me % 3 == 0,
                Box::new(move |n| {
                    let (a, b) = ((n + me) as usize % 4, (n * 7 + me) as usize % 4);
                    let mut first = locks[a.min(b)].lock();
                    *first += 1;
                    if a != b {
                        *locks[a.max(b)].lock() += 1;
                    }
                    if n % 64 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                }),
            );
        }
        for me in 0..2u64 {
            // A turn for each; the others wait.
            let (pair, stop) = (Arc::clone(&pair), Arc::clone(&stop));
            start(
                false,
                Box::new(move |_| {
                    let (turn, changed) = &*pair;
                    let mut turn = turn.lock();
                    while *turn % 2 != me && !stop.load(Ordering::Relaxed) {
                        changed.wait(&mut turn);
                    }
                    *turn += 1;
                    changed.notify_all();
                }),
            );
        }
        for _ in 0..4 {
            let (barrier, stop) = (Arc::clone(&barrier), Arc::clone(&stop));
            start(
                false,
                Box::new(move |_| {
                    while barrier.wait_timeout(Duration::from_millis(5)).is_none()
                        && !stop.load(Ordering::Relaxed)
                    {}
                }),
            );
        }
        for me in 0..4u64 {
            let table = Arc::clone(&table);
            start(
                me == 0,
                Box::new(move |n| {
                    if (n + me) % 8 == 0 {
                        *table.write() += 1;
                    } else {
                        let _read = table.read();
                        thread::yield_now();
                    }
                }),
            );
        }
        // Joins of threads that end, with a lock held that those want later, or never.
        let locked = Arc::clone(&locks);
        start(
            false,
            Box::new(move |_| {
                let _held = locked[3].lock();
                thread::spawn(thread::yield_now).join().unwrap();
                thread::scope(|s| {
                    s.spawn(|| thread::sleep(Duration::from_micros(50)));
                });
            }),
        );
        // The foreign one asks all the time, too.
        let begun = Instant::now();
        let mut looks = 0;
        while begun.elapsed() < LOAD || looks < 20 {
            let report = rt.deadlocks();
            assert!(!report.any(), "{report}");
            looks += 1;
        }
        stop.store(true, Ordering::Relaxed);
        pair.1.notify_all();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        println!("{looks} looks");
        println!("played");
    }
}

/// Two threads wait for each other, but an interrupt would end the wait of one.
struct EndedByAnInterrupt;

impl Scene for EndedByAnInterrupt {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let locks = Arc::new((Mutex::new(()), Mutex::new(()), Barrier::new(2)));
        let theirs = Arc::clone(&locks);
        let endless = rt.spawn(move || {
            let _held = theirs.0.lock();
            meet(&theirs.2);
            drop(theirs.1.lock());
        });
        let refusable = rt.spawn(move || {
            let _held = locks.1.lock();
            meet(&locks.2);
            locks.0.lock_with(Wait::forever().interruptible()).is_err()
        });
        let id = refusable.thread().id();
        let report = report_when(rt, |report| report.any() || report.waiting().len() == 2);
        let waits = report.waiting().iter().find(|thread| thread.id() == id);
        if waits.is_none_or(|waits| waits.ends_by() != EndsBy::Interrupt) {
            println!("{report}");
            std::process::exit(1);
        }
        refusable.thread().interrupt();
        assert!(refusable.join().unwrap());
        endless.join().unwrap();
        println!("played");
    }
}

/// A thread of a scope has run its closure, so the scope does not wait for it any more. While its
/// thread-locals are destroyed, it locks what the thread that waits for the scope holds. That thread waits
/// for the scope's other threads alone.
struct DoneWithItsScope;

/// Locks it when the thread that it belongs to has run its closure.
struct LocksAtLast(Arc<Mutex<()>>);

impl Drop for LocksAtLast {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

thread_local! {
    static AT_LAST: Cell<Option<LocksAtLast>> = const { Cell::new(None) };
}

impl Scene for DoneWithItsScope {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let (seen, begun) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
        let theirs = Arc::clone(&seen);
        let waits = rt.spawn(move || {
            let lock = Arc::new(Mutex::new(()));
            let _held = lock.lock();
            thread::scope(|s| {
                s.spawn(|| {
                    AT_LAST.set(Some(LocksAtLast(Arc::clone(&lock))));
                    // A thread that has not begun is not known to the report.
                    while !begun.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                });
                s.spawn(|| {
                    begun.store(true, Ordering::Relaxed);
                    while !theirs.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                });
            });
        });
        let report = report_when(rt, |report| {
            let waits_for = |reason| report.waiting().iter().any(|thread| thread.reason() == reason);
            report.any() || waits_for(WaitReason::Scope) && waits_for(WaitReason::Mutex)
        });
        let scope = report.waiting().iter().find(|thread| thread.reason() == WaitReason::Scope);
        if scope.is_none_or(|scope| scope.owners().len() != 1) {
            println!("{report}");
            std::process::exit(1);
        }
        seen.store(true, Ordering::Relaxed);
        waits.join().unwrap();
        println!("played");
    }
}

/// A guard is forgotten, and then another lock lies where the guard's lock was. The thread that forgot the
/// guard is no reader of the new lock, whether or not the readers of that are known.
struct ForgottenGuard {
    reader_is_known: bool,
}

impl Scene for ForgottenGuard {
    fn play<R: Runtime>(&self, rt: &R) {
        let place = Box::into_raw(Box::new(RwLock::new(()))).expose_provenance();
        // SAFETY: it is not freed, and it is replaced while no thread uses it.
        let lock = move || unsafe { &*std::ptr::with_exposed_provenance::<RwLock<()>>(place) };
        let (step, mutex) = (Step::default(), Arc::new(Mutex::new(())));
        let (theirs, known) = (step.clone(), self.reader_is_known);
        // Locks before owners are recorded, and does not wait after, unless it is to be known.
        let reader = std::thread::spawn(move || {
            drop(Mutex::new(()).lock());
            theirs.is(1);
            theirs.awaits(3);
            if known {
                thread::sleep(Duration::from_millis(1));
            }
            let _read = lock().read();
            theirs.is(4);
            theirs.awaits(6);
        });
        step.awaits(1);
        thread::record_owners();
        let (theirs, wanted) = (step.clone(), Arc::clone(&mutex));
        let forgets = rt.spawn(move || {
            std::mem::forget(lock().read());
            theirs.is(2);
            theirs.yields_until(5);
            drop(wanted.lock());
        });
        step.awaits(2);
        // SAFETY: no thread uses it, and a lock has no destructor.
        unsafe { std::ptr::with_exposed_provenance_mut::<RwLock<()>>(place).write(RwLock::new(())) };
        step.is(3);
        step.awaits(4);
        let theirs = step.clone();
        let writes = rt.spawn(move || {
            let _locked = mutex.lock();
            theirs.is(5);
            drop(lock().write());
        });
        let report = report_when(rt, |report| {
            let waits_for = |reason| report.waiting().iter().any(|thread| thread.reason() == reason);
            report.any() || waits_for(WaitReason::RwLock) && waits_for(WaitReason::Mutex)
        });
        let writer = report.waiting().iter().find(|thread| thread.reason() == WaitReason::RwLock);
        if writer.is_none_or(|writer| writer.owners().len() != usize::from(known)) {
            println!("{report}");
            std::process::exit(1);
        }
        step.is(6);
        reader.join().unwrap();
        writes.join().unwrap();
        forgets.join().unwrap();
        println!("played");
    }
}

/// A guard is forgotten, and then a new mutex lies where that mutex was. The new one has an unknown owner: no
/// thread waits for the thread that forgot the guard.
struct ForgottenMutexGuard;

impl Scene for ForgottenMutexGuard {
    fn play<R: Runtime>(&self, rt: &R) {
        let place = Box::into_raw(Box::new(Mutex::new(()))).expose_provenance();
        // SAFETY: it is not freed, and it is replaced while no thread uses it.
        let lock = move || unsafe { &*std::ptr::with_exposed_provenance::<Mutex<()>>(place) };
        let step = Step::default();
        let theirs = step.clone();
        // Locks before owners are recorded, and does not wait after.
        let owner = std::thread::spawn(move || {
            drop(Mutex::new(()).lock());
            theirs.is(1);
            theirs.awaits(3);
            let _locked = lock().lock();
            theirs.is(4);
            theirs.awaits(5);
        });
        step.awaits(1);
        thread::record_owners();
        let theirs = step.clone();
        let waits = rt.spawn(move || {
            theirs.yields_until(4);
            drop(lock().lock());
        });
        let theirs = step.clone();
        let forgets = rt.spawn(move || {
            std::mem::forget(lock().lock());
            theirs.is(2);
            waits.join().unwrap();
        });
        step.awaits(2);
        // SAFETY: no thread uses it, and a mutex has no destructor.
        unsafe { std::ptr::with_exposed_provenance_mut::<Mutex<()>>(place).write(Mutex::new(())) };
        step.is(3);
        let report = report_when(rt, |report| {
            let waits_for = |reason| report.waiting().iter().any(|thread| thread.reason() == reason);
            report.any() || waits_for(WaitReason::Mutex) && waits_for(WaitReason::Join)
        });
        let waits = report.waiting().iter().find(|thread| thread.reason() == WaitReason::Mutex);
        if waits.is_none_or(|waits| waits.owners().len() != 0) {
            println!("{report}");
            std::process::exit(1);
        }
        step.is(5);
        owner.join().unwrap();
        forgets.join().unwrap();
        println!("played");
    }
}

#[test]
fn live_programs_are_left_alone() {
    for (role, _) in ROLES {
        for rt in BOTH {
            let variables = [(RT, rt), ("SELVEDGE_DEADLOCK", "abort")];
            let recorded_later = usize::from([UNKNOWN_READER, UNKNOWN_OWNER].contains(role));
            let ended = child::run(role, &variables[..2 - recorded_later]);
            ended.expect_success();
            let alone = ended.said.contains("played") && !ended.said.contains("deadlock:");
            assert!(alone, "{role} on {rt}: {ended:?}");
        }
    }
}

/// Locks do what they do, while their owners are recorded from some moment on.
#[test]
fn recording_may_begin_at_any_time() {
    let _watchdog = Watchdog::start("recording_may_begin_at_any_time");
    fn scene<R: Runtime>(rt: &R) {
        let count = Arc::new(Mutex::new(0u64));
        let done = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..6)
            .map(|n| {
                let (count, done) = (Arc::clone(&count), Arc::clone(&done));
                rt.spawn_with(Builder::new().bound(n % 2 == 0), move || {
                    for round in 0..20_000u64 {
                        *count.lock() += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                        if round % 512 == n {
                            thread::yield_now();
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        while done.load(Ordering::Relaxed) < 20_000 {
            std::thread::yield_now();
        }
        thread::record_owners();
        for _ in 0..20 {
            let report = rt.deadlocks();
            assert!(!report.any(), "{report}");
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*count.lock(), 120_000);
        assert!(rt.deadlocks().owners_recorded());
        assert_eq!(rt.deadlocks().standstill(), Standstill::None);
        assert_eq!(rt.deadlocks().to_string(), "no thread waits");
    }
    scene(&Mxn::builder().concurrency(2).build().unwrap());
    scene(&OneToOne::new().unwrap());
}
