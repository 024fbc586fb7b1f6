//! Something that is done once for several processes: a [`RawMutex`], and a word that says that it is done.
//!
//! **Protocol.** A thread that finds the word clear locks the mutex, looks again, runs its closure, and sets
//! the word. The mutex knows if the thread or its process has ended meanwhile, or has panicked: then the
//! `Once` is poisoned. The heir of the mutex passes that on, until a closure has mended it.

use std::fmt;

use super::RawMutex;
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::sync::robust::traits::Steps;
use crate::sync::robust::{Condition, RawRobust, RobustError};
use crate::sync::{OncePhase, OnceState};

/// Something that is done once, by the first thread to come from any of several processes, while the others
/// wait.
///
/// A zeroed one is not done. If a process is killed while it runs a closure, the `Once` is poisoned, as after
/// a panic. The others notice within a tenth of a second. [`call_once_force`](Self::call_once_force) then
/// does it all the same.
///
/// # Examples
///
/// ```
/// use selvedge::sync::process_shared::Once;
///
/// let once = Once::new();
/// once.call_once(|| println!("only once"));
/// once.call_once(|| unreachable!());
/// assert!(once.is_completed());
/// ```
///
/// # Blocks
///
/// A thread that comes while another runs its closure, until that has ended; see the [module](super).
#[derive(Default)]
#[repr(C)]
pub struct Once {
    done: AtomicU32,
    gate: RawMutex,
}

/// Ends a closure's run: by a panic, unless `done` was called.
struct Run<'a>(&'a Once);

impl Run<'_> {
    fn done(self) {
        let once = self.0;
        std::mem::forget(self);
        // Unless the closure has forked: in the child it is the parent's, which may not have returned yet.
        if once.gate.is_owned_by_current_thread() {
            // Release: pairs with the acquire of `is_completed`.
            once.done.store(1, Ordering::Release);
            once.gate.condition().mend();
            once.gate.pass_on();
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // The owner is the running thread, unless the closure has forked: in the child it is another's.
        let _ = self.0.gate.release(true);
    }
}

impl Once {
    /// Creates a `Once` that is not done.
    #[must_use]
    pub const fn new() -> Self {
        Self { done: AtomicU32::new(0), gate: RawMutex::new() }
    }

    crate::sync::impls::calls_once! { "selvedge::sync::process_shared::Once" }

    /// [`call_once_force`](Self::call_once_force) that waits for another thread's closure as `wait` says.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Errors
    ///
    /// [`WaitError`], and no closure was called.
    ///
    /// # Blocks
    ///
    /// As [`call_once_force`](Self::call_once_force).
    #[track_caller]
    pub fn call_once_force_with<F>(&self, wait: Wait, f: F) -> Result<(), WaitError>
    where
        F: FnOnce(&OnceState),
    {
        wait.begin()?;
        self.call(true, || wait, f)
    }

    /// Returns `true` if a closure has returned. What it did is then visible.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        // Acquire: pairs with the release of `Run::done`.
        self.done.load(Ordering::Acquire) != 0
    }

    /// Returns its state at this moment. A closure of a process that was killed counts as running until a
    /// thread has come and found that.
    #[must_use]
    pub fn state(&self) -> OncePhase {
        if self.is_completed() {
            OncePhase::Done
        } else if self.gate.is_locked() {
            OncePhase::InProgress
        } else if self.gate.condition().look() == Some(Condition::Consistent) {
            OncePhase::New
        } else {
            OncePhase::Poisoned
        }
    }

    #[track_caller]
    fn call(
        &self,
        force: bool,
        wait: impl FnOnce() -> Wait,
        f: impl FnOnce(&OnceState),
    ) -> Result<(), WaitError> {
        if self.is_completed() {
            return Ok(());
        }
        let found = match self.gate.acquire(wait()) {
            Ok(found) => found,
            Err(RobustError::TimedOut) => return Err(WaitError::TimedOut),
            Err(RobustError::Interrupted) => return Err(WaitError::Interrupted),
            Err(error) => refuse(error),
        };
        // It may be done although its process was killed afterwards, with the mutex held.
        if self.is_completed() {
            self.gate.condition().mend();
            self.gate.pass_on();
            return Ok(());
        }
        let poisoned = found != Condition::Consistent;
        if poisoned && !force {
            self.gate.pass_on();
            poison();
        }
        let run = Run(self);
        OnceState::call(poisoned, f);
        run.done();
        Ok(())
    }
}

#[cold]
#[track_caller]
fn refuse(error: impl fmt::Display) -> ! {
    panic!("a process-shared Once: {error}");
}

#[cold]
#[track_caller]
fn poison() -> ! {
    panic!("a process-shared Once is poisoned: the thread or process that ran its closure has failed");
}

crate::shown::debug! { [] Once: "Once", "state": |once| once.state() }
