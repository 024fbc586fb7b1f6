//! How sockets end, fail, and become others; the kinds of sockets besides TCP's.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::net::{TcpStream, UdpSocket};
use selvedge::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use selvedge::thread::{ThreadInfo, ThreadState};
use selvedge::{Runtime, Wait, thread};
use socket2::SockRef;

use crate::legs::Leg;
use crate::net::{LONG, SHORT, is, listen, pair, repeat, say};
use crate::waiting::until_waits;

both! {
    a_stream_ends_in_halves,
    a_reset_is_an_error,
    a_connect_is_refused,
    a_stream_goes_to_std_and_back,
    a_stream_goes_from_one_runtime_to_another,
    calls_do_not_wait_if_told_so,
    messages_come_whole,
    a_shut_socket_of_messages_has_ended,
    a_wait_for_a_shut_socket_of_messages_is_over,
    a_wait_for_a_shut_listener_is_over,
    messages_in_the_place_of_a_stream_are_all_read,
    what_comes_behind_descriptors_is_read,
    what_comes_behind_descriptors_is_read_by_a_stream_of_tcp,
    what_comes_behind_urgent_bytes_is_read,
    buffers_are_as_many_as_one_likes,
    sockets_have_paths,
    sockets_have_names_without_paths,
    a_message_waits_for_room_at_its_receiver,
}

fn a_stream_ends_in_halves<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (mut one, other) = pair();
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            (&other).read_to_end(&mut all).unwrap();
            (&other).write_all(b"heard").unwrap();
            all
        });
        one.write_all(b"said").unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        is(one.write(b"more"), ErrorKind::BrokenPipe);
        let mut answer = String::new();
        one.read_to_string(&mut answer).unwrap();
        assert_eq!((reader.join().unwrap().as_slice(), answer.as_str()), (&b"said"[..], "heard"));
        // A thread's own shutdown ends another thread's read.
        let (_one, other) = pair();
        let other = Arc::new(other);
        let reader = thread::spawn({
            let other = Arc::clone(&other);
            move || (&*other).read(&mut [0]).unwrap()
        });
        until_waits(&rt, &reader);
        other.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

fn a_reset_is_an_error<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (one, mut other) = pair();
        let reader = thread::spawn(move || other.read(&mut [0]).map(drop).unwrap_err().kind());
        until_waits(&rt, &reader);
        socket2::SockRef::from(&one).set_linger(Some(Duration::ZERO)).unwrap();
        drop(one);
        assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
    });
}

fn a_connect_is_refused<L: Leg>() {
    L::new().run(|| {
        let (listener, address) = listen();
        drop(listener);
        is(TcpStream::connect(address), ErrorKind::ConnectionRefused);
        is(TcpStream::connect_with(&address, Wait::timeout(LONG)), ErrorKind::ConnectionRefused);
        is(TcpStream::connect(&[][..]), ErrorKind::InvalidInput);
        assert!(TcpStream::connect("a name that does not resolve:80").is_err());
    });
}

/// What has waited before has been in the set of descriptors, under another token.
fn a_stream_goes_to_std_and_back<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (mut one, mut other) = pair();
        for _ in 0..3 {
            let echo = thread::spawn(move || {
                say(&mut other, b"x");
                other
            });
            let mut byte = [0];
            one.read_exact(&mut byte).unwrap();
            until_waits(&rt, &echo);
            one.write_all(&byte).unwrap();
            let stream = echo.join().unwrap().into_std();
            // It blocks now, and has no timeout.
            assert_eq!(stream.read_timeout().unwrap(), None);
            stream.set_nonblocking(true).unwrap();
            is((&stream).read(&mut byte), ErrorKind::WouldBlock);
            other = TcpStream::from_std(stream);
            is(other.read(&mut byte), ErrorKind::WouldBlock);
            other.set_nonblocking(false).unwrap();
        }
    });
}

fn a_stream_goes_from_one_runtime_to_another<L: Leg>() {
    let (first, second) = (L::new(), L::new());
    let (mut one, mut other) = first.run(pair);
    for _ in 0..3 {
        for rt in [&first, &second] {
            let reader = rt.spawn(move || {
                other.read_exact(&mut [0]).unwrap();
                other
            });
            until_waits(rt, &reader);
            one.write_all(&[0]).unwrap();
            other = reader.join().unwrap();
        }
    }
    drop(first);
    let reader = second.spawn(move || other.read_exact(&mut [0]).unwrap());
    until_waits(&second, &reader);
    one.write_all(&[0]).unwrap();
    reader.join().unwrap();
}

