//! Semaphores, barriers, read-write locks and things done once in memory that processes share: between both
//! runtimes, and when a process is killed.
//!
//! The other processes are this test program again, which plays a role on the same file, mapped.

#[path = "shared/processes.rs"]
mod processes;
#[path = "support/waiting.rs"]
mod waiting;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread as kernel;
use std::time::{Duration, Instant};

use processes::{Mapping, Seen, seen};

use selvedge::sync::process_shared::{Barrier, Once, RwLock, Semaphore};
use selvedge::sync::{Condition, OncePhase, RobustError};
use selvedge::{LwpState, Mxn, OneToOne, Runtime, Wait, WaitError, thread};
use waiting::until_waits;
use watchdog::Watchdog;

const SHORT: Duration = Duration::from_millis(10);
/// Longer than anything that is waited for.
const LONG: Duration = Duration::from_secs(100);
/// Within this a death is noticed, on a machine that has other things to do.
const SOON: Duration = Duration::from_secs(10);

/// The threads of each process that take part, and how often.
const THREADS: u32 = 8;
const ROUNDS: u32 = 100;

/// What all processes of a test share.
#[repr(C)]
struct Common {
    permits: Semaphore,
    barrier: Barrier,
    once: Once,
    /// Two numbers that are the same, but while a thread changes them.
    pair: RwLock<(u64, u64)>,
    /// How many processes have done what they were to.
    ready: AtomicU32,
    /// Threads in a section, told otherwise than by a lock.
    inside: AtomicU32,
    arrived: AtomicU32,
    leaders: AtomicU32,
}

fn mxn() -> Mxn {
    Mxn::builder().concurrency(2).build().expect("the runtime starts")
}

/// Never returns: says that it is there, and sleeps until it is killed.
fn stay(common: &Common) -> ! {
    common.ready.fetch_add(1, SeqCst);
    loop {
        kernel::sleep(LONG);
    }
}

