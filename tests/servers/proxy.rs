//! The proxy: every byte arrives, the end of one direction is passed on, and a silent connection is closed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{iter, mem, thread};

use crate::client::{Client, read};
use crate::on_both;
use crate::target::{Target, big};

/// Starts the proxy to a listener of the test, which it finds by name.
fn proxy_to(backend: &TcpListener, runtime: &str, idle: &str) -> Target {
    let to = format!("localhost:{}", backend.local_addr().expect("an address").port());
    Target::start("proxy", &["--idle", idle, &to], Some(runtime))
}

fn backend() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a listener")
}

/// Two connected ends with the proxy between.
fn pair(proxy: SocketAddr, backend: &TcpListener) -> (TcpStream, TcpStream) {
    let client = Client::connect(proxy).stream;
    (client, backend.accept().expect("a connection").0)
}

/// Writes all, while another thread reads exactly what is expected.
fn exchange(sends: &TcpStream, sent: &[u8], expects: &TcpStream, expected: &[u8]) {
    let (mut sends, mut expects) = (sends, expects);
    thread::scope(|scope| {
        scope.spawn(move || {
            // In pieces of many sizes.
            for (number, piece) in sent.chunks(4_999).enumerate() {
                let (one, two) = piece.split_at(number % piece.len());
                sends.write_all(one).and_then(|()| sends.write_all(two)).expect("a reader");
            }
        });
        let mut got = vec![0; expected.len()];
        expects.read_exact(&mut got).expect("all bytes");
        assert!(got == expected, "the bytes differ");
    });
}

#[test]
fn bytes_pass_both_ways_at_once_and_each_end_is_passed_on() {
    on_both("the proxy", |runtime| {
        let backend = backend();
        let proxy = proxy_to(&backend, runtime, "60000");
        let (up, down) = (big(3 << 20), big(2 << 20)[9..].to_vec());
        thread::scope(|scope| {
            for _ in 0..4 {
                let (client, server) = pair(proxy.address, &backend);
                let (up, down) = (&up, &down);
                scope.spawn(move || {
                    thread::scope(|scope| {
                        scope.spawn(|| exchange(&client, up, &server, up));
                        exchange(&server, down, &client, down);
                    });
                    let (mut client, mut server) = (&client, &server);
                    // The client has said all, and still hears.
                    client.shutdown(Shutdown::Write).expect("a connection");
                    assert_eq!(read(&mut server, &mut [0; 9]).expect("the end"), 0);
                    exchange(server, &down[..70_000], client, &down[..70_000]);
                    server.shutdown(Shutdown::Write).expect("a connection");
                    assert_eq!(read(&mut client, &mut [0; 9]).expect("the end"), 0);
                });
            }
        });
    });
}

#[test]
fn a_connection_that_breaks_off_ends_on_the_other_side() {
    on_both("connections that break off", |runtime| {
        let backend = backend();
        let proxy = proxy_to(&backend, runtime, "60000");
        for client_breaks in [true, false] {
            let (client, server) = pair(proxy.address, &backend);
            let (mut breaks, mut stays) = if client_breaks { (client, server) } else { (server, client) };
            stays.write_all(b"never read").unwrap();
            breaks.write_all(b"x").unwrap();
            stays.read_exact(&mut [0]).unwrap();
            breaks.peek(&mut [0]).unwrap();
            // With unread bytes: a reset.
            drop(breaks);
            match read(&mut stays, &mut [0]) {
                Ok(length) => assert_eq!(length, 0),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
            }
        }
        // No listener any more: such a client is hung up, and the proxy goes on.
        let address = backend.local_addr().unwrap();
        drop(backend);
        for _ in 0..3 {
            Client::connect(proxy.address).expect_end();
        }
        let backend = TcpListener::bind(address).unwrap();
        let (client, server) = pair(proxy.address, &backend);
        exchange(&client, b"hello", &server, b"hello");
    });
}

#[test]
fn only_silence_in_both_directions_closes_a_connection() {
    on_both("silent connections", |runtime| {
        let backend = backend();
        let proxy = proxy_to(&backend, runtime, "400");
        // The client is silent for several times as long as the limit, and the server never for so long. If a
        // busy machine makes it so, the next pair tries.
        let mut attempts = iter::repeat_with(|| pair(proxy.address, &backend)).take(8);
        let talks = |(client, server): &mut (TcpStream, TcpStream)| {
            let mut last = Instant::now();
            (0..40).all(|number| {
                thread::sleep(Duration::from_millis(40));
                let mut got = [!number];
                let came = server.write_all(&[number]).and_then(|()| client.read_exact(&mut got));
                let pause = mem::replace(&mut last, Instant::now()).elapsed();
                match &came {
                    Ok(()) => assert_eq!(got, [number]),
                    Err(error) => assert!(pause > Duration::from_millis(200), "{number}: {error}"),
                }
                came.is_ok()
            })
        };
        let (mut client, mut server) =
            attempts.find_map(|mut it| talks(&mut it).then_some(it)).expect("calm");
        assert_eq!(read(&mut client, &mut [0]).unwrap(), 0);
        assert_eq!(read(&mut server, &mut [0]).unwrap(), 0);
    });
}
