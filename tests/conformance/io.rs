//! Descriptors that are no sockets: pipes, files, another process.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
#[cfg(target_os = "linux")]
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use selvedge::io::Async;
use selvedge::{Runtime, Wait, thread};

use crate::legs::Leg;
use crate::net::{LONG, SHORT, is, pair};
use crate::waiting::until_waits;

both! {
    a_pipe_is_read_by_a_thread_that_waits,
    a_reader_of_a_pipe_holds_up_no_other,
    a_writer_waits_for_room_in_a_pipe,
    a_wait_for_a_pipe_ends_as_it_says,
    a_process_says_something,
    a_file_is_read_though_it_cannot_be_polled,
    the_mode_of_a_descriptor_comes_back,
    a_closed_end_ends_both_waits,
    a_pipe_with_a_name_is_written_to_again,
    a_socket_without_a_peer_waits_for_room_at_a_receiver,
    threads_wait_for_one_descriptor_by_values_of_their_own,
    a_stream_is_waited_for_by_other_means,
    an_error_that_is_not_read_burns_no_cpu,
}

fn ends() -> (Async<PipeReader>, Async<PipeWriter>) {
    let (reader, writer) = pipe().unwrap();
    (Async::new(reader).unwrap(), Async::new(writer).unwrap())
}

fn a_pipe_is_read_by_a_thread_that_waits<L: Leg>() {
    L::new().run(|| {
        let (mut reader, mut writer) = ends();
        let heard = thread::spawn(move || {
            let mut heard = String::new();
            reader.read_to_string(&mut heard).unwrap();
            heard
        });
        for word in ["one ", "two ", "three"] {
            thread::yield_now();
            writer.write_all(word.as_bytes()).unwrap();
        }
        drop(writer);
        assert_eq!(heard.join().unwrap(), "one two three");
    });
}

