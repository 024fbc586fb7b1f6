//! P5: many threads that compute, and whether each gets its share.

use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::contender::{called, some_threads};
use crate::support::harness::{Case, Question, Unit};
use crate::support::ours::counting_lwps;
use crate::support::selvedge::{Private, Shared};
use crate::support::workloads::java_threads::Turns;
use crate::verdict::{Bound, Check, Claim, Pick, Whose, at, by};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![throughput(size), fairness(size)]
}

/// Those that have threads with locks.
const NAMES: [&str; 5] = ["mxn", "onetoone", "std", "parking_lot", "may"];

/// The paper's four models, and the peers. A further figure of the first two: how many threads there are
/// for each LWP that ran any.
fn models(turns: Turns) -> Vec<Case> {
    let ratio = move |lwps: usize| f64::from(turns.threads) / lwps.max(1) as f64;
    let all_lwps = |builder: selvedge::mxn::Builder| builder.max_lwps(2_047);
    let mut cases = vec![
        counting_lwps("mxn", |builder| builder, move |effort| turns.play_on::<Private>(effort), ratio),
        counting_lwps("mxn, shared", all_lwps, move |effort| turns.play_on::<Shared>(effort), ratio),
        called("mxn, bound", "mxn", turns.bound()),
    ];
    cases.extend(some_threads(&NAMES[1..], turns));
    cases
}

/// The figures of each question about throughput: the time, and the threads for each LWP.
const EACH: usize = 2;

