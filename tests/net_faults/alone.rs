//! What a process of its own plays: one without free descriptors, one that forks, one that is a peer and is
//! killed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, IoSlice, PipeReader, Read, Write};
use std::net::{Shutdown, TcpStream as StdStream};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge::io::Async;
use selvedge::net::{TcpListener, TcpStream};
use selvedge::os::unix::net::{UnixListener, UnixStream};
use selvedge::{Mxn, OneToOne, Runtime, Wait, thread};

use crate::on_each;
use crate::wire::{Dice, Habits, Wire, writes};

/// Lets the process have only some more descriptors than now.
fn limit_descriptors() {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// Takes all descriptors that are free.
fn take_all() -> Vec<OwnedFd> {
    let file = File::open("/dev/null").expect("one is free");
    let mut taken = Vec::new();
    loop {
        match file.try_clone() {
            Ok(copy) => taken.push(copy.into()),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                taken.push(file.into());
                return taken;
            }
        }
    }
}

const ACCEPTS: u32 = 5;
/// How long `accept` waits at least before it says that descriptors are short.
const BACKS_OFF: Duration = Duration::from_millis(10);

/// Without a free descriptor `accept` fails, but not at once, so a loop around it does not spin. Other
/// threads run on. When a descriptor is free, the connection is there.
pub(crate) fn short_of_descriptors() {
    limit_descriptors();
    on_each!(|rt| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let connect = || TcpStream::connect(address).unwrap();
            refuses(connect, |wait| match wait {
                Some(wait) => listener.accept_with(wait).map(|(stream, _)| stream),
                None => listener.accept().map(|(stream, _)| stream),
            });
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            let listener = UnixListener::bind(&path).unwrap();
            refuses(
                || UnixStream::connect(&path).unwrap(),
                |wait| match wait {
                    Some(wait) => listener.accept_with(wait).map(|(stream, _)| stream),
                    None => listener.accept().map(|(stream, _)| stream),
                },
            );
        });
    });
}

fn refuses<W: Wire>(connect: impl FnOnce() -> W, accept: impl Fn(Option<Wait>) -> std::io::Result<W>) {
    // The first wait of a runtime makes its set, which takes descriptors, too.
    let (one, other) = UnixStream::pair().unwrap();
    one.read_with(&mut [0], Wait::timeout(Duration::from_millis(1))).unwrap_err();
    drop((one, other));
    let client = connect();
    let (over, turns) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|s| {
        let walker = s.spawn(|| {
            while !over.load(SeqCst) {
                turns.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut taken = take_all();
        let (start, before) = (Instant::now(), turns.load(SeqCst));
        let mut accepts = 0;
        // The other thread runs meanwhile, or this does not end.
        while accepts < ACCEPTS || turns.load(SeqCst) == before {
            let wait = (accepts % 2 == 1).then_some(Wait::timeout(Duration::from_secs(100)).interruptible());
            let refused = accept(wait).map(drop).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EMFILE), "{refused}");
            accepts += 1;
        }
        assert!(start.elapsed() >= BACKS_OFF * accepts, "{:?}", start.elapsed());
        // The connection was not lost.
        taken.pop();
        let server = accept(None).unwrap();
        drop(taken);
        assert_eq!(client.write(b"x").unwrap(), 1);
        assert_eq!(server.read(&mut [0; 2]).unwrap(), 1);
        over.store(true, SeqCst);
        walker.join().unwrap();
    });
}

/// If there is no descriptor for a set, a green thread says so, or waits without one. It does not hang.
pub(crate) fn no_set() {
    limit_descriptors();
    on_each!(|rt| {
        let (one, other) = UnixStream::pair().unwrap();
        let taken = take_all();
        let other = Arc::new(other);
        let theirs = Arc::clone(&other);
        let reader =
            rt.spawn(move || theirs.read_with(&mut [0; 2], Wait::timeout(Duration::from_millis(20))));
        let refused = reader.join().unwrap().unwrap_err();
        let said = refused.raw_os_error() == Some(libc::EMFILE) || refused.kind() == ErrorKind::TimedOut;
        assert!(said, "{refused:?}");
        // Nor is there one for the bell of a wait that may be interrupted.
        for interrupts in [false, true] {
            let theirs = Arc::clone(&other);
            let wait = Wait::timeout(Duration::from_secs(100)).interruptible();
            let reader = rt.spawn(move || theirs.read_with(&mut [0; 2], wait));
            // It waits by then, as a rule.
            std::thread::sleep(Duration::from_millis(20));
            if interrupts {
                reader.thread().interrupt();
                assert_eq!(reader.join().unwrap().unwrap_err().kind(), ErrorKind::Interrupted);
            } else {
                one.write_with(b"x", Wait::forever()).unwrap();
                assert_eq!(reader.join().unwrap().unwrap(), 1);
            }
        }
        drop(taken);
        let reader = rt.spawn(move || other.read_with(&mut [0; 2], Wait::forever()));
        one.write_with(b"x", Wait::forever()).unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 1);
    });
}

