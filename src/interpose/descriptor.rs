//! What all calls on descriptors share: to try, and to wait if the call would block.

use std::ffi::c_int;
use std::io;
use std::mem;
use std::time::Duration;

use super::cancel::Ends;
use super::{cancel, noted};
use crate::park::backend;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::reactor::by_number::{self, Look};
pub(super) use crate::reactor::source::Direction;
use crate::reactor::source::TURNS;
use crate::sys::next::{self, errno, fail};

/// How a call went that a green thread made.
pub(super) enum Outcome<T> {
    /// It has returned this, and set `errno` if it failed.
    Done(T),
    /// It would block, and the descriptor cannot be waited for.
    Unknown,
}

impl<T: From<i8> + PartialEq> Outcome<T> {
    /// Returns the result. Without one, makes a call that blocks the LWP of `me`, and says so.
    pub(super) fn or_block(self, me: ThreadRef, call: impl FnOnce() -> T) -> T {
        match self {
            Self::Done(result) => result,
            Self::Unknown => backend::blocking(me, || cancel::in_call(call)),
        }
    }
}

/// Makes calls on a descriptor until one does not say that it would block, and waits in between. `me` is the
/// running thread, which is green. `attempt` does not block, whatever the mode of the descriptor. If a call
/// returns less than `most`, it has taken all that there was, and the next one waits first. `most` is 0 for
/// calls of which that is not known.
pub(super) fn call<T: From<i8> + PartialOrd>(
    me: ThreadRef,
    descriptor: c_int,
    direction: Direction,
    most: T,
    attempt: impl FnMut() -> T,
) -> Outcome<T> {
    call_within(me, descriptor, direction, most, &mut None, attempt)
}

/// Does what [`call`] does, for one of several calls that do together what the program asked for. `wait` says
/// how long all of them may wait, once one has.
pub(super) fn call_within<T: From<i8> + PartialOrd>(
    me: ThreadRef,
    descriptor: c_int,
    direction: Direction,
    most: T,
    wait: &mut Option<Wait>,
    mut attempt: impl FnMut() -> T,
) -> Outcome<T> {
    if direction == Direction::Read && waits_for_many(descriptor) {
        return Outcome::Unknown;
    }
    let mut look = Look::at(descriptor, direction);
    let mut turns = 0;
    loop {
        let is_first = wait.is_none();
        let is_tried = !is_first || most <= T::from(0) || look.as_ref().is_none_or(Look::is_ready);
        if is_tried {
            let result = attempt();
            if result >= T::from(0) || errno() != libc::EAGAIN {
                if let Some(look) = look
                    && result >= T::from(0)
                    && result < most
                {
                    look.note_used_up();
                }
                return Outcome::Done(result);
            }
        }
        let wait = match *wait {
            Some(wait) => wait,
            None if blocks(descriptor) => *wait.insert(limit(descriptor, direction)),
            None if is_tried => return Outcome::Done(fail(libc::EAGAIN)),
            None => return Outcome::Done(attempt()),
        };
        match until_ready(me, descriptor, direction, wait, Ends::AsAsked) {
            // After so many, the call itself waits.
            Ready::Yes if turns < TURNS => turns += 1,
            // The set may not have been looked at in time.
            Ready::TimedOut => return Outcome::Done(attempt()),
            Ready::Cut => return Outcome::Done(fail(cancel::code_of_end())),
            Ready::Yes | Ready::Unknown => return Outcome::Unknown,
        }
        look = Look::at(descriptor, direction);
    }
}

/// How a wait for a descriptor went.
pub(super) enum Ready {
    /// A call may not block any more.
    Yes,
    TimedOut,
    /// A request to end the thread has ended the wait, or a handler of a signal.
    Cut,
    /// It cannot be waited for here.
    Unknown,
}

