//! Sockets: what std's do, in threads that wait for each other and for threads outside.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use selvedge::net::{TcpListener, TcpStream};
use selvedge::{Runtime, ThreadRegister, Wait, thread};

use crate::legs::Leg;
use crate::waiting::until_waits;

both! {
    both_ends_are_threads,
    one_end_is_outside,
    many_readers_wait_at_once,
    a_reader_holds_up_no_other,
    a_reader_is_served_beside_hogs,
    a_read_times_out,
    long_limits_change_from_read_to_read,
    threads_end_before_their_limits,
    a_read_is_interrupted,
    an_accept_ends_as_its_wait_says,
    a_writer_waits_for_room,
    two_readers_share_a_stream,
    a_listener_serves_threads_in_turn,
    random_bytes_arrive_in_order,
}

pub(crate) const SHORT: Duration = Duration::from_millis(5);
pub(crate) const LONG: Duration = Duration::from_secs(200);

pub(crate) fn listen() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Two ends of a connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let one = TcpStream::connect(address).unwrap();
    let (other, peer) = listener.accept().unwrap();
    assert_eq!((peer, other.peer_addr().unwrap()), (one.local_addr().unwrap(), peer));
    (one, other)
}

pub(crate) fn is<T>(result: std::io::Result<T>, kind: ErrorKind) {
    assert_eq!(result.map(drop).unwrap_err().kind(), kind);
}

/// Sends back what comes.
pub(crate) fn repeat(mut stream: impl Read + Write) {
    let mut buffer = [0; 1000];
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return,
            length => stream.write_all(&buffer[..length]).unwrap(),
        }
    }
}

pub(crate) fn say(stream: &mut (impl Read + Write), what: &[u8]) {
    let mut back = vec![0; what.len()];
    stream.write_all(what).unwrap();
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, what);
}

fn both_ends_are_threads<L: Leg>() {
    L::new().run(|| {
        let (mut one, other) = pair();
        let server = thread::spawn(|| repeat(other));
        for number in 0..200_u32 {
            say(&mut one, &number.to_le_bytes());
        }
        drop(one);
        server.join().unwrap();
    });
}

fn one_end_is_outside<L: Leg>() {
    let rt = L::new();
    let (listener, address) = rt.run(listen);
    let server = rt.spawn(move || repeat(listener.accept().unwrap().0));
    // This thread is a foreign one.
    let mut stream = TcpStream::connect(address).unwrap();
    for number in 0..100_u32 {
        say(&mut stream, &number.to_le_bytes());
        if number % 10 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(stream);
    server.join().unwrap();
}

fn many_readers_wait_at_once<L: Leg>() {
    L::new().run(|| {
        let pairs: Vec<_> = (0..50).map(|_| pair()).collect();
        let (mut ends, servers): (Vec<_>, Vec<_>) =
            pairs.into_iter().map(|(one, other)| (one, thread::spawn(|| repeat(other)))).unzip();
        for round in 0..5_u8 {
            ends.iter_mut().rev().for_each(|end| say(end, &[round; 3]));
        }
        drop(ends);
        servers.into_iter().for_each(|server| server.join().unwrap());
    });
}

fn a_reader_holds_up_no_other<L: Leg>() {
    L::new().run(|| {
        let (mut one, mut other) = pair();
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut end = other.try_clone().unwrap();
                thread::spawn(move || end.read_exact(&mut [0]).unwrap())
            })
            .collect();
        // More threads wait than there are slots, and these go on all the same.
        let counters: Vec<_> =
            (0..4).map(|_| thread::spawn(|| (0..100).for_each(|_| thread::yield_now()))).collect();
        counters.into_iter().for_each(|counter| counter.join().unwrap());
        one.write_all(&[0; 5]).unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        other.read_exact(&mut [0]).unwrap();
    });
}

