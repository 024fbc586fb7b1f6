//! `recv`, `send`, `accept`, `connect` and their like.

use std::ffi::{c_int, c_uint, c_void};
use std::mem;
use std::ptr;

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

use super::bytes::{all, all_parts};
use super::caller::green;
use super::cancel::{self, Ends, announced_call, in_call, point};
use super::descriptor::{self, Direction, Outcome, Ready};
use crate::park::backend;
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::sys::next::{self, errno, fail};
use crate::time;

const NOW: c_int = libc::MSG_DONTWAIT;

/// Returns the running thread if it is green, and a call that receives with these flags may block. Urgent
/// bytes and the queue of errors are never waited for.
#[inline]
fn receiver(flags: c_int) -> Option<ThreadRef> {
    if flags & (NOW | libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 { None } else { green() }
}

/// Returns the running thread if it is green, and a call that sends with these flags may block.
#[inline]
fn sender(flags: c_int) -> Option<ThreadRef> {
    if flags & NOW != 0 { None } else { green() }
}

/// With one of these, a call that sends does something else if it must not block, or if it is made in parts.
const IN_ONE: c_int = libc::MSG_OOB | libc::MSG_FASTOPEN | libc::MSG_ZEROCOPY;

/// Returns the flags of a call that sends what is left of `done` bytes and more. The program gets the count
/// if some were sent, and so no signal.
fn flags_after(done: size_t, flags: c_int) -> c_int {
    if done == 0 { flags } else { flags | libc::MSG_NOSIGNAL }
}

/// Receives bytes, for the green thread `me`.
pub(super) fn receive(
    me: ThreadRef,
    fd: c_int,
    to: *mut c_void,
    n: size_t,
    flags: c_int,
) -> Outcome<ssize_t> {
    // A message may be shorter than the room for it, or stay where it is.
    let most = if flags & libc::MSG_PEEK == 0 { ssize_t::try_from(n).unwrap_or(0) } else { 0 };
    // SAFETY: the caller of the call has passed the buffer.
    descriptor::call(me, fd, Direction::Read, most, || unsafe { next::recv(fd, to, n, flags | NOW) })
}

/// Sends all bytes, for the green thread `me`, or as many as can be sent without waiting if the mode says so.
pub(super) fn send_all(me: ThreadRef, fd: c_int, from: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    if flags & IN_ONE != 0 {
        // SAFETY: the caller of the call has passed the bytes.
        return backend::blocking(me, || in_call(|| unsafe { next::send(fd, from, n, flags) }));
    }
    let mut wait = None;
    all(0, n, |done| {
        let flags = flags_after(done, flags);
        let (from, n) = (from.wrapping_byte_add(done), n - done);
        // SAFETY: the rest of what the caller of the call has passed.
        let attempt = || unsafe { next::send(fd, from, n, flags | NOW) };
        // SAFETY: the rest of what the caller of the call has passed.
        let plain = || unsafe { next::send(fd, from, n, flags) };
        descriptor::call_within(me, fd, Direction::Write, 0, &mut wait, attempt).or_block(me, plain)
    })
}

/// See `recv(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recv(fd: c_int, to: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::recv(fd, to, n, flags) };
    match receiver(flags) {
        None => plain(),
        Some(me) if flags & libc::MSG_WAITALL != 0 => point(|| {
            receive_all(me, fd, n, flags, |done| {
                // SAFETY: the rest of what the caller passes.
                unsafe { next::recv(fd, to.wrapping_byte_add(done), n - done, flags) }
            })
        }),
        Some(me) => point(|| receive(me, fd, to, n, flags).or_block(me, plain)),
    }
}

/// Receives `n` bytes, in calls that block the LWP of `me`. `call` gets the number of bytes that are there
/// already. A signal ends such a call early, and the runtime sends signals of its own. Then another call
/// follows, unless it would find an error or the end: that is for the program's next call. None follows when
/// the socket's time is over.
fn receive_all(
    me: ThreadRef,
    fd: c_int,
    n: size_t,
    flags: c_int,
    call: impl Fn(size_t) -> ssize_t,
) -> ssize_t {
    let wait = descriptor::limit(fd, Direction::Read);
    let mut done = 0;
    loop {
        let received = backend::blocking(me, || in_call(|| call(done)));
        match usize::try_from(received) {
            Ok(more) => done += more,
            Err(_) if done == 0 => return -1,
            Err(_) => return done as ssize_t,
        }
        let is_all = received == 0 || done >= n || flags & libc::MSG_PEEK != 0;
        if is_all || time::has_passed(wait.deadline) || !is_stream(fd) || descriptor::has_ended(fd) {
            return done as ssize_t;
        }
    }
}

