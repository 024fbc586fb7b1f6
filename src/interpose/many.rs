//! `poll`, `select`, `epoll_wait` and their like: waits for one of several descriptors.
//!
//! The kernel is asked first, without waiting. One descriptor is waited for as itself. Several are waited for
//! by a set of descriptors that is made for the call: such a set is itself a descriptor.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

use super::awaited::with_mask;
use super::bytes::close_own;
use super::caller::{announced, duration, green};
use super::cancel::kernel::with_marker;
use super::cancel::{self, Ends, announced_call, point};
use super::descriptor::{self, Direction, Ready, until_ready};
use super::user_memory;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::sys::next::{self, fail};
use crate::time;

/// Returns how long a call waits that counts in milliseconds.
fn millis(millis: c_int) -> Wait {
    u64::try_from(millis).map_or(Wait::forever(), |millis| Wait::timeout(Duration::from_millis(millis)))
}

/// Returns how much of the time is left; `None`: there is no limit.
fn left(wait: Wait) -> Option<Duration> {
    wait.deadline.map(|deadline| deadline - time::now())
}

/// Returns how much of the time is left, as [`millis`] has it, rounded up.
fn millis_left(wait: Wait) -> c_int {
    left(wait).map_or(-1, |left| c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX))
}

/// Calls `call` with how much of the time is left, as C has it; null: there is no limit.
fn within<R>(wait: Wait, call: impl FnOnce(*const timespec) -> R) -> R {
    let left = left(wait).map(|left| timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    call(left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref))
}

/// What is ready if one of several descriptors is.
enum Any {
    /// The only one.
    One(c_int, Direction),
    /// A set of them.
    Set(Set),
}

/// A set of descriptors that is made for one call.
struct Set(c_int);

impl Drop for Set {
    /// Not by std's type: it calls the C library's `close`, in which the thread may be ended.
    fn drop(&mut self) {
        close_own(self.0);
    }
}

impl Any {
    /// Returns `None` if the kernel reports no events of one of them, or has no more descriptors.
    fn of(polled: &[pollfd]) -> Option<Self> {
        const READ: i16 = libc::POLLIN | libc::POLLRDNORM;
        const WRITE: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;
        let mut asked = polled.iter().filter(|it| it.fd >= 0);
        if let (Some(only), None) = (asked.next(), asked.next()) {
            // A descriptor that has bytes would be reported again and again if they are not asked for.
            match (only.events & READ != 0, only.events & !READ != 0) {
                (true, false) => return Some(Self::One(only.fd, Direction::Read)),
                (false, true) if only.events & !WRITE == 0 => {
                    return Some(Self::One(only.fd, Direction::Write));
                }
                _ => {}
            }
        }
        // SAFETY: no memory is involved.
        let set = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if set < 0 {
            return None;
        }
        let set = Set(set);
        // The same descriptor may be named several times.
        let mut asked: Vec<_> = polled.iter().filter(|it| it.fd >= 0).map(|it| (it.fd, it.events)).collect();
        asked.sort_unstable();
        for same in asked.chunk_by(|one, other| one.0 == other.0) {
            let events = same.iter().fold(0, |events, it| events | it.1);
            let mut event = epoll_event { events: u32::from(events.cast_unsigned()), u64: 0 };
            // SAFETY: `event` is valid, and the kernel does not keep its address.
            let rc = unsafe { libc::epoll_ctl(set.0, libc::EPOLL_CTL_ADD, same[0].0, &raw mut event) };
            if rc != 0 {
                return None;
            }
        }
        Some(Self::Set(set))
    }

    /// Returns the descriptor to wait for, and what for.
    fn awaited(&self) -> (c_int, Direction) {
        match self {
            Self::One(descriptor, direction) => (*descriptor, *direction),
            Self::Set(set) => (set.0, Direction::Read),
        }
    }
}

/// Waits, for the green thread `me`, until `look` returns something else than 0, or as `wait` says. `look`
/// asks the kernel about the descriptors of `polled`, and does not wait. Returns `None` if these cannot be
/// waited for: for one, if what the kernel reports of a descriptor is not what was asked. An example is
/// `select` with the exceptions of a socket that is not connected.
fn until(me: ThreadRef, polled: &[pollfd], wait: Wait, look: impl Fn() -> c_int) -> Option<c_int> {
    let mut any = None;
    let mut is_woken = false;
    loop {
        let found = look();
        if found != 0 {
            return Some(found);
        }
        if polled.iter().all(|it| it.fd < 0) {
            let ended = super::clocks::rest_until(wait.deadline);
            return Some(ended.map_or_else(fail, |()| look()));
        }
        let (descriptor, direction) = match &any {
            Some(any) => any,
            None => any.insert(Any::of(polled)?),
        }
        .awaited();
        if is_woken && descriptor::is_ready(descriptor, direction) {
            return None;
        }
        is_woken = true;
        match until_ready(me, descriptor, direction, wait, Ends::Always) {
            Ready::Yes => {}
            Ready::TimedOut => return Some(look()),
            Ready::Cut => return Some(fail(cancel::code_of_end())),
            Ready::Unknown => return None,
        }
    }
}

