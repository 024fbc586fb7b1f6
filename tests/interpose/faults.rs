//! What goes wrong under a wait: signals, descriptors that are closed or replaced, forks, no more
//! descriptors, times of nothing and of years.

use std::io::{self, ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use selvedge::io::Async;
use selvedge::{Mxn, Runtime, Wait, thread};

use crate::waiting::until_waits;
use crate::{all, child, green};

/// Where the handler writes.
static BELL: AtomicI32 = AtomicI32::new(-1);
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, SeqCst);
    // SAFETY: one byte, to a pipe that may be full.
    unsafe { libc::write(BELL.load(SeqCst), [7_u8].as_ptr().cast(), 1) };
}

/// Signals come all the time, to any kernel thread, while green threads wait in all ways. Nothing is lost,
/// and no wait fails. With `SA_RESTART` or without, and on an alternate stack or not.
#[test]
fn signals_disturb_no_wait() {
    for flags in [0, libc::SA_RESTART, libc::SA_ONSTACK, libc::SA_RESTART | libc::SA_ONSTACK] {
        // SAFETY: plain data, for which zero is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = flags;
        // SAFETY: the handler is async-signal-safe.
        assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) }, 0);
        green("signals disturb no wait", |_| under_signals());
    }
}

fn under_signals() {
    let (mut bell, ringer) = io::pipe().unwrap();
    BELL.store(ringer.as_raw_fd(), SeqCst);
    let stop = Arc::new(AtomicBool::new(false));
    let storm = {
        let stop = Arc::clone(&stop);
        let process = std::process::id() as libc::pid_t;
        std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                // SAFETY: the signal has a handler.
                unsafe { libc::kill(process, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(200));
            }
        })
    };
    let listener = thread::spawn(move || {
        let mut heard = 0;
        let mut buffer = [0; 64];
        loop {
            let n = bell.read(&mut buffer).unwrap();
            assert!(buffer[..n].iter().all(|it| *it == 7));
            heard += n;
            if n == 0 {
                return heard;
            }
        }
    });
    let before = SIGNALS.load(SeqCst);
    let turn = Arc::new((Mutex::new(0_u32), Condvar::new()));
    let players = Arc::clone(&turn);
    let (one, other) = UnixStream::pair().unwrap();
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while (&other).read(&mut byte).unwrap() == 1 {
            (&other).write_all(&byte).unwrap();
        }
    });
    let one = Arc::new(one);
    all(8, move |number| {
        let mut one = &*one;
        for round in 0..30 {
            let mut at = players.0.lock().unwrap();
            while *at % 8 != number as u32 {
                at = players.1.wait(at).unwrap();
            }
            *at += 1;
            drop(at);
            players.1.notify_all();
            if number == 0 {
                let mut byte = [round];
                one.write_all(&byte).unwrap();
                one.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [round]);
                one.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                assert_eq!(one.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
                one.set_read_timeout(None).unwrap();
            }
            let start = Instant::now();
            std::thread::sleep(Duration::from_millis(1));
            assert!(start.elapsed() >= Duration::from_millis(1));
        }
    });
    echo.join().unwrap();
    stop.store(true, SeqCst);
    storm.join().unwrap();
    // A signal that is pending still comes.
    while SIGNALS.load(SeqCst) == before {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(5));
    BELL.store(-1, SeqCst);
    drop(ringer);
    assert!(listener.join().unwrap() > 0);
}

/// In a handler on the thread's own stack, nothing waits without the LWP. When the handler returns, the
/// kernel restores what belongs to the kernel thread that it began on.
#[test]
fn handlers_stay_on_their_lwp() {
    child::run("handlers", &[]).expect_success();
}

static MOVED: AtomicBool = AtomicBool::new(false);

extern "C" fn sleeps(_: libc::c_int) {
    // SAFETY: no memory is involved.
    let tid = || unsafe { libc::gettid() };
    let before = tid();
    // SAFETY: no memory is involved.
    unsafe { libc::usleep(2_000) };
    // SAFETY: no memory is involved.
    unsafe { libc::sched_yield() };
    // SAFETY: no descriptors.
    unsafe { libc::poll(std::ptr::null_mut(), 0, 2) };
    MOVED.fetch_or(tid() != before, SeqCst);
    SIGNALS.fetch_add(1, SeqCst);
}