/// A program that has not asked for `SIGPIPE` to be ignored, as those of std have.
pub(crate) fn broken_pipe() {
    // SAFETY: the usual action, which ends the process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let writes = || {
        let (one, other) = UnixStream::pair().unwrap();
        drop(other);
        let parts = [IoSlice::new(b"x"), IoSlice::new(b"y")];
        for written in [one.write(b"x"), one.write_vectored(&parts), one.write_with(b"x", Wait::forever())] {
            assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
    };
    writes();
    on_each!(|rt| {
        rt.run(writes);
    });
}

const READERS: usize = 6;

/// The ends of a connection. The process that drops them decides when: a reader has the second, too.
struct Ends(TcpStream, *mut TcpStream);

// SAFETY: the pointer is that of a box, which `leave` frees once in each process.
unsafe impl Sync for Ends {}
// SAFETY: the pointer is that of a box, which any thread may free.
unsafe impl Send for Ends {}

impl Ends {
    fn new() -> Self {
        let (one, other) = TcpStream::pair();
        Self(one, Box::into_raw(Box::new(other)))
    }

    fn reader(&self) -> &'static TcpStream {
        // SAFETY: it lives until `leave`.
        unsafe { &*self.1 }
    }

    /// # Safety
    /// Called once in each process, when no thread there uses the reader's end any more.
    unsafe fn leave(&self) {
        // SAFETY: made by `new`, and the caller's promise.
        drop(unsafe { Box::from_raw(self.1) });
    }
}

/// Forks while threads wait for descriptors. The child closes its copies of the sockets, and uses sockets of
/// its own. The parent's threads are still told.
pub(crate) fn forks() {
    on_each!(|rt| {
        let ends: Arc<[Ends]> = (0..READERS).map(|_| Ends::new()).collect();
        let readers: Vec<_> = ends
            .iter()
            .map(|end| {
                let mut end = end.reader();
                rt.spawn(move || {
                    let mut all = Vec::new();
                    end.read_to_end(&mut all).unwrap();
                    all
                })
            })
            .collect();
        ends.iter().for_each(|end| assert_eq!(end.0.write(b"before ").unwrap(), 7));
        let waits = |info: &thread::ThreadInfo| {
            matches!(info.state(), thread::ThreadState::Waiting { reason: thread::WaitReason::Readable, .. })
        };
        let all_wait = || rt.threads().iter().filter(|info| waits(info)).count() == READERS;
        while !all_wait() {
            std::thread::yield_now();
        }
        for from_a_thread_of_the_runtime in [false, true] {
            let ends = Arc::clone(&ends);
            let forks = move || fork(|| in_the_child(&ends));
            if from_a_thread_of_the_runtime {
                rt.spawn(forks).join().unwrap();
            } else {
                forks();
            }
        }
        ends.iter().for_each(|end| assert_eq!(end.0.write(b"after").unwrap(), 5));
        ends.iter().for_each(|end| end.0.shutdown(Shutdown::Write).unwrap());
        for reader in readers {
            assert_eq!(reader.join().unwrap(), b"before after");
        }
        // SAFETY: the readers have ended.
        ends.iter().for_each(|end| unsafe { end.leave() });
    });
}

/// Plays `child` in a child of this process, and waits for it.
fn fork(child: impl FnOnce()) {
    // SAFETY: what the child does is what is under test; it leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: no preconditions. Ends a child that hangs.
        unsafe { libc::alarm(100) };
        let played = catch_unwind(AssertUnwindSafe(child));
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(i32::from(played.is_err())) };
    }
    expect_success(pid);
}

/// Waits for a child of this process.
fn expect_success(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(thread::blocking(|| unsafe { libc::waitpid(pid, &raw mut status, 0) }), pid);
    assert_eq!(status, 0, "the child has said why");
}

fn in_the_child(ends: &[Ends]) {
    // SAFETY: the readers are threads of the parent.
    ends.iter().for_each(|end| unsafe { end.leave() });
    let talks = || {
        let (one, other) = TcpStream::pair();
        assert_eq!(one.write_with(b"child", Wait::forever()).unwrap(), 5);
        let mut heard = [0; 5];
        assert_eq!(other.read_with(&mut heard, Wait::forever()).unwrap(), 5);
        assert!(other.read_with(&mut heard, Wait::timeout(Duration::from_millis(1))).is_err());
        assert_eq!(&heard, b"child");
    };
    // On the thread that has forked, and on a runtime of the child's own.
    talks();
    OneToOne::new().unwrap().run(talks);
    if let Ok(rt) = Mxn::builder().concurrency(1).build() {
        rt.run(talks);
    }
}

