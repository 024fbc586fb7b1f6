//! Locks in memory that processes share. What becomes of them when a process is killed, ends or forks with
//! one held, and when a thread ends.
//!
//! The other processes are this test program again, which plays a role on the same file, mapped.

#[path = "shared/processes.rs"]
mod processes;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread as kernel;
use std::time::{Duration, Instant};

use processes::{Mapping, seen};
use selvedge::sync::process_shared::{Acquired, Condvar, Mutex, MutexGuard};
use selvedge::sync::{Condition, RobustError};
use selvedge::thread::{self, ThreadInfo, ThreadState};
use selvedge::{LwpState, Mxn, OneToOne, Runtime, Wait, WaitError};
use watchdog::Watchdog;

const SHORT: Duration = Duration::from_millis(10);
/// Longer than anything that is waited for.
const LONG: Duration = Duration::from_secs(100);
/// Within this a death is noticed, on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(10);

/// What all processes of a test share.
#[repr(C)]
struct Common {
    /// Two numbers that are the same, but while a thread changes them.
    pair: Mutex<(u64, u64)>,
    changed: Condvar,
    /// How many processes have done what they were to.
    ready: AtomicU32,
    /// Processes in the lock, told otherwise than by it.
    inside: AtomicU32,
    /// How often one that was killed had it.
    inherited: AtomicU32,
}

fn lock(common: &Common) -> MutexGuard<'_, (u64, u64)> {
    common.pair.lock().expect("nothing is lost").unwrap()
}

/// Locks, and leaves the pair unequal.
fn break_it(common: &Common) -> MutexGuard<'_, (u64, u64)> {
    let mut guard = lock(common);
    guard.0 += 1;
    guard
}

fn mend(mut guard: MutexGuard<'_, (u64, u64)>) {
    assert_eq!(guard.0, guard.1 + 1, "it was left broken");
    guard.1 = guard.0;
    assert!(guard.mark_consistent());
}

fn mxn() -> Mxn {
    Mxn::builder().concurrency(2).build().expect("the runtime starts")
}

/// Returns how many LWPs are not free to run other threads.
fn blocked(rt: &Mxn) -> usize {
    let stats = rt.stats();
    stats.count(LwpState::Blocking) + stats.count(LwpState::InKernel)
}

/// Never returns: locks, says so, and sleeps until it is killed.
fn hold(common: &Common) {
    let _guard = break_it(common);
    common.ready.fetch_add(1, SeqCst);
    loop {
        kernel::sleep(LONG);
    }
}

