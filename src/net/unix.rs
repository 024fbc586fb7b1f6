//! Unix sockets, for `os::unix::net`.

mod datagram;
mod listener;
mod stream;

pub use self::datagram::UnixDatagram;
pub use self::listener::{Incoming, UnixListener};
pub use self::stream::UnixStream;
pub use std::os::unix::net::SocketAddr;
