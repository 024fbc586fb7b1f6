//! What the manual says of calls: arguments that are wrong, limits of time, descriptors of another kind.
//! Kernel threads are asked first: the questions must be right.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use libc::{c_int, c_void, iovec, msghdr};
use selvedge::{LwpState, Mxn, Runtime, thread};

use crate::waiting::until_waits;
use crate::watchdog::Watchdog;
use crate::{child, green};

/// Asks in a kernel thread, and then in green ones.
fn everywhere(what: &str, ask: fn()) {
    {
        let _watchdog = Watchdog::start(format!("{what}, a kernel thread"));
        ask();
    }
    green(what, |_| ask());
}

/// Returns the error of a call that has returned this, or `None` if it has not failed.
fn error(returned: isize) -> Option<c_int> {
    (returned == -1).then(|| io::Error::last_os_error().raw_os_error().unwrap())
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn set(socket: &impl AsRawFd, option: c_int, value: c_int) {
    let (at, length) = ((&raw const value).cast(), size_of::<c_int>() as libc::socklen_t);
    // SAFETY: a number.
    let code = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, length) };
    assert_eq!(error(code as isize), None);
}

#[test]
fn what_does_not_listen_accepts_nothing() {
    everywhere("what does not listen accepts nothing", || {
        let accept = |descriptor: RawFd, flags| {
            // SAFETY: no address is asked for.
            error(unsafe { libc::accept4(descriptor, ptr::null_mut(), ptr::null_mut(), flags) } as isize)
        };
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let (stream, _other) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(accept(datagrams.as_raw_fd(), 0), Some(libc::EOPNOTSUPP));
        assert_eq!(accept(reader.as_raw_fd(), 0), Some(libc::ENOTSOCK));
        assert_eq!(accept(stream.as_raw_fd(), 0), Some(libc::EINVAL));
        assert_eq!(accept(listener.as_raw_fd(), 1), Some(libc::EINVAL));
    });
}

#[test]
fn places_that_are_none_are_errors() {
    everywhere("places that are none are errors", || {
        let (stream, _other) = pair();
        let socket = stream.as_raw_fd();
        let nowhere = ptr::without_provenance::<c_void>(8);
        let byte = [0_u8];
        let long = iovec { iov_base: byte.as_ptr().cast_mut().cast(), iov_len: usize::MAX };
        // SAFETY: the kernel finds that it is wrong.
        let write = |at: *const iovec, count| error(unsafe { libc::writev(socket, at, count) });
        // SAFETY: the kernel finds that it is wrong.
        let send = |message: *const msghdr| error(unsafe { libc::sendmsg(socket, message, 0) });
        // SAFETY: the kernel finds that it is wrong.
        let connect = |address| error(unsafe { libc::connect(socket, address, 16) } as isize);
        // SAFETY: numbers and pointers, which may be null.
        let mut message: msghdr = unsafe { mem::zeroed() };
        message.msg_iovlen = 1;
        let mut many = message;
        many.msg_iovlen = 1025;
        let codes = [
            write(ptr::null(), 1),
            write(nowhere.cast(), 1),
            write([long, long].as_ptr(), 2),
            write(nowhere.cast(), 1025),
            write(nowhere.cast(), -1),
            send(nowhere.cast()),
            send(&raw const message),
            send(&raw const many),
            connect(nowhere.cast()),
        ];
        let (fault, invalid) = (Some(libc::EFAULT), Some(libc::EINVAL));
        let much = Some(libc::EMSGSIZE);
        assert_eq!(codes, [fault, fault, invalid, invalid, invalid, fault, fault, much, fault]);
    });
}

/// `select` reads and writes no more of a set than it is told to.
#[test]
fn sets_may_be_short() {
    everywhere("sets may be short", || {
        const PAGE: usize = 64 << 10;
        // SAFETY: new memory.
        let pages = unsafe {
            libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, FLAGS, -1, 0)
        };
        assert_ne!(pages, libc::MAP_FAILED);
        const FLAGS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the second half of it.
        assert_eq!(unsafe { libc::mprotect(pages.wrapping_byte_add(PAGE), PAGE, libc::PROT_NONE) }, 0);
        let set = pages.wrapping_byte_add(PAGE - 8);
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 1000 };
        let none = ptr::null_mut();
        // SAFETY: a set with one word, and a time.
        assert_eq!(unsafe { libc::select(64, set.cast(), none, none, &raw mut time) }, 0);
        // SAFETY: mapped above.
        assert_eq!(unsafe { libc::munmap(pages, 2 * PAGE) }, 0);
    });
}

