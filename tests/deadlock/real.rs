//! Real deadlocks, each in a process that ends with it.

use std::sync::Arc;
use std::sync::OnceLock;

use selvedge::sync::{Barrier, Condvar, Mutex, Semaphore, stats};
use selvedge::thread::{self, Blocked, Builder, Deadlocks, EndsBy, JoinHandle, Standstill, WaitReason};
use selvedge::{Runtime, Wait};

use super::{BOTH, RT, Scene, child, end, meet, on_named, report_when};

pub(crate) const ROLES: &[(&str, fn())] = &[
    ("two_locks", || on_named(&TwoLocks)),
    ("relock", || on_named(&Relock)),
    ("three_parties", || on_named(&Three)),
    ("join_cycle", || on_named(&JoinCycle)),
    ("join_of_a_holder", || on_named(&JoinOfHolder)),
    ("scope_of_a_holder", || on_named(&ScopeOfHolder)),
    ("broadcast_to_a_held_lock", || on_named(&Broadcast)),
    ("no_thread_notifies", || on_named(&NoThreadNotifies)),
    ("with_a_foreign_thread", || on_named(&Foreign)),
    ("joins_without_records", || on_named(&Untracked)),
    ("by_itself", || on_named(&ByItself { rounds: 200 })),
    ("until_it_is_ended", || on_named(&ByItself { rounds: u32::MAX })),
];

fn named(name: &str) -> Builder {
    Builder::new().name(name.into())
}

pub(crate) fn spawn<R: Runtime>(rt: &R, name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    rt.spawn_with(named(name), f).expect("a thread")
}

pub(crate) fn names(threads: &[Blocked]) -> Vec<&str> {
    let mut names: Vec<_> = threads.iter().map(|thread| thread.name().unwrap_or("?")).collect();
    names.sort_unstable();
    names
}

/// The report's one cycle is of these, in any order; each is held up by the next one.
#[track_caller]
pub(crate) fn assert_cycle(report: &Deadlocks, expected: &[&str]) {
    let [cycle] = report.cycles() else { panic!("not one cycle:\n{report}") };
    assert_eq!(names(cycle.threads()), expected, "{report}");
    for (n, thread) in cycle.threads().iter().enumerate() {
        let next = &cycle.threads()[(n + 1) % cycle.threads().len()];
        assert!(thread.owners().any(|(id, name)| id == next.id() && name == next.name()), "{report}");
        assert_eq!(thread.ends_by(), EndsBy::Nothing);
    }
    assert!(report.any());
    let text = report.to_string();
    for name in expected {
        assert!(text.contains(&format!("{name:?}")), "no {name} in: {text}");
    }
}

/// Threads that lock one mutex each, meet, and lock the next one's. All are locked when this returns.
fn ring<R: Runtime>(rt: &R, threads: &[&str]) -> Arc<Vec<Mutex<()>>> {
    let locks: Arc<Vec<Mutex<()>>> = Arc::new(threads.iter().map(|_| Mutex::new(())).collect());
    let met = Arc::new(Barrier::new(threads.len() + 1));
    for (n, name) in threads.iter().enumerate() {
        let (locks, met) = (Arc::clone(&locks), Arc::clone(&met));
        spawn(rt, name, move || {
            let _mine = locks[n].lock();
            meet(&met);
            drop(locks[(n + 1) % locks.len()].lock());
        });
    }
    meet(&met);
    locks
}

struct TwoLocks;

