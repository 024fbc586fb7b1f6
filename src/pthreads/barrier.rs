//! A barrier that a thread may destroy as soon as it has passed it. `sync/visitors.rs` says how.

use crate::interpose::cancel;
use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError};
use crate::sync;
use crate::sync::visitors::Visitors;

/// A barrier of a program that does not know when the other threads have left it.
#[derive(Debug)]
pub struct Barrier {
    barrier: sync::Barrier,
    visitors: Visitors,
}

impl Barrier {
    /// Creates a barrier for `n` threads.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        Self { barrier: sync::Barrier::new(n), visitors: Visitors::none() }
    }

    /// Waits until all threads of this round have come. Returns `true` in one of them. Handlers of signals
    /// run meanwhile.
    #[must_use]
    pub fn wait(&self) -> bool {
        self.visitors.enter();
        let pass = |wait| self.barrier.wait_with(wait);
        let passed = cancel::lock(Wait::forever(), pass, |it| matches!(it, Err(WaitError::Interrupted)));
        self.visitors.leave();
        passed.is_ok_and(|it| it.is_leader())
    }

    /// Waits until each thread that has passed has left. Called before the barrier's memory is used for
    /// something else.
    pub fn close(&self) {
        self.visitors.until_none(WaitReason::Barrier);
    }
}
