//! Sleeps in the kernel that no thread announces, in recordings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::thread::{self, ThreadId};
use selvedge::trace::{EventKind, Level, Recording, State, Timeline};
use selvedge::{Mxn, Runtime};

use super::traced;
use crate::unseen;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until what was recorded is as `is` says.
#[track_caller]
fn wait_until(what: &str, is: impl Fn(&Recording) -> bool) {
    let start = Instant::now();
    loop {
        let recording = Recording::take();
        if is(&recording) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: {:?}", recording.events());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns how often a thread was found asleep, and how often it was found running.
fn found(recording: &Recording, id: ThreadId) -> (usize, usize) {
    let kinds = || recording.events().iter().filter(|it| it.thread == Some(id)).map(|it| it.kind);
    let asleep = kinds().filter(|kind| matches!(kind, EventKind::FoundAsleep { .. })).count();
    (asleep, kinds().filter(|kind| matches!(kind, EventKind::FoundRunning { .. })).count())
}

/// Returns the states of a thread, one after another.
fn states(recording: &Recording, id: ThreadId) -> Vec<State> {
    let timeline = Timeline::of(recording);
    let line = timeline.threads().iter().find(|line| line.id == id);
    line.map_or(vec![], |line| line.spans.iter().map(|span| span.state).collect())
}

/// A thread sleeps in the kernel, computes, and sleeps there again. The other threads of its runtime wait for
/// its slot, or there are none.
#[track_caller]
fn a_sleep_is_found(others: usize, sleeps: Duration) {
    // Without slices, nothing but the monitor's look ends the first sleep.
    let rt = Mxn::builder().concurrency(1).time_slice(None).build().unwrap();
    let (pipe, computes) = (std::io::pipe().unwrap(), Arc::new(AtomicBool::new(true)));
    let (reader, writer) = pipe;
    let goes_on = Arc::clone(&computes);
    let reads = rt.spawn(move || {
        unseen::read(&reader);
        // If the test fails, it drops its part of this, and the thread ends.
        while goes_on.load(Ordering::Relaxed) && Arc::strong_count(&goes_on) > 1 {
            std::hint::spin_loop();
        }
        unseen::read(&reader);
    });
    let id = reads.thread().id();
    let waits = (0..others).map(|_| rt.spawn(thread::yield_now));
    let waits: Vec<_> = waits.collect();
    wait_until("it is found asleep", |recording| found(recording, id).0 > 0);
    // The monitor itself sleeps, once nothing has run for a second.
    std::thread::sleep(sleeps);
    let byte = || std::io::Write::write_all(&mut &writer, &[0]).unwrap();
    byte();
    wait_until("it is found running", |recording| found(recording, id).1 > 0);
    // The same thread on the same LWP: that LWP has not dispatched meanwhile, so it must be followed on.
    computes.store(false, Ordering::Relaxed);
    wait_until("it is found asleep again", |recording| found(recording, id).0 > 1);
    byte();
    reads.join().unwrap();
    waits.into_iter().for_each(|thread| thread.join().unwrap());
    let states = states(&Recording::take(), id);
    let is_in_order = states
        .windows(4)
        .any(|four| four == [State::Running, State::InKernel, State::Running, State::InKernel]);
    assert!(is_in_order, "{states:?}");
}

/// The monitor asks the kernel, because other threads wait for the slot.
#[test]
fn a_sleep_before_which_others_wait_is_found() {
    traced("a_sleep_before_which_others_wait_is_found", Level::Events, || {
        a_sleep_is_found(3, Duration::ZERO);
    });
}

/// No other thread waits, and the monitor sees all LWPs at rest for longer than it stays awake for that.
#[test]
fn a_long_sleep_is_found_and_its_end_too() {
    traced("a_long_sleep_is_found_and_its_end_too", Level::Events, || {
        a_sleep_is_found(0, Duration::from_millis(1_300));
    });
}

/// What a thread announces is not found besides.
#[test]
fn a_sleep_that_is_announced_is_one_span() {
    traced("a_sleep_that_is_announced_is_one_span", Level::Events, || {
        let rt = Mxn::builder().concurrency(1).build().unwrap();
        let id = rt.run(|| {
            thread::blocking(|| unseen::sleep(Duration::from_millis(300)));
            thread::current().id()
        });
        let states = states(&Recording::take(), id);
        let in_kernel = states.iter().filter(|&&state| state == State::InKernel).count();
        assert_eq!(in_kernel, 1, "{states:?}");
    });
}
