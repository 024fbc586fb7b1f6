//! The thread that serves clients.
//!
//! **Problem.** A client may stall, vanish, or send anything. The program must not notice.
//!
//! **Solution.** One kernel thread of its own does everything, and waits only in `poll`. A client has a
//! buffer for what it sends, of one request, and one for what it has not yet read. If that is not empty, the
//! client's next requests wait. A client that reads nothing for [`PATIENCE`] is dropped, and so is
//! one that sends frames without sense. There are at most [`CLIENTS`].
//!
//! A program may close what it does not know (`close_range(3, ..)`), and open files that get the same
//! numbers. So at each event, the server looks if its listener is still there. If not, it leaves all numbers
//! alone, and ends.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::collect::Collector;
use super::socket;
use super::wire::{LONGEST_REQUEST, Request, Response, VERSION, take_frame};
use crate::settings::{self, Lookup};
use crate::sys;
use crate::sys::fork::Generation;
use crate::sys::kthread::{KernelThread, Options};
use crate::sys::once::OnceLock;
use crate::sys::poll::{self, Interest};

/// The most clients at a time. Others are closed at once.
const CLIENTS: usize = 16;

/// How long a client may leave an answer unread.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stack of the thread. It runs only this crate's code, and allocates.
const STACK: usize = 256 << 10;

/// The socket of this process, once it serves.
static SERVES: OnceLock<(PathBuf, Generation)> = OnceLock::new();

/// Lets `threadmon` and other [clients](super::Client) see this process. It serves from then on, until it
/// ends. A second call does nothing.
///
/// In the child of a fork, nothing serves, and nothing can.
///
/// # Examples
///
/// ```
/// selvedge::threadmon::serve()?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// The directory of sockets cannot be made, is not private, or its path is too long; or the system refuses a
/// socket or a thread.
pub fn serve() -> io::Result<()> {
    // Of several callers, one starts the server, and the others wait for that: to listen removes what is at
    // the path.
    let (_, process) = SERVES.get_or_try_init(start)?;
    if process.is_mine() {
        return Ok(());
    }
    Err(io::Error::other("this is a fork of a process that serves, and cannot serve itself"))
}

