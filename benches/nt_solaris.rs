//! What are the two kinds of threads good for?
//!
//! The experiments of `examples/nt_solaris.rs` but the first, which asks for a number and not for a time:
//!
//! - creation, alone and among others that leave no CPU idle,
//! - computing without synchronisation, and with much of it, by mutexes of the process and by those that
//!   processes can share,
//! - branch and bound over gr17,
//! - bursts of computing that are shorter than the idle time, as long, and longer.

mod support;

use std::process::ExitCode;

use support::contender::{all, parallel_threads, some_threads};
use support::harness::{Question, Unit, answer};
use support::load::Load;
use support::workloads::nt_solaris::{
    Bursty, Computing, Creation, Locks, Search, elapsed, shared_locks, turn_around,
};

/// Those that share the CPUs with what does not yield: may's workers would never come back to the creator.
const PREEMPTIVE: [&str; 7] =
    ["mxn", "mxn, register by syscall", "mxn, 1 slot", "onetoone", "std", "parking_lot", "pthread"];

fn main() -> ExitCode {
    let cpus = support::affinity::allowed().len() as u32;
    let mut questions = Vec::new();
    let creation = |name: &str, cases| {
        Question::new(format!("creation, {name}"), Unit::NanosEach("a thread"), cases).first(100)
    };
    let busy = 2 * cpus;
    questions.extend([
        creation("alone", all(Creation { busy: 0 })),
        creation("beside a load", all(Creation { busy: 0 }))
            .prepare(|| std::mem::forget(Load::half().expect("a shell"))),
        creation(
            &format!("beside {busy} threads that compute"),
            some_threads(&PREEMPTIVE, Creation { busy }),
        ),
    ]);
    questions.extend([1, 2, 3, 4, 8, 16, 32, 64, 128].map(|threads| {
        let cases = all(Computing { threads });
        let question = Question::new(format!("computing, {threads} threads"), Unit::MillisInAll, cases);
        question.fixed(TASK).only_measured(threads != 4)
    }));
    for threads in [1, 2, 4, 8, 32, 128] {
        let (local, shared) = (all(Locks { threads }), shared_locks(threads));
        let of = |which, cases| {
            let name = format!("locks, {threads} threads, {which} mutex");
            let question = Question::new(name, Unit::NanosEach("an entry"), cases);
            question.per_operation(threads.into()).only_measured(threads != 4)
        };
        questions.extend([of("local", local), of("process-shared", shared)]);
    }
    questions.extend([1, 2, 4, 8, 16].map(|threads| {
        let cases = parallel_threads(Search::by(threads));
        let question = Question::new(format!("search, {threads} threads"), Unit::MillisInAll, cases);
        // It cannot be made small. The tests of the example let each runtime search once.
        question.fixed(1).only_measured(true)
    }));
    for micros in [250, 1_000, 4_000] {
        for threads in [2, 8, 32, 128] {
            let about = format!("{micros} us, 1000 us idle, {threads} threads");
            let cases = |read| parallel_threads(Bursty::by(threads, micros, read));
            let of = |what, unit, cases| {
                let question = Question::new(format!("{what}, {about}"), unit, cases);
                question.fixed(BURSTS).only_measured((micros, threads) != (250, 8))
            };
            questions.extend([
                of("bursts", Unit::MillisInAll, cases(elapsed)),
                of("turn-around", Unit::NanosEach("a burst"), cases(turn_around)),
            ]);
        }
    }
    answer(questions)
}

/// Of computing, in ms.
const TASK: u64 = 20;

/// Of each thread.
const BURSTS: u64 = 20;
