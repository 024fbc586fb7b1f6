//! What does it cost that threads wait for each other after each bit of work?
//!
//! Coarse-grained, with 1 to 12 threads: whether threads that are no multiple of the CPUs get equal shares of them. The
//! curve of 1:1 threads is straight; without time slices, that of M:N has steps. Once more while another process keeps half of the
//! CPUs busy. 1:1 is the peer here: the last column is M:N by 1:1. `--runs 4` shows whether the same comes out each time.
//!
//! Fine-grained: the price of a barrier, by the work between two.

mod support;

use std::process::ExitCode;

use selvedge::{Mxn, OneToOne, Runtime};

use support::contender::{Workload, all, some};
use support::harness::{Case, Question, Side, Unit, answer};
use support::load::Load;
use support::selvedge::Private;
use support::workloads::barriers::Rounds;

/// Rounds of a coarse-grained sample.
const ROUNDS: u64 = 8;

fn main() -> ExitCode {
    let mut questions: Vec<_> = (1..=12).map(coarse).collect();
    questions.extend([1, 2, 3, 4, 8].map(|threads| {
        let question = coarse(threads).prepare(|| std::mem::forget(Load::half().expect("a shell")));
        question.named(format!("coarse, beside a load, {threads} threads"))
    }));
    questions.extend([2, 4].map(|threads| {
        let cases = all(Rounds::fine(threads, 0));
        Question::new(format!("fine, {threads} threads, nothing between"), Unit::NanosEach("a round"), cases)
    }));
    questions.extend([10, 100, 1_000, 10_000, 100_000].map(|iterations| {
        let names = ["mxn", "onetoone", "std", "parking_lot"];
        let cases = some(&names, Rounds::fine(4, iterations));
        Question::new(format!("fine, 4 threads, {iterations} iterations"), Unit::NanosEach("a round"), cases)
    }));
    answer(questions)
}

/// One thread's round lasts more than four time slices.
fn coarse(threads: u32) -> Question {
    let spend = move |rounds| Rounds::coarse(threads, 400_000).threads::<Private>(rounds);
    let cases = vec![
        Case::new("mxn", Side::Ours, move |effort| Mxn::new().unwrap().run(|| effort.spend(spend))),
        Case::new("onetoone", Side::Peer, move |effort| OneToOne::new().unwrap().run(|| effort.spend(spend))),
    ];
    Question::new(format!("coarse, {threads} threads"), Unit::MillisInAll, cases).fixed(ROUNDS)
}
