//! Responses: a status, and a file or a line of text.

use std::fs::File;
use std::io::Write;
use std::time::SystemTime;

use crate::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(u16, &'static str);

impl Status {
    pub(crate) const OK: Self = Self(200, "OK");
    pub(crate) const BAD_REQUEST: Self = Self(400, "Bad Request");
    pub(crate) const NOT_FOUND: Self = Self(404, "Not Found");
    pub(crate) const NOT_ALLOWED: Self = Self(405, "Method Not Allowed");
    pub(crate) const TIMED_OUT: Self = Self(408, "Request Timeout");
    pub(crate) const TOO_LARGE: Self = Self(413, "Content Too Large");
    pub(crate) const TOO_MANY_FIELDS: Self = Self(431, "Request Header Fields Too Large");
    pub(crate) const NOT_IMPLEMENTED: Self = Self(501, "Not Implemented");
    pub(crate) const VERSION: Self = Self(505, "HTTP Version Not Supported");
}

#[derive(Debug)]
pub(crate) enum Body {
    File(File),
    Text(&'static str),
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) length: u64,
    pub(crate) body: Body,
}

impl From<Status> for Response {
    fn from(status: Status) -> Self {
        let Status(_, text) = status;
        let content_type = "text/plain; charset=utf-8";
        Self { status, content_type, length: text.len() as u64, body: Body::Text(text) }
    }
}

impl Response {
    /// Returns the head. `request` is missing if it could not be read.
    pub(crate) fn head(&self, request: Option<&Request>, keep_alive: bool) -> Vec<u8> {
        let Self { status: Status(code, text), content_type, length, .. } = self;
        let now = httpdate::fmt_http_date(SystemTime::now());
        let mut head = Vec::with_capacity(512);
        let mut line = |line: std::fmt::Arguments<'_>| {
            // Into memory, which has room.
            let _ = write!(head, "{line}\r\n");
        };
        line(format_args!("HTTP/1.1 {code} {text}"));
        line(format_args!("Date: {now}"));
        line(format_args!("Content-Type: {content_type}"));
        line(format_args!("Content-Length: {length}"));
        if self.status == Status::NOT_ALLOWED {
            line(format_args!("Allow: GET, HEAD"));
        }
        if !keep_alive {
            line(format_args!("Connection: close"));
        } else if request.is_some_and(|request| request.old) {
            line(format_args!("Connection: keep-alive"));
        }
        line(format_args!(""));
        head
    }
}
