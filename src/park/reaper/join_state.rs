//! The right to join one kernel thread, and what says which thread will use it.

use std::mem;
use std::thread::JoinHandle;

use crate::park::queue_lock::{QueueLock, Rank};

/// A kernel thread's part of the protocol of `reaper.rs`.
#[derive(Debug)]
pub(in crate::park) struct JoinState(QueueLock<Joining>);

#[derive(Debug, Default)]
struct Joining {
    kernel: Option<JoinHandle<()>>,
    /// Set while a thread joins it.
    joining: bool,
    /// Set if no thread will join it.
    detached: bool,
    /// Set when it runs its last lines.
    ended: bool,
}

impl JoinState {
    pub(in crate::park) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, Joining::default()))
    }

    pub(super) fn started(&self, kernel: JoinHandle<()>) {
        self.0.with(|state| state.kernel = Some(kernel));
    }

    /// Calls `look` with the kernel thread, unless the right was taken.
    pub(super) fn look<R>(&self, look: fn(&JoinHandle<()>) -> R) -> Option<R> {
        self.0.with(|state| state.kernel.as_ref().map(look))
    }

    /// Takes the right, to give it away. Called for the handle.
    pub(super) fn take(&self) -> Option<JoinHandle<()>> {
        self.0.with(|state| state.kernel.take())
    }

    /// Takes the right, to use it. The thread has said that it has ended. The caller calls
    /// [`joined`](Self::joined) then.
    pub(super) fn take_to_join(&self) -> Option<JoinHandle<()>> {
        self.0.with(|state| {
            let kernel = state.kernel.take();
            state.joining |= kernel.is_some();
            kernel
        })
    }

    /// Notes that the thread that had taken the right has used it.
    pub(super) fn joined(&self) {
        self.0.with(|state| state.joining = false);
    }

    /// Returns `true` while a thread uses the right.
    pub(super) fn is_being_joined(&self) -> bool {
        self.0.with(|state| state.joining)
    }

    /// Notes that the handle was dropped. Takes the right if the thread has ended.
    pub(super) fn detached(&self) -> Option<JoinHandle<()>> {
        self.0.with(|state| {
            state.detached = true;
            if state.ended { state.kernel.take() } else { None }
        })
    }

    /// Notes that the thread runs its last lines. Takes the right if no thread will join it.
    pub(super) fn ended(&self) -> Option<JoinHandle<()>> {
        self.0.with(|state| {
            state.ended = true;
            if state.detached { state.kernel.take() } else { None }
        })
    }

    /// Frees the lock from a holder that does not exist in this process, which may have left the state half
    /// changed. Called for the caller of `fork`, which no thread joins here.
    ///
    /// # Safety
    /// Called in the child of a fork, by its only thread.
    pub(in crate::park) unsafe fn survive_fork(&self) {
        let forget = |state: &mut Joining, held| {
            if held {
                mem::forget(mem::take(state));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.0.mend(forget) };
    }

    /// Resets the state for the next life. A kernel thread that is left was a parent process's: it is not
    /// detached.
    pub(in crate::park) fn reset(&self) {
        mem::forget(self.0.with(mem::take));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_life_begins_anew() {
        let join_state = JoinState::new();
        join_state
            .0
            .with(|state| *state = Joining { kernel: None, joining: true, detached: true, ended: true });
        join_state.reset();
        assert!(join_state.0.with(|state| !state.joining && !state.detached && !state.ended));
    }
}

#[cfg(all(test, loom))]
mod loom_join_state;