/// Returns `true` if a socket has no boundaries between messages.
fn is_stream(fd: c_int) -> bool {
    descriptor::option(fd, libc::SO_TYPE, 0) == Some(libc::SOCK_STREAM)
}

/// See `send(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn send(
    fd: c_int,
    from: *const c_void,
    n: size_t,
    flags: c_int,
) -> ssize_t {
    match sender(flags) {
        Some(me) => point(|| send_all(me, fd, from, n, flags)),
        // SAFETY: the caller's promise.
        None => unsafe { next::send(fd, from, n, flags) },
    }
}

/// Receives a message by `call`, whose argument is the flags.
fn receive_message(me: ThreadRef, fd: c_int, flags: c_int, call: impl Fn(c_int) -> ssize_t) -> ssize_t {
    descriptor::call(me, fd, Direction::Read, 0, || call(flags | NOW)).or_block(me, || call(flags))
}

/// See `recvfrom(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    n: size_t,
    flags: c_int,
    by: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let call = |flags| unsafe { next::recvfrom(fd, to, n, flags, by, len) };
    match receiver(flags) {
        None => call(flags),
        Some(me) if flags & libc::MSG_WAITALL != 0 => point(|| {
            receive_all(me, fd, n, flags, |done| {
                // SAFETY: the rest of what the caller passes.
                unsafe { next::recvfrom(fd, to.wrapping_byte_add(done), n - done, flags, by, len) }
            })
        }),
        Some(me) => point(|| receive_message(me, fd, flags, call)),
    }
}

/// See `sendto(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    n: size_t,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::sendto(fd, from, n, flags, to, len) };
    let Some(me) = sender(flags) else { return plain() };
    point(|| {
        if flags & IN_ONE != 0 {
            return backend::blocking(me, || in_call(plain));
        }
        let mut wait = None;
        all(0, n, |done| {
            let flags = flags_after(done, flags);
            let (from, n) = (from.wrapping_byte_add(done), n - done);
            // SAFETY: the rest of what the caller passes.
            let call = |flags| unsafe { next::sendto(fd, from, n, flags, to, len) };
            let attempt = || call(flags | NOW);
            descriptor::call_within(me, fd, Direction::Write, 0, &mut wait, attempt)
                .or_block(me, || call(flags))
        })
    })
}

/// See `recvmsg(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let call = |flags| unsafe { next::recvmsg(fd, message, flags) };
    match receiver(flags) {
        None => call(flags),
        Some(me) if flags & libc::MSG_WAITALL != 0 => {
            point(|| backend::blocking(me, || in_call(|| call(flags))))
        }
        Some(me) => point(|| receive_message(me, fd, flags, call)),
    }
}

/// Sends a message, for the green thread `me`. For `wait`, see [`descriptor::call_within`].
///
/// # Safety
/// As for `sendmsg`.
unsafe fn send_message(
    me: ThreadRef,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
    wait: &mut Option<Wait>,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let call = |flags| unsafe { next::sendmsg(fd, message, flags) };
    let attempt = || call(flags | NOW);
    descriptor::call_within(me, fd, Direction::Write, 0, wait, attempt).or_block(me, || call(flags))
}

/// Sends what is left of several buffers, some bytes of which were sent, for the green thread `me`. For
/// `wait`, see [`descriptor::call_within`].
///
/// # Safety
/// The buffers are readable.
pub(super) unsafe fn send_rest(
    me: ThreadRef,
    fd: c_int,
    parts: *const iovec,
    n: c_int,
    wait: &mut Option<Wait>,
) -> ssize_t {
    // SAFETY: plain data, for which zero is valid.
    let mut message: msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.cast_mut(), n as _);
    // SAFETY: the caller's promise, and no address.
    unsafe { send_message(me, fd, &raw const message, flags_after(1, 0), wait) }
}

