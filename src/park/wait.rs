//! How a wait may end without what it waits for: by a deadline, by an interrupt, by either, or not at all.
//!
//! A wait that nothing can ever end is refused: one of a forked child without another thread. The last other
//! thread may have ended the wait, and be gone, since the caller looked. So a look at what is waited for
//! follows the look for threads.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use super::backend::{Backend, Sleep};
use super::current::current;
use super::interrupt::{self, Interrupted};
use super::reason::WaitReason;
use super::thread::ThreadRef;
use crate::shim::fork;
use crate::time::{self, Moment};

/// How long a wait may last, and whether an interrupt ends it. The argument of `lock_with`, `recv_with`,
/// `join_with` and all other methods that end in `_with`.
///
/// If a thread has been [interrupted](crate::thread::Thread::interrupt) before an interruptible wait, the
/// wait reports that at once, even if it need not wait. If the awaited thing and the interrupt come at the
/// same moment, the wait succeeds, and the thread's next interruptible wait reports the interrupt.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Semaphore;
/// use selvedge::{Wait, WaitError, thread};
/// use std::time::Duration;
///
/// let semaphore = Semaphore::new(0);
/// let wait = Wait::timeout(Duration::from_millis(1)).interruptible();
/// assert_eq!(semaphore.acquire_with(wait).unwrap_err(), WaitError::TimedOut);
/// thread::current().interrupt();
/// assert_eq!(semaphore.acquire_with(wait).unwrap_err(), WaitError::Interrupted);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct Wait {
    pub(crate) deadline: Option<Moment>,
    pub(crate) interruptible: bool,
    /// The clock is to be read before the wait: the deadline may have passed already. `false`: it was ahead a
    /// moment ago. A hint, since the same value may be used for several waits.
    pub(crate) may_be_over: bool,
    /// The deadline is half a second ahead, or more. A hint: see `mxn/timer/alarm.rs`.
    pub(crate) is_far: bool,
}

impl Wait {
    /// Creates a wait without a deadline.
    pub const fn forever() -> Self {
        Self { deadline: None, interruptible: false, may_be_over: false, is_far: false }
    }

    /// Creates a wait that ends `timeout` from now. If the clock cannot count so far, it has no deadline.
    #[inline]
    pub fn timeout(timeout: Duration) -> Self {
        Self { may_be_over: timeout.is_zero(), ..Self::by(time::after(timeout)) }
    }

    /// Creates a wait that ends at `deadline`.
    pub fn until(deadline: Instant) -> Self {
        Self::by(Some(Moment::of(deadline)))
    }

    /// Creates a wait that ends at the deadline, if there is one.
    pub(crate) const fn by(deadline: Option<Moment>) -> Self {
        Self { deadline, interruptible: false, may_be_over: deadline.is_some(), is_far: false }
    }

    /// Lets an interrupt end the wait, too.
    pub const fn interruptible(mut self) -> Self {
        self.interruptible = true;
        self
    }

    /// Runs `f`, which waits as this says. If the wait is interruptible, takes the thread's interrupt: before
    /// `f`, which then does not run, or after `f` has failed for that reason.
    #[inline]
    pub(crate) fn run<T>(self, f: impl FnOnce(Self) -> Result<T, WaitError>) -> Result<T, WaitError> {
        self.begin()?;
        f(self).map_err(WaitError::reported)
    }

    /// Returns `true` if neither a deadline nor an interrupt ends the wait.
    #[inline]
    pub(crate) fn is_endless(self) -> bool {
        self.deadline.is_none() && !self.interruptible
    }

    /// Takes the interrupt that came before an interruptible wait.
    #[inline]
    pub(crate) fn begin(self) -> Result<(), WaitError> {
        if self.interruptible && interrupt::take() { Err(WaitError::Interrupted) } else { Ok(()) }
    }

    /// [`begin`](Self::begin) for a thread that has waited: also returns an error if the deadline has passed.
    pub(crate) fn go_on(self) -> Result<(), WaitError> {
        self.begin()?;
        if time::has_passed(self.deadline) { Err(WaitError::TimedOut) } else { Ok(()) }
    }

    /// Panics if nothing can ever end this wait, which the running thread is about to begin.
    #[inline]
    pub(crate) fn check_end(self) {
        self.check_end_unless(|| false);
    }

