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
//! that was detached before it ended buries itself: its right goes to its runtime's [`Graveyard`], and it joins those who lay there and
//! are gone by now, before it is counted as gone. So once all threads of a runtime are gone, joining those who lie there
//! is joining all, and there are no more of them meanwhile than there are kernel threads on their way out.
//!
//! That way out leads through the C library's destructors of values under pthread keys: code of the user's, which may take its time.
//! Nobody who ends waits for that, and who shuts a runtime down looks ([`Graveyard::try_close`]) for as long as it likes.

use std::mem;
use std::num::NonZeroU64;
use std::os::unix::thread::{JoinHandleExt, RawPthread};
use std::thread::JoinHandle;

use super::current::current;
use super::queue_lock::{QueueLock, Rank};
use super::registry::KernelThread;
use super::thread::ThreadRef;
use crate::shim::KernelThread as Joinable;

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

/// The kernel threads that ended detached and have not been joined, of one runtime.
#[derive(Debug)]
pub(crate) struct Graveyard(QueueLock<Vec<Buried>>);

#[derive(Debug)]
struct Buried {
    kernel: Joinable,
    whose: Ended,
}

/// A thread that has ended, whose kernel thread is on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) id: NonZeroU64,
    pub(crate) name: Option<String>,
    pub(crate) tid: Option<u32>,
}

impl Buried {
    /// Joins it, if it is gone.
    fn try_join(self) -> Option<Self> {
        let Self { kernel, whose } = self;
        kernel.try_join().err().map(|kernel| Self { kernel, whose })
    }
}

impl Graveyard {
    pub(crate) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, Vec::new()))
    }

    fn take_all(&self) -> Vec<Buried> {
        self.0.with(mem::take)
    }

    /// Adds them to those who lie here, and joins who is gone. Nothing is allocated or joined with the lock held.
    fn bury(&self, mut these: Vec<Buried>) {
        loop {
            let others = self.0.with(|lie_here| {
                let others = mem::take(lie_here);
                if others.is_empty() {
                    mem::swap(lie_here, &mut these);
                }
                others
            });
            if others.is_empty() {
                return;
            }
            these.extend(others.into_iter().filter_map(Buried::try_join));
        }
    }

    /// Joins who lies here. All threads of the runtime are gone, and the caller is none of them.
    pub(crate) fn close(&self) {
        for buried in self.take_all() {
            join(|| buried.kernel.join());
        }
    }

    /// Joins who is gone; `true`: that was all. As [`close`](Self::close), but that it waits for nobody.
    pub(crate) fn try_close(&self) -> bool {
        let left: Vec<_> = self.take_all().into_iter().filter_map(Buried::try_join).collect();
        let closed = left.is_empty();
        self.bury(left);
        closed
    }

    /// Who lies here. As [`try_close`](Self::try_close).
    pub(crate) fn left(&self) -> Vec<Ended> {
        let all = self.take_all();
        let left = all.iter().map(|buried| buried.whose.clone()).collect();
        self.bury(all);
        left
    }
}

/// Joins a kernel thread that runs its last lines, so that it is short; but the C library's own destructors may be
/// among them, so the caller's slot may be given away.
fn join<R>(join: impl FnOnce() -> R) -> R {
    let me = current();
    me.backend().enter_blocking(&me);
    let result = join();
    me.backend().exit_blocking(&me);
    result
}

fn join_kernel_thread(ended: Option<JoinHandle<()>>) {
    if let Some(ended) = ended {
        let result = join(|| ended.join());
        debug_assert!(result.is_ok(), "the panics of a thread are caught inside");
    }
}

/// The kernel thread of `thread` has started. By its spawner, before anybody has a handle.
pub(crate) fn started(thread: ThreadRef, kernel: JoinHandle<()>) {
    KernelThread::of(thread).remains().0.with(|state| state.kernel = Some(kernel));
}

/// Returns the C library's handle of the kernel thread that `thread` owns, which is valid until that is
/// joined. For the handle of `thread`.
pub(crate) fn pthread(thread: ThreadRef) -> Option<RawPthread> {
    KernelThread::of(thread).remains().0.with(|state| state.kernel.as_ref().map(JoinHandle::as_pthread_t))
}

/// Gives away the right to join. For the handle of `thread`, which is then dropped.
pub(crate) fn into_pthread(thread: ThreadRef) -> Option<RawPthread> {
    let kernel = KernelThread::of(thread).remains().0.with(|state| state.kernel.take());
    kernel.map(JoinHandle::into_pthread_t)
}

/// `me` has said that it has ended, and runs its last lines. By itself, before its runtime counts it as gone.
pub(crate) fn ended(me: ThreadRef, graveyard: &Graveyard) {
    let unjoined = KernelThread::of(me).remains().0.with(|state| {
        state.ended = true;
        if state.detached { state.kernel.take() } else { None }
    });
    if let Some(unjoined) = unjoined {
        let name = me.name().map(str::to_owned);
        let whose = Ended { id: me.id(), name, tid: KernelThread::of(me).tid() };
        graveyard.bury(vec![Buried { kernel: unjoined.into(), whose }]);
    }
}

impl Remains {
    pub(super) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, State::default()))
    }

    /// The thread has said that it has ended, and its handle is used up.
    pub(super) fn joined(&self) {
        join_kernel_thread(self.0.with(|state| state.kernel.take()));
    }

    /// The handle was dropped.
    pub(super) fn detached(&self) {
        join_kernel_thread(self.0.with(|state| {
            state.detached = true;
            if state.ended { state.kernel.take() } else { None }
        }));
    }

    /// For the next life.
    pub(super) fn reset(&self) {
        drop(self.0.with(mem::take));
    }
}
