//! The deadline that a thread's next group inherits: that of the group in which the thread is. It runs a task
//! of that group, or its closure.
//!
//! **Problem.** A task that starts a group of its own need not know that it is a task. The group must still
//! end when the outer one does.
//!
//! **Rejected.**
//!
//! - A field of the thread's core. It would grow a green thread over the size at which neighbours share no
//!   cache set, for something that few threads have.
//! - A value under a key (`park/specific.rs`). It allocates.
//!
//! **Protocol.** A native thread-local leads to a chain of frames, the newest first. Each lies on a stack,
//! and has left the chain before it ends. On the rung `Pinned`, several threads share the chain. So each
//! frame names its thread, and need not be the first when it leaves. These threads run in turns on one kernel
//! thread, and are not preempted by signal. They do not switch while they look at the chain or change it.

use std::cell::Cell;
use std::ptr;
use std::time::Instant;

use crate::park::thread::ThreadRef;
use crate::shim::local;

local! {
    static NEWEST: Cell<*const Frame> = Cell::new(ptr::null());
}

/// A closure or task of a group that a thread runs.
struct Frame {
    thread: ThreadRef,
    deadline: Option<Instant>,
    older: Cell<*const Frame>,
}

/// Returns the deadline of the innermost group in which the running thread, `me`, is.
pub(super) fn deadline(me: ThreadRef) -> Option<Instant> {
    let mut frame = NEWEST.with(Cell::get);
    // SAFETY: null, or a frame in the chain. It leaves before it ends, and not now: only threads that share
    // this thread-local change the chain, and one runs at a time.
    while let Some(this) = unsafe { frame.as_ref() } {
        if this.thread == me {
            return this.deadline;
        }
        frame = this.older.get();
    }
    None
}

/// Runs `f`, which belongs to a group with this deadline, on the running thread, `me`.
pub(super) fn with<R>(me: ThreadRef, deadline: Option<Instant>, f: impl FnOnce() -> R) -> R {
    /// Takes the frame out of the chain, even if `f` unwinds.
    struct Entered<'a>(&'a Frame);
    impl Drop for Entered<'_> {
        fn drop(&mut self) {
            self.0.leave();
        }
    }
    let frame = Frame { thread: me, deadline, older: Cell::new(NEWEST.with(Cell::get)) };
    NEWEST.with(|newest| newest.set(&frame));
    let _entered = Entered(&frame);
    f()
}

impl Frame {
    fn leave(&self) {
        NEWEST.with(|newest| {
            if ptr::eq(newest.get(), self) {
                return newest.set(self.older.get());
            }
            let mut frame = newest.get();
            // SAFETY: null, or a frame in the chain, as in `deadline`.
            while let Some(this) = unsafe { frame.as_ref() } {
                frame = this.older.get();
                if ptr::eq(frame, self) {
                    this.older.set(self.older.get());
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::park::core_pool;

    /// On `Pinned`, frames of threads that share a chain leave it in any order.
    #[test]
    fn threads_that_share_the_chain_have_deadlines_of_their_own() {
        let threads = [(); 3].map(|()| core_pool::take(1, None, None));
        let [one, other, third] = threads;
        let at = |n| Some(Instant::now() + Duration::from_secs(n));
        let (first, second) = (at(1), at(2));
        let frame = |thread, deadline| {
            let frame = Box::new(Frame { thread, deadline, older: Cell::new(NEWEST.with(Cell::get)) });
            NEWEST.with(|newest| newest.set(&*frame));
            frame
        };
        let frames = [frame(one, first), frame(other, second), frame(one, None)];
        assert_eq!((deadline(one), deadline(other), deadline(third)), (None, second, None));
        frames[1].leave();
        assert_eq!((deadline(one), deadline(other)), (None, None));
        frames[2].leave();
        assert_eq!(deadline(one), first);
        with(third, second, || assert_eq!((deadline(one), deadline(third)), (first, second)));
        frames[0].leave();
        assert!(NEWEST.with(Cell::get).is_null());
        threads.into_iter().for_each(|thread| thread.release());
    }
}
