//! Many threads that block in the kernel at once, by system calls that say nothing to their library.
//!
//! *Reads*: threads sleep in `read(2)` on one pipe. One thread more makes progress for a while, a step each
//! millisecond, and only then writes to it. The while begins when all have come to their `read`, however long
//! that takes. A library that lets sleepers hold up others never gets there. *Naps*: threads sleep in
//! `nanosleep(2)`, side by side or one after the other.
//!
//! Both calls are made by number, so that they block also where the feature `interpose` answers functions of
//! the C library for green threads.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::latency::Latencies;
use crate::support::library::{Attributes, Library, Lock};

/// What a step waits for.
const STEP: Duration = Duration::from_millis(1);
/// A thread that has not come to its `read` by then is held up by the others, and not by a busy machine.
const LATE: Duration = Duration::from_secs(10);

/// How the reads went.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// How long each step of the one that goes on took, of a millisecond's sleep.
    pub(crate) steps: Latencies,
    /// How many steps a kernel thread made beside it.
    pub(crate) kernel_steps: u64,
    /// How many of the threads were in their `read` when the first byte was written.
    pub(crate) blocked: u32,
    /// How many have read a number that no other has, once each.
    pub(crate) released: u32,
}

/// Blocks so many threads, for so long, on the calling thread's runtime.
///
/// # Errors
/// There is no pipe, or a thread cannot be started. All threads started before have ended.
pub(crate) fn reads<L: Library>(readers: u32, time: Duration) -> io::Result<Reads> {
    let pipe = Arc::new(Pipe::new()?);
    let (reading, read): (Arc<AtomicU32>, _) = (Arc::default(), Arc::new(L::Mutex::new(Vec::new())));
    let mut threads = Vec::new();
    for number in 0..readers {
        let body = {
            let (pipe, reading, read) = (Arc::clone(&pipe), Arc::clone(&reading), Arc::clone(&read));
            move || {
                // Relaxed: it is only reported.
                reading.fetch_add(1, Ordering::Relaxed);
                let number = pipe.read();
                reading.fetch_sub(1, Ordering::Relaxed);
                read.lock().push(number);
            }
        };
        match L::spawn(Attributes::default(), body) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                (0..number).for_each(|number| pipe.write(number));
                threads.into_iter().for_each(L::join);
                return Err(error);
            }
        }
    }
    let (begun, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let kernel = {
        let (begun, over) = (Arc::clone(&begun), Arc::clone(&over));
        std::thread::spawn(move || {
            while !begun.load(Ordering::Relaxed) && !over.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
            }
            step_until(std::thread::sleep, || over.load(Ordering::Relaxed)).count()
        })
    };
    let found = Arc::new(L::Mutex::new(Reads::default()));
    let walker = {
        let (pipe, over, reading, found) =
            (Arc::clone(&pipe), Arc::clone(&over), Arc::clone(&reading), Arc::clone(&found));
        move || {
            let late = Instant::now() + LATE;
            while reading.load(Ordering::Relaxed) < readers && Instant::now() < late {
                L::sleep(STEP);
            }
            begun.store(true, Ordering::Relaxed);
            let end = Instant::now() + time;
            let steps = step_until(L::sleep, || Instant::now() >= end);
            over.store(true, Ordering::Relaxed);
            let blocked = reading.load(Ordering::Relaxed);
            (0..readers).for_each(|number| pipe.write(number));
            *found.lock() = Reads { steps, blocked, ..Reads::default() };
        }
    };
    let walker = L::spawn(Attributes::default(), walker);
    if walker.is_err() {
        over.store(true, Ordering::Relaxed);
        (0..readers).for_each(|number| pipe.write(number));
    }
    threads.into_iter().for_each(L::join);
    let kernel_steps = kernel.join().expect("it only sleeps");
    L::join(walker?);
    let mut numbers = std::mem::take(&mut *read.lock());
    numbers.sort_unstable();
    numbers.dedup();
    let found = std::mem::take(&mut *found.lock());
    let released = numbers.iter().filter(|&&number| number < readers).count() as u32;
    Ok(Reads { kernel_steps, released, ..found })
}

/// Sleeps, again and again, for a millisecond: once, at least.
fn step_until(sleep: fn(Duration), over: impl Fn() -> bool) -> Latencies {
    let mut steps = Latencies::default();
    loop {
        let step = Instant::now();
        sleep(STEP);
        steps.record(step.elapsed());
        if over() {
            return steps;
        }
    }
}

/// Lets so many threads sleep in the kernel for so long each. Gives the time until the last has ended.
///
/// # Errors
/// A thread cannot be started. All threads started before have ended.
pub(crate) fn naps<L: Library>(sleepers: u32, time: Duration) -> io::Result<Duration> {
    let start = Instant::now();
    let spawn = |_| L::spawn(Attributes::default(), move || nanosleep(time));
    let (threads, mut refused): (Vec<_>, Vec<_>) = (0..sleepers).map(spawn).partition(Result::is_ok);
    threads.into_iter().flatten().for_each(L::join);
    refused.pop().map_or(Ok(start.elapsed()), |refusal| refusal.map(|_| Duration::ZERO))
}

/// Sleeps by the system call, to the end.
fn nanosleep(time: Duration) {
    let mut left = libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: both are alive, and the kernel reads the first before it writes the second.
    while unsafe { libc::syscall(libc::SYS_nanosleep, &raw const left, &raw mut left) } != 0 {
        assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
    }
}

/// A pipe, read and written a number at a time by the system calls themselves.
#[derive(Debug)]
struct Pipe {
    from: OwnedFd,
    to: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: new, and ours alone.
        let [from, to] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Ok(Self { from, to })
    }

    /// Waits for a number in the kernel.
    fn read(&self) -> u32 {
        let mut number = [0; 4];
        // SAFETY: room for so many bytes.
        let length = unsafe {
            libc::syscall(libc::SYS_read, self.from.as_raw_fd(), number.as_mut_ptr(), number.len())
        };
        // Numbers are written whole and read whole. It is restarted where a signal came.
        assert_eq!(length, 4, "{}", io::Error::last_os_error());
        u32::from_ne_bytes(number)
    }

    fn write(&self, number: u32) {
        let number = number.to_ne_bytes();
        // SAFETY: so many bytes to read.
        let length = unsafe { libc::write(self.to.as_raw_fd(), number.as_ptr().cast(), number.len()) };
        assert_eq!(length, 4, "{}", io::Error::last_os_error());
    }
}
