//! Streams of both kinds, and the two sides of a flow of bytes, each of which counts what it has moved.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use selvedge::net::{TcpListener, TcpStream};
use selvedge::os::unix::net::UnixStream;
use selvedge::{Wait, thread};

/// What the tests need of a stream.
pub(crate) trait Wire: Send + Sync + Sized + 'static {
    /// `true` if a peer that goes away in mid-stream can make the other side see a reset.
    const RESETS: bool;

    /// Two ends of a connection.
    fn pair() -> (Self, Self);
    fn read_with(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize>;
    fn write_with(&self, bytes: &[u8], wait: Wait) -> io::Result<usize>;
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize>;
    fn shutdown(&self, how: Shutdown);
    /// Sends a reset when it is dropped.
    fn reset_at_drop(&self);
}

macro_rules! wire {
    ($stream:ty, $resets:expr, $pair:expr) => {
        impl Wire for $stream {
            const RESETS: bool = $resets;

            fn pair() -> (Self, Self) {
                $pair
            }

            fn read_with(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
                self.read_with(buffer, wait)
            }

            fn write_with(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
                self.write_with(bytes, wait)
            }

            fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                Read::read(&mut &*self, buffer)
            }

            fn write(&self, bytes: &[u8]) -> io::Result<usize> {
                Write::write(&mut &*self, bytes)
            }

            fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                Read::read_vectored(&mut &*self, buffers)
            }

            fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                Write::write_vectored(&mut &*self, buffers)
            }

            fn shutdown(&self, how: Shutdown) {
                // The peer may have gone.
                let _ = self.shutdown(how);
            }

            fn reset_at_drop(&self) {
                socket2::SockRef::from(self).set_linger(Some(Duration::ZERO)).expect("an open socket");
            }
        }
    };
}

wire!(TcpStream, true, {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("a port")).expect("it listens");
    (one, listener.accept().expect("it has connected").0)
});
wire!(UnixStream, false, UnixStream::pair().expect("two descriptors"));

/// Random numbers of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn micros(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound))
    }
}

/// The byte at this position of a flow.
fn byte(flow: u64, at: u64) -> u8 {
    ((at ^ flow << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// How one side of a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It moved all that it was to move, or was told to stop.
    Done,
    /// It read the end of the stream.
    Eof,
    Failed(ErrorKind),
}

/// What one side of a flow says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) bytes: u64,
    pub(crate) end: End,
}

/// Returns `true` if only the wait has ended, so that the call is made again.
fn again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// How a side moves its flow.
#[derive(Debug)]
pub(crate) struct Habits {
    pub(crate) flow: u64,
    pub(crate) dice: Dice,
    /// Sleeps now and then.
    pub(crate) slow: bool,
    /// Its waits all end soon, or by an interrupt, so that it sees `stop`.
    pub(crate) stoppable: bool,
}

impl Habits {
    /// Returns `None` for a call without a wait of its own.
    fn wait(&mut self) -> Option<Wait> {
        match self.dice.below(4) {
            0 | 1 if !self.stoppable => None,
            0 | 2 => Some(Wait::timeout(self.dice.micros(400))),
            _ => Some(Wait::forever().interruptible()),
        }
    }

    fn pause(&mut self) {
        match self.dice.below(40) {
            0 if self.slow => thread::sleep(self.dice.micros(2_000)),
            1..4 => thread::yield_now(),
            _ => {}
        }
    }

    fn length(&mut self) -> u64 {
        match self.dice.below(4) {
            0 => 1,
            1 => 1 + self.dice.below(100),
            2 => 1 + self.dice.below(5_000),
            _ => 1 + self.dice.below(70_000),
        }
    }
}

/// Writes `total` bytes of the flow, unless an error or `stop` comes first.
pub(crate) fn writes<W: Wire>(wire: &W, total: u64, stop: &AtomicBool, mut habits: Habits) -> Side {
    let mut bytes = 0;
    let mut piece = Vec::new();
    while bytes < total && !stop.load(SeqCst) {
        let length = habits.length().min(total - bytes);
        piece.clear();
        piece.extend((bytes..bytes + length).map(|at| byte(habits.flow, at)));
        let written = match habits.wait() {
            Some(wait) => wire.write_with(&piece, wait),
            None if habits.dice.below(2) == 0 => wire.write(&piece),
            None => {
                let (one, other) = piece.split_at(habits.dice.below(length) as usize);
                wire.write_vectored(&[IoSlice::new(one), IoSlice::new(other)])
            }
        };
        match written {
            Ok(written) => {
                assert!(written > 0 && written <= piece.len(), "{written} of {}", piece.len());
                bytes += written as u64;
            }
            Err(error) if again(&error) => {}
            Err(error) => return Side { bytes, end: End::Failed(error.kind()) },
        }
        habits.pause();
    }
    Side { bytes, end: End::Done }
}

/// Reads the flow to its end, unless an error or `stop` comes first. Each byte must be the next of the flow.
pub(crate) fn reads<W: Wire>(wire: &W, stop: &AtomicBool, mut habits: Habits) -> Side {
    let mut bytes = 0;
    let mut buffer = vec![0; 70_000];
    while !stop.load(SeqCst) {
        let length = habits.length() as usize;
        let room = &mut buffer[..length];
        let read = match habits.wait() {
            Some(wait) => wire.read_with(room, wait),
            None if habits.dice.below(2) == 0 => wire.read(room),
            None => {
                let (one, other) = room.split_at_mut(habits.dice.below(length as u64) as usize);
                wire.read_vectored(&mut [IoSliceMut::new(one), IoSliceMut::new(other)])
            }
        };
        match read {
            Ok(0) => return Side { bytes, end: End::Eof },
            Ok(read) => {
                for (at, &it) in (bytes..).zip(&buffer[..read]) {
                    assert_eq!(it, byte(habits.flow, at), "at {at} of flow {}", habits.flow);
                }
                bytes += read as u64;
            }
            Err(error) if again(&error) => {}
            Err(error) => return Side { bytes, end: End::Failed(error.kind()) },
        }
        habits.pause();
    }
    Side { bytes, end: End::Done }
}
