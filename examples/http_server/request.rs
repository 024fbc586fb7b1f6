//! Requests: what a client asks for, and whether the connection stays open.

use crate::response::Status;

/// A request of more header fields is refused.
const MAX_FIELDS: usize = 64;
/// A longer body is refused.
const MAX_BODY: u64 = 64 << 10;

/// How a request asks for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Other,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path and what follows it, as they were sent.
    pub(crate) target: String,
    /// HTTP/1.0: the connection stays open only if both sides say so.
    pub(crate) old: bool,
    pub(crate) keep_alive: bool,
    /// How long the body is, which no answer of this server depends on.
    pub(crate) body: u64,
    /// The client sends the body only if it is told to go on.
    pub(crate) expects: bool,
}

impl Request {
    /// Reads the head of a request. Returns it with its length, or `None` if its end is not there yet.
    ///
    /// # Errors
    ///
    /// The status to answer. What follows on the connection cannot be understood.
    pub(crate) fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, Status> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut head = httparse::Request::new(&mut fields);
        let length = match head.parse(input) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Status::TOO_MANY_FIELDS),
            Err(httparse::Error::Version) => return Err(Status::VERSION),
            Err(_) => return Err(Status::BAD_REQUEST),
        };
        let (Some(method), Some(target), Some(version)) = (head.method, head.path, head.version) else {
            return Err(Status::BAD_REQUEST);
        };
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => Method::Other,
        };
        let old = version == 0;
        let mut this =
            Self { method, target: target.to_owned(), old, keep_alive: !old, body: 0, expects: false };
        this.read_fields(head.headers)?;
        Ok(Some((this, length)))
    }

    fn read_fields(&mut self, fields: &[httparse::Header<'_>]) -> Result<(), Status> {
        let (mut hosts, mut body) = (0, None);
        for field in fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            let value = field.value.trim_ascii();
            if is("Host") {
                hosts += 1;
            } else if is("Content-Length") {
                let length = Some(length(value)?);
                // Two lengths that differ are how requests are smuggled past a proxy.
                if body.is_some() && body != length {
                    return Err(Status::BAD_REQUEST);
                }
                body = length;
            } else if is("Transfer-Encoding") {
                return Err(Status::NOT_IMPLEMENTED);
            } else if is("Expect") {
                self.expects = true;
            } else if is("Connection") {
                for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    if word.eq_ignore_ascii_case(b"close") {
                        self.keep_alive = false;
                    } else if word.eq_ignore_ascii_case(b"keep-alive") && self.old {
                        self.keep_alive = true;
                    }
                }
            }
        }
        if hosts > 1 || (hosts == 0 && !self.old) {
            return Err(Status::BAD_REQUEST);
        }
        self.body = body.unwrap_or(0);
        if self.body > MAX_BODY { Err(Status::TOO_LARGE) } else { Ok(()) }
    }
}

/// Reads a length, which has digits only.
fn length(value: &[u8]) -> Result<u64, Status> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|it| it.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).ok_or(Status::BAD_REQUEST)
}
