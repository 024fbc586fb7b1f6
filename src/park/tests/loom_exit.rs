//! The end of a thread against who waits for it: the joiner sleeps no longer than that, sees all that the thread did, and
//! is woken once; by kernel and by green joiners, with a deadline and without.

use std::sync::Arc;

use super::{DONE, ENDED};
use crate::park::tests::loom_model::{Core, Green, deadline, model, on};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::Ordering;
use crate::shim::{UnsafeCell, strike};

/// What a thread leaves to whoever joins it.
struct Result(UnsafeCell<u32>);

// SAFETY: what the models are to show: loom reports an access that is not ordered.
unsafe impl Sync for Result {}
// SAFETY: as above.
unsafe impl Send for Result {}

impl Result {
    fn new() -> Arc<Self> {
        let result = Arc::new(Self(UnsafeCell::new(0)));
        assert_eq!(result.read(), 0);
        result
    }

    fn write(&self) {
        // SAFETY: checked by loom.
        self.0.with_mut(|result| unsafe { *result = 7 });
    }

    fn read(&self) -> u32 {
        // SAFETY: checked by loom.
        self.0.with(|result| unsafe { *result })
    }
}

/// A thread that writes its result and ends by `finish`, while `joiner` joins it by `join`.
fn one_ends(
    joiner: ThreadRef,
    finish: impl FnOnce(ThreadRef) + Send + 'static,
    join: impl FnOnce(ThreadRef, &Result),
) {
    let (ending, result) = (Core::new(), Result::new());
    let thread = ending.thread();
    let other = {
        let result = Arc::clone(&result);
        loom::thread::spawn(move || {
            result.write();
            finish(thread);
        })
    };
    on(joiner, || join(thread, &result));
    other.join().unwrap();
    assert!(thread.is_done());
}

fn finish(thread: ThreadRef) {
    thread.finish();
}

fn wait(thread: ThreadRef, result: &Result) {
    assert!(thread.wait_done(None));
    assert_eq!(result.read(), 7);
}

#[test]
fn a_kernel_thread_joins() {
    model(|| {
        let joiner = Core::new();
        one_ends(joiner.thread(), finish, wait);
    });
}

#[test]
fn a_green_thread_joins() {
    model(|| {
        let joiner = Green::new();
        one_ends(joiner.thread(), finish, wait);
    });
}

/// Waits with a deadline; if that comes first, waits again without one.
fn wait_twice(thread: ThreadRef, result: &Result) {
    if !thread.wait_done(deadline()) {
        assert!(thread.wait_done(None));
    }
    assert_eq!(result.read(), 7);
}

#[test]
fn a_kernel_thread_joins_until_a_deadline() {
    model(|| {
        let joiner = Core::new();
        let clock = loom::thread::spawn(strike);
        one_ends(joiner.thread(), finish, wait_twice);
        clock.join().unwrap();
    });
}

#[test]
fn a_green_thread_joins_until_a_deadline() {
    model(|| {
        let joiner = Green::new();
        let timer = {
            let joiner = Arc::clone(&joiner);
            loom::thread::spawn(move || joiner.fire())
        };
        one_ends(joiner.thread(), finish, wait_twice);
        timer.join().unwrap();
    });
}

/// The end without its release: the joiner may not see the result.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_finish_without_release() {
    model(|| {
        let joiner = Core::new();
        let finish = |thread: ThreadRef| thread.exit.0.store(DONE, Ordering::Relaxed);
        one_ends(joiner.thread(), finish, |thread, result| {
            while !thread.is_done() {
                loom::thread::yield_now();
            }
            assert_eq!(result.read(), 7);
        });
    });
}

/// The end looks for a joiner before it writes: one that comes in between sleeps for ever.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_look_before_done() {
    model(|| {
        let joiner = Green::new();
        let finish = |thread: ThreadRef| {
            let joiner = thread.exit.0.load(Ordering::Acquire);
            thread.exit.0.store(DONE, Ordering::Release);
            // SAFETY: as in `finish`.
            if let Some(joiner) = unsafe { joiner.as_ref() } {
                let (thread, word) = (joiner.thread, std::ptr::from_ref(joiner.word.futex()));
                joiner.word.settle(ENDED);
                thread.backend().wake(thread, word);
            }
        };
        one_ends(joiner.thread(), finish, wait);
    });
}
