//! What is left of a kernel thread's end besides the waiting: the kernel thread itself.
//!
//! **Problem.** `join` of a thread that owns a kernel thread should leave nothing behind that a program can see, a detached
//! one must not keep its stack, and a runtime that is dropped waits for all of it.
//!
//! **Rejected.** *Joining the kernel thread only*: that has no timeout, and a green thread cannot wait for it. *Detaching
//! them all*: a process that calls `unshare`, or unloads a library, after `join` finds the thread still there.
//!
//! **Protocol.** Each kernel thread has a right to join it, kept here. Who joins the thread takes it, after the thread has said that
//! it has ended, when there is next to nothing to wait for. If the thread is detached instead, whoever comes second, the dropped
//! handle or the thread's end, buries it: it goes to the one place in the [`GRAVEYARD`], and the one that lay there is joined.
//! So at most one ended kernel thread of a process stays unjoined, and a runtime that is dropped joins it.

use std::mem;
use std::thread::JoinHandle;

use super::current::current;
use super::queue_lock::{QueueLock, Rank};
use crate::shim::global;

/// The right to join a kernel thread, and who will use it.
#[derive(Debug)]
pub(super) struct Remains(QueueLock<State>);

#[derive(Debug, Default)]
struct State {
    kernel: Option<JoinHandle<()>>,
    /// Nobody will join the thread.
    detached: bool,
    /// It runs its last lines.
    ended: bool,
}

global! {
    /// The kernel thread that was last to end unjoined.
    static GRAVEYARD: QueueLock<Option<JoinHandle<()>>> = QueueLock::new(Rank::Pool, None);
}

/// Joins the kernel thread that lies in the graveyard.
pub(crate) fn close_graveyard() {
    join(GRAVEYARD.with(Option::take));
}

fn bury(ended: Option<JoinHandle<()>>) {
    if let Some(ended) = ended {
        join(GRAVEYARD.with(|lies_here| lies_here.replace(ended)));
    }
}

/// Joins a kernel thread that runs its last lines, so that it is short; but the C library's own destructors may be
/// among them, so the caller's slot may be given away.
fn join(ended: Option<JoinHandle<()>>) {
    if let Some(ended) = ended {
        let me = current();
        me.backend().enter_blocking(&me);
        let result = ended.join();
        me.backend().exit_blocking(&me);
        debug_assert!(result.is_ok(), "the panics of a thread are caught inside");
    }
}

impl Remains {
    pub(super) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, State::default()))
    }

    /// The kernel thread has started. By the spawner, before anybody has a handle.
    pub(super) fn started(&self, kernel: JoinHandle<()>) {
        self.0.with(|state| state.kernel = Some(kernel));
    }

    /// By the thread itself, at its end.
    pub(super) fn ended(&self) {
        bury(self.0.with(|state| {
            state.ended = true;
            if state.detached { state.kernel.take() } else { None }
        }));
    }

    /// The thread has said that it has ended, and its handle is used up.
    pub(super) fn joined(&self) {
        join(self.0.with(|state| state.kernel.take()));
    }

    /// The handle was dropped.
    pub(super) fn detached(&self) {
        bury(self.0.with(|state| {
            state.detached = true;
            if state.ended { state.kernel.take() } else { None }
        }));
    }

    /// For the next life.
    pub(super) fn reset(&self) {
        drop(self.0.with(mem::take));
    }
}
