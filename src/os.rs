//! Items that belong to one operating system, under the same paths as in `std::os`.

/// Unix.
pub mod unix {
    /// Sockets within the machine, as in [`std::os::unix::net`]. See [`crate::net`].
    #[cfg(feature = "net")]
    pub mod net {
        pub use crate::net::unix::{Incoming, SocketAddr, UnixDatagram, UnixListener, UnixStream};
    }

    /// Threads that own a kernel thread, as the C library sees them: [`std::os::unix::thread`].
    pub mod thread {
        pub use crate::thread::pthread::{JoinHandleExt, RawPthread};
    }
}
