//! The papers' barriers: all rounds are passed, threads that are no multiple of the CPUs get equal shares
//! of them, and the program says so.

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

fn on(rt: &impl Runtime, plan: Plan) -> Duration {
    rt.run(|| compute::<Private, _>(plan, |_| ())).unwrap().all(plan)
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
            on_rungs(&Mxn::builder(), |rt| _ = on(rt, plan));
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

/// Some slices: in a round shorter than one, threads on a slot take turns by rounds.
const ROUND: Duration = Duration::from_millis(50);

/// Returns how many iterations take one thread that long.
fn iterations_of(time: Duration) -> u32 {
    let rt = OneToOne::new().unwrap();
    let mut iterations = COARSE.iterations / 1_000;
    loop {
        let taken = on(&rt, Plan { threads: 1, iterations, rounds: 1, ..COARSE });
        // Once it is long enough to be told from the start of a thread.
        if taken >= time / 8 {
            let share = time.as_secs_f64() / taken.as_secs_f64();
            return (f64::from(iterations) * share) as u32;
        }
        iterations *= 2;
    }
}

/// Three threads on two slots take half as long again as two threads, and not twice as long. If other
/// programs have the CPUs, they slow both alike: each time, two LWPs ask for CPUs. Kernel threads would be no
/// measure then: three of them get more of the CPUs than two LWPs do.
#[test]
fn one_thread_more_than_slots_costs_its_share() {
    let _watchdog = Watchdog::start("barriers, coarse");
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let plan = Plan { iterations: iterations_of(ROUND), rounds: 4, ..COARSE };
    let attempt = |_| {
        let [two, three] = [2, 3].map(|threads| on(&rt, Plan { threads, ..plan }));
        let ratio = three.as_secs_f64() / two.as_secs_f64();
        println!("three threads on two slots take {ratio:.2} times as long as two");
        // Without slices it is two.
        ratio < 1.75
    };
    assert_eq!((0..8).map(attempt).filter(|met| *met).take(2).count(), 2, "more than its share");
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
