//! tokio: its runtime context, its budget and its local queues are thread-locals.

use std::sync::Arc;
use std::time::Duration;

use harness::{HOPS, crew};
use tokio::runtime::{Builder, Handle};

fn block_on_in_many_threads() -> usize {
    crew(6, |member| {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a tokio runtime");
        for round in 0..HOPS / 20 {
            let sum = runtime.block_on(async {
                let (to, mut from) = tokio::sync::mpsc::channel(4);
                let sender = tokio::spawn(async move {
                    for n in 0..10 {
                        to.send(n).await.expect("the receiver lives");
                        tokio::task::yield_now().await;
                    }
                });
                let mut sum = 0;
                while let Some(n) = from.recv().await {
                    // In the middle of a poll, with tokio's context set.
                    member.hop();
                    assert!(Handle::try_current().is_ok());
                    sum += n;
                }
                sender.await.expect("the sender");
                tokio::time::sleep(Duration::from_micros(200)).await;
                sum + round
            });
            assert_eq!(sum, 45 + round);
            member.hop();
            assert!(Handle::try_current().is_err(), "the context of another thread");
        }
    })
}

fn block_on_a_shared_runtime() -> usize {
    let runtime = Arc::new(
        Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a tokio runtime"),
    );
    crew(6, move |member| {
        for round in 0..HOPS / 20 {
            let task = runtime.spawn(async move {
                tokio::task::yield_now().await;
                round * 2
            });
            let entered = runtime.enter();
            member.hop();
            assert!(Handle::try_current().is_ok());
            drop(entered);
            assert_eq!(member.across(|| runtime.block_on(task)).expect("the task"), round * 2);
            member.hop();
            assert!(Handle::try_current().is_err(), "the context of another thread");
        }
    })
}

harness::on_every_runtime!(block_on_in_many_threads, block_on_a_shared_runtime);
