//! Asynchronous signals as values, for a thread that waits for them. Cargo feature `signal`; Linux.
//!
//! A signal handler may do next to nothing. In a program of green threads, it runs on whichever kernel thread
//! the kernel picks, in the middle of the thread there. [`Signals`] turns the signals of a process into
//! values. Any thread, green, bound, 1:1 or foreign, waits for them as it waits for anything else, and only
//! that thread blocks.
//!
//! **Masks.** None has to be set, none is changed, and it does not matter which threads exist already. A
//! handler notes the signal on the kernel thread where it arrives. One kernel thread of this crate's own,
//! started with the first [`Signals`], hands it on. As usual, a signal that *every* kernel thread of the
//! process blocks arrives nowhere. The mask of a green thread is that of its LWP of the moment. A thread that
//! is to block signals for itself must be bound.
//!
//! **Coalescing.** Several signals of one number that come before a `Signals` value is asked may be one, as
//! those of the kernel are. None is lost for good. Count nothing by them.
//!
//! **Other handlers** that exist already are still called, after the signal has been noted, with the signals
//! blocked that they have asked for. One that asked for a single signal (SA_RESETHAND) gets a single one. The
//! default action (for most signals: the end of the process) does not happen while a `Signals` value for that
//! signal exists. The earlier handler or action comes back with the last of them, if no other handler was
//! installed since. What it says about children stays in force (SA_NOCLDSTOP, SA_NOCLDWAIT, SIGCHLD ignored).
//!
//! **System calls** that a signal interrupts are restarted, if the kernel can do that.
//!
//! **In a forked child** that does not exec, the values that were made before go on as the child's own. Its
//! signals reach them, and those of its parent do not. The kernel thread that hands signals on is started
//! anew when the child first uses one.
//!
//! # Examples
//!
//! ```
//! use selvedge::signal::{SIGINT, SIGTERM, Signals};
//! use selvedge::{Mxn, Runtime};
//!
//! let rt = Mxn::new()?;
//! let signals = Signals::new([SIGINT, SIGTERM])?;
//! let watcher = rt.spawn(move || {
//!     // Only this green thread waits.
//!     for signal in &signals {
//!         println!("signal {signal}: shutting down");
//!         return signal;
//!     }
//!     unreachable!("it goes on forever");
//! });
//! # unsafe extern "C" { fn raise(signal: i32) -> i32; }
//! # unsafe { raise(SIGTERM) };
//! assert_eq!(watcher.join().unwrap(), SIGTERM);
//! # std::io::Result::Ok(())
//! ```

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::park::wait::{Wait, WaitError};
use crate::shim::FOR_MODELS;
use crate::sync::{Mutex, MutexGuard, Semaphore};
use crate::sys::fork;
use crate::sys::kthread::{KernelThread, Options};
use crate::sys::per_process::PerProcess;
use crate::sys::signals::{self, Arrived, Set};

pub use crate::sys::signals::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// The stack of the thread that hands signals on. That thread runs only this crate's code.
const STACK: usize = 128 << 10;

/// Some signals, to be waited for; see the [module](self). Several values may be for the same signal: each
/// gets it.
pub struct Signals {
    receiver: Arc<Receiver>,
}

/// What a [`Signals`] value shares with the thread that hands signals on.
struct Receiver {
    wanted: Set,
    ear: PerProcess<Ear>,
}

/// What a [`Signals`] value has heard in one process.
struct Ear {
    arrived: Arrived,
    /// At least as many permits as signals have arrived since it was made.
    bell: Semaphore,
}

impl Receiver {
    fn ear(&self) -> &Ear {
        self.ear.get(|_| Ear { arrived: Arrived::new(), bell: Semaphore::new(0) })
    }

    fn hand(&self, signals: Set) {
        let ear = self.ear();
        ear.arrived.add(signals);
        // If there are too many already, there are enough.
        let _ = ear.bell.try_add_permits(signals.signals().count());
    }
}

/// All receivers of signals, and whether the thread that hands them on runs.
#[derive(Default)]
struct Desk {
    /// Never changed, but replaced by one store. So a fork finds one or the other.
    receivers: Arc<Vec<Arc<Receiver>>>,
    open: bool,
}

fn desk() -> MutexGuard<'static, Desk> {
    static DESK: PerProcess<Mutex<Desk>> = PerProcess::new();
    let make = |parents: Option<&Mutex<Desk>>| {
        // SAFETY: the threads that could change it are not in this process.
        let receivers = parents.map(|desk| Arc::clone(unsafe { &(*desk.data_ptr()).receivers }));
        Mutex::new(Desk { receivers: receivers.unwrap_or_default(), open: false })
    };
    DESK.get(make).lock()
}

impl Desk {
    fn wants(&self, signal: i32) -> bool {
        self.receivers.iter().any(|receiver| !receiver.wanted.common(Set::of(signal)).is_empty())
    }

    fn replace(&mut self, receivers: Vec<Arc<Receiver>>) {
        let before = mem::replace(&mut self.receivers, Arc::new(receivers));
        drop(before);
    }