fn a_reader_of_a_pipe_holds_up_no_other<L: Leg>() {
    L::new().run(|| {
        // More than run at once, and each waits for the one before it: to and fro through shared references.
        let pipes: Vec<_> = (0..20).map(|_| Arc::new(ends())).collect();
        let readers: Vec<_> = pipes
            .windows(2)
            .map(|pair| {
                let (from, to) = (Arc::clone(&pair[0]), Arc::clone(&pair[1]));
                thread::spawn(move || {
                    let mut byte = [0];
                    (&from.0).read_exact(&mut byte).unwrap();
                    (&to.1).write_all(&[byte[0] + 1]).unwrap();
                })
            })
            .collect();
        (&pipes[0].1).write_all(&[1]).unwrap();
        let mut byte = [0];
        (&pipes[19].0).read_exact(&mut byte).unwrap();
        assert_eq!(byte, [20]);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

fn a_writer_waits_for_room_in_a_pipe<L: Leg>() {
    L::new().run(|| {
        const LENGTH: usize = 1 << 20;
        let (mut reader, mut writer) = ends();
        let writes = thread::spawn(move || {
            let bytes: Vec<u8> = (0..LENGTH).map(|at| (at / 251) as u8).collect();
            writer.write_all(&bytes).unwrap();
            writer.flush().unwrap();
        });
        let mut heard = Vec::new();
        reader.read_to_end(&mut heard).unwrap();
        assert!(
            heard.len() == LENGTH && heard.iter().enumerate().all(|(at, &byte)| byte == (at / 251) as u8)
        );
        writes.join().unwrap();
    });
}

fn a_wait_for_a_pipe_ends_as_it_says<L: Leg>() {
    L::new().run(|| {
        let (reader, writer) = ends();
        is(reader.readable_with(Wait::timeout(SHORT)), ErrorKind::TimedOut);
        writer.writable_with(Wait::timeout(LONG)).unwrap();
        let read = |mut pipe: &PipeReader| pipe.read(&mut [0]);
        is(reader.when_readable_with(read, Wait::timeout(SHORT)), ErrorKind::TimedOut);
        let reader = Arc::new(reader);
        let waits = thread::spawn({
            let reader = Arc::clone(&reader);
            move || reader.readable_with(Wait::timeout(LONG).interruptible()).unwrap_err().kind()
        });
        waits.thread().interrupt();
        assert_eq!(waits.join().unwrap(), ErrorKind::Interrupted);
        (&writer).write_all(b"x").unwrap();
        reader.readable_with(Wait::timeout(LONG)).unwrap();
        assert_eq!(reader.when_readable(|mut pipe| pipe.read(&mut [0; 2])).unwrap(), 1);
        is(reader.readable_with(Wait::timeout(SHORT)), ErrorKind::TimedOut);
    });
}

fn a_process_says_something<L: Leg>() {
    L::new().run(|| {
        let mut child = Command::new("cat");
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = Async::new(child.stdin.take().unwrap()).unwrap();
        let mut output = Async::new(child.stdout.take().unwrap()).unwrap();
        let writes = thread::spawn(move || input.write_all(&[b'x'; 300_000]).unwrap());
        let mut heard = Vec::new();
        output.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, [b'x'; 300_000]);
        writes.join().unwrap();
        assert!(child.wait().unwrap().success());
    });
}

fn a_file_is_read_though_it_cannot_be_polled<L: Leg>() {
    L::new().run(|| {
        let (reader, _) = ends();
        assert!(reader.is_pollable().unwrap());
        let path = std::env::current_exe().unwrap();
        let file = Async::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(file.is_pollable().unwrap(), !cfg!(target_os = "linux"));
        file.readable().unwrap();
        let mut start = [0; 4];
        (&file).read_exact(&mut start).unwrap();
        let mut again = [0; 4];
        File::open(path).unwrap().read_exact(&mut again).unwrap();
        assert_eq!(start, again);
    });
}

fn the_mode_of_a_descriptor_comes_back<L: Leg>() {
    L::new().run(|| {
        let (reader, mut writer) = pipe().unwrap();
        let copy = reader.try_clone().unwrap();
        let reader = Async::new(reader).unwrap();
        is((&copy).read(&mut [0]), ErrorKind::WouldBlock);
        let reader = reader.into_inner().unwrap();
        // Both block again.
        let reads = std::thread::spawn(move || (&copy).read(&mut [0]).unwrap());
        writer.write_all(b"x").unwrap();
        assert_eq!(reads.join().unwrap(), 1);
        // One that did not block before does not now.
        let descriptor = OwnedFd::from(reader);
        let copy = PipeReader::from(descriptor.try_clone().unwrap());
        let first = Async::new(descriptor).unwrap();
        let second = Async::new(copy).unwrap();
        let mut copy = second.into_inner().unwrap();
        is(copy.read(&mut [0]), ErrorKind::WouldBlock);
        assert_eq!(first.as_fd().try_clone_to_owned().is_ok(), first.into_inner().is_ok());
    });
}

fn a_closed_end_ends_both_waits<L: Leg>() {
    L::new().run(|| {
        let (reader, writer) = ends();
        let waits = thread::spawn(move || {
            reader.readable().unwrap();
            (&reader).read(&mut [0; 8]).unwrap()
        });
        drop(writer);
        assert_eq!(waits.join().unwrap(), 0);
        let (reader, writer) = ends();
        let fills = thread::spawn(move || {
            let error = loop {
                if let Err(error) = (&writer).write(&[0; 4096]) {
                    break error.kind();
                }
            };
            writer.writable().unwrap();
            error
        });
        drop(reader);
        assert_eq!(fills.join().unwrap(), ErrorKind::BrokenPipe);
    });
}

fn a_pipe_with_a_name_is_written_to_again<L: Leg>() {
    L::new().run(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path that ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let mut reader = Async::new(reader).unwrap();
        let writer = || OpenOptions::new().write(true).open(&path).unwrap();
        for _ in 0..3 {
            let mut writer = writer();
            is(reader.readable_with(Wait::timeout(SHORT)), ErrorKind::TimedOut);
            writer.write_all(b"x").unwrap();
            assert_eq!(reader.read(&mut [0; 2]).unwrap(), 1);
            is(reader.readable_with(Wait::timeout(SHORT)), ErrorKind::TimedOut);
            drop(writer);
            reader.readable().unwrap();
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        }
    });
}

/// Of which another sender has taken all. The sender's own buffer has room all the time.
fn a_socket_without_a_peer_waits_for_room_at_a_receiver<L: Leg>() {
    L::new().run(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receiver");
        let receiver = UnixDatagram::bind(&path).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let other = UnixDatagram::unbound().unwrap();
        other.set_nonblocking(true).unwrap();
        let (sender, tries) =
            (Arc::new(Async::new(UnixDatagram::unbound().unwrap()).unwrap()), Arc::default());
        for _ in 0..2 {
            while other.send_to(&[1], &path).is_ok() {}
            let sends = {
                let (sender, tries, path) = (Arc::clone(&sender), Arc::clone(&tries), path.clone());
                move |wait| {
                    let send = |sender: &UnixDatagram| {
                        AtomicUsize::fetch_add(&tries, 1, Ordering::Relaxed);
                        sender.send_to(&[2], &path)
                    };
                    sender.when_writable_with(send, wait)
                }
            };
            is(sends(Wait::timeout(SHORT)), ErrorKind::TimedOut);
            thread::current().interrupt();
            is(sends(Wait::forever().interruptible()), ErrorKind::Interrupted);
            tries.store(0, Ordering::Relaxed);
            let begun = Instant::now();
            let sent = thread::spawn(move || sends(Wait::forever()));
            while tries.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            thread::sleep(SHORT * 4);
            let tries = tries.load(Ordering::Relaxed);
            assert!(tries as u128 <= 10 * (1 + begun.elapsed().as_millis()), "{tries} tries");
            let mut byte = [0];
            while byte != [2] {
                if receiver.recv(&mut byte).is_err() {
                    thread::yield_now();
                }
            }
            assert_eq!(sent.join().unwrap().unwrap(), 1);
        }
    });
}

