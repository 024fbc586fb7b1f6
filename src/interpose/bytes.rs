//! `read`, `write` and `close`.
//!
//! A call on a pipe says with a flag that it must not block (`RWF_NOWAIT`), and one on a socket with another.
//! Where neither is known, `poll` is asked first.

use std::ffi::{c_int, c_long, c_void};

use libc::{iovec, size_t, ssize_t};

use super::caller::green;
use super::cancel::{self, announced_call, in_call, point};
use super::descriptor::{self, Direction, Kind, Outcome};
use super::sockets;
use crate::park::no_preempt;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::reactor::by_number;
use crate::sys::next::{self, errno, fail};
use crate::sys::preempt::keep_errno;
use crate::sys::task_state;

/// The offset that means the descriptor's own.
const CURRENT: libc::off_t = -1;

/// Makes a call on a pipe, a terminal or their like. `flagged` says that it must not block; `plain` may
/// block. For `wait`, see [`descriptor::call_within`].
fn stream(
    me: ThreadRef,
    descriptor: c_int,
    direction: Direction,
    wait: &mut Option<Wait>,
    flagged: impl Fn() -> ssize_t,
    plain: impl Fn() -> ssize_t,
) -> Outcome<ssize_t> {
    descriptor::call_within(me, descriptor, direction, 0, wait, || {
        let result = flagged();
        if result >= 0 || errno() != libc::EOPNOTSUPP {
            return result;
        }
        // Another thread may be faster, so even then the call may block.
        if descriptor::is_ready(descriptor, direction) {
            crate::park::backend::blocking(me, || in_call(&plain))
        } else {
            fail(libc::EAGAIN)
        }
    })
}

/// See `read(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, n: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::read(fd, to, n) };
    let Some(me) = green() else { return plain() };
    point(|| {
        match descriptor::kind(fd) {
            _ if n == 0 => plain(),
            Kind::Socket => sockets::receive(me, fd, to, n, 0).or_block(me, plain),
            Kind::Stream => {
                let part = iovec { iov_base: to, iov_len: n };
                // SAFETY: the caller's promise.
                let flagged = || unsafe { next::preadv2(fd, &raw const part, 1, CURRENT, libc::RWF_NOWAIT) };
                stream(me, fd, Direction::Read, &mut None, flagged, plain).or_block(me, plain)
            }
            Kind::Other => announced_call(plain),
        }
    })
}

/// See `readv(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn readv(fd: c_int, to: *const iovec, n: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::readv(fd, to, n) };
    let Some(me) = green() else { return plain() };
    point(|| {
        match descriptor::kind(fd) {
            Kind::Socket | Kind::Stream => {
                // SAFETY: the caller's promise.
                let flagged = || unsafe { next::preadv2(fd, to, n, CURRENT, libc::RWF_NOWAIT) };
                stream(me, fd, Direction::Read, &mut None, flagged, plain).or_block(me, plain)
            }
            Kind::Other => announced_call(plain),
        }
    })
}

/// See `write(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, n: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::write(fd, from, n) };
    let Some(me) = green() else { return plain() };
    point(|| {
        let mut wait = None;
        match descriptor::kind(fd) {
            Kind::Socket => sockets::send_all(me, fd, from, n, 0),
            Kind::Stream => all(0, n, |done| {
                let part = iovec { iov_base: from.wrapping_byte_add(done).cast_mut(), iov_len: n - done };
                // SAFETY: the rest of what the caller passes.
                let flagged = || unsafe { next::pwritev2(fd, &raw const part, 1, CURRENT, libc::RWF_NOWAIT) };
                // SAFETY: the rest of what the caller passes.
                let plain = || unsafe { next::write(fd, part.iov_base, part.iov_len) };
                stream(me, fd, Direction::Write, &mut wait, flagged, plain).or_block(me, plain)
            }),
            Kind::Other => announced_call(plain),
        }
    })
}

