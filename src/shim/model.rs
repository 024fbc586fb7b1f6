//! What is below this crate's locks in a program's own models, in place of the protocols: loom's parts.
//!
//! **Problem.** A check of code that uses a lock needs every order of that code's steps, not of the lock's.
//! The lock's steps are already modelled, and each lock and unlock of the real one is many steps.
//!
//! **Rejected.** A model of the wait queue below the real locks. Every lock would still be several steps.
//! And what threads share would have to exist before they start, which a program cannot ensure.
//!
//! **Protocol.** What programs see of a lock is the same file for both (`sync/mutex.rs` and its like). The
//! types here have the methods that such a file calls. Each is a state in a [`Monitor`]: under a lock of
//! loom's, which is created at its first use, so that `const fn new` stays one. Unlike atomics, loom's locks
//! may be created in any thread. `loom::sync::Mutex` cannot be the program's lock itself. Loom takes a thread
//! that is about to try for one that waits, and reports deadlocks that do not exist.
//!
//! For waits, a deadline is a *may*. The scheduler lets the thread look again at some moment, and tries
//! every moment. If the wait has not been granted by then, it is over without success. Only the first expiry
//! at an object happens without a yield, so that a loop around such a wait lets others go on. No thread is
//! interrupted.
//!
//! **Panics.** All threads of a model run on one kernel thread, and share its count of panics. So a thread
//! that unwinds lets others run, which then unwind by that count. And a lock of loom's is poisoned if the
//! count has changed between the creation and the drop of its guard. So no step that may switch is made while
//! one of loom's guards is held. A wait gives the guard up first, and notifications come after it.

pub(crate) mod barrier;
pub(crate) mod condvar;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod rwlock;
pub(crate) mod semaphore;

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::park::wait::{Wait, WaitError};

/// What a lock orders needs no step of its own. The owner's guard may set it while a failed model unwinds,
/// and then nothing of loom's can be used.
pub(crate) use std::sync::atomic::AtomicBool;

/// A state under a lock of loom's, and the threads that wait for a change of it.
struct Monitor<S> {
    start: S,
    parts: OnceLock<Parts<S>>,
    expiries: Expiries,
}

struct Parts<S> {
    state: loom::sync::Mutex<State<S>>,
    /// All waiters look again. One of them may be next, or a thread that has not waited.
    changed: loom::sync::Condvar,
}

struct State<S> {
    current: S,
    waiting: usize,
}

type Held<'a, S> = loom::sync::MutexGuard<'a, State<S>>;

// As for the real locks.
impl<S> RefUnwindSafe for Monitor<S> {}

impl<S: Clone> Monitor<S> {
    const fn new(start: S) -> Self {
        Self { start, parts: OnceLock::new(), expiries: Expiries(Cell::new(0)) }
    }

    fn enter(&self) -> (&Parts<S>, Held<'_, S>) {
        let parts = self.parts.get_or_init(|| Parts {
            state: loom::sync::Mutex::new(State { current: self.start.clone(), waiting: 0 }),
            changed: loom::sync::Condvar::new(),
        });
        (parts, parts.state.lock().expect("no poison"))
    }

    /// Looks at the state, or changes it in a way for which no thread waits.
    fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        f(&mut self.enter().1.current)
    }

    fn has_waiters(&self) -> bool {
        self.enter().1.waiting > 0
    }

    /// Changes the state, and lets the waiters look again.
    fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let (parts, mut held) = self.enter();
        let result = change(&mut held.current);
        let waiting = held.waiting;
        drop(held);
        if waiting > 0 {
            parts.changed.notify_all();
        }
        result
    }

    /// Waits until `attempt` returns something. If the wait ends before, calls `give_up`.
    fn wait<R>(
        &self,
        wait: Wait,
        mut attempt: impl FnMut(&mut S) -> Option<R>,
        give_up: impl FnOnce(&mut S),
    ) -> Result<R, WaitError> {
        let (parts, mut held) = self.enter();
        if wait.deadline.is_some() {
            if let Some(result) = attempt(&mut held.current) {
                return Ok(result);
            }
            drop(held);
            return self
                .change(|state| {
                    attempt(state).or_else(|| {
                        give_up(state);
                        None
                    })
                })
                .ok_or_else(|| {
                    self.expiries.one_more();
                    WaitError::TimedOut
                });
        }
        loop {
            if let Some(result) = attempt(&mut held.current) {
                return Ok(result);
            }
            held.waiting += 1;
            held = parts.changed.wait(held).expect("no poison");
            held.waiting -= 1;
        }
    }
}

impl<S: Clone + Default> Default for Monitor<S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S> fmt::Debug for Monitor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// How often waits with a deadline have expired at an object.
struct Expiries(Cell<u32>);

// SAFETY: loom runs the threads of a model one at a time, on one kernel thread.
unsafe impl Sync for Expiries {}

impl Expiries {
    /// Counts one more expiry.
    fn one_more(&self) {
        if self.0.replace(self.0.get() + 1) > 0 {
            loom::thread::yield_now();
        }
    }
}

/// Makes a step of a destructor. Returns `None` if the step cannot be made while a thread unwinds.
///
/// If the program catches that panic, other threads wait for the step. If it does not, the model has failed,
/// and loom's objects may be of no use any more. Then no thread needs the step. A panic of the step within
/// another panic would end the process.
fn also_unwinding<R>(step: impl FnOnce() -> R) -> Option<R> {
    if std::thread::panicking() { catch_unwind(AssertUnwindSafe(step)).ok() } else { Some(step()) }
}
