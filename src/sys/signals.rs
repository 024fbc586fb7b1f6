//! Asynchronous signals, noted by a handler for a thread that waits.
//!
//! **Problem.** A handler runs in the middle of anything, and may do next to nothing. What a program wants to
//! do about a signal, it must do elsewhere, so the handler must tell a thread.
//!
//! **Rejected.**
//!
//! - `sigwaitinfo` and signalfd. The signal must be blocked in every thread of the process, and every child
//!   inherits that. Only a program that starts no thread before can ensure it.
//! - A pipe to itself. It takes two descriptors, and a signal that finds it full is lost.
//! - A semaphore of the C library. It is one more thing that must be documented to be fit for handlers. A
//!   futex is simply a system call.
//!
//! **Protocol.** The handler sets the signal's bit, then counts the bell up, then wakes the bell's futex. The
//! one waiting thread reads the bell, then takes all bits. If there are none, it waits for as long as the
//! bell says what it read. So either it finds the bit, or the bell has changed by the time it would sleep.
//! Several signals of one number that come before it looks are one.
//!
//! **Earlier handlers.** Our handler calls the earlier handler afterwards, with the mask that the kernel
//! would have set for it. (If this crate is part of a library that was loaded at run time, it calls none: a
//! handler may not touch its thread-locals then.) When no `Signals` value wants the signal, the earlier
//! handler is put back, unless another was installed since. In that case ours stays, and passes on. It may
//! then be called by a handler that it calls itself, and does not go round in circles. So a signal may stop
//! the very handler that it would be passed on to (SA_NODEFER). Such a signal is noted, and no more.
//!
//! A handler that asked for one signal (SA_RESETHAND) gets one. It comes from our handler, or, if none has
//! come, from the kernel, after the handler has been put back. After that one, the earlier action is the
//! default, as for the kernel, and the default is put back.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::fork::Generation;
use super::kthread::SignalMask;
use super::{futex, preempt, sigaction};

pub use libc::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};

/// Signals have numbers from 1 to this.
pub(crate) const LARGEST: c_int = 64;

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(u64);

impl Set {
    /// Makes the set of `signal`, a number that exists, alone.
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

    /// Takes out the signal of the least number.
    pub(crate) fn take_first(&mut self) -> Option<c_int> {
        if self.is_empty() {
            return None;
        }
        let first = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(first as c_int + 1)
    }

    /// Returns its signals, the least first.
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

    /// Takes the signal of the least number.
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

/// How many have come. It is the futex of the waiting thread.
static BELL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The signals that the handler is passing on. No destructor and a constant start: a handler uses it.
    static PASSING: Cell<u64> = const { Cell::new(0) };
}

/// A handler may use [`PASSING`].
static MAY_PASS: AtomicBool = AtomicBool::new(true);

/// The earlier action, by signal; null: this crate's handler is not installed. Leaked, because a handler may
/// be looking.
static BEFORE: [AtomicPtr<Before>; LARGEST as usize + 1] =
    [const { AtomicPtr::new(ptr::null_mut()) }; LARGEST as usize + 1];

/// What the kernel would do with a signal without this crate.
struct Before {
    action: libc::sigaction,
    /// For a handler that asked for one signal: it has had it, or the kernel gives it again.
    spent: AtomicBool,
}

impl Before {
    /// Returns the earlier action for `signal`.
    fn of(signal: c_int) -> Option<&'static Self> {
        // Acquire: pairs with `note`.
        let before = BEFORE[signal as usize].load(Ordering::Acquire);
        // SAFETY: null, or leaked by `note`.
        unsafe { before.as_ref() }
    }

    /// Returns `true` if it stands for `action`, and nothing of it can be spent. A program may come back to
    /// the same action any number of times.
    fn is_of(&self, action: &libc::sigaction) -> bool {
        action.sa_flags & libc::SA_RESETHAND == 0 && sigaction::are_same(&self.action, action)
    }

    /// Takes the action for the next signal. Called once for each signal, by the code that then does the
    /// action.
    fn take_turn(&self) -> libc::sigaction {
        let mut action = self.action;
        let once = action.sa_flags & libc::SA_RESETHAND != 0;
        // Relaxed: only one thread must get `false`.
        if once && self.spent.swap(true, Ordering::Relaxed) {
            action.sa_sigaction = libc::SIG_DFL;
        }
        action
    }
}

/// Signals that cannot be had as values. The kernel does not give them, or a thread raises them itself and
/// cannot go on, or they are the C library's own.
const REFUSED: [(c_int, &str); 9] = [
    (libc::SIGKILL, "the kernel lets no program handle it"),
    (libc::SIGSTOP, "the kernel lets no program handle it"),
    (libc::SIGSEGV, FAULT),
    (libc::SIGBUS, FAULT),
    (libc::SIGFPE, FAULT),
    (libc::SIGILL, FAULT),
    (libc::SIGTRAP, FAULT),
    (libc::SIGSYS, FAULT),
    (libc::SIGABRT, FAULT),
];
const FAULT: &str = "a thread raises it itself, and could not go on";

