//! std's sockets and pipes, `poll`, and child processes, in green threads that do not block their LWPs.

use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge::{LwpState, Mxn, Runtime, thread};

use crate::waiting::until_waits;
use crate::watchdog::Watchdog;
use crate::{all, child, green};

/// Answers each message, until the other side ends.
fn echo(mut stream: impl Read + Write) {
    let mut buffer = [0; 256];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            n => stream.write_all(&buffer[..n]).unwrap(),
        }
    }
}

/// Says a message of this number of bytes several times, and hears each again.
fn converse(mut stream: impl Read + Write, number: usize, rounds: usize) {
    let message: Vec<u8> = (0..number % 200 + 1).map(|at| (at + number) as u8).collect();
    let mut answer = vec![0; message.len()];
    for _ in 0..rounds {
        stream.write_all(&message).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, message);
    }
}

#[test]
fn std_sockets_echo() {
    green("std's sockets echo", |_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let hosts: Vec<_> = (0..100)
                .map(|_| {
                    let (stream, _) = listener.accept().unwrap();
                    thread::spawn(move || echo(stream))
                })
                .collect();
            hosts.into_iter().for_each(|host| host.join().unwrap());
        });
        all(100, move |number| converse(TcpStream::connect(address).unwrap(), number, 20));
        server.join().unwrap();
    });
}

#[test]
fn unix_sockets_and_pipes_carry_bytes() {
    green("Unix sockets and pipes carry bytes", |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let host = thread::spawn(move || echo(other));
        converse(one, 100, 100);
        host.join().unwrap();

        // More than a pipe holds, so that the writer waits for the reader and the reader for the writer.
        let (mut reader, mut writer) = io::pipe().unwrap();
        let writing = thread::spawn(move || {
            for round in 0..20_u8 {
                writer.write_all(&vec![round; 100_000]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        writing.join().unwrap();
        assert_eq!(all.len(), 2_000_000);
        assert!(
            all.chunks(100_000).enumerate().all(|(round, part)| part.iter().all(|it| *it == round as u8))
        );
    });
}

/// A message larger than the socket's buffer is sent whole by one call, as by the kernel, and `MSG_WAITALL`
/// fills the buffer.
#[test]
fn a_call_sends_and_receives_all() {
    green("a call sends and receives all", |_| {
        const SIZE: usize = 4 << 20;
        let (one, other) = UnixStream::pair().unwrap();
        let sender = thread::spawn(move || {
            let bytes = vec![7_u8; SIZE];
            // SAFETY: the buffer is valid for its length.
            let sent = unsafe { libc::send(one.as_raw_fd(), bytes.as_ptr().cast(), SIZE, 0) };
            assert_eq!(sent, SIZE as isize);
            let parts = [io::IoSlice::new(&bytes[..1000]), io::IoSlice::new(&bytes)];
            assert_eq!((&one).write_vectored(&parts).unwrap(), SIZE + 1000);
        });
        let mut bytes = vec![0_u8; SIZE];
        // SAFETY: the buffer is valid for its length.
        let received =
            unsafe { libc::recv(other.as_raw_fd(), bytes.as_mut_ptr().cast(), SIZE, libc::MSG_WAITALL) };
        assert_eq!(received, SIZE as isize);
        assert!(bytes.iter().all(|it| *it == 7));
        let mut rest = Vec::new();
        (&other).read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), SIZE + 1000);
        sender.join().unwrap();
    });
}

#[test]
fn datagrams_arrive_one_by_one() {
    green("datagrams arrive one by one", |_| {
        let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        other.connect(one.local_addr().unwrap()).unwrap();
        one.connect(other.local_addr().unwrap()).unwrap();
        let receiver = thread::spawn(move || {
            let mut buffer = [0; 100];
            for round in 0..50_u8 {
                assert_eq!(one.recv(&mut buffer).unwrap(), 2);
                assert_eq!(buffer[0], 2 * round);
                let (n, _) = one.recv_from(&mut buffer).unwrap();
                assert_eq!((n, buffer[0]), (1, 2 * round + 1));
            }
        });
        for round in 0..50 {
            other.send(&[2 * round, 0]).unwrap();
            other.send(&[2 * round + 1]).unwrap();
            if round % 8 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        receiver.join().unwrap();
    });
}

/// Urgent bytes are received when they are there, and never waited for. A read of no bytes returns at once,
/// and takes nothing.
#[test]
fn calls_that_never_wait_do_not() {
    green("calls that never wait do not", |_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let writing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            other.write_all(b"x").unwrap();
            other
        });
        // A call has waited, and taken all that there was.
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 1);
        let other = writing.join().unwrap();
        let mut byte = 0_u8;
        // SAFETY: room for one byte.
        let mut urgent = || unsafe { libc::recv(one.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_OOB) };
        assert_eq!(urgent(), -1);
        // SAFETY: one byte.
        assert_eq!(unsafe { libc::send(other.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) }, 1);
        let mut there = [polled(&one, libc::POLLPRI)];
        // SAFETY: one descriptor.
        assert_eq!(unsafe { libc::poll(there.as_mut_ptr(), 1, -1) }, 1);
        assert_eq!(urgent(), 1);
        assert_eq!(byte, b'!');

        let nothing = |socket: &dyn AsRawFd| {
            // SAFETY: no bytes.
            unsafe { libc::read(socket.as_raw_fd(), std::ptr::null_mut(), 0) }
        };
        assert_eq!(nothing(&one), 0);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"hello", socket.local_addr().unwrap()).unwrap();
        assert_eq!(nothing(&socket), 0);
        assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 5);
    });
}

