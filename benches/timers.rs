//! How late do sleepers wake, and what does it cost to set a timer that does not go off?
//!
//! *Late*: a thread sleeps for 1 ms again and again, and a thousand threads for 1 to 10 ms each. The figure
//! is by how much longer it took them, in the mean of all sleeps. For the single thread, there is also the
//! figure that 99 of 100 sleeps stay below. The kernel itself adds up to 50 us (the timer slack) to each of
//! its sleeps; tokio counts whole milliseconds.
//!
//! *A million deadlines at once*: so many threads sleep until the same moment. A further thread sleeps until
//! shortly before that, and then yields all the while. The first figure is the longest time for which it did
//! not run. The second is how long it took until the last sleeper had run.
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

use support::contender::{Contender, Workload, all, some, without};
use support::crew::work_together;
use support::harness::{Question, Unit, answer};
use support::library::Attributes;
use support::workloads::park::RoundTrip;

/// Many sleepers.
const SLEEPERS: u32 = 1_000;
/// Very many sleepers.
const MILLION: u32 = 1_000_000;
/// The contenders that can have so many.
const LIGHT: [&str; 4] = ["mxn", "mxn, 1 slot", "tokio", "tokio, current thread"];
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
        Question::new("late, 1 thread, 99 of 100", Unit::NanosEach("late"), all(LateByRank { rank: 99 }))
            .fixed(MANY_SLEEPS),
        late(SLEEPERS, format!("late, {SLEEPERS} threads")),
        trip(0, "round trip with a timeout".into()),
        trip(SLEEPERS, format!("round trip with a timeout, beside {SLEEPERS} others")),
        Question::new(
            format!("round trip with a timeout, beside {MILLION} others"),
            Unit::NanosEach("a round trip"),
            some(&LIGHT, Beside { waiting: MILLION }),
        )
        .alone()
        .only_measured(true),
        burst("a million deadlines at once, the longest that another waits", Figure::Wait),
        burst("a million deadlines at once, until the last has run", Figure::Whole).only_measured(true),
    ])
}