    /// Starts the thread that hands signals on, once. It never ends.
    fn open(&mut self) -> io::Result<()> {
        if !self.open {
            let options = Options { name: "selvedge-sig", stack_size: Some(STACK), block_signals: true };
            drop(KernelThread::start(&options, || {
                loop {
                    hand_on(signals::wait());
                }
            })?);
            self.open = true;
        }
        Ok(())
    }
}

fn hand_on(arrived: Set) {
    for receiver in desk().receivers.iter() {
        receiver.hand(receiver.wanted.common(arrived));
    }
}

impl Signals {
    /// Makes these signals values here, from the call on.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a number that is no signal, and for signals that cannot be waited for:
    ///
    /// - SIGKILL and SIGSTOP
    /// - faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT)
    /// - the signal that preempts green threads (SIGURG, or another that a runtime was built with)
    /// - those of the C library
    ///
    /// An error of the system if the thread that hands signals on cannot be started. `Unsupported` in a
    /// program that is compiled with `--cfg loom`, for
    /// [models](crate::sync#model-checking-a-program-that-uses-them). No handler is left behind after an
    /// error.
    pub fn new(wanted: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        if FOR_MODELS {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "signals do not work with --cfg loom"));
        }
        let mut set = Set::default();
        for signal in wanted {
            signals::check(signal)?;
            set = set.with(Set::of(signal));
        }
        signals::watch_forks()?;
        let mut desk = desk();
        desk.open()?;
        for signal in set.signals() {
            if !desk.wants(signal)
                && let Err(error) = signals::note(signal)
            {
                set.signals()
                    .filter(|&before| before < signal && !desk.wants(before))
                    .for_each(signals::forget);
                return Err(error);
            }
        }
        let receiver = Arc::new(Receiver { wanted: set, ear: PerProcess::new() });
        let all = desk.receivers.iter().chain([&receiver]).map(Arc::clone).collect();
        desk.replace(all);
        Ok(Self { receiver })
    }

    /// Returns what has arrived, and what to wait with for more. In a forked child, starts the thread that
    /// hands on signals there, if it does not run yet.
    ///
    /// # Panics
    /// If that thread cannot be started.
    fn ear(&self) -> &Ear {
        if fork::is_child() {
            desk().open().expect("the thread that hands signals on, in a forked child");
        }
        self.receiver.ear()
    }

    /// Waits for the next signal, and returns its number. Of several that have come, returns the least.
    ///
    /// # Blocks
    ///
    /// The running thread.
    #[must_use = "the signal is taken"]
    pub fn wait(&self) -> i32 {
        self.wait_with(Wait::forever()).expect("a wait without a deadline ends with a signal")
    }

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::signal::{SIGUSR2, Signals};
    /// use std::time::Duration;
    ///
    /// let signals = Signals::new([SIGUSR2])?;
    /// assert_eq!(signals.wait_timeout(Duration::from_millis(1)), None);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// The running thread.
    #[must_use = "the signal is taken"]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<i32> {
        self.wait_with(Wait::timeout(timeout)).ok()
    }

    /// Waits as [`wait`](Self::wait) does, and ends as `wait` says.
    ///
    /// # Errors
    ///
    /// [`WaitError`], and no signal was taken.
    ///
    /// # Blocks
    ///
    /// The running thread.
    pub fn wait_with(&self, wait: Wait) -> Result<i32, WaitError> {
        let Ear { arrived, bell } = self.ear();
        wait.begin()?;
        loop {
            if let Some(signal) = arrived.take_first() {
                return Ok(signal);
            }
            match bell.acquire_with(wait) {
                Ok(rung) => rung.forget(),
                Err(WaitError::TimedOut) => return arrived.take_first().ok_or(WaitError::TimedOut),
                Err(WaitError::Interrupted) => return Err(WaitError::Interrupted),
            }
        }
    }

    /// Returns a signal that has come already, if there is one.
    #[must_use = "the signal is taken"]
    pub fn try_recv(&self) -> Option<i32> {
        self.ear().arrived.take_first()
    }

    /// Returns all signals that have come already, without waiting.
    pub fn pending(&self) -> Pending<'_> {
        Pending(self)
    }

    /// Returns all signals, as they come, without end.
    pub fn forever(&self) -> Forever<'_> {
        Forever(self)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut desk = desk();
        let others = desk.receivers.iter().filter(|receiver| !Arc::ptr_eq(receiver, &self.receiver));
        let others = others.map(Arc::clone).collect();
        desk.replace(others);
        for signal in self.receiver.wanted.signals() {
            if !desk.wants(signal) {
                signals::forget(signal);
            }
        }
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signals").field(&self.receiver.wanted.signals().collect::<Vec<_>>()).finish()
    }
}

impl<'a> IntoIterator for &'a Signals {
    type Item = i32;
    type IntoIter = Forever<'a>;

    fn into_iter(self) -> Forever<'a> {
        self.forever()
    }
}

/// The iterator that [`Signals::pending`] returns.
#[derive(Debug)]
pub struct Pending<'a>(&'a Signals);

impl Iterator for Pending<'_> {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        self.0.try_recv()
    }
}

/// The iterator that [`Signals::forever`] returns.
#[derive(Debug)]
pub struct Forever<'a>(&'a Signals);

impl Iterator for Forever<'_> {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        Some(self.0.wait())
    }
}