impl Scene for TwoLocks {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let locks = ring(rt, &["left", "right"]);
        stats::name(&locks[0], "the left lock");
        report_when(rt, Deadlocks::any);
        // Others wait too, in vain or not.
        let theirs = Arc::clone(&locks);
        spawn(rt, "behind", move || drop(theirs[0].lock()));
        spawn(rt, "sleeper", || thread::sleep(std::time::Duration::from_secs(1000)));
        spawn(rt, "parked", thread::park);
        let timed = Arc::clone(&locks);
        spawn(rt, "timed", move || drop(timed[0].try_lock_for(std::time::Duration::from_secs(1000))));
        spawn(rt, "refusable", || drop(Semaphore::new(0).acquire_with(Wait::forever().interruptible())));
        let report = report_when(rt, |report| {
            report.cycles().len() == 1 && report.stuck().len() == 1 && report.waiting().len() == 4
        });
        assert_cycle(&report, &["left", "right"]);
        let right =
            report.cycles()[0].threads().iter().find(|thread| thread.name() == Some("right")).unwrap();
        assert_eq!((right.called(), right.reason()), (Some("the left lock"), WaitReason::Mutex));
        assert_eq!(right.at(), Some(std::ptr::from_ref(&locks[0]).addr()));
        assert_eq!(names(report.stuck()), ["behind"]);
        assert_eq!(names(report.waiting()), ["parked", "refusable", "sleeper", "timed"]);
        let ends_by =
            |name| report.waiting().iter().find(|thread| thread.name() == Some(name)).unwrap().ends_by();
        assert_eq!(ends_by("parked"), EndsBy::AnyThread);
        assert_eq!(ends_by("refusable"), EndsBy::Interrupt);
        assert_eq!(ends_by("sleeper"), EndsBy::Deadline);
        assert_eq!(ends_by("timed"), EndsBy::Deadline);
        assert_eq!(report.standstill(), Standstill::None, "{report}");
        end(&report);
    }
}

struct Relock;

impl Scene for Relock {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        spawn(rt, "again", || {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            drop(mutex.lock());
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["again"]);
        assert_eq!(report.standstill(), Standstill::Forever);
        assert!(report.to_string().contains("a thread waits for itself"), "{report}");
        end(&report);
    }
}

struct Three;

impl Scene for Three {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        ring(rt, &["one", "three", "two"]);
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["one", "three", "two"]);
        assert_eq!(report.standstill(), Standstill::Forever);
        end(&report);
    }
}

/// Two threads that get each other's handles, and join.
fn join_each_other<R: Runtime>(rt: &R) {
    static HANDLES: [OnceLock<Mutex<Option<JoinHandle<()>>>>; 2] = [OnceLock::new(), OnceLock::new()];
    let joins = |of: usize| {
        move || loop {
            if let Some(handle) = HANDLES[of].get().and_then(|handle| handle.lock().take()) {
                return handle.join().unwrap();
            }
            thread::yield_now();
        }
    };
    let handles = [spawn(rt, "first", joins(1)), spawn(rt, "second", joins(0))];
    for (slot, handle) in HANDLES.iter().zip(handles) {
        assert!(slot.set(Mutex::new(Some(handle))).is_ok());
    }
}

struct JoinCycle;

impl Scene for JoinCycle {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        join_each_other(rt);
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["first", "second"]);
        end(&report);
    }
}

/// What is known of joins needs no records.
struct Untracked;

impl Scene for Untracked {
    fn play<R: Runtime>(&self, rt: &R) {
        join_each_other(rt);
        let mutex = Arc::new(Mutex::new(()));
        std::mem::forget(mutex.lock());
        spawn(rt, "locker", move || drop(mutex.lock()));
        let report = report_when(rt, |report| report.any() && report.waiting().len() == 1);
        assert_cycle(&report, &["first", "second"]);
        assert!(!report.owners_recorded());
        assert_eq!(report.waiting()[0].ends_by(), EndsBy::UnknownOwner);
        assert_eq!(report.standstill(), Standstill::UnlessWokenFromOutside);
        assert!(report.to_string().contains("record_owners"), "{report}");
        end(&report);
    }
}

struct JoinOfHolder;

impl Scene for JoinOfHolder {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let mutex = Arc::new(Mutex::new(()));
        let theirs = Arc::clone(&mutex);
        spawn(rt, "joiner", move || {
            let mine = Arc::clone(&theirs);
            let _held = theirs.lock();
            named("joined").spawn(move || drop(mine.lock())).unwrap().join().unwrap();
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["joined", "joiner"]);
        assert!(report.to_string().contains("the end of a thread (join), that of"), "{report}");
        end(&report);
    }
}

struct ScopeOfHolder;

impl Scene for ScopeOfHolder {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        spawn(rt, "scope", || {
            let mutex = Mutex::new(());
            let _held = mutex.lock();
            thread::scope(|s| {
                s.spawn(|| ());
                named("member").spawn_scoped(s, || drop(mutex.lock())).unwrap();
            });
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["member", "scope"]);
        end(&report);
    }
}

/// A broadcast moves waiters to the mutex, and the mutex's owner waits for one of them.
struct Broadcast;

