//! What others must know of a kernel thread, to send it signals ([`kernel`](super::kernel)).

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::park::no_preempt::Count;
use crate::park::pending::taking::Taking;
use crate::sys::moment::Moment;
use crate::sys::{Tid, kthread};

/// What others must know of a kernel thread.
#[derive(Debug)]
pub(super) struct Stands {
    tid: Tid,
    /// The process of which that is a thread.
    process: u32,
    pub(super) count: Count,
    pub(super) taking: Taking,
    /// When the last signal came.
    since: AtomicU64,
}

/// How long a kernel thread is left alone that never seems to be without a lock: it may sleep in a place
/// that this does not know.
const LONGEST: Duration = Duration::from_secs(2);

impl Stands {
    pub(super) fn here() -> Self {
        Self {
            tid: kthread::gettid(),
            process: process::id(),
            count: Count::of_caller(),
            taking: Taking::new(),
            since: AtomicU64::new(0),
        }
    }

    /// Returns the number of the thread. In the child of a fork, which has one thread of the parent, that is
    /// the process's own, whether this crate has heard of the fork or not.
    pub(super) fn tid(&self) -> Tid {
        let here = process::id();
        if here == self.process { self.tid } else { here.cast_signed() }
    }

    /// Returns `true` in the child of a fork, as [`tid`](Self::tid) finds it.
    pub(super) fn is_elsewhere(&self) -> bool {
        process::id() != self.process
    }

    /// Notes that a signal comes.
    pub(super) fn begin_wait(&self) {
        // Relaxed: a time.
        self.since.store(Moment::now().as_nanos(), Ordering::Relaxed);
    }

    /// Returns `true` if the last signal came long ago.
    pub(super) fn is_long_busy(&self) -> bool {
        // Relaxed: a time.
        let since = Moment::from_nanos(self.since.load(Ordering::Relaxed));
        Moment::now() - since > LONGEST
    }
}
