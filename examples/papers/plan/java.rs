//! P5: many threads that compute, and whether each gets its share.

use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use super::{Experiment, cpus};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::harness::{Case, Question, Run, Side, Unit};
use crate::support::java_threads::{Plan, Shares, Until, work};
use crate::support::library::{Attributes, Library, Std};
use crate::support::peers::{May, ParkingLot};
use crate::support::selvedge::Private;
use crate::verdict::{Bound, Check, Claim, Whose, at};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![throughput(size), fairness(size)]
}

/// All contenders with locks, with a plan of this size and what is to be read off its shares.
fn cases(plan: impl Fn(u64) -> Plan + Copy + Send + Sync + 'static, read: fn(Shares) -> Run) -> Vec<Case> {
    fn on<L: Library>(plan: Plan) -> Shares {
        work::<L, _>(plan, |_| ()).expect("threads").exact()
    }
    vec![
        Case::new("mxn", Side::Ours, move |effort| {
            read(Mxn::new().unwrap().run(|| on::<Private>(plan(effort.operations()))))
        }),
        Case::new("onetoone", Side::Ours, move |effort| {
            read(OneToOne::new().unwrap().run(|| on::<Private>(plan(effort.operations()))))
        }),
        Case::new("std", Side::Peer, move |effort| read(on::<Std>(plan(effort.operations())))),
        Case::new("parking_lot", Side::Peer, move |effort| read(on::<ParkingLot>(plan(effort.operations())))),
        Case::new("may", Side::Peer, move |effort| {
            read(May::run(None, move || on::<May>(plan(effort.operations()))))
        }),
    ]
}

fn throughput(size: Size) -> Experiment {
    let crowds: [u32; 2] = size.pick([20, 50], [400, 2_000], [400, 2_000]);
    let turns: [u64; 2] = size.pick([2, 2], [50, 10], [500, 100]);
    let each = |shares: Shares| Run::took(shares.total(), shares.elapsed);
    let ask = |number: usize| {
        let threads = crowds[number];
        let plan = move |turns| Plan {
            threads,
            outside: 5_000,
            inside: 100,
            until: Until::Turns(turns),
            attributes: Attributes::default(),
        };
        let name = format!("throughput of {threads} threads");
        Question::new(name, Unit::NanosEach("a turn"), cases(plan, each)).fixed(turns[number])
    };
    let exhibit = Exhibit {
        id: "p5-throughput",
        title: "Throughput of 400 and 2,000 threads (table)".into(),
        claim: "An M:N library makes too few LWPs for hundreds of threads that only compute. With 2,000 threads on 30 CPUs a 1:1 library has nearly eight times its throughput \
                by the text, and ten times (+900 %) by the table. On two SPARC CPUs it has no more (-10/0 %), and on two Intel CPUs it has more (+15/+35 %).",
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
            "Threads that do equal work, 2 % of it under one lock: {} turns of each of {} threads, {} of each of {}, by the turn, on {} CPUs.",
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
                checks: vec![
                    Check::ours("M:N by 1:1", at("mxn", 1), at("onetoone", 1)),
                    Check::other("may by std", at("may", 1), at("std", 1)),
                    Check::other("may by parking_lot", at("may", 1), at("parking_lot", 1)),
                ],
            },
            Claim {
                whose: Whose::Ours,
                words: "M:N loses no throughput",
                ratio: "time of M:N by that of 1:1, with the most threads",
                bound: Bound::AtMost(1.05),
                checks: vec![Check::ours("M:N by 1:1", at("mxn", 1), at("onetoone", 1))],
            },
        ],
    };
    Experiment::new(Paper::Java, "throughput", size, (0..2).map(ask).collect(), vec![exhibit])
}

fn fairness(size: Size) -> Experiment {
    let threads = 2 * cpus();
    let time = size.pick(50, 400, 1_000);
    let plan = move |ms| Plan {
        threads,
        outside: 400,
        inside: 100,
        until: Until::Time(Duration::from_millis(ms)),
        attributes: Attributes::default(),
    };
    let gap = |shares: Shares| Run::part(shares.most() - shares.least(), shares.most());
    let question = Question::new("fairness", Unit::Percent("behind"), cases(plan, gap)).fixed(time);
    let exhibit = Exhibit {
        id: "p5-fairness",
        title: "Fairness with two threads for each CPU (text)".into(),
        claim: "M:N threads starve: of threads that do equal work the one that got least lags 29 % behind the one that got most; under the 1:1 library only 8 %.",
        then: Then::Table(
            &["model", "gap between the most and the least served"],
            &[&["standard (M:N)", "29 %"], &["1:1 (alternate library)", "8 %"]],
        ),
        here: format!(
            "{threads} threads on {} CPUs do the same work for {time} ms, a fifth of it under one lock that all want; the gap is by what the most served got.",
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
            checks: vec![
                Check::ours("M:N by 1:1", at("mxn", 0), at("onetoone", 0)),
                Check::other("may by std", at("may", 0), at("std", 0)),
                Check::other("may by parking_lot", at("may", 0), at("parking_lot", 0)),
            ],
        }],
    };
    let questions = vec![question];
    Experiment::new(Paper::Java, "fairness", size, questions, vec![exhibit])
}
