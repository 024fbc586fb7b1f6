//! The papers' barriers: all rounds are passed, one thread more than slots need not wait for a round, and the
//! program says so.

#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::{Mxn, OneToOne, Runtime, thread};

use rungs::on_rungs;
use support::barriers::options::{COARSE, FINE, Options, parse};
use support::barriers::workers::{Plan, compute};
use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::library::{Attributes, Std};
use support::selvedge::Private;
use watchdog::Watchdog;

fn on(rt: &impl Runtime, plan: Plan) {
    rt.run(|| compute::<Private, _>(plan, |_| ())).unwrap().all(plan);
}

/// `all` checks that the threads met as often as planned, and that each did all of its work.
#[test]
fn every_round_is_passed_by_all() {
    let _watchdog = Watchdog::start("barriers");
    for (threads, rounds) in [(1, 300), (2, 300), (5, 200), (32, 50)] {
        for bound in [false, true] {
            let attributes = Attributes { stack_size: None, bound };
            let plan = Plan { threads, rounds, attributes, ..FINE };
            compute::<Std, _>(plan, |_| ()).unwrap().all(plan);
            on(&OneToOne::new().unwrap(), plan);
            on_rungs(&Mxn::builder(), |rt| on(rt, plan));
        }
    }
}

/// How many of three threads, on two slots, have begun to compute when the first of them is done.
fn begun_before_one_is_done(slice: Option<Duration>) -> usize {
    let rt = Mxn::builder().concurrency(2).time_slice(slice).build().unwrap();
    let (begun, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
    rt.run(|| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(60) {
                        std::hint::spin_loop();
                    }
                    let now = begun.load(Ordering::Relaxed);
                    let _ = seen.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
                });
            }
        });
    });
    seen.into_inner()
}

/// What the papers' steps came from, and what time slices do about it.
#[test]
fn one_thread_more_than_slots_need_not_wait_for_a_round() {
    let _watchdog = Watchdog::start("slices");
    // On a busy machine even the second may be late.
    assert!(begun_before_one_is_done(None) <= 2, "the third ran without a slot");
    let sliced = || begun_before_one_is_done(Some(Duration::from_millis(10)));
    assert!((0..20).any(|_| sliced() == 3), "the third waited until another was done");
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    let defaults = Options {
        plan: COARSE,
        concurrency: Concurrency::of(0),
        model: Model::Mxn,
        load: false,
        json: false,
    };
    assert_eq!(options(""), Ok(defaults));
    assert_eq!(options("--fine"), Ok(Options { plan: FINE, ..defaults }));
    let plan = Plan {
        threads: 5,
        iterations: 6,
        side: 7,
        rounds: 8,
        attributes: Attributes { stack_size: None, bound: true },
    };
    let all =
        Options { plan, concurrency: Concurrency::of(9), model: Model::OneToOne, load: true, json: true };
    assert_eq!(options("-n 5 -i 6 -m 7 -k 8 -s system -c 9 -r onetoone --load --json"), Ok(all));
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in ["-n 0", "-k 0", "-m 0", "-r vax", "-s both", "-x", "--coarser", "more"] {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}
