//! Unix sockets, for `os::unix::net`.

use std::borrow::Cow;
#[cfg(target_os = "linux")]
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;

use socket2::SockAddr;

use super::common::{adopt, datagrams, delegate, listener, settings, socket, stream};
use super::socket::Socket;
use crate::sys::socket;
use crate::thread::blocking;

pub use std::os::unix::net::SocketAddr;

/// A connection within the machine: [`std::os::unix::net::UnixStream`]. In its calls, a green thread blocks
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

    /// Takes over a connection that was just made.
    fn new(stream: net::UnixStream) -> Self {
        Self(Socket::new(stream))
    }
}

socket!(UnixStream, net::UnixStream, |stream| adopt!(stream), |stream| stream.0.into_inner());
settings!(UnixStream);
stream!(UnixStream);

/// Where connections within the machine arrive: [`std::os::unix::net::UnixListener`]. In its calls, a green
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

    delegate! {
        local_addr() -> SocketAddr;
        take_error() -> Option<io::Error>;
    }
}

listener!(UnixListener, net::UnixListener, UnixStream);

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

/// A socket for messages within the machine: [`std::os::unix::net::UnixDatagram`]. In its calls, a green
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

/// Returns the address that a message came from. A sender without a name has an unnamed one. So has one
/// with a path that leaves no room for a zero behind it: std makes no such address.
fn named((length, from): (usize, SockAddr)) -> io::Result<(usize, SocketAddr)> {
    let name = from.as_pathname().and_then(|path| SocketAddr::from_pathname(path).ok());
    let name = name.or_else(|| from_abstract(&from));
    Ok((length, name.map_or_else(|| SocketAddr::from_pathname(""), Ok)?))
}

/// Returns an address as calls take it.
fn raw(to: &SocketAddr) -> io::Result<SockAddr> {
    let path = to.as_pathname().map(Cow::Borrowed);
    SockAddr::unix(path.or_else(|| to_abstract(to)).unwrap_or_default())
}

#[cfg(target_os = "linux")]
fn from_abstract(from: &SockAddr) -> Option<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(from.as_abstract_namespace()?).ok()
}

/// Returns the path that the crate `socket2` takes for an abstract name.
#[cfg(target_os = "linux")]
fn to_abstract(to: &SocketAddr) -> Option<Cow<'_, Path>> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStringExt;
    let path = [b"\0", to.as_abstract_name()?].concat();
    Some(PathBuf::from(OsString::from_vec(path)).into())
}

/// There are none.
#[cfg(not(target_os = "linux"))]
fn from_abstract(_: &SockAddr) -> Option<SocketAddr> {
    None
}

/// There are none.
#[cfg(not(target_os = "linux"))]
fn to_abstract(_: &SocketAddr) -> Option<Cow<'_, Path>> {
    None
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

    /// Sends to the socket of this address from now on, without naming it.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::connect_addr`].
    pub fn connect_addr(&self, to: &SocketAddr) -> io::Result<()> {
        self.0.inner().connect_addr(to)
    }

    /// Sends a message to the socket at `path`.
    ///
    /// # Blocks
    ///
    /// The thread only. If the receiver's queue is full, a green thread looks again every millisecond.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::send_to`].
    pub fn send_to(&self, bytes: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_to_addr(bytes, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a message to the socket of this address. Blocks as [`send_to`](Self::send_to) does.
    ///
    /// # Errors
    ///
    /// As [`std::os::unix::net::UnixDatagram::send_to_addr`].
    pub fn send_to_addr(&self, bytes: &[u8], to: &SocketAddr) -> io::Result<usize> {
        self.0.send_within(bytes, &raw(to)?)
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    ///
    /// As std's method.
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    delegate! {
        local_addr() -> SocketAddr;
        peer_addr() -> SocketAddr;
    }
}

socket!(UnixDatagram, net::UnixDatagram, |socket| adopt!(socket), |socket| socket.0.into_inner());
settings!(UnixDatagram);
datagrams!(UnixDatagram, std::os::unix::net::UnixDatagram, named);
