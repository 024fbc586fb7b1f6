//! What does it take to wake a thread by name, and to be woken?
//!
//! *Round trip*: two threads unpark each other and park in turn; the figure is the time of both ways, by the number of pairs. Once
//! more for the 1:1 contenders by where the kernel puts the two, as in `pingpong_1to1`. std, `parking_lot` (which has std's) and pthreads
//! (a mutex, a condition variable and a flag) play the same part on kernel threads, `Notify` on tokio's tasks.
//!
//! *No wait*: a thread posts its own permit and takes it.

mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use support::affinity;
use support::contender::{Contender, Workload, all, some};
use support::harness::{Question, Unit, answer};
use support::workloads::park::{RoundTrip, SplitRoundTrip};

/// Many pairs.
const PAIRS: u32 = 100;

fn main() -> ExitCode {
    // parking_lot's threads have no permits but std's.
    let everybody = [
        "mxn",
        "mxn, register by syscall",
        "mxn, 1 slot",
        "mxn, 1 slot, by syscall",
        "onetoone",
        "std",
        "pthread",
        "may",
        "may, 1 worker",
        "tokio",
        "tokio, current thread",
    ];
    // may loses one now and then where many pairs meet on several workers, and waits for ever.
    let crowd: Vec<_> = everybody.into_iter().filter(|&name| name != "may").collect();
    let kernel = ["onetoone", "std", "pthread"];
    let unit = Unit::NanosEach("a round trip");
    let one = RoundTrip { pairs: 1 };
    let mut questions = vec![
        Question::new("round trip, 1 pair", unit, some(&everybody, one)),
        Question::new(format!("round trip, {PAIRS} pairs"), unit, some(&crowd, RoundTrip { pairs: PAIRS }))
            .per_operation(PAIRS.into())
            .first(20),
        Question::new("round trip, 1 pair, packed on one CPU", unit, some(&kernel, one))
            .prepare(|| affinity::pin(affinity::allowed()[0])),
    ];
    if affinity::allowed().len() > 1 {
        let name = "round trip, 1 pair, split over two CPUs";
        questions.push(Question::new(name, unit, some(&kernel, SplitRoundTrip)));
    } else {
        eprintln!("skipped: round trips split over two CPUs: there is one");
    }
    questions.push(Question::new("no wait", Unit::NanosEach("a permit"), all(NoWait)));
    answer(questions)
}

/// An operation is one permit, posted and taken.
#[derive(Clone, Copy)]
struct NoWait;

impl Workload for NoWait {
    fn threads<C: Contender>(self, permits: u64) -> Duration {
        let me = C::current();
        let start = Instant::now();
        for _ in 0..permits {
            C::unpark(&me);
            C::park();
        }
        start.elapsed()
    }

    async fn tasks(self, permits: u64) -> Duration {
        let permit = Notify::new();
        let start = Instant::now();
        for _ in 0..permits {
            permit.notify_one();
            permit.notified().await;
        }
        start.elapsed()
    }
}
