//! How sockets end, fail, and become others; the kinds of sockets besides TCP's.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use selvedge::net::{TcpStream, UdpSocket};
use selvedge::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use selvedge::{Runtime, Wait, thread};

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
    sockets_have_paths,
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
    });
}
