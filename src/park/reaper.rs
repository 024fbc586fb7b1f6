//! What is left of a kernel thread when it has ended: the kernel thread itself, which must be joined.
//!
//! **Problem.** `join` of a thread that owns a kernel thread must leave nothing behind that a program can
//! see. A detached thread must not keep its stack. And a runtime that is dropped waits for all of it.
//!
//! **Rejected.**
//!
//! - *To join the kernel thread only.* That has no timeout, and a green thread cannot wait for it.
//! - *To detach all kernel threads.* A process that calls `unshare` after `join`, or unloads a library,
//!   finds the thread still there.
//! - *One reaper for the process.* A runtime that ends would find it empty while another ending runtime
//!   still joins the threads from it.
//!
//! **Protocol.** For each kernel thread there is a right to join it, which is kept here.
//!
//! - A thread that joins it takes the right after the kernel thread has said that it has ended. Then there
//!   is next to nothing to wait for. A future may be polled while the thread that is to wake it uses the
//!   right. The poll waits for that thread.
//! - If the handle of a thread that has ended is dropped, the dropping thread does the same.
//! - A thread that was detached before it ended passes its right to its runtime's
//!   [`Reaper`]. It joins the threads in the reaper that are gone by then, before it is counted as
//!   gone.
//!
//! So once all threads of a runtime are gone, to join those in the reaper is to join all. In the meantime
//! there are no more of them than there are kernel threads on their way out.
//!
//! That way out leads through the C library's destructors of values under pthread keys. They are code of the
//! user's, and may take long. A thread that ends does not wait for them. A thread that shuts a runtime down
//! looks ([`Reaper::try_close`]) for as long as it likes. If such a destructor owns the runtime, or the
//! thread's own handle, the thread would wait for itself. It is detached instead.

use std::mem;
use std::num::NonZeroU64;
use std::thread::JoinHandle;

pub(super) mod join_state;

use super::backend::CorePool;
use super::backoff::Backoff;
use super::core_pool::{self, KernelThread};
use super::current::current;
use super::kernel_park::KernelPark;
use super::queue_lock::{QueueLock, Rank};
use super::thread::ThreadRef;
use crate::shim::KernelThread as Joinable;

/// The kernel threads of one runtime that ended detached and have not been joined.
#[derive(Debug)]
pub(crate) struct Reaper(QueueLock<Vec<Unjoined>>);

#[derive(Debug)]
struct Unjoined {
    kernel: Joinable,
    thread_info: Ended,
}

/// A thread that has ended, with its kernel thread on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) id: NonZeroU64,
    pub(crate) name: Option<String>,
    pub(crate) tid: Option<u32>,
}

impl Unjoined {
    /// Joins it if it is gone. Otherwise returns it.
    fn try_join(self) -> Option<Self> {
        let Self { kernel, thread_info } = self;
        kernel.try_join().err().map(|kernel| Self { kernel, thread_info })
    }
}

impl Reaper {
    pub(crate) fn new() -> Self {
        Self(QueueLock::new(Rank::Pool, Vec::new()))
    }

    fn take_all(&self) -> Vec<Unjoined> {
        self.0.with(mem::take)
    }

    /// Adds these threads to the reaper, and joins those in it that are gone. Nothing is allocated or
    /// joined with the lock held.
    fn reap(&self, mut these: Vec<Unjoined>) {
        loop {
            let others = self.0.with(|kept| {
                let others = mem::take(kept);
                if others.is_empty() {
                    mem::swap(kept, &mut these);
                }
                others
            });
            if others.is_empty() {
                return;
            }
            these.extend(others.into_iter().filter_map(Unjoined::try_join));
        }
    }

    /// Joins all threads in the reaper. All threads of the runtime are gone.
    pub(crate) fn close(&self) {
        for unjoined in self.take_all() {
            join(|| unjoined.kernel.join());
        }
    }

    /// Joins the threads in the reaper that are gone, under the same conditions as
    /// [`close`](Self::close), but without a wait. Returns `true` if those were all.
    pub(crate) fn try_close(&self) -> bool {
        let left: Vec<_> = self.take_all().into_iter().filter_map(Unjoined::try_join).collect();
        let closed = left.is_empty();
        self.reap(left);
        closed
    }

    /// Returns the threads in the reaper, under the conditions of [`try_close`](Self::try_close).
    pub(crate) fn left(&self) -> Vec<Ended> {
        let all = self.take_all();
        let left = all.iter().map(|unjoined| unjoined.thread_info.clone()).collect();
        self.reap(all);
        left
    }
}

/// Joins a kernel thread that runs its last lines, which takes a short time. But the C library's own
/// destructors may be among them, so the caller's slot may be released.
fn join(join: impl FnOnce()) {
    let me = current();
    me.backend().enter_blocking(&me);
    join();
    me.backend().exit_blocking(&me);
}

fn join_kernel_thread(ended: Option<JoinHandle<()>>) {
    if let Some(ended) = ended {
        join(|| Joinable::from(ended).join());
    }
}

impl CorePool for KernelPark {
    fn joined(&self, ended: ThreadRef) {
        // The kernel thread of a lost thread belonged to the parent process. Here another may have its place.
        if ended.is_lost() {
            return;
        }
        let join_state = KernelThread::of(ended).join_state();
        if let Some(kernel) = join_state.take_to_join() {
            join_kernel_thread(Some(kernel));
            join_state.joined();
        } else if join_state.is_being_joined() {
            let mut backoff = Backoff::new();
            join(|| {
                while join_state.is_being_joined() {
                    backoff.pause()
                }
            });
        }
    }

