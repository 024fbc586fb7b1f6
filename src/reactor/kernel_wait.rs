//! How a thread that owns a kernel thread waits for one descriptor: in the kernel, by `poll`.
//!
//! A call that simply blocks needs none of this. It is for waits with a deadline or an interrupt, and for
//! descriptors that must not block. An interrupt rings a bell, which is a pipe: there is nothing else that a
//! thread in `poll` would notice. If there are no descriptors for a pipe, the thread looks for interrupts
//! from time to time.

use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use super::source::Direction;
use crate::park::backend::Sleep;
use crate::park::interrupt;
use crate::park::kernel_park;
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sys::{poll, socket};
use crate::time;

/// How long a thread without a bell sleeps before it looks for interrupts again.
const DEAF: Duration = Duration::from_millis(10);

/// Blocks the kernel thread of `me` until `descriptor` is ready, or the time of `wait` is over. May return
/// before.
///
/// # Errors
///
/// As `poll`, or [`WaitError::Interrupted`].
#[cold]
pub(crate) fn until_ready(
    me: ThreadRef,
    descriptor: BorrowedFd<'_>,
    direction: Direction,
    wait: Wait,
) -> io::Result<()> {
    let once = |bell: Option<i32>, most: Option<Duration>| {
        let timeout = wait.deadline.map(|deadline| deadline - time::now());
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Ok(());
        }
        let timeout = timeout.into_iter().chain(most).min();
        let poll = || poll::until_ready(descriptor.as_raw_fd(), direction == Direction::Write, bell, timeout);
        if me.is_kernel() {
            kernel_park::in_call(me, direction.reason(), timeout.is_some(), poll)?;
        } else {
            poll()?;
        }
        Ok(())
    };
    if !wait.interruptible {
        return once(None, None);
    }
    let (reader, writer) = match io::pipe() {
        Err(error) if socket::is_shortage(&error) => {
            if interrupt::take() {
                return Err(WaitError::Interrupted.into());
            }
            return once(None, Some(DEAF));
        }
        ends => ends?,
    };
    let sleep = InPoll { word: AtomicU32::new(ASLEEP), bell: writer };
    let result = interrupt::block_in(&me, &sleep, || once(Some(reader.as_raw_fd()), None));
    if !sleep.is_asleep() {
        return Err(WaitError::Interrupted.reported().into());
    }
    result.unwrap_or(Ok(()))
}

const ASLEEP: u32 = 0;
const INTERRUPTED: u32 = 1;

/// A sleep that only an interrupt ends from outside, and by the bell instead of a wake-up.
struct InPoll {
    word: AtomicU32,
    bell: PipeWriter,
}

impl Sleep for InPoll {
    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn is_asleep(&self) -> bool {
        // Acquire: pairs with `interrupt`.
        self.word.load(Ordering::Acquire) == ASLEEP
    }

    fn commit_kernel(&self) -> Option<u32> {
        None
    }

    fn expire(&self) -> bool {
        false
    }

    /// Rings the bell. Returns `false`: there is no wake-up to follow.
    fn interrupt(&self) -> bool {
        // Release: pairs with `is_asleep`.
        self.word.store(INTERRUPTED, Ordering::Release);
        // The pipe is empty but for earlier rings, so this does not block.
        let _ = (&self.bell).write(&[0]);
        false
    }
}
