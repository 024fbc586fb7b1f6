//! P6: what the papers did not have.

use super::{Experiment, on_one_cpu};
use crate::exhibit::{Chart, Column, Exhibit, Paper, Then};
use crate::options::Size;
use crate::support::contender::some;
use crate::support::harness::{Question, Unit};
use crate::support::workloads::switch::Yield;
use crate::verdict::{Bound, Check, Claim, Whose, at};

pub(super) fn all(size: Size) -> Vec<Experiment> {
    vec![switch(size)]
}

const NEW: Then = Then::Words("No paper has it.");

fn switch(size: Size) -> Experiment {
    let names = ["mxn, 1 slot", "onetoone", "std", "pthread", "may, 1 worker", "tokio, current thread"];
    let question = Question::new("switch", Unit::NanosEach("a yield"), some(&names, Yield));
    let exhibit = Exhibit {
        id: "p6-switch",
        title: "What a switch costs".into(),
        claim: "Cantrill quotes three to ten times for a switch that traps; a scheduler in user space should do better by now.",
        then: NEW,
        here: "Two threads on one CPU yield to each other.".into(),
        quantity: "time, ns a switch",
        over: "",
        columns: vec![Column::of(0, "yield")],
        chart: Chart::Bars,
        claims: vec![Claim {
            whose: Whose::Ours,
            words: "a switch in user space takes less than a tenth of one through the kernel",
            ratio: "time of M:N by that of kernel threads",
            bound: Bound::AtMost(0.1),
            checks: vec![
                Check::ours("M:N by 1:1", at("mxn, 1 slot", 0), at("onetoone", 0)),
                Check::other("may by pthread", at("may, 1 worker", 0), at("pthread", 0)),
                Check::other("tokio by pthread", at("tokio, current thread", 0), at("pthread", 0)),
            ],
        }],
    };
    let questions = vec![question.per_operation(2).prepare(on_one_cpu)];
    Experiment {
        paper: Paper::Beyond,
        name: "switch",
        questions,
        rounds: size.rounds(),
        exhibits: vec![exhibit],
    }
}