fn calls_do_not_wait_if_told_so<L: Leg>() {
    L::new().run(|| {
        let (mut one, mut other) = pair();
        other.set_nonblocking(true).unwrap();
        is(other.read(&mut [0]), ErrorKind::WouldBlock);
        let mut copy = other.try_clone().unwrap();
        is(copy.read(&mut [0]), ErrorKind::WouldBlock);
        copy.set_nonblocking(false).unwrap();
        is(other.read(&mut [0]), ErrorKind::WouldBlock);
        let reader = thread::spawn(move || copy.read_exact(&mut [0]).unwrap());
        one.write_all(&[0]).unwrap();
        reader.join().unwrap();
    });
}

fn messages_come_whole<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let to = other.local_addr().unwrap();
        is(other.recv_from_with(&mut [0], Wait::timeout(SHORT)), ErrorKind::TimedOut);
        let receiver = thread::spawn(move || {
            let mut bytes = [0; 8];
            (0..3_u8).for_each(|length| {
                assert_eq!(other.recv(&mut bytes).unwrap(), usize::from(length));
            });
            other
        });
        one.connect(to).unwrap();
        for length in 0..3 {
            assert_eq!(one.send(&[0; 3][..length]).unwrap(), length);
        }
        let other = receiver.join().unwrap();
        let receiver = thread::spawn(move || other.recv_from(&mut [0; 8]).unwrap());
        until_waits(&rt, &receiver);
        one.send(&[0; 8]).unwrap();
        assert_eq!(receiver.join().unwrap(), (8, one.local_addr().unwrap()));
        let (one, other) = UnixDatagram::pair().unwrap();
        let receiver = thread::spawn(move || other.recv(&mut [0; 8]).unwrap());
        one.send(&[0; 5]).unwrap();
        assert_eq!(receiver.join().unwrap(), 5);
    });
}

fn a_shut_socket_of_messages_has_ended<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (one, _other) = UnixDatagram::pair().unwrap();
        one.shutdown(Shutdown::Read).unwrap();
        for _ in 0..2 {
            assert_eq!(one.recv(&mut [0; 8]).unwrap(), 0);
        }
        let (one, other) = UnixDatagram::pair().unwrap();
        let one = Arc::new(one);
        let receiver = thread::spawn({
            let one = Arc::clone(&one);
            move || [one.recv(&mut [0; 8]).unwrap(), one.recv(&mut [0; 8]).unwrap()]
        });
        other.send(&[0; 5]).unwrap();
        until_waits(&rt, &receiver);
        one.shutdown(Shutdown::Both).unwrap();
        assert_eq!(receiver.join().unwrap(), [5, 0]);
        is(one.send(&[0]), ErrorKind::BrokenPipe);
    });
}

/// Its calls would block, unless they may. So a kernel thread that asks `poll` finds it ready again and again.
fn a_wait_for_a_shut_socket_of_messages_is_over<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        let one = Arc::new(one);
        let theirs = Arc::clone(&one);
        let receiver = thread::spawn(move || {
            let mut bytes = [0; 8];
            [(); 2].map(|()| theirs.recv_with(&mut bytes, Wait::timeout(LONG)).unwrap())
        });
        other.send(&[0; 5]).unwrap();
        until_waits(&rt, &receiver);
        one.shutdown(Shutdown::Read).unwrap();
        assert_eq!(receiver.join().unwrap(), [5, 0]);
        for wait in [Wait::forever().interruptible(), Wait::timeout(Duration::ZERO)] {
            assert_eq!(one.recv_with(&mut [0], wait).unwrap(), 0);
        }
    });
}

/// That of a Unix socket says so only to calls that may block.
fn a_wait_for_a_shut_listener_is_over<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let place = tempfile::tempdir().unwrap();
        let listener = Arc::new(UnixListener::bind(place.path().join("socket")).unwrap());
        let theirs = Arc::clone(&listener);
        let accepts = thread::spawn(move || {
            is(theirs.accept_with(Wait::timeout(LONG)), ErrorKind::InvalidInput);
            is(theirs.accept(), ErrorKind::InvalidInput);
        });
        until_waits(&rt, &accepts);
        SockRef::from(&*listener).shutdown(Shutdown::Read).unwrap();
        accepts.join().unwrap();
        is(listener.accept_with(Wait::timeout(Duration::ZERO)), ErrorKind::InvalidInput);
    });
}

/// Reads six bytes, of which a call may return fewer than there are.
fn reads_six(stream: &mut impl Read) {
    let (mut all, mut buffer) = (Vec::new(), [0; 16]);
    while all.len() < 6 {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "{all:?}");
        all.extend_from_slice(&buffer[..length]);
    }
    assert_eq!(all, b"abcdef");
}

/// A thread that has waited has the set report what comes.
fn what_comes_behind_descriptors_is_read<L: Leg>() {
    L::new().run(|| {
        let (one, other) = UnixStream::pair().unwrap();
        reads_behind_descriptors(one, UnixStream::read_with, other);
    });
}

