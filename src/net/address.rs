//! From names to addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::thread::blocking;

/// Resolves a name, such as `"localhost:80"`.
///
/// # Blocks
///
/// The thread. The C library resolves names, and blocks the caller's kernel thread meanwhile. The caller's
/// LWP gives its slot to others (as in [`thread::blocking`](crate::thread::blocking)).
///
/// # Errors
///
/// As [`ToSocketAddrs::to_socket_addrs`].
///
/// # Examples
///
/// ```
/// use selvedge::net::lookup_host;
///
/// let mut addresses = lookup_host("127.0.0.1:80")?;
/// assert_eq!(addresses.next(), Some(([127, 0, 0, 1], 80).into()));
/// # std::io::Result::Ok(())
/// ```
pub fn lookup_host(host: impl ToSocketAddrs) -> io::Result<impl Iterator<Item = SocketAddr>> {
    blocking(|| host.to_socket_addrs())
}

/// Calls `f` with each address, until it succeeds.
pub(super) fn each<T>(
    host: impl ToSocketAddrs,
    mut f: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    // Not announced, because the host is an address as a rule. The monitor notices a name that takes long.
    for address in host.to_socket_addrs()? {
        match f(&address) {
            Ok(value) => return Ok(value),
            Err(error) => last = Some(error),
        }
    }
    Err(last
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")))
}
