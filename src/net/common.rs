//! What the kinds of sockets have in common: conversions, timeouts, settings, messages, and streams of bytes.

/// Defines what all sockets have: each is a wrapper of [`Socket`](super::socket::Socket), and becomes other
/// types. `$adopt` makes one of std's type.
macro_rules! socket {
    ($name:ident, $std:ty, |$value:ident| $adopt:expr, |$own:ident| $give:expr) => {
        impl $name {
            /// Takes over a socket of std, with its settings.
            #[must_use]
            pub fn from_std($value: $std) -> Self {
                $adopt
            }

            /// Returns the socket as one of std. It blocks.
            #[must_use]
            pub fn into_std(self) -> $std {
                let $own = self;
                $give
            }

            /// Returns another handle to the same socket. Its timeouts and its mode are those of now.
            ///
            /// # Errors
            ///
            /// As std's method.
            pub fn try_clone(&self) -> std::io::Result<Self> {
                Ok(Self(self.0.copy(self.0.inner().try_clone()?)))
            }

            /// Sets if calls return an error of the kind `WouldBlock` instead of waiting. Copies of the
            /// socket have a setting of their own. Methods that take a [`Wait`](crate::Wait) wait in any
            /// case.
            ///
            /// # Errors
            ///
            /// None today; std's method returns them.
            pub fn set_nonblocking(&self, nonblocking: bool) -> std::io::Result<()> {
                self.0.set_nonblocking(nonblocking);
                Ok(())
            }
        }

        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.inner().as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.inner().as_raw_fd()
            }
        }

        impl std::os::fd::IntoRawFd for $name {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                self.into_std().into_raw_fd()
            }
        }

        impl From<$name> for std::os::fd::OwnedFd {
            fn from(socket: $name) -> Self {
                socket.into_std().into()
            }
        }

        impl From<$name> for $std {
            fn from(socket: $name) -> Self {
                socket.into_std()
            }
        }

        impl From<$std> for $name {
            fn from(socket: $std) -> Self {
                Self::from_std(socket)
            }
        }

        impl From<std::os::fd::OwnedFd> for $name {
            fn from(descriptor: std::os::fd::OwnedFd) -> Self {
                Self::from_std(descriptor.into())
            }
        }

        impl std::os::fd::FromRawFd for $name {
            unsafe fn from_raw_fd(descriptor: std::os::fd::RawFd) -> Self {
                // SAFETY: the caller's promise.
                Self::from_std(unsafe { <$std>::from_raw_fd(descriptor) })
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self.0.inner(), f)
            }
        }
    };
}
pub(super) use socket;

/// Defines methods that do not wait, and that std's type has as well.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[doc = concat!("Does what the method of this name of std's type does.")]
        ///
        /// # Errors
        ///
        /// As there.
        pub fn $name(&self $(, $argument: $type)*) -> std::io::Result<$result> {
            self.0.inner().$name($($argument),*)
        }
    )*};
}
pub(super) use delegate;

/// Defines the settings that sockets have which read and write.
macro_rules! settings {
    ($name:ident) => {
        impl $name {
            /// Sets how long a call that reads may wait; `None` is forever. From half a second on,
            /// it may end 20 ms late.
            ///
            /// # Errors
            ///
            /// If the timeout is zero.
            pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.inner().set_read_timeout(timeout)?;
                self.0.set_timeout(crate::reactor::source::Direction::Read, timeout);
                Ok(())
            }

            /// Sets how long a call that writes may wait; `None` is forever. From half a second on,
            /// it may end 20 ms late.
            ///
            /// # Errors
            ///
            /// If the timeout is zero.
            pub fn set_write_timeout(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
                self.0.inner().set_write_timeout(timeout)?;
                self.0.set_timeout(crate::reactor::source::Direction::Write, timeout);
                Ok(())
            }

            $crate::net::common::delegate! {
                read_timeout() -> Option<std::time::Duration>;
                write_timeout() -> Option<std::time::Duration>;
                take_error() -> Option<std::io::Error>;
            }
        }
    };
}
pub(super) use settings;

/// Takes over a socket that reads and writes, with its mode and timeouts. `$has_messages` tells if its calls
/// may take less than there is.
macro_rules! adopt {
    ($socket:ident) => {
        $crate::net::common::adopt!($socket, $crate::sys::socket::has_messages)
    };
    ($socket:ident, $has_messages:expr) => {{
        // A socket that does not tell has none.
        let timeouts = [$socket.read_timeout(), $socket.write_timeout()].map(|it| it.ok().flatten());
        let has_messages = $has_messages(std::os::fd::AsFd::as_fd(&$socket));
        Self($crate::net::socket::Socket::adopt($socket, timeouts, has_messages))
    }};
}
pub(super) use adopt;

