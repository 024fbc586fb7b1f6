//! TCP as a program with threads sees it: calls that block.
//!
//! In Selvedge's threads, the sockets are those of `selvedge::net`, in which a green thread blocks only
//! itself. std's block the caller's kernel thread. On the M:N runtime a program can say so beforehand
//! (`thread::blocking`), so that the slot is free to take at once. Otherwise the monitor finds out.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use selvedge::{net, thread};

use super::library::{Library, Std};
use super::selvedge::Private;

/// A library of threads that can talk to each other's sockets.
pub(crate) trait Network: Library {
    /// Where connections arrive.
    type Listener: Send + 'static;
    /// A connection.
    type Stream: Read + Write + Send + 'static;

    /// Listens at `address`, where so many may connect at once; port 0: at any that is free.
    fn listen(address: SocketAddr, backlog: u32) -> io::Result<Self::Listener>;

    /// Where a listener can be reached.
    fn address(listener: &Self::Listener) -> io::Result<SocketAddr>;

    /// Waits for a connection. What is written to it leaves at once.
    fn accept(listener: &Self::Listener, manners: Manners) -> io::Result<Self::Stream>;

    /// Connects. What is written leaves at once.
    fn connect(address: SocketAddr, manners: Manners) -> io::Result<Self::Stream>;
}

/// Which sockets Selvedge's threads have, and if a thread announces that it may block in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Those of `selvedge::net`.
    Net,
    /// Those of std, and each read is announced.
    Announced,
    /// Those of std, as in a program that knows nothing of green threads.
    Bare,
}

/// A library of kernel threads: a call that blocks holds up only its caller, so std's sockets will do.
pub(crate) trait KernelThreads: Library {}

impl KernelThreads for Std {}

impl<L: KernelThreads> Network for L {
    type Listener = TcpListener;
    type Stream = TcpStream;

    fn listen(address: SocketAddr, backlog: u32) -> io::Result<Self::Listener> {
        let listener = TcpListener::bind(address)?;
        lengthen(&listener, backlog)?;
        Ok(listener)
    }

    fn address(listener: &Self::Listener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    fn accept(listener: &Self::Listener, _: Manners) -> io::Result<Self::Stream> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn connect(address: SocketAddr, _: Manners) -> io::Result<Self::Stream> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A connection in a thread of Selvedge. Only reads are announced: the messages are small, and fit into the
/// socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Net(net::TcpStream),
    Announced(TcpStream),
    Bare(TcpStream),
}

impl Stream {
    fn new(stream: net::TcpStream, manners: Manners) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(match manners {
            Manners::Net => Self::Net(stream),
            Manners::Announced => Self::Announced(stream.into_std()),
            Manners::Bare => Self::Bare(stream.into_std()),
        })
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Net(stream) => stream.read(buffer),
            Self::Announced(stream) => thread::blocking(|| stream.read(buffer)),
            Self::Bare(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Net(stream) => stream.write(bytes),
            Self::Announced(stream) | Self::Bare(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Network for Private {
    type Listener = net::TcpListener;
    type Stream = Stream;

    fn listen(address: SocketAddr, backlog: u32) -> io::Result<Self::Listener> {
        let listener = net::TcpListener::bind(address)?;
        lengthen(&listener, backlog)?;
        Ok(listener)
    }

    fn address(listener: &Self::Listener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }

    fn accept(listener: &Self::Listener, manners: Manners) -> io::Result<Self::Stream> {
        let (stream, _) = listener.accept()?;
        Stream::new(stream, manners)
    }

    fn connect(address: SocketAddr, manners: Manners) -> io::Result<Self::Stream> {
        Stream::new(net::TcpStream::connect(address)?, manners)
    }
}

/// Makes the queue of a listener longer: std's holds 128, and a client that finds it full comes back a
/// second later.
pub(crate) fn lengthen(listener: &impl AsRawFd, backlog: u32) -> io::Result<()> {
    let backlog = libc::c_int::try_from(backlog).unwrap_or(libc::c_int::MAX);
    // SAFETY: no memory is involved.
    match unsafe { libc::listen(listener.as_raw_fd(), backlog) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
