//! Asynchronous signals, noted by a handler for a thread that waits.
//!
//! **Problem.** A handler runs in the middle of anything, and may do next to nothing. What a program wants to do about a signal,
//! it must do elsewhere, so somebody has to be told.
//!
//! **Rejected.** `sigwaitinfo` and signalfd: the signal must be blocked in every thread of the process, which only a program
//! that starts no thread before can see to, and every child inherits it. A pipe to itself: two descriptors, and a signal that
//! finds it full is lost. A semaphore of the C library: one more thing that is documented to be fit for handlers, where a futex is
//! simply a system call.
//!
//! **Protocol.** The handler sets the signal's bit, then counts the bell up, then wakes the bell's futex. The one waiting thread
//! reads the bell, then takes all bits, and if there are none waits for as long as the bell says what it read. So either it finds the
//! bit, or the bell has changed by the time it would sleep. Several signals of one number that come before it looks are one.
//!
//! Whoever had a handler before is called by ours afterwards, with the mask that the kernel would have set for him (where this crate is part of a
//! library that was loaded at run time, nobody is: a handler may not touch its thread-locals). When nobody wants the signal any
//! more, what was there before is put back, unless somebody else has installed a handler since; then ours stays, and passes on. It may
//! then be called by a handler that it calls itself, and does not go round in circles; so a signal that stops the very handler that it
//! would be passed on to (SA_NODEFER) is noted, and no more.
//!
//! A handler that wanted one signal (SA_RESETHAND) gets one: from us, or, if none has come, from the kernel, after it has been put back.
//! Afterwards what was there before is the default, as the kernel has it, and that is what is put back.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::fork::Generation;
use super::{futex, preempt};

pub use libc::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Signals have numbers from 1 to this.
pub(crate) const LARGEST: c_int = 64;

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(u64);

impl Set {
    /// The set of `signal`, a number that exists, alone.
    pub(crate) fn of(signal: c_int) -> Self {
        debug_assert!((1..=LARGEST).contains(&signal));
        Self(1 << (signal - 1))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Takes the one of the least number out.
    pub(crate) fn take_first(&mut self) -> Option<c_int> {
        if self.is_empty() {
            return None;
        }
        let first = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(first as c_int + 1)
    }

    /// Its signals, the least first.
    pub(crate) fn signals(mut self) -> impl Iterator<Item = c_int> {
        std::iter::from_fn(move || self.take_first())
    }
}

/// Signals that have come and have not been taken yet: a [`Set`].
#[derive(Debug)]
pub(crate) struct Arrived(AtomicU64);

impl Arrived {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    // SeqCst, all: see `on_signal`.
    pub(crate) fn add(&self, signals: Set) {
        self.0.fetch_or(signals.0, Ordering::SeqCst);
    }

    fn take_all(&self) -> Set {
        Set(self.0.swap(0, Ordering::SeqCst))
    }

    /// Takes the one of the least number.
    pub(crate) fn take_first(&self) -> Option<c_int> {
        let mut seen = self.0.load(Ordering::SeqCst);
        loop {
            let mut rest = Set(seen);
            let first = rest.take_first()?;
            match self.0.compare_exchange_weak(seen, rest.0, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(first),
                Err(now) => seen = now,
            }
        }
    }
}

/// What the waiting thread has not seen.
static ARRIVED: Arrived = Arrived::new();

/// How many have come; the futex of the waiting thread.
static BELL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The signals that the handler is passing on. No destructor and a constant start: a handler uses it.
    static PASSING: Cell<u64> = const { Cell::new(0) };
}

/// Whether a handler may use [`PASSING`].
static MAY_PASS: AtomicBool = AtomicBool::new(true);

/// What was there before us, by signal; null: we are not there. Leaked: a handler may be looking.
static BEFORE: [AtomicPtr<Before>; LARGEST as usize + 1] =
    [const { AtomicPtr::new(ptr::null_mut()) }; LARGEST as usize + 1];

/// What the kernel would do with a signal, if we were not there.
struct Before {
    action: libc::sigaction,
    /// Of a handler that wants one signal: it has had it, or the kernel sees to it again.
    spent: AtomicBool,
}

impl Before {
    /// What was there before us with `signal`.
    fn of(signal: c_int) -> Option<&'static Self> {
        // Acquire: pairs with `note`.
        let before = BEFORE[signal as usize].load(Ordering::Acquire);
        // SAFETY: null, or leaked by `note`.
        unsafe { before.as_ref() }
    }

    /// Takes what it does with the next signal, for one who does that: to be asked once for each.
    fn take_turn(&self) -> libc::sigaction {
        let mut action = self.action;
        let once = action.sa_flags & libc::SA_RESETHAND != 0;
        // Relaxed: only who comes first matters.
        if once && self.spent.swap(true, Ordering::Relaxed) {
            action.sa_sigaction = libc::SIG_DFL;
        }
        action
    }
}

/// Signals that cannot be had as values: because the kernel does not give them, because a thread raises them itself and cannot go on,
/// or because they are the C library's own.
const REFUSED: [(c_int, &str); 9] = [
    (libc::SIGKILL, "the kernel lets nobody handle it"),
    (libc::SIGSTOP, "the kernel lets nobody handle it"),
    (libc::SIGSEGV, FAULT),
    (libc::SIGBUS, FAULT),
    (libc::SIGFPE, FAULT),
    (libc::SIGILL, FAULT),
    (libc::SIGTRAP, FAULT),
    (libc::SIGSYS, FAULT),
    (libc::SIGABRT, FAULT),
];
const FAULT: &str = "a thread raises it itself, and could not go on";

