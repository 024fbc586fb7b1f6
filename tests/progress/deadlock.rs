//! The deadlock that SIGWAITING was made for. There is one slot, and its holder blocks in the kernel. Only a
//! thread that waits for the slot can end that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, Runtime, thread};

use crate::calls::{KINDS, Kind, PROCESSES, Pages, Pipe, is_stds, look_up};
use crate::fault::Fault;
use crate::ladder::{CONTROL, MIGRATING, ThreadRegister, builder, on, report, sized};

/// One thread blocks; the caller runs again only on another LWP, for there is one slot; then it ends the
/// other's wait.
fn meet(block: &(dyn Fn() + Sync), release: &mut dyn FnMut()) {
    let (entered, returned) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            entered.store(true, Ordering::Relaxed);
            block();
            returned.store(true, Ordering::Relaxed);
        });
        while !entered.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        assert!(!returned.load(Ordering::Relaxed), "the call did not wait");
        release();
    });
    assert!(returned.load(Ordering::Relaxed));
}

/// Plays a kind again and again.
pub(crate) fn play(rt: &Mxn, rung: ThreadRegister, (name, scene): Kind, most: u32, time: Duration) {
    let before = rt.stats().compensated;
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < most && (start.elapsed() < time || rounds < 2) {
        scene(&meet);
        rounds += 1;
    }
    let each = start.elapsed() / rounds;
    let moved = rt.stats().compensated - before;
    report(format_args!("{rung:?}: {name}: {rounds} times, {each:?} each"));
    if is_stds(name) && rt.info().interposed {
        // It waits without its LWP, so the slot may stay.
        return;
    }
    // A thread that returns meanwhile without a slot, and waits for one, needs no help in the next round.
    assert!(2 * moved >= u64::from(rounds), "{name}: {rounds} rounds, and the slot moved {moved} times");
}

#[test]
fn a_thread_that_blocks_with_the_only_slot_is_released_by_a_waiter_for_it() {
    on(MIGRATING, "one slot", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let (most, time) = sized((10_000, Duration::from_millis(50)), (10_000, Duration::MAX));
        rt.run(|| {
            KINDS.iter().for_each(|&kind| play(&rt, rung, kind, most, time));
            PROCESSES.iter().for_each(|&kind| play(&rt, rung, kind, sized(50, 10_000), time));
        });
        // Bounded: sleepers come back, and their LWPs are used again.
        assert!(rt.info().lwps < 40, "{:?}", rt.info());
    });
}

/// No system call at all: the kernel puts the thread to sleep where it reads a page.
#[test]
fn a_waiter_for_a_page_is_released_by_a_waiter_for_the_slot() {
    if let Err(error) = Fault::new() {
        return println!("skipped: page faults that wait: userfaultfd: {error}");
    }
    on(MIGRATING, "one slot, page faults", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let (most, time) = sized((10_000, Duration::from_millis(200)), (10_000, Duration::MAX));
        rt.run(|| play(&rt, rung, PAGE_FAULT, most, time));
    });
}

const PAGE_FAULT: Kind = ("page fault", |meet| {
    let fault = Fault::new().unwrap();
    meet(&|| fault.touch(), &mut || fault.fill());
});

/// Threads cannot move, but those that have not run yet can run anywhere.
#[test]
fn a_new_thread_releases_one_that_blocks_with_the_only_slot() {
    on(&[ThreadRegister::Pinned], "one slot, new threads", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let start = Instant::now();
        let (most, time) = sized((10_000, Duration::from_millis(300)), (10_000, Duration::MAX));
        let mut rounds = 0;
        while rounds < most && start.elapsed() < time {
            let pipe = Arc::new(Pipe::new());
            let [reader, writer] = [Arc::clone(&pipe), pipe];
            let reader = rt.spawn(move || reader.read());
            rt.spawn(move || writer.write()).join().unwrap();
            reader.join().unwrap();
            rounds += 1;
        }
        report(format_args!("{rung:?}: read: {rounds} times, {:?} each", start.elapsed() / rounds));
    });
}

/// The control: without a spare, no thread runs beside one of these that blocks, until a thread from outside
/// ends that. If a call is answered for green threads, another thread runs beside one that makes it.
pub(crate) fn stand_still(rung: ThreadRegister, kinds: &[Kind]) {
    // Without slices: one kind wakes from time to time, and would be preempted then.
    let rt = builder(rung).concurrency(1).max_lwps(1).time_slice(None).build().unwrap();
    for (name, scene) in kinds {
        scene(&|block, release| {
            let [entered, returned, ran] = [const { AtomicBool::new(false) }; 3];
            std::thread::scope(|s| {
                s.spawn(|| {
                    rt.run(|| {
                        entered.store(true, Ordering::Relaxed);
                        block();
                        returned.store(true, Ordering::Relaxed);
                    });
                });
                while !entered.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                s.spawn(|| rt.run(|| ran.store(true, Ordering::Relaxed)));
                let start = Instant::now();
                let (answered, patience) = match is_stds(name) && rt.info().interposed {
                    true => (true, Duration::from_secs(20)),
                    false => (false, CONTROL),
                };
                while start.elapsed() < patience && !ran.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let (early, other) = (returned.load(Ordering::Relaxed), ran.load(Ordering::Relaxed));
                release();
                assert!(!early, "{name}: the call did not wait");
                assert_eq!(other, answered, "{name}: whether a thread ran beside one that waits");
            });
            assert!(returned.load(Ordering::Relaxed) && ran.load(Ordering::Relaxed));
        });
    }
}

#[test]
fn without_spares_it_is_a_deadlock() {
    on(MIGRATING, "one slot, no spare", |rung| {
        stand_still(rung, KINDS);
        stand_still(rung, PROCESSES);
        match Fault::new() {
            Ok(_) => stand_still(rung, &[PAGE_FAULT]),
            Err(error) => println!("skipped: page faults that wait, no spare: userfaultfd: {error}"),
        }
    });
}

/// Blocks that end by themselves, and that cannot be made to last: they pass, beside a thread that yields.
#[test]
fn names_are_looked_up_and_pages_come_back_beside_others() {
    on(MIGRATING, "short blocks", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let other = {
            let over = Arc::clone(&over);
            rt.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            })
        };
        let pushed_out = rt.run(|| {
            (0..sized(100, 10_000)).for_each(|_| {
                look_up();
                thread::yield_now();
            });
            let pages = Pages::new();
            (0..sized(100, 10_000)).all(|_| {
                thread::yield_now();
                pages.fault()
            })
        });
        if !pushed_out {
            println!("skipped: page faults that block, {rung:?}: pages of a file are not pushed out here");
        }
        over.store(true, Ordering::Relaxed);
        other.join().unwrap();
    });
}
