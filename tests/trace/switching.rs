//! The switch in a running process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge::sync::{Condvar, Mutex};
use selvedge::thread::{ThreadId, ThreadInfo};
use selvedge::trace::{EventKind, Level, Recording, Timeline, level, set_level};
use selvedge::{Mxn, OneToOne, Runtime, thread};

use super::{live, traced};

/// Tells the threads of a test to end.
#[derive(Default)]
struct Stop(AtomicBool);

/// Tells them when it is dropped, also by a panic: the runtime waits for them.
struct Stopping(Arc<Stop>);

impl Drop for Stopping {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}

/// Levels change all the time while threads run, wait and end. Nothing is lost, and each recording makes
/// sense.
fn levels_change<R: Runtime>(rt: &R) {
    let stop = Arc::new(Stop::default());
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let threads: Vec<_> = (0..5)
        .map(|_| {
            let (stop, shared) = (Arc::clone(&stop), Arc::clone(&shared));
            rt.spawn(move || {
                while !stop.0.load(Relaxed) {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || live(&shared, 3)).join().unwrap();
                }
            })
        })
        .collect();
    let stopping = Stopping(stop);
    let start = Instant::now();
    let mut random = 1_u64;
    while start.elapsed() < Duration::from_secs(2) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let to = [Level::Off, Level::Times, Level::Events][(random >> 40) as usize % 3];
        set_level(to);
        assert_eq!(level(), to);
        std::thread::sleep(Duration::from_micros(random >> 54));
        if random >> 62 == 0 {
            for line in Timeline::of(&Recording::take()).threads() {
                assert!(line.spans.windows(2).all(|pair| pair[0].to == pair[1].from));
            }
            for info in rt.threads() {
                if let Some(times) = info.times() {
                    let sum: Duration = times.states.iter().sum();
                    assert!(sum.abs_diff(times.life) < Duration::from_micros(1), "{times:?}");
                }
            }
        }
    }
    drop(stopping);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn levels_change_under_green_threads() {
    traced("levels_change_under_green_threads", Level::Off, || {
        levels_change(&Mxn::builder().concurrency(2).build().unwrap());
    });
}

#[test]
fn levels_change_under_threads_that_always_migrate() {
    traced("levels_change_under_threads_that_always_migrate", Level::Off, || {
        levels_change(&Mxn::builder().concurrency(3).migrate_always(true).build().unwrap());
    });
}

#[test]
fn levels_change_under_pinned_threads() {
    traced("levels_change_under_pinned_threads", Level::Off, || {
        // SAFETY: the threads of this test have no thread-locals that could be shared.
        let builder = unsafe { Mxn::builder().concurrency(2).pinned() };
        levels_change(&builder.build().unwrap());
    });
}

#[test]
fn levels_change_under_kernel_threads() {
    traced("levels_change_under_kernel_threads", Level::Off, || levels_change(&OneToOne::new().unwrap()));
}

/// Runtimes begin and end while the trace is on, and the rings of their LWPs are used again.
#[test]
fn runtimes_come_and_go() {
    traced("runtimes_come_and_go", Level::Events, || {
        for round in 0..30 {
            let rt = Mxn::builder().concurrency(2).build().unwrap();
            rt.run(|| (0..round).for_each(|_| thread::spawn(thread::yield_now).join().unwrap()));
            drop(rt);
            if round % 10 == 9 {
                let recording = Recording::take();
                assert!(recording.runtimes().count() >= round, "{}", recording.runtimes().count());
            }
        }
    });
}

/// A name is known as long as the recording that it belongs to, although its thread has ended.
#[test]
fn names_are_those_of_the_current_recording() {
    traced("names_are_those_of_the_current_recording", Level::Events, || {
        let rt = Mxn::new().unwrap();
        let thread = rt.spawn_with(thread::Builder::new().name("of the first".into()), || ()).unwrap();
        let id = thread.thread().id();
        thread.join().unwrap();
        assert_eq!(Recording::take().name(id), Some("of the first"));
        set_level(Level::Off);
        assert_eq!(Recording::take().name(id), Some("of the first"));
        set_level(Level::Events);
        assert_eq!(Recording::take().name(id), None);
    });
}

/// A shutdown that fails leaves threads behind. The trace goes on with them, off and on again, to their ends.
fn outlives_a_shutdown<R: Runtime>(rt: R, fails: impl FnOnce(R) -> ThreadId) {
    let go = Arc::new(Stop::default());
    let theirs = Arc::clone(&go);
    let left = rt.spawn(move || {
        while !theirs.0.load(Relaxed) {
            thread::park();
        }
    });
    let id = left.thread().id();
    assert_eq!(fails(rt), id, "it is the thread that is left");
    let has = |is: fn(&EventKind) -> bool| {
        let recording = Recording::take();
        recording.events().iter().any(|event| event.thread == Some(id) && is(&event.kind))
    };
    assert!(has(|kind| matches!(kind, EventKind::Spawn { .. })));
    set_level(Level::Off);
    set_level(Level::Events);
    assert!(!has(|_| true), "nothing has happened to it in this session");
    go.0.store(true, Relaxed);
    left.thread().unpark();
    left.join().unwrap();
    assert!(has(|kind| matches!(kind, EventKind::Exit)));
}

#[test]
fn a_shutdown_that_failed_does_not_end_the_trace() {
    let short = Duration::from_millis(20);
    traced("a_shutdown_that_failed_does_not_end_the_trace", Level::Events, || {
        let left = |threads: &[ThreadInfo]| threads[0].id();
        outlives_a_shutdown(Mxn::builder().concurrency(2).build().unwrap(), |rt| {
            left(rt.shutdown(short).unwrap_err().threads())
        });
        outlives_a_shutdown(OneToOne::new().unwrap(), |rt| left(rt.shutdown(short).unwrap_err().threads()));
    });
}

/// Several runtimes are traced at once, and end in an order that is not that of their begins.
#[test]
fn runtimes_end_in_any_order() {
    traced("runtimes_end_in_any_order", Level::Events, || {
        for first in 0..3 {
            let mut runtimes: Vec<Mxn> =
                (0..3).map(|_| Mxn::builder().concurrency(1).build().unwrap()).collect();
            for round in 0..3 {
                let run = |rt: &Mxn| rt.run(|| thread::current().id());
                let ids: Vec<ThreadId> = runtimes.iter().map(run).collect();
                let ends = (first + round) % runtimes.len();
                drop(runtimes.remove(ends));
                let recording = Recording::take();
                for (number, id) in ids.into_iter().enumerate() {
                    let of_it = recording.events().iter().filter(|event| event.thread == Some(id));
                    let kinds: Vec<EventKind> = of_it.map(|event| event.kind).collect();
                    assert!(matches!(kinds[..], [EventKind::Spawn { .. }, EventKind::Dispatch { .. }, ..]));
                    // The result comes before the end. With the runtime, its threads have ended.
                    let has_ended = matches!(kinds.last(), Some(EventKind::Exit));
                    assert!(has_ended || number != ends, "{kinds:?}");
                }
            }
        }
    });
}
