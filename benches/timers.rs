//! How late do sleepers wake, and what does it cost to set a timer that does not go off?
//!
//! *Late*: threads sleep for 1 ms again and again; the figure is by how much longer it took them, in the
//! mean of all: of one, and of a thousand that sleep for 1 to 10 ms each. The kernel itself adds up to 50
//! us (the timer slack) to each of its sleeps; tokio counts whole milliseconds.
//!
//! *Round trip with a timeout*: two threads unpark each other and wait with a timeout of a second, which
//! never ends: compare with `park`. Once more while a thousand others wait with longer ones. (`park` asks
//! for the wait that its permit ends before a timer is set.)

mod support;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use support::contender::{Contender, Workload, all, without};
use support::crew::work_together;
use support::harness::{Question, Unit, answer};
use support::library::Attributes;
use support::workloads::park::RoundTrip;

/// Many sleepers.
const SLEEPERS: u32 = 1_000;
/// Sleeps of each in a sample.
const SLEEPS: u64 = 100;
/// A timeout that does not end.
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(1));
/// Two threads that wait with one.
const TRIP: RoundTrip = RoundTrip { pairs: 1, timeout: TIMEOUT };
/// How long the bystanders wait.
const LONG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let late = |sleepers: u32, name: String| {
        let question = Question::new(name, Unit::NanosEach("late"), all(Late { sleepers }));
        question.per_operation(sleepers.into()).fixed(SLEEPS)
    };
    let trip = |waiting: u32, name: String| {
        let cases = all(Beside { waiting });
        // may with one worker does not get through beside so many.
        let cases = if waiting > 0 { without("may, 1 worker", cases) } else { cases };
        Question::new(name, Unit::NanosEach("a round trip"), cases)
    };
    answer(vec![
        late(1, "late, 1 thread".into()),
        late(SLEEPERS, format!("late, {SLEEPERS} threads")),
        trip(0, "round trip with a timeout".into()),
        trip(SLEEPERS, format!("round trip with a timeout, beside {SLEEPERS} others")),
    ])
}

/// An operation is one sleep of each thread; the time, by how much all of them were late.
#[derive(Clone, Copy)]
struct Late {
    sleepers: u32,
}

impl Late {
    /// How long a thread sleeps the next time.
    fn pause(self, number: u32, sleep: u64) -> Duration {
        let longer = if self.sleepers == 1 { 0 } else { (u64::from(number) * 7 + sleep * 3) % 10 };
        Duration::from_millis(1 + longer)
    }
}

impl Workload for Late {
    fn threads<C: Contender>(self, sleeps: u64) -> Duration {
        let late: Arc<AtomicU64> = Arc::default();
        let sleeper = {
            let late = Arc::clone(&late);
            move |number| {
                let mut mine = Duration::ZERO;
                for sleep in 0..sleeps {
                    let pause = self.pause(number, sleep);
                    let start = Instant::now();
                    C::sleep(pause);
                    mine += behind(start, pause);
                }
                late.fetch_add(mine.as_nanos() as u64, Ordering::Relaxed);
            }
        };
        work_together::<C>(self.sleepers, Attributes::default(), sleeper, || ()).expect("a thousand threads");
        Duration::from_nanos(late.load(Ordering::Relaxed))
    }

    async fn tasks(self, sleeps: u64) -> Duration {
        let sleeper = |number| {
            tokio::spawn(async move {
                let mut mine = Duration::ZERO;
                for sleep in 0..sleeps {
                    let pause = self.pause(number, sleep);
                    let start = Instant::now();
                    tokio::time::sleep(pause).await;
                    mine += behind(start, pause);
                }
                mine
            })
        };
        let sleepers: Vec<_> = (0..self.sleepers).map(sleeper).collect();
        let mut late = Duration::ZERO;
        for sleeper in sleepers {
            late += sleeper.await.unwrap();
        }
        late
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_time();
    }
}

/// By how much a sleep took longer than it should have.
fn behind(start: Instant, pause: Duration) -> Duration {
    start.elapsed().checked_sub(pause).expect("no thread wakes early")
}

/// An operation is one way and back, beside threads that wait for something else.
#[derive(Clone, Copy)]
struct Beside {
    waiting: u32,
}

impl Workload for Beside {
    fn threads<C: Contender>(self, trips: u64) -> Duration {
        let over: Arc<AtomicBool> = Arc::default();
        let waiting: Arc<AtomicU32> = Arc::default();
        let others: Arc<[OnceLock<C::Handle>]> = (0..self.waiting).map(|_| OnceLock::new()).collect();
        let wait = |number: u32| {
            let (over, waiting, others) = (Arc::clone(&over), Arc::clone(&waiting), Arc::clone(&others));
            C::start(move || {
                assert!(others[number as usize].set(C::current()).is_ok());
                waiting.fetch_add(1, Ordering::Release);
                while !over.load(Ordering::Acquire) {
                    C::park_timeout(LONG);
                }
            })
        };
        let crowd: Vec<_> = (0..self.waiting).map(wait).collect();
        while waiting.load(Ordering::Acquire) < self.waiting {
            C::yield_now();
        }
        let elapsed = TRIP.travel::<C>(trips);
        over.store(true, Ordering::Release);
        others.iter().filter_map(OnceLock::get).for_each(C::unpark);
        crowd.into_iter().for_each(C::join);
        elapsed
    }

    async fn tasks(self, trips: u64) -> Duration {
        let never: Arc<Notify> = Arc::default();
        let wait = |_| {
            let never = Arc::clone(&never);
            tokio::spawn(async move { tokio::time::timeout(LONG, never.notified()).await.is_ok() })
        };
        let crowd: Vec<_> = (0..self.waiting).map(wait).collect();
        let elapsed = TRIP.tasks(trips).await;
        crowd.iter().for_each(tokio::task::JoinHandle::abort);
        elapsed
    }
    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_time();
    }
}
