//! Waiting for any of many descriptors: epoll.
//!
//! Contract, the same in the sibling for other systems (`poll_set_other.rs`):
//!
//! - A descriptor is added once, for both directions, and reported by *edge*. Each time that it becomes
//!   readable or writable, one of the sleepers gets one event. Adding it reports what it is at that moment.
//! - A descriptor leaves the set when its last copy is closed. An event that is on its way then, or that a
//!   copy in another process causes, may still come. So an event has the token that its descriptor was added
//!   with, and the caller knows the tokens that are out of use.
//! - [`PollSet::ring`] ends a sleep in the set: one that has begun, or the next one. At most one thread
//!   sleeps in a set at a time. Others that only look do not hear the bell: if it were an edge, a look would
//!   take it away.
//! - The monitor has a table of descriptors of its own (`task_state.rs`), so it can neither ring nor look.
//! - A program may close what it did not open, as `closefrom` does. Then the calls here say so, and the set
//!   must never be dropped: its numbers may be those of other descriptors by now.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) use super::poll_event::{Event, Report, Unrung};
use super::task_state;

/// The token of the bell, which no descriptor has.
const BELL: u64 = u64::MAX;
/// How many events one call returns. More than that wait for the next call.
const BATCH: usize = 128;
/// What a descriptor is added for.
const EVENTS: i32 = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// A set of descriptors, and a bell.
#[derive(Debug)]
pub(crate) struct PollSet {
    set: OwnedFd,
    bell: OwnedFd,
    /// The bell was found closed.
    closed: AtomicBool,
}

impl PollSet {
    /// Makes an empty set. Takes two descriptors.
    ///
    /// # Errors
    ///
    /// As `epoll_create1` and `eventfd`.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let set = own(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: no memory is involved.
        let bell = own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let this = Self { set, bell, closed: AtomicBool::new(false) };
        this.control(libc::EPOLL_CTL_ADD, this.bell.as_raw_fd(), libc::EPOLLIN, BELL)?;
        Ok(this)
    }

    /// Adds a descriptor. If it is in the set, it gets the new token, and is reported again.
    ///
    /// # Errors
    ///
    /// As `epoll_ctl`: above all `PermissionDenied` for a descriptor that cannot be waited for, such as a
    /// file.
    pub(crate) fn add(&self, descriptor: RawFd, token: u64) -> io::Result<()> {
        match self.control(libc::EPOLL_CTL_ADD, descriptor, EVENTS, token) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                self.control(libc::EPOLL_CTL_MOD, descriptor, EVENTS, token)
            }
            other => other,
        }
    }

    /// Does what [`add`](Self::add) does, for a descriptor that is probably in the set.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn renew(&self, descriptor: RawFd, token: u64) -> io::Result<()> {
        match self.control(libc::EPOLL_CTL_MOD, descriptor, EVENTS, token) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => self.add(descriptor, token),
            other => other,
        }
    }

    fn control(&self, operation: i32, descriptor: RawFd, events: i32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
        // SAFETY: `event` is valid, and the kernel does not keep its address.
        let rc = unsafe { libc::epoll_ctl(self.set.as_raw_fd(), operation, descriptor, &raw mut event) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Ends a sleep in the set: the one of now, or the next one.
    ///
    /// # Errors
    ///
    /// Why the caller cannot.
    pub(crate) fn ring(&self) -> Result<(), Unrung> {
        if task_state::has_own_descriptors() {
            return Err(Unrung::OtherTable);
        }
        let one = 1_u64;
        let length = size_of::<u64>();
        // The C library's `write` would end a thread that was asked to end (`pthread_cancel`). It may be here
        // in a call that is no cancellation point, and it has locks.
        // SAFETY: eight bytes, which is what the descriptor takes. It never blocks: if nothing more can be
        // added, it has been rung.
        let written =
            unsafe { libc::syscall(libc::SYS_write, self.bell.as_raw_fd(), &raw const one, length) };
        let is_rung = usize::try_from(written) == Ok(length)
            || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
        if is_rung {
            return Ok(());
        }
        // Relaxed: the sleeper is woken by other means, and the next one is later still.
        self.closed.store(true, Ordering::Relaxed);
        Err(Unrung::Closed)
    }

    /// Fills `events` with those that there are. One system call. Returns `false` if the program has closed
    /// the set.
    pub(crate) fn look(&self, events: &mut Events) -> bool {
        self.wait(events, Some(Duration::ZERO))
    }

    /// Waits until there are events, the bell rings, a signal comes or the timeout is over (`None`: forever),
    /// and fills `events`. One system call; if the bell has been rung, another one silences it. Returns
    /// `false` if the program has closed the set.
    pub(crate) fn sleep(&self, events: &mut Events, timeout: Option<Duration>) -> bool {
        let there = self.wait(events, timeout);
        if events.all().any(|(token, _)| token == BELL) {
            let mut rings = 0_u64;
            // SAFETY: eight bytes, which is what the descriptor gives. It does not block.
            let _ = unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut rings).cast(), size_of::<u64>()) };
        }
        there
    }

    fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> bool {
        // Relaxed: as in `ring`.
        if self.closed.load(Ordering::Relaxed) {
            events.count = 0;
            return false;
        }
        let count = self.wait_exactly(events, timeout).unwrap_or_else(|| {
            // To the millisecond, and not before the time.
            let millis =
                timeout.map_or(-1, |it| it.as_micros().div_ceil(1_000).try_into().unwrap_or(i32::MAX));
            // SAFETY: the buffer is valid for its length, and nothing reads it before it is written.
            unsafe { libc::epoll_wait(self.set.as_raw_fd(), events.room(), BATCH as i32, millis) }
        });
        events.count = usize::try_from(count).unwrap_or(0);
        count >= 0 || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    }

    /// Waits with nanoseconds. Returns `None` if this kernel (before Linux 5.11) cannot, or if a sandbox that
    /// does not know the call refuses it.
    fn wait_exactly(&self, events: &mut Events, timeout: Option<Duration>) -> Option<i32> {
        static ABSENT: AtomicBool = AtomicBool::new(false);
        // Relaxed: a fact that does not change.
        if ABSENT.load(Ordering::Relaxed) {
            return None;
        }
        // `i64`, whatever the C library counts in: this is the kernel's own call.
        let timeout =
            timeout.map(|it| [i64::try_from(it.as_secs()).unwrap_or(i64::MAX), i64::from(it.subsec_nanos())]);
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let set = self.set.as_raw_fd();
        let mask: *const libc::sigset_t = ptr::null();
        // SAFETY: the buffer is valid for its length, and nothing reads it before it is written. The timeout
        // is null or a local, and the mask is null.
        let rc = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, set, events.room(), BATCH as i32, timeout, mask, 0_usize)
        };
        let refused = || io::Error::last_os_error().raw_os_error();
        if rc < 0 && matches!(refused(), Some(libc::ENOSYS | libc::EPERM)) {
            // Relaxed: as above.
            ABSENT.store(true, Ordering::Relaxed);
            return None;
        }
        Some(rc as i32)
    }
}

