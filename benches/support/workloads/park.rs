//! Threads that wake each other by name, in pairs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::support::contender::{Contender, Workload};
use crate::support::crew::work_together;
use crate::support::library::Attributes;
use crate::support::parking::Parking;
use crate::support::split::Split;

/// An operation is one way and back of each pair.
#[derive(Clone, Copy)]
pub(crate) struct RoundTrip {
    pub(crate) pairs: u32,
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
pub(crate) struct SplitRoundTrip;

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