/// A program may have a Unix socket in the place of one of TCP: both are streams.
fn what_comes_behind_descriptors_is_read_by_a_stream_of_tcp<L: Leg>() {
    L::new().run(|| {
        let (one, other) = UnixStream::pair().unwrap();
        reads_behind_descriptors(TcpStream::from(OwnedFd::from(one)), TcpStream::read_with, other);
    });
}

fn reads_behind_descriptors<S: Read>(
    mut one: S,
    read_with: fn(&S, &mut [u8], Wait) -> std::io::Result<usize>,
    mut other: UnixStream,
) {
    for _ in 0..20 {
        is(read_with(&one, &mut [0], Wait::timeout(Duration::from_micros(100))), ErrorKind::TimedOut);
        other.write_all(b"ab").unwrap();
        send_with_descriptor(&other, b"cd");
        other.write_all(b"ef").unwrap();
        reads_six(&mut one);
    }
}

/// A read takes one message, however much room there is. The others made no event.
fn messages_in_the_place_of_a_stream_are_all_read<L: Leg>() {
    // Elsewhere, a Unix socket may carry no messages of this kind.
    #[cfg(target_os = "linux")]
    {
        use socket2::{Domain, SockAddr, Socket, Type};
        let rt = L::new();
        rt.run(|| {
            let reads = |mut stream: UnixStream, other: Socket| {
                let reader = thread::spawn(move || {
                    let mut bytes = [0; 8];
                    (0..4).map(|_| stream.read(&mut bytes).unwrap()).collect::<Vec<_>>()
                });
                until_waits(&rt, &reader);
                for message in ["a", "bc", "def"] {
                    other.send(message.as_bytes()).unwrap();
                }
                drop(other);
                assert_eq!(reader.join().unwrap(), [1, 2, 3, 0]);
            };
            let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
            reads(OwnedFd::from(one).into(), other);
            let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
            reads(UnixStream::from(OwnedFd::from(one)).try_clone().unwrap(), other);

            let folder = tempfile::tempdir().unwrap();
            let address = SockAddr::unix(folder.path().join("socket")).unwrap();
            let [listener, other] =
                [(); 2].map(|()| Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap());
            listener.bind(&address).unwrap();
            listener.listen(1).unwrap();
            other.connect(&address).unwrap();
            reads(UnixListener::from(OwnedFd::from(listener)).accept().unwrap().0, other);
        });
    }
}

/// Sends bytes, and with them a copy of the socket's descriptor.
fn send_with_descriptor(socket: &UnixStream, bytes: &[u8]) {
    const SIZE: u32 = size_of::<libc::c_int>() as u32;
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // Aligned, and large enough.
    let mut control = [0_usize; 8];
    // SAFETY: plain data, for which zero is valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = (&raw mut control).cast();
    // SAFETY: it only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(SIZE) } as _;
    // SAFETY: there is room for one.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: it only computes.
    let length = unsafe { libc::CMSG_LEN(SIZE) } as _;
    // SAFETY: plain data, for which zero is valid.
    let mut first: libc::cmsghdr = unsafe { std::mem::zeroed() };
    (first.cmsg_level, first.cmsg_type, first.cmsg_len) = (libc::SOL_SOCKET, libc::SCM_RIGHTS, length);
    // SAFETY: it is in `control`.
    unsafe { header.write(first) };
    // SAFETY: it only computes.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: there is room for one descriptor.
    unsafe { data.cast::<libc::c_int>().write_unaligned(socket.as_raw_fd()) };
    // SAFETY: all that the message points to is there.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    assert_eq!(usize::try_from(sent).ok(), Some(bytes.len()), "{}", std::io::Error::last_os_error());
}

fn what_comes_behind_urgent_bytes_is_read<L: Leg>() {
    L::new().run(|| {
        let (mut one, mut other) = pair();
        for _ in 0..20 {
            is(one.read_with(&mut [0], Wait::timeout(Duration::from_micros(100))), ErrorKind::TimedOut);
            other.write_all(b"abcd").unwrap();
            assert_eq!(socket2::SockRef::from(&other).send_out_of_band(b"!").unwrap(), 1);
            other.write_all(b"ef").unwrap();
            reads_six(&mut one);
        }
    });
}

/// More than a call takes, and some without room.
fn buffers_are_as_many_as_one_likes<L: Leg>() {
    L::new().run(|| {
        let (mut one, mut other) = pair();
        // Nothing has come, and nothing is waited for.
        let (mut first, mut second) = ([], []);
        let mut empty = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(other.read_vectored(&mut empty).unwrap(), 0);
        assert!(one.write_vectored(&[IoSlice::new(b"x"); 3_000]).unwrap() > 0);
        let mut bytes = [0; 3_000];
        let mut parts: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
        assert!(other.read_vectored(&mut parts).unwrap() > 0);
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(one.write_vectored(&[IoSlice::new(b"")]).unwrap(), 0);
    });
}

