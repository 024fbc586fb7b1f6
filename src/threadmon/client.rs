//! The other end: asks a program that serves.

use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::socket;
use super::views::{HistoryView, LockView, Overview, ThreadPageView};
use super::wire::{LONGEST, Request, Response, VERSION, take_frame};
use crate::trace::{Level, Recording, parts};

/// How long a program may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many parts of a recording are put together: what a thousand rings of the usual size have.
const MOST_PARTS: usize = 64;

/// A connection to a program that [serves](super::serve).
///
/// Each method asks one question, and waits for the answer for up to five seconds.
///
/// # Examples
///
/// ```
/// use selvedge::threadmon::{self, Client};
/// use selvedge::{Mxn, Runtime, thread};
///
/// threadmon::serve()?;
/// let rt = Mxn::new()?;
/// let parked = rt.spawn_with(thread::Builder::new().name("idler".into()), thread::park)?;
/// let mut client = Client::connect(std::process::id())?;
/// let runtime = client.overview()?.runtimes[0].number;
/// let page = client.threads(runtime, 100, true)?;
/// assert_eq!(page.threads[0].name.as_deref(), Some("idler"));
/// # parked.thread().unpark();
/// # parked.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Client {
    pid: u32,
    stream: UnixStream,
    /// What has come and was not used yet.
    pending: Vec<u8>,
    /// How many questions have no answer yet. If one did not come in time, it comes before the next one.
    unanswered: usize,
}

