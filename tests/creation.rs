//! The papers' creation of threads. On every runtime, every child is counted, and no creator has more at a
//! time than it may. The curves are the least of the table.

#[path = "support/rungs.rs"]
mod rungs;
#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use rungs::on_rungs;
use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::creation::at_once::tell;
use support::creation::curves::{Cell, by_at_a_time, by_creators};
use support::creation::options::{AT_ONCE, Options, PAPER, parse};
use support::creation::workers::{Created, Plan, Register, create, create_and_count};
use support::library::{Attributes, Guard, Library, Std};
use support::nt_solaris::apart::{Report, Told};
use support::nt_solaris::workers::process::Usage;
use support::outcome::Outcome;
use support::selvedge::Private;
use watchdog::Watchdog;

#[test]
fn every_child_is_counted() {
    let _watchdog = Watchdog::start("creation");
    for (creators, at_a_time, creations) in
        [(1, 1, 100), (1, 10, 95), (3, 2, 100), (20, 10, 1_000), (8, 4, 3)]
    {
        for bound in [false, true] {
            let (plan, attributes) =
                (Plan { creators, at_a_time, creations }, Attributes { stack_size: None, bound });
            // The same register again: what was counted before is not counted again.
            let register = Register::new(20);
            let on = |run: &dyn Fn() -> io::Result<Created>| {
                let created = run().unwrap();
                assert_eq!(created.counted, creations, "{plan:?}");
                assert!(created.elapsed > Duration::ZERO);
            };
            on(&|| create_and_count::<Std>(plan, attributes, register));
            on(&|| OneToOne::new().unwrap().run(|| create_and_count::<Private>(plan, attributes, register)));
            on_rungs(&Mxn::builder().concurrency(2), |rt| {
                on(&|| rt.run(|| create_and_count::<Private>(plan, attributes, register)))
            });
        }
    }
}

#[test]
fn creators_share_the_work() {
    for (creators, creations) in [(1, 100_000), (3, 100_000), (20, 100_000), (7, 3)] {
        let plan = Plan { creators, creations, ..PAPER };
        let shares: Vec<u64> = (0..creators).map(|creator| plan.share_of(creator)).collect();
        assert_eq!(shares.iter().sum::<u64>(), creations);
        assert!(shares[0] - shares[shares.len() - 1] <= 1, "{shares:?}");
    }
}

/// `Std`, with threads that count those not joined yet, and a library that has no more after a while.
enum Scarce {}

/// Threads of [`Scarce`] that have not been joined; the most there ever were; and how many more there are.
static UNJOINED: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU32 = AtomicU32::new(0);
static LEFT: AtomicU32 = AtomicU32::new(0);

impl Library for Scarce {
    type Mutex<T: Send + 'static> = <Std as Library>::Mutex<T>;
    type Condvar = <Std as Library>::Condvar;
    type Thread = <Std as Library>::Thread;