/// Such as handles to the standard input.
fn threads_wait_for_one_descriptor_by_values_of_their_own<L: Leg>() {
    let rt = L::new();
    let (reader, mut writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    let reads = || {
        let reader = Async::new(Arc::clone(&reader)).unwrap();
        let reads = rt.spawn(move || reader.when_readable(|pipe| (&**pipe).read(&mut [0])).unwrap());
        until_waits(&rt, &reads);
        reads
    };
    for _ in 0..2 {
        let readers = [reads(), reads(), reads()];
        writer.write_all(b"xyz").unwrap();
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 1));
    }
}

/// By a value that comes and goes, before the stream is waited for by itself, and meanwhile.
fn a_stream_is_waited_for_by_other_means<L: Leg>() {
    let rt = L::new();
    let (mut one, other) = rt.run(pair);
    let other = Arc::new(other);
    for first in [false, true] {
        let stream = Arc::clone(&other);
        let waits = move || {
            let stream = Async::new(&*stream).unwrap();
            is(stream.readable_with(Wait::timeout(SHORT)), ErrorKind::TimedOut);
            stream.into_inner().unwrap();
        };
        if first {
            rt.run(waits.clone());
        }
        let stream = Arc::clone(&other);
        let reads = rt.spawn(move || (&*stream).read(&mut [0]).unwrap());
        until_waits(&rt, &reads);
        rt.run(waits);
        one.write_all(b"x").unwrap();
        assert_eq!(reads.join().unwrap(), 1);
    }
}

/// The error of a message that nobody takes: the kernel keeps it, and `poll` says so each time.
fn an_error_that_is_not_read_burns_no_cpu<L: Leg>() {
    #[cfg(target_os = "linux")]
    L::new().run(|| {
        let receiver = Receiver { socket: refused(), calls: AtomicUsize::new(0) };
        let mut receiver = Async::new(receiver).unwrap();
        let sender = receiver.get_ref().socket.try_clone().unwrap();
        let sends = thread::spawn(move || {
            thread::sleep(20 * SHORT);
            sender.send_to(b"x", sender.local_addr().unwrap()).unwrap();
        });
        assert_eq!(receiver.read(&mut [0]).unwrap(), 1);
        sends.join().unwrap();
        let receives = |mut receiver: &Receiver| receiver.read(&mut [0]);
        let late = receiver.when_readable_with(receives, Wait::timeout(20 * SHORT));
        is(late, ErrorKind::TimedOut);
        let calls = receiver.get_ref().calls.load(Ordering::Relaxed);
        assert!(calls < 1_000, "{calls}");
    });
}

/// Counts the calls that receive.
#[cfg(target_os = "linux")]
struct Receiver {
    socket: UdpSocket,
    calls: AtomicUsize,
}

#[cfg(target_os = "linux")]
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(target_os = "linux")]
impl Read for &Receiver {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.socket.recv(buffer)
    }
}

#[cfg(target_os = "linux")]
impl Read for Receiver {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (&*self).read(buffer)
    }
}

/// Returns a socket for which the kernel keeps an error.
#[cfg(target_os = "linux")]
fn refused() -> UdpSocket {
    let [socket, nobody] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let on: libc::c_int = 1;
    let (level, name, length) = (libc::IPPROTO_IP, libc::IP_RECVERR, size_of_val(&on) as libc::socklen_t);
    // SAFETY: the option is a number, which is there.
    let rc = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), length) };
    assert_eq!(rc, 0);
    let to = nobody.local_addr().unwrap();
    drop(nobody);
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.send_to(b"x", to).unwrap();
    is(socket.recv(&mut [0]), ErrorKind::ConnectionRefused);
    socket
}