/// Starts the thread that serves.
fn start() -> io::Result<(PathBuf, Generation)> {
    let process = crate::park::fork::watch()?;
    sys::crash::at_exit(leave)?;
    let (listener, path) = socket::listen()?;
    let options = Options { name: "selvedge-view", stack_size: Some(STACK), block_signals: true };
    let server = Server { listener, path: path.clone(), clients: Vec::new() };
    match KernelThread::start(&options, move || server.run()) {
        Ok(_) => Ok((path, process)),
        Err(error) => {
            let _ = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Serves if `SELVEDGE_MON` asks for it. Called when a runtime is built. A fork that cannot serve has
/// runtimes all the same.
///
/// # Errors
///
/// As [`serve`], and if the value is neither `on` nor `off`.
pub(crate) fn serve_if_asked(lookup: Lookup<'_>) -> io::Result<()> {
    let can_serve = SERVES.get().is_none_or(|(_, process)| process.is_mine());
    if settings::monitor(lookup)? && can_serve { serve() } else { Ok(()) }
}

/// Removes the socket at the end of the process.
extern "C" fn leave() {
    if let Some((path, process)) = SERVES.get()
        && process.is_mine()
    {
        let _ = std::fs::remove_file(path);
    }
}

struct Server {
    listener: UnixListener,
    /// Where it listens.
    path: PathBuf,
    clients: Vec<ClientState>,
}

/// One client.
struct ClientState {
    stream: UnixStream,
    /// What has come, at most one request and the beginning of the next.
    input: Vec<u8>,
    /// What has not been sent.
    output: Vec<u8>,
    /// When a byte was last sent, or the output became not empty.
    progress: Instant,
    /// It has said hello.
    greeted: bool,
    collector: Collector,
}

impl Server {
    fn run(mut self) {
        loop {
            let mut on = vec![Interest { fd: self.listener.as_raw_fd(), read: true, write: false }];
            on.extend(self.clients.iter().map(ClientState::interest));
            let stalls = self.clients.iter().any(|client| !client.output.is_empty());
            let Ok(ready) = poll::wait(&on, stalls.then_some(Duration::from_millis(500))) else { return };
            if !self.is_listening() {
                self.clients.iter_mut().for_each(|client| client.collector = Collector::default());
                // What has the numbers now is not the server's to close.
                return std::mem::forget(self);
            }
            let mut seen = ready[1..].iter();
            self.clients.retain_mut(|client| {
                let &(read, write) = seen.next().expect("one for each client");
                client.serve(read, write)
            });
            if ready[0].0 {
                self.accept();
            }
        }
    }

    /// Returns `false` if the program has closed the listener.
    fn is_listening(&self) -> bool {
        self.listener.local_addr().is_ok_and(|at| at.as_pathname() == Some(&*self.path))
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            // Out of descriptors, perhaps. The client waits in the backlog.
            std::thread::sleep(Duration::from_millis(10));
            return;
        };
        if self.clients.len() < CLIENTS && socket::is_allowed(&stream) && stream.set_nonblocking(true).is_ok()
        {
            self.clients.push(ClientState::new(stream));
        }
    }
}

impl ClientState {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            progress: Instant::now(),
            greeted: false,
            collector: Collector::default(),
        }
    }

    /// Returns what to wait for: requests, or room for the answer to the last one.
    fn interest(&self) -> Interest {
        let has_answer = !self.output.is_empty();
        Interest { fd: self.stream.as_raw_fd(), read: !has_answer, write: has_answer }
    }

    /// Does what can be done. Returns `false` if the client is to be dropped.
    fn serve(&mut self, read: bool, write: bool) -> bool {
        if write && !self.send() || read && !self.receive() {
            return false;
        }
        while self.output.is_empty() {
            match take_frame(&mut self.input, LONGEST_REQUEST) {
                Ok(Some(frame)) => {
                    let Some(response) = self.answer(&frame) else { return false };
                    self.output = response.to_frame();
                    self.progress = Instant::now();
                    if !self.send() {
                        return false;
                    }
                }
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        self.output.is_empty() || self.progress.elapsed() < PATIENCE
    }

    /// Takes what has come. Returns `false` at the end.
    fn receive(&mut self) -> bool {
        let mut room = [0; LONGEST_REQUEST];
        // What is beyond a request waits in the kernel.
        while self.input.len() <= LONGEST_REQUEST {
            match self.stream.read(&mut room) {
                Ok(0) => return false,
                Ok(got) => self.input.extend_from_slice(&room[..got]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends what the kernel takes. Returns `false` if the client is gone.
    fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return false,
                Ok(sent) => {
                    self.output.drain(..sent);
                    self.progress = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns the answer to a request, or `None` if the frame makes no sense.
    fn answer(&mut self, frame: &[u8]) -> Option<Response> {
        let request = Request::from_payload(frame)?;
        if let Request::Hello(version) = request {
            self.greeted = version == VERSION;
            return Some(Response::Hello(VERSION));
        }
        if !self.greeted {
            return Some(Response::Refused(format!("expected a hello of version {VERSION} first")));
        }
        Some(self.collector.answer(&request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its requests wait in the kernel, and the server must not be woken for them again and again.
    #[test]
    fn a_client_that_asks_on_and_reads_nothing_keeps_the_server_asleep() {
        let (stream, mut other) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut client = ClientState::new(stream);
        let ready = |client: &ClientState| poll::wait(&[client.interest()], Some(Duration::ZERO)).unwrap()[0];
        client.output = vec![0; 16 << 20];
        other.write_all(&[0; 3 * LONGEST_REQUEST]).unwrap();
        assert!(client.serve(true, true) && !client.output.is_empty());
        assert_eq!(ready(&client), (false, false));
        // It reads on.
        let mut room = vec![0; 1 << 20];
        while !ready(&client).1 {
            assert!(other.read(&mut room).unwrap() > 0);
        }
        assert!(client.serve(false, true));
        // It has gone.
        drop(other);
        let (read, write) = ready(&client);
        assert!((read || write) && !client.serve(read, write));
    }
}
