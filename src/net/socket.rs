//! A socket of std, and what its calls need so that a green thread can wait in them.
//!
//! **Problem.** A green thread must not block its LWP. So its calls must not block. But a descriptor that is
//! set not to block costs a kernel thread two more system calls for each wait. And that mode belongs to all
//! copies of the descriptor, in this process and in others, whose owners may not expect it.
//!
//! **Solution.** The descriptor stays as std made it. A green thread says for each call that it must not
//! block. A thread that owns a kernel thread blocks in the call, as with std. What std's types can do
//! without waiting, they do.
//!
//! `accept` has no such flag, and neither has `read` on a pipe. Their descriptors are set not to block, and
//! a kernel thread waits in `poll` ([`Socket::call_shared`]).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use socket2::{MaybeUninitSlice, SockAddr, SockRef};

use crate::park::current;
use crate::park::kernel_park;
use crate::park::wait::{Wait, WaitError};
use crate::reactor::source::{Direction, Done, Source};
use crate::sys::moment::Moment;
use crate::sys::socket::{self, DONT_WAIT, MOST_BUFFERS, NO_SIGNAL, PEEK};
use crate::thread::{self, blocking};

/// See the header. `T` is a socket of std.
#[derive(Debug)]
pub(crate) struct Socket<T> {
    // Before the descriptor.
    source: Source,
    inner: T,
    /// The program has asked for errors instead of waits.
    nonblocking: AtomicBool,
    timeouts: [Timeout; 2],
}

/// How long `accept` waits if descriptors or memory are short. The connection stays in the listener's queue,
/// so the next call fails at once.
const SHORTAGE: Duration = Duration::from_millis(10);

/// How long a thread sleeps before it looks again whether a receiver has room.
const FULL: Duration = Duration::from_millis(1);

/// From so long on, in ns, the end of a timeout is counted in ticks, as the kernel counts those of std's
/// sockets. It may be 20 ms late. Each call reads the clock if it has to wait, so that must be quick.
const BY_TICKS: u64 = 500_000_000;

/// How long calls in one direction may take, in ns. 0 is forever.
#[derive(Debug)]
struct Timeout(AtomicU64);

impl Timeout {
    fn new(timeout: Option<Duration>) -> Self {
        Self(AtomicU64::new(Self::number(timeout)))
    }

    /// Returns a timeout as a number. What is longer than five hundred years is forever.
    fn number(timeout: Option<Duration>) -> u64 {
        timeout.and_then(|timeout| timeout.as_nanos().try_into().ok()).unwrap_or(0)
    }

    fn set(&self, timeout: Option<Duration>) {
        // Relaxed: a number.
        self.0.store(Self::number(timeout), Ordering::Relaxed);
    }

    #[inline]
    fn wait(&self) -> Wait {
        // Relaxed: a number.
        match self.0.load(Ordering::Relaxed) {
            0 => Wait::forever(),
            nanos => {
                let is_far = nanos >= BY_TICKS;
                let from = if is_far { Moment::soon() } else { Moment::now() };
                Wait { may_be_over: false, is_far, ..Wait::by(from.checked_add_nanos(nanos)) }
            }
        }
    }
}

impl<T: AsFd> Socket<T> {
    /// Takes over a new socket, which has no timeouts.
    pub(crate) fn new(inner: T) -> Self {
        Self::with_source(inner, Source::new())
    }

    /// Takes over a new socket, which threads have waited for by `source`.
    pub(crate) fn with_source(inner: T, source: Source) -> Self {
        let timeouts = [const { Timeout(AtomicU64::new(0)) }; 2];
        Self { inner, source, nonblocking: AtomicBool::new(false), timeouts }
    }

    /// Takes over a new connection to this listener, which is of its type.
    pub(crate) fn accepted<S: AsFd>(&self, connection: S) -> Socket<S> {
        Socket::with_source(connection, Source::of(self.source.has_messages()))
    }

    /// Takes over any socket. The timeouts are those that the kernel has for it: for reads, and for writes.
    /// `has_messages` is for its [source](Source::of).
    pub(crate) fn adopt(inner: T, timeouts: [Option<Duration>; 2], has_messages: bool) -> Self {
        let nonblocking = socket::is_nonblocking(inner.as_fd()).unwrap_or(false);
        if nonblocking {
            // What fails here fails in each call, too.
            let _ = socket::set_nonblocking(inner.as_fd(), false);
        }
        let this = Self::with_source(inner, Source::of(has_messages));
        let this = Self { timeouts: timeouts.map(Timeout::new), ..this };
        this.set_nonblocking(nonblocking);
        this
    }

    /// Takes over any socket, for calls that can only be told by its mode not to block.
    pub(crate) fn adopt_shared(inner: T) -> Self {
        let nonblocking = socket::is_nonblocking(inner.as_fd()).unwrap_or(false);
        if !nonblocking {
            let _ = socket::set_nonblocking(inner.as_fd(), true);
        }
        let source = Source::of(socket::has_messages(inner.as_fd()));
        let this = Self::with_source(inner, source);
        this.set_nonblocking(nonblocking);
        this
    }