/// If all slots have threads that compute, another thread looks at the descriptors.
fn a_reader_is_served_beside_hogs<L: Leg>() {
    let rt = L::new();
    if rt.info().thread_register == Some(ThreadRegister::Pinned) {
        // The reader waits for its home, which a hog never leaves.
        return;
    }
    // One for each slot: with more, some would wait, and the others would lose their slices.
    let slots = rt.info().concurrency;
    rt.run(|| {
        let (mut one, mut other) = pair();
        let stop = Arc::new(AtomicBool::new(false));
        let reader = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                other.read_exact(&mut [0]).unwrap();
                stop.store(true, Relaxed);
            }
        });
        until_waits(&rt, &reader);
        let running = Arc::new(AtomicUsize::new(0));
        let hogs: Vec<_> = (0..slots)
            .map(|_| {
                let (stop, running) = (Arc::clone(&stop), Arc::clone(&running));
                thread::spawn(move || {
                    running.fetch_add(1, Relaxed);
                    while !stop.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        std::thread::spawn(move || {
            while running.load(Relaxed) < slots {
                std::thread::yield_now();
            }
            std::thread::sleep(SHORT);
            one.write_all(&[0]).unwrap();
            // Until the reader has read.
            assert_eq!(one.read(&mut [0]).unwrap_or(0), 0);
        });
        reader.join().unwrap();
        hogs.into_iter().for_each(|hog| hog.join().unwrap());
    });
}

fn a_read_times_out<L: Leg>() {
    L::new().run(|| {
        let (mut one, mut other) = pair();
        other.set_read_timeout(Some(SHORT)).unwrap();
        // The kernel rounds it up.
        assert!(other.read_timeout().unwrap() >= Some(SHORT));
        let start = Instant::now();
        is(other.read(&mut [0]), ErrorKind::WouldBlock);
        // Of a copy, too.
        is(other.try_clone().unwrap().read(&mut [0]), ErrorKind::WouldBlock);
        is(other.read_with(&mut [0], Wait::timeout(SHORT)), ErrorKind::TimedOut);
        is(other.read_with(&mut [0], Wait::until(start)), ErrorKind::TimedOut);
        assert!(start.elapsed() >= 3 * SHORT);
        // So much is counted in the kernel's ticks, of which one may be late.
        let (half, start) = (Duration::from_millis(500), Instant::now());
        other.set_read_timeout(Some(half)).unwrap();
        is(other.read(&mut [0]), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= half - Duration::from_millis(50));
        one.write_all(&[7]).unwrap();
        other.set_read_timeout(Some(LONG)).unwrap();
        let mut byte = [0];
        assert_eq!((other.peek(&mut byte).unwrap(), byte), (1, [7]));
        assert_eq!(other.read_with(&mut byte, Wait::timeout(LONG)).unwrap(), 1);
        is(other.set_read_timeout(Some(Duration::ZERO)), ErrorKind::InvalidInput);
        other.set_read_timeout(None).unwrap();
        drop(one);
        assert_eq!(other.read(&mut byte).unwrap(), 0);
    });
}

/// From half a second on, an entry in the timers may serve many reads.
fn long_limits_change_from_read_to_read<L: Leg>() {
    L::new().run(|| {
        let (one, mut other) = pair();
        let echo = thread::spawn(move || repeat(one));
        let ms = Duration::from_millis;
        let answered = |other: &mut TcpStream| {
            other.write_all(&[7]).unwrap();
            other.read_exact(&mut [0]).unwrap();
        };
        let times_out = |other: &mut TcpStream, after| {
            other.set_read_timeout(Some(after)).unwrap();
            answered(other);
            let start = Instant::now();
            is(other.read(&mut [0]), ErrorKind::WouldBlock);
            assert!(start.elapsed() >= after - ms(50), "{after:?}");
        };
        other.set_read_timeout(Some(ms(600))).unwrap();
        let start = Instant::now();
        while start.elapsed() < ms(1500) {
            answered(&mut other);
            thread::sleep(ms(1));
        }
        times_out(&mut other, ms(600));
        times_out(&mut other, ms(900));
        times_out(&mut other, ms(500));
        // What the last read with a limit has left is not for one without.
        answered(&mut other);
        other.set_read_timeout(None).unwrap();
        let mut writer = other.try_clone().unwrap();
        let late = thread::spawn(move || {
            thread::sleep(ms(700));
            writer.write_all(&[7]).unwrap();
        });
        other.read_exact(&mut [0]).unwrap();
        late.join().unwrap();
        drop(other);
        echo.join().unwrap();
    });
}

/// Nothing of them is left when others have their stacks.
fn threads_end_before_their_limits<L: Leg>() {
    L::new().run(|| {
        let limit = Duration::from_millis(500);
        let start = Instant::now();
        while start.elapsed() < 2 * limit {
            let threads: Vec<_> = (0..10)
                .map(|n: u8| {
                    let (mut one, mut other) = pair();
                    let reader = thread::spawn(move || {
                        other.set_read_timeout(Some(limit)).unwrap();
                        let mut bytes = [0; 2000];
                        other.read_exact(&mut bytes).unwrap();
                        assert!(bytes.iter().all(|&byte| byte == n));
                    });
                    thread::yield_now();
                    one.write_all(&[n; 2000]).unwrap();
                    reader
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

fn a_read_is_interrupted<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        let (_one, other) = pair();
        let wait = Wait::timeout(LONG).interruptible();
        let reader = thread::spawn(move || other.read_with(&mut [0], wait).map(drop).unwrap_err().kind());
        until_waits(&rt, &reader);
        reader.thread().interrupt();
        assert_eq!(reader.join().unwrap(), ErrorKind::Interrupted);
        // Before the wait, even if there is something to read.
        let (mut one, other) = pair();
        one.write_all(&[0]).unwrap();
        thread::current().interrupt();
        is(other.read_with(&mut [0], wait), ErrorKind::Interrupted);
        assert_eq!(other.read_with(&mut [0], wait).unwrap(), 1);
    });
}

fn an_accept_ends_as_its_wait_says<L: Leg>() {
    L::new().run(|| {
        let (listener, address) = listen();
        is(listener.accept_with(Wait::timeout(SHORT)), ErrorKind::TimedOut);
        let client = TcpStream::connect_with(&address, Wait::timeout(LONG)).unwrap();
        let (_, peer) = listener.accept_with(Wait::timeout(LONG)).unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        is(listener.accept(), ErrorKind::WouldBlock);
        TcpStream::connect_timeout(&address, LONG).unwrap();
        is(TcpStream::connect_timeout(&address, Duration::ZERO), ErrorKind::InvalidInput);
    });
}

fn a_writer_waits_for_room<L: Leg>() {
    let rt = L::new();
    rt.run(|| {
        const BYTES: usize = 8 << 20;
        let (mut one, mut other) = pair();
        let writer = thread::spawn(move || one.write_all(&vec![7; BYTES]).unwrap());
        until_waits(&rt, &writer);
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        assert!(all.len() == BYTES && all.iter().all(|&byte| byte == 7));
        writer.join().unwrap();
        let (one, _other) = pair();
        one.set_write_timeout(Some(SHORT)).unwrap();
        let error = (&one).write_all(&vec![7; BYTES]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "the other end does not read");
        // The kernel may make some more room, but not forever.
        let full = (0..1000).find_map(|_| one.write_with(&vec![7; BYTES], Wait::timeout(SHORT)).err());
        assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::TimedOut));
    });
}

fn two_readers_share_a_stream<L: Leg>() {
    L::new().run(|| {
        let (mut one, other) = pair();
        let other = Arc::new(other);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let other = Arc::clone(&other);
                thread::spawn(move || {
                    let mut bytes = 0;
                    while (&*other).read(&mut [0]).unwrap() == 1 {
                        bytes += 1;
                    }
                    bytes
                })
            })
            .collect();
        for _ in 0..100 {
            one.write_all(&[0]).unwrap();
            thread::yield_now();
        }
        drop(one);
        let bytes: u32 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert_eq!(bytes, 100);
    });
}