    fn detached(&self, thread: ThreadRef) {
        // As in `joined`.
        if !thread.is_lost() {
            join_kernel_thread(KernelThread::of(thread).join_state().detached());
        }
    }

    fn recycle(&self, core: ThreadRef) {
        core_pool::give_back(core);
    }
}

/// Notes that the kernel thread of `thread` has started. Called by its spawner, before any thread has a
/// handle.
pub(crate) fn started(thread: ThreadRef, kernel: JoinHandle<()>) {
    KernelThread::of(thread).join_state().started(kernel);
}

/// Calls `look` with the kernel thread that `thread` owns, unless the right to join it was given away. Called
/// for the handle of `thread`.
pub(crate) fn look<R>(thread: ThreadRef, look: fn(&JoinHandle<()>) -> R) -> Option<R> {
    KernelThread::of(thread).join_state().look(look)
}

/// Gives away the right to join. Called for the handle of `thread`, which is then dropped.
pub(crate) fn give_away(thread: ThreadRef) -> Option<JoinHandle<()>> {
    KernelThread::of(thread).join_state().take()
}

/// Notes that `me` has said that it has ended, and runs its last lines. Called by `me`, before its runtime
/// counts it as gone.
pub(crate) fn ended(me: ThreadRef, reaper: &Reaper) {
    if let Some(unjoined) = KernelThread::of(me).join_state().ended() {
        let name = me.name().map(str::to_owned);
        let thread_info = Ended { id: me.id(), name, tid: KernelThread::of(me).tid() };
        reaper.reap(vec![Unjoined { kernel: unjoined.into(), thread_info }]);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::park::core_pool;
    use crate::park::tests::{until, watched};

    /// Starts a kernel thread that takes 20 ms. Returns it, with a flag that it sets when it has ended.
    fn slow() -> (JoinHandle<()>, Arc<AtomicBool>) {
        let ended = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&ended);
        let body = move || {
            thread::sleep(Duration::from_millis(20));
            ends.store(true, SeqCst);
        };
        (thread::spawn(body), ended)
    }

    /// Starts a kernel thread that lasts until the sender is dropped.
    fn lasting() -> (JoinHandle<()>, Sender<()>) {
        let (end, ends) = channel();
        (thread::spawn(move || assert!(ends.recv().is_err())), end)
    }

    #[test]
    fn a_join_waits_for_the_kernel_thread() {
        let _watched = watched();
        let thread = core_pool::take(1, None, None);
        let (kernel, has_ended) = slow();
        started(thread, kernel);
        ended(thread, &Reaper::new());
        thread.pool().joined(thread);
        assert!(has_ended.load(SeqCst));
        thread.release();
    }

    /// Both a future and the thread that is to wake it join.
    #[test]
    fn of_two_joins_the_second_waits_too() {
        let _watched = watched();
        let thread = core_pool::take(1, None, None);
        let (kernel, end) = lasting();
        started(thread, kernel);
        ended(thread, &Reaper::new());
        let goes = AtomicBool::new(false);
        let joins = || {
            thread.pool().joined(thread);
            assert!(goes.load(SeqCst), "the kernel thread is still there");
        };
        thread::scope(|scope| {
            scope.spawn(joins);
            until(|| look(thread, |_| ()).is_none());
            let second = scope.spawn(joins);
            // It would return soon.
            let looks = (0..100).inspect(|_| thread::sleep(Duration::from_millis(1)));
            looks.take_while(|_| !second.is_finished()).for_each(drop);
            goes.store(true, SeqCst);
            drop(end);
        });
        thread.release();
    }

    #[test]
    fn a_detach_of_an_ended_thread_waits_for_the_kernel_thread() {
        let _watched = watched();
        let (thread, reaper) = (core_pool::take(1, None, None), Reaper::new());
        let (kernel, has_ended) = slow();
        started(thread, kernel);
        ended(thread, &reaper);
        thread.pool().detached(thread);
        assert!(has_ended.load(SeqCst) && reaper.left().is_empty());
        thread.release();
    }

    #[test]
    fn a_graveyard_keeps_those_that_were_detached() {
        let _watched = watched();
        let (thread, reaper) = (core_pool::take(1, None, Some("one".into())), Reaper::new());
        assert!(reaper.try_close() && reaper.left().is_empty());
        let (kernel, end) = lasting();
        started(thread, kernel);
        thread.pool().detached(thread);
        ended(thread, &reaper);
        assert!(!reaper.try_close());
        let [left] = &reaper.left()[..] else { panic!("one thread") };
        assert_eq!((left.id, left.name.as_deref(), left.tid), (thread.id(), Some("one"), None));
        drop(end);
        until(|| reaper.try_close());
        assert!(reaper.left().is_empty());
        thread.release();
    }

    #[test]
    fn a_graveyard_that_is_closed_has_joined_all() {
        let _watched = watched();
        let (thread, reaper) = (core_pool::take(1, None, None), Reaper::new());
        let (kernel, has_ended) = slow();
        started(thread, kernel);
        thread.pool().detached(thread);
        ended(thread, &reaper);
        reaper.close();
        assert!(has_ended.load(SeqCst));
        thread.release();
    }
}
