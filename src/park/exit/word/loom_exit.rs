//! The end of a thread against its joiner, and against a handle that is dropped.
//!
//! The joiner sleeps no longer than until the end, sees all that the thread did, and is woken once. There
//! are kernel and green joiners, with a deadline and without. Of the thread and its dropped handle, one
//! disposes of the result, and one gives up the reference, after all that the other did.

use std::sync::Arc;

use super::{DETACHED, DONE, Detached, LEFT};
use crate::park::exit::{Joiner, Watch};
use crate::park::priority::Priority;
use crate::park::sleep_word::GRANTED;
use crate::park::sleeper::Sleeper;
use crate::park::tests::loom_model::{Core, Green, Letter, deadline, model, on, spawn_with};
use crate::park::thread::{NO_ID, ThreadRef};
use crate::park::wait::Wait;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::strike;

/// Runs a thread that writes its result and ends by `finish`, while `joiner` joins it by `join`.
fn one_ends(
    joiner: ThreadRef,
    finish: impl FnOnce(ThreadRef) + Send + 'static,
    join: impl FnOnce(ThreadRef, &Letter),
) {
    let (ending, result) = (Core::new(), Arc::<Letter>::default());
    assert_eq!(result.read(), 0);
    let thread = ending.thread();
    let other = spawn_with(Arc::clone(&result), move |result| {
        result.write(7);
        finish(thread);
    });
    on(joiner, || join(thread, &result));
    other.join().unwrap();
    assert!(thread.is_done());
}

fn finish(thread: ThreadRef) {
    assert!(!thread.finish(), "it is not detached");
}

/// Ends a thread of a scope.
fn leave_and_finish(thread: ThreadRef) {
    assert!(thread.leave_result());
    finish(thread);
}

fn wait(thread: ThreadRef, result: &Letter) {
    thread.wait_done(Wait::forever()).unwrap();
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

#[test]
fn a_green_thread_joins_one_that_leaves_its_result_first() {
    model(|| {
        let joiner = Green::new();
        one_ends(joiner.thread(), leave_and_finish, wait);
    });
}

/// Waits with a deadline; if that comes first, waits again without one.
fn wait_twice(thread: ThreadRef, result: &Letter) {
    if thread.wait_done(Wait::by(deadline())).is_err() {
        thread.wait_done(Wait::forever()).unwrap();
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
        let timer = spawn_with(Arc::clone(&joiner), move |joiner| joiner.fire());
        one_ends(joiner.thread(), finish, wait_twice);
        timer.join().unwrap();
    });
}

#[test]
fn a_deadline_passes_while_the_result_is_left() {
    model(|| {
        let joiner = Green::new();
        let timer = spawn_with(Arc::clone(&joiner), move |joiner| joiner.fire());
        one_ends(joiner.thread(), leave_and_finish, wait_twice);
        timer.join().unwrap();
    });
}

/// Another event has settled the sleeper of a watch. The watch is taken back while the thread ends. The
/// thread does not touch the watch after that. If a watch comes too late, it sees what the thread did.
#[test]
fn a_watch_is_taken_back_while_the_thread_ends() {
    model(|| {
        let joiner = Core::new();
        one_ends(joiner.thread(), finish, |thread, result| {
            let sleeper = Sleeper::new();
            assert!(sleeper.try_claim());
            let watch = Watch::new(thread, &sleeper, GRANTED);
            // SAFETY: it stays until it has been taken back.
            if unsafe { watch.enter() } {
                watch.leave();
            } else {
                assert_eq!(result.read(), 7);
            }
            // SAFETY: checked by loom.
            unsafe { watch.through.unsync_load() };
        });
    });
}

/// Looks at a core from outside, while the core begins another life by `begin`.
fn a_look_at_the_next_life(begin: fn(ThreadRef)) {
    model(move || {
        let core = Core::new();
        let thread = core.thread();
        let last = thread.id();
        finish(thread);
        assert!(thread.is_done());
        let next = loom::thread::spawn(move || begin(thread));
        if !thread.is_done() {
            assert_ne!(thread.id(), last, "the last life's id");
        }
        next.join().unwrap();
    });
}

#[test]
fn a_look_that_finds_a_thread_alive_finds_its_id() {
    a_look_at_the_next_life(|thread| {
        // SAFETY: the last life has ended, and its reference is used again.
        unsafe { thread.core().begin(1, NO_ID, thread.backend(), None, None, Priority::Normal) };
    });
}

#[test]
#[should_panic(expected = "the last life's id")]
fn negative_the_exit_word_begins_first() {
    a_look_at_the_next_life(|thread| {
        thread.core().exit.begin();
        thread.core().go_on_with_id(0);
    });
}

/// What a thread and its handle share.
#[derive(Default)]
struct Shared {
    /// In the core: the core's next life writes its closure there.
    result: Letter,
    disposed: AtomicU32,
    /// The rest of the core. Read until the reference is released, then written by the core's next life.
    core: Letter,
    released: AtomicU32,
}

