//! Threads and async tasks beside each other. Green threads run tokio's futures, and tokio's tasks await
//! threads and receive from channels. Here, threads with plain blocking code serve an async front.
//!
//! ```text
//! cargo run --release --example async_both_ways
//! ```

use std::io;
use std::time::Duration;

use selvedge::{channel, future, thread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An async task: passes each connection's number to the threads, and answers with what they send back.
async fn front(listener: TcpListener, work: channel::Sender<(u32, channel::Sender<u32>)>) {
    loop {
        let (mut stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The client is gone, or descriptors are short, which may last.
            Err(error) => {
                eprintln!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let work = work.clone();
        tokio::spawn(async move {
            let number = stream.read_u32().await?;
            let (answer, answers) = channel::bounded(1);
            // A task takes its turn among the threads that wait.
            work.send_async((number, answer)).await.expect("the workers live");
            stream.write_u32(answers.recv_async().await.expect("a worker answers")).await
        });
    }
}

fn main() -> io::Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    selvedge::run(|| {
        // tokio's sockets and timers belong to its runtime, whichever thread runs their futures.
        let _in_tokio = tokio.enter();
        let listener = future::block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let (work, todo) = channel::bounded::<(u32, channel::Sender<u32>)>(16);
        let front = tokio.spawn(front(listener, work));

        // Green threads that block, and nothing async in them.
        for _ in 0..4 {
            let todo = todo.clone();
            thread::spawn(move || {
                for (number, answer) in todo {
                    thread::sleep(Duration::from_millis(1));
                    // If the connection is gone, no task waits for it.
                    let _ = answer.send(number.wrapping_mul(number));
                }
            });
        }

        // Green threads that wait for futures. Each blocks only itself.
        let ask = |number: u32| {
            let handle = tokio.handle().clone();
            thread::spawn(move || {
                let _in_tokio = handle.enter();
                future::block_on(async {
                    let mut stream = TcpStream::connect(address).await?;
                    stream.write_u32(number).await?;
                    stream.read_u32().await
                })
            })
        };
        let asking: Vec<_> = (1..=100).map(ask).collect();

        // An async task that awaits threads.
        let sum = tokio.spawn(async move {
            let mut sum = 0;
            for handle in asking {
                sum += handle.await.expect("the thread does not panic")?;
            }
            io::Result::Ok(sum)
        });
        let sum = future::block_on(sum).expect("the task does not panic")?;
        println!("the sum of the squares from 1 to 100 is {sum}");
        assert_eq!(sum, 338_350);
        front.abort();
        Ok(())
    })
}