/// A mode not to block stays what it is, and timeouts end waits.
#[test]
fn modes_and_timeouts_are_kept() {
    green("modes and timeouts are kept", |_| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let mut byte = [0];
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.set_nonblocking(false).unwrap();
        let short = Duration::from_millis(5);
        one.set_read_timeout(Some(short)).unwrap();
        for _ in 0..3 {
            let start = Instant::now();
            assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(start.elapsed() >= short);
        }
        other.write_all(b"x").unwrap();
        assert_eq!(one.read(&mut byte).unwrap(), 1);
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.set_nonblocking(false).unwrap();
        one.set_read_timeout(None).unwrap();

        one.set_write_timeout(Some(short)).unwrap();
        let full = (0..1_000).find_map(|_| one.write_all(&[0; 1 << 16]).err());
        assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// Another thread ends a wait: by `shutdown`, by closing the other side, by a reset.
#[test]
fn the_end_of_a_connection_ends_waits() {
    green("the end of a connection ends waits", |rt| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (one, listener.accept().unwrap().0)
        };
        let reader = |stream: &Arc<TcpStream>| {
            let stream = Arc::clone(stream);
            let read = thread::spawn(move || (&*stream).read(&mut [0; 8]));
            until_waits(rt, &read);
            read
        };
        let (one, other) = pair();
        let one = Arc::new(one);
        let read = reader(&one);
        one.shutdown(Shutdown::Both).unwrap();
        assert_eq!(read.join().unwrap().unwrap(), 0);
        drop(other);

        let (one, other) = pair();
        let read = reader(&Arc::new(one));
        drop(other);
        assert_eq!(read.join().unwrap().unwrap(), 0);

        let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(TcpStream::connect(refused).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let unanswered = TcpStream::connect_timeout(&refused, Duration::from_secs(5));
        assert_eq!(unanswered.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// One thread reads and another writes, on the same descriptor, and several accept on one.
#[test]
fn threads_share_descriptors() {
    green("threads share descriptors", |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let echoing = thread::spawn(move || echo(other));
        let one = Arc::new(one);
        let reader = {
            let one = Arc::clone(&one);
            thread::spawn(move || {
                let mut all = vec![0; 300_000];
                (&*one).read_exact(&mut all).unwrap();
                all
            })
        };
        (&*one).write_all(&[3; 300_000]).unwrap();
        assert!(reader.join().unwrap().iter().all(|it| *it == 3));
        one.shutdown(Shutdown::Write).unwrap();
        echoing.join().unwrap();

        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let hosts: Vec<_> = (0..8)
            .map(|_| {
                let listener = Arc::clone(&listener);
                thread::spawn(move || (0..5).for_each(|_| echo(listener.accept().unwrap().0)))
            })
            .collect();
        all(40, move |number| converse(TcpStream::connect(address).unwrap(), number, 2));
        hosts.into_iter().for_each(|host| host.join().unwrap());
    });
}

fn polled(descriptor: &impl AsRawFd, events: i16) -> libc::pollfd {
    libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 }
}

/// Writes a byte a moment later.
fn later(mut writer: PipeWriter) -> thread::JoinHandle<PipeWriter> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(3));
        writer.write_all(b"x").unwrap();
        writer
    })
}

