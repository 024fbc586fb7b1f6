//! Descriptors of any kind, in threads that wait for them: pipes, terminals, processes, counters of events.
//!
//! Sockets have types of their own, in [`net`](crate::net). For all other descriptors that can be polled
//! there is [`Async`]. A green thread that waits in it blocks only itself.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use crate::park::wait::Wait;
use crate::reactor::source::{self, Direction, Source, VainTurns};
use crate::sys::poll;
use crate::sys::socket;

/// A descriptor for which a thread waits without its kernel thread.
///
/// It reads and writes as the value inside does. If that would block, the calling thread waits: a green
/// thread alone, any other with its kernel thread. The descriptor is set not to block. That mode belongs to
/// all its copies, in other processes too. [`into_inner`](Self::into_inner) sets it back, and dropping does
/// not. If another value waits for the same descriptor then, its calls block the kernel thread.
///
/// # Blocks
///
/// If the descriptor cannot be polled, as a file on a disk, everything works. But a green thread then blocks
/// its LWP while the disk is read, and the runtime makes up for that as for
/// [`thread::blocking`](crate::thread::blocking). [`is_pollable`](Self::is_pollable) tells.
///
/// On Linux, no event tells when the receiver of a message within the machine has room, unless the sender is
/// connected with it. A thread that waits for that looks again every millisecond.
///
/// # Examples
///
/// The output of another process:
///
/// ```
/// use std::io::Read;
/// use std::process::{Command, Stdio};
/// use selvedge::io::Async;
///
/// let text = selvedge::run(|| {
///     let mut child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
///     let mut output = Async::new(child.stdout.take().expect("it is piped"))?;
///     let mut text = String::new();
///     output.read_to_string(&mut text)?;
///     child.wait()?;
///     std::io::Result::Ok(text)
/// })?;
/// assert_eq!(text, "hello\n");
/// # std::io::Result::Ok(())
/// ```
pub struct Async<T> {
    // Before the descriptor.
    source: Source,
    inner: T,
    /// The descriptor's mode was to block.
    blocked: bool,
}

impl<T: AsFd> Async<T> {
    /// Takes over a descriptor, and sets it not to block.
    ///
    /// # Errors
    ///
    /// If the mode cannot be read, or set.
    pub fn new(inner: T) -> io::Result<Self> {
        let blocked = !socket::is_nonblocking(inner.as_fd())?;
        if blocked {
            socket::set_nonblocking(inner.as_fd(), true)?;
        }
        Ok(Self { inner, source: Source::new(), blocked })
    }

    /// Returns the value inside, for calls that do not wait.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns the value inside. Its descriptor has the mode that it had.
    ///
    /// # Errors
    ///
    /// If the mode cannot be set.
    pub fn into_inner(self) -> io::Result<T> {
        if self.blocked {
            socket::set_nonblocking(self.inner.as_fd(), false)?;
        }
        Ok(self.inner)
    }

    /// Returns `false` if the kernel reports no events of this descriptor, as for files on a disk. A green
    /// thread then blocks its LWP where it waits.
    ///
    /// # Errors
    ///
    /// If there are no descriptors to find that out with.
    pub fn is_pollable(&self) -> io::Result<bool> {
        poll::is_pollable(self.inner.as_fd())
    }

    /// Waits until the descriptor can be read from, or has ended.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be polled.
    pub fn readable(&self) -> io::Result<()> {
        self.until(Direction::Read, None)
    }

    /// Does what [`readable`](Self::readable) does, and waits as `wait` says.
    ///
    /// # Errors
    ///
    /// As there, and a [`WaitError`](crate::WaitError) inside.
    pub fn readable_with(&self, wait: Wait) -> io::Result<()> {
        self.until(Direction::Read, Some(wait))
    }

    /// Waits until the descriptor can be written to, or has ended.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be polled.
    pub fn writable(&self) -> io::Result<()> {
        self.until(Direction::Write, None)
    }

    /// Does what [`writable`](Self::writable) does, and waits as `wait` says.
    ///
    /// # Errors
    ///
    /// As there, and a [`WaitError`](crate::WaitError) inside.
    pub fn writable_with(&self, wait: Wait) -> io::Result<()> {
        self.until(Direction::Write, Some(wait))
    }

    /// Calls `read` until it does not return `WouldBlock`, and waits until the descriptor can be read in
    /// between. For calls that this type does not know.
    ///
    /// `read` may return `WouldBlock` only if the system did so for this descriptor. If it does so on its own
    /// while there is something to read, the wait may not end.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn when_readable<R>(&self, read: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.when(Direction::Read, None, read)
    }

    /// Does what [`when_readable`](Self::when_readable) does, and waits as `wait` says.
    ///
    /// # Errors
    ///
    /// As there, and a [`WaitError`](crate::WaitError) inside.
    pub fn when_readable_with<R>(&self, read: impl FnMut(&T) -> io::Result<R>, wait: Wait) -> io::Result<R> {
        self.when(Direction::Read, Some(wait), read)
    }

    /// Calls `write` until it does not return `WouldBlock`, and waits until the descriptor can be written to
    /// in between. As for [`when_readable`](Self::when_readable), `WouldBlock` must be the system's.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub fn when_writable<R>(&self, write: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.when(Direction::Write, None, write)
    }

    /// Does what [`when_writable`](Self::when_writable) does, and waits as `wait` says.
    ///
    /// # Errors
    ///
    /// As there, and a [`WaitError`](crate::WaitError) inside.
    pub fn when_writable_with<R>(&self, write: impl FnMut(&T) -> io::Result<R>, wait: Wait) -> io::Result<R> {
        self.when(Direction::Write, Some(wait), write)
    }

    fn when<R>(
        &self,
        direction: Direction,
        wait: Option<Wait>,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.source.call_by_mode(self.inner.as_fd(), direction, wait, |_| attempt(&self.inner))
    }

    fn until(&self, direction: Direction, wait: Option<Wait>) -> io::Result<()> {
        self.when(direction, wait, |inner| {
            let descriptor = inner.as_fd().as_raw_fd();
            let ready =
                poll::until_ready(descriptor, direction == Direction::Write, None, Some(Duration::ZERO))?;
            if ready { Ok(()) } else { Err(socket::would_block()) }
        })
    }

    /// Makes calls that need the value to themselves, and waits in between.
    fn exclusive<R>(
        &mut self,
        direction: Direction,
        mut attempt: impl FnMut(&mut T) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut vain = VainTurns::default();
        loop {
            match attempt(&mut self.inner) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !source::pauses(self.inner.as_fd(), direction, Wait::forever())? {
                        vain.nap_after_many(Wait::forever())?;
                        self.until(direction, None)?;
                    }
                }
                result => return result,
            }
        }
    }
}

impl<T: AsFd + Read> Read for Async<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.exclusive(Direction::Read, |inner| inner.read(buffer))
    }
}

impl<T: AsFd> Read for &Async<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_readable(|mut inner| inner.read(buffer))
    }
}

impl<T: AsFd + Write> Write for Async<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.exclusive(Direction::Write, |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.exclusive(Direction::Write, Write::flush)
    }
}

impl<T: AsFd> Write for &Async<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.when_writable(|mut inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.when_writable(|mut inner| inner.flush())
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Async<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_fd().as_raw_fd()
    }
}

crate::shown::debug! { [T: std::fmt::Debug] Async<T>: "Async", "inner": |it| &it.inner }
