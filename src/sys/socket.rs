//! Flags of calls on sockets, and the mode of a descriptor.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::poll;

/// The call does not block, whatever the mode of the descriptor.
pub(crate) const DONT_WAIT: i32 = libc::MSG_DONTWAIT;
/// The bytes stay where they are.
pub(crate) const PEEK: i32 = libc::MSG_PEEK;
/// A peer that has gone is an error, and no signal. (On Apple's systems, std has set that for the socket.)
#[cfg(not(target_vendor = "apple"))]
pub(crate) const NO_SIGNAL: i32 = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
pub(crate) const NO_SIGNAL: i32 = 0;

/// The most buffers that one call takes. The kernels refuse more.
pub(crate) const MOST_BUFFERS: usize = 1024;

/// Sets if calls on a descriptor return an error instead of blocking. The mode belongs to all copies of the
/// descriptor.
///
/// # Errors
///
/// As `ioctl`.
pub(crate) fn set_nonblocking(descriptor: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    let mut nonblocking = libc::c_int::from(nonblocking);
    // SAFETY: the kernel reads the one number.
    let rc = unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::FIONBIO, &raw mut nonblocking) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives bytes of a stream. Returns how many, and `false` if the call may have stopped where descriptors
/// came with the bytes, whatever comes after. Those descriptors are lost, as they are to `recv`.
///
/// # Errors
///
/// As `recvmsg`.
pub(crate) fn receive(
    descriptor: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: i32,
) -> io::Result<(usize, bool)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: plain data, for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    // SAFETY: `part` is the buffer, and there is room for nothing else.
    let length = unsafe { libc::recvmsg(descriptor.as_raw_fd(), &raw mut message, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok((length, message.msg_flags & libc::MSG_CTRUNC == 0))
}

/// Returns `true` if calls on a descriptor return an error instead of blocking.
///
/// # Errors
///
/// As `fcntl`.
pub(crate) fn is_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 { Err(io::Error::last_os_error()) } else { Ok(flags & libc::O_NONBLOCK != 0) }
}

/// Returns `true` unless a socket carries a stream of bytes. A program may have a socket of messages in the
/// place of a stream: both are connected, and are read in the same way (`SOCK_SEQPACKET`). What a protocol
/// that is not known here calls a stream may have messages, too: that of SCTP has.
pub(crate) fn has_messages(descriptor: BorrowedFd<'_>) -> bool {
    number(descriptor, libc::SO_TYPE) != Some(libc::SOCK_STREAM)
        || !(is_within(descriptor) || is_of_tcp(descriptor))
}

/// Returns `true` for a Unix socket.
#[cfg(target_os = "linux")]
pub(crate) fn is_within(descriptor: BorrowedFd<'_>) -> bool {
    number(descriptor, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
}

#[cfg(target_os = "linux")]
fn is_of_tcp(descriptor: BorrowedFd<'_>) -> bool {
    matches!(number(descriptor, libc::SO_PROTOCOL), Some(libc::IPPROTO_TCP | libc::IPPROTO_MPTCP))
}

/// Returns `false`. Without a set, all threads make their calls first.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_within(_: BorrowedFd<'_>) -> bool {
    false
}

/// Returns `true`, for the same reason.
#[cfg(not(target_os = "linux"))]
fn is_of_tcp(_: BorrowedFd<'_>) -> bool {
    true
}

/// Returns an option of a socket that is a number.
fn number(descriptor: BorrowedFd<'_>, name: libc::c_int) -> Option<libc::c_int> {
    let mut found: libc::c_int = -1;
    let mut length = size_of_val(&found) as libc::socklen_t;
    let (fd, at) = (descriptor.as_raw_fd(), (&raw mut found).cast());
    // SAFETY: `found` has room for the option, which is a number, and `length` says how much.
    let code = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, at, &raw mut length) };
    (code == 0).then_some(found)
}

/// Returns `true` if a process, or the system, has no more descriptors or memory for a connection. It may
/// have some in a moment.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Returns `true` if a connect has begun, and goes on.
pub(crate) fn is_in_progress(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
}

/// Returns `true` if a call that sends would block for want of room in the queue of a receiver within the
/// machine. No event tells when that has room: those of an unconnected socket are of its own buffer.
#[cfg(target_os = "linux")]
pub(crate) fn lacks_room_elsewhere(descriptor: BorrowedFd<'_>) -> bool {
    is_within(descriptor)
        && number(descriptor, libc::SO_TYPE) == Some(libc::SOCK_DGRAM)
        && poll::until_ready(descriptor.as_raw_fd(), true, None, Some(Duration::ZERO)).unwrap_or(false)
}

/// Returns `false`: a call that finds the receiver's queue full fails there.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lacks_room_elsewhere(_: BorrowedFd<'_>) -> bool {
    false
}

/// Returns the error of a listener that was shut down.
pub(crate) fn shut_down() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// Returns the error of a call that would block.
pub(crate) fn would_block() -> io::Error {
    io::Error::from_raw_os_error(libc::EAGAIN)
}
