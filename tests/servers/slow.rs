//! Clients that take their time: each is given up when its limit is over, and holds up no other.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::client::{Client, read};
use crate::on_both;
use crate::target::{PAGE, Site, big};

/// Short, so that the test ends soon.
const SHORT: &str = "300";

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let site = Site::new();
    on_both("idle", |runtime| {
        let server = site.serve(&["-r", runtime, "--idle", SHORT]);
        let mut fresh = Client::connect(server.address);
        // A busy machine may be late for some.
        let mut used = loop {
            let mut client = Client::connect(server.address);
            let sent = client.stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
            if sent.is_ok() && client.stream.peek(&mut [0]).is_ok_and(|got| got == 1) {
                break client;
            }
        };
        assert_eq!(used.answer().body, PAGE);
        fresh.expect_end();
        used.expect_end();
    });
}

#[test]
fn a_request_that_does_not_end_is_given_up() {
    let site = Site::new();
    on_both("slow heads", |runtime| {
        let server = site.serve(&["-r", runtime, "--head", SHORT]);
        let mut stops = Client::connect(server.address);
        stops.send("GET / HTTP/1.1\r\nHo");
        let mut body = Client::connect(server.address);
        body.send("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nx");
        // Each of its bytes comes in time, but not the whole.
        let mut drips = Client::connect(server.address);
        drips.send("GET / HTTP/1.1\r\nX: ");
        drips.stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut first = [0];
        loop {
            match read(&mut drips.stream, &mut first) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => drips.send("y"),
                other => break assert_eq!((other.unwrap(), first), (1, *b"H")),
            }
        }
        for client in [&mut stops, &mut body] {
            assert_eq!(client.answer().status, 408);
            client.finish();
            client.expect_end();
        }
        // One byte at a time is no reason, if the whole comes in time.
        let server = site.serve(&["-r", runtime]);
        let mut small = Client::connect(server.address);
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".iter().for_each(|byte| small.send([*byte]));
        assert_eq!(small.answer().body, PAGE);
    });
}

#[test]
fn a_client_that_does_not_read_is_given_up_and_holds_up_no_other() {
    let site = Site::new();
    // More than the buffers of both sockets hold.
    let huge = big(32 << 20);
    std::fs::write(site.root().join("huge"), &huge).unwrap();
    on_both("clients that do not read", |runtime| {
        let server = site.serve(&["-r", runtime, "--stall", SHORT]);
        let mut deaf = Client::connect(server.address);
        deaf.send("GET /huge HTTP/1.1\r\nHost: here\r\n\r\n");
        // The answer has begun.
        assert_eq!(deaf.stream.peek(&mut [0]).unwrap(), 1);
        // A busy machine may keep some of these from reading in time.
        let is_served = |target: &str, body: &[u8]| {
            let mut other = Client::connect(server.address).stream;
            let request = format!("GET {target} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
            let mut all = Vec::new();
            other.write_all(request.as_bytes()).is_ok()
                && other.read_to_end(&mut all).is_ok()
                && all.ends_with(body)
        };
        assert!((0..20).any(|_| is_served("/huge", &huge)));
        // The server closes what it cannot send. Only then does a client see that, if it does not read.
        while deaf.stream.write_all(b"\r\n").is_ok() {
            assert!((0..20).any(|_| is_served("/", PAGE)));
        }
        let mut rest = Vec::new();
        let _ = deaf.stream.read_to_end(&mut rest);
        assert!(rest.len() < huge.len(), "{}", rest.len());
    });
}
