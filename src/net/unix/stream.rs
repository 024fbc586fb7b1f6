//! Connections between processes of one machine.

use std::io;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;

use crate::net::common::{adopt, conversions, delegate, settings, stream};
use crate::net::socket::Socket;
use crate::thread::blocking;

/// A connection within the machine: [`std::os::unix::net::UnixStream`], in whose calls a green thread blocks
/// only itself.
///
/// # Examples
///
/// ```
/// use selvedge::os::unix::net::UnixStream;
/// use selvedge::thread;
/// use std::io::{Read, Write};
///
/// selvedge::run(|| {
///     let (mut one, other) = UnixStream::pair()?;
///     let reader = thread::spawn(move || {
///         let mut all = String::new();
///         (&other).read_to_string(&mut all).map(|_| all)
///     });
///     one.write_all(b"hello")?;
///     drop(one);
///     assert_eq!(reader.join().unwrap()?, "hello");
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub struct UnixStream(Socket<net::UnixStream>);

impl UnixStream {
    /// Connects to the socket at `path`.
    ///
    /// # Blocks
    ///
    /// The thread's LWP, which gives its slot to others, if the listener's queue is full. Otherwise nothing.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixStream::connect`].
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        // The kernel tells no thread when there is room in the queue.
        blocking(|| net::UnixStream::connect(path)).map(Self::new)
    }

    /// Connects to the socket of this address. Blocks as [`connect`](Self::connect) does.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixStream::connect_addr`].
    pub fn connect_addr(to: &SocketAddr) -> io::Result<Self> {
        blocking(|| net::UnixStream::connect_addr(to)).map(Self::new)
    }

    /// Makes two sockets that are connected with each other.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixStream::pair`].
    pub fn pair() -> io::Result<(Self, Self)> {
        net::UnixStream::pair().map(|(one, other)| (Self::new(one), Self::new(other)))
    }

    delegate! {
        local_addr() -> SocketAddr;
        peer_addr() -> SocketAddr;
    }

    /// Takes over a connection that was just accepted or made.
    pub(super) fn new(stream: net::UnixStream) -> Self {
        Self(Socket::new(stream))
    }
}

conversions!(UnixStream, net::UnixStream, |stream| adopt!(stream), |stream| stream.0.into_inner());
settings!(UnixStream);
stream!(UnixStream);