/// Whether `signal` can be handled.
///
/// # Errors
/// `InvalidInput`, and why not.
pub(crate) fn check(signal: c_int) -> io::Result<()> {
    let refused = REFUSED.iter().find(|(refused, _)| *refused == signal).map(|(_, why)| *why);
    let why = if preempt::is_used(signal) {
        Some("green threads are preempted by it")
    } else if !(1..=LARGEST).contains(&signal) {
        Some("there is no such signal")
    } else if (libc::SIGRTMIN() > signal && signal >= 32) || signal > libc::SIGRTMAX() {
        Some("it is the C library's own")
    } else {
        refused
    };
    match why {
        None => Ok(()),
        Some(why) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("signal {signal} cannot be waited for: {why}"),
        )),
    }
}

/// From now on `signal`, which [`check`] allows, is noted. By one caller at a time, and not twice without [`forget`].
///
/// # Errors
/// What the system says.
pub(crate) fn note(signal: c_int) -> io::Result<()> {
    let current = action_of(signal)?;
    if current.sa_sigaction == address() {
        // Left there by `forget`, because of a handler that has gone since.
        return Ok(());
    }
    // Before ours can run and look for it. An older one stays where it is: a handler may be looking.
    let before = Box::new(Before { action: current, spent: AtomicBool::new(false) });
    BEFORE[signal as usize].store(Box::into_raw(before), Ordering::Release);
    let mut ours = no_action();
    ours.sa_sigaction = address();
    // On the alternate stack where there is one: a green thread's is small. Interrupted system calls go on.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    if !matches!(current.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        // As he has asked, for he runs inside ours.
        (ours.sa_mask, ours.sa_flags) =
            (current.sa_mask, ours.sa_flags | current.sa_flags & libc::SA_NODEFER);
    }
    // Relaxed: the handler's installation comes after it.
    MAY_PASS.store(preempt::own_thread_locals_are_static(), Ordering::Relaxed);
    // SAFETY: the handler has the type that SA_SIGINFO asks for, and is async-signal-safe.
    done(unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) })
}

/// Puts back what was there before [`note`]. By one caller at a time.
pub(crate) fn forget(signal: c_int) {
    let ours_is_there = action_of(signal).is_ok_and(|now| now.sa_sigaction == address());
    if ours_is_there && let Some(before) = Before::of(signal) {
        // From here on the kernel gives a handler its one signal, and we do not.
        let action = before.take_turn();
        // SAFETY: what the kernel gave us, or the default instead of the handler.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

fn done(rc: c_int) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn no_action() -> libc::sigaction {
    // SAFETY: plain data, for which zero is valid.
    unsafe { mem::zeroed() }
}

fn action_of(signal: c_int) -> io::Result<libc::sigaction> {
    let mut now = no_action();
    // SAFETY: a query into a valid place.
    done(unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) })?;
    Ok(now)
}

type ThreeArguments = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Our handler, as `sigaction` has it.
fn address() -> libc::sighandler_t {
    let handler: ThreeArguments = on_signal;
    handler as libc::sighandler_t
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    keep_errno(|| {
        // SeqCst, both, and in the waiting thread: the bit, then the bell; it reads the bell, then the bits.
        ARRIVED.add(Set::of(signal));
        BELL.fetch_add(1, Ordering::SeqCst);
        futex::wake(&raw const BELL, 1);
    });
    let bit = Set::of(signal).0;
    // Relaxed: as in `note`. A thread-local that a handler must not use (in a library that was loaded later) is none.
    if !MAY_PASS.load(Ordering::Relaxed) {
        return;
    }
    let passing = PASSING.get();
    if passing & bit == 0 {
        PASSING.set(passing | bit);
        pass_on(signal, info, context);
        PASSING.set(passing);
    }
}

fn keep_errno(f: impl FnOnce()) {
    // SAFETY: the C library's, of the thread that was stopped.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    f();
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// Calls whoever had a handler before.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = Before::of(signal) else { return };
    let before = before.take_turn();
    match before.sa_sigaction {
        // That it does not end the process, or is not ignored, is what this is for.
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: somebody has given it to `sigaction` as a handler of three arguments.
            let handler: ThreeArguments = unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, of one argument.
            let handler: extern "C" fn(c_int) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// From now on a forked child begins without the signals that have come to its parent.
///
/// # Errors
/// As [`Generation::watched`].
pub(crate) fn watch_forks() -> io::Result<()> {
    Generation::watched(|| _ = ARRIVED.take_all()).map(drop)
}

/// Waits for signals that have been noted, and takes them. By one thread.
pub(crate) fn wait() -> Set {
    loop {
        let rung = BELL.load(Ordering::SeqCst);
        let arrived = ARRIVED.take_all();
        if !arrived.is_empty() {
            return arrived;
        }
        let _ = futex::wait(&BELL, rung, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_give_their_least_first() {
        let mut set = Set::of(SIGTERM).with(Set::of(SIGHUP)).with(Set::of(64));
        assert_eq!(set.signals().collect::<Vec<_>>(), [SIGHUP, SIGTERM, 64]);
        assert_eq!(set.common(Set::of(SIGTERM)), Set::of(SIGTERM));
        assert_eq!(
            [set.take_first(), set.take_first(), set.take_first(), set.take_first()],
            [Some(SIGHUP), Some(SIGTERM), Some(64), None]
        );
        assert!(set.is_empty());
    }

    #[test]
    fn what_cannot_be_waited_for_is_refused() {
        for signal in [0, -1, 65, 1000, 32, libc::SIGKILL, libc::SIGSEGV, libc::SIGURG, libc::SIGABRT] {
            let error = check(signal).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&signal.to_string()), "{error}");
        }
        for signal in [SIGINT, SIGTERM, SIGCHLD, libc::SIGRTMIN(), libc::SIGRTMAX()] {
            check(signal).unwrap();
        }
    }
}