fn pipe() -> (PipeReader, PipeWriter) {
    io::pipe().unwrap()
}

#[test]
fn poll_select_and_epoll_wait() {
    green("poll, select and epoll_wait", |_| {
        let (first, second) = (pipe(), pipe());
        let mut both = [polled(&first.0, libc::POLLIN), polled(&second.0, libc::POLLIN)];
        let start = Instant::now();
        // SAFETY: two descriptors.
        assert_eq!(unsafe { libc::poll(both.as_mut_ptr(), 2, 3) }, 0);
        assert!(start.elapsed() >= Duration::from_millis(3));
        // SAFETY: none.
        assert_eq!(unsafe { libc::poll(std::ptr::null_mut(), 0, 2) }, 0);
        let writing = later(second.1);
        // SAFETY: two descriptors.
        assert_eq!(unsafe { libc::poll(both.as_mut_ptr(), 2, -1) }, 1);
        assert_eq!(both.map(|it| it.revents), [0, libc::POLLIN]);
        let mut second = (second.0, writing.join().unwrap());
        second.0.read_exact(&mut [0]).unwrap();

        // SAFETY: plain data, for which zero is valid.
        let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
        for reader in [&first.0, &second.0] {
            // SAFETY: the numbers are small.
            unsafe { libc::FD_SET(reader.as_raw_fd(), &raw mut set) };
        }
        let writing = later(second.1);
        let mut time = libc::timeval { tv_sec: 100, tv_usec: 0 };
        let none = std::ptr::null_mut();
        let most = first.0.as_raw_fd().max(second.0.as_raw_fd()) + 1;
        // SAFETY: all are valid or null.
        assert_eq!(unsafe { libc::select(most, &raw mut set, none, none, &raw mut time) }, 1);
        // SAFETY: the number is small.
        assert!(unsafe { libc::FD_ISSET(second.0.as_raw_fd(), &raw const set) });
        assert!(time.tv_sec < 100);
        let (mut again, time) = (set, libc::timespec { tv_sec: 0, tv_nsec: 1 });
        let null = std::ptr::null();
        // SAFETY: all are valid or null.
        assert_eq!(unsafe { libc::pselect(most, &raw mut again, none, none, &raw const time, null) }, 1);
        let mut second = (second.0, writing.join().unwrap());
        second.0.read_exact(&mut [0]).unwrap();

        // SAFETY: no memory is involved.
        let epoll = unsafe { libc::epoll_create1(0) };
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 42 };
        // SAFETY: the event is valid.
        let rc = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, second.0.as_raw_fd(), &raw mut event) };
        assert_eq!(rc, 0);
        for _ in 0..3 {
            // SAFETY: room for one event.
            assert_eq!(unsafe { libc::epoll_wait(epoll, &raw mut event, 1, 2) }, 0);
            let writing = later(second.1.try_clone().unwrap());
            // SAFETY: room for one event.
            assert_eq!(unsafe { libc::epoll_wait(epoll, &raw mut event, 1, -1) }, 1);
            assert_eq!({ event.u64 }, 42);
            writing.join().unwrap();
            second.0.read_exact(&mut [0]).unwrap();
        }
        // SAFETY: opened above.
        unsafe { libc::close(epoll) };
    });
}

/// How long a call takes grows as the number of its descriptors.
#[test]
fn poll_takes_many_descriptors() {
    green("poll takes many descriptors", |_| {
        let (reader, _writer) = pipe();
        let time = |count: usize| {
            let mut same: Vec<_> = (0..count).map(|_| polled(&reader, libc::POLLIN)).collect();
            let ask = |_| {
                let start = Instant::now();
                // SAFETY: so many descriptors.
                assert_eq!(unsafe { libc::poll(same.as_mut_ptr(), count as libc::nfds_t, 1) }, 0);
                start.elapsed()
            };
            (0..5).map(ask).min().unwrap()
        };
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is written.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        // The kernel takes no more than that.
        let (few, many) = (time(100), time(limit.rlim_cur.min(8_000) as usize));
        assert!(many < (few + Duration::from_millis(1)) * 40, "{few:?}, {many:?}");
    });
}

