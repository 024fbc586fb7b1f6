//! What the HTTP server answers.

use std::fmt::Write;

use crate::client::Client;
use crate::on_both;
use crate::target::{BIG, PAGE, Site, big};

#[test]
fn a_connection_answers_one_request_after_the_other() {
    let site = Site::new();
    on_both("keep-alive", |runtime| {
        let server = site.serve(&["-r", runtime]);
        let mut client = Client::connect(server.address);
        for _ in 0..3 {
            let answer = client.get("/");
            assert_eq!((answer.status, &answer.body[..]), (200, PAGE));
            assert_eq!(answer.field("Content-Type"), Some("text/html; charset=utf-8"));
            assert_eq!(answer.field("Connection"), None);
            let date = answer.field("Date").unwrap();
            assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
        }
        // An answer does not wait for the client's next word, and the last one ends the connection.
        client.send("GET / HTTP/1.1\r\nHost: here\r\nConnection: x, Close\r\n\r\n");
        assert_eq!(client.answer().field("Connection"), Some("close"));
        client.finish();
        client.expect_end();
    });
}

#[test]
fn requests_sent_together_are_answered_in_turn() {
    let site = Site::new();
    on_both("pipelining", |runtime| {
        let server = site.serve(&["-r", runtime]);
        let mut client = Client::connect(server.address);
        let mut all = String::new();
        for number in 0..200 {
            let (method, target) =
                [("GET", "/"), ("HEAD", "/big"), ("GET", "/none"), ("GET", "/a%20b.txt")][number % 4];
            write!(all, "{method} {target} HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        }
        // In pieces that end anywhere.
        all.as_bytes().chunks(77).for_each(|piece| client.send(piece));
        for _ in 0..50 {
            assert_eq!(client.answer().body, PAGE);
            let head = client.answer_without_body();
            assert_eq!((head.status, head.field("Content-Length")), (200, Some("300000")));
            assert_eq!(client.answer().status, 404);
            assert_eq!(client.answer().body, b"spaced");
        }
        client.finish();
        client.expect_end();
    });
}

#[test]
fn files_come_whole_and_with_their_type() {
    let site = Site::new();
    let server = site.serve(&[]);
    let mut client = Client::connect(server.address);
    for (target, body, kind) in [
        ("/sub/", &b"sub"[..], "text/html; charset=utf-8"),
        ("/style.css?version=2", b"p {}", "text/css; charset=utf-8"),
        ("/a%20b.txt", b"spaced", "text/plain; charset=utf-8"),
        ("//sub//index.html", b"sub", "text/html; charset=utf-8"),
        ("http://here/style.css", b"p {}", "text/css; charset=utf-8"),
        ("http://here", PAGE, "text/html; charset=utf-8"),
        ("/empty", b"", "application/octet-stream"),
        ("/big", &big(BIG), "application/octet-stream"),
    ] {
        let answer = client.get(target);
        assert_eq!((answer.status, answer.field("Content-Type")), (200, Some(kind)), "{target}");
        assert!(answer.body == body, "{target}: {} bytes", answer.body.len());
    }
}

#[test]
fn what_lies_outside_of_the_folder_is_not_found() {
    let site = Site::new();
    let server = site.serve(&[]);
    let mut client = Client::connect(server.address);
    for target in [
        "/../secret",
        "/sub/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/%2E%2E%2Fsecret",
        "/sub%2f..%2f..%2fsecret",
        "http://here/../secret",
        "/.hidden",
        "/./index.html",
        "/index.html%00",
        "/index.html/",
        "/sub",
        "/none",
        // To open it would wait for a writer.
        "/fifo",
    ] {
        let answer = client.get(target);
        assert_eq!(answer.status, 404, "{target}: {answer:?}");
    }
    // The connection is as good as before.
    assert_eq!(client.get("/").body, PAGE);
}

#[test]
fn a_bad_request_gets_its_status_and_the_connection_ends() {
    let site = Site::new();
    on_both("bad requests", |runtime| {
        let server = site.serve(&["-r", runtime]);
        let many: String = (0..100).map(|number| format!("X{number}: y\r\n")).collect();
        for (request, status) in [
            ("nonsense\r\n\r\n", 400),
            ("GET /\0 HTTP/1.1\r\nHost: here\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost here\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: here\r\nContent-Length: +1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: here\r\nContent-Length: \r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 65537\r\n\r\n", 413),
            ("GET / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
            ("GET / HTTP/2.0\r\nHost: here\r\n\r\n", 505),
            (&format!("GET / HTTP/1.1\r\nHost: here\r\n{many}\r\n"), 431),
            (&format!("GET / HTTP/1.1\r\nHost: here\r\nX: {}\r\n\r\n", "y".repeat(100_000)), 431),
            (&format!("GET /{} HTTP/1.1\r\nHost: here\r\n\r\n", "y".repeat(100_000)), 431),
        ] {
            let mut client = Client::connect(server.address);
            // What follows is no request any more, and does not keep the answer from arriving.
            client.send(request);
            client.send("GET / HTTP/1.1\r\nHost: here\r\n\r\n");
            let answer = client.answer();
            assert_eq!((answer.status, answer.field("Connection")), (status, Some("close")), "{request:.60}");
            client.finish();
            client.expect_end();
        }
    });
}

#[test]
fn other_methods_are_refused_and_their_bodies_skipped() {
    let site = Site::new();
    on_both("methods", |runtime| {
        let server = site.serve(&["-r", runtime]);
        let mut client = Client::connect(server.address);
        for body in ["", "x", "GET / HTTP/1.1\r\n\r\n", &"y".repeat(65_536)] {
            client.send(format!(
                "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            let answer = client.answer();
            assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD")));
            assert_eq!(client.get("/%zz").status, 400);
            assert_eq!(client.get("/").body, PAGE);
        }
        // Such a client does not send the body before it is told to.
        client.send("PUT / HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
        assert_eq!(client.answer().status, 405);
        client.finish();
        client.expect_end();
    });
}

#[test]
fn a_client_of_the_old_version_asks_for_the_connection_to_stay() {
    let site = Site::new();
    let server = site.serve(&[]);
    let mut client = Client::connect(server.address);
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.field("Connection"), &answer.body[..]), (Some("keep-alive"), PAGE));
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().field("Connection"), Some("close"));
    client.finish();
    client.expect_end();
}
