//! What is left of a kernel thread's end besides the waiting: the kernel thread itself.
//!
//! **Problem.** `join` of a thread that owns a kernel thread should leave nothing behind that a program can see, a detached
//! one must not keep its stack, and a runtime that is dropped waits for all of it.
//!
//! **Rejected.** *Joining the kernel thread only*: that has no timeout, and a green thread cannot wait for it. *Detaching
//! them all*: a process that calls `unshare`, or unloads a library, after `join` finds the thread still there.
//!
//! One graveyard for the process: a runtime that goes would find it empty while another, which goes too, still joins who lay there.
//!
//! **Protocol.** Each kernel thread has a right to join it, kept here. Who joins the thread takes it, after the thread has said
//! that it has ended, when there is next to nothing to wait for. Who drops the handle of a thread that has ended does the same. A thread
//! that was detached before it ended buries itself: its right goes to the one place in its runtime's [`Graveyard`], and it joins
//! the one that lay there, before it is counted as gone. So once all threads of a runtime are gone, joining the one that lies there
//! is joining all, and no more than one stays unjoined meanwhile.

use std::mem;
use std::thread::JoinHandle;

use super::current::current;
use super::queue_lock::{QueueLock, Rank};
use super::registry::KernelThread;
use super::thread::ThreadRef;

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

/// The kernel thread that was last to end detached, of one runtime.
#[derive(Debug)]
pub(crate) struct Graveyard(QueueLock<Option<JoinHandle<()>>>);

impl Graveyard {
    pub(crate) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, None))
    }

    /// Joins who lies here. All threads of the runtime are gone, and the caller is none of them.
    pub(crate) fn close(&self) {
        join(self.0.with(Option::take));
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

/// The kernel thread of `thread` has started. By its spawner, before anybody has a handle.
pub(crate) fn started(thread: ThreadRef, kernel: JoinHandle<()>) {
    KernelThread::of(thread).remains().0.with(|state| state.kernel = Some(kernel));
}

/// `me` has said that it has ended, and runs its last lines. By itself, before its runtime counts it as gone.
pub(crate) fn ended(me: ThreadRef, graveyard: &Graveyard) {
    let unjoined = KernelThread::of(me).remains().0.with(|state| {
        state.ended = true;
        if state.detached { state.kernel.take() } else { None }
    });
    if let Some(unjoined) = unjoined {
        join(graveyard.0.with(|lies_here| lies_here.replace(unjoined)));
    }
}

impl Remains {
    pub(super) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, State::default()))
    }

    /// The thread has said that it has ended, and its handle is used up.
    pub(super) fn joined(&self) {
        join(self.0.with(|state| state.kernel.take()));
    }

    /// The handle was dropped.
    pub(super) fn detached(&self) {
        join(self.0.with(|state| {
            state.detached = true;
            if state.ended { state.kernel.take() } else { None }
        }));
    }

    /// For the next life.
    pub(super) fn reset(&self) {
        drop(self.0.with(mem::take));
    }
}
