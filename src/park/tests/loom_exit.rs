//! The end of a thread against who waits for it: the joiner sleeps no longer than that, sees all that the thread did, and
//! is woken once; by kernel and by green joiners, with a deadline and without. And against a handle that is dropped: one of
//! the two disposes of the result, and one gives up the reference, after all that the other did.

use std::sync::Arc;

use super::{DETACHED, DONE, Detached, ENDED, LEFT};
use crate::park::tests::loom_model::{Core, Green, deadline, model, on};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU32, Ordering};
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
    assert!(!thread.finish(), "nobody has detached it");
}

/// A thread of a scope.
fn leave_and_finish(thread: ThreadRef) {
    assert!(thread.leave_result());
    finish(thread);
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

#[test]
fn a_green_thread_joins_one_that_leaves_its_result_first() {
    model(|| {
        let joiner = Green::new();
        one_ends(joiner.thread(), leave_and_finish, wait);
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

#[test]
fn a_deadline_passes_while_the_result_is_left() {
    model(|| {
        let joiner = Green::new();
        let timer = {
            let joiner = Arc::clone(&joiner);
            loom::thread::spawn(move || joiner.fire())
        };
        one_ends(joiner.thread(), leave_and_finish, wait_twice);
        timer.join().unwrap();
    });
}

/// What a thread and its handle share.
struct Shared {
    /// It lies in the core: the core's next life writes its closure there.
    result: UnsafeCell<u32>,
    disposed: AtomicU32,
    /// The rest of the core. Read until the reference is released, then written by the core's next life.
    core: UnsafeCell<u32>,
    released: AtomicU32,
}

// SAFETY: what the models are to show.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn dispose(&self) {
        // SAFETY: checked by loom.
        self.result.with_mut(|result| assert_eq!(std::mem::take(unsafe { &mut *result }), 7));
        self.disposed.fetch_add(1, Ordering::Relaxed);
    }

    fn use_core(&self) {
        self.core.with(|_| ());
    }

    /// Gives up the reference, which starts the core's next life at once.
    fn release(&self) {
        self.core.with_mut(|_| ());
        self.result.with_mut(|_| ());
        self.released.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is left out of the protocol, if anything.
#[derive(Clone, Copy)]
struct Verbs {
    leave: Option<fn(ThreadRef) -> bool>,
    finish: fn(ThreadRef) -> bool,
    detach: fn(ThreadRef, &Shared) -> Detached<()>,
}

const DETACHES: Verbs = Verbs {
    leave: None,
    finish: |thread| thread.finish(),
    detach: |thread, shared| thread.detach(|| shared.dispose()),
};
const LEAVES: Verbs = Verbs { leave: Some(|thread| thread.leave_result()), ..DETACHES };

/// A thread ends while its handle is dropped.
fn both_go(verbs: Verbs) {
    model(move || {
        let core = Core::new();
        let thread = core.thread();
        let shared = Arc::new(Shared {
            result: UnsafeCell::new(0),
            disposed: AtomicU32::from(0),
            core: UnsafeCell::new(0),
            released: AtomicU32::from(0),
        });
        // What the model meets at comes into being before the other thread starts.
        shared.result.with(|_| ());
        shared.use_core();
        assert!(!thread.is_done());
        let theirs = Arc::clone(&shared);
        let other = loom::thread::spawn(move || {
            // SAFETY: checked by loom.
            theirs.result.with_mut(|result| unsafe { *result = 7 });
            // As `packet::run`.
            let mut open = true;
            if thread.is_detached() {
                theirs.dispose();
                open = false;
            } else if let Some(leave) = verbs.leave {
                if !leave(thread) {
                    theirs.dispose();
                }
                open = false;
            }
            theirs.use_core();
            if (verbs.finish)(thread) {
                if open {
                    theirs.dispose();
                }
                theirs.release();
            }
        });
        shared.use_core();
        if let Detached::HasEnded(()) = (verbs.detach)(thread, &shared) {
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

/// Both look before they write, and find each other still there.
#[test]
#[should_panic(expected = "results disposed of")]
fn negative_finish_looks_then_writes() {
    let finish = |thread: ThreadRef| {
        let detached = thread.is_detached();
        thread.exit.0.store(DONE, Ordering::Release);
        detached
    };
    both_go(Verbs { finish, ..DETACHES });
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
    both_go(Verbs { detach, ..DETACHES });
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
    both_go(Verbs { detach, ..LEAVES });
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
    both_go(Verbs { leave: Some(leave), ..DETACHES });
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
