//! How much of its stack a thread has used, as seen from outside.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::id::ThreadId;
use crate::park::thread::ThreadRef;

/// The stack of a green thread, and how much of it has been used.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// let deep = rt.spawn(|| {
///     std::hint::black_box([1_u8; 100_000]);
///     thread::park();
/// });
/// # let parked = || matches!(rt.threads()[0].state(), thread::ThreadState::Waiting { .. });
/// # while !parked() { thread::yield_now() }
/// let stack = rt.threads()[0].stack().expect("it lives");
/// assert!(stack.high_water() > 100_000 && stack.high_water() <= stack.size());
/// println!("{stack}");
/// # deep.thread().unpark();
/// # deep.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackUse {
    size: usize,
    high_water: usize,
}

impl StackUse {
    pub(crate) fn new(size: usize, high_water: usize) -> Self {
        Self { size, high_water }
    }

    getters! {
        /// Returns how many bytes the thread may use.
        fn size(&self) -> usize = self.size;
        /// Returns how many bytes have been used at most, to the page.
        ///
        /// Stacks are used again with their memory. So this may be the mark of a thread that had the stack
        /// before. Pages that the system has swapped out do not count, unless there is a page below them that
        /// does.
        fn high_water(&self) -> usize = self.high_water;
    }
}

impl fmt::Display for StackUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} KiB", self.high_water.div_ceil(1 << 10), self.size >> 10)
    }
}

/// A thread that had a stack of its runtime's when it was looked at.
#[derive(Clone, Copy)]
pub(crate) struct StackLook {
    thread: ThreadRef,
    look: fn(ThreadRef) -> Option<StackUse>,
}

// A look changes nothing.
impl UnwindSafe for StackLook {}
impl RefUnwindSafe for StackLook {}

impl StackLook {
    /// `look` asks the kernel about the stack that the thread has now. It may have ended, and another thread
    /// may have its core.
    pub(crate) fn new(thread: ThreadRef, look: fn(ThreadRef) -> Option<StackUse>) -> Self {
        Self { thread, look }
    }

    /// Looks now. Returns `None` unless the thread of this identity has lived all the while.
    pub(super) fn take(self, id: ThreadId) -> Option<StackUse> {
        let lives = || self.thread.lives_as(id.as_u64());
        let used = lives().then(|| (self.look)(self.thread)).flatten();
        used.filter(|_| lives())
    }
}

impl fmt::Debug for StackLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackLook").finish_non_exhaustive()
    }
}