/// Waits for a descriptor. `ends` says how handlers of signals end the wait.
pub(super) fn until_ready(
    me: ThreadRef,
    descriptor: c_int,
    direction: Direction,
    wait: Wait,
    ends: Ends,
) -> Ready {
    let waited = cancel::wait_unless(
        ends,
        wait,
        |wait| by_number::until_ready(me, descriptor, direction, wait),
        |waited| waited.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted),
    );
    match waited.map_err(|error| error.kind()) {
        Ok(()) => Ready::Yes,
        Err(io::ErrorKind::TimedOut) => Ready::TimedOut,
        Err(io::ErrorKind::Interrupted) => Ready::Cut,
        Err(_) => Ready::Unknown,
    }
}

/// Returns `true` if calls on a descriptor block.
pub(super) fn blocks(descriptor: c_int) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_NONBLOCK == 0
}

/// Returns how long calls on a socket may block. On other descriptors they block for as long as it takes.
pub(super) fn limit(descriptor: c_int, direction: Direction) -> Wait {
    if !noted::are_timeouts_set() {
        return Wait::forever();
    }
    let name = match direction {
        Direction::Read => libc::SO_RCVTIMEO,
        Direction::Write => libc::SO_SNDTIMEO,
    };
    let Some(time) = option(descriptor, name, libc::timeval { tv_sec: 0, tv_usec: 0 }) else {
        return Wait::forever();
    };
    let micros = u32::try_from(time.tv_usec).unwrap_or(0);
    let time = Duration::new(time.tv_sec.unsigned_abs(), 0) + Duration::from_micros(micros.into());
    if time.is_zero() { Wait::forever() } else { Wait::timeout(time) }
}

/// Returns `true` if a call that receives waits until there are several bytes (`SO_RCVLOWAT`). A call that
/// must not block takes less.
fn waits_for_many(descriptor: c_int) -> bool {
    noted::are_low_marks_set()
        && option(descriptor, libc::SO_RCVLOWAT, 0).is_some_and(|bytes: c_int| bytes > 1)
}

/// Returns an option of a socket, of the kind of `empty`. Returns `None` and sets `errno` if there is none.
pub(super) fn option<T: Copy>(descriptor: c_int, name: c_int, empty: T) -> Option<T> {
    let mut found = empty;
    let mut length = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut found).cast();
    // SAFETY: `found` has room for the option, and `length` says how much. All options asked for are numbers.
    let code = unsafe { libc::getsockopt(descriptor, libc::SOL_SOCKET, name, at, &raw mut length) };
    (code == 0).then_some(found)
}

/// What a descriptor leads to, as far as calls on it differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Socket,
    /// A pipe, a terminal, a counter: there may be nothing to read for long.
    Stream,
    /// A file, or what is not a descriptor.
    Other,
}

/// Returns the kind of a descriptor. One system call.
pub(super) fn kind(descriptor: c_int) -> Kind {
    // SAFETY: plain data, for which zero is valid.
    let mut found: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: `found` is written.
    if unsafe { libc::fstat(descriptor, &raw mut found) } != 0 {
        return Kind::Other;
    }
    match found.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Kind::Socket,
        libc::S_IFIFO | libc::S_IFCHR => Kind::Stream,
        // Anonymous ones, such as counters and timers, have no format.
        0 => Kind::Stream,
        _ => Kind::Other,
    }
}

/// Returns `true` if a descriptor is ready at this moment, as `poll` says.
pub(super) fn is_ready(descriptor: c_int, direction: Direction) -> bool {
    let events = match direction {
        Direction::Read => libc::POLLIN,
        Direction::Write => libc::POLLOUT,
    };
    let mut polled = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: one descriptor, as said.
    look(|| unsafe { next::poll(&raw mut polled, 1, 0) }) != 0
}

/// Returns `true` if a socket has an error, or its other side has ended.
pub(super) fn has_ended(descriptor: c_int) -> bool {
    let mut polled = libc::pollfd { fd: descriptor, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one descriptor, as said.
    look(|| unsafe { next::poll(&raw mut polled, 1, 0) }) != 0
}

/// Makes a call that does not wait until no signal interrupts it.
pub(super) fn look(mut call: impl FnMut() -> c_int) -> c_int {
    loop {
        let found = call();
        if found >= 0 || errno() != libc::EINTR {
            return found;
        }
    }
}
