//! A thread runs its closure, for real, while its handle joins it or is dropped. The result is made once, and
//! taken or dropped once, after all that the other side did.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::{Ending, NewTask, ResultCell};
use crate::park::exit::Detached;
use crate::park::tests::loom_model::{Core, Letter, model, on};
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::shim::atomic::{AtomicBool, Ordering};

/// What a thread returns. Its destructor reads it, so that loom sees whether the drop comes after the making.
struct Returned {
    letter: Letter,
    drops: Arc<AtomicU32>,
}

impl Drop for Returned {
    fn drop(&mut self) {
        assert_eq!(self.letter.read(), 7);
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn written(text: u32) -> Letter {
    let letter = Letter::default();
    letter.write(text);
    letter
}

/// Does what a handle does with its share, and returns when that is done.
type Handle = fn(ThreadRef, ResultCell<Returned>);

fn joins(thread: ThreadRef, claim: ResultCell<Returned>) {
    let joiner = Core::new();
    on(joiner.thread(), || thread.wait_done(Wait::forever()).unwrap());
    // SAFETY: the thread has ended, and this is its handle.
    drop(unsafe { claim.take() });
}

fn is_dropped(thread: ThreadRef, claim: ResultCell<Returned>) {
    // SAFETY: called if the result is the handle's.
    let _: Detached<bool> = thread.detach(|| unsafe { claim.discard() });
}

/// A thread's life, from its closure on.
#[derive(Clone, Copy)]
struct Life {
    /// The closure panics.
    panics: bool,
    /// The thread leaves its result before it ends.
    for_good: bool,
    /// Ends the thread. If it returns `true`, the thread drops its result.
    finish: fn(ThreadRef) -> bool,
}

const LIFE: Life = Life { panics: false, for_good: false, finish: |thread| thread.finish() };

fn live(life: Life, handle: Handle) {
    model(move || {
        let core = Core::new();
        let (thread, drops) = (core.thread(), Arc::new(AtomicU32::new(0)));
        let given = written(3);
        let returned = drops.clone();
        let todo = move || {
            let returned = Returned { letter: written(given.read() + 4), drops: returned };
            if life.panics { resume_unwind(Box::new(returned)) } else { returned }
        };
        let mut new_task = NewTask::new(todo, ());
        // SAFETY: nothing is borrowed, and all of it may be sent.
        let task = unsafe { new_task.task() }.onto_heap();
        let claim = new_task.into_result_cell();
        let other = loom::thread::spawn(move || {
            on(thread, || {
                if life.for_good {
                    task.run_for_good(thread);
                    let _: bool = (life.finish)(thread);
                    return;
                }
                let unclaimed = task.run(thread);
                if (life.finish)(thread)
                    && let Some(unclaimed) = unclaimed
                {
                    // SAFETY: the handle is gone.
                    unsafe { unclaimed.discard() };
                }
            });
        });
        handle(thread, claim);
        other.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 1, "results dropped");
    });
}

#[test]
fn a_result_is_joined() {
    live(LIFE, joins);
}

#[test]
fn a_result_is_dropped_once_if_its_handle_goes() {
    live(LIFE, is_dropped);
}

#[test]
fn a_payload_is_joined() {
    live(Life { panics: true, ..LIFE }, joins);
}

#[test]
fn a_payload_is_dropped_once_if_its_handle_goes() {
    live(Life { panics: true, ..LIFE }, is_dropped);
}

#[test]
fn a_result_that_is_left_is_joined() {
    live(Life { for_good: true, ..LIFE }, joins);
}

#[test]
fn a_result_that_is_left_while_its_handle_goes_is_dropped_once() {
    live(Life { for_good: true, ..LIFE }, is_dropped);
}

/// The thread first checks that its handle is there, and then ends. The handle goes in between.
#[test]
#[should_panic(expected = "results dropped")]
fn negative_a_look_before_the_end() {
    let finish = |thread: ThreadRef| {
        let is_mine = thread.is_detached();
        let _: bool = thread.finish();
        is_mine
    };
    live(Life { finish, ..LIFE }, is_dropped);
}

/// Signals as to a scope: with a flag, before the thread's end.
struct Told(Arc<AtomicBool>);

impl Ending for Told {
    const AWAITED: bool = true;

    fn begins(&self, _me: ThreadRef) {}

    fn ended(self, _me: ThreadRef, unread_panic: bool) {
        assert!(!unread_panic);
        self.0.store(true, Ordering::Release);
    }
}

/// A scope waits to be told, and frees what the result borrows. By then the result has been dropped, or
/// belongs to the handle.
fn in_a_scope(is_kept: bool) {
    model(move || {
        let core = Core::new();
        let (thread, drops) = (core.thread(), Arc::new(AtomicU32::new(0)));
        let told = Arc::new(AtomicBool::new(false));
        // It must exist before the other thread starts.
        assert!(!told.load(Ordering::Relaxed));
        let returned = drops.clone();
        let todo = move || Returned { letter: written(7), drops: returned };
        let mut new_task = NewTask::new(todo, Told(told.clone()));
        // SAFETY: nothing is borrowed, and all of it may be sent.
        let task = unsafe { new_task.task() }.onto_heap();
        let claim = new_task.into_result_cell();
        let other = loom::thread::spawn(move || {
            on(thread, || {
                assert!(task.run(thread).is_none(), "a duty is left after the scope was told");
                let _: bool = thread.finish();
            });
        });
        let mut claim = Some(claim);
        if !is_kept {
            is_dropped(thread, claim.take().unwrap());
        }
        while !told.load(Ordering::Acquire) {
            loom::thread::yield_now();
        }
        if let Some(claim) = claim {
            // SAFETY: the thread has left its result for good, and the handle was there then.
            drop(unsafe { claim.take() });
        }
        assert_eq!(drops.load(Ordering::Relaxed), 1, "results dropped");
        other.join().unwrap();
    });
}

#[test]
fn a_scope_is_told_when_the_result_is_the_handles() {
    in_a_scope(true);
}

#[test]
fn a_scope_is_told_when_the_result_is_gone() {
    in_a_scope(false);
}