/// The events of one call.
pub(crate) struct Events {
    events: [MaybeUninit<libc::epoll_event>; BATCH],
    count: usize,
}

impl Events {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { events: [const { MaybeUninit::uninit() }; BATCH], count: 0 }
    }

    fn room(&mut self) -> *mut libc::epoll_event {
        self.events.as_mut_ptr().cast()
    }

    /// Returns the events as the kernel has written them: tokens, and what has happened.
    fn all(&self) -> impl Iterator<Item = (u64, u32)> {
        self.events[..self.count].iter().map(|event| {
            // SAFETY: the kernel has written this many.
            let libc::epoll_event { events, u64: token } = unsafe { event.assume_init() };
            (token, events)
        })
    }

    /// Returns the events without the bell.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Event> {
        self.all().filter_map(|(token, events)| {
            let any = |of: i32| events & of.cast_unsigned() != 0;
            let report = |closed: i32, urgent: i32, ready: i32| {
                let or = |of: i32, report| any(of).then_some(report);
                or(closed, Report::Closed).or(or(urgent, Report::Urgent)).or(or(ready, Report::Ready))
            };
            (token != BELL).then(|| Event {
                token,
                read: report(
                    libc::EPOLLRDHUP | libc::EPOLLHUP,
                    libc::EPOLLPRI,
                    libc::EPOLLIN | libc::EPOLLERR,
                ),
                write: report(libc::EPOLLHUP, 0, libc::EPOLLOUT | libc::EPOLLERR),
            })
        })
    }
}

fn own(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nothing else has.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    fn wait(set: &PollSet, timeout: Option<Duration>) -> Vec<Event> {
        let mut events = Events::new();
        assert!(set.sleep(&mut events, timeout));
        events.iter().collect()
    }

    fn now(set: &PollSet) -> Vec<Event> {
        wait(set, Some(Duration::ZERO))
    }

    #[test]
    fn each_edge_is_one_event() {
        let set = PollSet::new().unwrap();
        let (mut one, mut other) = UnixStream::pair().unwrap();
        set.add(one.as_raw_fd(), 7).unwrap();
        let writable = Event { token: 7, read: None, write: Some(Report::Ready) };
        assert_eq!(now(&set), [writable]);
        assert_eq!(now(&set), []);
        other.write_all(b"ab").unwrap();
        let readable = Event { read: Some(Report::Ready), ..writable };
        assert_eq!(wait(&set, None), [readable]);
        one.read_exact(&mut [0]).unwrap();
        assert_eq!(now(&set), [], "no new edge, though there is more to read");
        // Another token, and a report of what there is.
        set.add(one.as_raw_fd(), 8).unwrap();
        assert_eq!(now(&set), [Event { token: 8, ..readable }]);
        other.shutdown(Shutdown::Write).unwrap();
        assert_eq!(now(&set), [Event { token: 8, read: Some(Report::Closed), ..readable }]);
        drop(one);
        assert_eq!(now(&set), []);
    }

    #[test]
    fn the_bell_ends_one_sleep() {
        let set = PollSet::new().unwrap();
        assert_eq!(set.ring(), Ok(()));
        assert!(set.look(&mut Events::new()));
        assert_eq!(wait(&set, None), [], "a look leaves the bell alone");
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(set.ring(), Ok(())));
            assert_eq!(wait(&set, None), []);
        });
        let before = Instant::now();
        assert_eq!(wait(&set, Some(Duration::from_millis(2))), []);
        assert!(before.elapsed() >= Duration::from_millis(2), "a ring ends one sleep only");
    }

    #[test]
    fn a_thread_with_its_own_descriptors_cannot_ring() {
        let set = PollSet::new().unwrap();
        let monitor = || {
            let tasks = task_state::Tasks::private();
            assert_eq!(set.ring().is_ok(), !tasks.are_private());
        };
        std::thread::scope(|s| s.spawn(monitor).join().unwrap());
    }

    #[test]
    fn a_set_that_was_closed_is_not_slept_in() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let bell = file.try_clone().unwrap().into();
        let set = PollSet { set: file.into(), bell, closed: AtomicBool::new(false) };
        assert!(!set.sleep(&mut Events::new(), None) && !set.look(&mut Events::new()));
        assert_eq!(set.ring(), Err(Unrung::Closed));
    }

    #[test]
    fn a_file_cannot_be_waited_for() {
        let set = PollSet::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(set.add(file.as_raw_fd(), 1).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
