//! Doing something once: `Once`, and on top of it [`OnceLock`] and [`LazyLock`].
//!
//! This file, `lock.rs` and `lazy.rs` have what programs see. `protocol.rs` says how it works. In
//! models of programs, something simpler takes the place of that.

mod lazy;
mod lock;
mod protocol;
mod word;

crate::shim::swap! { use protocol::{Phase, Protocol}; use crate::shim::model::once::{Phase, Protocol}; }

use std::cell::Cell;
use std::fmt;

use crate::park::wait::{Wait, WaitError, timed};

pub use lazy::LazyLock;
pub use lock::OnceLock;

/// Something that is done once, by the first thread to come, while the others wait: [`std::sync::Once`]
/// for threads of any kind.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Once;
///
/// static SETUP: Once = Once::new();
///
/// SETUP.call_once(|| println!("only once"));
/// SETUP.call_once(|| unreachable!());
/// assert!(SETUP.is_completed());
/// ```
///
/// # Blocks
///
/// A thread that comes while another runs its closure, until that has ended. The closure may block, and a
/// green thread may migrate meanwhile.
pub struct Once {
    protocol: Protocol,
}

/// The argument that [`Once::call_once_force`] passes to its closure.
pub struct OnceState {
    poisoned: bool,
    then: Cell<Phase>,
}

impl OnceState {
    /// Returns `true` if an earlier closure has panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use std::panic;
    ///
    /// let once = Once::new();
    /// assert!(panic::catch_unwind(|| once.call_once(|| panic!("on purpose"))).is_err());
    /// once.call_once_force(|state| assert!(state.is_poisoned()));
    /// once.call_once(|| unreachable!());
    /// ```
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Calls `f` with this state. Returns how it has ended.
    #[inline]
    fn tell(poisoned: bool, f: impl FnOnce(&Self)) -> Phase {
        let state = Self { poisoned, then: Cell::new(Phase::Done) };
        f(&state);
        state.then.get()
    }

    /// Calls `f` with this state, for an initialization that is not this module's.
    pub(super) fn call(poisoned: bool, f: impl FnOnce(&Self)) {
        Self::tell(poisoned, f);
    }

    /// Notes that the closure has failed without a panic.
    fn fail(&self) {
        self.then.set(Phase::Failed);
    }
}

impl Once {
    /// Creates a `Once` that is not done.
    #[must_use]
    pub const fn new() -> Self {
        Self { protocol: Protocol::new(Phase::Fresh) }
    }

    /// Returns a `Once` that is done, so it never calls a closure.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{Once, OncePhase};
    ///
    /// let once = Once::new_completed();
    /// once.call_once(|| unreachable!());
    /// assert_eq!(once.state(), OncePhase::Done);
    /// ```
    #[must_use]
    pub const fn new_completed() -> Self {
        Self { protocol: Protocol::new(Phase::Done) }
    }

    super::impls::calls_once! { "selvedge::sync::Once" }

    /// [`call_once_force`](Self::call_once_force) that waits for another thread's closure as `wait` says. An
    /// interrupt does not end the thread's own closure.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    ///
    /// # Errors
    ///
    /// [`WaitError`], and `f` was not called.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_force_with<F: FnOnce(&OnceState)>(&self, wait: Wait, f: F) -> Result<(), WaitError> {
        wait.begin()?;
        self.call(true, || wait, f)
    }

    /// Returns `true` if a closure has returned. What it did is then visible. Returns `false` while one
    /// runs, and after a panic.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.protocol.is_done()
    }

    /// [`Protocol::call`] with a closure that gets an [`OnceState`].
    #[inline]
    #[track_caller]
    fn call_as(
        &self,
        what: &str,
        force: bool,
        wait: Wait,
        f: impl FnOnce(&OnceState),
    ) -> Result<(), WaitError> {
        self.protocol.call(what, force, wait, |poisoned| OnceState::tell(poisoned, f))
    }

    /// [`call_as`](Self::call_as), unless a closure has returned. (In [`Wait::run`], a panic would not name
    /// the caller's line.)
    #[inline]
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
        self.call_as("Once", force, wait(), f).map_err(WaitError::reported)
    }
}

#[cold]
#[track_caller]
fn poisoned(what: &str) -> ! {
    panic!("{what} instance has previously been poisoned");
}

