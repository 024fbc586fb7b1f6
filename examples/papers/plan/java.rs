//! P5: many threads that compute, and whether each gets its share.

use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::contender::some_threads;
use crate::support::harness::{Question, Unit};
use crate::support::workloads::java_threads::Turns;
use crate::verdict::{Bound, Claim, Whose, by};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![throughput(size), fairness(size)]
}

/// Those that have threads with locks.
const NAMES: [&str; 5] = ["mxn", "onetoone", "std", "parking_lot", "may"];

fn throughput(size: Size) -> Experiment {
    let crowds: [u32; 2] = size.pick([20, 50], [400, 2_000], [400, 2_000]);
    let turns: [u64; 2] = size.pick([2, 2], [25, 5], [500, 100]);
    let ask = |number: usize| {
        let threads = crowds[number];
        let cases = some_threads(&NAMES, Turns::throughput(threads));
        let name = format!("throughput of {threads} threads");
        Question::new(name, Unit::NanosEach("a turn"), cases).fixed(turns[number])
    };
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
        columns: (0..2).map(|at| Column::of(at, crate::numbers::grouped(f64::from(crowds[at])))).collect(),
        chart: Chart::Bars,
        claims: vec![
            Claim {
                whose: Whose::Paper,
                words: "with the most threads, 1:1 has more throughput than M:N",
                ratio: "time of M:N by that of 1:1",
                bound: Bound::AtLeast(1.1),
                checks: by([("mxn", "onetoone"), ("may", "std"), ("may", "parking_lot")], 1, 1),
            },
            Claim {
                whose: Whose::Ours,
                words: "M:N loses no throughput",
                ratio: "time of M:N by that of 1:1, with the most threads",
                bound: Bound::AtMost(1.05),
                checks: by([("mxn", "onetoone")], 1, 1),
            },
        ],
    };
    Experiment::new(Paper::Java, "throughput", size, (0..2).map(ask).collect(), vec![exhibit])
}

fn fairness(size: Size) -> Experiment {
    let threads = 2 * cpus();
    let time = size.pick(50, 300, 1_000);
    let cases = some_threads(&NAMES, Turns::gap(threads));
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
