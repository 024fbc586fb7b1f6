//! The papers' many threads that compute: none is forgotten, every turn is counted, on every model; and
//! the program says so.

#[path = "../examples/support/mod.rs"]
mod support;
#[path = "support/watchdog.rs"]
mod watchdog;

use std::time::Duration;

use support::command_line::{Model, Refusal};
use support::concurrency::Concurrency;
use support::java_threads::models::{STANDARD, WAYS, Way};
use support::java_threads::options::{Options, Part, many, parse, two_per_cpu};
use support::java_threads::workers::{Plan, Shares, Until};
use support::library::Attributes;
use watchdog::Watchdog;

/// Threads of the paper's study, for less time; the bench measures them as long as it did.
fn shares(way: Way, plan: Plan) -> Shares {
    let shares = way.work(plan, Concurrency::of(0), |_| ()).unwrap().exact();
    println!("{way}: a gap of {:.1} %, {} turns", 100.0 * shares.gap(), shares.total());
    shares
}

/// Equal work, one lock that all want: none gets half of what another gets. (In the paper's old library
/// it was 29 % less.)
#[test]
fn equal_work_gets_about_equal_shares() {
    const FAIR: f64 = 0.5;
    let _watchdog = Watchdog::start("shares of a lock");
    let plan = Plan { until: Until::Time(Duration::from_millis(600)), ..two_per_cpu() };
    for way in [STANDARD, Way { model: Model::OneToOne, ..STANDARD }] {
        assert!((0..10).any(|_| shares(way, plan).gap() < FAIR), "{way}");
    }
}

/// Many threads that compute, each for itself: all are served, on every model.
#[test]
fn a_crowd_that_computes_is_served() {
    let _watchdog = Watchdog::start("a crowd that computes");
    let plan = Plan { threads: 500, outside: 1_000, inside: 10, until: Until::Turns(20), ..many(500) };
    for way in WAYS {
        let shares = shares(way, plan);
        assert_eq!((shares.least(), shares.most(), shares.total()), (20, 20, 10_000), "{way}");
        assert_eq!(shares.gap(), 0.0);
    }
}

/// What watches the workers counts their turns.
#[test]
fn turns_can_be_watched() {
    let plan = Plan { threads: 3, outside: 0, inside: 0, until: Until::Turns(7), ..many(3) };
    let mut turns = None;
    STANDARD.work(plan, Concurrency::of(0), |sampler| turns = Some(sampler)).unwrap();
    assert_eq!(turns.unwrap()(), 21);
}

#[test]
fn a_gap_is_a_share_of_the_most() {
    let of = |served: &[u64]| Shares { served: served.to_vec(), counted: 0, elapsed: Duration::ZERO };
    let shares = of(&[71, 100, 80]);
    assert_eq!((shares.least(), shares.most(), shares.total()), (71, 100, 251));
    assert_eq!(shares.gap(), 0.29);
    assert_eq!(of(&[5, 5]).gap(), 0.0);
    assert_eq!(of(&[0, 0]).gap(), 0.0);
}

fn options(line: &str) -> Result<Options, Refusal> {
    parse(line.split_whitespace(), None)
}

#[test]
fn the_program_does_both_parts_of_the_paper_unless_it_is_told_otherwise() {
    let plans = |line: &str| options(line).unwrap().plans();
    let (throughput, fairness) = (Part::Throughput, Part::Fairness);
    let paper = [(throughput, many(400)), (throughput, many(2_000)), (fairness, two_per_cpu())];
    assert_eq!(plans(""), paper);
    assert_eq!(plans("--throughput"), paper[..2]);
    assert_eq!(plans("--fairness"), paper[2..]);
    let attributes = Attributes { stack_size: Some(65536), bound: false };
    let plan = Plan { threads: 7, outside: 1, inside: 2, until: Until::Turns(3), attributes };
    let line = "-n 7 -o 1 -l 2 -i 3 -S 65536";
    assert_eq!(plans(line), [(throughput, plan), (fairness, plan)]);
    assert_eq!(plans(&format!("{line} --fairness")), [(fairness, plan)]);
    let until = Until::Time(Duration::from_millis(50));
    assert_eq!(plans("--throughput -n 5 -t 50"), [(throughput, Plan { until, ..many(5) })]);
}

#[test]
fn the_program_reads_its_options() {
    let defaults = options("").unwrap();
    assert_eq!(
        (defaults.way, defaults.concurrency, defaults.json),
        (Some(STANDARD), Concurrency::of(0), false)
    );
    let way = Way { model: Model::OneToOne, shared: true, bound: true };
    let read = options("-p shared -s system -c 9 -r onetoone --json").unwrap();
    assert_eq!((read.way, read.concurrency, read.json), (Some(way), Concurrency::of(9), true));
    assert_eq!(read.ways(), [way]);
    assert_eq!(options("--models").unwrap().ways(), WAYS);
    assert_eq!(options("-?"), Err(Refusal::Help));
    let wrong = [
        "-n 0",
        "-n x",
        "-t 0",
        "-i 0",
        "-o -1",
        "-p public",
        "-s user",
        "-r vax",
        "-r std -p shared",
        "-q",
        "more",
        "--models -r mxn",
        "--models -s process",
        "-p shared --models",
    ];
    for wrong in wrong {
        assert!(matches!(options(wrong), Err(Refusal::Wrong(_))), "{wrong}");
    }
}
