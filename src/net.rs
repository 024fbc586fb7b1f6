//! Sockets as in [`std::net`], for threads of both runtimes.
//!
//! A green thread that waits in a call here blocks only itself: its LWP runs other threads. With std's
//! sockets, it would block its LWP. A thread that owns a kernel thread, one of `onetoone`, a bound one or a
//! foreign one, blocks in the system call, as with std. To port a program, change its `use` lines:
//!
//! | std | Selvedge |
//! |---|---|
//! | `std::net` | [`selvedge::net`](self) |
//! | `std::os::unix::net` | [`selvedge::os::unix::net`](crate::os::unix::net) |
//!
//! The types have std's methods, and some more that take a [`Wait`](crate::Wait): these end at a deadline, or
//! when the thread is interrupted. The types that no call waits for, such as [`SocketAddr`], are std's own.
//!
//! # What is different
//!
//! - `set_nonblocking` sets what calls of that value do. The mode of a [`TcpListener`]'s descriptor is always
//!   not to block, also for its copies. Other descriptors block.
//! - If a copy of a listener becomes one of std, that mode changes for all copies. From then on, `accept` by
//!   the others blocks the kernel thread, whatever their settings and their `Wait` say.
//! - If there are no descriptors or no memory for a connection, `accept` waits for 10 ms before it returns
//!   the error. A loop that goes on after an error then leaves the CPU to the threads that close connections.
//! - A timeout of a call, as in std, is an error of the kind `WouldBlock`. The error of a deadline in a
//!   `Wait` is `TimedOut`.
//! - If a descriptor cannot be polled, or there are no descriptors for that, a green thread blocks its LWP.
//! - If the program closes the runtime's own descriptors, as `closefrom` does, the runtime makes others, and
//!   the waits go on. It aborts if an LWP cannot be woken for that, as without a preemption signal. Numbers
//!   that the program uses again at once are taken for the runtime's.
//!
//! # Examples
//!
//! A server with a thread for each connection:
//!
//! ```
//! use selvedge::net::{TcpListener, TcpStream};
//! use selvedge::thread;
//! use std::io::{Read, Write, copy};
//!
//! selvedge::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     thread::spawn(move || {
//!         // Without `take`, it would serve forever.
//!         for stream in listener.incoming().take(1).flatten() {
//!             thread::spawn(move || copy(&mut &stream, &mut &stream));
//!         }
//!     });
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"hello")?;
//!     let mut back = [0; 5];
//!     stream.read_exact(&mut back)?;
//!     assert_eq!(&back, b"hello");
//!     std::io::Result::Ok(())
//! })?;
//! # std::io::Result::Ok(())
//! ```

mod common;
pub(crate) mod socket;
mod tcp;
mod udp_socket;
pub(crate) mod unix;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
    ToSocketAddrs,
};

pub use self::socket::lookup_host;
pub use self::tcp::{Incoming, TcpListener, TcpStream};
pub use self::udp_socket::UdpSocket;
