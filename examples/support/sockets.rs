//! TCP as a program with threads sees it: calls that block.
//!
//! std's sockets block the caller's kernel thread. On the M:N runtime a program can say so beforehand
//! (`thread::blocking`), so that the slot is free to take at once; or leave it to the monitor to find out.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use selvedge::thread;

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

/// Says if a thread announces that it may block in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    Announced,
    Bare,
}

impl Manners {
    #[inline]
    fn call<T>(self, f: impl FnOnce() -> T) -> T {
        match self {
            Self::Announced => thread::blocking(f),
            Self::Bare => f(),
        }
    }
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

/// A connection of std in a thread of Selvedge. Only reads are announced: the messages are small, and fit
/// into the socket.
#[derive(Debug)]
pub(crate) struct Stream {
    stream: TcpStream,
    manners: Manners,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.manners.call(|| self.stream.read(buffer))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Network for Private {
    type Listener = TcpListener;
    type Stream = Stream;

    fn listen(address: SocketAddr, backlog: u32) -> io::Result<Self::Listener> {
        Std::listen(address, backlog)
    }

    fn address(listener: &Self::Listener) -> io::Result<SocketAddr> {
        Std::address(listener)
    }

    fn accept(listener: &Self::Listener, manners: Manners) -> io::Result<Self::Stream> {
        Ok(Stream { stream: manners.call(|| Std::accept(listener, manners))?, manners })
    }

    fn connect(address: SocketAddr, manners: Manners) -> io::Result<Self::Stream> {
        Ok(Stream { stream: manners.call(|| Std::connect(address, manners))?, manners })
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