    /// Does the same, unless `is_over`, which only looks.
    #[inline]
    pub(crate) fn check_end_unless(self, is_over: impl FnOnce() -> bool) {
        if self.is_refused() && !is_over() {
            Self::refuse();
        }
    }

    /// Returns `true` if nothing could end this wait of the running thread, once that has looked again. If
    /// what it waits for is not there then, it calls [`refuse`](Self::refuse).
    #[inline]
    pub(crate) fn is_refused(self) -> bool {
        fork::is_child() && self.deadline.is_none() && nothing_ends_it(self.interruptible)
    }

    /// Panics before a wait that nothing can ever end.
    #[cold]
    pub(crate) fn refuse() -> ! {
        panic!(
            "this wait would never end: the process is a fork and has no other thread; those of its parent are not here"
        );
    }

    /// Blocks as [`Backend::block`] does, until the sleep is settled, the deadline passes, or an interrupt
    /// ends it.
    #[inline]
    pub(super) fn block(self, me: &ThreadRef, backend: &dyn Backend, sleep: &dyn Sleep, reason: WaitReason) {
        if self.may_be_over && is_over(me, self.deadline) && sleep.expire() {
            debug_assert!(!sleep.is_asleep(), "it has expired");
        } else if self.interruptible {
            interrupt::block(me, sleep, self.deadline, reason);
        } else {
            backend.block(me, sleep, self.deadline, reason);
        }
    }
}

/// Returns `true` if the deadline has passed and the thread is green. It would leave its LWP, and wait behind
/// all queued threads. A kernel thread asks the kernel.
#[cold]
fn is_over(me: &ThreadRef, deadline: Option<Moment>) -> bool {
    !me.is_kernel() && time::has_passed(deadline)
}

/// Returns `true` if a child has no other thread, and no interrupt for this one. It takes no more of a wait,
/// so that callers keep theirs in registers.
#[cold]
fn nothing_ends_it(interruptible: bool) -> bool {
    #[cfg(test)]
    meanwhile::happens();
    fork::is_alone() && !(interruptible && interrupt::is_pending(current()))
}

/// The error of a wait that has ended without what it waited for.
///
/// # Examples
///
/// ```
/// use selvedge::WaitError;
/// use std::io::{Error, ErrorKind};
///
/// assert_eq!(Error::from(WaitError::TimedOut).kind(), ErrorKind::TimedOut);
/// assert_eq!(Error::from(WaitError::Interrupted).kind(), ErrorKind::Interrupted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitError {
    /// The deadline came first.
    TimedOut,
    /// The thread was [interrupted](crate::thread::Thread::interrupt).
    Interrupted,
}

impl WaitError {
    /// Clears the thread's interrupt flag if this reports an interrupt.
    pub(crate) fn reported(self) -> Self {
        if self == Self::Interrupted {
            // It is not set if all threads of the runtime are interrupted.
            let _ = interrupt::take();
        }
        self
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the wait timed out"),
            Self::Interrupted => Interrupted.fmt(f),
        }
    }
}

impl Error for WaitError {}

impl From<Interrupted> for WaitError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<WaitError> for io::Error {
    fn from(error: WaitError) -> Self {
        let kind = match error {
            WaitError::TimedOut => io::ErrorKind::TimedOut,
            WaitError::Interrupted => io::ErrorKind::Interrupted,
        };
        Self::new(kind, error)
    }
}

/// Defines both forms of a wait with a time limit, at most for a `timeout` and at most until a `deadline`:
///
/// - the method without a limit, and how the summary ends
/// - more documentation, and attributes
/// - the two names, and what the methods have in common: generic parameters and bounds (each in brackets),
///   arguments, result
/// - the body. It gets the limit as a function, since only a thread that must wait reads the clock.
macro_rules! timed {
    (
        $of:ident $(: $end:literal)?
        $(#[$more:meta])*
        $vis:vis fn $for:ident, $until:ident $([$($generic:tt)*])? ($($argument:tt)*) -> $result:ty
        $(where [$($bound:tt)*])?
        { |$limit:ident| $body:expr }
    ) => {
        #[doc = concat!(
            "[`", stringify!($of), "`](Self::", stringify!($of), "), at most for `timeout`", $($end,)? "."
        )]
        ///
        $(#[$more])*
        ///
        /// # Blocks
        ///
        #[doc = concat!("As [`", stringify!($of), "`](Self::", stringify!($of), ").")]
        $vis fn $for $(<$($generic)*>)? ($($argument)*, timeout: std::time::Duration) -> $result
        $(where $($bound)*)?
        {
            let $limit = || $crate::park::wait::Wait::timeout(timeout);
            $body
        }

        #[doc = concat!(
            "[`", stringify!($of), "`](Self::", stringify!($of), "), at most until `deadline`", $($end,)? "."
        )]
        ///
        $(#[$more])*
        ///
        /// # Blocks
        ///
        #[doc = concat!("As [`", stringify!($of), "`](Self::", stringify!($of), ").")]
        $vis fn $until $(<$($generic)*>)? ($($argument)*, deadline: std::time::Instant) -> $result
        $(where $($bound)*)?
        {
            let $limit = || $crate::park::wait::Wait::until(deadline);
            $body
        }
    };
}

