//! Threads that wake each other by name, in pairs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::support::contender::{Contender, Scene, Workload};
use crate::support::crew::work_together;
use crate::support::harness::{Effort, Run};
use crate::support::library::Attributes;
use crate::support::parking::Parking;
use crate::support::split::Split;

/// An operation is one way and back of each pair.
#[derive(Clone, Copy)]
pub(crate) struct RoundTrip {
    pub(crate) pairs: u32,
    /// For each wait. `None`: forever.
    pub(crate) timeout: Option<Duration>,
}

impl RoundTrip {
    /// Of so many pairs, without timeouts.
    pub(crate) fn of(pairs: u32) -> Self {
        Self { pairs, timeout: None }
    }

    /// Lets the threads of each pair take turns.
    pub(crate) fn travel<L: Parking>(self, trips: u64) -> Duration {
        let pair = |_| Pair { turn: AtomicU32::new(0), players: [OnceLock::new(), OnceLock::new()] };
        let tables: Arc<[Pair<L::Handle>]> = (0..self.pairs).map(pair).collect();
        let player = move |number| {
            let Pair { turn, players } = &tables[number as usize / 2];
            let me = number % 2;
            // No other thread sets it.
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
                    park::<L>(self.timeout);
                }
                turn.store(1 - me, Ordering::Release);
                L::unpark(other);
            }
        };
        work_together::<L>(2 * self.pairs, Attributes::default(), player, || ()).expect("a few threads")
    }
}

/// Two threads, and which has its turn.
struct Pair<H> {
    turn: AtomicU32,
    players: [OnceLock<H>; 2],
}

impl Workload for RoundTrip {
    fn threads<C: Contender>(self, trips: u64) -> Duration {
        self.travel::<C>(trips)
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
                            notified(&permits[me as usize], self.timeout).await;
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

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        equip(tokio, self.timeout);
    }
}

/// The two are kept on different CPUs.
#[derive(Clone, Copy)]
pub(crate) struct SplitRoundTrip;

impl Scene for SplitRoundTrip {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(|trips| RoundTrip::of(1).travel::<Split<C>>(trips))
    }
}

/// An operation is one permit of the thread's own, posted and taken.
#[derive(Clone, Copy)]
pub(crate) struct NoWait {
    /// For the wait that there is not. `None`: it would be forever.
    pub(crate) timeout: Option<Duration>,
}

impl Workload for NoWait {
    fn threads<C: Contender>(self, permits: u64) -> Duration {
        let me = C::current();
        let start = Instant::now();
        for _ in 0..permits {
            C::unpark(&me);
            park::<C>(self.timeout);
        }
        start.elapsed()
    }

    async fn tasks(self, permits: u64) -> Duration {
        let permit = Notify::new();
        let start = Instant::now();
        for _ in 0..permits {
            permit.notify_one();
            notified(&permit, self.timeout).await;
        }
        start.elapsed()
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        equip(tokio, self.timeout);
    }
}

#[inline]
fn park<L: Parking>(timeout: Option<Duration>) {
    match timeout {
        None => L::park(),
        Some(timeout) => L::park_timeout(timeout),
    }
}

#[inline]
async fn notified(permit: &Notify, timeout: Option<Duration>) {
    match timeout {
        None => permit.notified().await,
        // A thread that waits is asked again at its end.
        Some(timeout) => drop(tokio::time::timeout(timeout, permit.notified()).await),
    }
}

fn equip(tokio: &mut tokio::runtime::Builder, timeout: Option<Duration>) {
    if timeout.is_some() {
        tokio.enable_time();
    }
}