/// Forks in a call that would block. In the child, the caller is a kernel thread, and waits as one.
pub(crate) fn forks_in_a_call() {
    on_each!(|rt| {
        rt.run(|| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let reader = Async::new(reader).unwrap();
            // From now on, the runtime's set reports it.
            reader.readable_with(Wait::timeout(Duration::from_millis(1))).unwrap_err();
            writer.write_all(b"xx").unwrap();
            reader.readable().unwrap();
            let (mut pid, mut writer) = (None, Some(writer));
            let call = |mut reader: &PipeReader| {
                if pid.is_some() {
                    // One byte is for the other process.
                    return reader.read(&mut [0]);
                }
                assert_eq!(reader.read(&mut [0; 2]).unwrap(), 2);
                // SAFETY: what the child does is what is under test; it leaves by `_exit`.
                pid = Some(unsafe { libc::fork() });
                if pid == Some(0) {
                    // SAFETY: no preconditions. Ends a child that hangs.
                    unsafe { libc::alarm(100) };
                } else if let Some(mut writer) = writer.take() {
                    std::thread::spawn(move || {
                        // Both wait by then, as a rule.
                        std::thread::sleep(Duration::from_millis(20));
                        writer.write_all(b"xx").unwrap();
                    });
                }
                Err(ErrorKind::WouldBlock.into())
            };
            let read = catch_unwind(AssertUnwindSafe(|| reader.when_readable(call)));
            let pid = pid.expect("it has forked");
            if pid == 0 {
                // SAFETY: leaves without running anything of the parent's.
                unsafe { libc::_exit(i32::from(!matches!(read, Ok(Ok(1))))) };
            }
            assert_eq!(read.unwrap().unwrap(), 1);
            expect_success(pid);
        });
    });
}

/// A program that is started has none of the sockets, nor the set.
pub(crate) fn starts_programs() {
    on_each!(|rt| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let pairs: Vec<_> = (0..3).map(|_| TcpStream::pair()).collect();
            let unix = UnixStream::pair().unwrap();
            let copy = unix.0.try_clone().unwrap();
            // The set is there.
            copy.read_with(&mut [0], Wait::timeout(Duration::from_millis(1))).unwrap_err();
            assert!(listener.accept_with(Wait::timeout(Duration::from_millis(1))).is_err());
            let open = |of: &str| -> BTreeSet<String> {
                let list = fs::read_dir(of).unwrap().flatten();
                let leads_to = list.filter_map(|entry| fs::read_link(entry.path()).ok());
                leads_to.map(|path| path.to_string_lossy().into_owned()).collect()
            };
            let ours = open("/proc/self/fd");
            assert!(ours.iter().filter(|path| path.starts_with("socket:")).count() >= 9, "{ours:?}");
            let mut program = Command::new("sleep").arg("1000").spawn().unwrap();
            let theirs = open(&format!("/proc/{}/fd", program.id()));
            program.kill().unwrap();
            thread::blocking(|| program.wait()).unwrap();
            let inherited = theirs.iter().any(|path| path.starts_with("socket:") || path.contains("event"));
            assert!(!theirs.is_empty() && !inherited, "{theirs:?}");
            drop((pairs, unix));
        });
    });
}

/// The number of connections with a peer that is killed.
pub(crate) const PEERS: usize = 4;
/// Where the peer connects to.
pub(crate) const PORT: &str = "SELVEDGE_TEST_PORT";

/// A peer that writes and reads without an end, by means of std, until it is killed.
pub(crate) fn peer() {
    let port: u16 = std::env::var(PORT).expect("the port").parse().expect("a number");
    let threads: Vec<_> = (0..PEERS as u64)
        .map(|n| {
            let stream = Arc::new(TcpStream::from_std(StdStream::connect(("127.0.0.1", port)).unwrap()));
            // Says which flow it is.
            assert_eq!(Wire::write(&*stream, &[n as u8]).unwrap(), 1);
            let reader = Arc::clone(&stream);
            std::thread::spawn(move || {
                let mut buffer = [0; 5_000];
                while Wire::read(&*reader, &mut buffer).is_ok_and(|read| read != 0) {
                    std::thread::yield_now();
                }
            });
            std::thread::spawn(move || {
                let habits = Habits { flow: n, dice: Dice::new(n), slow: true, stoppable: false };
                writes(&*stream, u64::MAX, &AtomicBool::new(false), habits)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // The parent kills it before.
    std::io::stdout().write_all(b"the parent has gone\n").unwrap();
}