impl Client {
    /// Connects to the process of this number.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such process, or it does not serve. `PermissionDenied` if it is another
    /// user's, and this process is not root's. `Unsupported` if it has another version. Otherwise the
    /// system's error.
    pub fn connect(pid: u32) -> io::Result<Self> {
        let stream = socket::connect(pid)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Self { pid, stream, pending: Vec::new(), unanswered: 0 };
        match client.ask(&Request::Hello(VERSION))? {
            Response::Hello(VERSION) => Ok(client),
            Response::Hello(other) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("process {pid} speaks version {other}; this is version {VERSION}"),
            )),
            _ => Err(unexpected()),
        }
    }

    /// Returns what the process is, and its runtimes.
    ///
    /// # Errors
    ///
    /// The process has ended, does not answer, or answers something else. `FileTooLarge` if the answer has
    /// more than 16 MiB.
    pub fn overview(&mut self) -> io::Result<Overview> {
        match self.ask(&Request::Overview)? {
            Response::Overview(overview) => Ok(overview),
            _ => Err(unexpected()),
        }
    }

    /// Returns the next threads of a runtime that have changed since this client got them, at most `max`.
    /// With `anew`, the client has got none.
    ///
    /// The first walk has all threads, in as many calls as it takes until a page is
    /// [last](ThreadPageView::last). The next call begins another walk, for what has changed since.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview). `NotFound` if there is no such runtime.
    pub fn threads(&mut self, runtime: u32, max: u32, anew: bool) -> io::Result<ThreadPageView> {
        match self.ask(&Request::Threads(runtime, max, anew))? {
            Response::Threads(page) => Ok(page),
            _ => Err(unexpected()),
        }
    }

    /// Returns the locks for which threads waited.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn locks(&mut self) -> io::Result<Vec<LockView>> {
        match self.ask(&Request::Locks)? {
            Response::Locks(locks) => Ok(locks),
            _ => Err(unexpected()),
        }
    }

    /// Sets what this client wants the process to count and record of its threads. The process does the most
    /// of what it wants itself, and of what its clients want while they are connected.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn set_level(&mut self, level: Level) -> io::Result<()> {
        self.done(&Request::SetLevel(level))
    }

    /// Lets one thread of `one_of` [record events](crate::trace::set_sample), from the next time on that
    /// events are switched on. Of several clients that are connected, the smallest number counts.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn set_sample(&mut self, one_of: NonZeroU32) -> io::Result<()> {
        self.done(&Request::SetSample(one_of.get()))
    }

    /// Lets the process count contention at locks, and record their owners. It stops counting if no client
    /// wants it any more, and the process does not count on its own account.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn count_locks(&mut self, on: bool) -> io::Result<()> {
        self.done(&Request::CountLocks(on))
    }

    /// Returns the events since the last call, as a recording; with `all`, all that are still there. The
    /// process must [record](Self::set_level) them.
    ///
    /// It asks for up to half a gigabyte. [`events_part`](Self::events_part) asks for as much as fits into
    /// one answer.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn events(&mut self, all: bool) -> io::Result<Recording> {
        let mut bytes = Vec::new();
        // The program may record faster than its events travel.
        for number in 0..MOST_PARTS {
            if !self.append_part(all && number == 0, &mut bytes)? {
                break;
            }
        }
        Recording::read(&*bytes)
    }

    /// Returns as many of the events since the last call as fit into one answer, and `true` if more may be
    /// there. With `all`, it begins with the oldest that are still there.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::threadmon::{self, Client};
    ///
    /// threadmon::serve()?;
    /// let mut client = Client::connect(std::process::id())?;
    /// let mut file = Vec::new();
    /// let (recording, mut more) = client.events_part(true)?;
    /// recording.write(&mut file)?;
    /// while more {
    ///     let part = client.events_part(false)?;
    ///     part.0.write_more(&mut file)?;
    ///     more = part.1;
    /// }
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn events_part(&mut self, all: bool) -> io::Result<(Recording, bool)> {
        let mut bytes = Vec::new();
        let more = self.append_part(all, &mut bytes)?;
        Ok((Recording::read(&*bytes)?, more))
    }

    /// Appends the next part of a recording. Returns `true` if more may follow.
    fn append_part(&mut self, all: bool, bytes: &mut Vec<u8>) -> io::Result<bool> {
        match self.ask(&Request::Events(all))? {
            Response::Events(part) => parts::append(bytes, &part).ok_or_else(unexpected),
            _ => Err(unexpected()),
        }
    }

    /// Returns what has happened to a thread since the last call for it; with `anew`, all that is still
    /// known. The process must [record](Self::set_level) events. A thread that is not known has none.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn history(&mut self, thread: u64, anew: bool) -> io::Result<HistoryView> {
        match self.ask(&Request::History(thread, anew))? {
            Response::History(history) => Ok(history),
            _ => Err(unexpected()),
        }
    }

    /// Returns what all threads do, as text.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn dump(&mut self) -> io::Result<String> {
        self.text(&Request::Dump)
    }

    /// Returns what waits forever, as text; empty if nothing does.
    ///
    /// # Errors
    ///
    /// As [`overview`](Self::overview).
    pub fn deadlocks(&mut self) -> io::Result<String> {
        self.text(&Request::Deadlocks)
    }

    fn text(&mut self, request: &Request) -> io::Result<String> {
        match self.ask(request)? {
            Response::Text(text) => Ok(text),
            _ => Err(unexpected()),
        }
    }

    fn done(&mut self, request: &Request) -> io::Result<()> {
        match self.ask(request)? {
            Response::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// Sends a request, and waits for its response.
    fn ask(&mut self, request: &Request) -> io::Result<Response> {
        self.stream.write_all(&request.to_frame()).map_err(explain)?;
        self.unanswered += 1;
        let mut room = vec![0; 64 << 10];
        loop {
            let frame = take_frame(&mut self.pending, LONGEST).map_err(|_| unexpected())?;
            if let Some(frame) = frame {
                self.unanswered -= 1;
                if self.unanswered > 0 {
                    continue;
                }
                return match Response::from_payload(&frame) {
                    Some(Response::Refused(why)) => Err(io::Error::new(io::ErrorKind::NotFound, why)),
                    Some(Response::TooLong(bytes)) => Err(too_long(bytes)),
                    Some(response) => Ok(response),
                    None => Err(unexpected()),
                };
            }
            match self.stream.read(&mut room) {
                Ok(0) => return Err(ended()),
                Ok(got) => self.pending.extend_from_slice(&room[..got]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted if self.has_ended() => {
                        return Err(ended());
                    }
                    // A signal has come. With a time limit, the kernel does not begin the call again.
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(explain(error)),
                },
            }
        }
    }

    /// Returns `true` if the process has ended. A child that it forked may keep the connection open. A
    /// process that its parent has not asked for yet has no program any more.
    fn has_ended(&self) -> bool {
        let program = std::fs::read_link(format!("/proc/{}/exe", self.pid));
        program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the process has ended")
}

/// Returns the error of an answer of so many bytes.
fn too_long(bytes: usize) -> io::Error {
    let problem = format!("the answer of the process has {bytes} bytes; at most {LONGEST} can be sent");
    io::Error::new(io::ErrorKind::FileTooLarge, problem)
}

/// Returns the error of an answer that makes no sense.
fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the process gave an answer that makes no sense")
}

fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the process does not answer")
        }
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            io::Error::new(error.kind(), "the process has ended")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a client, and the other end.
    fn pair() -> (Client, UnixStream) {
        let (stream, server) = UnixStream::pair().unwrap();
        (Client { pid: std::process::id(), stream, pending: Vec::new(), unanswered: 0 }, server)
    }

    fn answer(server: &mut UnixStream, text: &str) {
        server.write_all(&Response::Text(text.into()).to_frame()).unwrap();
    }

    #[test]
    fn a_late_answer_is_not_taken_for_that_of_the_next_question() {
        let (mut client, mut server) = pair();
        client.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        for _ in 0..2 {
            assert_eq!(client.dump().unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        ["late", "late, too", "in time"].into_iter().for_each(|text| answer(&mut server, text));
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(client.deadlocks().unwrap(), "in time");
        answer(&mut server, "the next one");
        assert_eq!(client.deadlocks().unwrap(), "the next one");
    }

    /// It is no runtime that has ended, which is `NotFound`.
    #[test]
    fn an_answer_that_is_too_long_has_an_error_of_its_own() {
        let (mut client, mut server) = pair();
        server.write_all(&Response::Text("x".repeat(LONGEST)).to_frame()).unwrap();
        let error = client.threads(1, 4096, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        assert!(error.to_string().contains("at most 16777216 can be sent"), "{error}");
    }

    /// The kernel begins no call again that has a time limit, whatever the handler says.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_signal_does_not_end_the_wait_for_an_answer() {
        use crate::sys::kthread::gettid;
        use crate::sys::task_state::is_asleep;

        extern "C" fn nothing(_: libc::c_int) {}

        let test = concat!(module_path!(), "::a_signal_does_not_end_the_wait_for_an_answer");
        crate::sys::child_tests::isolated(test, || {
            let handler = nothing as extern "C" fn(libc::c_int);
            // SAFETY: the handler does nothing. `signal` asks for calls that begin again.
            unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
            let (mut client, mut server) = pair();
            client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let asks = gettid();
            std::thread::spawn(move || {
                for _ in 0..20 {
                    while !is_asleep(asks.cast_unsigned()) {
                        std::thread::yield_now();
                    }
                    // SAFETY: no memory is involved.
                    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), asks, libc::SIGUSR1) };
                }
                answer(&mut server, "here it is");
            });
            assert_eq!(client.dump().unwrap(), "here it is");
        });
    }
}
