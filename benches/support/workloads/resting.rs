//! What a server has in memory for each connection that rests.
//!
//! Each connection has said one message and had its answer, and then says nothing. The client is a process of
//! its own, so what is counted is the server's. What the kernel has for it is not counted: sockets, page
//! tables, and stacks of kernel threads.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::echo::BYTES;
use super::server::{Client, listen};
use crate::support::contender::{Contender, Scene};
use crate::support::harness::{Case, Effort, Run, Side};
use crate::support::nt_solaris::process::{Usage, usage};
use crate::support::open_files;
use crate::support::sockets::Manners;

/// After the last answer, so long, until helper threads have gone to sleep.
const SETTLED: Duration = Duration::from_secs(1);

/// An operation is a connection. Gives the bytes of resident memory that each takes.
#[derive(Clone, Copy)]
pub(crate) struct Resting;

fn client(address: SocketAddr, connections: u64) -> Client {
    open_files::make_room(connections + 1).unwrap();
    Client::start(&format!("rest {address} {connections}"))
}

/// Lets the connections rest, and returns how much each takes. The first had been made before.
fn weigh(before: Usage, connections: u64) -> Run {
    std::thread::sleep(SETTLED);
    Run::part(usage().beyond(before).resident / (connections - 1).max(1), 1)
}

impl Scene for Resting {
    fn play<C: Contender>(self, effort: Effort) -> Run {
        let connections = effort.operations();
        let listener = C::listen((Ipv4Addr::LOCALHOST, 0).into(), connections as u32).unwrap();
        let mut client = client(C::address(&listener).unwrap(), connections);
        let accept = || {
            let mut stream = C::accept(&listener, Manners::Net).unwrap();
            C::start(move || {
                let mut buffer = [0; BYTES];
                while stream.read_exact(&mut buffer).is_ok() {
                    stream.write_all(&buffer).unwrap();
                }
            })
        };
        // The first makes what all share.
        let first = accept();
        client.answered();
        let before = usage();
        let rest: Vec<_> = (1..connections).map(|_| accept()).collect();
        client.answered();
        let run = weigh(before, connections);
        client.leave();
        rest.into_iter().chain([first]).for_each(C::join);
        run
    }
}

/// The same with tokio's tasks.
pub(crate) fn tasks() -> [Case; 2] {
    let play = move |effort: Effort| async move {
        let connections = effort.operations();
        let (listener, address) = listen(connections as u32).await;
        let mut client = client(address, connections);
        let mut hosts = JoinSet::new();
        let mut accept = async || {
            let (mut stream, _) = listener.accept().await.unwrap();
            hosts.spawn(async move {
                let mut buffer = [0; BYTES];
                while stream.read_exact(&mut buffer).await.is_ok() {
                    stream.write_all(&buffer).await.unwrap();
                }
            });
        };
        accept().await;
        // Until the tasks have answered, this thread must not block.
        let mut client = tokio::task::spawn_blocking(|| {
            client.answered();
            client
        })
        .await
        .unwrap();
        let before = usage();
        for _ in 1..connections {
            accept().await;
        }
        let (client, run) = tokio::task::spawn_blocking(move || {
            client.answered();
            (client, weigh(before, connections))
        })
        .await
        .unwrap();
        client.leave();
        hosts.join_all().await;
        run
    };
    let run = move |mut builder: Builder, effort| builder.enable_io().build().unwrap().block_on(play(effort));
    [
        Case::new("tokio", Side::Peer, move |effort| run(Builder::new_multi_thread(), effort)),
        Case::new("tokio, current thread", Side::Peer, move |effort| {
            run(Builder::new_current_thread(), effort)
        }),
    ]
}