    /// Returns what was taken over, or made, for such calls. It blocks.
    pub(crate) fn into_blocking(self) -> T {
        let _ = socket::set_nonblocking(self.inner.as_fd(), false);
        self.inner
    }

    /// Makes a socket of `inner`, a copy of this one's, with the same settings.
    pub(crate) fn copy(&self, inner: T) -> Self {
        let this = self.accepted(inner);
        for (copy, timeout) in this.timeouts.iter().zip(&self.timeouts) {
            copy.0.store(timeout.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        this.set_nonblocking(self.nonblocking.load(Ordering::Relaxed));
        this
    }

    pub(crate) fn inner(&self) -> &T {
        &self.inner
    }

    pub(crate) fn into_inner(self) -> T {
        self.inner
    }

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(&self.inner)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }

    /// Sets the timeout that the kernel has for this direction already.
    pub(crate) fn set_timeout(&self, direction: Direction, timeout: Option<Duration>) {
        self.timeouts[direction as usize].set(timeout);
    }

    /// Notes that the program asks for errors instead of waits.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        // Relaxed: a setting.
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Makes system calls with `attempt` until one succeeds or fails. Its second argument is a flag for the
    /// call.
    ///
    /// With a `wait`, waits as that says. Without one, waits as the socket's mode and timeout say.
    fn call<R>(
        &self,
        direction: Direction,
        wait: Option<Wait>,
        mut attempt: impl FnMut(&SockRef<'_>, i32) -> io::Result<Done<R>>,
    ) -> io::Result<R> {
        let descriptor = self.descriptor();
        let socket = SockRef::from(&descriptor);
        if let Some(wait) = wait {
            wait.begin()?;
            let attempt = |ended| attempt(&socket, flag(ended));
            return self.source.call(descriptor, direction, || wait, attempt);
        }
        // Relaxed: a setting.
        if self.nonblocking.load(Ordering::Relaxed) {
            return attempt(&socket, DONT_WAIT).map(|done| done.value);
        }
        match current::try_current() {
            Some(me) if !me.is_kernel() => {
                let wait = || self.timeouts[direction as usize].wait();
                let attempt = |ended| attempt(&socket, flag(ended));
                self.source.call(descriptor, direction, wait, attempt).map_err(as_std)
            }
            // The kernel has the timeout.
            Some(me) => kernel_park::in_call(me, direction.reason(), false, || attempt(&socket, 0))
                .map(|done| done.value),
            None => attempt(&socket, 0).map(|done| done.value),
        }
    }

    /// Reads bytes of a stream.
    #[inline]
    pub(crate) fn read(&self, buffer: &mut [u8], wait: Option<Wait>) -> io::Result<usize>
    where
        T: Stream,
    {
        self.call(Direction::Read, wait, |socket, flag| T::receive(socket, buffer, flag))
    }

    /// Reads bytes of a stream into several buffers. As `readv` does, it waits for none if there is no room.
    pub(crate) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = buffers.len().min(MOST_BUFFERS);
        let buffers = &mut buffers[..count];
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let mut slices: Vec<_> =
            buffers.iter_mut().map(|buffer| MaybeUninitSlice::new(uninit(buffer))).collect();
        self.call(Direction::Read, None, |socket, flag| {
            let (value, _) = socket.recv_vectored_with_flags(&mut slices, flag)?;
            Ok(Done { value, all: false })
        })
    }

    /// Writes bytes to a stream.
    #[inline]
    pub(crate) fn write(&self, bytes: &[u8], wait: Option<Wait>) -> io::Result<usize> {
        self.call(Direction::Write, wait, |socket, flag| {
            let value = socket.send_with_flags(bytes, flag | NO_SIGNAL)?;
            Ok(Done { value, all: value < bytes.len() })
        })
    }

    /// Writes bytes of several buffers to a stream. As `writev` does, it makes no call if there are none.
    pub(crate) fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let buffers = &buffers[..buffers.len().min(MOST_BUFFERS)];
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        self.call(Direction::Write, None, |socket, flag| {
            let value = socket.send_vectored_with_flags(buffers, flag | NO_SIGNAL)?;
            Ok(Done { value, all: false })
        })
    }

    /// Receives a message, or looks at bytes. Others may be left, however few these are.
    pub(crate) fn recv(&self, buffer: &mut [u8], peek: bool, wait: Option<Wait>) -> io::Result<usize> {
        let peek = if peek { PEEK } else { 0 };
        self.call(Direction::Read, wait, |socket, flag| {
            let value = socket.recv_with_flags(uninit(buffer), flag | peek)?;
            Ok(Done { value, all: false })
        })
    }

    /// Receives a message, or looks at it, and says where it comes from.
    pub(crate) fn recv_from(
        &self,
        buffer: &mut [u8],
        peek: bool,
        wait: Option<Wait>,
    ) -> io::Result<(usize, SockAddr)> {
        let peek = if peek { PEEK } else { 0 };
        self.call(Direction::Read, wait, |socket, flag| {
            let value = socket.recv_from_with_flags(uninit(buffer), flag | peek)?;
            Ok(Done { value, all: false })
        })
    }

