//! A walk over the threads of a runtime in pages.
//!
//! Cores are type-stable, and those of a kind are in a list that grows only at its head. A thread has one
//! core all its life. So a walk that goes from newer cores to older ones meets each thread at most once. It
//! meets every thread that lives all the time. Where it stands is a core, which stays where it is.

use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::info::ThreadInfo;
use super::snapshot::Looks;
use crate::park::core_pool::KernelThread;

/// Where a walk over the threads of a runtime goes on.
///
/// It stays valid when threads begin and end. A walk that begins with [`start`](Self::start) and follows
/// [`ThreadPage::next`] lists each thread at most once. It lists every thread that lives from its first call
/// to its last.
#[derive(Clone, Copy)]
pub struct ThreadCursor(pub(crate) Position);

/// The next core to look at.
#[derive(Clone, Copy)]
pub(crate) enum Position {
    /// The first of all.
    Start,
    /// A green thread's: its chunk, of a type that `mxn` knows, and its number there.
    Green(&'static (dyn Any + Send + Sync), usize),
    /// A kernel thread's.
    Kernel(&'static KernelThread),
}

// It only says which core is next. It shows nothing of what is there.
impl UnwindSafe for ThreadCursor {}
impl RefUnwindSafe for ThreadCursor {}

impl ThreadCursor {
    /// Returns the beginning of a walk.
    #[must_use]
    pub const fn start() -> Self {
        Self(Position::Start)
    }
}

impl Default for ThreadCursor {
    fn default() -> Self {
        Self::start()
    }
}

impl fmt::Debug for ThreadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Position::Start => "ThreadCursor(start)",
            Position::Green(..) => "ThreadCursor(green threads)",
            Position::Kernel(_) => "ThreadCursor(kernel threads)",
        })
    }
}

/// Some of the threads of a runtime, from [`Runtime::threads_page`](crate::Runtime::threads_page).
#[derive(Clone, Debug)]
pub struct ThreadPage {
    threads: Vec<ThreadInfo>,
    next: Option<ThreadCursor>,
}

impl ThreadPage {
    pub(crate) fn new(threads: Vec<ThreadInfo>, next: Option<Position>) -> Self {
        Self { threads, next: next.map(ThreadCursor) }
    }

    /// Returns the only page of the runtime at `home`, in a fork of the process that has its threads.
    pub(crate) fn in_fork(home: usize, from: ThreadCursor) -> Self {
        let is_first = matches!(from.0, Position::Start);
        Self::new(if is_first { Looks::in_fork(home) } else { Vec::new() }, None)
    }

    /// Returns the threads of this page, in no particular order.
    #[must_use]
    pub fn threads(&self) -> &[ThreadInfo] {
        &self.threads
    }

    /// Returns the threads of this page by value.
    #[must_use]
    pub fn into_threads(self) -> Vec<ThreadInfo> {
        self.threads
    }

    /// Returns where the next page begins; `None` after the last one. The next page may be empty.
    #[must_use]
    pub fn next(&self) -> Option<ThreadCursor> {
        self.next
    }
}
