//! What does it cost that threads wait for each other after each bit of work?
//!
//! Coarse-grained, with 1 to 12 threads: whether threads that are no multiple of the CPUs get equal
//! shares of them. The curve of 1:1 threads is straight; without time slices, as may's and tokio's, that
//! of M:N has steps. Once more while another process keeps half of the CPUs busy. `--runs 4` shows
//! whether the same comes out each time.
//!
//! Fine-grained: the price of a barrier, by the work between two.

mod support;

use std::process::ExitCode;

use support::contender::{all, parallel};
use support::harness::{Question, Unit, answer};
use support::load::Load;
use support::workloads::barriers::Rounds;

/// Rounds of a coarse-grained sample.
const ROUNDS: u64 = 4;

fn main() -> ExitCode {
    let mut questions: Vec<_> = (1..=12).map(coarse).collect();
    questions.extend([1, 2, 3, 4, 8, 12].map(|threads| {
        let question = coarse(threads).prepare(|| std::mem::forget(Load::half().expect("a shell")));
        question.named(format!("coarse, beside a load, {threads} threads"))
    }));
    questions.extend([2, 4].map(|threads| {
        let cases = all(Rounds::fine(threads, 0));
        Question::new(format!("fine, {threads} threads, nothing between"), Unit::NanosEach("a round"), cases)
    }));
    for threads in [2, 4] {
        questions.extend([10, 100, 1_000, 10_000, 100_000].map(|iterations| {
            let cases = parallel(Rounds::fine(threads, iterations));
            let name = format!("fine, {threads} threads, {iterations} iterations");
            Question::new(name, Unit::NanosEach("a round"), cases).only_measured(iterations > 1_000)
        }));
    }
    answer(questions)
}

/// One thread's round lasts more than four time slices. `--test` has the fine-grained ones.
fn coarse(threads: u32) -> Question {
    let cases = parallel(Rounds::coarse(threads, 400_000));
    let question = Question::new(format!("coarse, {threads} threads"), Unit::MillisInAll, cases);
    question.fixed(ROUNDS).only_measured(true)
}