/// Checks that `signal` can be handled.
///
/// # Errors
/// `InvalidInput`, with the reason.
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

/// Makes this crate note `signal`, which [`check`] allows. One caller at a time, and not twice without
/// [`forget`].
///
/// # Errors
/// What the system says.
pub(crate) fn note(signal: c_int) -> io::Result<()> {
    let current = sigaction::of(signal)?;
    if sigaction::comes_to(signal, on_signal) {
        // `forget` has left it there, because of a handler that is gone.
        return Ok(());
    }
    if !Before::of(signal).is_some_and(|before| before.is_of(&current)) {
        // Before the handler can run and look for it. An older one stays where it is: a handler may be
        // looking.
        let before = Box::new(Before { action: current, spent: AtomicBool::new(false) });
        BEFORE[signal as usize].store(Box::into_raw(before), Ordering::Release);
    }
    // On the alternate stack if there is one, because a green thread's stack is small. Interrupted system
    // calls go on.
    let mut ours = sigaction::calling(on_signal, libc::SA_RESTART);
    if !sigaction::is_handler(&current) {
        // One frame at a time. Std's alternate stacks have 8 KiB, and a frame with AVX-512 takes more than 3.
        ours.sa_mask = SignalMask::asynchronous().set();
    } else {
        // As the earlier handler has asked, because it runs inside this one.
        (ours.sa_mask, ours.sa_flags) =
            (current.sa_mask, ours.sa_flags | current.sa_flags & libc::SA_NODEFER);
    }
    // What becomes of children that stop or end is as before.
    ours.sa_flags |= current.sa_flags & (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT);
    if signal == SIGCHLD && current.sa_sigaction == libc::SIG_IGN {
        ours.sa_flags |= libc::SA_NOCLDWAIT;
    }
    // Relaxed: the installation of the handler comes after it.
    MAY_PASS.store(preempt::own_thread_locals_are_static(), Ordering::Relaxed);
    // SAFETY: the handler is async-signal-safe.
    unsafe { sigaction::set(signal, &ours) }
}

/// Puts the earlier action back. One caller at a time.
pub(crate) fn forget(signal: c_int) {
    if sigaction::comes_to(signal, on_signal)
        && let Some(before) = Before::of(signal)
    {
        // From here on the kernel gives a handler its one signal, and this crate does not.
        // SAFETY: the action is from the kernel, or the default instead of the handler.
        let _ = unsafe { sigaction::set(signal, &before.take_turn()) };
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    preempt::keep_errno(|| {
        // SeqCst, both, and in the waiting thread: here the bit, then the bell; there the bell, then the
        // bits.
        ARRIVED.add(Set::of(signal));
        BELL.fetch_add(1, Ordering::SeqCst);
        futex::wake(&raw const BELL, 1);
    });
    let bit = Set::of(signal).0;
    // Relaxed: as in `note`. In a library that was loaded later, a handler must not use the thread-local.
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

/// Calls the earlier handler.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = Before::of(signal) else { return };
    let before = before.take_turn();
    // Otherwise, the purpose of this is that the signal does not end the process, or is not ignored.
    if sigaction::is_handler(&before) {
        // SAFETY: it is a handler, and came from the kernel.
        unsafe { sigaction::call(&before, signal, info, context) };
    }
}

/// Makes each forked child begin without the signals that have come to its parent.
///
/// # Errors
/// As [`Generation::watched`].
pub(crate) fn watch_forks() -> io::Result<()> {
    Generation::watched(|| _ = ARRIVED.take_all()).map(drop)
}

/// Waits for signals that have been noted, and takes them. Called by one thread.
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

    /// A program may make values for a signal again and again.
    #[test]
    fn an_action_that_comes_back_takes_no_more_memory() {
        let name = "::an_action_that_comes_back_takes_no_more_memory";
        super::super::child_tests::isolated(&[module_path!(), name].concat(), || {
            let known = || BEFORE[SIGUSR1 as usize].load(Ordering::Relaxed);
            let again = || {
                note(SIGUSR1).unwrap();
                forget(SIGUSR1);
                known()
            };
            // Some C libraries mark an action that they have set.
            again();
            let first = again();
            assert_eq!(again(), first);
            let mut other = sigaction::calling(on_nothing, 0);
            // SAFETY: the handler does nothing.
            unsafe { sigaction::set(SIGUSR1, &other) }.unwrap();
            again();
            let second = again();
            assert_ne!(second, first);
            assert_eq!(again(), second);
            other.sa_flags |= libc::SA_NODEFER;
            // SAFETY: the handler does nothing.
            unsafe { sigaction::set(SIGUSR1, &other) }.unwrap();
            assert_ne!(again(), second);
        });
    }

    extern "C" fn on_nothing(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {}
}