pub(crate) fn handlers() {
    for flags in [0, libc::SA_NODEFER] {
        // SAFETY: plain data, for which zero is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = sleeps as *const () as usize;
        action.sa_flags = flags;
        // SAFETY: the handler calls only what may be called in one.
        assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) }, 0);
        green("handlers stay on their LWP", |_| {
            let before = SIGNALS.load(SeqCst);
            all(8, |_| {
                for _ in 0..5 {
                    // SAFETY: the signal has a handler.
                    unsafe { libc::raise(libc::SIGUSR2) };
                    thread::yield_now();
                }
            });
            assert_eq!(SIGNALS.load(SeqCst) - before, 40);
            assert!(!MOVED.load(SeqCst));
        });
    }
}

/// The descriptor that a thread waits for is closed, or led elsewhere. It does not wait for what is gone.
#[test]
fn a_closed_or_replaced_descriptor_ends_waits() {
    // Other tests would get the number.
    child::run("closed", &[]).expect_success();
}

pub(crate) fn closed() {
    green("a closed or replaced descriptor ends waits", |rt| {
        for replaced in [false, true] {
            let (reader, writer) = io::pipe().unwrap();
            let number = reader.into_raw_fd();
            let waiting = thread::spawn(move || {
                let mut byte = [0_u8];
                // SAFETY: one byte.
                let n = unsafe { libc::read(number, byte.as_mut_ptr().cast(), 1) };
                if n < 0 { Err(io::Error::last_os_error().raw_os_error()) } else { Ok(byte[0]) }
            });
            until_waits(rt, &waiting);
            if replaced {
                let (other, mut other_writer) = io::pipe().unwrap();
                // SAFETY: numbers of this test.
                unsafe { libc::dup2(other.as_raw_fd(), number) };
                other_writer.write_all(&[9]).unwrap();
                assert_eq!(waiting.join().unwrap(), Ok(9));
                // SAFETY: a number of this test.
                unsafe { libc::close(number) };
            } else {
                // SAFETY: a number of this test.
                unsafe { libc::close(number) };
                assert_eq!(waiting.join().unwrap(), Err(Some(libc::EBADF)));
            }
            drop(writer);
        }
    });
}

/// A child that was forked in a green thread is a process with one kernel thread, in which std works as
/// always.
#[test]
fn children_of_forks_go_on() {
    child::run("forks", &[]).expect_success();
}

pub(crate) fn forks() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    rt.run(|| {
        // Threads wait in all ways meanwhile.
        let (sender, receiver) = mpsc::channel::<()>();
        let waiting = thread::spawn(move || assert!(receiver.recv().is_err()));
        let (one, other) = UnixStream::pair().unwrap();
        let reading = thread::spawn(move || (&one).read(&mut [0]).unwrap());
        until_waits(&rt, &waiting);
        until_waits(&rt, &reading);
        // SAFETY: the child only uses what is safe there, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (mut one, mut other) = UnixStream::pair().unwrap();
            let echo = std::thread::spawn(move || {
                let mut byte = [0];
                other.read_exact(&mut byte).unwrap();
                other.write_all(&byte).unwrap();
            });
            one.write_all(&[5]).unwrap();
            let mut byte = [0];
            one.read_exact(&mut byte).unwrap();
            echo.join().unwrap();
            std::thread::sleep(Duration::from_millis(1));
            let lock = Arc::new((Mutex::new(false), Condvar::new()));
            let waker = Arc::clone(&lock);
            let waking = std::thread::spawn(move || {
                *waker.0.lock().unwrap() = true;
                waker.1.notify_all();
            });
            drop(lock.1.wait_while(lock.0.lock().unwrap(), |done| !*done).unwrap());
            waking.join().unwrap();
            // SAFETY: it never returns.
            unsafe { libc::_exit(if byte == [5] { 0 } else { 1 }) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: `status` is written.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        drop(sender);
        waiting.join().unwrap();
        drop(other);
        assert_eq!(reading.join().unwrap(), 0);
        assert!(Command::new("true").status().unwrap().success());
    });
}

/// Without a free descriptor, waits that need one block their LWP instead.
#[test]
fn waits_go_on_without_descriptors() {
    child::run("few_descriptors", &[]).expect_success();
}

pub(crate) fn few_descriptors() {
    let rt = Mxn::builder().concurrency(2).build().unwrap();
    rt.run(|| {
        let mut child = Command::new("sleep").arg("0.05").spawn().unwrap();
        let pipes = [io::pipe().unwrap(), io::pipe().unwrap()];
        let mut taken = Vec::new();
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: the limits are valid.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        assert!(child.wait().unwrap().success());
        let mut writer = &pipes[1].1;
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(5));
                writer.write_all(b"x").unwrap();
            });
            let mut polled = pipes.each_ref().map(|(reader, _)| libc::pollfd {
                fd: reader.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: two descriptors.
            assert_eq!(unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) }, 1);
            assert_eq!((&pipes[1].0).read(&mut [0]).unwrap(), 1);
        });
    });
}

