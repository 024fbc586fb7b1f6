//! The conversations of `examples/echo.rs`, both ends in one process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use may::net as may_net;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::contender::{Contender, Workload};
use crate::support::echo::{Plan, compose, echo};
use crate::support::latency::Latencies;
use crate::support::library::Attributes;
use crate::support::open_files;
use crate::support::peers::May;
use crate::support::sockets::{Manners, Network, lengthen};

/// Of a message.
pub(super) const BYTES: usize = 64;

/// An operation is a message of each connection, and its way back.
#[derive(Clone, Copy)]
pub(crate) struct Conversations {
    pub(crate) connections: u32,
    pub(crate) manners: Manners,
}

impl Conversations {
    /// Over the sockets that each library has.
    pub(crate) fn own(connections: u32) -> Self {
        Self { connections, manners: Manners::Net }
    }
}

impl Workload for Conversations {
    fn threads<C: Contender>(self, messages: u64) -> Duration {
        talk::<C>(self.connections, messages, self.manners)
    }

    fn tasks(self, messages: u64) -> impl Future<Output = Duration> + Send {
        talk_tasks(self.connections, messages)
    }

    fn equip(self, tokio: &mut tokio::runtime::Builder) {
        tokio.enable_io();
    }
}

/// Each connection's client sends so many messages.
fn talk<N: Network>(connections: u32, messages: u64, manners: Manners) -> Duration {
    open_files::make_room(2 * u64::from(connections) + 1).unwrap();
    let attributes = Attributes::default();
    let plan = Plan { connections, messages: messages as u32, bytes: BYTES, manners, attributes };
    let (talk, served) = echo::<N>(plan, &Arc::default()).expect("a loopback");
    assert_eq!((talk.latencies.count(), talk.wrong), (messages * u64::from(connections), 0));
    assert_eq!(served.connections, connections);
    talk.elapsed
}

impl Network for May {
    type Listener = may_net::TcpListener;
    type Stream = may_net::TcpStream;

    fn listen(address: SocketAddr, backlog: u32) -> io::Result<Self::Listener> {
        let listener = may_net::TcpListener::bind(address)?;
        lengthen(&listener, backlog)?;
        Ok(listener)
    }

    fn address(listener: &Self::Listener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    fn accept(listener: &Self::Listener, _: Manners) -> io::Result<Self::Stream> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn connect(address: SocketAddr, _: Manners) -> io::Result<Self::Stream> {
        let stream = may_net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// The same between tasks.
async fn talk_tasks(connections: u32, messages: u64) -> Duration {
    open_files::make_room(2 * u64::from(connections) + 1).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    lengthen(&listener, connections).unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve_tasks(listener, connections));
    let all_here = Arc::new(tokio::sync::Barrier::new(connections as usize));
    let client = |number| {
        let all_here = Arc::clone(&all_here);
        tokio::spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            all_here.wait().await;
            let start = Instant::now();
            let latencies = converse(stream, number, messages as u32).await;
            assert_eq!(latencies.count(), messages);
            (start, Instant::now())
        })
    };
    let clients: Vec<_> = (0..connections).map(client).collect();
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for client in clients {
        let (start, end) = client.await.unwrap();
        starts.push(start);
        ends.push(end);
    }
    server.await.unwrap();
    *ends.iter().max().expect("a client") - *starts.iter().min().expect("a client")
}

/// Accepts so many connections, and sends back what comes until each is closed.
pub(super) async fn serve_tasks(listener: TcpListener, connections: u32) {
    let mut servers = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        servers.push(tokio::spawn(repeat(stream)));
    }
    for server in servers {
        server.await.unwrap();
    }
}

/// Sends back what comes.
async fn repeat(mut stream: TcpStream) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match stream.read(&mut buffer).await.unwrap() {
            0 => return,
            length => stream.write_all(&buffer[..length]).await.unwrap(),
        }
    }
}

/// One client's conversation. Returns how long each message took.
pub(super) async fn converse(mut stream: TcpStream, number: u32, messages: u32) -> Latencies {
    let mut latencies = Latencies::default();
    let (mut said, mut heard) = ([0; BYTES], [0; BYTES]);
    for message in 0..messages {
        compose(&mut said, number, message);
        let start = Instant::now();
        stream.write_all(&said).await.unwrap();
        stream.read_exact(&mut heard).await.unwrap();
        latencies.record(start.elapsed());
        assert_eq!(said, heard);
    }
    latencies
}