/// Runs `play` in several threads of either model.
fn all(rt: &impl Runtime, common: &'static Common, play: fn(&'static Common)) {
    let threads: Vec<_> = (0..THREADS).map(|_| rt.spawn(move || play(common))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// At most three are inside.
fn use_permits(common: &Common) {
    for n in 0..ROUNDS {
        let _permit = common.permits.acquire_many(if n % 8 == 0 { 2 } else { 1 });
        assert!(common.inside.fetch_add(1, SeqCst) < 3);
        if n % 4 == 0 {
            thread::yield_now();
        }
        common.inside.fetch_sub(1, SeqCst);
    }
}

fn pass(common: &Common) {
    for round in 0..ROUNDS {
        common.arrived.fetch_add(1, SeqCst);
        common.leaders.fetch_add(u32::from(common.barrier.wait().is_leader()), SeqCst);
        assert!(common.arrived.load(SeqCst) >= (round + 1) * 2 * THREADS);
        assert!(common.arrived.load(SeqCst) < (round + 2) * 2 * THREADS);
        // The next round begins when all have looked.
        common.barrier.wait();
    }
}

fn read_and_write(common: &Common) {
    for n in 0..ROUNDS {
        if n % 4 == 0 {
            let mut pair = common.pair.write().unwrap();
            pair.0 += 1;
            thread::yield_now();
            pair.1 += 1;
        } else {
            let pair = common.pair.read().unwrap();
            assert_eq!(pair.0, pair.1);
        }
    }
}

type Role = fn(&'static Common);

const ROLES: [(&str, Role); 14] = [
    ("permits", |common| all(&OneToOne::new().unwrap(), common, use_permits)),
    ("permits green", |common| all(&mxn(), common, use_permits)),
    ("pass", |common| all(&OneToOne::new().unwrap(), common, pass)),
    ("pass green", |common| all(&mxn(), common, pass)),
    ("pair", |common| all(&OneToOne::new().unwrap(), common, read_and_write)),
    ("pair green", |common| all(&mxn(), common, read_and_write)),
    ("acquire", |common| {
        common.ready.fetch_add(1, SeqCst);
        common.permits.acquire().forget();
        unreachable!("it is killed before");
    }),
    ("add", |common| common.permits.add_permits(THREADS as usize)),
    ("once", |common| common.once.call_once(|| stay(common))),
    ("once green", |common| mxn().run(|| common.once.call_once(|| stay(common)))),
    ("read", |common| {
        let _pair = common.pair.read().unwrap();
        stay(common);
    }),
    ("write", |common| {
        let mut pair = common.pair.write().unwrap();
        pair.0 += 1;
        stay(common);
    }),
    ("write green", |common| {
        mxn().run(|| {
            let mut pair = common.pair.write().unwrap();
            pair.0 += 1;
            stay(common);
        });
    }),
    ("write with a reader", |common| {
        common.ready.fetch_add(1, SeqCst);
        let _ = common.pair.write();
        unreachable!("it is killed before");
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

/// Plays `roles` in other processes, two at a time, with `begin` before.
fn pairs(name: &str, roles: [&str; 2], begin: fn(&Common), end: fn(&Common)) {
    let kernel_role = roles[0];
    for (n, roles) in [[kernel_role; 2], roles, [roles[1]; 2]].into_iter().enumerate() {
        let mapping = Mapping::new(&format!("{name}-{n}"));
        begin(mapping.common());
        let mut actors = roles.map(|role| mapping.play(role));
        assert!(actors.iter_mut().all(processes::Actor::wait), "{roles:?}");
        end(mapping.common());
    }
}

/// Puts a barrier into zeroed memory.
fn set(barrier: &Barrier, threads: u32) {
    // SAFETY: a barrier is plain words, and no thread uses this one.
    unsafe { std::ptr::from_ref(barrier).cast_mut().write(Barrier::new(threads as usize)) };
}

#[test]
fn permits_are_shared() {
    let _watchdog = Watchdog::start("permits are shared");
    let end = |common: &Common| assert_eq!(common.permits.available_permits(), 3);
    pairs("permits", ["permits", "permits green"], |common| common.permits.add_permits(3), end);
}

#[test]
fn a_barrier_is_shared() {
    let _watchdog = Watchdog::start("a barrier is shared");
    let end = |common: &Common| assert_eq!(common.leaders.load(SeqCst), ROUNDS);
    pairs("pass", ["pass", "pass green"], |common| set(&common.barrier, 2 * THREADS), end);
}

#[test]
fn a_read_write_lock_is_shared() {
    let _watchdog = Watchdog::start("a read-write lock is shared");
    let end = |common: &Common| {
        let writes = u64::from(2 * THREADS * ROUNDS.div_ceil(4));
        assert_eq!(*common.pair.read().unwrap(), (writes, writes));
        assert!(!common.pair.is_locked());
    };
    pairs("pair", ["pair", "pair green"], |_| (), end);
}

#[test]
fn permits_reach_many_green_threads() {
    let _watchdog = Watchdog::start("permits reach many green threads");
    let mapping = Mapping::new("many-permits");
    let common = mapping.common();
    let rt = mxn();
    let waiters: Vec<_> = (0..8 * THREADS).map(|_| rt.spawn(|| common.permits.acquire().forget())).collect();
    for _ in 0..8 {
        assert!(mapping.play("add").wait());
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert_eq!(common.permits.available_permits(), 0);
}

#[test]
fn waits_end_in_time() {
    let _watchdog = Watchdog::start("waits end in time");
    let mapping = Mapping::new("time");
    let common = mapping.common();
    set(&common.barrier, 2);
    let (green, kernel_threads) = (mxn(), OneToOne::new().unwrap());
    let ends = || {
        let begin = Instant::now();
        assert!(common.permits.try_acquire().is_none());
        assert!(common.permits.try_acquire_for(SHORT).is_none());
        assert!(common.barrier.wait_for(SHORT).is_none());
        assert!(begin.elapsed() >= 2 * SHORT);
        let reads = common.pair.read().unwrap();
        assert!(common.pair.try_write().unwrap().is_none());
        assert!(common.pair.try_write_for(SHORT).unwrap().is_none());
        drop(reads);
        let writes = common.pair.write().unwrap();
        assert_eq!(common.pair.read().unwrap_err(), RobustError::Deadlock);
        assert_eq!(common.pair.try_write().unwrap_err(), RobustError::Deadlock);
        kernel::scope(|s| {
            s.spawn(|| {
                assert!(common.pair.try_read().unwrap().is_none());
                assert!(common.pair.try_read_for(SHORT).unwrap().is_none());
            });
        });
        drop(writes);
        assert!(common.pair.try_read().unwrap().is_some());
    };
    green.spawn(ends).join().unwrap();
    kernel_threads.spawn(ends).join().unwrap();
    ends();
    assert_eq!(common.barrier.wait_with(Wait::timeout(SHORT)).unwrap_err(), WaitError::TimedOut);
}

#[test]
fn interrupts_are_noticed() {
    let _watchdog = Watchdog::start("interrupts are noticed");
    let mapping = Mapping::new("interrupts");
    let common = mapping.common();
    set(&common.barrier, 2);
    let rt = mxn();
    let wait = Wait::forever().interruptible();
    let _reads = common.pair.read().unwrap();
    for bound in [false, true] {
        let waits: [Box<dyn FnOnce() -> bool + Send>; 3] = [
            Box::new(move || common.permits.acquire_with(wait).err() == Some(WaitError::Interrupted)),
            Box::new(move || common.barrier.wait_with(wait).err() == Some(WaitError::Interrupted)),
            Box::new(move || common.pair.write_with(wait).err() == Some(RobustError::Interrupted)),
        ];
        for wait in waits {
            let (wait, seen) = seen(wait);
            let waiter = rt.spawn_with(thread::Builder::new().bound(bound), wait).unwrap();
            seen.until_asleep();
            waiter.thread().interrupt();
            assert!(waiter.join().unwrap());
        }
    }
}

/// An interrupt ends the sleep of a thread in the queue. Before the thread runs, the last of the round comes.
#[test]
fn an_interrupt_is_kept_if_the_round_ends_all_the_same() {
    let _watchdog = Watchdog::start("an interrupt is kept if the round ends all the same");
    static BARRIER: Barrier = Barrier::new(3);
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().expect("the runtime starts");
    let waits = || {
        let passed = BARRIER.wait_with(Wait::forever().interruptible()).is_ok();
        (passed, thread::take_interrupt())
    };
    let in_kernel = rt.spawn(waits);
    while rt.stats().count(LwpState::Blocking) + rt.stats().count(LwpState::InKernel) == 0 {
        kernel::yield_now();
    }
    let queued = rt.spawn(waits);
    until_waits(&rt, &queued);
    let interrupted = queued.thread().clone();
    rt.run(move || {
        interrupted.interrupt();
        assert!(BARRIER.wait().is_leader());
    });
    assert_eq!((in_kernel.join().unwrap(), queued.join().unwrap()), ((true, false), (true, true)));
}

/// One that waits is killed; the semaphore is none the worse.
#[test]
fn a_waiter_may_be_killed() {
    let _watchdog = Watchdog::start("a waiter may be killed");
    let mapping = Mapping::new("killed-waiter");
    let common = mapping.common();
    for round in 1..=4 {
        let mut waiter = mapping.play("acquire");
        mapping.wait_ready(round, &mut waiter);
        waiter.until_asleep();
        waiter.kill();
        waiter.wait();
        common.permits.add_permits(1);
        common.permits.acquire().forget();
    }
}

#[test]
fn a_process_killed_in_a_closure_poisons_it() {
    let _watchdog = Watchdog::start("a process killed in a closure poisons it");
    for (n, role) in ["once", "once green"].into_iter().enumerate() {
        let mapping = Mapping::new(&format!("once-{n}"));
        let common = mapping.common();
        let mut runner = mapping.play(role);
        mapping.wait_ready(1, &mut runner);
        assert_eq!(common.once.state(), OncePhase::InProgress);
        assert!(!common.once.call_once_for(|| unreachable!(), SHORT));
        let (waits, seen) = seen(|| common.once.call_once(|| unreachable!()));
        let waiter = kernel::spawn(waits);
        seen.until_asleep();
        runner.kill();
        let begin = Instant::now();
        assert!(waiter.join().is_err(), "it is poisoned");
        assert!(begin.elapsed() < SOON);
        assert_eq!(common.once.state(), OncePhase::Poisoned);
        common.once.call_once_force(|state| assert!(state.is_poisoned()));
        common.once.call_once(|| unreachable!());
        assert!(common.once.is_completed());
    }
}

#[test]
fn a_killed_writer_is_found() {
    let _watchdog = Watchdog::start("a killed writer is found");
    let (green, kernel_threads) = (mxn(), OneToOne::new().unwrap());
    for (n, role) in ["write", "write green"].into_iter().enumerate() {
        let mapping = Mapping::new(&format!("writer-{n}"));
        let common = mapping.common();
        let mut writer = mapping.play(role);
        mapping.wait_ready(1, &mut writer);
        assert!(common.pair.try_read().unwrap().is_none() && common.pair.try_write().unwrap().is_none());
        let reads = || seen(|| common.pair.read().unwrap_err());
        let writes = || seen(|| common.pair.write().unwrap_err());
        let ((read, a), (write, b)) = (reads(), writes());
        let ((read_too, c), (write_too, d)) = (reads(), writes());
        let waiters = [
            green.spawn(read),
            green.spawn(write),
            kernel_threads.spawn(read_too),
            kernel_threads.spawn(write_too),
        ];
        [a, b, c, d].iter().for_each(Seen::until_asleep);
        let begin = Instant::now();
        writer.kill();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), RobustError::NotConsistent);
        }
        assert!(begin.elapsed() < SOON);
        assert_eq!(common.pair.try_read().unwrap_err(), RobustError::NotConsistent);
        assert_eq!(common.pair.try_write().unwrap_err(), RobustError::NotConsistent);
        let mend = |pair: &mut (u64, u64), why| {
            assert_eq!((*pair, why), ((1, 0), Condition::ProcessDied));
            pair.1 = pair.0;
        };
        common.pair.mend(Wait::forever(), mend).unwrap();
        common.pair.mend(Wait::forever(), |_, _| unreachable!()).unwrap();
        assert_eq!(*common.pair.read().unwrap(), (1, 1));
        assert!(common.pair.try_write().unwrap().is_some());
    }
}

/// A writer is killed while it waits for a reader.
#[test]
fn a_writer_killed_before_its_turn_lets_readers_in() {
    let _watchdog = Watchdog::start("a writer killed before its turn lets readers in");
    let mapping = Mapping::new("early");
    let common = mapping.common();
    let reads = common.pair.read().unwrap();
    let mut writer = mapping.play("write with a reader");
    mapping.wait_ready(1, &mut writer);
    while !common.pair.is_locked_exclusive() {
        kernel::sleep(SHORT);
    }
    assert!(common.pair.try_read().unwrap().is_none(), "the writer goes first");
    writer.kill();
    writer.wait();
    assert_eq!(common.pair.read().unwrap_err(), RobustError::NotConsistent);
    drop(reads);
    common.pair.mend(Wait::forever(), |_, why| assert_eq!(why, Condition::ProcessDied)).unwrap();
    assert!(common.pair.read().is_ok());
}

/// As the docs say: not robust.
#[test]
fn a_killed_reader_keeps_its_share() {
    let _watchdog = Watchdog::start("a killed reader keeps its share");
    let mapping = Mapping::new("reader");
    let common = mapping.common();
    let mut reader = mapping.play("read");
    mapping.wait_ready(1, &mut reader);
    reader.kill();
    reader.wait();
    assert!(common.pair.try_write_for(SHORT).unwrap().is_none());
    assert!(common.pair.read().is_ok() && common.pair.is_locked());
}