#[test]
fn times_of_nothing_and_of_years() {
    green("times of nothing and of years", |rt| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let (guard, result) = pair.1.wait_timeout(pair.0.lock().unwrap(), Duration::ZERO).unwrap();
        assert!(result.timed_out());
        drop(guard);
        std::thread::sleep(Duration::ZERO);
        std::thread::park_timeout(Duration::ZERO);
        let (_sender, receiver) = mpsc::channel::<()>();
        assert!(receiver.recv_timeout(Duration::ZERO).is_err());
        for years in [1, 100, 1 << 30] {
            let waker = Arc::clone(&pair);
            let waiting = thread::spawn(move || {
                let long = Duration::from_secs(years * 365 * 24 * 3600);
                let waits = |done: &mut bool| !*done;
                let (_guard, result) =
                    waker.1.wait_timeout_while(waker.0.lock().unwrap(), long, waits).unwrap();
                assert!(!result.timed_out());
            });
            until_waits(rt, &waiting);
            *pair.0.lock().unwrap() = true;
            pair.1.notify_all();
            waiting.join().unwrap();
            *pair.0.lock().unwrap() = false;
        }
        let (one, mut other) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(Duration::from_secs(100 * 365 * 24 * 3600))).unwrap();
        let reading = thread::spawn(move || (&one).read(&mut [0]).unwrap());
        until_waits(rt, &reading);
        other.write_all(b"x").unwrap();
        assert_eq!(reading.join().unwrap(), 1);
    });
}

/// Returns a stream that the other side has closed, as a thread that waited for it was told.
fn one_that_has_ended(rt: &impl Runtime) -> UnixStream {
    let (mut one, other) = UnixStream::pair().unwrap();
    let reads = thread::spawn(move || {
        assert_eq!(one.read(&mut [0]).unwrap(), 0);
        one
    });
    until_waits(rt, &reads);
    drop(other);
    reads.join().unwrap()
}

/// A number of which it is known that its connection has ended belongs to a socket of messages next.
#[test]
fn an_end_is_not_that_of_the_next_descriptor() {
    green("an end is not that of the next descriptor", |rt| {
        let one = OwnedFd::from(one_that_has_ended(rt));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // SAFETY: the program has both, and no thread uses them.
        assert!(unsafe { libc::dup2(socket.as_raw_fd(), one.as_raw_fd()) } >= 0);
        let socket = selvedge::net::UdpSocket::from(one);
        let soon = Wait::timeout(Duration::from_millis(5));
        assert_eq!(socket.recv_with(&mut [0], soon).unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

/// The next descriptor is ready for something else: it has an error that no call reads.
#[test]
fn an_error_is_not_the_end_of_the_last_descriptor() {
    green("an error is not the end of the last descriptor", |rt| {
        let number = one_that_has_ended(rt).into_raw_fd();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let keeps: libc::c_int = 1;
        let length = size_of_val(&keeps) as libc::socklen_t;
        let (level, at) = (libc::IPPROTO_IP, (&raw const keeps).cast());
        // SAFETY: the option is a number.
        let kept = unsafe { libc::setsockopt(socket.as_raw_fd(), level, libc::IP_RECVERR, at, length) };
        assert_eq!(kept, 0);
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        socket.connect(free).unwrap();
        socket.send(b"x").unwrap();
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        // SAFETY: the program has both, and no thread uses them.
        assert!(unsafe { libc::dup2(socket.as_raw_fd(), number) } >= 0);
        // SAFETY: the number is this test's alone.
        let socket = selvedge::net::UdpSocket::from(unsafe { OwnedFd::from_raw_fd(number) });
        let soon = Wait::timeout(Duration::from_millis(5));
        assert_eq!(socket.recv_with(&mut [0], soon).unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

/// A program's call on a descriptor finds a message shorter than the room for it. That says nothing of the
/// next one, which another call waits for by a value of Selvedge.
#[test]
fn short_messages_are_not_all_that_there_is() {
    green("short messages are not all that there is", |rt| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        let other = Async::new(other).unwrap();
        let receives = thread::spawn(move || {
            let receive = || other.when_readable(|socket| socket.recv(&mut [0; 9])).unwrap();
            let first = receive();
            thread::sleep(Duration::from_millis(2));
            [first, receive(), receive()]
        });
        until_waits(rt, &receives);
        for message in [b"a", b"b", b"c"] {
            one.send(message).unwrap();
        }
        assert_eq!(receives.join().unwrap(), [1; 3]);
    });
}