pub(crate) use timed;

/// What the last other thread of a child does before it ends.
#[cfg(test)]
pub(crate) mod meanwhile {
    use std::cell::Cell;

    thread_local! {
        static LAST: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    /// Has `act` done after the running thread's next look at what it is to wait for.
    pub(crate) fn do_once(act: impl FnOnce() + 'static) {
        LAST.set(Some(Box::new(act)));
    }

    pub(super) fn happens() {
        if let Some(act) = LAST.take() {
            act();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::park::core_pool;
    use crate::park::owner::OwnerHint;
    use crate::shim::atomic::{AtomicU32, Ordering};

    /// Counts the threads that it has put to sleep.
    struct Counting(AtomicU32);

    impl Backend for Counting {
        fn block(&self, _: &ThreadRef, _: &dyn Sleep, _: Option<Moment>, _: WaitReason) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn wake(&self, _: ThreadRef, _: *const AtomicU32) {
            unreachable!("no thread sleeps")
        }

        fn yield_now(&self, _: &ThreadRef) {
            unreachable!("no thread runs")
        }
    }

    /// A sleep that was granted, or was not. It counts the attempts to end it.
    struct Granted(bool, Cell<u32>);

    impl Sleep for Granted {
        fn word(&self) -> &AtomicU32 {
            unreachable!("no thread waits on it")
        }

        fn is_asleep(&self) -> bool {
            !self.0 && self.1.get() == 0
        }

        fn commit_kernel(&self) -> Option<u32> {
            unreachable!("no thread sleeps on it")
        }

        fn expire(&self) -> bool {
            self.1.set(self.1.get() + 1);
            !self.0
        }

        fn interrupt(&self) -> bool {
            unreachable!("no thread interrupts it")
        }
    }

    /// Waits on a thread with this hint. Returns how often the backend was called, and how often the sleep
    /// was to be ended.
    fn waits(hint: OwnerHint, granted: bool, wait: Wait) -> (u32, u32) {
        let thread = core_pool::take(1, None, None);
        let own = thread.owner_hint.get();
        thread.owner_hint.set(hint);
        let (backend, sleep) = (Counting(AtomicU32::new(0)), Granted(granted, Cell::new(0)));
        wait.block(&thread, &backend, &sleep, WaitReason::Sleep);
        thread.owner_hint.set(own);
        thread.release();
        (backend.0.load(Ordering::Relaxed), sleep.1.get())
    }

    #[test]
    fn a_green_thread_does_not_leave_its_lwp_if_the_deadline_has_passed() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let (green, kernel) = (OwnerHint::UNKNOWN, OwnerHint::OF_KERNEL_THREAD);
        for over in [Wait::until(now), Wait::timeout(Duration::ZERO)] {
            assert_eq!(waits(green, false, over), (0, 1));
            assert_eq!(waits(green, true, over), (1, 1), "it was granted before");
            assert_eq!(waits(kernel, false, over), (1, 0), "the kernel is asked");
        }
        for ahead in [Wait::forever(), Wait::timeout(hour), Wait::until(now + hour)] {
            assert_eq!(waits(green, false, ahead), (1, 0));
        }
    }

    #[test]
    fn a_deadline_that_was_ahead_is_left_to_the_timer() {
        let wait = Wait::timeout(Duration::from_nanos(1));
        while !time::has_passed(wait.deadline) {
            std::hint::spin_loop();
        }
        assert_eq!(waits(OwnerHint::UNKNOWN, false, wait), (1, 0), "the clock is not read again");
    }
}
