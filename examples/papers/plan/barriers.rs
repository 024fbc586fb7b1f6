//! P2: barriers, after figures 1, 4, 9 and 10. The windows of its monitor are in `screens.rs`.

use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Scale, Then};
use crate::options::Size;
use crate::support::contender::{Scene, Workload, called, some};
use crate::support::harness::{Effort, Question, Run, Unit};
use crate::support::load::Load;
use crate::support::ours::counting_lwps;
use crate::support::selvedge::Private;
use crate::support::workloads::barriers::Rounds;
use crate::verdict::{Bound, Check, Claim, Pick, Whose, at, by};

const COARSE: [&str; 5] = ["mxn", "onetoone", "std", "may", "tokio"];

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![fine(size), coarse(size), loaded(size)]
}

/// Unbound threads, with the kernel threads that they are compared to.
const PENALTY: [(&str, &str); 3] = [("mxn", "mxn, bound"), ("may", "parking_lot"), ("tokio", "parking_lot")];

fn fine(size: Size) -> Experiment {
    let threads = cpus().max(2);
    let work: &[u32] =
        size.pick(&[10, 1_000], &[10, 100, 1_000, 10_000], &[1, 10, 100, 1_000, 10_000, 100_000]);
    let names = ["mxn", "onetoone", "std", "parking_lot", "may", "tokio"];
    let ask = |&iterations: &u32| {
        let rounds = Rounds::fine(threads, iterations);
        let mut cases = some(&names, rounds);
        cases.insert(1, called("mxn, bound", "mxn", Rounds { bound: true, ..rounds }));
        let name = format!("fine barriers, {iterations} iterations");
        Question::new(name, Unit::NanosEach("a round"), cases).first(100)
    };
    let last = work.len() - 1;
    let exhibit = Exhibit {
        id: "p2-figure-1",
        title: "Figure 1: the price of a fine-grained barrier".into(),
        claim: "Where there is little work between two barriers, as many unbound threads as there are CPUs \
                run slower than bound ones, and the penalty shrinks as the work grows.",
        then: Then::Words(
            "Four threads on four CPUs (SPARCstation 10, SunOS 5.5): the paper draws a penalty of up to 15 % \
             for unbound threads, falling towards nothing.",
        ),
        here: format!(
            "{threads} threads, each with a matrix of 2 x 2 whose cells are incremented so many times \
             between two barriers of one mutex and one condition variable."
        ),
        quantity: "time, ns a round",
        over: "increments of each cell between two barriers",
        columns: Column::each(0, work),
        chart: Chart::Lines { x: Scale::Log, y: Scale::Log },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with next to no work, unbound threads pay for being unbound",
                ratio: "time of unbound threads by that of kernel threads",
                bound: Bound::AtLeast(1.0),
                checks: vec![
                    Check::ours("M:N by its bound threads", at("mxn", 0), at("mxn, bound", 0)),
                    Check::ours("M:N by 1:1", at("mxn", 0), at("onetoone", 0)),
                    Check::other("may by parking_lot", at("may", 0), at("parking_lot", 0)),
                    Check::other("tokio by parking_lot", at("tokio", 0), at("parking_lot", 0)),
                ],
            },
            Claim {
                whose: Whose::Paper,
                words: "with much work, whether threads are bound makes no difference",
                ratio: "time of unbound threads by that of kernel threads",
                bound: Bound::Within(0.95, 1.05),
                checks: vec![
                    Check::ours("M:N by its bound threads", at("mxn", last), at("mxn, bound", last)),
                    Check::other("may by parking_lot", at("may", last), at("parking_lot", last)),
                    Check::other("tokio by parking_lot", at("tokio", last), at("parking_lot", last)),
                ],
            },
        ],
    };
    let penalty = Exhibit {
        id: "p2-figure-1-right",
        title: "Figure 1, right: the penalty for unbound threads".into(),
        claim: "The penalty is up to fifteen percent, and falls as the work between two barriers grows.",
        then: Then::Words(
            "The right figure \"is extrapolated from the figure on the left, and represents the percentage \
             penalty for using four unbound threads versus four bound threads\". Section 6 speaks of a hit \
             of up to fifteen percent.",
        ),
        here:
            "The figures above: the time of M:N by that of its bound threads, of `may` and `tokio` by that \
               of `parking_lot`. 100 % says that both take the same time."
                .into(),
        quantity: "time, % of that of kernel threads",
        over: "increments of each cell between two barriers",
        columns: Column::each(0, work).into_iter().map(|column| column.percent(&PENALTY)).collect(),
        chart: Chart::Lines { x: Scale::Log, y: Scale::Linear },
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "the penalty for unbound threads stays below a fifth, with any work",
            ratio: "time of M:N by that of its bound threads",
            bound: Bound::AtMost(1.2),
            checks: (0..work.len())
                .map(|point| {
                    let who = format!("M:N with {} increments", work[point]);
                    Check::ours(&who, at("mxn", point), at("mxn, bound", point))
                })
                .collect(),
        }],
    };
    let questions = work.iter().map(ask).collect();
    Experiment::new(Paper::Cantrill, "fine-barriers", size, questions, vec![exhibit, penalty])
}

