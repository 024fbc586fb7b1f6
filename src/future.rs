//! Futures in threads: how a thread waits for a future.
//!
//! A thread of any kind runs a future by [`block_on`]. A green thread that does so blocks only itself. The
//! future may belong to an executor that runs beside, as `tokio`'s, and may be woken from any thread.
//!
//! The other way round, an async task awaits a thread by its [`JoinHandle`](crate::thread::JoinHandle).
//!
//! # Examples
//!
//! A green thread waits for what another thread sends to it by way of a future:
//!
//! ```
//! use selvedge::{Mxn, Runtime, future};
//!
//! let (send, receive) = tokio::sync::oneshot::channel();
//! let rt = Mxn::new()?;
//! let waits = rt.spawn(|| future::block_on(receive).unwrap());
//! send.send(7).unwrap();
//! assert_eq!(waits.join().unwrap(), 7);
//! # std::io::Result::Ok(())
//! ```

mod wake_word;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use self::wake_word::WakeWord;
use crate::park::current::current;
use crate::park::interrupt;
use crate::park::wait::{Wait, WaitError};
use crate::time;

/// Runs a future to its end, and returns its value. While the future is pending, the calling thread waits.
///
/// It may be called by threads of any kind, and by a future that is itself run in this way. A thread in it
/// keeps its permit: [`unpark`](crate::thread::Thread::unpark) neither ends the wait nor is used up. If the
/// future wakes itself while it is polled, other threads run before the next poll.
///
/// It allocates once. Wakers of the call may outlive it; then they do nothing.
///
/// # Examples
///
/// ```
/// use selvedge::{future, thread};
///
/// assert_eq!(future::block_on(async { 6 * 7 }), 42);
/// // The end of a thread is a future, too.
/// assert_eq!(future::block_on(thread::spawn(|| 7)).unwrap(), 7);
/// ```
///
/// With tokio's runtime beside:
///
/// ```
/// use selvedge::{Mxn, Runtime, future};
/// use std::time::Duration;
///
/// let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let rt = Mxn::new()?;
/// rt.run(|| {
///     let _in_tokio = tokio.enter();
///     future::block_on(tokio::time::sleep(Duration::from_millis(1)));
///     let task = tokio.spawn(async { 7 });
///     assert_eq!(future::block_on(task).unwrap(), 7);
/// });
/// # std::io::Result::Ok(())
/// ```
///
/// # Panics
///
/// If the future panics. In a forked child without another thread, if the future is pending.
///
/// # Blocks
///
/// The thread, while the future is pending.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    match drive(pin!(future.into_future()), Wait::forever()) {
        Ok(value) => value,
        Err(_) => unreachable!("the wait has no end of its own"),
    }
}

/// Runs a future as [`block_on`] does, or for as long as `wait` says.
///
/// If the wait ends first, the future is dropped. To keep it, pass a pinned reference to it.
///
/// # Examples
///
/// ```
/// use selvedge::{Wait, WaitError, future, thread};
/// use std::future::pending;
/// use std::pin::pin;
/// use std::time::Duration;
///
/// let mut never = pin!(pending::<()>());
/// let wait = Wait::timeout(Duration::from_millis(1));
/// assert_eq!(future::block_on_with(never.as_mut(), wait), Err(WaitError::TimedOut));
/// thread::current().interrupt();
/// let wait = Wait::forever().interruptible();
/// assert_eq!(future::block_on_with(never.as_mut(), wait), Err(WaitError::Interrupted));
/// ```
///
/// # Errors
///
/// The [`WaitError`], if the wait has ended first.
///
/// # Panics
///
/// As [`block_on`].
///
/// # Blocks
///
/// The thread, while the future is pending.
pub fn block_on_with<F: IntoFuture>(future: F, wait: Wait) -> Result<F::Output, WaitError> {
    wait.run(|wait| drive(pin!(future.into_future()), wait))
}

/// Polls `future` until it is ready, and waits in between as `wait` says. If an interrupt ends the wait, the
/// thread's flag is still set.
fn drive<F: Future>(mut future: Pin<&mut F>, wait: Wait) -> Result<F::Output, WaitError> {
    let word = Arc::new(WakeWord::new());
    let waker = Waker::from(Arc::clone(&word));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Ok(value);
        }
        if !word.take() {
            word.wait(wait)?;
            let woken = word.take();
            debug_assert!(woken, "the wait is over, and has not ended by itself");
            continue;
        }
        // It was woken while it was polled. If it always is, these end it.
        if time::has_passed(wait.deadline) {
            return Err(WaitError::TimedOut);
        }
        if wait.interruptible && interrupt::take() {
            return Err(WaitError::Interrupted);
        }
        let me = current();
        me.backend().yield_now(&me);
    }
}
