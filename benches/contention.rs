//! What becomes of locks that many threads want?
//!
//! The experiment of `examples/contention.rs`: 32 threads that enter 50,000 critical regions each, of 1,
//! 8 and 32. (The paper has 50,000 entries in total.) As in the paper, it is one run for each sample.
//! Then with as few threads as programs have that were tuned: by the entry, warm.

mod support;

use std::process::ExitCode;

use support::contender::all;
use support::harness::{Question, Unit, answer};
use support::workloads::contention::Contention;

/// The paper's threads and regions.
const THREADS: u32 = 32;
const ENTRIES: u64 = 50_000;
const REGIONS: [u32; 3] = [1, 8, 32];

fn main() -> ExitCode {
    let mut questions = Vec::new();
    for regions in REGIONS {
        let cases = all(Contention { threads: THREADS, regions });
        let name = format!("contention, {THREADS} threads, {regions} regions");
        questions.push(Question::new(name, Unit::MillisInAll, cases).fixed(ENTRIES));
    }
    for threads in [1, 2, 4, 8] {
        for regions in REGIONS {
            let cases = all(Contention { threads, regions });
            let name = format!("contention, {threads} threads, {regions} regions");
            questions.push(
                Question::new(name, Unit::NanosEach("an entry"), cases).per_operation(u64::from(threads)),
            );
        }
    }
    answer(questions)
}