/// See `sendmsg(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::sendmsg(fd, message, flags) };
    let Some(me) = sender(flags) else { return plain() };
    point(|| {
        if flags & IN_ONE != 0 {
            return backend::blocking(me, || in_call(plain));
        }
        let mut wait = None;
        // SAFETY: what the caller passes, or parts of it.
        let mut send = |message, flags| unsafe { send_message(me, fd, message, flags, &mut wait) };
        // The kernel judges the message.
        let first = send(message, flags);
        if first <= 0 {
            return first;
        }
        // SAFETY: the kernel has read it.
        let mut rest = unsafe { *message };
        // The rest went with the first bytes.
        (rest.msg_control, rest.msg_controllen) = (ptr::null_mut(), 0);
        all_parts(rest.msg_iov, rest.msg_iovlen as c_int, |done, parts, count| {
            if done == 0 {
                return first;
            }
            (rest.msg_iov, rest.msg_iovlen) = (parts.cast_mut(), count as _);
            send(&raw const rest, flags_after(done, flags))
        })
    })
}

/// See `recvmmsg(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    n: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    point(|| announced_call(|| unsafe { next::recvmmsg(fd, messages, n, flags, timeout) }))
}

/// See `sendmmsg(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    n: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    point(|| announced_call(|| unsafe { next::sendmmsg(fd, messages, n, flags) }))
}

/// Waits, for the green thread `me`, until a call that accepts may not block, and makes it. Another thread
/// may be faster, so it may block all the same.
fn accept_by(me: ThreadRef, fd: c_int, plain: impl Fn() -> c_int) -> c_int {
    if !descriptor::blocks(fd) {
        return plain();
    }
    let attempt = || {
        // Of what does not listen, the kernel says so at once.
        let listens = || descriptor::option(fd, libc::SO_ACCEPTCONN, 0) == Some(1);
        if descriptor::is_ready(fd, Direction::Read) || !listens() {
            backend::blocking(me, || in_call(&plain))
        } else {
            fail(libc::EAGAIN)
        }
    };
    descriptor::call(me, fd, Direction::Read, 0, attempt).or_block(me, &plain)
}

/// See `accept(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn accept(fd: c_int, by: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::accept(fd, by, len) };
    match green() {
        Some(me) => point(|| accept_by(me, fd, plain)),
        None => plain(),
    }
}

/// See `accept4(2)`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    by: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::accept4(fd, by, len, flags) };
    match green() {
        Some(me) if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) == 0 => {
            point(|| accept_by(me, fd, plain))
        }
        _ => plain(),
    }
}

/// See `connect(2)`.
///
/// A call on a stream of the Internet has no flag that it must not block. So the socket's mode is changed for
/// the moment of the call. No other call on a socket that is not connected could notice. Other sockets
/// connect at once, or block their LWP.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { next::connect(fd, to, len) };
    let Some(me) = green() else { return plain() };
    point(|| {
        let family = descriptor::option(fd, libc::SO_DOMAIN, 0);
        let internet = matches!(family, Some(libc::AF_INET | libc::AF_INET6));
        if !internet || !is_stream(fd) || !descriptor::blocks(fd) {
            return backend::blocking(me, || in_call(plain));
        }
        set_blocks(fd, false);
        let begun = plain();
        let error = errno();
        set_blocks(fd, true);
        // The second: an earlier call has begun it, and its time was over.
        if begun == 0 || !matches!(error, libc::EINPROGRESS | libc::EALREADY) {
            return if begun == 0 { 0 } else { fail(error) };
        }
        let wait = descriptor::limit(fd, Direction::Write);
        // An event of an earlier descriptor of this number says nothing of this one.
        while !descriptor::is_ready(fd, Direction::Write) {
            match descriptor::until_ready(me, fd, Direction::Write, wait, Ends::AsAsked) {
                Ready::Yes => {}
                Ready::TimedOut => return fail(libc::EINPROGRESS),
                Ready::Cut => return fail(cancel::code_of_end()),
                Ready::Unknown => {
                    let mut polled = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                    // SAFETY: one descriptor, as said.
                    let poll = || unsafe { next::poll(&raw mut polled, 1, -1) };
                    if backend::blocking(me, || in_call(poll)) < 0 && cancel::is_cut() {
                        return fail(libc::ECANCELED);
                    }
                }
            }
        }
        match descriptor::option(fd, libc::SO_ERROR, 0) {
            Some(0) => 0,
            Some(error) => fail(error),
            // It was closed meanwhile.
            None => -1,
        }
    })
}

fn set_blocks(fd: c_int, blocks: bool) {
    let mut nonblocking = c_int::from(!blocks);
    // SAFETY: the kernel reads the one number.
    unsafe { libc::ioctl(fd, libc::FIONBIO, &raw mut nonblocking) };
}
