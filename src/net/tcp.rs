//! TCP connections, and where they arrive.

use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, SockAddr, Type};

use super::common::{adopt, delegate, listener, settings, socket, stream};
use super::socket::{Socket, each};
use crate::park::current;
use crate::park::wait::Wait;
use crate::reactor::source::{Direction, Done, Source};
use crate::sys::socket;

/// A TCP connection: [`std::net::TcpStream`]. In its calls, a green thread blocks only itself.
///
/// # Examples
///
/// ```
/// use selvedge::net::{TcpListener, TcpStream};
/// use selvedge::{Mxn, Runtime, Wait, thread};
/// use std::io::{ErrorKind, Read, Write};
/// use std::time::Duration;
///
/// let rt = Mxn::new()?;
/// rt.run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let client = thread::spawn(move || TcpStream::connect(address));
///     let (server, _) = listener.accept()?;
///     let mut client = client.join().unwrap()?;
///     let soon = Wait::timeout(Duration::from_millis(1));
///     assert_eq!(server.read_with(&mut [0], soon).unwrap_err().kind(), ErrorKind::TimedOut);
///     client.write_all(b"x")?;
///     assert_eq!(server.read_with(&mut [0], Wait::forever())?, 1);
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub struct TcpStream(Socket<net::TcpStream>);

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    ///
    /// # Blocks
    ///
    /// The thread only. To resolve a name blocks its LWP: [`lookup_host`](super::lookup_host) says so first.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpStream::connect`].
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        each(to, |to| connect(to, None))
    }

    /// Connects to the address, and waits for that at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpStream::connect_timeout`].
    pub fn connect_timeout(to: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
        }
        connect(to, Some(Wait::timeout(timeout)))
    }

    /// Connects to the address, and waits for that as `wait` says.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and as [`read_with`](Self::read_with).
    pub fn connect_with(to: &SocketAddr, wait: Wait) -> io::Result<Self> {
        wait.begin()?;
        connect(to, Some(wait))
    }

    /// Reads bytes that stay where they are.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpStream::peek`].
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer, true, None)
    }

    delegate! {
        local_addr() -> SocketAddr;
        peer_addr() -> SocketAddr;
        set_nodelay(nodelay: bool) -> ();
        nodelay() -> bool;
        set_ttl(ttl: u32) -> ();
        ttl() -> u32;
    }

    /// Takes over a connection that was just made.
    fn new(stream: net::TcpStream) -> Self {
        Self(Socket::new(stream))
    }
}

socket!(TcpStream, net::TcpStream, |stream| adopt!(stream, may_stop), |stream| stream.0.into_inner());
settings!(TcpStream);
stream!(TcpStream);

/// Returns `true` if a call that reads from this stream may stop before the end of what has come. That of a
/// Unix socket stops where descriptors came with the bytes, and only `UnixStream` notices that.
fn may_stop(stream: BorrowedFd<'_>) -> bool {
    socket::has_messages(stream) || socket::is_within(stream)
}

fn connect(to: &SocketAddr, wait: Option<Wait>) -> io::Result<TcpStream> {
    let green = current::try_current().is_some_and(|me| !me.is_kernel());
    if !green && wait.is_none() {
        return net::TcpStream::connect(to).map(TcpStream::new);
    }
    let socket = socket2::Socket::new(Domain::for_address(*to), Type::STREAM, None)?;
    socket::set_nonblocking(socket.as_fd(), true)?;
    let source = Source::new();
    match socket.connect(&SockAddr::from(*to)) {
        Err(error) if socket::is_in_progress(&error) => {
            // Until the connection is made, nothing can be sent. `peer_addr` tells that from an error.
            let mut begun = false;
            let attempt = |_| {
                if !std::mem::replace(&mut begun, true) {
                    return Err(socket::would_block());
                }
                if let Some(error) = socket.take_error()? {
                    return Err(error);
                }
                socket.peer_addr().map_err(|_| socket::would_block())?;
                Ok(Done { value: (), all: false })
            };
            source.call(socket.as_fd(), Direction::Write, || wait.unwrap_or(Wait::forever()), attempt)?;
        }
        other => other?,
    }
    socket::set_nonblocking(socket.as_fd(), false)?;
    Ok(TcpStream(Socket::with_source(socket.into(), source)))
}

/// Where TCP connections arrive: [`std::net::TcpListener`]. In its calls, a green thread blocks only itself.
///
/// For an example, see the [module](super).
pub struct TcpListener(Socket<net::TcpListener>);

impl TcpListener {
    /// Listens at the first of the addresses that can be had.
    ///
    /// # Errors
    ///
    /// As [`std::net::TcpListener::bind`].
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = each(at, |at| net::TcpListener::bind(at))?;
        socket::set_nonblocking(listener.as_fd(), true)?;
        Ok(Self(Socket::new(listener)))
    }

    delegate! {
        local_addr() -> SocketAddr;
        set_ttl(ttl: u32) -> ();
        ttl() -> u32;
        take_error() -> Option<io::Error>;
    }
}

listener!(TcpListener, net::TcpListener, TcpStream);
