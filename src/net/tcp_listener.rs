//! Where TCP connections arrive.

use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;

use super::address;
use super::common::{delegate, listener};
use super::socket::Socket;
use super::tcp_stream::TcpStream;
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

    delegate! {
        local_addr() -> SocketAddr;
        set_ttl(ttl: u32) -> ();
        ttl() -> u32;
        take_error() -> Option<io::Error>;
    }
}

listener!(TcpListener, net::TcpListener, TcpStream);
