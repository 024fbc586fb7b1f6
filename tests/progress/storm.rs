//! Many threads block in the kernel at once, unannounced; the others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::mxn::Builder;
use selvedge::{Mxn, Runtime, thread};

use crate::calls::{Pipe, nanosleep};
use crate::ladder::{ALL, CONTROL, MIGRATING, ThreadRegister, best_of, builder, on, sized};
use crate::waiting::soon;

/// What a thread of this machine makes of a millisecond: on a busy one many.
fn ticks_until(over: &AtomicBool, sleep: fn(Duration)) -> usize {
    let mut ticks = 0;
    while !over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(1));
        ticks += 1;
    }
    ticks
}

fn readers(rt: &Mxn, pipe: &Arc<Pipe>, count: usize) -> Vec<thread::JoinHandle<()>> {
    let read = |_| {
        let pipe = Arc::clone(pipe);
        rt.spawn(move || pipe.read())
    };
    (0..count).map(read).collect()
}

/// Lets so many readers go, also if the test has failed: a runtime waits for its threads.
struct Release<'a>(&'a Pipe, usize);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        (0..self.1).for_each(|_| self.0.write());
    }
}

#[test]
fn threads_that_read_do_not_stop_one_that_ticks() {
    const READERS: usize = 64;
    on(ALL, "64 threads in read(2)", |rung| {
        let rt = builder(rung).concurrency(2).build().unwrap();
        let pipe = Arc::new(Pipe::new());
        let readers = readers(&rt, &pipe, READERS);
        soon("more LWPs", &rt, |stats| stats.lwps.len() > READERS);
        let release = Release(&pipe, READERS);
        let steps = || {
            let over = Arc::new(AtomicBool::new(false));
            // Beside it, a kernel thread that does the same.
            let kernel = {
                let over = Arc::clone(&over);
                std::thread::spawn(move || ticks_until(&over, std::thread::sleep))
            };
            let time = Instant::now() + sized(Duration::from_millis(500), Duration::from_secs(10));
            let ticks = if rung == ThreadRegister::Pinned {
                // A thread stays with its LWP, even if another comes and blocks that: each step is a thread
                // of its own.
                let mut ticks = 0;
                while Instant::now() < time {
                    std::thread::sleep(Duration::from_millis(1));
                    rt.spawn(|| ()).join().unwrap();
                    ticks += 1;
                }
                over.store(true, Ordering::Relaxed);
                ticks
            } else {
                let theirs = Arc::clone(&over);
                let ticker = rt.spawn(move || ticks_until(&theirs, thread::sleep));
                std::thread::sleep(time.saturating_duration_since(Instant::now()));
                over.store(true, Ordering::Relaxed);
                ticker.join().unwrap()
            };
            (ticks, kernel.join().unwrap())
        };
        // A busy machine keeps either from its steps; at full length it should be idle. On `Pinned`, each
        // step takes a round of the monitor, and beside so many LWPs that rests for up to 10 ms.
        let twentieths = if rung == ThreadRegister::Pinned { sized(1, 4) } else { sized(4, 18) };
        let what =
            format!("{rung:?}: steps of 1 ms beside {READERS} blocked readers, and of a kernel thread");
        best_of(&what, |&(ticks, kernel)| 20 * ticks > twentieths * kernel, steps);
        let (info, stats) = (rt.info(), rt.stats());
        drop(release);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(info.threads >= READERS, "a reader has returned from an empty pipe");
        // One of them may have the other slot still: no thread waits for it. Beside a load, some lose theirs
        // before they get so far.
        assert!(stats.compensated + stats.handed_off >= READERS as u64 - 1, "{stats}");
    });
}

/// The control: no LWP to move the slot to, and no slices, so that no thread is taken out of a system
/// call either.
#[test]
fn without_spares_a_thread_that_reads_stops_the_others() {
    on(ALL, "a thread in read(2), no spare", |rung| {
        assert!(
            !runs_beside_a_reader(builder(rung).time_slice(None), CONTROL),
            "the other thread ran without an LWP"
        );
    });
}

/// If there can be no spare, a reader makes room like a thread at the end of its slice: `read` begins again
/// when it has its turn.
#[test]
fn without_spares_a_thread_that_reads_takes_turns() {
    on(MIGRATING, "a thread in read(2), no spare, slices", |rung| {
        assert!(runs_beside_a_reader(builder(rung), Duration::from_secs(20)), "the other thread had no turn");
    });
}

/// Returns `true` if another thread runs within `patience`, while one is in `read`, on one LWP.
fn runs_beside_a_reader(builder: Builder, patience: Duration) -> bool {
    let rt = builder.concurrency(1).max_lwps(1).build().unwrap();
    let pipe = Arc::new(Pipe::new());
    let readers = readers(&rt, &pipe, 1);
    let ran = Arc::new(AtomicBool::new(false));
    let other = {
        let ran = Arc::clone(&ran);
        rt.spawn(move || ran.store(true, Ordering::Relaxed))
    };
    let start = Instant::now();
    while !ran.load(Ordering::Relaxed) && start.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    let early = ran.load(Ordering::Relaxed);
    pipe.write();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    other.join().unwrap();
    early
}

/// Starts threads that sleep in the kernel all at once; gives the time until the last has ended.
fn sleepers(rt: &Mxn, count: usize, time: Duration) -> Duration {
    let start = Instant::now();
    let sleepers: Vec<_> = (0..count).map(|_| rt.spawn(move || nanosleep(time))).collect();
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    start.elapsed()
}

#[test]
fn a_thousand_sleep_in_the_kernel_at_once() {
    on(ALL, "1,000 threads in nanosleep", |rung| {
        best_of(
            &format!("{rung:?}: 1,000 times nanosleep(1 s)"),
            |took| *took < sized(Duration::from_secs(60), Duration::from_secs(2)),
            || {
                let rt = builder(rung).build().unwrap();
                let took = sleepers(&rt, 1_000, Duration::from_secs(1));
                let stats = rt.stats();
                // On a busy machine many are back before the monitor looks.
                assert!(stats.compensated > 100, "{} slots moved", stats.compensated);
                assert_eq!(stats.bound_reached, 0, "a thousand took all of {:?} LWPs", stats.max_lwps);
                took
            },
        );
    });
}

/// The control: with two LWPs, two sleep at a time.
#[test]
fn without_spares_sleeps_add_up() {
    on(ALL, "sleeps, no spare", |rung| {
        let time = Duration::from_millis(10);
        let rt = builder(rung).concurrency(2).max_lwps(2).build().unwrap();
        let took = sleepers(&rt, 20, time);
        assert!(took >= 10 * time, "20 threads on 2 LWPs slept {time:?} each in {took:?}");
        assert_eq!(rt.stats().compensated, 0, "{}", rt.stats());
    });
}
