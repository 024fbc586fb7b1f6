//! Clients that say something and wait for the echo, each over a connection of its own.
//!
//! Each connection has a thread at both ends. A client sends a message, waits until it has come back
//! whole, compares every byte, and sends the next. No two messages are alike, so an echo that belongs to
//! another client is noticed. All clients begin when all are connected.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::latency::Latencies;
use crate::support::library::{Attributes, Lock};
use crate::support::sockets::{Manners, Network};

/// How many clients, and how many messages each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) connections: u32,
    /// How many messages each client sends.
    pub(crate) messages: u32,
    /// How long a message is.
    pub(crate) bytes: usize,
    pub(crate) manners: Manners,
    pub(crate) attributes: Attributes,
}

/// What the clients have found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    /// From when all were connected until the last had its last echo.
    pub(crate) elapsed: Duration,
    /// Of each message, from before it was sent until it was back.
    pub(crate) latencies: Latencies,
    /// Bytes that came back as others.
    pub(crate) wrong: u64,
}

/// What the server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) connections: u32,
    pub(crate) bytes: u64,
}

/// Both ends in one process, over the loopback. `said` counts messages, by the way.
///
/// # Errors
/// Those of sockets, and of starting threads. All threads started before have ended.
pub(crate) fn echo<N: Network>(plan: Plan, said: &Arc<AtomicU64>) -> io::Result<(Talk, Served)> {
    let listener = N::listen(SocketAddr::from(([127, 0, 0, 1], 0)), plan.connections)?;
    let address = N::address(&listener)?;
    let served = Arc::new(N::Mutex::new(Ok(Served::default())));
    let server = {
        let served = Arc::clone(&served);
        N::spawn(plan.attributes, move || {
            let result = serve::<N>(listener, plan);
            *served.lock() = result;
        })?
    };
    let talk = talk::<N>(address, plan, said);
    N::join(server);
    let served = std::mem::replace(&mut *served.lock(), Ok(Served::default()));
    // A client that could not be served knows less of the reason than the server.
    let served = served?;
    Ok((talk?, served))
}

/// Accepts all connections of the plan, echoes what comes until each is closed.
///
/// # Errors
/// Those of sockets, and of starting threads.
pub(crate) fn serve<N: Network>(listener: N::Listener, plan: Plan) -> io::Result<Served> {
    let total = Arc::new(N::Mutex::new(Ok(Served::default())));
    let mut servers = Vec::new();
    for _ in 0..plan.connections {
        let started = N::accept(&listener, plan.manners).and_then(|stream| {
            let total = Arc::clone(&total);
            N::spawn(plan.attributes, move || {
                let bytes = repeat(stream);
                add(&mut total.lock(), bytes);
            })
        });
        match started {
            Ok(server) => servers.push(server),
            Err(error) => {
                *total.lock() = Err(error);
                break;
            }
        }
    }
    // A client that has not been accepted is turned away.
    drop(listener);
    servers.into_iter().for_each(N::join);
    std::mem::replace(&mut *total.lock(), Ok(Served::default()))
}

/// Counts one more connection, of so many bytes. The first error stays.
fn add(total: &mut io::Result<Served>, bytes: io::Result<u64>) {
    match (total, bytes) {
        (Ok(served), Ok(bytes)) => {
            served.connections += 1;
            served.bytes += bytes;
        }
        (total @ Ok(_), Err(error)) => *total = Err(error),
        (Err(_), _) => (),
    }
}

/// Sends back what comes, until nothing comes any more. Gives the number of bytes.
fn repeat(mut stream: impl Read + Write) -> io::Result<u64> {
    let mut buffer = vec![0; 16 << 10];
    let mut bytes = 0;
    loop {
        let length = match stream.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            length => length?,
        };
        stream.write_all(&buffer[..length])?;
        bytes += length as u64;
    }
}