/// Increments of each cell: one thread's round lasts some 30 ms, which is three time slices.
pub(super) const ITERATIONS: u32 = 270_000;

/// One curve's thread counts: one, and around the multiples of the CPUs; in full those of the paper,
/// where that is not too many.
fn crews(size: Size) -> Vec<u32> {
    let n = cpus();
    let mut crews: Vec<u32> = match size {
        Size::Full if n <= 5 => (1..=12).collect(),
        Size::Full => vec![1, n, n + 1, 2 * n, 2 * n + 1],
        // One step is enough to see whether there are steps.
        _ => vec![1, n, n + 1, 2 * n],
    };
    crews.dedup();
    crews
}

/// The figures of each question of figure 4: the time, and the LWPs that ran green threads.
const EACH: usize = 2;

/// The point of a crew's time.
fn point(crews: &[u32], threads: u32) -> usize {
    EACH * crews.iter().position(|&crew| crew == threads).expect("all sizes have these")
}

fn coarse(size: Size) -> Experiment {
    let rounds = size.pick(1, 1, 4);
    let iterations = size.pick(ITERATIONS / 30, ITERATIONS, ITERATIONS);
    let best_of = size.pick(2, 8, 12);
    let crews = crews(size);
    let ask = |&threads: &u32| {
        let work = Rounds::coarse(threads, iterations);
        let play = move |effort| work.play::<Private>(effort);
        // Steps are what is looked for, and other programs hide them. A CPU that they take is missing where
        // there are as many threads as CPUs. Where one thread computes alone, that CPU is idle anyway.
        let best = move |effort: Effort| {
            let rounds = effort.operations();
            let one = (0..best_of).map(|_| work.threads::<Private>(1)).min().expect("some runs");
            Run::took(rounds, one * rounds as u32)
        };
        let mut cases = vec![
            counting_lwps("mxn", |builder| builder, play, |lwps| lwps as f64),
            counting_lwps("mxn, cooperative", |builder| builder.time_slice(None), best, |lwps| lwps as f64),
            called("mxn, bound", "mxn", Rounds { bound: true, ..work }),
        ];
        cases.extend(some(&COARSE[1..], work));
        let name = format!("coarse barriers, {threads} threads");
        Question::new(name, Unit::MillisInAll, cases).fixed(rounds).further(EACH - 1)
    };
    let n = cpus();
    let (all, more) = (point(&crews, n), point(&crews, n + 1));
    // A step doubles the time; a straight line adds one share.
    let straight = f64::from(n + 1) / f64::from(n);
    let border = f64::midpoint(2.0, straight);
    // Few rounds must keep a tenth away from it, and no step is more than 2.
    let above = straight + 0.2 * (2.0 - straight);
    let here = format!(
        "A matrix of 50 x 50 (the paper's 500 x 500 would be a story of caches), {} increments of each cell \
         in a round, which keeps one thread busy for some {}, {rounds} round{}, {n} CPUs.",
        crate::numbers::grouped(f64::from(iterations)),
        size.pick("1 ms", "30 ms (more than a time slice)", "30 ms (more than a time slice)"),
        if rounds == 1 { "" } else { "s" },
    );
    let stepped = Exhibit {
        id: "p2-figure-4",
        title: "Figure 4: coarse-grained barriers, by the number of threads".into(),
        claim: "When unbound threads are one more than the CPUs the time doubles, since no CPU is taken from \
                a thread that computes; bound threads are time-sliced by the kernel, and their curve is \
                straight.",
        then: Then::Words(
            "The paper draws steps for unbound threads at every multiple of four CPUs (and of two, on a \
             machine with two), and straight lines for bound ones: with five threads on four CPUs 2.0 times \
             the time of four, against 5/4.",
        ),
        here: format!(
            "{here} Without slices it is {} best of {best_of} runs of one round, since steps are looked for \
             there, and other programs hide them.",
            if rounds == 1 { "the".to_owned() } else { format!("{rounds} times the") }
        ),
        quantity: "time, ms",
        over: "threads",
        columns: Column::every(0, EACH, &crews),
        chart: Chart::Lines { x: Scale::Linear, y: Scale::Linear },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "the curve of M:N threads has steps",
                ratio: "time of one thread more than CPUs by that of as many threads as CPUs",
                bound: Bound::AtLeast(border),
                checks: by([("mxn", "mxn"), ("may", "may"), ("tokio", "tokio")], more, all),
            },
            Claim {
                whose: Whose::Paper,
                words: "without time slices, which the paper's library had not, the curve has steps",
                ratio: "time of one thread more than CPUs by that of as many threads as CPUs",
                bound: Bound::AtLeast(above),
                checks: by([("mxn, cooperative", "mxn, cooperative")], more, all),
            },
            Claim {
                whose: Whose::Paper,
                words: "the curve of kernel threads has none",
                ratio: "time of one thread more than CPUs by that of as many threads as CPUs",
                bound: Bound::AtMost(border),
                checks: vec![
                    Check::ours("M:N's bound threads", at("mxn, bound", more), at("mxn, bound", all)),
                    Check::ours("1:1", at("onetoone", more), at("onetoone", all)),
                    Check::other("std", at("std", more), at("std", all)),
                ],
            },
            Claim {
                whose: Whose::Ours,
                words: "with one thread more than CPUs, M:N takes at most 5 % longer than 1:1",
                ratio: "time of M:N by that of 1:1",
                bound: Bound::AtMost(1.05),
                checks: by([("mxn", "onetoone")], more, more),
            },
        ],
    };
    let repeated = Exhibit {
        id: "p2-figure-10",
        title: "Figure 10: the same, again and again".into(),
        claim: "An M:N library that makes LWPs when it sees fit makes the same program take different times \
                on different runs, and bound threads never do.",
        then: Then::Words(
            "Four runs of figure 4's unbound program, with none to three LWPs made on the way: in some the \
             steps are gone, in some they are not.",
        ),
        here: format!(
            "{here} Each round of the measurement is a run of its own. 1:1 in the same rounds is the control."
        ),
        quantity: "time, ms",
        over: "threads",
        columns: Column::every(0, EACH, &crews),
        chart: Chart::Rounds { of: "mxn", beside: "onetoone" },
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "with one thread more than CPUs, M:N threads take another time in each run",
            ratio: "the longest of the runs by the shortest",
            bound: Bound::Wider,
            checks: vec![
                Check::ours("M:N beside 1:1", at("mxn", more), at("onetoone", more)),
                Check::other("may beside std", at("may", more), at("std", more)),
                Check::other("tokio beside std", at("tokio", more), at("std", more)),
            ],
        }],
    };
    let grown = Exhibit {
        id: "p2-figure-10-lwps",
        title: "Figure 10: the LWPs of each run".into(),
        claim: "The times differ because the library makes an LWP on one run and none on another.",
        then: Then::Words("\"The number of additional LWPs created ranged from zero to three\" (figure 10)."),
        here: format!("{here} Counted are the LWPs that have run a green thread by the end."),
        quantity: "LWPs",
        over: "threads",
        columns: Column::every(1, EACH, &crews),
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "with one thread more than CPUs, each run has another number of LWPs",
            ratio: "the most LWPs of the runs by the least",
            bound: Bound::Wider,
            checks: vec![
                Check::ours("M:N beside a fixed number", at("mxn", more + 1), Pick::Given(1.0)),
                Check::ours(
                    "M:N without slices beside a fixed number",
                    at("mxn, cooperative", more + 1),
                    Pick::Given(1.0),
                ),
            ],
        }],
    };
    Experiment::new(
        Paper::Cantrill,
        "coarse-barriers",
        size,
        crews.iter().map(ask).collect(),
        vec![stepped, repeated, grown],
    )
    .for_the_front(size)
}

