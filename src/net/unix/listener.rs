//! Where connections within the machine arrive.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;

use super::stream::UnixStream;
use crate::net::common::{conversions, delegate};
use crate::net::socket::{Socket, accept};
use crate::park::wait::Wait;
use crate::sys::socket;

/// Where connections within the machine arrive: [`std::os::unix::net::UnixListener`], in whose calls a green
/// thread blocks only itself.
///
/// # Examples
///
/// ```
/// use selvedge::os::unix::net::{UnixListener, UnixStream};
/// use std::io::{Read, Write};
///
/// selvedge::run(|| {
///     let folder = tempfile::tempdir()?;
///     let listener = UnixListener::bind(folder.path().join("socket"))?;
///     let mut client = UnixStream::connect(folder.path().join("socket"))?;
///     let (mut server, _) = listener.accept()?;
///     server.write_all(b"x")?;
///     client.read_exact(&mut [0])
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub struct UnixListener(Socket<net::UnixListener>);

impl UnixListener {
    /// Makes a socket at `path`, where there is nothing yet.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixListener::bind`].
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::new(net::UnixListener::bind(path)?)
    }

    /// Makes a socket of this address.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixListener::bind_addr`].
    pub fn bind_addr(at: &SocketAddr) -> io::Result<Self> {
        Self::new(net::UnixListener::bind_addr(at)?)
    }

    fn new(listener: net::UnixListener) -> io::Result<Self> {
        socket::set_nonblocking(listener.as_fd(), true)?;
        Ok(Self(Socket::new(listener)))
    }

    /// Waits for a connection. Returns it, and the address of its other end.
    ///
    /// # Blocks
    ///
    /// The thread only.
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept`](crate::net::TcpListener::accept).
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.accept_as(None)
    }

    /// Waits for a connection as `wait` says.
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept_with`](crate::net::TcpListener::accept_with).
    pub fn accept_with(&self, wait: Wait) -> io::Result<(UnixStream, SocketAddr)> {
        self.accept_as(Some(wait))
    }

    fn accept_as(&self, wait: Option<Wait>) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, peer) = accept(&self.0, wait, net::UnixListener::accept)?;
        Ok((UnixStream::new(stream), peer))
    }

    /// Returns an iterator over connections, which never ends.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// Returns another handle to the same listener.
    ///
    /// # Errors
    ///
    /// As std's method.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.copy(self.0.inner().try_clone()?)))
    }

    /// Sets if `accept` returns an error of the kind `WouldBlock` instead of waiting.
    ///
    /// # Errors
    ///
    /// None today; std's method returns them.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking);
        Ok(())
    }

    delegate! {
        local_addr() -> SocketAddr;
        take_error() -> Option<io::Error>;
    }
}

conversions!(UnixListener, net::UnixListener, |listener| Self(Socket::adopt_shared(listener)), |listener| {
    listener.0.into_blocking()
});

/// An iterator over the connections of a [`UnixListener`].
#[derive(Debug)]
#[must_use = "it accepts nothing until it is asked for the next connection"]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}
