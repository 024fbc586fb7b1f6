//! A thread's own slice, and sections that it does not lose it in: beside one that computes, the other
//! has its turn, or has not.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::mxn::Mxn;
use selvedge::{Runtime, thread};

use crate::ladder::{MIGRATING, best_of, builder, on};

/// The other had its turn by then, or has none.
const SOME_SLICES: Duration = Duration::from_millis(200);
/// Where it is to have a turn, it may wait for the machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Computes until that is so, for so long at most; whether it is.
fn compute_until(seen: &AtomicBool, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while !seen.load(Ordering::Relaxed) {
        if Instant::now() >= end {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

/// A thread by `builder` computes on `rt`, with another behind it, for so long at most; whether that had
/// a turn meanwhile.
fn gives_way(rt: &Mxn, builder: thread::Builder, patience: Duration) -> bool {
    rt.run(|| {
        let computes = builder.spawn(move || {
            let seen = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&seen);
            let other = thread::spawn(move || theirs.store(true, Ordering::Relaxed));
            let gave_way = compute_until(&seen, patience);
            other.join().unwrap();
            gave_way
        });
        computes.expect("a thread").join().unwrap()
    })
}

#[test]
fn a_thread_may_have_a_slice_of_its_own() {
    const SLICE: Option<Duration> = Some(Duration::from_millis(1));
    on(MIGRATING, "slices of threads", |rung| {
        let inherits = thread::Builder::new;
        let cases = [
            ("the runtime's", SLICE, inherits(), true),
            ("its own", None, inherits().time_slice(SLICE), true),
            ("the runtime has none", None, inherits(), false),
            ("it wants none", SLICE, inherits().time_slice(None), false),
        ];
        for (name, slice, thread, gives) in cases {
            let rt = builder(rung).concurrency(1).time_slice(slice).build().unwrap();
            let patience = if gives { PATIENCE } else { SOME_SLICES };
            assert_eq!(gives_way(&rt, thread, patience), gives, "{rung:?}: {name}");
        }
    });
}

#[test]
fn a_slice_of_a_thread_is_not_too_short() {
    on(MIGRATING, "short slices of threads", |rung| {
        let rt = builder(rung).concurrency(1).build().unwrap();
        let spawned =
            rt.run(|| thread::Builder::new().time_slice(Some(Duration::from_micros(49))).spawn(|| ()));
        assert_eq!(spawned.expect_err("too short").kind(), ErrorKind::InvalidInput);
    });
}

/// No other LWP could take the slot: there is one.
#[test]
fn a_section_keeps_its_slice_and_gives_way_at_its_end() {
    on(MIGRATING, "a section without preemption", |rung| {
        let rt = builder(rung)
            .concurrency(1)
            .max_lwps(1)
            .time_slice(Some(Duration::from_millis(1)))
            .build()
            .unwrap();
        let section = || {
            let seen = Arc::new(AtomicBool::new(false));
            let theirs = Arc::clone(&seen);
            let other = thread::spawn(move || theirs.store(true, Ordering::Relaxed));
            let inside = thread::no_preempt(|| compute_until(&seen, SOME_SLICES));
            let at_the_end = seen.load(Ordering::Relaxed);
            other.join().unwrap();
            assert!(!inside, "{rung:?}: others ran inside of a section");
            at_the_end
        };
        // The monitor may wait for a CPU for as long as that.
        best_of(&format!("{rung:?}: gave way at the end"), |&gave_way| gave_way, || rt.run(section));
        assert!(gives_way(&rt, thread::Builder::new(), PATIENCE), "{rung:?}: without a section");
    });
}