#[cold]
#[track_caller]
fn recursive(what: &str) -> ! {
    panic!("reentrant init: the closure of this {what} waits for its own end");
}

/// The phase of a [`Once`], as [`Once::state`] returns it. (parking_lot calls this type `OnceState`. In std,
/// that is the type of the argument that [`Once::call_once_force`] passes to its closure.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OncePhase {
    /// No closure has been called.
    New,
    /// A closure has panicked.
    Poisoned,
    /// A thread is running its closure.
    InProgress,
    /// A closure has returned.
    Done,
}

impl OncePhase {
    /// Returns `true` if a closure has panicked and no closure has been called since.
    #[must_use]
    pub fn poisoned(self) -> bool {
        self == Self::Poisoned
    }

    /// Returns `true` if a closure has returned.
    #[must_use]
    pub fn done(self) -> bool {
        self == Self::Done
    }
}

impl Once {
    /// Returns the current phase. Only [`OncePhase::Done`] lasts.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::{Once, OncePhase};
    ///
    /// let once = Once::new();
    /// assert_eq!(once.state(), OncePhase::New);
    /// once.call_once(|| assert_eq!(once.state(), OncePhase::InProgress));
    /// assert!(once.state().done());
    /// ```
    #[must_use]
    pub fn state(&self) -> OncePhase {
        if self.is_completed() {
            return OncePhase::Done;
        }
        match self.protocol.phase() {
            Phase::Fresh => OncePhase::New,
            Phase::Runs => OncePhase::InProgress,
            Phase::Failed => OncePhase::Poisoned,
            Phase::Done => OncePhase::Done,
        }
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

crate::shown::debug! { [] Once: "Once" }

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.poisoned).finish()
    }
}

impl Once {
    /// Waits until a closure has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    ///
    /// static READY: Once = Once::new();
    ///
    /// let thread = std::thread::spawn(|| READY.wait());
    /// READY.call_once(|| ());
    /// thread.join().unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// If a closure has panicked, and no other has returned. If the running thread runs the closure.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    #[track_caller]
    pub fn wait(&self) {
        if self.is_completed() {
            return;
        }
        let done = self.protocol.wait("Once", false, Wait::forever());
        debug_assert!(done.is_ok());
    }

    /// [`wait`](Self::wait) that waits on after a panic.
    ///
    /// # Panics
    ///
    /// If the running thread runs the closure.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    #[track_caller]
    pub fn wait_force(&self) {
        if self.is_completed() {
            return;
        }
        let done = self.protocol.wait("Once", true, Wait::forever());
        debug_assert!(done.is_ok());
    }

    timed! {
        wait: ". Returns `true` if a closure has returned"
        /// # Examples
        ///
        /// ```
        /// use selvedge::sync::Once;
        /// use std::time::Duration;
        ///
        /// assert!(!Once::new().wait_for(Duration::from_millis(1)));
        /// ```
        ///
        /// # Panics
        ///
        /// As [`wait`](Self::wait).
        #[must_use = "after a timeout it is not done"]
        #[track_caller]
        pub fn wait_for, wait_until(&self) -> bool {
            |limit| self.is_completed() || self.protocol.wait("Once", false, limit()).is_ok()
        }
    }

    /// [`wait`](Self::wait) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// thread::current().interrupt();
    /// let wait = Wait::forever().interruptible();
    /// assert_eq!(Once::new().wait_with(wait), Err(WaitError::Interrupted));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_with(&self, wait: Wait) -> Result<(), WaitError> {
        wait.begin()?;
        self.protocol.wait("Once", false, wait).map_err(WaitError::reported)
    }

    timed! {
        wait_force: ". Returns `true` if a closure has returned"
        /// # Panics
        ///
        /// As [`wait_force`](Self::wait_force).
        #[must_use = "after a timeout it is not done"]
        #[track_caller]
        pub fn wait_force_for, wait_force_until(&self) -> bool {
            |limit| self.is_completed() || self.protocol.wait("Once", true, limit()).is_ok()
        }
    }

    /// [`wait_with`](Self::wait_with) that waits on after a panic.
    ///
    /// # Panics
    ///
    /// As [`wait_force`](Self::wait_force).
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_force_with(&self, wait: Wait) -> Result<(), WaitError> {
        wait.begin()?;
        self.protocol.wait("Once", true, wait).map_err(WaitError::reported)
    }
}