/// Defines how a socket of the kind `$std` receives messages, and sends them to where it is connected to.
/// `$from` converts the address that a message comes from.
macro_rules! datagrams {
    ($name:ident, $std:ty, $from:ident) => {
        impl $name {
            /// Waits for a message. Returns its length, and where it comes from.
            ///
            /// # Blocks
            ///
            /// The thread only.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($std), "::recv_from`].")]
            pub fn recv_from(&self, buffer: &mut [u8]) -> std::io::Result<(usize, SocketAddr)> {
                self.0.recv_from(buffer, false, None).and_then($from)
            }

            /// Waits for a message. If this socket is connected, it comes from there.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($std), "::recv`].")]
            pub fn recv(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.recv(buffer, false, None)
            }

            /// Does what [`recv`](Self::recv) does, and waits as `wait` says.
            ///
            /// # Errors
            ///
            /// As there, and as [`TcpStream::read_with`](crate::net::TcpStream::read_with).
            pub fn recv_with(
                &self,
                buffer: &mut [u8],
                wait: crate::park::wait::Wait,
            ) -> std::io::Result<usize> {
                self.0.recv(buffer, false, Some(wait))
            }

            /// Sends a message to where this socket is connected to.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($std), "::send`].")]
            pub fn send(&self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.send(bytes, None)
            }
        }
    };
}
pub(super) use datagrams;

/// Defines reading from and writing to a stream.
macro_rules! stream {
    ($name:ident) => {
        impl $name {
            /// Reads bytes, and waits for them as `wait` says. Returns how many, 0 at the end of the stream.
            ///
            /// # Blocks
            ///
            /// The thread only.
            ///
            /// # Errors
            ///
            /// As [`Read::read`](std::io::Read::read), and the [`WaitError`](crate::WaitError) as an
            /// [`io::Error`](std::io::Error) of the kind `TimedOut` or `Interrupted`.
            pub fn read_with(
                &self,
                buffer: &mut [u8],
                wait: crate::park::wait::Wait,
            ) -> std::io::Result<usize> {
                self.0.read(buffer, Some(wait))
            }

            /// Writes bytes, and waits for room as `wait` says. Returns how many were written.
            ///
            /// # Blocks
            ///
            /// The thread only.
            ///
            /// # Errors
            ///
            /// As [`Write::write`](std::io::Write::write), and as [`read_with`](Self::read_with).
            pub fn write_with(&self, bytes: &[u8], wait: crate::park::wait::Wait) -> std::io::Result<usize> {
                self.0.write(bytes, Some(wait))
            }

            /// Ends reading, writing or both. Waits of other threads for what has ended are over.
            ///
            /// # Errors
            ///
            /// As std's method.
            pub fn shutdown(&self, how: std::net::Shutdown) -> std::io::Result<()> {
                self.0.shutdown(how)
            }
        }

        impl std::io::Read for &$name {
            #[inline]
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(buffer, None)
            }

            fn read_vectored(&mut self, buffers: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                self.0.read_vectored(buffers)
            }
        }

        impl std::io::Write for &$name {
            #[inline]
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.write(bytes, None)
            }

            fn write_vectored(&mut self, buffers: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.write_vectored(buffers)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Read for $name {
            #[inline]
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                (&*self).read_vectored(buffers)
            }
        }

        impl std::io::Write for $name {
            #[inline]
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                (&*self).write(bytes)
            }

            fn write_vectored(&mut self, buffers: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(buffers)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}
pub(super) use stream;

/// Defines a listener, around std's type, whose connections are of type `$stream`.
macro_rules! listener {
    ($name:ident, $std:ty, $stream:ident) => {
        impl $name {
            /// Waits for a connection. Returns it, and the address of its other end.
            ///
            /// # Blocks
            ///
            /// The thread only.
            ///
            /// # Errors
            ///
            /// As std's method. If descriptors or memory are short, it waits for 10 ms before it returns the
            /// error.
            pub fn accept(&self) -> std::io::Result<($stream, SocketAddr)> {
                self.accept_as(None)
            }

            /// Waits for a connection as `wait` says.
            ///
            /// # Errors
            ///
            /// As [`accept`](Self::accept), and the [`WaitError`](crate::WaitError) as an
            /// [`io::Error`](std::io::Error) of the kind `TimedOut` or `Interrupted`.
            pub fn accept_with(
                &self,
                wait: crate::park::wait::Wait,
            ) -> std::io::Result<($stream, SocketAddr)> {
                self.accept_as(Some(wait))
            }

            fn accept_as(
                &self,
                wait: Option<crate::park::wait::Wait>,
            ) -> std::io::Result<($stream, SocketAddr)> {
                let (stream, peer) = $crate::net::socket::accept(&self.0, wait, <$std>::accept)?;
                if cfg!(target_vendor = "apple") {
                    // There it has the listener's mode.
                    $crate::sys::socket::set_nonblocking(std::os::fd::AsFd::as_fd(&stream), false)?;
                }
                Ok(($stream(self.0.accepted(stream)), peer))
            }

            /// Returns an iterator over connections, which never ends.
            pub fn incoming(&self) -> Incoming<'_> {
                Incoming { listener: self }
            }
        }

        $crate::net::common::socket!(
            $name,
            $std,
            |listener| Self($crate::net::socket::Socket::adopt_shared(listener)),
            |listener| { listener.0.into_blocking() }
        );

        #[doc = concat!("An iterator over the connections of a [`", stringify!($name), "`].")]
        #[derive(Debug)]
        #[must_use = "it accepts nothing until it is asked for the next connection"]
        pub struct Incoming<'a> {
            listener: &'a $name,
        }

        impl Iterator for Incoming<'_> {
            type Item = std::io::Result<$stream>;

            fn next(&mut self) -> Option<Self::Item> {
                Some(self.listener.accept().map(|(stream, _)| stream))
            }
        }

        impl std::iter::FusedIterator for Incoming<'_> {}
    };
}
pub(super) use listener;
