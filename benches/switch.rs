//! What does `yield_now` cost between two threads that share one CPU?
//!
//! Everybody is kept on one CPU, and the M:N runtimes have one worker, so that each yield is one switch. The figure is
//! time by yields of both threads. M:N once more without time slices (`cooperative`): slices that never end cost nothing.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use support::affinity;
use support::contender::{Contender, Workload, some};
use support::harness::{Question, Unit, answer};

fn main() -> ExitCode {
    let names = [
        "mxn, 1 slot",
        "mxn, 1 slot, cooperative",
        "mxn, 1 slot, by syscall",
        "onetoone",
        "std",
        "pthread",
        "may, 1 worker",
        "tokio, current thread",
    ];
    let one_cpu = || affinity::pin(affinity::allowed()[0]);
    let question = Question::new("yield", Unit::NanosEach("a yield"), some(&names, Yield));
    answer(vec![question.per_operation(2).prepare(one_cpu)])
}

#[derive(Clone, Copy)]
struct Yield;

impl Workload for Yield {
    fn threads<C: Contender>(self, yields: u64) -> Duration {
        let here = Arc::new(AtomicU32::new(0));
        let [first, second] = [(); 2].map(|()| {
            let here = Arc::clone(&here);
            move || {
                // Relaxed: the number is all there is to see.
                here.fetch_add(1, Ordering::Relaxed);
                while here.load(Ordering::Relaxed) < 2 {
                    C::yield_now();
                }
                for _ in 0..yields {
                    C::yield_now();
                }
            }
        });
        let start = Instant::now();
        let (first, second) = (C::start(first), C::start(second));
        C::join(first);
        C::join(second);
        start.elapsed()
    }

    async fn tasks(self, yields: u64) -> Duration {
        let here = Arc::new(AtomicU32::new(0));
        let [first, second] = [(); 2].map(|()| {
            let here = Arc::clone(&here);
            async move {
                here.fetch_add(1, Ordering::Relaxed);
                while here.load(Ordering::Relaxed) < 2 {
                    tokio::task::yield_now().await;
                }
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
            }
        });
        let start = Instant::now();
        let (first, second) = (tokio::spawn(first), tokio::spawn(second));
        first.await.unwrap();
        second.await.unwrap();
        start.elapsed()
    }
}