fn loaded(size: Size) -> Experiment {
    let n = cpus();
    let crews = size.pick(vec![n, 4 * n], vec![n, 4 * n], vec![n, 2 * n, 4 * n]);
    let most = crews.len() - 1;
    let rounds = size.pick(1, 1, 4);
    let iterations = size.pick(ITERATIONS / 30, ITERATIONS, ITERATIONS);
    let ask = |&threads: &u32| {
        let cases = some(&COARSE, Rounds::coarse(threads, iterations));
        let question =
            Question::new(format!("barriers beside a load, {threads} threads"), Unit::MillisInAll, cases);
        question.fixed(rounds).prepare(|| std::mem::forget(Load::half().expect("a shell")))
    };
    let half = (n / 2).max(1);
    let exhibit = Exhibit {
        id: "p2-figure-9",
        title: "Figure 9: coarse-grained barriers on a loaded machine".into(),
        claim: "While another process burns half of the CPUs, unbound threads starve: the kernel divides the \
                machine among LWPs, and does not know how many threads stand behind them; bound threads get \
                a share each.",
        then: Then::Words(
            "Four LWPs beside two busy ones never get more than 4/6 of the machine, however many threads \
             there are; the share of bound threads grows with their number.",
        ),
        here: format!(
            "As figure 4, {rounds} round{}, while {half} other process{} compute{}.",
            if rounds == 1 { "" } else { "s" },
            if half == 1 { "" } else { "es" },
            if half == 1 { "s" } else { "" },
        ),
        quantity: "time, ms",
        over: "threads",
        columns: Column::each(0, &crews),
        chart: Chart::Lines { x: Scale::Linear, y: Scale::Linear },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "beside a load, many M:N threads fall behind as many kernel threads",
                ratio: "time of M:N by that of 1:1, with four threads for each CPU",
                bound: Bound::AtLeast(1.1),
                checks: by([("mxn", "onetoone"), ("may", "std"), ("tokio", "std")], most, most),
            },
            Claim {
                whose: Whose::Ours,
                words: "beside a load too, M:N takes at most 5 % longer than 1:1 with as many threads as \
                        CPUs",
                ratio: "time of M:N by that of 1:1",
                bound: Bound::AtMost(1.05),
                checks: by([("mxn", "onetoone")], 0, 0),
            },
        ],
    };
    Experiment::new(Paper::Cantrill, "loaded-barriers", size, crews.iter().map(ask).collect(), vec![exhibit])
}