/// Does so for as long as a call waits that counts in milliseconds. `look` makes that call, and waits for so
/// long itself. `polled` is asked once the kernel has read the call's arguments.
fn within_millis<P: AsRef<[pollfd]>>(
    me: ThreadRef,
    polled: impl FnOnce() -> P,
    timeout: c_int,
    look: impl Fn(c_int) -> c_int,
) -> c_int {
    let now = || descriptor::look(|| look(0));
    let found = now();
    if found != 0 || timeout == 0 {
        return found;
    }
    let wait = millis(timeout);
    until(me, polled().as_ref(), wait, now).unwrap_or_else(|| {
        let left = millis_left(wait);
        announced_call(|| look(left))
    })
}

/// Returns what a call was asked about.
fn polled(fds: *const pollfd, n: nfds_t) -> Vec<pollfd> {
    let n = usize::try_from(n).unwrap_or(0);
    // SAFETY: the caller of the call has passed so many, and the kernel has read them. A copy, since it
    // writes there.
    if n == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(fds, n) }.to_vec() }
}

/// See `poll(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn poll(fds: *mut pollfd, n: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let look = |timeout| unsafe { next::poll(fds, n, timeout) };
    match green() {
        Some(me) => point(|| within_millis(me, || polled(fds, n), timeout, look)),
        None => look(timeout),
    }
}

/// See `ppoll(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    n: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || with_marker(mask, |mask| unsafe { next::ppoll(fds, n, timeout, mask) });
    let Some(me) = green() else { return plain() };
    point(|| {
        let wait = match limit(timeout) {
            Ok(wait) => wait,
            Err(error) => return fail(error),
        };
        if !mask.is_null() {
            // SAFETY: the caller's promise, and a time.
            let call = |mask| within(wait, |left| unsafe { next::ppoll(fds, n, left, mask) });
            // SAFETY: the caller's set.
            return unsafe { masked(mask, call) };
        }
        // SAFETY: the caller's promise.
        let look = || descriptor::look(|| unsafe { next::poll(fds, n, 0) });
        let found = look();
        if found != 0 {
            return found;
        }
        until(me, &polled(fds, n), wait, look).unwrap_or_else(|| {
            // SAFETY: the caller's promise, and a time.
            announced_call(|| within(wait, |left| unsafe { next::ppoll(fds, n, left, mask) }))
        })
    })
}

/// Makes a call that blocks the LWP, and takes a mask of signals for as long as it lasts. `call` gets that
/// mask.
///
/// # Safety
/// The mask is a set.
unsafe fn masked(mask: *const sigset_t, mut call: impl FnMut(*const sigset_t) -> c_int) -> c_int {
    if !cancel::has_signals() {
        return announced_call(|| cancel::with_other_mask(|| call(mask)));
    }
    // SAFETY: a set begins with the kernel's eight bytes.
    let bits = unsafe { mask.cast::<u64>().read_unaligned() };
    announced(|| with_mask(bits, call))
}

/// Reads how long to wait.
fn limit(timeout: *const timespec) -> Result<Wait, c_int> {
    if timeout.is_null() {
        return Ok(Wait::forever());
    }
    let time = user_memory::time(timeout).ok_or(libc::EFAULT)?;
    Ok(Wait::timeout(duration(time).ok_or(libc::EINVAL)?))
}

/// See `select(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn select(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::select(n, read, write, except, timeout) };
    let Some(me) = green() else { return plain() };
    point(|| {
        let Some(asked) = Selected::of(n, [read, write, except]) else { return announced_call(plain) };
        // SAFETY: the caller's promise.
        let time = unsafe { timeout.as_ref() };
        if time.is_some_and(|time| time.tv_sec < 0 || time.tv_usec < 0) {
            return plain();
        }
        let time = time.map(|time| {
            Duration::from_secs(time.tv_sec.unsigned_abs())
                + Duration::from_micros(time.tv_usec.unsigned_abs())
        });
        if time.is_some_and(|time| time.is_zero()) {
            return plain();
        }
        let begin = std::time::Instant::now();
        let look = || {
            asked.restore([read, write, except]);
            let mut none = timeval { tv_sec: 0, tv_usec: 0 };
            // SAFETY: the caller's promise.
            descriptor::look(|| unsafe { next::select(n, read, write, except, &raw mut none) })
        };
        let wait = time.map_or(Wait::forever(), Wait::timeout);
        let found = until(me, &asked.polled, wait, look);
        // As Linux does, what is left of the time is written.
        // SAFETY: the caller's promise.
        if let (Some(time), Some(left)) = (time, unsafe { timeout.as_mut() }) {
            let rest = time.saturating_sub(begin.elapsed());
            (left.tv_sec, left.tv_usec) = (rest.as_secs() as _, rest.subsec_micros().into());
        }
        if found.is_none_or(|found| found < 0) {
            // After an error, too, the sets are as they were: programs call again with them.
            asked.restore([read, write, except]);
        }
        found.unwrap_or_else(|| announced_call(plain))
    })
}

