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

    /// Calls `f`, if this is the first call. If another thread is running its closure, waits for the end
    /// of that. When this returns, a closure has returned, and what it did is visible.
    ///
    /// # Panics
    ///
    /// If `f` does: this `Once` is then *poisoned*. If it is poisoned. If the running thread runs the
    /// closure: it would wait for itself.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if self.is_completed() {
            return;
        }
        let _ = self.call("Once", false, Wait::forever(), |_| f());
    }

    /// [`call_once`](Self::call_once) that ignores poisoning. After a panic, the next such call calls its
    /// closure, which is told of the panic. If that returns, this is done.
    ///
    /// # Panics
    ///
    /// If `f` does: this `Once` is then poisoned. If the running thread runs the closure.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[inline]
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if self.is_completed() {
            return;
        }
        let _ = self.call("Once", true, Wait::forever(), f);
    }

    timed! {
        call_once: ". Only the wait for another thread's closure is limited. \
            Returns `true` if a closure has returned"
        /// # Examples
        ///
        /// ```
        /// use selvedge::sync::Once;
        /// use std::time::Duration;
        ///
        /// let once = Once::new();
        /// let slow = once.call_once_for(|| assert!(!once.is_completed()), Duration::ZERO);
        /// assert!(slow, "no other thread runs one, and its own may take any time");
        /// ```
        ///
        /// # Panics
        ///
        /// As [`call_once`](Self::call_once).
        #[must_use = "after a timeout it is not done"]
        #[track_caller]
        pub fn call_once_for, call_once_until [F: FnOnce()] (&self, f: F) -> bool {
            |limit| self.is_completed() || self.call("Once", false, limit(), |_| f()).is_ok()
        }
    }

    timed! {
        call_once_force: ". Only the wait for another thread's closure is limited. \
            Returns `true` if a closure has returned"
        /// # Panics
        ///
        /// As [`call_once_force`](Self::call_once_force).
        #[must_use = "after a timeout it is not done"]
        #[track_caller]
        pub fn call_once_force_for, call_once_force_until [F: FnOnce(&OnceState)] (&self, f: F) -> bool {
            |limit| self.is_completed() || self.call("Once", true, limit(), f).is_ok()
        }
    }

    /// [`call_once`](Self::call_once) that waits for another thread's closure as `wait` says. An interrupt
    /// does not end the thread's own closure.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (once, wait) = (Once::new(), Wait::forever().interruptible());
    /// thread::current().interrupt();
    /// assert_eq!(once.call_once_with(wait, || unreachable!()), Err(WaitError::Interrupted));
    /// assert!(once.call_once_with(wait, || ()).is_ok() && once.is_completed());
    /// ```
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Errors
    ///
    /// [`WaitError`], and `f` was not called.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[track_caller]
    pub fn call_once_with<F: FnOnce()>(&self, wait: Wait, f: F) -> Result<(), WaitError> {
        self.call_reporting("Once", false, wait, |_| f())
    }

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
        self.call_reporting("Once", true, wait, f)
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
    fn call(&self, what: &str, force: bool, wait: Wait, f: impl FnOnce(&OnceState)) -> Result<(), WaitError> {
        self.protocol.call(what, force, wait, |poisoned| OnceState::tell(poisoned, f))
    }

    /// [`call`](Self::call) that takes the thread's interrupt. (In [`Wait::run`], a panic would not name the
    /// caller's line.)
    #[track_caller]
    fn call_reporting(
        &self,
        what: &str,
        force: bool,
        wait: Wait,
        f: impl FnOnce(&OnceState),
    ) -> Result<(), WaitError> {
        wait.begin()?;
        self.call(what, force, wait, f).map_err(WaitError::reported)
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
