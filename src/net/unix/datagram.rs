//! Messages within the machine.

use std::io;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;

use socket2::SockAddr;

use crate::net::common::{adopt, conversions, delegate, settings};
use crate::net::socket::Socket;
use crate::park::wait::Wait;

/// A socket for messages within the machine: [`std::os::unix::net::UnixDatagram`], in whose calls a green
/// thread blocks only itself.
///
/// # Examples
///
/// ```
/// use selvedge::os::unix::net::UnixDatagram;
/// use selvedge::thread;
///
/// selvedge::run(|| {
///     let (one, other) = UnixDatagram::pair()?;
///     let receiver = thread::spawn(move || other.recv(&mut [0; 8]));
///     one.send(b"hello")?;
///     assert_eq!(receiver.join().unwrap()?, 5);
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub struct UnixDatagram(Socket<net::UnixDatagram>);

/// Returns the address that a message came from.
fn named((length, from): (usize, SockAddr)) -> io::Result<(usize, SocketAddr)> {
    let name = match from.as_unix() {
        Some(name) => name,
        // The sender has no name.
        None => SocketAddr::from_pathname("")?,
    };
    Ok((length, name))
}

impl UnixDatagram {
    /// Makes a socket at `path`, where there is nothing yet.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        net::UnixDatagram::bind(path).map(Self::new)
    }

    /// Makes a socket of this address.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::bind_addr`].
    pub fn bind_addr(at: &SocketAddr) -> io::Result<Self> {
        net::UnixDatagram::bind_addr(at).map(Self::new)
    }

    /// Makes a socket without an address.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::unbound`].
    pub fn unbound() -> io::Result<Self> {
        net::UnixDatagram::unbound().map(Self::new)
    }

    /// Makes two sockets that are connected with each other.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::pair`].
    pub fn pair() -> io::Result<(Self, Self)> {
        net::UnixDatagram::pair().map(|(one, other)| (Self::new(one), Self::new(other)))
    }

    fn new(socket: net::UnixDatagram) -> Self {
        Self(Socket::new(socket))
    }

    /// Sends to the socket at `path` from now on, without naming it.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::connect`].
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.0.inner().connect(path)
    }

    /// Waits for a message. Returns its length, and where it comes from.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::recv_from`].
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.recv_from(buffer, false, None).and_then(named)
    }

    /// Waits for a message.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::recv`].
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer, false, None)
    }

    /// Does what [`recv`](Self::recv) does, and waits as `wait` says.
    ///
    /// # Errors
    ///
    /// As there, and as [`TcpStream::read_with`](crate::net::TcpStream::read_with).
    pub fn recv_with(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.0.recv(buffer, false, Some(wait))
    }

    /// Sends a message to the socket at `path`.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::send_to`].
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.0.send_to(bytes, &SockAddr::unix(path)?, None)
    }

    /// Sends a message to where this socket is connected to.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::send`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes, None)
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    ///
    /// As std's method.
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Returns another handle to the same socket. Its timeouts and its mode are those of now.
    ///
    /// # Errors
    ///
    /// As std's method.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.copy(self.0.inner().try_clone()?)))
    }

    delegate! {
        local_addr() -> SocketAddr;
        peer_addr() -> SocketAddr;
    }
}

conversions!(UnixDatagram, net::UnixDatagram, |socket| adopt!(socket), |socket| socket.0.into_inner());
settings!(UnixDatagram);
