//! Does every thread get the same share? And what does that cost?
//!
//! Two and eight threads for each CPU do equal work for two seconds, a part of it under a lock that all
//! share. The figures are by how much the least served thread falls behind the most served one, and how
//! many turns all have had. Then 400 and 2,000 threads compute, with a short lock now and then; the
//! figure is throughput. It is the experiment of `examples/java_threads.rs`.
//!
//! Then open workloads: short threads arrive and end all the time, beside long ones that compute. They show
//! by how much the least served long thread falls behind its fair share, and the median time of the short
//! ones.

mod support;

use std::process::ExitCode;

use support::contender::{parallel_threads, some_threads};
use support::harness::{Question, Unit, answer};
use support::workloads::java_threads::Turns;
use support::workloads::open::Open;

/// The contenders that preempt threads.
const OPEN: [&str; 4] = ["mxn", "mxn, register by syscall", "onetoone", "std"];
/// Time for all threads to be served in, in ms.
const TIME: u64 = 2_000;
/// The same, in ms, in open workloads.
const OPEN_TIME: u64 = 5_000;

fn main() -> ExitCode {
    let cpus = support::affinity::allowed().len() as u32;
    let mut questions = Vec::new();
    for per_cpu in [2, 8] {
        let (threads, about) = (per_cpu * cpus, format!("{per_cpu} threads for each CPU"));
        let ask = |name: &str, unit, turns| {
            let question = Question::new(format!("{name}, {about}"), unit, parallel_threads(turns));
            question.fixed(TIME).only_measured(per_cpu != 2)
        };
        questions.extend([
            ask("gap", Unit::Percent("behind"), Turns::gap(threads)),
            ask("throughput", Unit::NanosEach("a turn"), Turns::contended(threads)),
        ]);
    }
    for threads in [400, 2_000] {
        let (name, cases) = (format!("throughput, {threads} threads"), Turns::throughput(threads));
        let question = Question::new(name, Unit::NanosEach("a turn"), parallel_threads(cases));
        questions.push(question.fixed(100).only_measured(threads != 400));
    }
    for (long, short, length) in [(4, 1, (1, 40)), (2, 8, (20, 20)), (2, 20, (1, 4)), (2, 100, (1, 40))] {
        let (least, most) = length;
        let about = format!("{short} of {least} to {most} ms arriving beside {long}");
        let ask = |name: &str, unit, open| {
            let question = Question::new(format!("{name}, {about}"), unit, some_threads(&OPEN, open));
            question.fixed(OPEN_TIME).only_measured(short != 8)
        };
        questions.extend([
            ask("long ones", Unit::Percent("behind"), Open::behind(long, short, length)),
            ask("short ones", Unit::MillisInAll, Open::latency(long, short, length)),
        ]);
    }
    answer(questions)
}