impl Shared {
    fn dispose(&self) {
        assert_eq!(self.result.read(), 7);
        self.result.write(0);
        self.disposed.fetch_add(1, Ordering::Relaxed);
    }

    fn use_core(&self) {
        self.core.read();
    }

    /// Gives up the reference, which starts the core's next life at once.
    fn release(&self) {
        self.core.write(0);
        self.result.write(0);
        self.released.fetch_add(1, Ordering::Relaxed);
    }
}

/// The steps of the protocol. A negative model replaces one.
#[derive(Clone, Copy)]
struct Steps {
    leave: Option<fn(ThreadRef) -> bool>,
    finish: fn(ThreadRef) -> bool,
    detach: fn(ThreadRef, &Shared) -> Detached<()>,
}

const DETACHES: Steps = Steps {
    leave: None,
    finish: |thread| thread.finish(),
    detach: |thread, shared| thread.detach(|| shared.dispose()),
};
const LEAVES: Steps = Steps { leave: Some(|thread| thread.leave_result()), ..DETACHES };

/// Ends a thread while its handle is dropped.
fn both_go(steps: Steps) {
    model(move || {
        let core = Core::new();
        let thread = core.thread();
        let shared: Arc<Shared> = Arc::default();
        // What the threads of the model share must exist before the other thread starts.
        shared.result.read();
        shared.use_core();
        assert!(!thread.is_done());
        let other = spawn_with(Arc::clone(&shared), move |theirs| {
            theirs.result.write(7);
            // As in `task::run`.
            let mut open = true;
            if thread.is_detached() {
                theirs.dispose();
                open = false;
            } else if let Some(leave) = steps.leave {
                if !leave(thread) {
                    theirs.dispose();
                }
                open = false;
            }
            theirs.use_core();
            if (steps.finish)(thread) {
                if open {
                    theirs.dispose();
                }
                theirs.release();
            }
        });
        shared.use_core();
        if let Detached::HasEnded(()) = (steps.detach)(thread, &shared) {
            shared.release();
        }
        other.join().unwrap();
        assert_eq!(shared.disposed.load(Ordering::Relaxed), 1, "results disposed of");
        assert_eq!(shared.released.load(Ordering::Relaxed), 1, "references released");
    });
}

#[test]
fn a_thread_ends_while_its_handle_is_dropped() {
    both_go(DETACHES);
}

#[test]
fn a_thread_leaves_its_result_while_its_handle_is_dropped() {
    both_go(LEAVES);
}

/// Both look before they write, and each finds the other still there.
#[test]
#[should_panic(expected = "results disposed of")]
fn negative_finish_looks_then_writes() {
    let finish = |thread: ThreadRef| {
        let detached = thread.is_detached();
        thread.exit.0.store(DONE, Ordering::Release);
        detached
    };
    both_go(Steps { finish, ..DETACHES });
}

/// The handle's last use of the core may come after its release by the thread.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_detach_without_release() {
    let detach = |thread: ThreadRef, shared: &Shared| match thread.exit.0.compare_exchange(
        std::ptr::null_mut(),
        DETACHED,
        Ordering::Acquire,
        Ordering::Acquire,
    ) {
        Ok(_) => Detached::Runs,
        Err(_) => Detached::HasEnded(shared.dispose()),
    };
    both_go(Steps { detach, ..DETACHES });
}

/// The handle gives up its reference before it disposes of the result. If the thread ends in between, the
/// core's next life has begun.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_detach_before_the_result_is_disposed_of() {
    let detach = |thread: ThreadRef, shared: &Shared| {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let mut seen = std::ptr::null_mut();
        while let Err(now) = thread.exit.0.compare_exchange(seen, DETACHED, success, failure) {
            if now == DONE {
                return Detached::HasEnded(shared.dispose());
            }
            seen = now;
        }
        if seen.is_null() { Detached::Runs } else { Detached::HasLeft(shared.dispose()) }
    };
    both_go(Steps { detach, ..LEAVES });
}

/// The handle may not see the result that it drops.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_leaving_without_release() {
    let leave = |thread: ThreadRef| {
        let left = std::ptr::without_provenance_mut(LEFT);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        thread.exit.0.compare_exchange(std::ptr::null_mut(), left, success, failure).is_ok()
    };
    both_go(Steps { leave: Some(leave), ..DETACHES });
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

/// The end looks for a joiner before it writes. A joiner that comes in between sleeps forever.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_look_before_done() {
    model(|| {
        let joiner = Green::new();
        let finish = |thread: ThreadRef| {
            let joiner = thread.exit.0.load(Ordering::Acquire);
            thread.exit.0.store(DONE, Ordering::Release);
            // SAFETY: the joiner sleeps until it is settled.
            if let Some(joiner) = unsafe { joiner.cast::<Joiner>().as_ref() } {
                let (thread, word) = (joiner.thread, std::ptr::from_ref(joiner.word.futex()));
                let _ = joiner.word.settle_for(false, GRANTED);
                thread.backend().wake(thread, word);
            }
        };
        one_ends(joiner.thread(), finish, wait);
    });
}
