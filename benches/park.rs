//! What does it take to wake a thread by name, and to be woken?
//!
//! *Round trip*: two threads unpark each other and park in turn; the figure is the time of both ways, by the number of pairs. Once
//! more for the 1:1 contenders by where the kernel puts the two, as in `pingpong_1to1`. std, `parking_lot` (which has std's) and pthreads
//! (a mutex, a condition variable and a flag) play the same part on kernel threads, `Notify` on tokio's tasks.
//!
//! *No wait*: a thread posts its own permit and takes it.

mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use support::affinity;
use support::contender::{Contender, Workload, all, some};
use support::crew::work_together;
use support::harness::{Question, Unit, answer};
use support::library::Attributes;
use support::parking::Parking;
use support::split::Split;

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
    let kernel = ["onetoone", "std", "pthread"];
    let unit = Unit::NanosEach("a round trip");
    let one = RoundTrip { pairs: 1 };
    let mut questions = vec![
        Question::new("round trip, 1 pair", unit, some(&everybody, one)),
        Question::new(
            format!("round trip, {PAIRS} pairs"),
            unit,
            some(&everybody, RoundTrip { pairs: PAIRS }),
        )
        .per_operation(PAIRS.into()),
        Question::new("round trip, 1 pair, packed on one CPU", unit, some(&kernel, one))
            .prepare(|| affinity::pin(affinity::allowed()[0])),
    ];
    if affinity::allowed().len() > 1 {
        let name = "round trip, 1 pair, split over two CPUs";
        questions.push(Question::new(name, unit, some(&kernel, SplitRoundTrip)));
    } else {
        println!("skipped: round trips split over two CPUs: there is one");
    }
    questions.push(Question::new("no wait", Unit::NanosEach("a permit"), all(NoWait)));
    answer(questions)
}

/// An operation is one way and back of each pair.
#[derive(Clone, Copy)]
struct RoundTrip {
    pairs: u32,
}

/// Two threads, and whose turn it is.
struct Pair<H> {
    turn: AtomicU32,
    players: [OnceLock<H>; 2],
}

impl Workload for RoundTrip {
    fn threads<C: Contender>(self, trips: u64) -> Duration {
        travel::<C>(self.pairs, trips)
    }

    async fn tasks(self, trips: u64) -> Duration {
        let start = Instant::now();
        let pairs = (0..self.pairs).map(|_| {
            let table: Arc<(AtomicU32, [Notify; 2])> = Arc::default();
            [0, 1].map(|me| {
                let table = Arc::clone(&table);
                tokio::spawn(async move {
                    let (turn, permits) = &*table;
                    for _ in 0..trips {
                        while turn.load(Ordering::Acquire) != me {
                            permits[me as usize].notified().await;
                        }
                        turn.store(1 - me, Ordering::Release);
                        permits[1 - me as usize].notify_one();
                    }
                })
            })
        });
        let players: Vec<_> = pairs.flatten().collect();
        for player in players {
            player.await.unwrap();
        }
        start.elapsed()
    }
}

/// The two are kept on different CPUs.
#[derive(Clone, Copy)]
struct SplitRoundTrip;

impl Workload for SplitRoundTrip {
    fn threads<C: Contender>(self, trips: u64) -> Duration {
        travel::<Split<C>>(1, trips)
    }

    async fn tasks(self, _trips: u64) -> Duration {
        unreachable!("tasks are not 1:1")
    }
}

/// Lets the threads of each pair take turns.
fn travel<L: Parking>(pairs: u32, trips: u64) -> Duration {
    let pair = |_| Pair { turn: AtomicU32::new(0), players: [OnceLock::new(), OnceLock::new()] };
    let tables: Arc<[Pair<L::Handle>]> = (0..pairs).map(pair).collect();
    let player = move |number| {
        let Pair { turn, players } = &tables[number as usize / 2];
        let me = number % 2;
        // Nobody else sets it.
        assert!(players[me as usize].set(L::current()).is_ok());
        let other = loop {
            match players[1 - me as usize].get() {
                Some(other) => break other,
                None => L::yield_now(),
            }
        };
        for _ in 0..trips {
            // Acquire and release: one's turn ends before the other's begins.
            while turn.load(Ordering::Acquire) != me {
                L::park();
            }
            turn.store(1 - me, Ordering::Release);
            L::unpark(other);
        }
    };
    work_together::<L>(2 * pairs, Attributes::default(), player, || ()).expect("a few threads")
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
