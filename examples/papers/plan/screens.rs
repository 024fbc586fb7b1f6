//! P2: the windows of its monitor, figures 2, 3, 5 to 8 and 11. Each is computed from what the runtime
//! recorded of the run itself.

use super::barriers::ITERATIONS;
use super::recorded::{on_kernel_threads, on_mxn};
use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::lives::Figure;
use crate::options::Size;
use crate::support::barriers::Plan;
use crate::support::harness::{Case, Question, Unit};
use crate::support::library::Attributes;
use crate::verdict::{Bound, Check, Claim, Pick, Whose, at};

const UNBOUND: Attributes = Attributes { stack_size: None, bound: false };
const BOUND: Attributes = Attributes { stack_size: None, bound: true };

/// Without time slices, as the paper's library was.
const COOPERATIVE: &str = "mxn, cooperative";
/// The same with one LWP more than CPUs.
const MORE: &str = "mxn, cooperative, one LWP more";

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![fine(size), coarse(size), staggered(size)]
}

/// The one question of an experiment, in so many rounds.
fn question(name: &str, cases: Vec<Case>, rounds: u64) -> Vec<Question> {
    vec![Question::new(name, Unit::MillisInAll, cases).fixed(rounds).further(Figure::FURTHER)]
}

fn column(figure: Figure, label: &str) -> Column {
    Column::of(figure as usize, label)
}

fn of(contender: &'static str, figure: Figure) -> Pick {
    at(contender, figure as usize)
}

/// A figure of M:N, set up in one way, by the same figure set up in another.
fn ratio(figure: Figure, contender: &'static str, other: &'static str) -> Vec<Check> {
    vec![Check::ours("M:N", of(contender, figure), of(other, figure))]
}

/// A share of all, which is in percent.
fn share(who: &str, contender: &'static str, figure: Figure) -> Check {
    Check::ours(who, of(contender, figure), Pick::Given(100.0))
}

fn states() -> Vec<Column> {
    vec![
        column(Figure::OnLwp, "on LWP"),
        column(Figure::Dispatchable, "dispatchable"),
        column(Figure::RunQueue, "run queue"),
        column(Figure::Blocked, "blocked"),
    ]
}

fn fine(size: Size) -> Experiment {
    let threads = cpus().max(2);
    let plan = Plan { threads, iterations: 100, side: 2, rounds: 1, attributes: UNBOUND };
    let bound = Plan { attributes: BOUND, ..plan };
    let cases = vec![
        on_mxn("mxn", plan, |builder| builder),
        on_mxn("mxn, bound", bound, |builder| builder),
        on_kernel_threads("onetoone", plan),
    ];
    let rounds = size.pick(50, 2_000, 2_000);
    let exhibit = Exhibit {
        id: "p2-figure-2",
        title: "Figures 2 and 3: states of threads at a fine-grained barrier".into(),
        claim: "Unbound threads are slower at fine-grained barriers because of the time from when an LWP is \
                chosen for a thread until it comes; bound threads have no such time.",
        then: Then::Words(
            "Section 5.1: \"in the unbound version, the threads were spending a significant amount of time \
             Dispatchable\"; with bound threads \"the time spent in this state disappeared\".",
        ),
        here: format!(
            "{threads} threads, 100 increments of each cell of a matrix of 2 x 2 between two barriers, \
             {} rounds. The states are those that the runtime recorded. An unbound thread that its \
             waker's LWP will run next is dispatchable: an LWP was chosen. So is a kernel thread that was \
             woken, until it runs; the paper's monitor did not see that. Of kernel threads, the last 100 \
             rounds or so are kept. Two M:N threads may take turns on one LWP: to wake another takes longer \
             than this little work.",
            crate::numbers::grouped(rounds as f64)
        ),
        quantity: "share of the threads' time, %",
        over: "state",
        columns: states(),
        chart: Chart::Strips { first: 0, last: 0 },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "unbound threads at a fine barrier spend much of their time dispatchable",
                ratio: "time in that state by all time of the threads",
                bound: Bound::AtLeast(0.05),
                checks: vec![share("M:N", "mxn", Figure::Dispatchable)],
            },
            Claim {
                whose: Whose::Paper,
                words: "bound threads at a fine barrier spend next to no time dispatchable",
                ratio: "time in that state by all time of the threads",
                bound: Bound::AtMost(0.05),
                checks: vec![
                    share("M:N's bound threads", "mxn, bound", Figure::Dispatchable),
                    share("1:1", "onetoone", Figure::Dispatchable),
                ],
            },
        ],
    };
    let questions = question("screens of fine barriers", cases, rounds);
    Experiment::new(Paper::Cantrill, "screens-fine", size, questions, vec![exhibit])
}