impl Scene for Broadcast {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let listener = spawn(rt, "listener", move || {
            let mut count = theirs.0.lock();
            *count += 1;
            theirs.1.wait(&mut count);
        });
        spawn(rt, "announcer", move || {
            while *shared.0.lock() == 0 {
                thread::yield_now();
            }
            let _held = shared.0.lock();
            shared.1.notify_all();
            listener.join().unwrap();
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["announcer", "listener"]);
        end(&report);
    }
}

struct NoThreadNotifies;

impl Scene for NoThreadNotifies {
    fn play<R: Runtime>(&self, rt: &R) {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        for n in 0..4 {
            let shared = Arc::clone(&shared);
            spawn(rt, &format!("listener {n}"), move || shared.1.wait(&mut shared.0.lock()));
        }
        let report = report_when(rt, |report| report.standstill() != Standstill::None);
        // The thread that asks could notify them, and so could the harness, as far as the runtime knows.
        assert_eq!(names(report.waiting()), ["listener 0", "listener 1", "listener 2", "listener 3"]);
        assert!(report.waiting().iter().all(|thread| thread.ends_by() == EndsBy::AnyThread), "{report}");
        assert!(!report.any() && report.standstill() == Standstill::UnlessWokenFromOutside, "{report}");
        end(&report);
    }
}

/// One of the two is a thread that Selvedge did not start.
struct Foreign;

impl Scene for Foreign {
    fn play<R: Runtime>(&self, rt: &R) {
        thread::record_owners();
        let locks = Arc::new([Mutex::new(()), Mutex::new(())]);
        let met = Arc::new(Barrier::new(2));
        let (theirs, there) = (Arc::clone(&locks), Arc::clone(&met));
        std::thread::Builder::new()
            .name("foreign".into())
            .spawn(move || {
                let _held = theirs[0].lock();
                meet(&there);
                drop(theirs[1].lock());
            })
            .unwrap();
        spawn(rt, "ours", move || {
            let _held = locks[1].lock();
            meet(&met);
            drop(locks[0].lock());
        });
        let report = report_when(rt, |report| report.any());
        assert_cycle(&report, &["foreign", "ours"]);
        end(&report);
    }
}

/// Told by `SELVEDGE_DEADLOCK`; others go on for so many rounds.
struct ByItself {
    rounds: u32,
}

impl Scene for ByItself {
    fn play<R: Runtime>(&self, rt: &R) {
        ring(rt, &["left", "right"]);
        let rounds = self.rounds;
        let counts = spawn(rt, "busy", move || {
            for _ in 0..rounds {
                thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        counts.join().unwrap();
        println!("played");
        std::process::exit(0);
    }
}

#[test]
fn reported_on_demand() {
    for role in [
        "two_locks",
        "relock",
        "three_parties",
        "join_cycle",
        "join_of_a_holder",
        "scope_of_a_holder",
        "broadcast_to_a_held_lock",
        "no_thread_notifies",
        "with_a_foreign_thread",
        "joins_without_records",
    ] {
        for rt in BOTH {
            let ended = child::run(role, &[(RT, rt)]);
            ended.expect_success();
            assert!(ended.said.contains("played"), "{role} on {rt}: {ended:?}");
        }
    }
}

#[test]
fn reported_by_itself_once() {
    for rt in BOTH {
        let ended = child::run("by_itself", &[(RT, rt), ("SELVEDGE_DEADLOCK", "report")]);
        ended.expect_success();
        assert!(ended.said.contains("played"), "{ended:?}");
        for word in
            ["selvedge: deadlock: 2 threads wait for each other", "\"left\"", "\"right\"", "a mutex at 0x"]
        {
            assert!(ended.said.contains(word), "no {word:?} in {ended:?}");
        }
        assert_eq!(ended.said.matches("deadlock:").count(), 1, "{ended:?}");
    }
}

#[test]
fn the_process_is_ended_if_that_is_wanted() {
    for rt in BOTH {
        let ended = child::run("until_it_is_ended", &[(RT, rt), ("SELVEDGE_DEADLOCK", "abort")]);
        ended.expect_abort(&["2 threads wait for each other", "\"left\"", "\"right\""]);
    }
}

#[test]
fn nothing_is_said_unless_wanted() {
    for rt in BOTH {
        for variables in [&[(RT, rt)][..], &[(RT, rt), ("SELVEDGE_DEADLOCK", "off")]] {
            let ended = child::run("by_itself", variables);
            ended.expect_success();
            assert!(!ended.said.contains("deadlock:"), "{ended:?}");
        }
    }
}
