//! A descriptor that threads wait for: the system call first, and the wait only if the call would block.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::UnwindSafe;
use std::ptr;
use std::time::Duration;

use super::entries::Entry;
use super::kernel_wait;
use super::numbers;
use super::readiness::{Readiness, Seen};
use crate::park::backend::blocking;
use crate::park::current::current;
use crate::park::no_preempt::NoPreempt;
use crate::park::permit;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sys::{poll, socket};
use crate::time::{self, Moment};

/// What a thread waits to do with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) fn reason(self) -> WaitReason {
        match self {
            Self::Read => WaitReason::Readable,
            Self::Write => WaitReason::Writable,
        }
    }

    pub(super) fn of(self, entry: &Entry) -> &Readiness {
        match self {
            Self::Read => &entry.read,
            Self::Write => &entry.write,
        }
    }
}

/// What a call that did not block says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done<T> {
    pub(crate) value: T,
    /// The call took all that there was, so that the next one would block.
    pub(crate) all: bool,
}

/// What belongs to a descriptor from its first wait to its end. A descriptor may have several. It is closed
/// after its sources are dropped: the next descriptor of that number then begins with an entry of its own.
#[derive(Debug)]
pub(crate) struct Source {
    entry: AtomicPtr<Entry>,
    /// The number of the poller that this source has added the descriptor to; 0 for none. The last one, if
    /// there are several.
    watched_by: AtomicU32,
    /// It carries messages, although its type may be that of a stream. A call takes one, whatever follows.
    has_messages: bool,
}

impl Source {
    pub(crate) const fn new() -> Self {
        Self::of(false)
    }

    /// Creates that of a descriptor that may carry messages: then no call takes all.
    pub(crate) const fn of(has_messages: bool) -> Self {
        Self { entry: AtomicPtr::new(ptr::null_mut()), watched_by: AtomicU32::new(0), has_messages }
    }

    /// Returns what [`of`](Self::of) was told.
    pub(crate) fn has_messages(&self) -> bool {
        self.has_messages
    }

    #[inline]
    fn entry(&self) -> Option<&'static Entry> {
        // Acquire: pairs with `enter`.
        // SAFETY: null, or joined by this source, and type-stable.
        unsafe { self.entry.load(Ordering::Acquire).as_ref() }
    }

    /// Finds the entry, after a call in this direction that would have blocked. Returns `false` if there is
    /// none.
    #[cold]
    fn enter(&self, descriptor: BorrowedFd<'_>, direction: Direction) -> bool {
        let entry = numbers::entry(descriptor.as_raw_fd());
        entry.is_some_and(|entry| {
            self.join(entry, direction);
            true
        })
    }

    /// Joins the entry of the descriptor's number.
    fn join(&self, entry: &'static Entry, direction: Direction) {
        // What happens from the call on is reported. So this comes before other threads can find the entry,
        // and have a set report to it.
        let readiness = direction.of(entry);
        entry.join(|| readiness.would_block(readiness.look()));
        let new = ptr::from_ref(entry).cast_mut();
        // Release: pairs with `entry`. Relaxed on failure: nothing is read.
        let (done, other) = (Ordering::Release, Ordering::Relaxed);
        if self.entry.compare_exchange(ptr::null_mut(), new, done, other).is_err() {
            // Another thread has joined it for this source.
            entry.leave();
        }
    }

    /// Makes system calls until one does not say that it would block, and waits in between as `wait` says.
    /// `attempt` is a call that does not block the kernel thread. If its argument is `true`, the descriptor
    /// has ended, so that none would. `wait` is called at most once, if the thread must wait. If its time is
    /// over, another call decides.
    ///
    /// # Blocks
    ///
    /// A green thread: only the thread. But it blocks its LWP if the descriptor cannot be polled, or there is
    /// no memory or no descriptor for that. It does so in a region that says so (`thread::blocking`).
    ///
    /// # Errors
    ///
    /// Those of `attempt`, and the wait's.
    pub(crate) fn call<T>(
        &self,
        descriptor: BorrowedFd<'_>,
        direction: Direction,
        wait: impl FnOnce() -> Wait,
        mut attempt: impl FnMut(bool) -> io::Result<Done<T>>,
    ) -> io::Result<T> {
        let mut me = current();
        let mut first = Some(wait);
        let (mut wait, mut is_over) = (None, false);
        let mut vain = VainTurns::default();
        let mut entry = self.entry();
        loop {
            // The look comes first: a loss of the set is reported to all words (`poller.rs`).
            let seen = entry.map(|entry| direction.of(entry).look());
            let watched = entry.filter(|entry| self.is_watched(me, descriptor, entry));
            let seen = seen.filter(|_| watched.is_some());
            if is_over || seen.is_none_or(|seen| seen.is_ready()) {
                let mut result = attempt(false);
                // Without a set, or if it was not looked at in time, nothing has told of the end.
                let may_have_ended = is_over || seen.map_or(wait.is_some(), Seen::is_closed);
                // The kernel is asked: what events have told may be of an earlier descriptor of that number.
                if may_have_ended
                    && would_block(&result)
                    && poll::has_ended(descriptor, direction == Direction::Write)
                {
                    result = attempt(true);
                }
                let readiness = watched.map(|entry| direction.of(entry)).zip(seen);
                match result {
                    Ok(done) => {
                        if done.all
                            && !self.has_messages
                            && let Some((readiness, seen)) = readiness
                        {
                            readiness.is_used_up(seen);
                        }
                        return Ok(done.value);
                    }
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    Err(_) if is_over => return Err(WaitError::TimedOut.into()),
                    Err(_) => _ = readiness.map(|(readiness, seen)| readiness.would_block(seen)),
                }
            }
            let caller = mem::replace(&mut me, current());
            if me != caller {
                // The call has forked. In the child, this is a kernel thread, and its runtime looks at no set.
                continue;
            }
            let wait = *wait.get_or_insert_with(|| first.take().expect("it is called once")());
            // What came in time may not have been seen: a thread that does not leave its LWP waits without
            // time, or one that computed has had the LWP or the CPU.
            match watched {
                Some(entry) => match direction.of(entry).wait(direction.reason(), wait) {
                    Err(WaitError::TimedOut) => is_over = true,
                    ended => ended?,
                },
                None if !me.is_kernel() && entry.is_none() && self.enter(descriptor, direction) => {
                    entry = self.entry();
                }
                None => {
                    vain.nap_after_many(wait)?;
                    blocking(me, || kernel_wait::until_ready(me, descriptor, direction, wait))?;
                    is_over = time::has_passed(wait.deadline);
                }
            }
        }
    }

    /// Does what [`call`](Self::call) does, on a descriptor whose mode is not to block. If the argument of
    /// `attempt` is `true`, the descriptor has ended. Without a `wait`, waits for as long as it takes.
    pub(crate) fn call_by_mode<T>(
        &self,
        descriptor: BorrowedFd<'_>,
        direction: Direction,
        wait: Option<Wait>,
        mut attempt: impl FnMut(bool) -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(wait) = wait {
            wait.begin()?;
        }
        let wait = wait.unwrap_or(Wait::forever());
        let attempt = |has_ended| loop {
            let result = attempt(has_ended);
            if !would_block(&result) || !pauses(descriptor, direction, wait)? {
                return Ok(Done { value: result?, all: false });
            }
        };
        self.call(descriptor, direction, || wait, attempt)
    }

    /// Has the runtime of `me` watch the descriptor. Returns `false` if it cannot.
    #[inline]
    fn is_watched(&self, me: ThreadRef, descriptor: BorrowedFd<'_>, entry: &Entry) -> bool {
        // The set may be made in this call, and other threads wait for that.
        let _no_preempt = NoPreempt::hold();
        me.backend().watch(descriptor.as_raw_fd(), entry.token(), &self.watched_by).unwrap_or(false)
    }
}