fn a_listener_serves_threads_in_turn<L: Leg>() {
    L::new().run(|| {
        let (listener, address) = listen();
        let listener = Arc::new(listener);
        let acceptors: Vec<_> = (0..3)
            .map(|_| {
                let listener = Arc::clone(&listener);
                thread::spawn(move || {
                    for _ in 0..10 {
                        repeat(listener.incoming().next().unwrap().unwrap());
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..30)
            .map(|number| thread::spawn(move || say(&mut TcpStream::connect(address).unwrap(), &[number; 9])))
            .collect();
        clients.into_iter().chain(acceptors).for_each(|thread| thread.join().unwrap());
    });
}

/// Pieces of any length, reads that give up, and interrupts. Each byte arrives once, and in order.
fn random_bytes_arrive_in_order<L: Leg>() {
    let rt = L::new();
    let talks: Vec<_> = (0..4_u64)
        .map(|number| {
            rt.spawn(move || {
                let (one, other) = pair();
                const BYTES: u64 = 40_000;
                let byte = |at: u64| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
                let mut state = number + 1;
                let mut random = move |below: u64| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) % below
                };
                let reader = thread::spawn(move || {
                    let (mut at, mut buffer, mut given_up) = (0, [0; 700], 0_u32);
                    loop {
                        let wait = match given_up % 3 {
                            0 => Wait::forever().interruptible(),
                            1 => Wait::timeout(Duration::from_micros(50)),
                            _ => Wait::timeout(LONG).interruptible(),
                        };
                        match other.read_with(&mut buffer[..1 + at as usize % 700], wait) {
                            Ok(0) => return at,
                            Ok(length) => {
                                buffer[..length].iter().for_each(|&it| {
                                    assert_eq!(it, byte(at), "at {at}");
                                    at += 1;
                                });
                            }
                            Err(error) => {
                                assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Interrupted));
                                given_up += 1;
                            }
                        }
                    }
                });
                let mut at = 0;
                while at < BYTES {
                    let end = (at + 1 + random(1_500)).min(BYTES);
                    let piece: Vec<u8> = (at..end).map(byte).collect();
                    (&one).write_all(&piece).unwrap();
                    at = end;
                    match random(4) {
                        0 => reader.thread().interrupt(),
                        1 => thread::yield_now(),
                        _ => {}
                    }
                }
                drop(one);
                assert_eq!(reader.join().unwrap(), BYTES);
            })
        })
        .collect();
    talks.into_iter().for_each(|talk| talk.join().unwrap());
}
