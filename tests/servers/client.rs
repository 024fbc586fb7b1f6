//! A client of HTTP that can say anything.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// Reads once. If this process is stopped and continued, the kernel ends a read that has a timeout.
pub(crate) fn read(mut stream: impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the value of the only field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "two {name}: {self:?}");
        value
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Self { stream, input: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("a server that reads");
    }

    /// Asks for a file, and reads the answer.
    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: here\r\n\r\n"));
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.read_answer(true)
    }

    /// Reads an answer to HEAD.
    pub(crate) fn answer_without_body(&mut self) -> Answer {
        self.read_answer(false)
    }

    fn read_answer(&mut self, has_body: bool) -> Answer {
        let end = loop {
            match self.input.windows(4).position(|it| it == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => assert!(self.read(), "the end of the stream, after {:?}", self.text()),
            }
        };
        let head: Vec<u8> = self.input.drain(..end).collect();
        let head = String::from_utf8(head).expect("text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status line");
        let status = status.split(' ').next().and_then(|code| code.parse().ok()).expect("a code");
        let fields = lines.map(|line| line.split_once(": ").expect("a field"));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut answer = Answer { status, fields, body: Vec::new() };
        let length = answer.field("Content-Length").expect("a length").parse().expect("a number");
        if has_body {
            while self.input.len() < length {
                assert!(self.read(), "{} bytes of {length}", self.input.len());
            }
            answer.body = self.input.drain(..length).collect();
        }
        answer
    }

    /// Reads more. Returns `false` at the end of the stream.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 16 << 10];
        let length = read(&mut self.stream, &mut bytes).expect("bytes");
        self.input.extend_from_slice(&bytes[..length]);
        length > 0
    }

    /// Waits until the server has closed the connection, after all that it said was read.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert!(self.input.is_empty(), "{:?}", self.text());
        match read(&mut self.stream, &mut [0; 64]) {
            Ok(length) => assert_eq!(length, 0, "bytes at the end"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }

    /// Says that nothing more will come.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection");
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.input).into_owned()
    }
}