/// How long a thread sleeps before it looks again, if neither events nor the kernel tell when to.
const NAP: Duration = Duration::from_millis(1);

/// If the kernel has said this often that a descriptor is ready, and the call would block all the same, it is
/// ready for something else. An example is an error that is not read, which remains.
pub(crate) const TURNS: u32 = 16;

/// Counts a thread's turns of a wait and a call that would block, as far as each follows closely on the last.
/// Where other threads are faster now and then, there are waits in between.
#[derive(Default)]
pub(crate) struct VainTurns {
    count: u32,
    last: Option<Moment>,
}

impl VainTurns {
    /// Notes a turn. After [`TURNS`], each one begins with a nap, within `wait`.
    ///
    /// # Errors
    ///
    /// If the nap is interrupted.
    pub(crate) fn nap_after_many(&mut self, wait: Wait) -> Result<(), WaitError> {
        let is_close = self.last.is_some_and(|last| time::now() - last < NAP);
        self.count = if is_close { TURNS.min(self.count + 1) } else { 0 };
        if self.count == TURNS {
            match nap(wait) {
                Err(WaitError::TimedOut) => {}
                over => over?,
            }
        }
        self.last = Some(time::now());
        Ok(())
    }
}

/// Sleeps for a moment, within `wait`, if a call on `descriptor` would block and no event would tell when it
/// no longer does. Returns `true` if so.
///
/// # Errors
///
/// The wait's.
pub(crate) fn pauses(descriptor: BorrowedFd<'_>, direction: Direction, wait: Wait) -> io::Result<bool> {
    if direction != Direction::Write || !socket::lacks_room_elsewhere(descriptor) {
        return Ok(false);
    }
    nap(wait)?;
    Ok(true)
}

/// Sleeps for a moment, within `wait`.
///
/// # Errors
///
/// The wait's.
#[cold]
fn nap(wait: Wait) -> Result<(), WaitError> {
    if time::has_passed(wait.deadline) {
        return Err(WaitError::TimedOut);
    }
    let soon = time::after(NAP);
    let deadline = wait.deadline.map_or(soon, |end| soon.map(|soon| soon.min(end)));
    let nap = Wait { interruptible: wait.interruptible, ..Wait::by(deadline) };
    permit::sleep(nap).map_err(WaitError::reported)
}

// As std's sockets are. A panic leaves an entry as any other event finds it.
impl UnwindSafe for Source {}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(entry) = self.entry() {
            entry.leave();
        }
    }
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(all(test, loom))]
mod loom_source;
