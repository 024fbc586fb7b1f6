//! tokio's runtime beside: threads run its futures, and its tasks await threads and use channels.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use harness::{HOPS, crew};
use selvedge::channel;
use selvedge::future::block_on;
use selvedge::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

/// It belongs to no test.
static TOKIO: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a tokio runtime")
});

fn threads_run_tasks_oneshots_and_sleeps() -> usize {
    crew(8, |member| {
        for round in 0..HOPS / 20 {
            let task = TOKIO.spawn(async move {
                tokio::task::yield_now().await;
                round * 2
            });
            assert_eq!(member.across(|| block_on(task)).expect("the task"), round * 2);
            let (send, receive) = oneshot::channel();
            TOKIO.spawn(async move { send.send(round) });
            assert_eq!(member.across(|| block_on(receive)), Ok(round));
            let _in_tokio = TOKIO.enter();
            let start = Instant::now();
            member.across(|| block_on(tokio::time::sleep(Duration::from_micros(300))));
            assert!(start.elapsed() >= Duration::from_micros(300));
            let late = tokio::time::timeout(Duration::from_micros(300), std::future::pending::<()>());
            assert!(member.across(|| block_on(late)).is_err());
            member.hop();
        }
    })
}

fn threads_use_tokio_s_sockets() -> usize {
    let _in_tokio = TOKIO.enter();
    let listener = block_on(TcpListener::bind("127.0.0.1:0")).expect("a listener");
    let address = listener.local_addr().expect("it is bound");
    let server = TOKIO.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                while let Ok(number) = stream.read_u32().await {
                    stream.write_u32(number + 1).await.expect("the client reads");
                }
            });
        }
    });
    let migrations = crew(8, move |member| {
        let _in_tokio = TOKIO.enter();
        let mut stream = block_on(TcpStream::connect(address)).expect("a connection");
        for round in 0..HOPS as u32 / 20 {
            let echo = async {
                stream.write_u32(round).await?;
                stream.read_u32().await
            };
            assert_eq!(member.across(|| block_on(echo)).expect("an answer"), round + 1);
            member.hop();
        }
    });
    server.abort();
    migrations
}

fn tasks_await_threads() -> usize {
    crew(4, |member| {
        for round in 0..HOPS / 20 {
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    thread::spawn(move || {
                        thread::yield_now();
                        n + round
                    })
                })
                .collect();
            let task = TOKIO.spawn(async {
                let mut sum = 0;
                for thread in threads {
                    sum += thread.await.expect("it does not panic");
                }
                sum
            });
            assert_eq!(member.across(|| block_on(task)).expect("the task"), 6 + 4 * round);
            member.hop();
        }
    })
}

fn tasks_and_threads_share_channels() -> usize {
    crew(4, |member| {
        let (jobs, todo) = channel::bounded::<usize>(2);
        let (results, done) = channel::rendezvous();
        // A task and a thread work on the same jobs.
        let thread = {
            let (todo, results) = (todo.clone(), results.clone());
            thread::spawn(move || todo.iter().for_each(|n| results.send(n * n).expect("it is received")))
        };
        let task = TOKIO.spawn(async move {
            while let Ok(n) = todo.recv_async().await {
                results.send_async(n * n).await.expect("it is received");
            }
        });
        let feeder = TOKIO.spawn(async move {
            for n in 0..HOPS {
                tokio::select! {
                    sent = jobs.send_async(n) => sent.expect("there are workers"),
                    () = tokio::time::sleep(Duration::from_secs(100)) => panic!("no worker"),
                }
            }
        });
        let sum: usize = (0..HOPS).map(|_| member.across(|| done.recv()).expect("a result")).sum();
        assert_eq!(sum, (0..HOPS).map(|n| n * n).sum());
        assert!(done.recv().is_err());
        block_on(feeder).expect("the feeder");
        block_on(task).expect("the task");
        thread.join().expect("the thread");
        member.hop();
    })
}

/// A loop that receives and each time gives up at a deadline, as tasks do with `tokio::select!`.
fn a_select_loop_gets_all_in_order() -> usize {
    crew(4, |member| {
        let (send, receive) = channel::unbounded();
        let task = TOKIO.spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_micros(50));
            let mut next = 0;
            loop {
                tokio::select! {
                    message = receive.recv_async() => match message {
                        Ok(n) => {
                            assert_eq!(n, next);
                            next += 1;
                        }
                        Err(_) => return next,
                    },
                    _ = tick.tick() => {}
                }
            }
        });
        for n in 0..10 * HOPS {
            send.send(n).expect("the task receives");
            if n % 8 == 0 {
                member.hop();
            }
        }
        drop(send);
        assert_eq!(member.across(|| block_on(task)).expect("the task"), 10 * HOPS);
    })
}

/// Messages go round between tasks and threads, by tokio's own channels.
fn messages_go_to_and_fro() -> usize {
    crew(4, |member| {
        let (to_task, mut from_thread) = mpsc::channel::<usize>(1);
        let (to_thread, mut from_task) = mpsc::channel::<usize>(1);
        TOKIO.spawn(async move {
            while let Some(n) = from_thread.recv().await {
                to_thread.send(n + 1).await.expect("the thread receives");
            }
        });
        for round in 0..HOPS {
            block_on(to_task.send(round)).expect("the task receives");
            assert_eq!(member.across(|| block_on(from_task.recv())), Some(round + 1));
            if round % 16 == 0 {
                member.hop();
            }
        }
    })
}

harness::on_every_runtime!(
    threads_run_tasks_oneshots_and_sleeps,
    threads_use_tokio_s_sockets,
    tasks_await_threads,
    tasks_and_threads_share_channels,
    a_select_loop_gets_all_in_order,
    messages_go_to_and_fro,
);
