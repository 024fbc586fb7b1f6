//! A server of each library, and the client of all of them, in a process of its own.
//!
//! The client is this program, called again. It has tokio's tasks on one kernel thread, which is near to what
//! a bare loop over epoll does. It counts from when all are connected, and prints one number.
//!
//! By hand, a client may visit any server:
//! `SELVEDGE_BENCH_CLIENT='echo 127.0.0.1:7007 1000 100' BENCH` sends 100 messages over each of 1,000
//! connections. It prints the nanoseconds in all, and the 99th percentile. `visits 127.0.0.1:7007 10000`
//! makes so many visits. `rest 127.0.0.1:7007 10000` says one message over each of 10,000 connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::echo::{BYTES, converse, serve_tasks};
use crate::support::contender::{Contender, Workload};
use crate::support::echo::{Plan, serve};
use crate::support::latency::Latencies;
use crate::support::library::Attributes;
use crate::support::open_files;
use crate::support::sockets::{Manners, lengthen};

/// Of the environment: what the client has to do.
const VARIABLE: &str = "SELVEDGE_BENCH_CLIENT";
/// So many visits are under way at once.
const AT_ONCE: u64 = 64;

/// An operation is a message of each connection, and its way back.
#[derive(Clone, Copy)]
pub(crate) struct Echoes {
    connections: u32,
    slowest: bool,
}

impl Echoes {
    /// Gives the time from the first message to the last.
    pub(crate) fn time(connections: u32) -> Self {
        Self { connections, slowest: false }
    }

    /// Gives, for each operation, what 99 of 100 messages did not exceed.
    pub(crate) fn slowest(connections: u32) -> Self {
        Self { connections, slowest: true }
    }

    fn client(self, address: SocketAddr, messages: u64) -> Client {
        Client::start(&format!("echo {address} {} {messages}", self.connections))
    }

    fn figure(self, client: Client, messages: u64) -> Duration {
        let [elapsed, slowest] = client.numbers();
        Duration::from_nanos(if self.slowest { slowest * messages } else { elapsed })
    }
}

impl Workload for Echoes {
    fn threads<C: Contender>(self, messages: u64) -> Duration {
        open_files::make_room(u64::from(self.connections) + 1).unwrap();
        let listener = C::listen((Ipv4Addr::LOCALHOST, 0).into(), self.connections).unwrap();
        let client = self.client(C::address(&listener).unwrap(), messages);
        let Self { connections, .. } = self;
        let attributes = Attributes::default();
        let plan =
            Plan { connections, messages: messages as u32, bytes: BYTES, manners: Manners::Net, attributes };
        let served = serve::<C>(listener, plan).expect("a client");
        assert_eq!(served.bytes, u64::from(connections) * messages * BYTES as u64);
        self.figure(client, messages)
    }

    async fn tasks(self, messages: u64) -> Duration {
        open_files::make_room(u64::from(self.connections) + 1).unwrap();
        let (listener, address) = listen(self.connections).await;
        let client = self.client(address, messages);
        serve_tasks(listener, self.connections).await;
        self.figure(client, messages)
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_io();
    }
}

/// An operation is a visit: connect, say a byte, hear it back, close.
#[derive(Clone, Copy)]
pub(crate) struct Visits;

impl Workload for Visits {
    fn threads<C: Contender>(self, visits: u64) -> Duration {
        let listener = C::listen((Ipv4Addr::LOCALHOST, 0).into(), 2 * AT_ONCE as u32).unwrap();
        let client = Client::start(&format!("visits {} {visits}", C::address(&listener).unwrap()));
        let hosts = (0..visits).map(|_| {
            let mut stream = C::accept(&listener, Manners::Net).unwrap();
            C::start(move || {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                stream.write_all(&byte).unwrap();
            })
        });
        hosts.collect::<Vec<_>>().into_iter().for_each(C::join);
        let [elapsed, _] = client.numbers();
        Duration::from_nanos(elapsed)
    }

    async fn tasks(self, visits: u64) -> Duration {
        let (listener, address) = listen(2 * AT_ONCE as u32).await;
        let client = Client::start(&format!("visits {address} {visits}"));
        let mut hosts = Vec::new();
        for _ in 0..visits {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            hosts.push(tokio::spawn(async move {
                let mut byte = [0];
                stream.read_exact(&mut byte).await.unwrap();
                stream.write_all(&byte).await.unwrap();
            }));
        }
        for host in hosts {
            host.await.unwrap();
        }
        let [elapsed, _] = client.numbers();
        Duration::from_nanos(elapsed)
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_io();
    }
}

pub(super) async fn listen(backlog: u32) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    lengthen(&listener, backlog).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The client's process.
pub(super) struct Client(Child);

