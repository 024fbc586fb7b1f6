//! Limits of waits for descriptors, and what has come by then. An LWP that is busy looks late.

use std::hint;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use selvedge::io::Async;
use selvedge::os::unix::net::UnixStream;
use selvedge::{Runtime, Wait, thread};

use crate::legs::Leg;
use crate::net::{LONG, SHORT, is, listen};
use crate::waiting::until_waits;

both! {
    a_read_without_time_finds_what_is_there,
    an_accept_without_time_finds_what_is_there,
    a_look_without_time_finds_what_is_there,
    what_came_in_time_is_read_though_the_limit_is_over,
}

const ROUNDS: usize = 10;

fn no_time() -> Wait {
    Wait::timeout(Duration::ZERO)
}

fn a_read_without_time_finds_what_is_there<L: Leg>() {
    L::new().run(|| {
        let (mut one, other) = UnixStream::pair().unwrap();
        for _ in 0..ROUNDS {
            is(other.read_with(&mut [0; 2], no_time()), ErrorKind::TimedOut);
            one.write_all(b"x").unwrap();
            assert_eq!(other.read_with(&mut [0; 2], no_time()).unwrap(), 1);
        }
    });
}

fn an_accept_without_time_finds_what_is_there<L: Leg>() {
    L::new().run(|| {
        let (listener, address) = listen();
        for _ in 0..ROUNDS {
            is(listener.accept_with(no_time()), ErrorKind::TimedOut);
            // By std, and by the kernel, the thread does not leave its LWP.
            let client = std::net::TcpStream::connect(address).unwrap();
            arrives(listener.as_fd());
            let (_, peer) = listener.accept_with(no_time()).unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
        }
    });
}

/// Returns when a connection is there. No event is taken from the set.
fn arrives(listener: BorrowedFd<'_>) {
    let mut polled = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, as said.
    let ready = unsafe { libc::poll(&raw mut polled, 1, LONG.as_millis() as libc::c_int) };
    assert_eq!(ready, 1);
}

fn a_look_without_time_finds_what_is_there<L: Leg>() {
    L::new().run(|| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut reader = Async::new(reader).unwrap();
        for _ in 0..ROUNDS {
            is(reader.readable_with(no_time()), ErrorKind::TimedOut);
            writer.write_all(b"x").unwrap();
            reader.readable_with(no_time()).unwrap();
            assert_eq!(reader.read(&mut [0; 2]).unwrap(), 1);
        }
    });
}

/// A thread that computes has the LWP when the limit is over.
fn what_came_in_time_is_read_though_the_limit_is_over<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (mut in_time, mut time) = (0, SHORT);
        while in_time < ROUNDS {
            let (mut one, other) = UnixStream::pair().unwrap();
            let theirs = other.try_clone().unwrap();
            let limit = Instant::now() + time;
            let reader = thread::spawn(move || theirs.read_with(&mut [0; 2], Wait::until(limit)));
            until_waits(&rt, &reader);
            one.write_all(b"x").unwrap();
            let is_in_time = Instant::now() < limit;
            while Instant::now() < limit + SHORT {
                hint::spin_loop();
            }
            let read = reader.join().unwrap();
            if is_in_time {
                assert_eq!(read.unwrap(), 1);
                in_time += 1;
            } else {
                // Under load, it takes longer until the thread waits.
                time *= 2;
            }
        }
    });
}
