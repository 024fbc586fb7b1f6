//! Two threads that wake each other in turn, with one mutex and one condition variable.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};

use crate::support::contender::{Contender, Scene, Workload};
use crate::support::crew::work_together;
use crate::support::harness::{Effort, Run};
use crate::support::library::{Attributes, Library, Lock};
use crate::support::split::Split;

/// An operation is one way and back.
#[derive(Clone, Copy)]
pub(crate) struct RoundTrip;

impl Workload for RoundTrip {
    fn threads<C: Contender>(self, trips: u64) -> Duration {
        travel::<C>(trips)
    }

    async fn tasks(self, trips: u64) -> Duration {
        let table = Arc::new((Mutex::new(0), [Notify::new(), Notify::new()]));
        let start = Instant::now();
        let players = [0, 1].map(|me| {
            let table = Arc::clone(&table);
            tokio::spawn(async move {
                let (turn, changed) = &*table;
                let mut turn_is = turn.lock().await;
                for _ in 0..trips {
                    while *turn_is != me {
                        drop(turn_is);
                        changed[me].notified().await;
                        turn_is = turn.lock().await;
                    }
                    *turn_is = 1 - me;
                    changed[1 - me].notify_one();
                }
            })
        });
        for player in players {
            player.await.unwrap();
        }
        start.elapsed()
    }
}

/// The two are kept on different CPUs.
#[derive(Clone, Copy)]
pub(crate) struct SplitRoundTrip;

impl Scene for SplitRoundTrip {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        effort.spend(travel::<Split<C>>)
    }
}

/// Lets two threads take turns.
fn travel<L: Library>(trips: u64) -> Duration {
    let table = Arc::new((L::Mutex::new(0), L::Condvar::default()));
    let player = move |me| {
        let (turn, changed) = &*table;
        let mut turn = turn.lock();
        for _ in 0..trips {
            while *turn != me {
                turn = L::wait(changed, turn);
            }
            *turn = 1 - me;
            L::notify_one(changed);
        }
    };
    work_together::<L>(2, Attributes::default(), player, || ()).expect("two threads")
}
