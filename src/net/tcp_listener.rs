//! Where TCP connections arrive.

use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;

use super::address;
use super::common::{conversions, delegate};
use super::socket::{Socket, accept};
use super::tcp_stream::TcpStream;
use crate::park::wait::Wait;
use crate::sys::socket;

/// Where TCP connections arrive: [`std::net::TcpListener`], in whose calls a green thread blocks only itself.
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
        let listener = address::each(at, |at| net::TcpListener::bind(at))?;
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
    /// As [`std::net::TcpListener::accept`]. If descriptors or memory are short, it waits for 10 ms before it
    /// returns the error.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept_as(None)
    }

    /// Waits for a connection as `wait` says.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept), and as [`TcpStream::read_with`].
    pub fn accept_with(&self, wait: Wait) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept_as(Some(wait))
    }

    fn accept_as(&self, wait: Option<Wait>) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = accept(&self.0, wait, net::TcpListener::accept)?;
        Ok((TcpStream::new(stream), peer))
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
        set_ttl(ttl: u32) -> ();
        ttl() -> u32;
        take_error() -> Option<io::Error>;
    }
}

conversions!(TcpListener, net::TcpListener, |listener| Self(Socket::adopt_shared(listener)), |listener| {
    listener.0.into_blocking()
});

/// An iterator over the connections of a [`TcpListener`].
#[derive(Debug)]
#[must_use = "it accepts nothing until it is asked for the next connection"]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}
