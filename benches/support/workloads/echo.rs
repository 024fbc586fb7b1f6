//! The conversations of `examples/echo.rs`, both ends in one process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use may::net as may_net;
use selvedge::mxn::ThreadRegister;
use selvedge::{Mxn, OneToOne, Runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::echo::{Plan, compose, echo};
use crate::support::harness::{Case, Side};
use crate::support::library::{Attributes, Std};
use crate::support::open_files;
use crate::support::peers::May;
use crate::support::selvedge::Private;
use crate::support::sockets::{Manners, Network, lengthen};

/// Of a message.
const BYTES: usize = 64;
/// As many kernel threads as a runtime may have: each thread may block.
const LWPS: usize = 2_047;

/// All contenders that can talk. An operation is a message of each connection, and its way back.
pub(crate) fn cases(connections: u32) -> Vec<Case> {
    let mxn = move |name, register, manners| {
        Case::new(name, Side::Ours, move |effort| {
            let rt = Mxn::builder().max_lwps(LWPS).thread_register(register).build().unwrap();
            rt.run(|| effort.spend(|messages| talk::<Private>(connections, messages, manners)))
        })
    };
    vec![
        mxn("mxn", ThreadRegister::Auto, Manners::Bare),
        mxn("mxn, announced", ThreadRegister::Auto, Manners::Announced),
        mxn("mxn, register by syscall", ThreadRegister::Syscall, Manners::Bare),
        Case::new("onetoone", Side::Ours, move |effort| {
            let rt = OneToOne::new().unwrap();
            rt.run(|| effort.spend(|messages| talk::<Private>(connections, messages, Manners::Bare)))
        }),
        Case::new("std", Side::Peer, move |effort| {
            effort.spend(|messages| talk::<Std>(connections, messages, Manners::Bare))
        }),
        Case::new("may", Side::Peer, move |effort| {
            May::run(None, move || effort.spend(|messages| talk::<May>(connections, messages, Manners::Bare)))
        }),
        Case::new("tokio", Side::Peer, move |effort| {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build().unwrap();
            let main = async move { effort.spend_async(|messages| talk_tasks(connections, messages)).await };
            runtime.block_on(async { tokio::spawn(main).await.unwrap() })
        }),
        Case::new("tokio, current thread", Side::Peer, move |effort| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            runtime.block_on(effort.spend_async(|messages| talk_tasks(connections, messages)))
        }),
    ]
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
    let server = tokio::spawn(async move {
        let mut servers = Vec::new();
        for _ in 0..connections {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            servers.push(tokio::spawn(repeat(stream)));
        }
        for server in servers {
            server.await.unwrap();
        }
    });
    let all_here = Arc::new(tokio::sync::Barrier::new(connections as usize));
    let client = |number| {
        let all_here = Arc::clone(&all_here);
        tokio::spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            all_here.wait().await;
            let start = Instant::now();
            converse(stream, number, messages as u32).await;
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

/// One client's conversation.
async fn converse(mut stream: TcpStream, number: u32, messages: u32) {
    let (mut said, mut heard) = ([0; BYTES], [0; BYTES]);
    for message in 0..messages {
        compose(&mut said, number, message);
        stream.write_all(&said).await.unwrap();
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(said, heard);
    }
}
