//! A connection with a flow in each direction, and one fault, at any moment.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use selvedge::thread::{self, Builder, JoinHandle};

use crate::wire::{Dice, End, Habits, Side, Wire, reads, writes};

/// What happens to a connection. The first end, *A*, does it to the second, *B*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing: each direction ends when all is written, one before the other.
    None,
    /// A ends its writes while its writer writes.
    ShutdownWrite,
    /// A ends its reads and writes while its threads are in them.
    ShutdownBoth,
    /// A stops, and closes with a reset.
    Reset,
    /// A stops, and closes. What it has not read makes that a reset.
    Close,
}

/// What has been seen in all connections so far, so that a run that saw no fault does not pass.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) whole: AtomicU64,
    pub(crate) resets: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) cut: AtomicU64,
}

/// A thread of the runtime, or one that it does not know.
enum Mover {
    Ours(JoinHandle<Side>),
    Foreign(std::thread::JoinHandle<Side>),
}

impl Mover {
    fn start(dice: &mut Dice, stoppable: bool, moves: impl FnOnce() -> Side + Send + 'static) -> Self {
        match dice.below(8) {
            // It is not interrupted, so its waits must end by themselves.
            0 if !stoppable => Self::Foreign(std::thread::spawn(moves)),
            1 => Self::Ours(Builder::new().bound(true).spawn(moves).expect("a kernel thread")),
            _ => Self::Ours(thread::spawn(moves)),
        }
    }

    fn interrupt(&self) {
        if let Self::Ours(thread) = self {
            thread.thread().interrupt();
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Ours(thread) => thread.is_finished(),
            Self::Foreign(thread) => thread.is_finished(),
        }
    }

    fn join(self) -> Side {
        match self {
            Self::Ours(thread) => thread.join().expect("a mover does not panic"),
            Self::Foreign(thread) => thread.join().expect("a mover does not panic"),
        }
    }
}

/// Has four threads talk over one connection, one in each direction at each end.
pub(crate) fn talk<W: Wire>(seed: u64, seen: &Seen) {
    let mut dice = Dice::new(seed);
    let fault = match dice.below(6) {
        0 | 1 => Fault::None,
        2 => Fault::ShutdownWrite,
        3 => Fault::ShutdownBoth,
        4 if W::RESETS => Fault::Reset,
        _ => Fault::Close,
    };
    // In the first two cases every byte that is written must be read. In the others the writers never end by
    // themselves.
    let exact = matches!(fault, Fault::None | Fault::ShutdownWrite);
    let mut totals = [0; 2].map(|_: i32| if exact { dice.below(300_000) } else { u64::MAX });
    if fault == Fault::ShutdownWrite {
        totals[0] = u64::MAX;
    }
    let stops = matches!(fault, Fault::Reset | Fault::Close);
    let stop = Arc::new(AtomicBool::new(false));
    let never = Arc::new(AtomicBool::new(false));
    let (a, b) = W::pair();
    let (a, b) = (Arc::new(a), Arc::new(b));
    let mut mover = |wire: &Arc<W>, is_a: bool, writer: Option<u64>| {
        let wire = Arc::clone(wire);
        let stoppable = is_a && stops;
        let stop = Arc::clone(if stoppable { &stop } else { &never });
        // The flow is that of the end that writes it.
        let flow = seed << 1 | u64::from(is_a == writer.is_some());
        let habits =
            Habits { flow, dice: Dice::new(dice.below(u64::MAX)), slow: dice.below(3) == 0, stoppable };
        Mover::start(&mut dice, stoppable, move || match writer {
            Some(total) => {
                let side = writes(&*wire, total, &stop, habits);
                if side.end == End::Done && !stoppable {
                    wire.shutdown(Shutdown::Write);
                }
                side
            }
            None => reads(&*wire, &stop, habits),
        })
    };
    let movers = [
        mover(&a, true, Some(totals[0])),
        mover(&b, false, None),
        mover(&b, false, Some(totals[1])),
        mover(&a, true, None),
    ];
    let mut a = Some(a);
    drop(b);
    let moment = dice.below(30);
    let mut turns = 0;
    while !movers.iter().all(Mover::has_ended) {
        turns += 1;
        movers[dice.below(4) as usize].interrupt();
        if turns >= moment
            && let Some(end) = a.take()
        {
            match fault {
                Fault::None => {}
                Fault::ShutdownWrite => end.shutdown(Shutdown::Write),
                Fault::ShutdownBoth => {
                    // A may have read all, and yet not said that it has room. Without a reset, the kernel
                    // tells B only after a minute.
                    if W::RESETS {
                        end.reset_at_drop();
                    }
                    end.shutdown(Shutdown::Both);
                }
                Fault::Reset | Fault::Close => {
                    stop.store(true, SeqCst);
                    while !(movers[0].has_ended() && movers[3].has_ended()) {
                        movers[0].interrupt();
                        movers[3].interrupt();
                        thread::yield_now();
                    }
                    if fault == Fault::Reset {
                        end.reset_at_drop();
                    }
                }
            }
            // A's threads drop the last references, if they still run.
            drop(end);
        }
        thread::sleep(Duration::from_micros(dice.below(300)));
    }
    let [a_writes, b_reads, b_writes, a_reads] = movers.map(Mover::join);
    let talk = Talk { seed, fault, exact, a_writes, b_reads, b_writes, a_reads };
    talk.check(seen);
}

