//! A TCP proxy: passes each connection on to another address, with a thread for each direction.
//!
//! If one side says that it has no more to send, the other side is told, and can still answer. A connection
//! that is silent in both directions for too long is closed.
//!
//! ```text
//! cargo run --release --example proxy -- --listen 127.0.0.1:8081 example.org:80
//! ```

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge::net::{TcpListener, TcpStream, lookup_host};
use selvedge::thread::{self, Builder};

const USAGE: &str = "\
usage: proxy [--listen <address>] [--connect <ms>] [--idle <ms>] <address>

  --listen   where to listen (127.0.0.1:8081)
  --connect  how long each address behind a name may take to answer (5000)
  --idle     how long a connection may be silent in both directions (60000)

SELVEDGE_RUNTIME=mxn|onetoone chooses the threads.
";

/// Bytes that are read at once.
const PART: usize = 16 << 10;

#[derive(Debug)]
struct Options {
    listen: String,
    to: String,
    connect: Duration,
    idle: Duration,
}

impl Options {
    /// Reads the command line of the process.
    fn parse() -> Result<Self, lexopt::Error> {
        use lexopt::prelude::*;

        let mut listen = "127.0.0.1:8081".to_owned();
        let (mut connect, mut idle) = (5_000, 60_000);
        let mut to = None;
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("listen") => listen = parser.value()?.string()?,
                Long("connect") => connect = parser.value()?.parse()?,
                Long("idle") => idle = parser.value()?.parse()?,
                Value(address) if to.is_none() => to = Some(address.string()?),
                Short('?' | 'h') | Long("help") => {
                    print!("{USAGE}");
                    process::exit(0);
                }
                _ => return Err(argument.unexpected()),
            }
        }
        let to = to.ok_or("the address is missing")?;
        let [connect, idle] = [connect, idle].map(|millis: u64| Duration::from_millis(millis.max(1)));
        Ok(Self { listen, to, connect, idle })
    }
}

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(options) => options,
        Err(error) => {
            eprint!("proxy: {error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = selvedge::run(|| serve(options)) {
        eprintln!("proxy: {error}");
    }
    ExitCode::FAILURE
}

/// Starts a thread for each connection, until the process is ended.
fn serve(options: Options) -> Result<(), Box<dyn Error + Send + Sync>> {
    let listener =
        TcpListener::bind(&options.listen).map_err(|error| format!("{}: {error}", options.listen))?;
    println!("listening at {}", listener.local_addr()?);
    io::stdout().flush()?;
    let options = Arc::new(options);
    for client in listener.incoming() {
        let options = Arc::clone(&options);
        let started = client.and_then(|client| {
            Builder::new().spawn(move || {
                if let Err(error) = pass_on(&client, &options) {
                    eprintln!("proxy: {}: {error}", options.to);
                }
            })
        });
        // The client is gone, or there is no room for another connection, which is then closed.
        let _ = started.inspect_err(|error| eprintln!("proxy: {error}"));
    }
    Ok(())
}

/// Connects to the other side, and copies both ways until both have ended.
fn pass_on(client: &TcpStream, options: &Options) -> io::Result<()> {
    let server = connect(options)?;
    let pair = Pair::new(client, &server, options.idle)?;
    thread::scope(|scope| {
        Builder::new().spawn_scoped(scope, || pair.copy(client, &server))?;
        pair.copy(&server, client);
        Ok(())
    })
}

/// Connects to the first address behind the name that answers. The name is resolved each time.
fn connect(options: &Options) -> io::Result<TcpStream> {
    let mut error = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in lookup_host(&options.to)? {
        match TcpStream::connect_timeout(&address, options.connect) {
            Ok(stream) => return Ok(stream),
            Err(other) => error = other,
        }
    }
    Err(error)
}

/// Two connections that are passed on to each other.
#[derive(Debug)]
struct Pair<'a> {
    streams: [&'a TcpStream; 2],
    idle: Duration,
    start: Instant,
    /// When bytes last came or went, in either direction: milliseconds since the start.
    active: AtomicU64,
}

impl<'a> Pair<'a> {
    fn new(one: &'a TcpStream, other: &'a TcpStream, idle: Duration) -> io::Result<Self> {
        let streams = [one, other];
        for stream in streams {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(idle))?;
            stream.set_write_timeout(Some(idle))?;
        }
        Ok(Self { streams, idle, start: Instant::now(), active: AtomicU64::new(0) })
    }

    /// Copies in one direction until the end, and passes that on.
    fn copy(&self, from: &TcpStream, to: &TcpStream) {
        if self.copy_bytes(from, to).is_ok() {
            let _ = to.shutdown(Shutdown::Write);
        } else {
            // The other direction cannot end well either. Its thread finds the end. One of the connections
            // may be gone already, which is an error here.
            for stream in self.streams {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    fn copy_bytes(&self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut buffer = vec![0; PART];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    self.touch();
                    to.write_all(&buffer[..length])?;
                    self.touch();
                }
                // Silence here is no reason while bytes go the other way.
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.silence() < self.idle => (),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
    }

    fn touch(&self) {
        // Relaxed: a time, and no other memory depends on it.
        self.active.store(self.start.elapsed().as_millis() as u64, Relaxed);
    }

    fn silence(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.active.load(Relaxed)))
    }
}