fn throughput(size: Size) -> Experiment {
    let crowds: [u32; 2] = size.pick([20, 50], [400, 2_000], [400, 2_000]);
    let turns: [u64; 2] = size.pick([2, 2], [15, 3], [500, 100]);
    let ask = |number: usize| {
        let threads = crowds[number];
        let name = format!("throughput of {threads} threads");
        let question = Question::new(name, Unit::NanosEach("a turn"), models(Turns::throughput(threads)));
        question.fixed(turns[number]).further(EACH - 1)
    };
    let columns = |figure: usize| {
        let column =
            |at: usize| Column::of(EACH * at + figure, crate::numbers::grouped(f64::from(crowds[at])));
        (0..2).map(column).collect::<Vec<_>>()
    };
    let most = EACH;
    let exhibit = Exhibit {
        id: "p5-throughput",
        title: "Throughput of 400 and 2,000 threads (table)".into(),
        claim: "An M:N library makes too few LWPs for hundreds of threads that only compute. With 2,000 \
                threads on 30 CPUs a 1:1 library has nearly eight times its throughput by the text, and ten \
                times (+900 %) by the table. On two SPARC CPUs it has no more (-10/0 %), and on two Intel \
                CPUs it has more (+15/+35 %).",
        then: Then::Table(
            &[
                "throughput against the standard (M:N) model, 400/2,000 threads",
                "SPARC, 2 CPUs",
                "SPARC, 4 CPUs",
                "SPARC, 30 CPUs",
                "Intel, 2 CPUs",
                "Intel, 4 CPUs",
            ],
            &[
                &["standard", "–", "–", "–", "–", "–"],
                &[
                    "M:N, an LWP for each thread",
                    "0/+25 %",
                    "+30/+60 %",
                    "+215/+800 %",
                    "+15/+45 %",
                    "+25/+60 %",
                ],
                &["bound threads", "-30/-40 %", "-5/-45 %", "-10/-80 %", "-10/-15 %", "0/-10 %"],
                &["1:1 (alternate library)", "-10/0 %", "+30/+50 %", "+275/+900 %", "+15/+35 %", "+20/+60 %"],
            ],
        ),
        here: format!(
            "Threads that do equal work, 2 % of it under one lock: {} turns of each of {} threads, {} of \
             each of {}, by the turn, on {} CPUs.",
            turns[0],
            crate::numbers::grouped(f64::from(crowds[0])),
            turns[1],
            crate::numbers::grouped(f64::from(crowds[1])),
            cpus()
        ),
        quantity: "time, ns a turn",
        over: "threads",
        columns: columns(0),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with the most threads, 1:1 has more throughput than M:N",
                ratio: "time of M:N by that of 1:1",
                bound: Bound::AtLeast(1.1),
                checks: by([("mxn", "onetoone"), ("may", "std"), ("may", "parking_lot")], most, most),
            },
            Claim {
                whose: Whose::Paper,
                words: "with the most threads, M:N with shared mutexes has more throughput than without",
                ratio: "time of M:N with shared mutexes by that without",
                bound: Bound::AtMost(0.9),
                checks: by([("mxn, shared", "mxn")], most, most),
            },
            Claim {
                whose: Whose::Paper,
                words: "with the most threads, bound threads have less throughput than unbound ones",
                ratio: "time of bound threads by that of unbound ones",
                bound: Bound::AtLeast(1.05),
                checks: vec![Check::ours("M:N", at("mxn, bound", most), at("mxn", most))],
            },
            Claim {
                whose: Whose::Ours,
                words: "M:N loses no throughput",
                ratio: "time of M:N by that of 1:1, with the most threads",
                bound: Bound::AtMost(1.05),
                checks: by([("mxn", "onetoone")], most, most),
            },
        ],
    };
    let ratio = Exhibit {
        id: "p5-lwps",
        title: "Threads for each LWP (text)".into(),
        claim: "With 2,000 threads that compute, the M:N library made an LWP for two threads, which kept its \
                throughput low; with mutexes that block the LWP it made one for each thread.",
        then: Then::Words(
            "\"The ratio of Solaris Threads to LWPs was around 2:1\", and with LWP synchronization \"the \
             ratio went to 1:1\". Bound threads and those of the 1:1 library have one each.",
        ),
        here: "The same threads. Counted are the LWPs that have run any of them by the end.".into(),
        quantity: "threads for each LWP",
        over: "threads",
        columns: columns(1),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "M:N makes an LWP for about two threads that compute",
                ratio: "threads by LWPs, with the most threads",
                bound: Bound::AtMost(4.0),
                checks: vec![Check::ours("M:N", at("mxn", most + 1), Pick::Given(1.0))],
            },
            Claim {
                whose: Whose::Paper,
                words: "with shared mutexes, M:N makes an LWP for each thread",
                ratio: "threads by LWPs, with the most threads",
                bound: Bound::AtMost(1.5),
                checks: vec![Check::ours("M:N", at("mxn, shared", most + 1), Pick::Given(1.0))],
            },
        ],
    };
    let questions = (0..2).map(ask).collect();
    Experiment::new(Paper::Java, "throughput", size, questions, vec![exhibit, ratio]).for_the_front(size)
}

fn fairness(size: Size) -> Experiment {
    let threads = 2 * cpus();
    let time = size.pick(50, 300, 1_000);
    let cases = models(Turns::gap(threads));
    let question = Question::new("fairness", Unit::Percent("behind"), cases).fixed(time);
    let exhibit = Exhibit {
        id: "p5-fairness",
        title: "Fairness with two threads for each CPU (text)".into(),
        claim: "M:N threads starve: of threads that do equal work the one that got least lags 29 % behind \
                the one that got most; under the 1:1 library only 8 %.",
        then: Then::Table(
            &["model", "gap between the most and the least served"],
            &[&["standard (M:N)", "29 %"], &["1:1 (alternate library)", "8 %"]],
        ),
        here: format!(
            "{threads} threads on {} CPUs do the same work for {time} ms, a fifth of it under one lock that \
             all want; the gap is by what the most served got.",
            cpus()
        ),
        quantity: "gap, % behind the most served",
        over: "",
        columns: vec![Column::of(0, "gap")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Paper,
            words: "M:N is several times less fair than 1:1",
            ratio: "gap of M:N by that of 1:1",
            bound: Bound::Exceeds { times: 2.0, by: 5.0 },
            checks: by([("mxn", "onetoone"), ("may", "std"), ("may", "parking_lot")], 0, 0),
        }],
    };
    let questions = vec![question];
    Experiment::new(Paper::Java, "fairness", size, questions, vec![exhibit])
}