impl Client {
    pub(super) fn start(order: &str) -> Self {
        let program = std::env::current_exe().expect("this program's path");
        let mut client = Command::new(program);
        client.env(VARIABLE, order).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(client.spawn().expect("a process for the client"))
    }

    /// Waits until one that rests says a byte: connections have been answered.
    pub(super) fn answered(&mut self) {
        let said = self.0.stdout.as_mut().expect("a pipe");
        said.read_exact(&mut [0]).expect("the client has failed");
    }

    /// Lets one that rests close its connections, and waits for its end.
    pub(super) fn leave(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("the client's end").success(), "the client has failed");
    }

    /// Waits for its end. Returns the time and the 99th percentile, in nanoseconds.
    fn numbers(self) -> [u64; 2] {
        let output = self.0.wait_with_output().expect("the client's output");
        assert!(output.status.success(), "the client has failed");
        let text = String::from_utf8(output.stdout).expect("numbers");
        let mut numbers = text.split_whitespace().map(|number| number.parse().expect("a number"));
        [(); 2].map(|()| numbers.next().expect("two numbers"))
    }
}

/// Does what [`VARIABLE`] asks for. `None`: it asks for nothing.
pub(crate) fn be_client() -> Option<ExitCode> {
    let order = std::env::var(VARIABLE).ok()?;
    let words: Vec<_> = order.split(' ').collect();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{VARIABLE}: {word} is no number"));
    let address = |word: &str| word.parse().unwrap_or_else(|_| panic!("{VARIABLE}: {word} is no address"));
    let (elapsed, latencies) = tokio::task::LocalSet::new().block_on(&tokio, async {
        match words[..] {
            ["echo", to, connections, messages] => {
                talk(address(to), number(connections) as u32, number(messages) as u32).await
            }
            ["visits", to, visits] => visit(address(to), number(visits)).await,
            ["rest", to, connections] => rest(address(to), number(connections)).await,
            _ => panic!(
                "{VARIABLE}: {order:?} is none of echo ADDRESS CONNECTIONS MESSAGES, visits ADDRESS VISITS, \
                 rest ADDRESS CONNECTIONS"
            ),
        }
    });
    println!("{} {}", elapsed.as_nanos(), latencies.percentile(99.0).as_nanos());
    Some(ExitCode::SUCCESS)
}

/// Talks over all connections at once, and checks each answer.
async fn talk(address: SocketAddr, connections: u32, messages: u32) -> (Duration, Latencies) {
    open_files::make_room(connections.into()).unwrap();
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await.expect("a server");
        stream.set_nodelay(true).unwrap();
        streams.push(stream);
    }
    let start = Instant::now();
    let talks: Vec<_> =
        (0..).zip(streams).map(|(number, stream)| converse(stream, number, messages)).collect();
    let latencies = all(talks).await;
    (start.elapsed(), latencies)
}

/// Says one message over each connection, and holds them until the input ends. Says a byte when the first has
/// been answered, and one when all have.
async fn rest(address: SocketAddr, connections: u64) -> (Duration, Latencies) {
    open_files::make_room(connections).unwrap();
    let start = Instant::now();
    let say = || std::io::stdout().write_all(b"\n").and_then(|()| std::io::stdout().flush());
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(address).await.expect("a server");
        let mut message = [7; BYTES];
        stream.write_all(&message).await.unwrap();
        stream.read_exact(&mut message).await.unwrap();
        streams.push(stream);
        if streams.len() == 1 {
            say().unwrap();
        }
    }
    say().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    (start.elapsed(), Latencies::default())
}

async fn visit(address: SocketAddr, visits: u64) -> (Duration, Latencies) {
    let left = Rc::new(std::cell::Cell::new(visits));
    let start = Instant::now();
    let visitors: Vec<_> = (0..AT_ONCE.min(visits)).map(|_| come_and_go(address, Rc::clone(&left))).collect();
    let latencies = all(visitors).await;
    (start.elapsed(), latencies)
}

/// Visits while there is a visit left to make.
async fn come_and_go(address: SocketAddr, left: Rc<std::cell::Cell<u64>>) -> Latencies {
    let mut latencies = Latencies::default();
    while left.get() > 0 {
        left.set(left.get() - 1);
        let start = Instant::now();
        let mut stream = TcpStream::connect(address).await.expect("a server");
        stream.write_all(&[7]).await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        // The server has closed, or will. A reset leaves nothing behind that would use up port numbers.
        stream.set_zero_linger().unwrap();
        latencies.record(start.elapsed());
    }
    latencies
}

/// Runs them all at once. Adds what they have found.
async fn all(tasks: Vec<impl Future<Output = Latencies> + 'static>) -> Latencies {
    let tasks: Vec<_> = tasks.into_iter().map(tokio::task::spawn_local).collect();
    let mut sum = Latencies::default();
    for task in tasks {
        sum.add(&task.await.unwrap());
    }
    sum
}
