//! `read`, `write` and `close`.
//!
//! A call on a pipe says with a flag that it must not block (`RWF_NOWAIT`), and one on a socket with another.
//! Where neither is known, `poll` is asked first.

use std::ffi::{c_int, c_void};

use libc::{iovec, size_t, ssize_t};

use super::caller::{announced, green};
use super::descriptor::{self, Direction, Kind, Outcome};
use super::sockets;
use crate::park::no_preempt;
use crate::park::thread::ThreadRef;
use crate::reactor::by_number;
use crate::sys::next::{self, errno, fail};
use crate::sys::task_state;

/// The offset that means the descriptor's own.
const CURRENT: libc::off_t = -1;

/// Makes a call on a pipe, a terminal or their like. `flagged` says that it must not block; `plain` may
/// block.
fn stream(
    me: ThreadRef,
    descriptor: c_int,
    direction: Direction,
    flagged: impl Fn() -> ssize_t,
    plain: impl Fn() -> ssize_t,
) -> Outcome<ssize_t> {
    descriptor::call(me, descriptor, direction, 0, || {
        let result = flagged();
        if result >= 0 || errno() != libc::EOPNOTSUPP {
            return result;
        }
        // Another thread may be faster, so even then the call may block.
        if descriptor::is_ready(descriptor, direction) {
            crate::park::backend::blocking(me, &plain)
        } else {
            fail(libc::EAGAIN)
        }
    })
}

/// See `read(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn read(fd: c_int, to: *mut c_void, n: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::read(fd, to, n) };
    let Some(me) = green() else { return plain() };
    match descriptor::kind(fd) {
        _ if n == 0 => plain(),
        Kind::Socket => sockets::receive(me, fd, to, n, 0).or_block(me, plain),
        Kind::Stream => {
            let part = iovec { iov_base: to, iov_len: n };
            // SAFETY: the caller's promise.
            let flagged = || unsafe { next::preadv2(fd, &raw const part, 1, CURRENT, libc::RWF_NOWAIT) };
            stream(me, fd, Direction::Read, flagged, plain).or_block(me, plain)
        }
        Kind::Other => announced(plain),
    }
}

/// See `readv(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn readv(fd: c_int, to: *const iovec, n: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::readv(fd, to, n) };
    let Some(me) = green() else { return plain() };
    match descriptor::kind(fd) {
        Kind::Socket | Kind::Stream => {
            // SAFETY: the caller's promise.
            let flagged = || unsafe { next::preadv2(fd, to, n, CURRENT, libc::RWF_NOWAIT) };
            stream(me, fd, Direction::Read, flagged, plain).or_block(me, plain)
        }
        Kind::Other => announced(plain),
    }
}

/// See `write(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn write(fd: c_int, from: *const c_void, n: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::write(fd, from, n) };
    let Some(me) = green() else { return plain() };
    match descriptor::kind(fd) {
        Kind::Socket => sockets::send_all(me, fd, from, n, 0),
        Kind::Stream => all(n, |done| {
            let part = iovec { iov_base: from.wrapping_byte_add(done).cast_mut(), iov_len: n - done };
            // SAFETY: the rest of what the caller passes.
            let flagged = || unsafe { next::pwritev2(fd, &raw const part, 1, CURRENT, libc::RWF_NOWAIT) };
            // SAFETY: the rest of what the caller passes.
            let plain = || unsafe { next::write(fd, part.iov_base, part.iov_len) };
            stream(me, fd, Direction::Write, flagged, plain).or_block(me, plain)
        }),
        Kind::Other => announced(plain),
    }
}

/// See `writev(2)`.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn writev(fd: c_int, from: *const iovec, n: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::writev(fd, from, n) };
    let Some(me) = green() else { return plain() };
    if descriptor::kind(fd) == Kind::Other || !descriptor::blocks(fd) {
        return announced(plain);
    }
    let Some(mut rest) = Parts::of(from, n) else { return fail(libc::EINVAL) };
    all(rest.length(), |done| {
        rest.skip_to(done);
        let (parts, count) = rest.left();
        // SAFETY: parts of what the caller passes.
        let flagged = || unsafe { next::pwritev2(fd, parts, count, CURRENT, libc::RWF_NOWAIT) };
        // SAFETY: parts of what the caller passes.
        let plain = || unsafe { next::writev(fd, parts, count) };
        stream(me, fd, Direction::Write, flagged, plain).or_block(me, plain)
    })
}

/// Calls `send` with the number of bytes that have been sent until that is `n`, as a call that blocks does.
/// Returns that number if any were sent, and otherwise the error.
pub(super) fn all(n: size_t, mut send: impl FnMut(size_t) -> ssize_t) -> ssize_t {
    let mut done = 0;
    loop {
        match usize::try_from(send(done)) {
            // A device may take nothing, and says so again and again.
            Ok(0) => return done as ssize_t,
            Ok(sent) => done += sent,
            Err(_) if done == 0 => return -1,
            Err(_) => return done as ssize_t,
        }
        if done >= n {
            return done as ssize_t;
        }
    }
}

/// The buffers of a call, some of which have been used.
pub(super) struct Parts {
    parts: Vec<iovec>,
    /// The first that is not used up.
    first: usize,
    /// Bytes that are used, of all.
    done: usize,
}

impl Parts {
    /// Returns `None` for a number of buffers that the kernel does not take.
    pub(super) fn of(parts: *const iovec, n: c_int) -> Option<Self> {
        let count = usize::try_from(n).ok().filter(|&count| count <= libc::UIO_MAXIOV as usize)?;
        if count == 0 || parts.is_null() {
            return Some(Self { parts: Vec::new(), first: 0, done: 0 });
        }
        // SAFETY: the caller of the call has passed so many.
        let parts = unsafe { std::slice::from_raw_parts(parts, count) }.to_vec();
        Some(Self { parts, first: 0, done: 0 })
    }

    pub(super) fn length(&self) -> usize {
        self.parts.iter().map(|part| part.iov_len).sum()
    }

    /// Leaves out the first `done` bytes of all.
    pub(super) fn skip_to(&mut self, done: usize) {
        let mut more = done - self.done;
        self.done = done;
        for part in &mut self.parts[self.first..] {
            let used = more.min(part.iov_len);
            part.iov_base = part.iov_base.wrapping_byte_add(used);
            part.iov_len -= used;
            more -= used;
            if part.iov_len > 0 {
                break;
            }
            self.first += 1;
        }
    }

    pub(super) fn left(&self) -> (*const iovec, c_int) {
        let left = &self.parts[self.first..];
        (left.as_ptr(), left.len() as c_int)
    }
}

/// Lets threads that wait for a descriptor find that it is closed. A handler of a signal that has interrupted
/// this crate's own code cannot: their queue may be locked below it. Then they wait on, as the kernel lets
/// them. What the monitor closes in its own table says nothing of the process's descriptor of that number.
fn note_closed(descriptor: c_int) {
    if no_preempt::is_allowed() && !task_state::has_own_descriptors() {
        by_number::closed(descriptor);
    }
}

/// See `close(2)`. Threads that wait for the descriptor find that it is closed.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn close(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::close(fd) };
    note_closed(fd);
    result
}

/// See `dup2(2)`. What the number led to before is closed.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::dup2(from, to) };
    note_closed(to);
    result
}

/// See `dup3(2)`. What the number led to before is closed.
///
/// # Safety
/// As the C library's function.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::dup3(from, to, flags) };
    note_closed(to);
    result
}