/// See `pselect(2)`. The time that is left is not written.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn pselect(
    n: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let call = |mask| unsafe { next::pselect(n, read, write, except, timeout, mask) };
    let plain = || with_marker(mask, call);
    if green().is_none() {
        return plain();
    }
    let wait = match limit(timeout) {
        Ok(wait) => wait,
        Err(error) => return fail(error),
    };
    if !mask.is_null() {
        // SAFETY: the caller's promise, and a time.
        let call = |mask| within(wait, |left| unsafe { next::pselect(n, read, write, except, left, mask) });
        // SAFETY: the caller's set.
        return point(|| unsafe { masked(mask, call) });
    }
    let mut left = left(wait).map(|left| {
        let micros = left.as_nanos().div_ceil(1000);
        timeval { tv_sec: (micros / 1_000_000) as _, tv_usec: (micros % 1_000_000) as _ }
    });
    let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the caller's promise, and a time.
    unsafe { select(n, read, write, except, left) }
}

/// Returns how many bytes of a set the kernel reads and writes if `n` numbers count: whole words.
fn bytes(n: usize) -> usize {
    n.next_multiple_of(c_long::BITS as usize) / 8
}

/// What `select` was asked about, since the kernel overwrites it.
struct Selected {
    sets: [Option<fd_set>; 3],
    /// How many numbers of each set count.
    n: usize,
    polled: Vec<pollfd>,
}

impl Selected {
    /// Returns `None` for numbers that the sets have no room for.
    fn of(n: c_int, sets: [*mut fd_set; 3]) -> Option<Self> {
        if !(0..=libc::FD_SETSIZE as c_int).contains(&n) {
            return None;
        }
        let bytes = bytes(n as usize);
        let sets = sets.map(|set| {
            (!set.is_null()).then(|| {
                // SAFETY: plain data, for which zero is valid.
                let mut copy: fd_set = unsafe { std::mem::zeroed() };
                // SAFETY: the caller of the call has passed so many bytes, and perhaps no more.
                unsafe { set.cast::<u8>().copy_to((&raw mut copy).cast(), bytes) };
                copy
            })
        });
        let events = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
        let asked = |fd| {
            let is_in = |set: &Option<fd_set>| {
                // SAFETY: the number is in range.
                set.is_some_and(|set| unsafe { libc::FD_ISSET(fd, &raw const set) })
            };
            let events = sets.iter().zip(events).filter(|(set, _)| is_in(set));
            let events = events.fold(0, |all, (_, event)| all | event);
            (events != 0).then_some(pollfd { fd, events, revents: 0 })
        };
        Some(Self { polled: (0..n).filter_map(asked).collect(), sets, n: n as usize })
    }

    fn restore(&self, sets: [*mut fd_set; 3]) {
        for (set, asked) in sets.into_iter().zip(self.sets) {
            if let Some(asked) = asked {
                // SAFETY: so much was read there, and is in a whole set.
                unsafe { (&raw const asked).cast::<u8>().copy_to(set.cast(), bytes(self.n)) };
            }
        }
    }
}

/// Waits for events of a set of descriptors, for the green thread `me`.
fn events(me: ThreadRef, set: c_int, timeout: c_int, look: impl Fn(c_int) -> c_int) -> c_int {
    within_millis(me, || [pollfd { fd: set, events: libc::POLLIN, revents: 0 }], timeout, look)
}

/// See `epoll_wait(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    to: *mut epoll_event,
    n: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let look = |timeout| unsafe { next::epoll_wait(set, to, n, timeout) };
    match green() {
        Some(me) => point(|| events(me, set, timeout, look)),
        None => look(timeout),
    }
}

/// See `epoll_pwait(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    to: *mut epoll_event,
    n: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let look = |timeout| unsafe { next::epoll_pwait(set, to, n, timeout, mask) };
    match green() {
        Some(me) if mask.is_null() => point(|| events(me, set, timeout, look)),
        Some(_) => point(|| {
            let wait = millis(timeout);
            // SAFETY: the caller's promise.
            let call = |mask| unsafe { next::epoll_pwait(set, to, n, millis_left(wait), mask) };
            // SAFETY: the caller's set.
            unsafe { masked(mask, call) }
        }),
        // SAFETY: the caller's promise.
        None => with_marker(mask, |mask| unsafe { next::epoll_pwait(set, to, n, timeout, mask) }),
    }
}