/// See `writev(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn writev(fd: c_int, from: *const iovec, n: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::writev(fd, from, n) };
    let Some(me) = green() else { return plain() };
    point(|| {
        let kind = descriptor::kind(fd);
        if kind == Kind::Other || !descriptor::blocks(fd) {
            return announced_call(plain);
        }
        let mut wait = None;
        all_parts(from, n, |done, parts, count| {
            if kind == Kind::Socket && done > 0 {
                // SAFETY: parts of what the caller passes.
                return unsafe { sockets::send_rest(me, fd, parts, count, &mut wait) };
            }
            // SAFETY: what the caller passes, or parts of it.
            let flagged = || unsafe { next::pwritev2(fd, parts, count, CURRENT, libc::RWF_NOWAIT) };
            // SAFETY: what the caller passes, or parts of it.
            let plain = || unsafe { next::writev(fd, parts, count) };
            stream(me, fd, Direction::Write, &mut wait, flagged, plain).or_block(me, plain)
        })
    })
}

/// Calls `send` with the number of bytes that have been sent until that is `n`, as a call that blocks does.
/// It begins with `done`. Returns that number if any were sent, and otherwise the error.
pub(super) fn all(mut done: size_t, n: size_t, mut send: impl FnMut(size_t) -> ssize_t) -> ssize_t {
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

/// Does what [`all`] does, with several buffers: first with the caller's, which the kernel judges, and then
/// with what is left of them. `call` also gets the number of bytes that are done.
pub(super) fn all_parts(
    parts: *const iovec,
    n: c_int,
    mut call: impl FnMut(size_t, *const iovec, c_int) -> ssize_t,
) -> ssize_t {
    let first = call(0, parts, n);
    let Ok(done @ 1..) = usize::try_from(first) else { return first };
    // SAFETY: the kernel has read so many there, since it has used some of their bytes.
    let parts = unsafe { std::slice::from_raw_parts(parts, n as usize) };
    let length = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.iov_len));
    if done >= length {
        return first;
    }
    let mut rest = Parts::of(parts);
    all(done, length, |done| {
        rest.skip_to(done);
        let (parts, count) = rest.left();
        call(done, parts, count)
    })
}

/// The buffers of a call, some of which have been used.
struct Parts {
    parts: Vec<iovec>,
    /// The first that is not used up.
    first: usize,
    /// Bytes that are used, of all.
    done: usize,
}

impl Parts {
    fn of(parts: &[iovec]) -> Self {
        Self { parts: parts.to_vec(), first: 0, done: 0 }
    }

    /// Leaves out the first `done` bytes of all.
    fn skip_to(&mut self, done: usize) {
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

    fn left(&self) -> (*const iovec, c_int) {
        let left = &self.parts[self.first..];
        (left.as_ptr(), left.len() as c_int)
    }
}

/// Lets threads that wait for a descriptor find that it is closed. A handler of a signal that has interrupted
/// this crate's own code cannot: their queue may be locked below it. Then they wait on, as the kernel lets
/// them. What the monitor closes in its own table says nothing of the process's descriptor of that number.
fn note_closed(descriptor: c_int) {
    if no_preempt::is_allowed() && !task_state::has_own_descriptors() {
        // The program looks at that of `close`.
        keep_errno(|| by_number::closed(descriptor));
    }
}

/// Closes a descriptor that this crate has made for a call of the program. The C library's `close` is a place
/// where a thread may be ended. Its caller here has more to do, and may be one that must not unwind.
pub(super) fn close_own(descriptor: c_int) {
    // SAFETY: no memory is involved, and no other code knows the descriptor.
    unsafe { next::syscall(libc::SYS_close, c_long::from(descriptor), 0, 0, 0, 0, 0) };
    note_closed(descriptor);
}

/// See `close(2)`. Threads that wait for the descriptor find that it is closed.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if cancel::is_outside() && green().is_some() {
        point(|| ());
    }
    // SAFETY: the caller's promise.
    let result = unsafe { next::close(fd) };
    note_closed(fd);
    result
}

/// See `dup2(2)`. What the number led to before is closed.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::dup2(from, to) };
    if result >= 0 {
        note_closed(to);
    }
    result
}

/// See `dup3(2)`. What the number led to before is closed.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { next::dup3(from, to, flags) };
    if result >= 0 {
        note_closed(to);
    }
    result
}
