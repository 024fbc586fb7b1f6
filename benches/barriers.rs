//! What does it cost that threads wait for each other after each bit of work?
//!
//! Coarse-grained, with 1 to 12 threads: whether threads that are no multiple of the CPUs get equal shares of them. The
//! curve of 1:1 threads is straight; without time slices, that of M:N has steps. Once more while another process keeps half of the
//! CPUs busy. 1:1 is the peer here: the last column is M:N by 1:1. `--runs 4` shows whether the same comes out each time.
//!
//! Fine-grained: the price of a barrier, by the work between two.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use selvedge::{Mxn, OneToOne, Runtime};

use support::barriers::{Plan, compute};
use support::contender::{Contender, Workload, all, some};
use support::harness::{Case, Question, Side, Unit, answer};
use support::library::Attributes;
use support::load::Load;
use support::selvedge::Private;

/// Rounds of a coarse-grained sample.
const ROUNDS: u64 = 8;

fn main() -> ExitCode {
    let mut questions: Vec<_> = (1..=12).map(coarse).collect();
    questions.extend([1, 2, 3, 4, 8].map(|threads| {
        let question = coarse(threads).prepare(|| std::mem::forget(Load::half().expect("a shell")));
        question.named(format!("coarse, beside a load, {threads} threads"))
    }));
    questions.extend([2, 4].map(|threads| {
        let cases = all(Fine { threads, iterations: 0 });
        Question::new(format!("fine, {threads} threads, nothing between"), Unit::NanosEach("a round"), cases)
    }));
    questions.extend([10, 100, 1_000, 10_000, 100_000].map(|iterations| {
        let names = ["mxn", "onetoone", "std", "parking_lot"];
        let cases = some(&names, Fine { threads: 4, iterations });
        Question::new(format!("fine, 4 threads, {iterations} iterations"), Unit::NanosEach("a round"), cases)
    }));
    answer(questions)
}

/// One thread's round lasts some 45 ms, more than four time slices; its matrix fits into the first cache.
fn coarse(threads: u32) -> Question {
    let plan = move |rounds: u64| Plan {
        threads,
        iterations: 400_000,
        side: 50,
        rounds: rounds as u32,
        attributes: Attributes::default(),
    };
    let spend =
        move |rounds| compute::<Private, _>(plan(rounds), |_| ()).expect("a few threads").all(plan(rounds));
    let cases = vec![
        Case::new("mxn", Side::Ours, move |effort| Mxn::new().unwrap().run(|| effort.spend(spend))),
        Case::new("onetoone", Side::Peer, move |effort| OneToOne::new().unwrap().run(|| effort.spend(spend))),
    ];
    Question::new(format!("coarse, {threads} threads"), Unit::MillisInAll, cases).fixed(ROUNDS)
}

/// An operation is one round of all threads, on the paper's matrix.
#[derive(Clone, Copy)]
struct Fine {
    threads: u32,
    iterations: u32,
}

impl Workload for Fine {
    fn threads<C: Contender>(self, rounds: u64) -> Duration {
        let Self { threads, iterations } = self;
        let attributes = Attributes::default();
        let plan = Plan { threads, iterations, side: 2, rounds: rounds as u32, attributes };
        compute::<C, _>(plan, |_| ()).expect("a few threads").all(plan)
    }

    async fn tasks(self, rounds: u64) -> Duration {
        let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(self.threads as usize));
        let start = std::time::Instant::now();
        let work = |_| {
            let barrier = std::sync::Arc::clone(&barrier);
            tokio::spawn(async move {
                let mut matrix = [0; 4];
                for _ in 0..rounds {
                    support::barriers::increment(&mut matrix, self.iterations);
                    barrier.wait().await;
                }
            })
        };
        for worker in (0..self.threads).map(work).collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        start.elapsed()
    }
}
