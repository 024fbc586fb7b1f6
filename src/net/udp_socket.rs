//! UDP.

use std::io;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use socket2::SockAddr;

use super::common::{adopt, datagrams, delegate, settings, socket};
use super::socket::{Socket, each};
use crate::park::wait::Wait;

/// A UDP socket: [`std::net::UdpSocket`]. In its calls, a green thread blocks only itself.
///
/// # Examples
///
/// ```
/// use selvedge::net::UdpSocket;
/// use selvedge::thread;
///
/// selvedge::run(|| {
///     let one = UdpSocket::bind("127.0.0.1:0")?;
///     let other = UdpSocket::bind("127.0.0.1:0")?;
///     let (from, to) = (one.local_addr()?, other.local_addr()?);
///     let receiver = thread::spawn(move || other.recv_from(&mut [0; 8]));
///     one.send_to(b"hello", to)?;
///     assert_eq!(receiver.join().unwrap()?, (5, from));
///     std::io::Result::Ok(())
/// })?;
/// # std::io::Result::Ok(())
/// ```
pub struct UdpSocket(Socket<net::UdpSocket>);

/// Returns the address that a message of IP came from.
fn ip((length, from): (usize, SockAddr)) -> io::Result<(usize, SocketAddr)> {
    let no_ip = || io::Error::new(io::ErrorKind::InvalidData, "the message is not from an IP address");
    Ok((length, from.as_socket().ok_or_else(no_ip)?))
}

impl UdpSocket {
    /// Makes a socket at the first of the addresses that can be had.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::bind`].
    pub fn bind(at: impl ToSocketAddrs) -> io::Result<Self> {
        each(at, |at| net::UdpSocket::bind(at)).map(|socket| Self(Socket::new(socket)))
    }

    /// Takes messages only from the first of the addresses that can be had, and sends to it without naming
    /// it.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::connect`].
    pub fn connect(&self, to: impl ToSocketAddrs) -> io::Result<()> {
        each(to, |to| self.0.inner().connect(to))
    }

    /// Does what [`recv_from`](Self::recv_from) does, and waits as `wait` says.
    ///
    /// # Errors
    ///
    /// As there, and as [`TcpStream::read_with`](super::TcpStream::read_with).
    pub fn recv_from_with(&self, buffer: &mut [u8], wait: Wait) -> io::Result<(usize, SocketAddr)> {
        self.0.recv_from(buffer, false, Some(wait)).and_then(ip)
    }

    /// Does what [`recv_from`](Self::recv_from) does, and leaves the message where it is.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.recv_from(buffer, true, None).and_then(ip)
    }

    /// Sends a message to the first of the addresses.
    ///
    /// # Errors
    ///
    /// As [`std::net::UdpSocket::send_to`].
    pub fn send_to(&self, bytes: &[u8], to: impl ToSocketAddrs) -> io::Result<usize> {
        let to = to.to_socket_addrs()?.next();
        let to =
            to.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"))?;
        self.0.send_to(bytes, &to.into(), None)
    }

    /// Does what [`recv`](Self::recv) does, and leaves the message where it is.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer, true, None)
    }

    delegate! {
        local_addr() -> SocketAddr;
        peer_addr() -> SocketAddr;
        set_broadcast(broadcast: bool) -> ();
        broadcast() -> bool;
        set_multicast_loop_v4(on: bool) -> ();
        multicast_loop_v4() -> bool;
        set_multicast_ttl_v4(ttl: u32) -> ();
        multicast_ttl_v4() -> u32;
        set_multicast_loop_v6(on: bool) -> ();
        multicast_loop_v6() -> bool;
        set_ttl(ttl: u32) -> ();
        ttl() -> u32;
        join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
        leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
        leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    }
}

socket!(UdpSocket, net::UdpSocket, |socket| adopt!(socket), |socket| socket.0.into_inner());
settings!(UdpSocket);
datagrams!(UdpSocket, std::net::UdpSocket, ip);