/// A wait that does not ask for bytes does not end, or turn, because there are some. Room to write, errors
/// and hang-ups are told from each other.
#[test]
fn poll_tells_events_apart() {
    green("poll tells events apart", |_| {
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"x").unwrap();
        let mut room = [polled(&one, libc::POLLOUT)];
        // SAFETY: one descriptor.
        assert_eq!(unsafe { libc::poll(room.as_mut_ptr(), 1, -1) }, 1);
        assert_eq!(room[0].revents, libc::POLLOUT);
        let mut end = [polled(&one, 0)];
        let closing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(3));
            drop(other);
        });
        // SAFETY: one descriptor.
        assert_eq!(unsafe { libc::poll(end.as_mut_ptr(), 1, -1) }, 1);
        assert_eq!(end[0].revents, libc::POLLHUP);
        closing.join().unwrap();
        let mut closed = [libc::pollfd { fd: 1 << 20, events: libc::POLLIN, revents: 0 }];
        // SAFETY: one descriptor.
        assert_eq!(unsafe { libc::poll(closed.as_mut_ptr(), 1, -1) }, 1);
        assert_eq!(closed[0].revents, libc::POLLNVAL);
    });
}

/// Bytes that are not asked for do not keep the CPU busy.
#[test]
fn poll_for_urgent_bytes_rests() {
    child::run("urgent", &[]).expect_success();
}

pub(crate) fn urgent() {
    Mxn::builder().concurrency(1).build().unwrap().run(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"x").unwrap();
        let (start, before) = (Instant::now(), cpu_time());
        let mut urgent = [polled(&one, libc::POLLPRI)];
        // SAFETY: one descriptor.
        assert_eq!(unsafe { libc::poll(urgent.as_mut_ptr(), 1, 200) }, 0);
        assert!(start.elapsed() >= Duration::from_millis(200));
        assert!(cpu_time() - before < Duration::from_millis(100), "it has looked all the time");
    });
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is written.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn children_are_waited_for() {
    green("children are waited for", |_| {
        all(8, |number| {
            let mut command = Command::new("sh");
            let output = command.arg("-c").arg(format!("sleep 0.05; echo {number}; exit {number}"));
            let output = output.output().unwrap();
            assert_eq!(output.status.code(), Some(number as i32));
            assert_eq!(output.stdout, format!("{number}\n").as_bytes());
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            child.stdin.as_mut().unwrap().write_all(b"a line\n").unwrap();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "a line\n");
            assert!(child.wait().unwrap().success());
        });
    });
}

#[test]
fn sleeps_and_yields_leave_the_lwp() {
    let _watchdog = Watchdog::start("sleeps and yields leave the LWP");
    let rt = Mxn::builder().concurrency(1).build().unwrap();
    rt.run(|| {
        let start = Instant::now();
        all(1_000, |_| std::thread::sleep(Duration::from_millis(30)));
        // SAFETY: no memory is involved.
        all(100, |_| unsafe { libc::usleep(1_000) });
        all(10, |_| {
            let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            // SAFETY: the time is valid.
            assert_eq!(unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }, 0);
            let bad = libc::timespec { tv_sec: 0, tv_nsec: -1 };
            // SAFETY: the address is valid.
            assert_eq!(unsafe { libc::nanosleep(&raw const bad, std::ptr::null_mut()) }, -1);
            assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
            std::thread::yield_now();
        });
        // One after another, they would sleep for 30 s.
        assert!(start.elapsed() < Duration::from_secs(20));
    });
    assert!(rt.stats().count(LwpState::InKernel) <= 1, "{}", rt.stats());
}

/// Hundreds of green threads wait in std's sockets, and no LWP with them.
#[test]
fn hundreds_of_readers_hold_no_kernel_threads() {
    let _watchdog = Watchdog::start("hundreds of readers hold no kernel threads");
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    let pairs: Vec<_> = (0..300).map(|_| UnixStream::pair().unwrap()).collect();
    let (ones, others): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let readers: Vec<_> = ones
        .into_iter()
        .map(|mut one| thread::Builder::new().spawn_on(&rt, move || one.read(&mut [0]).unwrap()).unwrap())
        .collect();
    let waits =
        |state| matches!(state, thread::ThreadState::Waiting { reason: thread::WaitReason::Readable, .. });
    while rt.threads().iter().filter(|it| waits(it.state())).count() < readers.len() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(rt.stats().count(LwpState::InKernel), 0, "{}", rt.stats());
    others.iter().for_each(|mut other| other.write_all(b"x").unwrap());
    readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 1));
}
