//! Chapter: servers with a thread for each connection.
//!
//! # A server
//!
//! Each connection has a thread, which reads, works and writes. The program reads from top to bottom. What a
//! connection knows stands in local variables. On [`Mxn`](crate::Mxn), ten thousand such threads wait without
//! ten thousand kernel threads.
//!
//! ```
//! use selvedge::net::{TcpListener, TcpStream};
//! use selvedge::thread::{self, Builder};
//! use std::io::{self, BufRead, BufReader, Write};
//! use std::time::Duration;
//!
//! /// Answers each line with its length, until the client has no more to say.
//! fn serve(stream: &TcpStream) -> io::Result<()> {
//!     stream.set_read_timeout(Some(Duration::from_secs(60)))?;
//!     stream.set_write_timeout(Some(Duration::from_secs(10)))?;
//!     let mut output = stream;
//!     for line in BufReader::new(stream).lines() {
//!         writeln!(output, "{}", line?.len())?;
//!     }
//!     Ok(())
//! }
//!
//! /// Never returns, unless an error does.
//! fn listen(listener: &TcpListener) {
//!     for stream in listener.incoming().flatten() {
//!         // If no thread can be made, the connection is closed, and the others go on.
//!         let _ = Builder::new().spawn(move || serve(&stream));
//!     }
//! }
//!
//! selvedge::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let mut client = TcpStream::connect(listener.local_addr()?)?;
//!     thread::spawn(move || listen(&listener));
//!     client.write_all(b"hello\n")?;
//!     let mut answer = String::new();
//!     BufReader::new(&client).read_line(&mut answer)?;
//!     assert_eq!(answer, "5\n");
//!     io::Result::Ok(())
//! })?;
//! # std::io::Result::Ok(())
//! ```
//!
//! # Port it from std
//!
//! The same program with kernel threads is a server of std. This is the whole difference:
//!
//! ```diff
//! -use std::net::{TcpListener, TcpStream};
//! -use std::thread::{self, Builder};
//! +use selvedge::net::{TcpListener, TcpStream};
//! +use selvedge::thread::{self, Builder};
//!  use std::io::{self, BufRead, BufReader, Write};
//!  use std::time::Duration;
//! ...
//! -fn main() -> io::Result<()> {
//! -    listen(&TcpListener::bind("127.0.0.1:7000")?);
//! -    Ok(())
//! -}
//! +fn main() -> io::Result<()> {
//! +    selvedge::run(|| {
//! +        listen(&TcpListener::bind("127.0.0.1:7000")?);
//! +        Ok(())
//! +    })
//! +}
//! ```
//!
//! A library that takes anything with `Read` and `Write` also takes these sockets: rustls does
//! (`examples/tls_echo.rs`).
//!
//! # Time limits
//!
//! A client may go away without a word, or send a byte a minute. Each wait for a client needs a limit:
//!
//! - *For one call*: `set_read_timeout` and `set_write_timeout`, as in std. The error is of the kind
//!   `WouldBlock`. This suits a connection that may be idle for a time.
//! - *For several calls together*: [`read_with`](crate::net::TcpStream::read_with) with
//!   [`Wait::until`](crate::Wait::until). The error is of the kind `TimedOut`. This suits a request, which
//!   may come in many pieces, but must be whole in time.
//!
//! ```
//! use selvedge::net::{TcpListener, TcpStream};
//! use selvedge::{Mxn, Runtime, Wait};
//! use std::io::{self, ErrorKind, Write};
//! use std::time::{Duration, Instant};
//!
//! /// Reads a line. The client has `limit` for the whole of it.
//! fn read_line(stream: &TcpStream, limit: Duration) -> io::Result<Vec<u8>> {
//!     let wait = Wait::until(Instant::now() + limit);
//!     let mut line = Vec::new();
//!     while line.last() != Some(&b'\n') {
//!         let mut part = [0; 512];
//!         match stream.read_with(&mut part, wait)? {
//!             0 => return Err(ErrorKind::UnexpectedEof.into()),
//!             length => line.extend_from_slice(&part[..length]),
//!         }
//!     }
//!     Ok(line)
//! }
//!
//! Mxn::new()?.run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let mut client = TcpStream::connect(listener.local_addr()?)?;
//!     let (stream, _) = listener.accept()?;
//!     client.write_all(b"no end")?;
//!     let error = read_line(&stream, Duration::from_millis(5)).unwrap_err();
//!     assert_eq!(error.kind(), ErrorKind::TimedOut);
//!     io::Result::Ok(())
//! })?;
//! # std::io::Result::Ok(())
//! ```
//!
//! # What blocks what
//!
//! | in a green thread | blocks |
//! |---|---|
//! | [`net`](crate::net)'s sockets, locks, channels, `sleep`, `join` of Selvedge | the thread |
//! | an async library such as `reqwest` or `sqlx`, by [`block_on`](crate::future::block_on) | the thread |
//! | [`lookup_host`](crate::net::lookup_host), [`blocking`](crate::thread::blocking) | the LWP (1) |
//! | a file, a name that `connect` resolves, a lock of std | the LWP (2) |
//! | std's sockets, also inside a client library such as `postgres`, `redis` or `ureq` | the LWP (2) |
//!
//! 1. It gives its slot to another LWP at once, or as soon as the call lasts.
//! 2. The monitor notices within milliseconds, and gives the slot to another LWP.
//!
//! So a library that uses std's sockets works unchanged. Each of its calls that waits holds one LWP, and
//! there are at most [`max_lwps`](crate::mxn::Builder::max_lwps): plan for as many as the library's pool
//! has connections. Threads that wait in sockets of `net` hold none.
//!
//! A file that is in memory is read in microseconds. If the disk may take longer, say so with
//! [`thread::blocking`](crate::thread::blocking): then the others do not wait until the monitor notices.
//!
//! # The end
//!
//! A server should end when it is asked to: it accepts no more connections, answers what it has been asked,
//! and closes what is idle.
//!
//! - *The thread that accepts* waits with
//!   [`accept_with`](crate::net::TcpListener::accept_with)`(Wait::forever().interruptible())`. A thread
//!   that SIGTERM wakes calls [`interrupt`](crate::thread::Thread::interrupt) for it: one that waits by
//!   `selvedge::signal` (feature `signal`), or that of the crate `ctrlc`. A signal handler must not.
//! - *An idle connection*: another thread calls `stream.shutdown(Shutdown::Read)`. The thread that waits
//!   for a request finds the end of the stream. One that writes an answer is not disturbed.
//! - *The rest*: [`Mxn::shutdown`](crate::Mxn::shutdown) waits for the threads, up to a limit. It names those
//!   that are left.
//!
//! # Programs to copy from
//!
//! - `examples/http_server`: HTTP/1.1 with files, keep-alive, limits of size and time, and an orderly end.
//! - `examples/proxy.rs`: TCP, both ways at once, with half-closed connections.
//! - `examples/tls_echo.rs`: TLS.