/// Lets the clients talk to the listener at `address`, from the calling thread's runtime.
///
/// # Errors
/// Those of sockets, and of starting threads. All threads started before have ended.
pub(crate) fn talk<N: Network>(address: SocketAddr, plan: Plan, said: &Arc<AtomicU64>) -> io::Result<Talk> {
    let hall = Arc::new(Hall::<N> {
        start: N::Mutex::new(Start { expected: plan.connections, ..Start::default() }),
        changed: N::Condvar::default(),
        talk: N::Mutex::new(Ok(Talk::default())),
        said: Arc::clone(said),
    });
    let mut clients = Vec::new();
    for number in 0..plan.connections {
        let theirs = Arc::clone(&hall);
        match N::spawn(plan.attributes, move || theirs.visit(number, address, plan)) {
            Ok(client) => clients.push(client),
            Err(error) => {
                hall.call_off(number);
                *hall.talk.lock() = Err(error);
                break;
            }
        }
    }
    clients.into_iter().for_each(N::join);
    let connected = hall.start.lock().connected;
    // The server waits for those that never came.
    (connected..plan.connections).for_each(|_| drop(N::connect(address, plan.manners)));
    std::mem::replace(&mut *hall.talk.lock(), Ok(Talk::default()))
}

/// What the clients share.
struct Hall<N: Network> {
    start: N::Mutex<Start>,
    changed: N::Condvar,
    talk: N::Mutex<io::Result<Talk>>,
    /// Messages, counted roughly, for progress.
    said: Arc<AtomicU64>,
}

/// Counts the clients that have arrived, against those that are expected.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    expected: u32,
    /// Clients that have tried to connect.
    arrived: u32,
    /// Clients that are connected.
    connected: u32,
    /// When the last had.
    opened: Option<Instant>,
    /// Not all clients exist, and they never will.
    called_off: bool,
}

impl<N: Network> Hall<N> {
    /// One client's life.
    fn visit(&self, number: u32, address: SocketAddr, plan: Plan) {
        let stream = N::connect(address, plan.manners);
        let opened = self.wait_for_all(stream.is_ok());
        let spoken = match (stream, opened) {
            (Err(error), _) => Err(error),
            // Another client says why.
            (Ok(_), None) => return,
            (Ok(stream), Some(opened)) => self
                .converse(stream, number, plan)
                .map(|(latencies, wrong)| Talk { elapsed: opened.elapsed(), latencies, wrong }),
        };
        let mut talk = self.talk.lock();
        match (&mut *talk, spoken) {
            (Ok(all), Ok(mine)) => {
                all.elapsed = all.elapsed.max(mine.elapsed);
                all.latencies.add(&mine.latencies);
                all.wrong += mine.wrong;
            }
            (all @ Ok(_), Err(error)) => *all = Err(error),
            (Err(_), _) => (),
        }
    }

    /// One client's conversation: how long each message took, and how many bytes were wrong.
    fn converse(
        &self,
        mut stream: impl Read + Write,
        number: u32,
        plan: Plan,
    ) -> io::Result<(Latencies, u64)> {
        // So seldom that no thread waits for the counter.
        const OFTEN: u32 = 64;
        let (mut said, mut heard) = (vec![0; plan.bytes], vec![0; plan.bytes]);
        let mut latencies = Latencies::default();
        let mut wrong = 0;
        for message in 0..plan.messages {
            compose(&mut said, number, message);
            let start = Instant::now();
            stream.write_all(&said)?;
            stream.read_exact(&mut heard)?;
            latencies.record(start.elapsed());
            if said != heard {
                wrong += said.iter().zip(&heard).filter(|(said, heard)| said != heard).count() as u64;
            }
            if (message + 1) % OFTEN == 0 {
                self.said.fetch_add(OFTEN.into(), Ordering::Relaxed);
            }
        }
        Ok((latencies, wrong))
    }

    /// Waits until all have tried to connect. `None`: not all could.
    fn wait_for_all(&self, connected: bool) -> Option<Instant> {
        let mut start = self.start.lock();
        start.arrived += 1;
        start.connected += u32::from(connected);
        if start.arrived >= start.expected {
            start.opened = Some(Instant::now());
            N::notify_all(&self.changed);
        }
        while start.arrived < start.expected {
            start = N::wait(&self.changed, start);
        }
        start.opened.filter(|_| !start.called_off && start.connected == start.expected)
    }

    /// There will be only so many, and they are not to talk.
    fn call_off(&self, clients: u32) {
        let mut start = self.start.lock();
        start.expected = clients;
        start.called_off = true;
        drop(start);
        N::notify_all(&self.changed);
    }
}

/// Writes the text of a message: each has another.
pub(crate) fn compose(text: &mut [u8], number: u32, message: u32) {
    let mut state = u64::from(number) << 32 | u64::from(message);
    for chunk in text.chunks_mut(8) {
        // Steele, Lea and Flood's splitmix.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}