/// How a connection went.
#[derive(Debug)]
struct Talk {
    #[expect(dead_code, reason = "it is shown if a check fails")]
    seed: u64,
    fault: Fault,
    exact: bool,
    a_writes: Side,
    b_reads: Side,
    b_writes: Side,
    a_reads: Side,
}

const RESET: End = End::Failed(ErrorKind::ConnectionReset);
const BROKEN: End = End::Failed(ErrorKind::BrokenPipe);

impl Talk {
    fn check(&self, seen: &Seen) {
        let Self { fault, exact, a_writes, b_reads, b_writes, a_reads, .. } = self;
        let flows = [(a_writes, b_reads), (b_writes, a_reads)];
        for (written, read) in flows {
            assert!(read.bytes <= written.bytes, "read what was not written: {self:#?}");
            assert!(matches!(written.end, End::Done | RESET | BROKEN), "{self:#?}");
            assert!(matches!(read.end, End::Done | End::Eof | RESET), "{self:#?}");
            if *exact {
                assert_eq!(read.end, End::Eof, "{self:#?}");
                assert_eq!(read.bytes, written.bytes, "bytes are lost: {self:#?}");
                seen.whole.fetch_add(1, SeqCst);
            } else if read.bytes < written.bytes {
                seen.cut.fetch_add(1, SeqCst);
            }
            seen.bytes.fetch_add(read.bytes, SeqCst);
        }
        let ends = [a_writes.end, b_reads.end, b_writes.end, a_reads.end];
        let any = |of: End| ends.contains(&of);
        match fault {
            Fault::None => assert!(a_writes.end == End::Done && b_writes.end == End::Done, "{self:#?}"),
            Fault::ShutdownWrite => {
                assert_eq!((a_writes.end, b_writes.end), (BROKEN, End::Done), "{self:#?}");
            }
            Fault::ShutdownBoth => {
                // What B writes after that resets a TCP connection (RFC 1122), also for A.
                assert!(matches!(a_writes.end, RESET | BROKEN), "{self:#?}");
                assert!(matches!(a_reads.end, RESET | End::Eof), "{self:#?}");
                assert!(matches!(b_writes.end, RESET | BROKEN), "{self:#?}");
            }
            // The error is told once, to the reader or to the writer.
            Fault::Reset => assert!(b_reads.end == RESET || b_writes.end == RESET, "{self:#?}"),
            Fault::Close => assert!(b_writes.end != End::Done, "{self:#?}"),
        }
        seen.connections.fetch_add(1, SeqCst);
        seen.resets.fetch_add(any(RESET).into(), SeqCst);
        seen.broken.fetch_add(any(BROKEN).into(), SeqCst);
    }
}