    /// Sends a message.
    pub(crate) fn send(&self, bytes: &[u8], wait: Option<Wait>) -> io::Result<usize> {
        self.call(Direction::Write, wait, |socket, flag| {
            Ok(Done { value: socket.send_with_flags(bytes, flag | NO_SIGNAL)?, all: false })
        })
    }

    /// Sends a message to an address.
    pub(crate) fn send_to(&self, bytes: &[u8], to: &SockAddr, wait: Option<Wait>) -> io::Result<usize> {
        self.call(Direction::Write, wait, |socket, flag| {
            Ok(Done { value: socket.send_to_with_flags(bytes, to, flag | NO_SIGNAL)?, all: false })
        })
    }

    /// Sends a message to an address within the machine. If the receiver's queue is full, no event tells when
    /// it has room: events are of the sender's own buffer. So a green thread looks again from time to time.
    /// (Rejected: a call that blocks the LWP. On the rung `Pinned`, the receiver may belong to that LWP.)
    pub(crate) fn send_within(&self, bytes: &[u8], to: &SockAddr) -> io::Result<usize> {
        let green = current::try_current().is_some_and(|me| !me.is_kernel());
        // Relaxed: a setting.
        if !green || self.nonblocking.load(Ordering::Relaxed) {
            return self.send_to(bytes, to, None);
        }
        let end = self.timeouts[Direction::Write as usize].wait().deadline;
        loop {
            let result = self.socket().send_to_with_flags(bytes, to, DONT_WAIT | NO_SIGNAL);
            let is_full = matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            if !is_full || end.is_some_and(|end| Moment::now() >= end) {
                return result;
            }
            thread::sleep(FULL);
        }
    }

    /// Makes calls on a descriptor that does not block until one of them would not. If the second argument of
    /// `attempt` is `true`, the socket has ended.
    pub(crate) fn call_shared<R>(
        &self,
        direction: Direction,
        wait: Option<Wait>,
        mut attempt: impl FnMut(&T, bool) -> io::Result<R>,
    ) -> io::Result<R> {
        // Relaxed: a setting.
        if wait.is_none() && self.nonblocking.load(Ordering::Relaxed) {
            return attempt(&self.inner, false);
        }
        self.source.call_by_mode(self.descriptor(), direction, wait, |ended| attempt(&self.inner, ended))
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket().shutdown(how)
    }
}

/// Waits for a connection.
pub(crate) fn accept<T: AsFd, R>(
    listener: &Socket<T>,
    wait: Option<Wait>,
    mut attempt: impl FnMut(&T) -> io::Result<R>,
) -> io::Result<R> {
    // A Unix socket that was shut down tells that only to calls that may block.
    let attempt = |listener: &T, ended| if ended { Err(socket::shut_down()) } else { attempt(listener) };
    listener.call_shared(Direction::Read, wait, attempt).inspect_err(|error| {
        if socket::is_shortage(error) {
            thread::sleep(SHORTAGE);
        }
    })
}

/// Returns the error of a socket's own timeout, which std calls `WouldBlock`.
#[cold]
fn as_std(error: io::Error) -> io::Error {
    let timed_out = error.get_ref().and_then(|it| it.downcast_ref()) == Some(&WaitError::TimedOut);
    if timed_out { socket::would_block() } else { error }
}

/// A stream of bytes, as far as reads differ.
pub(crate) trait Stream: AsFd {
    /// Makes one call that reads.
    fn receive(socket: &SockRef<'_>, buffer: &mut [u8], flags: i32) -> io::Result<Done<usize>>;
}

impl Stream for std::net::TcpStream {
    #[inline]
    fn receive(socket: &SockRef<'_>, buffer: &mut [u8], flags: i32) -> io::Result<Done<usize>> {
        let length = buffer.len();
        let value = socket.recv_with_flags(uninit(buffer), flags)?;
        Ok(Done { value, all: value < length })
    }
}

impl Stream for std::os::unix::net::UnixStream {
    #[inline]
    fn receive(socket: &SockRef<'_>, buffer: &mut [u8], flags: i32) -> io::Result<Done<usize>> {
        let (value, whole) = socket::receive(socket.as_fd(), buffer, flags)?;
        Ok(Done { value, all: whole && value < buffer.len() })
    }
}

/// Returns the flag of a call that does not block. A socket of messages whose end was shut down tells that
/// only to calls that may block.
#[inline]
fn flag(ended: bool) -> i32 {
    if ended { 0 } else { DONT_WAIT }
}

/// Lets the kernel write into initialized bytes.
fn uninit(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the types have one layout, and what the slice is for only writes initialized bytes.
    unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) }
}

/// Resolves a name, such as `"localhost:80"`.
///
/// # Blocks
///
/// The thread. The C library resolves names, and blocks the caller's kernel thread meanwhile. The caller's
/// LWP gives its slot to others (as in [`thread::blocking`]).
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