fn coarse(size: Size) -> Experiment {
    let n = cpus();
    // Long enough for several slices in a round.
    let iterations = size.pick(ITERATIONS / 30, 2 * ITERATIONS, 2 * ITERATIONS);
    let plan = Plan { threads: n + 1, iterations, side: 50, rounds: 1, attributes: UNBOUND };
    let cases = vec![
        on_mxn(COOPERATIVE, plan, |builder| builder.time_slice(None)),
        on_mxn("mxn", plan, |builder| builder),
        on_mxn("mxn, bound", Plan { attributes: BOUND, ..plan }, |builder| builder),
    ];
    let rounds = size.pick(1, 2, 4);
    let here = format!(
        "{} threads on {n} CPUs, {} increments of each cell of a matrix of 50 x 50 in a round, {rounds} \
         round{}: M:N on {n} LWPs without time slices, as the paper's library was; the same with slices, \
         which is the default; and bound threads. A bound thread is on its LWP also while that waits for a \
         CPU. With slices, more LWPs than CPUs may run the threads, in turn.",
        n + 1,
        crate::numbers::grouped(f64::from(iterations)),
        if rounds == 1 { "" } else { "s" },
    );
    let mut columns = states();
    columns.push(column(Figure::OneWaits, "a thread waits for an LWP,\n% of the run"));
    columns.push(column(Figure::LastAlone, "the last computes alone,\n% of the run"));
    let screens = Exhibit {
        id: "p2-figure-5",
        title: "Figures 5 and 6: states at a coarse barrier, with one thread more than CPUs".into(),
        claim: "Without time slices one thread does not begin before another has finished, so for half of \
                the time all others wait for it.",
        then: Then::Words(
            "Section 5.2: \"half the time, four workers were On LWP and one worker was on the Run queue \
             (figure 5), while the other half of the time, four workers were Blocked while one worker was On \
             LWP (figure 6)\".",
        ),
        here: here.clone(),
        quantity: "share of the threads' time, or of the run, %",
        over: "state",
        columns,
        chart: Chart::Strips { first: 0, last: 0 },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "without slices, a thread waits for an LWP for half of the time",
                ratio: "time in which a thread waits for an LWP by that of the run",
                bound: Bound::AtLeast(1.0 / 3.0),
                checks: vec![share("M:N", COOPERATIVE, Figure::OneWaits)],
            },
            Claim {
                whose: Whose::Paper,
                words: "without slices, the last thread computes alone for half of the time",
                ratio: "time in which all but one are blocked by that of the run",
                // Beside other programs the first two do not end together, so it is less than half.
                bound: Bound::AtLeast(0.25),
                checks: vec![share("M:N", COOPERATIVE, Figure::LastAlone)],
            },
            Claim {
                whose: Whose::Ours,
                words: "with slices, the last thread is alone for at most half as long",
                ratio: "share of the run with slices by the share without",
                bound: Bound::AtMost(0.5),
                checks: ratio(Figure::LastAlone, "mxn", COOPERATIVE),
            },
        ],
    };
    let mapping = Exhibit {
        id: "p2-figure-7",
        title: "Figures 7 and 8: which LWP runs which thread there".into(),
        claim: "As many threads as there are LWPs are picked up and keep their LWPs until they are done; one \
                LWP comes back for the last.",
        then: Then::Words(
            "Section 5.2: \"half the time, four of the worker threads were being run by the four LWPs in the \
             pool (figure 7), while the other half of the time, one LWP was running the remaining worker \
             (figure 8)\".",
        ),
        here: format!(
            "{here} The digits above are the LWPs. A thread that comes last to a barrier goes on without a \
             pause, so one turn may be of two rounds."
        ),
        quantity: "number",
        over: "",
        columns: vec![
            column(Figure::Lwps, "LWPs that ran the threads"),
            column(Figure::Turns, "turns on an LWP, of a thread in a round"),
        ],
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "without slices, no more LWPs run the threads than there are CPUs",
                ratio: "LWPs by CPUs",
                bound: Bound::AtMost(1.25),
                checks: vec![Check::ours("M:N", of(COOPERATIVE, Figure::Lwps), Pick::Given(n.into()))],
            },
            Claim {
                whose: Whose::Paper,
                words: "without slices, a thread keeps its LWP until it is done",
                ratio: "turns on an LWP, of a thread in a round, by one",
                bound: Bound::AtMost(1.5),
                checks: vec![Check::ours("M:N", of(COOPERATIVE, Figure::Turns), Pick::Given(1.0))],
            },
            Claim {
                whose: Whose::Question,
                words: "with slices, threads take turns on the LWPs, and get none of their own",
                ratio: "turns on an LWP, of a thread in a round, by one",
                bound: Bound::AtLeast(2.0),
                checks: vec![Check::ours("M:N", of("mxn", Figure::Turns), Pick::Given(1.0))],
            },
        ],
    };
    let questions = question("screens of coarse barriers", cases, rounds);
    Experiment::new(Paper::Cantrill, "screens-coarse", size, questions, vec![screens, mapping])
}