fn count_for_ever(common: &Common) {
    loop {
        let mut guard = match common.pair.lock().expect("all are mended") {
            Acquired::Consistent(guard) => guard,
            Acquired::ProcessDied(mut guard) => {
                // The one that was killed may have been anywhere.
                common.inside.store(0, SeqCst);
                common.inherited.fetch_add(1, SeqCst);
                guard.1 = guard.0;
                assert!(guard.mark_consistent());
                guard
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(common.inside.swap(1, SeqCst), 0, "two at once");
        guard.0 += 1;
        if guard.0 % 64 == 0 {
            kernel::yield_now();
        }
        guard.1 += 1;
        assert_eq!(guard.0, guard.1);
        common.inside.store(0, SeqCst);
        drop(guard);
        common.ready.fetch_add(1, SeqCst);
    }
}

type Role = fn(&'static Common);

const ROLES: [(&str, Role); 11] = [
    ("hold", |common| hold(common)),
    ("hold green", |common| mxn().run(|| hold(common))),
    ("hold bound", |common| {
        mxn().spawn_with(thread::Builder::new().bound(true), || hold(common)).unwrap().join().unwrap()
    }),
    ("hold 1:1", |common| OneToOne::new().unwrap().run(|| hold(common))),
    ("exit", |common| {
        std::mem::forget(break_it(common));
        std::process::exit(0);
    }),
    ("panic", |common| {
        let panics = kernel::spawn(|| {
            let _guard = break_it(common);
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
    }),
    ("wait", |common| {
        common.ready.fetch_add(1, SeqCst);
        drop(common.pair.lock());
        unreachable!("it is killed before");
    }),
    ("lost", |common| {
        assert_eq!(common.pair.lock().unwrap_err(), RobustError::NotRecoverable);
        assert_eq!(common.pair.try_lock().unwrap_err(), RobustError::NotRecoverable);
    }),
    ("count", |common| count_for_ever(common)),
    ("count green", |common| {
        let rt = mxn();
        let threads: Vec<_> = (0..4).map(|_| rt.spawn(|| count_for_ever(common))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }),
    ("notify", |common| {
        common.ready.fetch_add(1, SeqCst);
        let mut guard = lock(common);
        *guard = (7, 7);
        common.changed.notify_all();
        drop(guard);
    }),
];

/// Not a test: what the tests run in processes of their own.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let Some((role, mapping)) = Mapping::of_parent() else { return };
    let (_, play) = ROLES.iter().find(|(name, _)| *name == role).expect("a role");
    play(mapping.common());
}

/// Locks in a way that waits, from a thread of each kind, one for each kind of owner.
#[test]
fn a_killed_process_is_found_by_waiters() {
    let _watchdog = Watchdog::start("a killed process is found by waiters");
    let (green, kernel_threads) = (mxn(), OneToOne::new().unwrap());
    for (n, role) in ["hold", "hold green", "hold bound", "hold 1:1"].into_iter().enumerate() {
        let mapping = Mapping::new(&format!("waiters-{n}"));
        let mut holder = mapping.play(role);
        mapping.wait_ready(1, &mut holder);
        let common = mapping.common();
        assert!(common.pair.try_lock().unwrap().is_none(), "it lives");
        assert!(common.pair.try_lock_for(3 * SHORT).unwrap().is_none(), "it lives");
        let wait = move || {
            let start = Instant::now();
            let Acquired::ProcessDied(guard) = common.pair.lock().unwrap() else { panic!("no news") };
            mend(guard);
            start.elapsed()
        };
        let (tell, told) = std::sync::mpsc::channel();
        let (wait, seen) = seen(move || tell.send(wait()).unwrap());
        match n {
            0 => drop(kernel::spawn(wait)),
            1 => drop(green.spawn(wait)),
            2 => drop(green.spawn_with(thread::Builder::new().bound(true), wait).unwrap()),
            _ => drop(kernel_threads.spawn(wait)),
        }
        seen.until_asleep();
        holder.kill();
        // A zombie still: its parent has not waited for it.
        let waited = told.recv().unwrap();
        assert!(waited < SOON, "{waited:?}");
        assert_eq!(*lock(common), (1, 1));
    }
}

#[test]
fn a_killed_process_is_found_at_once() {
    let _watchdog = Watchdog::start("a killed process is found at once");
    for (n, reap) in [true, false].into_iter().enumerate() {
        let mapping = Mapping::new(&format!("once-{n}"));
        let common = mapping.common();
        let mut holder = mapping.play("hold");
        mapping.wait_ready(1, &mut holder);
        holder.kill();
        if reap {
            holder.wait();
        }
        let start = Instant::now();
        let acquired = loop {
            // A zombie is one only when it has died.
            if let Some(acquired) = common.pair.try_lock().unwrap() {
                break acquired;
            }
            assert!(!reap && start.elapsed() < SOON);
        };
        assert_eq!(acquired.condition(), Condition::ProcessDied);
        let Acquired::ProcessDied(guard) = acquired else { unreachable!() };
        mend(guard);
        assert_eq!(common.pair.try_lock().unwrap().unwrap().condition(), Condition::Consistent);
    }
}

#[test]
fn other_ends_are_news_too() {
    let _watchdog = Watchdog::start("other ends are news too");
    let mapping = Mapping::new("ends");
    let common = mapping.common();
    assert!(mapping.play("exit").wait());
    let Acquired::ProcessDied(guard) = common.pair.lock().unwrap() else { panic!("no news") };
    mend(guard);
    assert!(mapping.play("panic").wait());
    let Acquired::OwnerPanicked(guard) = common.pair.lock().unwrap() else { panic!("no news") };
    mend(guard);
    assert_eq!(*lock(common), (2, 2));
    // It is not mended.
    assert!(mapping.play("exit").wait());
    assert_eq!(common.pair.lock().unwrap().condition(), Condition::ProcessDied);
    assert!(common.pair.is_not_recoverable());
    assert!(mapping.play("lost").wait());
    assert_eq!(common.pair.lock().unwrap_err(), RobustError::NotRecoverable);
}

/// One that waits is killed; the lock is none the worse.
#[test]
fn a_waiter_may_be_killed() {
    let _watchdog = Watchdog::start("a waiter may be killed");
    let mapping = Mapping::new("waiter");
    let common = mapping.common();
    for round in 1..=4 {
        let guard = lock(common);
        let mut waiter = mapping.play("wait");
        mapping.wait_ready(round, &mut waiter);
        waiter.until_asleep();
        waiter.kill();
        waiter.wait();
        drop(guard);
        assert_eq!(common.pair.try_lock().unwrap().unwrap().condition(), Condition::Consistent);
    }
}

/// Threads of this process that end with the lock held, seen by its others.
#[test]
fn threads_that_end_are_news() {
    let _watchdog = Watchdog::start("threads that end are news");
    let mapping = Mapping::new("threads");
    let common = mapping.common();
    let (green, kernel_threads) = (mxn(), OneToOne::new().unwrap());
    let ends = || std::mem::forget(break_it(common));
    for kind in 0..4 {
        match kind {
            0 => green.spawn(ends).join().unwrap(),
            1 => green.spawn_with(thread::Builder::new().bound(true), ends).unwrap().join().unwrap(),
            2 => kernel_threads.spawn(ends).join().unwrap(),
            _ => kernel::spawn(ends).join().unwrap(),
        }
        let acquired = match kind % 2 {
            0 => common.pair.lock().unwrap(),
            _ => common.pair.try_lock().unwrap().expect("its owner has ended"),
        };
        let Acquired::OwnerDied(orphan) = acquired else { panic!("no news") };
        // SAFETY: the guard was forgotten.
        mend(unsafe { orphan.adopt() });
    }
    assert_eq!(*lock(common), (4, 4));
    assert_eq!(lock(common).0, 4);
}

#[test]
fn the_owner_is_refused_and_interrupts_are_noticed() {
    let _watchdog = Watchdog::start("the owner is refused and interrupts are noticed");
    let mapping = Mapping::new("refused");
    let common = mapping.common();
    let rt = mxn();
    let guard = lock(common);
    assert_eq!(common.pair.lock().unwrap_err(), RobustError::Deadlock);
    assert_eq!(common.pair.try_lock().unwrap_err(), RobustError::Deadlock);
    for bound in [false, true] {
        let (waits, seen) = seen(|| common.pair.lock_with(Wait::forever().interruptible()).unwrap_err());
        let waiter = rt.spawn_with(thread::Builder::new().bound(bound), waits).unwrap();
        seen.until_asleep();
        waiter.thread().interrupt();
        assert_eq!(waiter.join().unwrap(), RobustError::Interrupted);
    }
    drop(guard);
    let wait = Wait::forever().interruptible();
    let (waits, seen) = seen(move || common.changed.wait_with(lock(common), wait).unwrap().1);
    let waiter = rt.spawn(waits);
    seen.until_asleep();
    waiter.thread().interrupt();
    assert_eq!(waiter.join().unwrap(), Err(WaitError::Interrupted));
    let wait = Wait::timeout(SHORT).interruptible();
    let (acquired, waited) = common.changed.wait_with(lock(common), wait).unwrap();
    assert_eq!(waited, Err(WaitError::TimedOut));
    let wait = Wait::until(Instant::now() + SHORT).interruptible();
    let (_, waited) = common.changed.wait_with(acquired.unwrap(), wait).unwrap();
    assert_eq!(waited, Err(WaitError::TimedOut));
}

/// Green threads wait in a queue of their process, and one of them for all in the kernel.
#[test]
fn many_green_threads_at_one_lock_take_one_lwp() {
    let _watchdog = Watchdog::start("many green threads at one lock take one lwp");
    const THREADS: u64 = 200;
    let mapping = Mapping::new("many");
    let common = mapping.common();
    let rt = mxn();
    let mut holder = mapping.play("hold");
    mapping.wait_ready(1, &mut holder);
    let waiters: Vec<_> = (0..THREADS)
        .map(|n| {
            rt.spawn(move || {
                // The time of some is over before, so that the one in the kernel changes.
                let acquired = if n % 4 == 0 {
                    let Some(acquired) = common.pair.try_lock_for(SHORT).unwrap() else { return 0 };
                    acquired
                } else {
                    common.pair.lock().unwrap()
                };
                match acquired {
                    Acquired::ProcessDied(guard) => {
                        mend(guard);
                        1
                    }
                    Acquired::Consistent(mut guard) => {
                        *guard = (guard.0 + 1, guard.1 + 1);
                        1
                    }
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    // Those without a time limit.
    let waits =
        |it: &ThreadInfo| matches!(it.state(), ThreadState::Waiting { .. } | ThreadState::InKernel { .. });
    while (rt.threads().iter().filter(|it| waits(it)).count() as u64) < THREADS * 3 / 4 {
        kernel::sleep(SHORT);
    }
    assert!(blocked(&rt) < 10);
    holder.kill();
    let locked: u64 = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
    assert!(locked >= THREADS * 3 / 4);
    let pair = *lock(common);
    assert!(pair.0 == pair.1 && pair.0 == locked, "{pair:?}, {locked}");
}

/// A notification from another process wakes one of many green threads, one for all of them, all.
#[test]
fn notifications_reach_many_green_threads() {
    let _watchdog = Watchdog::start("notifications reach many green threads");
    const THREADS: u32 = 50;
    let mapping = Mapping::new("many-notified");
    let common = mapping.common();
    let rt = mxn();
    let waiters: Vec<_> = (0..THREADS)
        .map(|_| {
            rt.spawn(move || {
                let guard = lock(common);
                common.inside.fetch_add(1, SeqCst);
                drop(common.changed.wait_while(guard, |pair| pair.0 != 7).unwrap().unwrap());
            })
        })
        .collect();
    while common.inside.load(SeqCst) < THREADS {
        kernel::sleep(SHORT);
    }
    // One at a time: each finds that its condition does not hold.
    for _ in 0..10 {
        common.changed.notify_one();
    }
    kernel::sleep(SHORT);
    assert!(blocked(&rt) < 10);
    assert!(mapping.play("notify").wait());
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}

#[test]
fn a_condition_reaches_other_processes() {
    let _watchdog = Watchdog::start("a condition reaches other processes");
    let mapping = Mapping::new("condition");
    let common = mapping.common();
    let mut notifier = mapping.play("notify");
    let guard = common.changed.wait_while(lock(common), |pair| pair.0 != 7).unwrap().unwrap();
    assert_eq!(*guard, (7, 7));
    drop(guard);
    assert!(notifier.wait());
    // The owner of the mutex is killed: a thread that waits for the condition, with a deadline, hears of it.
    *lock(common) = (0, 0);
    for round in 1.. {
        let (has_it, told) = std::sync::mpsc::channel();
        let waiter = kernel::spawn(move || {
            let guard = lock(common);
            has_it.send(()).unwrap();
            common.changed.wait_for(guard, 20 * SHORT * round).map(|(acquired, _)| acquired.condition())
        });
        // It is killed while this one waits, and not before this one has come to the lock.
        told.recv().unwrap();
        let mut holder = mapping.play("hold");
        mapping.wait_ready(1 + round, &mut holder);
        holder.kill();
        let found = waiter.join().unwrap().unwrap();
        if found == Condition::ProcessDied {
            break;
        }
        // On a slow machine, its time was over before the other process had the lock.
        assert_eq!(found, Condition::Consistent);
        let Acquired::ProcessDied(guard) = common.pair.lock().unwrap() else { panic!("no news") };
        mend(guard);
    }
}

/// In a child of a fork, the guard of the parent's thread is a copy, and worth nothing.
#[test]
fn a_fork_inherits_no_lock() {
    let _watchdog = Watchdog::start("a fork inherits no lock");
    let mapping = Mapping::new("fork");
    let common = mapping.common();
    let guard = lock(common);
    // SAFETY: the child calls nothing but locks and `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        drop(guard);
        let kept = matches!(common.pair.try_lock(), Ok(None));
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!kept)) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(common.pair.is_owned_by_current_thread());
    drop(guard);
    // What the child locks is its own, and it ends with it.
    // SAFETY: the child calls nothing but locks and `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        std::mem::forget(break_it(common));
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let Acquired::ProcessDied(guard) = common.pair.lock().unwrap() else { panic!("no news") };
    mend(guard);
}

/// Processes count, and are killed at any moment; others take their place. Nothing is lost but what the
/// killed had in hand.
#[test]
fn a_storm_of_kills_loses_nothing() {
    let _watchdog = Watchdog::start("a storm of kills loses nothing");
    let mapping = Mapping::new("storm");
    let common = mapping.common();
    let mut actors: Vec<_> = ["count", "count green", "count"].map(|role| mapping.play(role)).into();
    for round in 0.. {
        if round >= 12 && common.inherited.load(SeqCst) >= 3 {
            break;
        }
        let before = common.ready.load(SeqCst);
        let start = Instant::now();
        while common.ready.load(SeqCst).wrapping_sub(before) < 200 {
            kernel::sleep(Duration::from_millis(1));
            assert!(start.elapsed() < LONG, "no process counts");
        }
        let place = round % actors.len();
        actors[place].kill();
        let role = if round % 2 == 0 { "count" } else { "count green" };
        actors[place] = mapping.play(role);
    }
    for actor in &mut actors {
        actor.kill();
        actor.wait();
    }
    let mut guard = match common.pair.lock().unwrap() {
        Acquired::ProcessDied(guard) | Acquired::Consistent(guard) => guard,
        other => panic!("{other:?}"),
    };
    assert!(guard.0 - guard.1 <= 1, "{:?}", *guard);
    let _ = guard.mark_consistent();
}
