//! The waits of the running thread that an interrupt ends, and its look at the flag.

use std::time::{Duration, Instant};

#[cfg(doc)]
use super::Thread;
use crate::park::interrupt::{self, Interrupted};
use crate::park::permit;
use crate::park::reason::WaitReason;
use crate::time;

/// Waits for the running thread's permit like [`park`](super::park()), unless the thread is interrupted.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let me = thread::current();
/// me.unpark();
/// assert!(thread::park_interruptible().is_ok());
/// me.interrupt();
/// assert!(thread::park_interruptible().is_err());
/// ```
///
/// # Errors
///
/// [`Interrupted`]; a permit was not consumed.
///
/// # Blocks
///
/// The running thread, until the permit is there or it is [interrupted](Thread::interrupt).
pub fn park_interruptible() -> Result<(), Interrupted> {
    permit::park_interruptible(|| None, WaitReason::Park).map(|_| ())
}

/// Like [`park_interruptible`], for at most `timeout`.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::Duration;
///
/// assert!(thread::park_interruptible_timeout(Duration::from_millis(1)).is_ok());
/// ```
///
/// # Errors
///
/// [`Interrupted`]; a permit was not consumed.
///
/// # Blocks
///
/// The running thread, until the permit is there, the time is over, or it is [interrupted](Thread::interrupt).
pub fn park_interruptible_timeout(timeout: Duration) -> Result<(), Interrupted> {
    permit::park_interruptible(|| time::after(timeout), WaitReason::Park).map(|_| ())
}

/// Like [`park_interruptible`], until `deadline` at the latest.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::{Duration, Instant};
///
/// assert!(thread::park_interruptible_until(Instant::now() + Duration::from_millis(1)).is_ok());
/// ```
///
/// # Errors
///
/// [`Interrupted`]; a permit was not consumed.
///
/// # Blocks
///
/// The running thread, until the permit is there, the time has come, or it is [interrupted](Thread::interrupt).
pub fn park_interruptible_until(deadline: Instant) -> Result<(), Interrupted> {
    permit::park_interruptible(|| Some(deadline), WaitReason::Park).map(|_| ())
}

/// Sleeps for at least `duration`, unless the running thread is interrupted.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::Duration;
///
/// assert!(thread::sleep_interruptible(Duration::from_millis(1)).is_ok());
/// ```
///
/// # Errors
///
/// [`Interrupted`], if that came first; also for a `duration` of zero.
///
/// # Blocks
///
/// The running thread, until the time is over or it is [interrupted](Thread::interrupt).
pub fn sleep_interruptible(duration: Duration) -> Result<(), Interrupted> {
    permit::sleep_interruptible(time::after(duration))
}

/// Sleeps until `deadline`, unless the running thread is interrupted; returns at once if it has passed.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::{Duration, Instant};
///
/// assert!(thread::sleep_interruptible_until(Instant::now() + Duration::from_millis(1)).is_ok());
/// ```
///
/// # Errors
///
/// [`Interrupted`], if that came first; also for a `deadline` that has passed.
///
/// # Blocks
///
/// The running thread, until the time has come or it is [interrupted](Thread::interrupt).
pub fn sleep_interruptible_until(deadline: Instant) -> Result<(), Interrupted> {
    permit::sleep_interruptible(Some(deadline))
}

/// Whether the running thread has been [interrupted](Thread::interrupt) and no wait has reported that yet; clears it, as the wait
/// would. For threads that compute, and look from time to time.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// assert!(!thread::interrupted());
/// thread::current().interrupt();
/// assert!(thread::interrupted());
/// assert!(!thread::interrupted());
/// ```
#[must_use = "the interrupt is taken: nothing else will report it"]
pub fn interrupted() -> bool {
    interrupt::take()
}
