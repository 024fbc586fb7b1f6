//! Waiting for several descriptors at once, and the user at the other end of a socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// What to wait for. If there are neither bytes to read nor room to write, the end of the other side counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) fd: RawFd,
    /// Wait for bytes to read.
    pub(crate) read: bool,
    /// Wait for room to write.
    pub(crate) write: bool,
}

/// Waits until one of the descriptors is ready, or the time is over; `None` is forever. Returns those that
/// are ready: for each, if it can be read or has ended, and if it can be written.
///
/// # Errors
///
/// As `poll`.
pub(crate) fn wait(on: &[Interest], timeout: Option<Duration>) -> io::Result<Vec<(bool, bool)>> {
    let mut polled: Vec<libc::pollfd> = on
        .iter()
        .map(|it| {
            let event = |is_wanted, event| if is_wanted { event } else { 0 };
            let events = event(it.read, libc::POLLIN) | event(it.write, libc::POLLOUT);
            libc::pollfd { fd: it.fd, events, revents: 0 }
        })
        .collect();
    let millis = timeout.map_or(-1, |it| i32::try_from(it.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: `polled` is valid for its length.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        polled.iter_mut().for_each(|it| it.revents = 0);
    }
    let seen = polled.iter().map(|it| (it.revents & !libc::POLLOUT != 0, it.revents & libc::POLLOUT != 0));
    Ok(seen.collect())
}

/// Waits until `descriptor` is ready (to be written to, or else to be read from), the `bell` can be read, or
/// the time is over; `None` is forever. The time is rounded up to milliseconds. A signal may end the wait.
/// Returns `true` if the descriptor is ready, or has ended.
///
/// # Errors
///
/// As `poll`, and if the descriptor is closed.
pub(crate) fn until_ready(
    descriptor: RawFd,
    write: bool,
    bell: Option<RawFd>,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    let events = if write { libc::POLLOUT } else { libc::POLLIN };
    let mut polled = [
        libc::pollfd { fd: descriptor, events, revents: 0 },
        // A negative one is skipped.
        libc::pollfd { fd: bell.unwrap_or(-1), events: libc::POLLIN, revents: 0 },
    ];
    let millis = timeout.map_or(-1, |it| it.as_micros().div_ceil(1_000).try_into().unwrap_or(i32::MAX));
    // SAFETY: `polled` is valid for its length.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, millis) };
    match ready {
        0.. if polled[0].revents & libc::POLLNVAL != 0 => Err(io::Error::from_raw_os_error(libc::EBADF)),
        0.. => Ok(polled[0].revents != 0),
        _ => Err(io::Error::last_os_error()).or_else(|error| match error.kind() {
            io::ErrorKind::Interrupted => Ok(false),
            _ => Err(error),
        }),
    }
}

/// Returns `true` if calls on a descriptor (that write, or else that read) do not block, as its end, or that
/// of the other side, has come. What it is ready for otherwise does not count.
#[cold]
pub(crate) fn has_ended(descriptor: BorrowedFd<'_>, write: bool) -> bool {
    #[cfg(target_os = "linux")]
    const OTHER_SIDE: i16 = libc::POLLRDHUP;
    #[cfg(not(target_os = "linux"))]
    const OTHER_SIDE: i16 = 0;
    let events = if write { 0 } else { OTHER_SIDE };
    let mut polled = libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 };
    // SAFETY: one descriptor, as said.
    let ready = unsafe { libc::poll(&raw mut polled, 1, 0) };
    ready > 0 && polled.revents & (libc::POLLHUP | events) != 0
}

/// Returns `true` if the kernel reports events of the descriptor. Of a file on a disk, it reports none.
///
/// # Errors
///
/// If there are no descriptors to find that out with.
#[cfg(target_os = "linux")]
pub(crate) fn is_pollable(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    use super::poll_set::PollSet;
    match PollSet::new()?.add(descriptor.as_raw_fd(), 0) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        other => other.map(|()| true),
    }
}

/// Returns `true`: kernel threads wait here, and `poll` takes any descriptor.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_pollable(_: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(true)
}

/// Returns the effective user of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, and it does not fail.
    unsafe { libc::geteuid() }
}

/// Returns the user of the process that connected to, or listens at, a Unix socket.
///
/// # Errors
///
/// As `getsockopt`.
#[cfg(target_os = "linux")]
pub(crate) fn peer(socket: &impl AsRawFd) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let at = (&raw mut peer).cast();
    // SAFETY: `peer` has room for the structure of this option, and `length` says how much.
    let rc = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut length)
    };
    if rc == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

/// Returns the user of the process at the other end of a Unix socket.
///
/// # Errors
///
/// As `getpeereid`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peer(socket: &impl AsRawFd) -> io::Result<u32> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: both places are written.
    let rc = unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut user, &raw mut group) };
    if rc == 0 { Ok(user) } else { Err(io::Error::last_os_error()) }
}

/// Returns the CPU time that the process has used: in user mode, and in the kernel.
pub(crate) fn cpu_times() -> (Duration, Duration) {
    // SAFETY: plain data, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is written.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |it: libc::timeval| {
        Duration::from_secs(it.tv_sec.unsigned_abs())
            + Duration::from_micros(u64::try_from(it.tv_usec).unwrap_or(0))
    };
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// Returns the CPU time that the calling kernel thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_is_this_user() {
        let (one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one).unwrap(), user());
        let on = [Interest { fd: one.as_raw_fd(), read: true, write: false }];
        assert_eq!(wait(&on, Some(Duration::ZERO)).unwrap(), [(false, false)]);
        other.write_all(b"x").unwrap();
        assert_eq!(wait(&on, None).unwrap(), [(true, false)]);
        let on = [Interest { fd: one.as_raw_fd(), read: true, write: true }];
        assert_eq!(wait(&on, None).unwrap(), [(true, true)]);
    }

    #[test]
    fn times_go_on() {
        let (before, thread) = (cpu_times(), thread_cpu_time());
        let mut sum = 0_u64;
        while thread_cpu_time() < thread + Duration::from_millis(20) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_times().0 + cpu_times().1 > before.0 + before.1);
    }
}
