//! Where connections within the machine arrive.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;

use super::stream::UnixStream;
use crate::net::common::{delegate, listener};
use crate::net::socket::Socket;
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