/// A time counts for the whole call, however often some bytes come or go.
#[test]
fn a_timeout_counts_for_the_whole_call() {
    everywhere("a timeout counts for the whole call", || {
        const MANY: usize = 32 << 20;
        let time = Some(Duration::from_millis(100));
        let (one, other) = pair();
        one.set_read_timeout(time).unwrap();
        one.set_write_timeout(time).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let beside = {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                while !over.load(SeqCst) {
                    (&other).write_all(b"x").unwrap();
                    let _ = (&other).read(&mut bytes).unwrap();
                    std::thread::sleep(Duration::from_millis(5));
                }
                other
            })
        };
        let bytes = vec![0_u8; MANY];
        // SAFETY: the buffer is valid for its length.
        let sent = unsafe { libc::send(one.as_raw_fd(), bytes.as_ptr().cast(), MANY, 0) };
        assert!(0 < sent && sent < MANY as isize, "{sent}");
        // What is left for the other side to read lets it go on for longer than it takes to send so many.
        let mut bytes = [0_u8; 1000];
        for with_address in [false, true] {
            let (at, n, flags) = (bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_WAITALL);
            let received = if with_address {
                // SAFETY: the buffer is valid for its length, and no address is asked for.
                unsafe { libc::recvfrom(one.as_raw_fd(), at, n, flags, ptr::null_mut(), ptr::null_mut()) }
            } else {
                // SAFETY: the buffer is valid for its length.
                unsafe { libc::recv(one.as_raw_fd(), at, n, flags) }
            };
            // On a busy machine, nothing may come in time.
            assert!(error(received).is_none_or(|error| error == libc::EAGAIN));
            assert!(received < n as isize, "{received}");
        }
        over.store(true, SeqCst);
        drop(one);
        beside.join().unwrap();
    });
}

/// A call receives as many bytes as the socket says.
#[test]
fn a_least_number_of_bytes_is_waited_for() {
    everywhere("a least number of bytes is waited for", || {
        let (mut one, other) = pair();
        set(&other, libc::SO_RCVLOWAT, 4);
        one.write_all(b"ab").unwrap();
        let writing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            one.write_all(b"cdef").unwrap();
            one
        });
        // The kernel does not wake a thread for less than four bytes more.
        assert_eq!((&other).read(&mut [0; 8]).unwrap(), 6);
        writing.join().unwrap();
    });
}

/// Some bytes were sent, and then the other side has gone: that is no error, and no signal.
#[test]
fn a_call_that_has_sent_some_bytes_raises_no_signal() {
    // The signal is the whole process's.
    child::run("sends_some", &[]).expect_success();
}

pub(crate) fn sends_some() {
    // SAFETY: the default action.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    everywhere("a call that has sent some bytes", || {
        for with_parts in [false, true] {
            let (one, mut other) = UnixStream::pair().unwrap();
            let closing = std::thread::spawn(move || other.read_exact(&mut [0]).unwrap());
            let bytes = vec![0_u8; 8 << 20];
            let (at, n) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
            let parts = [iovec { iov_base: at, iov_len: n / 2 }; 2];
            let sent = if with_parts {
                // SAFETY: both buffers are valid for their lengths.
                unsafe { libc::writev(one.as_raw_fd(), parts.as_ptr(), 2) }
            } else {
                // SAFETY: the buffer is valid for its length.
                unsafe { libc::write(one.as_raw_fd(), at, n) }
            };
            assert!(0 < sent && sent < n as isize, "{sent}");
            closing.join().unwrap();
        }
    });
}

/// Nothing is connected after that.
#[test]
fn a_socket_that_is_closed_while_it_connects_is_an_error() {
    // Other tests would get the number.
    child::run("closed_while_connecting", &[]).expect_success();
}

pub(crate) fn closed_while_connecting() {
    green("a socket that is closed while it connects", |rt| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        // It has room for no other.
        let _first = TcpStream::connect(address).unwrap();
        // SAFETY: no memory is involved.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        assert!(socket >= 0);
        let connecting = thread::spawn(move || {
            // SAFETY: plain data, for which zero is valid.
            let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
            to.sin_family = libc::AF_INET as libc::sa_family_t;
            to.sin_port = address.port().to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
            // SAFETY: an address.
            let code = unsafe { libc::connect(socket, (&raw const to).cast(), size_of_val(&to) as u32) };
            error(code as isize)
        });
        until_waits(rt, &connecting);
        // SAFETY: a number of this test.
        assert_eq!(unsafe { libc::close(socket) }, 0);
        assert_eq!(connecting.join().unwrap(), Some(libc::EBADF));
    });
}

/// A socket that is not connected has hung up. `select` does not report that among the exceptions. So nothing
/// is to be found by looking again and again, and the thread waits in the kernel.
#[test]
fn select_rests_while_it_waits_for_exceptions() {
    let _watchdog = Watchdog::start("select rests while it waits for exceptions");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    let selecting = rt.spawn(move || {
        // SAFETY: no memory is involved.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        // SAFETY: plain data, for which zero is valid.
        let [mut read, mut except] = unsafe { mem::zeroed::<[libc::fd_set; 2]>() };
        // SAFETY: the numbers are small.
        unsafe { libc::FD_SET(reader.as_raw_fd(), &raw mut read) };
        // SAFETY: the numbers are small.
        unsafe { libc::FD_SET(socket, &raw mut except) };
        let none = ptr::null_mut();
        let most = socket.max(reader.as_raw_fd()) + 1;
        // SAFETY: sets, and no time.
        let found = unsafe { libc::select(most, &raw mut read, none, &raw mut except, ptr::null_mut()) };
        // SAFETY: the number of this thread.
        unsafe { libc::close(socket) };
        found
    });
    while rt.stats().count(LwpState::InKernel) == 0 {
        std::thread::yield_now();
    }
    writer.write_all(b"x").unwrap();
    assert_eq!(selecting.join().unwrap(), 1);
}
