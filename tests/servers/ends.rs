//! How the HTTP server ends: what runs is finished, what is idle is closed, what comes is refused.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::client::Client;
use crate::on_both;
use crate::target::{PAGE, Site, Target, big};

#[test]
fn a_signal_ends_it_when_the_answers_are_finished() {
    let site = Site::new();
    let huge = big(32 << 20);
    std::fs::write(site.root().join("huge"), &huge).unwrap();
    on_both("graceful ends", |runtime| {
        for signal in ["TERM", "INT"] {
            let server = site.serve(&["-r", runtime]);
            let address = server.address;
            let mut fresh = Client::connect(address);
            let mut used = Client::connect(address);
            assert_eq!(used.get("/").body, PAGE);
            let mut busy = Client::connect(address);
            busy.send("GET /huge HTTP/1.1\r\nHost: here\r\n\r\n");
            assert_eq!(busy.stream.peek(&mut [0]).unwrap(), 1);
            server.signal(signal);
            used.expect_end();
            fresh.expect_end();
            match TcpStream::connect(address) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}"),
                Ok(_) => panic!("a connection to a server that ends"),
            }
            assert!(busy.answer().body == huge);
            busy.expect_end();
            let (status, said) = server.wait();
            assert!(status.success(), "{status}");
            assert_eq!(said, "ended\n");
        }
    });
}

#[test]
fn a_wrong_command_line_is_explained() {
    let site = Site::new();
    let server = site.serve(&[]);
    let root = site.root();
    let root = root.to_str().unwrap();
    let taken = server.address.to_string();
    for (arguments, word) in [
        (&["-r", "vax", root][..], "vax"),
        (&["--idle", "0", root], "milliseconds"),
        (&["--nonsense", root], "usage: "),
        (&[], "folder"),
        (&["--listen", &taken, root], "in use"),
        (&["--listen", "127.0.0.1:0", "/no/such/folder"], "No such file"),
    ] {
        let output = Command::new(Target::path("http_server")).args(arguments).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("http_server: ") && said.contains(word), "{arguments:?}: {said}");
    }
}

#[test]
fn help_is_no_error() {
    for server in ["http_server", "proxy", "tls_echo"] {
        for help in ["--help", "-?"] {
            let output = Command::new(Target::path(server)).arg(help).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{server} {help}: {said}");
            assert!(said.starts_with(&format!("usage: {server}")), "{server} {help}: {said}");
        }
    }
}