fn burst(name: &str, figure: Figure) -> Question {
    Question::new(name, Unit::MillisInAll, some(&LIGHT, Burst { figure })).fixed(MILLION.into()).alone()
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

/// Sleeps of a sample of which one is chosen by its rank.
const MANY_SLEEPS: u64 = 1_000;

/// An operation is one sleep of 1 ms; the time, by how much that of this rank in a hundred was late.
#[derive(Clone, Copy)]
struct LateByRank {
    rank: usize,
}

impl LateByRank {
    /// Returns the figure of these sleeps, for all of them.
    fn of_all(self, mut late: Vec<Duration>) -> Duration {
        late.sort_unstable();
        late[(late.len() - 1) * self.rank / 100] * u32::try_from(late.len()).expect("few sleeps")
    }
}

impl Workload for LateByRank {
    fn threads<C: Contender>(self, sleeps: u64) -> Duration {
        let sleep = |_| {
            let start = Instant::now();
            C::sleep(MS);
            behind(start, MS)
        };
        self.of_all((0..sleeps).map(sleep).collect())
    }

    async fn tasks(self, sleeps: u64) -> Duration {
        let mut late = Vec::new();
        for _ in 0..sleeps {
            let start = Instant::now();
            tokio::time::sleep(MS).await;
            late.push(behind(start, MS));
        }
        self.of_all(late)
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_time();
    }
}

const MS: Duration = Duration::from_millis(1);

/// An operation is a thread that sleeps until the same moment as all others, beside one that yields.
#[derive(Clone, Copy)]
struct Burst {
    figure: Figure,
}

/// What is asked of a burst.
#[derive(Clone, Copy)]
enum Figure {
    /// The longest time between two turns of the thread that yields.
    Wait,
    /// The time from the deadline to the end of the last sleeper.
    Whole,
}

/// What the sleepers of a burst share.
#[derive(Default)]
struct Alarm {
    /// Sleepers that have started.
    started: AtomicU32,
    /// When they are to wake.
    at: OnceLock<Instant>,
    /// Sleepers that have woken.
    over: AtomicU32,
    /// The figure.
    seen: OnceLock<Duration>,
}

impl Alarm {
    /// Sets the moment, late enough for all to be asleep by then.
    fn set(&self, sleepers: u32) -> Instant {
        *self.at.get_or_init(|| Instant::now() + 200 * MS + sleepers * Duration::from_micros(4))
    }

    /// Returns how long a sleeper has to sleep, once that is known.
    fn rest(&self) -> Option<Duration> {
        Some(
            self.at.get()?.checked_duration_since(Instant::now()).expect("they took too long to fall asleep"),
        )
    }

    fn wake(&self) {
        self.over.fetch_add(1, Ordering::Release);
    }

    fn is_over(&self, sleepers: u32) -> bool {
        self.over.load(Ordering::Acquire) == sleepers
    }
}

/// The turns of a thread that yields.
struct Turns {
    last: Instant,
    longest: Duration,
}

impl Turns {
    fn new() -> Self {
        Self { last: Instant::now(), longest: Duration::ZERO }
    }

    /// Notes a turn. What lies before the deadline does not count.
    fn note(&mut self, at: Instant) {
        let now = Instant::now();
        if now > at {
            self.longest = self.longest.max(now - self.last.max(at));
        }
        self.last = now;
    }

    fn figure(&self, figure: Figure, at: Instant) -> Duration {
        match figure {
            Figure::Wait => self.longest,
            Figure::Whole => self.last - at,
        }
    }
}

impl Workload for Burst {
    fn threads<C: Contender>(self, sleepers: u64) -> Duration {
        let many = u32::try_from(sleepers).expect("at most a million");
        let alarm: Arc<Alarm> = Arc::default();
        let handles: Arc<[OnceLock<C::Handle>]> = (0..many).map(|_| OnceLock::new()).collect();
        let sleeper = |number: u32| {
            let (alarm, handles) = (Arc::clone(&alarm), Arc::clone(&handles));
            C::start(move || {
                assert!(handles[number as usize].set(C::current()).is_ok());
                alarm.started.fetch_add(1, Ordering::Release);
                let rest = loop {
                    match alarm.rest() {
                        Some(rest) => break rest,
                        None => C::park(),
                    }
                };
                C::sleep(rest);
                alarm.wake();
            })
        };
        let sleepers: Vec<_> = (0..many).map(sleeper).collect();
        while alarm.started.load(Ordering::Acquire) < many {
            C::yield_now();
        }
        let at = alarm.set(many);
        handles.iter().filter_map(OnceLock::get).for_each(C::unpark);
        let witness = {
            let alarm = Arc::clone(&alarm);
            C::start(move || {
                C::sleep(at.saturating_duration_since(Instant::now() + MS));
                let mut turns = Turns::new();
                while !alarm.is_over(many) {
                    C::yield_now();
                    turns.note(at);
                }
                alarm.seen.set(turns.figure(self.figure, at)).expect("there is one witness");
            })
        };
        C::join(witness);
        sleepers.into_iter().for_each(C::join);
        *alarm.seen.get().expect("the witness has ended")
    }

    async fn tasks(self, sleepers: u64) -> Duration {
        let many = u32::try_from(sleepers).expect("at most a million");
        let alarm: Arc<Alarm> = Arc::default();
        let at = alarm.set(many);
        for _ in 0..many {
            let alarm = Arc::clone(&alarm);
            tokio::spawn(async move {
                tokio::time::sleep(alarm.rest().expect("it is set")).await;
                alarm.wake();
            });
        }
        let witness = tokio::spawn(async move {
            tokio::time::sleep(at.saturating_duration_since(Instant::now() + MS)).await;
            let mut turns = Turns::new();
            while !alarm.is_over(many) {
                tokio::task::yield_now().await;
                turns.note(at);
            }
            turns.figure(self.figure, at)
        });
        witness.await.unwrap()
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_time();
    }
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
