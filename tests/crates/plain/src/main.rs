//! A program that links Selvedge and never starts a runtime. `ci/same_calls.sh` compares its system calls
//! with those that it makes when they go through Selvedge.
//!
//! It has one thread, and waits for nothing that may come in two pieces, so that the calls are the same each
//! time. It makes each kind of call that is answered for green threads.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, RwLock, mpsc};
use std::time::Duration;

fn main() -> io::Result<()> {
    // Where the time has passed before the wait begins, std does not wait.
    let short = Duration::from_millis(5);
    for _ in 0..10 {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut one = TcpStream::connect(listener.local_addr()?)?;
        let (mut other, _) = listener.accept()?;
        one.write_all(b"hello")?;
        other.read_exact(&mut [0; 5])?;
        other.set_read_timeout(Some(short))?;
        assert!(other.read(&mut [0]).is_err());
        other.set_nonblocking(true)?;
        assert!(other.read(&mut [0]).is_err());
        one.write_vectored(&[io::IoSlice::new(b"a"), io::IoSlice::new(b"b")])?;

        let (mut one, mut other) = UnixStream::pair()?;
        one.write_all(b"hello")?;
        other.read_exact(&mut [0; 5])?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.send_to(b"hello", socket.local_addr()?)?;
        assert_eq!(socket.recv_from(&mut [0; 9])?.0, 5);

        let (mut reader, mut writer) = io::pipe()?;
        writer.write_all(b"hello")?;
        let mut waited_for = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the one entry outlives the call.
        assert_eq!(unsafe { libc::poll(&mut waited_for, 1, -1) }, 1);
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader)?, "hello");
        let mut start = [0; 100];
        let n = File::open(std::env::current_exe()?)?.read(&mut start)?;
        assert_eq!(n, start.len());
        File::open("/")?.sync_all()?;

        let pair = (Mutex::new(()), Condvar::new());
        let waited = pair.1.wait_timeout(pair.0.lock().unwrap(), short).unwrap();
        assert!(waited.1.timed_out());
        drop(waited);
        pair.1.notify_all();
        drop(RwLock::new(()).write().unwrap());
        let (_sender, receiver) = mpsc::channel::<()>();
        assert!(receiver.recv_timeout(short).is_err());
        std::thread::park_timeout(short);
        std::thread::sleep(short);
        std::thread::yield_now();
    }
    // With two pipes, the number of reads depends on when the child ends.
    let echo = Command::new("echo").arg("hello").stderr(Stdio::null()).output()?;
    assert_eq!(echo.stdout, b"hello\n");
    assert!(Command::new("true").status()?.success());
    // Something of Selvedge, so that it is linked.
    let sum = selvedge::sync::Mutex::new(41);
    *sum.lock() += 1;
    assert_eq!(sum.into_inner(), 42);
    Ok(())
}
