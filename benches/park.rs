//! What does it take to wake a thread by name, and to be woken?
//!
//! *Round trip*: two threads unpark each other and park in turn. The figure is the time of both ways, by
//! the number of pairs. For the 1:1 contenders it is taken once more by where the kernel puts the two, as
//! in `pingpong_1to1`. On kernel threads, the contenders are std, `parking_lot` (which has std's) and
//! pthreads (a mutex, a condition variable and a flag). On tokio's tasks it is `Notify`.
//!
//! *No wait*: a thread posts its own permit and takes it.

mod support;

use std::process::ExitCode;

use support::affinity;
use support::contender::{KERNEL, all, some_threads, without};
use support::harness::{Question, Unit, answer};
use support::workloads::park::{NoWait, RoundTrip, SplitRoundTrip};

/// Many pairs.
const PAIRS: u32 = 100;

fn main() -> ExitCode {
    let unit = Unit::NanosEach("a round trip");
    let one = RoundTrip::of(1);
    // may loses a permit now and then where many pairs meet on several workers, and waits forever.
    let crowd = without("may", all(RoundTrip::of(PAIRS)));
    let mut questions = vec![
        Question::new("round trip, 1 pair", unit, all(one)),
        Question::new(format!("round trip, {PAIRS} pairs"), unit, crowd)
            .per_operation(PAIRS.into())
            .first(20),
        Question::new("round trip, 1 pair, packed on one CPU", unit, some_threads(&KERNEL, one))
            .prepare(|| affinity::pin(affinity::allowed()[0])),
    ];
    if affinity::allowed().len() > 1 {
        let name = "round trip, 1 pair, split over two CPUs";
        questions.push(Question::new(name, unit, some_threads(&KERNEL, SplitRoundTrip)));
    } else {
        eprintln!("skipped: round trips split over two CPUs: there is one");
    }
    let no_wait = all(NoWait { timeout: None });
    questions.push(Question::new("no wait", Unit::NanosEach("a permit"), no_wait));
    answer(questions)
}