fn sockets_have_paths<L: Leg>() {
    L::new().run(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || repeat(listener.accept().unwrap().0));
        let mut stream = UnixStream::connect(&path).unwrap();
        assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
        say(&mut stream, b"hello");
        is(stream.read_with(&mut [0], Wait::timeout(SHORT)), ErrorKind::TimedOut);
        drop(stream);
        server.join().unwrap();
        is(UnixListener::bind(&path), ErrorKind::AddrInUse);
        let (one, other) =
            (UnixDatagram::unbound().unwrap(), UnixDatagram::bind(folder.path().join("other")).unwrap());
        one.send_to(b"hello", folder.path().join("other")).unwrap();
        let (length, from) = other.recv_from(&mut [0; 8]).unwrap();
        assert!(length == 5 && from.is_unnamed());
        let none = "a path\0, and more";
        is(one.send_to(b"hello", none), ErrorKind::InvalidInput);
        is(one.send_to(b"hello", "\0abstract"), ErrorKind::InvalidInput);
    });
}

/// On Linux. A path may fill an address to its last byte there, which std's addresses cannot.
fn sockets_have_names_without_paths<L: Leg>() {
    #[cfg(target_os = "linux")]
    L::new().run(|| {
        use std::os::linux::net::SocketAddrExt;
        let folder = tempfile::tempdir().unwrap();
        let name = |end: &str| [folder.path().as_os_str().as_encoded_bytes(), end.as_bytes()].concat();
        let address = |end| SocketAddr::from_abstract_name(name(end)).unwrap();
        let one = UnixDatagram::bind_addr(&address("one")).unwrap();
        let other = UnixDatagram::bind_addr(&address("other")).unwrap();
        one.send_to_addr(b"hello", &address("other")).unwrap();
        let (length, from) = other.recv_from(&mut [0; 8]).unwrap();
        assert_eq!((length, from.as_abstract_name()), (5, Some(&*name("one"))));
        other.connect_addr(&from).unwrap();
        other.send(b"answer").unwrap();
        assert_eq!(one.recv(&mut [0; 8]).unwrap(), 6);

        // SAFETY: plain data, for which zero is valid.
        let mut longest: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        longest.sun_family = libc::AF_UNIX as _;
        longest.sun_path.fill(b'x' as _);
        longest.sun_path.iter_mut().zip(name("/")).for_each(|(to, byte)| *to = byte as _);
        let sender = UnixDatagram::unbound().unwrap();
        let length = size_of_val(&longest) as libc::socklen_t;
        // SAFETY: an address, and its length.
        let rc = unsafe { libc::bind(sender.as_raw_fd(), (&raw const longest).cast(), length) };
        assert_eq!(rc, 0);
        sender.send_to_addr(b"hello", &address("one")).unwrap();
        let (length, from) = one.recv_from(&mut [0; 8]).unwrap();
        assert!(length == 5 && from.is_unnamed());
    });
}

/// Of which another sender has taken all.
fn a_message_waits_for_room_at_its_receiver<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receiver");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        let dispatches = || rt.stats().lwps.iter().map(|lwp| lwp.dispatches).sum::<u64>();
        // What was noted of a socket, the second wait finds.
        let socket = Arc::new(UnixDatagram::unbound().unwrap());
        for round in 0..3 {
            let mut sent = 0;
            while other.send_to(&[1], &path).is_ok() {
                sent += 1;
            }
            if round == 2 {
                socket.connect(&path).unwrap();
            }
            let sender = thread::spawn({
                let (socket, path) = (Arc::clone(&socket), path.clone());
                move || if round == 2 { socket.send(&[2]) } else { socket.send_to(&[2], path) }
            });
            let id = sender.thread().id();
            let waits = |it: &ThreadInfo| {
                let state = it.state();
                it.id() == id && matches!(state, ThreadState::Waiting { .. } | ThreadState::InKernel { .. })
            };
            while !sender.is_finished() && !rt.threads().iter().any(waits) {
                thread::yield_now();
            }
            let (before, begun) = (dispatches(), Instant::now());
            thread::sleep(SHORT * 4);
            let more = dispatches().saturating_sub(before) as u128;
            assert!(more < 100 + 10 * begun.elapsed().as_millis(), "it has tried again and again");
            let mut byte = [0];
            for _ in 0..sent {
                assert_eq!((receiver.recv(&mut byte).unwrap(), byte), (1, [1]));
            }
            assert_eq!((receiver.recv(&mut byte).unwrap(), byte), (1, [2]));
            assert_eq!(sender.join().unwrap().unwrap(), 1);
        }
    });
}
