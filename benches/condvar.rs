//! What does it take to notify a thread that waits with a lock? And a thousand of them?
//!
//! *Round trip*: two threads wake each other in turn, with one mutex and one condition variable; the
//! figure is the time of both ways. Once more for the 1:1 contenders by where the kernel puts the two, as
//! in `pingpong_1to1`.
//!
//! *Broadcast*: a thousand threads wait; the figure is the time from the notification until the last of
//! them has run, by their number. The notifier holds the mutex, or has just released it.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};

use support::affinity;
use support::contender::{Contender, KERNEL, Workload, all, some_threads};
use support::crew::work_together;
use support::harness::{Question, Unit, answer};
use support::library::{Attributes, Guard, Library, Lock};
use support::workloads::condvar::{RoundTrip, SplitRoundTrip};

/// The waiters of a broadcast.
const WAITERS: u32 = 1_000;

fn main() -> ExitCode {
    let unit = Unit::NanosEach("a round trip");
    let mut questions = vec![
        Question::new("round trip", unit, all(RoundTrip)),
        Question::new("round trip, packed on one CPU", unit, some_threads(&KERNEL, RoundTrip))
            .prepare(|| affinity::pin(affinity::allowed()[0])),
    ];
    if affinity::allowed().len() > 1 {
        let cases = some_threads(&KERNEL, SplitRoundTrip);
        questions.push(Question::new("round trip, split over two CPUs", unit, cases));
    } else {
        eprintln!("skipped: round trips split over two CPUs: there is one");
    }
    for (held, when) in [(true, "with the mutex"), (false, "after the unlock")] {
        let name = format!("broadcast to {WAITERS}, {when}");
        let cases = all(Broadcast { held });
        let question = Question::new(name, Unit::NanosEach("a waiter"), cases);
        questions.push(question.per_operation(u64::from(WAITERS)).first(5));
    }
    answer(questions)
}

/// An operation is one broadcast, heard by all.
#[derive(Clone, Copy)]
struct Broadcast {
    /// The notifier holds the mutex.
    held: bool,
}

/// What all know.
#[derive(Default)]
struct News {
    /// Broadcasts so far.
    round: u64,
    /// How many have heard the last one, and wait for the next.
    heard: u32,
}

/// Where they know it from.
struct Hall<L: Library> {
    news: L::Mutex<News>,
    changed: L::Condvar,
    all_heard: L::Condvar,
}

impl<L: Library> Hall<L> {
    /// One waiter's life.
    fn listen(&self, broadcasts: u64) {
        let mut news = self.news.lock();
        for round in 0..=broadcasts {
            while news.round < round {
                news = L::wait(&self.changed, news);
            }
            news.heard += 1;
            if news.heard == WAITERS {
                L::notify_one(&self.all_heard);
            }
        }
    }

    /// Speaks to all, again and again. Gives the time that it took them to hear it.
    fn speak(&self, broadcasts: u64, held: bool) -> Duration {
        let mut news = self.heard_by_all(self.news.lock());
        let start = Instant::now();
        for _ in 0..broadcasts {
            news.round += 1;
            news.heard = 0;
            if held {
                L::notify_all(&self.changed);
            } else {
                drop(news);
                L::notify_all(&self.changed);
                news = self.news.lock();
            }
            news = self.heard_by_all(news);
        }
        start.elapsed()
    }

    fn heard_by_all<'a>(&self, mut news: Guard<'a, L, News>) -> Guard<'a, L, News> {
        while news.heard < WAITERS {
            news = L::wait(&self.all_heard, news);
        }
        news
    }
}

impl Workload for Broadcast {
    fn threads<C: Contender>(self, broadcasts: u64) -> Duration {
        let hall = Arc::new(Hall::<C> {
            news: C::Mutex::new(News::default()),
            changed: C::Condvar::default(),
            all_heard: C::Condvar::default(),
        });
        let listener = {
            let hall = Arc::clone(&hall);
            move |_| hall.listen(broadcasts)
        };
        let mut elapsed = Duration::ZERO;
        let speaker = || elapsed = hall.speak(broadcasts, self.held);
        work_together::<C>(WAITERS, Attributes::default(), listener, speaker).expect("a thousand threads");
        elapsed
    }

    async fn tasks(self, broadcasts: u64) -> Duration {
        let hall = Arc::new((Mutex::new(News::default()), Notify::new(), Notify::new()));
        let listen = |_| {
            let hall = Arc::clone(&hall);
            tokio::spawn(async move {
                let (news, changed, all_heard) = &*hall;
                let mut known = news.lock().await;
                for round in 0..=broadcasts {
                    while known.round < round {
                        // Made before the lock is released, it hears every notification after that.
                        let notified = changed.notified();
                        drop(known);
                        notified.await;
                        known = news.lock().await;
                    }
                    known.heard += 1;
                    if known.heard == WAITERS {
                        all_heard.notify_one();
                    }
                }
            })
        };
        let listeners: Vec<_> = (0..WAITERS).map(listen).collect();
        let (news, changed, all_heard) = &*hall;
        all_heard.notified().await;
        let start = Instant::now();
        for _ in 0..broadcasts {
            let mut known = news.lock().await;
            known.round += 1;
            known.heard = 0;
            if self.held {
                changed.notify_waiters();
                drop(known);
            } else {
                drop(known);
                changed.notify_waiters();
            }
            all_heard.notified().await;
        }
        let elapsed = start.elapsed();
        for listener in listeners {
            listener.await.unwrap();
        }
        elapsed
    }
}