    fn wait<'a, T: Send + 'static>(condvar: &Self::Condvar, guard: Guard<'a, Self, T>) -> Guard<'a, Self, T> {
        Std::wait(condvar, guard)
    }

    fn notify_one(condvar: &Self::Condvar) {
        Std::notify_one(condvar);
    }

    fn notify_all(condvar: &Self::Condvar) {
        Std::notify_all(condvar);
    }

    fn spawn(attributes: Attributes, body: impl FnOnce() + Send + 'static) -> io::Result<Self::Thread> {
        let less = |left: u32| left.checked_sub(1);
        LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .map_err(|_| io::Error::new(io::ErrorKind::WouldBlock, "none is left"))?;
        MOST.fetch_max(UNJOINED.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Std::spawn(attributes, body)
    }

    fn join(thread: Self::Thread) {
        Std::join(thread);
        UNJOINED.fetch_sub(1, Ordering::Relaxed);
    }

    fn sleep(time: Duration) {
        Std::sleep(time);
    }
}

/// One test, since the library is one: children at a time; and an error, after which nothing is left behind.
#[test]
fn no_creator_has_more_at_a_time_than_it_may_and_errors_leave_nothing_behind() {
    let _watchdog = Watchdog::start("scarce threads");
    let ran = Arc::new(AtomicU64::new(0));
    let start = {
        let ran = Arc::clone(&ran);
        move |_| {
            let ran = Arc::clone(&ran);
            Scarce::spawn(Attributes::default(), move || {
                ran.fetch_add(1, Ordering::Relaxed);
            })
        }
    };
    let plan = Plan { creators: 2, at_a_time: 3, creations: 100 };

    LEFT.store(102, Ordering::Relaxed);
    create::<Scarce>(plan, start.clone()).unwrap();
    assert_eq!((ran.load(Ordering::Relaxed), UNJOINED.load(Ordering::Relaxed)), (100, 0));
    // Two creators with three each. That both had three at the same moment is likely, but not certain.
    let most = MOST.load(Ordering::Relaxed);
    assert!((2 + 3..=2 + 2 * 3).contains(&most), "{most}");

    for (left, named) in [(52, "child "), (1, "thread 2 of 2")] {
        let (left, before) = (LEFT.swap(left, Ordering::Relaxed) + left, ran.load(Ordering::Relaxed));
        let error = create::<Scarce>(plan, start.clone()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains(named) && error.to_string().ends_with("none is left"), "{error}");
        assert_eq!(UNJOINED.load(Ordering::Relaxed), 0);
        let children = ran.load(Ordering::Relaxed) - before;
        assert_eq!(children, u64::from(left.saturating_sub(2)), "{error}");
    }
}

#[test]
fn the_curves_are_the_least_of_rows_and_columns() {
    let cell = |creators, at_a_time, ms| Cell { creators, at_a_time, elapsed: Duration::from_millis(ms) };
    let cells =
        [cell(1, 1, 60), cell(1, 2, 50), cell(2, 1, 40), cell(2, 2, 45), cell(10, 1, 70), cell(10, 2, 44)];
    assert_eq!(by_creators(&cells), [cell(1, 2, 50), cell(2, 1, 40), cell(10, 2, 44)]);
    assert_eq!(by_at_a_time(&cells), [cell(2, 1, 40), cell(10, 2, 44)]);
    assert_eq!(by_creators(&[]), []);
}

/// What is said of threads that existed at once, or did not.
#[test]
fn a_limit_is_told_and_is_no_failure() {
    let options = Options { at_once: 300, ..parse([""; 0], None).unwrap() };
    let ms = Duration::from_millis;
    let told = |ran| {
        let memory = Usage::default();
        Some(Told { ran, making: ms(1), begun: ms(2), ending: ms(3), memory })
    };
    let say_of = |model, made, told| {
        let options = Options { model, ..options };
        let (mut text, mut outcome) = (Vec::new(), Outcome::new("creation"));
        let report = Report { made, stopped_by: "no more room".to_owned(), told };
        tell(&options, &report, &mut text, &mut outcome).unwrap();
        (String::from_utf8(text).unwrap(), outcome)
    };
    let say = |made, told| say_of(Model::Mxn, made, told);
    let (text, outcome) = say(300, told(300));
    assert!(text.contains("300 threads at once\n") && text.contains("start and stop:    5.000ms"), "{text}");
    assert_eq!(outcome.exit_status(), 0);
    assert!(!outcome.to_json().contains("no more room"), "{outcome:?}");

    let (text, outcome) = say(200, told(200));
    assert!(text.contains("200 threads at once, not 300: no more room\n"), "{text}");
    assert_eq!(outcome.exit_status(), 0);
    assert!(outcome.to_json().contains(r#""stopped_by":"no more room""#), "{outcome:?}");

    // The process was ended: that is all there is to say. Ours must not be.
    for (model, status) in [(Model::Std, 0), (Model::OneToOne, 2), (Model::Mxn, 2)] {
        let (text, outcome) = say_of(model, 128, None);
        assert_eq!(text, "\n128 threads at once, not 300: no more room\n");
        assert_eq!(outcome.exit_status(), status);
    }

    assert_eq!(say(300, told(299)).1.failed().collect::<Vec<_>>(), ["all 300 threads ran and ended"]);
    assert_eq!(say(0, told(0)).1.exit_status(), 2);
}

#[test]
fn the_program_reads_its_options() {
    let options = |line: &str| parse(line.split_whitespace(), None);
    let defaults = Options {
        most: PAPER,
        only: false,
        attributes: Attributes::default(),
        at_once: AT_ONCE,
        concurrency: Concurrency::of(0),
        model: Model::Mxn,
        here: false,
        json: false,
    };
    assert_eq!(options(""), Ok(defaults));
    let plans = defaults.plans();
    let extent = |plan: &Plan| (plan.creators, plan.at_a_time, plan.creations);
    assert_eq!(
        (plans.len(), extent(&plans[0]), extent(&plans[199])),
        (200, (1, 1, 100_000), (20, 10, 100_000))
    );
    assert_eq!(options("-i 0").unwrap().plans(), []);
    let attributes = Attributes { stack_size: Some(65536), bound: true };
    let most = Plan { creators: 3, at_a_time: 4, creations: 50 };
    let all = Options {
        here: false,
        most,
        only: true,
        attributes,
        at_once: 6,
        concurrency: Concurrency::of(9),
        model: Model::Std,
        json: true,
    };
    assert_eq!(options("-n 3 -k 4 --only -i 50 -a 6 -S 65536 -s system -c 9 -r std --json"), Ok(all));
    assert_eq!(all.plans(), [most]);
    assert_eq!(options("-?"), Err(Refusal::Help));
    for wrong in ["-n 0", "-k 0", "-i x", "-a -1", "-i 0 -a 0", "-r vax", "-s both", "-x", "more"] {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}