fn staggered(size: Size) -> Experiment {
    let n = cpus();
    let iterations = size.pick(ITERATIONS / 30, ITERATIONS, ITERATIONS);
    let plan = Plan { threads: 2 * n + 1, iterations, side: 50, rounds: 1, attributes: UNBOUND };
    let cases = vec![
        on_mxn(COOPERATIVE, plan, |builder| builder.time_slice(None)),
        on_mxn(MORE, plan, move |builder| builder.time_slice(None).concurrency(n as usize + 1)),
        on_mxn("mxn", plan, |builder| builder),
    ];
    let rounds = size.pick(1, 2, 4);
    let exhibit = Exhibit {
        id: "p2-figure-11",
        title: "Figure 11: threads that come to the barrier one after the other".into(),
        claim: "With one LWP more than CPUs, the kernel takes turns between LWPs, so threads do not all come \
                to the barrier at once, and the last does not compute alone.",
        then: Then::Words(
            "Section 5.4: \"the threads were not hitting the barrier simultaneously\"; this \"assures us \
             that we won't get into the situation of figure 6\", so \"much better performance with five LWPs \
             than with four\" (ten threads on four CPUs).",
        ),
        here: format!(
            "{} threads on {n} CPUs, {rounds} round{} of some {}: on {n} LWPs and on {} without time slices, \
             and on {n} with them.",
            2 * n + 1,
            if rounds == 1 { "" } else { "s" },
            size.pick("1 ms", "30 ms of work", "30 ms of work"),
            n + 1,
        ),
        quantity: "as each column says",
        over: "",
        columns: vec![
            column(Figure::Time, "time, ms"),
            column(Figure::LastAlone, "the last computes alone,\n% of the run"),
            column(Figure::Lwps, "LWPs that ran the threads"),
        ],
        chart: Chart::Strips { first: 0, last: 0 },
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with one LWP more than CPUs, the last thread hardly computes alone",
                ratio: "share of the run with one LWP more by the share without",
                bound: Bound::AtMost(0.5),
                checks: ratio(Figure::LastAlone, MORE, COOPERATIVE),
            },
            Claim {
                whose: Whose::Paper,
                words: "one LWP more than CPUs makes M:N threads faster",
                ratio: "time with one LWP more by time without",
                bound: Bound::AtMost(0.95),
                checks: ratio(Figure::Time, MORE, COOPERATIVE),
            },
            Claim {
                whose: Whose::Ours,
                words: "time slices do about as well as one LWP more",
                ratio: "time with slices by time with one LWP more",
                bound: Bound::AtMost(1.2),
                checks: ratio(Figure::Time, "mxn", MORE),
            },
        ],
    };
    let questions = question("screens of staggered threads", cases, rounds);
    Experiment::new(Paper::Cantrill, "screens-staggered", size, questions, vec![exhibit])
}
