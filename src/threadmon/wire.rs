//! What a client asks, what the program answers, and how both travel.
//!
//! A frame is its length, four bytes little-endian, and as many bytes of payload, at most [`LONGEST`]. The
//! first byte of a payload says which message it is. The first frame of a client is a [`Request::Hello`] with
//! the version. The server answers each request with one frame, in order.

use super::codec::{Wire, variants};
use super::views::{HistoryView, LockView, Overview, ThreadPageView};
use crate::trace::Level;

/// The version of all of this. A server refuses other versions.
pub const VERSION: u32 = 8;

/// The longest payload: 16 MiB.
pub const LONGEST: usize = 16 << 20;

/// The longest request, in bytes.
pub const LONGEST_REQUEST: usize = 4096;

/// What a client asks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Request {
    /// The first request: the client's version.
    Hello(u32),
    /// The process and its runtimes.
    Overview,
    /// The next threads of the runtime of this number that have changed since this client got them: at most
    /// so many. With `true`, the client has got none.
    Threads(u32, u32, bool),
    /// The locks for which threads waited.
    Locks,
    /// What this client wants to be counted and recorded of threads, until its connection ends.
    SetLevel(Level),
    /// Begins or ends the recording of owners, and the counting of contention, for this client. Owners stay
    /// recorded.
    CountLocks(bool),
    /// The events since the last such request, as a recording. With `true`, all that are still there. If they
    /// are too many for one answer, the next one goes on.
    Events(bool),
    /// What all threads do, as text for people.
    Dump,
    /// What waits forever, as text for people. Empty if nothing does.
    Deadlocks,
    /// What has happened to the thread of this identity since the last such request for it. With `true`, all
    /// that is still known.
    History(u64, bool),
    /// Of how many threads one records events, from the next time on that events are switched on. 0 is
    /// refused.
    SetSample(u32),
}

/// What the program answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Response {
    /// To `Hello`: the server's version.
    Hello(u32),
    /// To `Overview`.
    Overview(Overview),
    /// To `Threads`.
    Threads(ThreadPageView),
    /// To `Locks`.
    Locks(Vec<LockView>),
    /// What was asked is done.
    Done,
    /// To `Events`: a recording, for [`Recording::read`](crate::trace::Recording::read).
    Events(Vec<u8>),
    /// To `Dump` and `Deadlocks`.
    Text(String),
    /// The request cannot be served, and why.
    Refused(String),
    /// To `History`.
    History(HistoryView),
    /// The answer would have so many bytes, which are more than [`LONGEST`].
    TooLong(usize),
}

variants! {
    Request {
        0 Hello(version)
        1 Overview
        2 Threads(runtime, max, anew)
        3 Locks
        4 SetLevel(level)
        5 CountLocks(on)
        6 Events(all)
        7 Dump
        8 Deadlocks
        9 History(thread, anew)
        10 SetSample(one_of)
    }
}

variants! {
    Response {
        0 Hello(version)
        1 Overview(overview)
        2 Threads(page)
        3 Locks(locks)
        4 Done
        5 Events(bytes)
        6 Text(text)
        7 Refused(why)
        8 History(history)
        9 TooLong(bytes)
    }
}

impl Request {
    /// Returns the request as a frame.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        frame(self)
    }

    /// Returns the request of this payload, or `None` if it is none.
    #[must_use]
    pub fn from_payload(payload: &[u8]) -> Option<Self> {
        whole(payload)
    }
}

impl Response {
    /// Returns the response as a frame.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        let bytes = frame(self);
        if bytes.len() <= 4 + LONGEST {
            return bytes;
        }
        frame(&Self::TooLong(bytes.len() - 4))
    }

    /// Returns the response of this payload, or `None` if it is none.
    #[must_use]
    pub fn from_payload(payload: &[u8]) -> Option<Self> {
        whole(payload)
    }
}

fn frame(message: &impl Wire) -> Vec<u8> {
    let mut frame = vec![0; 4];
    message.put(&mut frame);
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    frame
}

fn whole<T: Wire>(mut payload: &[u8]) -> Option<T> {
    T::get(&mut payload).filter(|_| payload.is_empty())
}

/// Takes the payload of the first frame off `bytes`. Returns `None` if it is not complete.
///
/// # Errors
///
/// The length that it says, if that is more than `longest`.
pub(super) fn take_frame(bytes: &mut Vec<u8>, longest: usize) -> Result<Option<Vec<u8>>, usize> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > longest {
        return Err(length);
    }
    if bytes.len() < 4 + length {
        return Ok(None);
    }
    let rest = bytes.split_off(4 + length);
    let mut frame = std::mem::replace(bytes, rest);
    frame.drain(..4);
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_behind_a_message_are_no_message() {
        let mut frame = Request::Threads(1, 2, true).to_frame();
        assert_eq!(Request::from_payload(&frame[4..]), Some(Request::Threads(1, 2, true)));
        frame.push(0);
        assert_eq!(Request::from_payload(&frame[4..]), None);
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_sent() {
        let payload = |bytes| Response::from_payload(&Response::Events(vec![0; bytes]).to_frame()[4..]);
        assert!(matches!(payload(LONGEST - 8), Some(Response::Events(_))));
        assert_eq!(payload(LONGEST), Some(Response::TooLong(LONGEST + 5)));
    }

    /// A part of a recording may have any bytes, and must fit.
    #[test]
    fn bytes_travel_as_they_are() {
        let part = Response::Events(vec![0xff; LONGEST - 8]);
        assert_eq!(Response::from_payload(&part.to_frame()[4..]), Some(part));
    }

    /// A dump of a thousand threads has as much.
    #[test]
    fn a_long_text_is_sent_whole() {
        let text = Response::Text("x".repeat(100_000));
        assert_eq!(Response::from_payload(&text.to_frame()[4..]), Some(text));
    }

    #[test]
    fn frames_are_taken_one_by_one() {
        let mut bytes = Request::Overview.to_frame();
        bytes.extend(&Request::Dump.to_frame()[..4]);
        assert_eq!(take_frame(&mut bytes, 1), Ok(Some(vec![1])));
        assert_eq!(take_frame(&mut bytes, 1), Ok(None));
        assert_eq!(take_frame(&mut bytes, 0), Err(1));
    }
}
