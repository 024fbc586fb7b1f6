//! One connection: requests, one after the other, and their answers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use selvedge::net::TcpStream;
use selvedge::{Wait, thread};

use crate::files;
use crate::request::{Method, Request};
use crate::response::{Body, Response, Status};
use crate::site::Site;

/// A longer head is refused.
const MAX_HEAD: usize = 8 << 10;
/// Read from the connection at once. It lies on the stack while the connection is idle.
const READ: usize = 1 << 10;
/// Read from a file at once.
const PART: u64 = 64 << 10;
/// How long, and for how many bytes, a client that was refused is listened to.
const LINGER: Duration = Duration::from_secs(1);
const MAX_LINGER: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Connection<'a> {
    stream: &'a TcpStream,
    site: &'a Site,
    /// What has been read and belongs to no request yet.
    input: Vec<u8>,
}

/// What a client has sent.
enum Next {
    Request(Request),
    /// It cannot be understood, or took too long: the answer is the last.
    Wrong(Status),
    /// Nothing more.
    End,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(stream: &'a TcpStream, site: &'a Site) -> Self {
        Self { stream, site, input: Vec::new() }
    }

    /// Answers requests until either side has had enough.
    pub(crate) fn serve(mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(self.site.limits.idle))?;
        self.stream.set_write_timeout(Some(self.site.limits.stall))?;
        loop {
            match self.next()? {
                Next::Request(request) => {
                    if !self.answer(&request)? {
                        return self.hang_up();
                    }
                }
                Next::Wrong(status) => {
                    self.send(status.into(), None, false)?;
                    return self.hang_up();
                }
                Next::End => return Ok(()),
            }
        }
    }

    /// Reads until the next request is whole.
    fn next(&mut self) -> io::Result<Next> {
        let mut deadline = None;
        loop {
            // It may have come with the last one.
            if !self.input.is_empty() {
                match Request::parse(&self.input) {
                    Ok(Some((request, length))) => {
                        self.consume(length);
                        return Ok(Next::Request(request));
                    }
                    Ok(None) if self.input.len() < MAX_HEAD => (),
                    Ok(None) => return Ok(Next::Wrong(Status::TOO_MANY_FIELDS)),
                    Err(status) => return Ok(Next::Wrong(status)),
                }
                deadline.get_or_insert_with(|| Instant::now() + self.site.limits.head);
            }
            match self.read(deadline) {
                Ok(0) => return Ok(Next::End),
                Ok(_) => (),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    return Ok(Next::Wrong(Status::TIMED_OUT));
                }
                // The connection was idle for too long.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::End),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads more: until the deadline, or with the timeout of the socket.
    fn read(&mut self, deadline: Option<Instant>) -> io::Result<usize> {
        let mut stream = self.stream;
        let mut bytes = [0; READ];
        loop {
            let read = match deadline {
                Some(deadline) => stream.read_with(&mut bytes, Wait::until(deadline)),
                None => stream.read(&mut bytes),
            };
            match read {
                // By a signal, as in std.
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                read => {
                    self.input.extend_from_slice(&bytes[..*read.as_ref().unwrap_or(&0)]);
                    return read;
                }
            }
        }
    }

    /// Forgets the first bytes of the input. An idle connection keeps no buffer.
    fn consume(&mut self, length: usize) {
        if length == self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..length);
        }
    }

    /// Answers a request. Returns `true` if the connection stays open.
    fn answer(&mut self, request: &Request) -> io::Result<bool> {
        let keep_alive = request.keep_alive && !request.expects;
        if keep_alive && request.body > 0 && !self.skip(request.body)? {
            self.send(Status::TIMED_OUT.into(), None, false)?;
            return Ok(false);
        }
        let response = match request.method {
            Method::Get | Method::Head => {
                // The disk may take its time.
                thread::blocking(|| files::open(&self.site.root, &request.target))
            }
            Method::Other => Status::NOT_ALLOWED.into(),
        };
        self.send(response, Some(request), keep_alive)?;
        Ok(keep_alive)
    }

    /// Skips the body of a request. Returns `false` if it does not come in time.
    fn skip(&mut self, length: u64) -> io::Result<bool> {
        let deadline = Instant::now() + self.site.limits.head;
        let mut left = length;
        loop {
            let here = self.input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= here as u64;
            if here > 0 {
                self.consume(here);
            }
            if left == 0 {
                return Ok(true);
            }
            match self.read(Some(deadline)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(false),
                other => other?,
            };
        }
    }

    fn send(&self, response: Response, request: Option<&Request>, keep_alive: bool) -> io::Result<()> {
        let mut out = response.head(request, keep_alive);
        let mut stream = self.stream;
        if request.is_some_and(|request| request.method == Method::Head) {
            return stream.write_all(&out);
        }
        match response.body {
            Body::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                stream.write_all(&out)
            }
            Body::File(mut file) => {
                let mut left = response.length;
                loop {
                    let part = left.min(PART);
                    let read = thread::blocking(|| (&mut file).take(part).read_to_end(&mut out))? as u64;
                    if read < part {
                        // The file has become shorter. Its length was promised.
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    stream.write_all(&out)?;
                    left -= read;
                    if left == 0 {
                        return Ok(());
                    }
                    out.clear();
                }
            }
        }
    }

    /// Says that nothing more will come, and waits until the client has heard it. If the socket were closed
    /// while it has input, the client might lose the answer.
    fn hang_up(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        let deadline = Instant::now() + LINGER;
        let mut heard = 0;
        while heard < MAX_LINGER {
            self.input.clear();
            match self.read(Some(deadline))? {
                0 => break,
                length => heard += length,
            }
        }
        Ok(())
    }
}
