//! Doing something once: `Once`, and on top of it [`OnceLock`] and [`LazyLock`].
//!
//! What programs see is here and in `call.rs`, `wait.rs`, `lock.rs` and `lazy.rs`; how it works is in `protocol.rs`. In programs' own models
//! something simpler takes the place of that.

mod call;
mod lazy;
mod lock;
mod wait;

crate::shim::swap! {
    {
        mod protocol;
        mod word;

        use protocol::{Phase, Protocol};
    }
    {
        use crate::shim::model::once::{Phase, Protocol};
    }
}

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use crate::park::interrupt::Interrupted;
use crate::shim::const_new;
use crate::time;

pub use lazy::LazyLock;
pub use lock::OnceLock;

/// Something that is done once, by whichever thread comes first, while the others wait: [`std::sync::Once`] for threads of any
/// kind.
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
/// Who comes while another thread runs its closure, until that has ended. The closure may block as it likes, and a green thread may
/// migrate meanwhile.
pub struct Once {
    protocol: Protocol,
}

/// What [`Once::call_once_force`] tells its closure.
pub struct OnceState {
    poisoned: bool,
    then: Cell<Phase>,
}

impl OnceState {
    /// Whether an earlier closure has panicked.
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

    /// Calls `f`, which is told; how it has ended.
    #[inline]
    fn tell(poisoned: bool, f: impl FnOnce(&Self)) -> Phase {
        let state = Self { poisoned, then: Cell::new(Phase::Done) };
        f(&state);
        state.then.get()
    }

    /// The closure has failed without a panic.
    fn fail(&self) {
        self.then.set(Phase::Failed);
    }
}

impl Once {
    const_new! {
        /// Something that has not been done.
        #[must_use]
        pub const fn new() -> Self {
            Self { protocol: Protocol::new(Phase::Fresh) }
        }
    }

    const_new! {
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
    }

    /// Calls `f`, if this is the first call. If another thread runs its closure just now, waits for that one's end. When this
    /// returns, a closure has returned, and what it did is visible.
    ///
    /// # Panics
    ///
    /// If `f` does: this `Once` is then *poisoned*. If it is poisoned. If the running thread is the one that runs the
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
        self.call("Once", false, None, |_| f());
    }

    /// [`call_once`](Self::call_once) that does not mind poisoning: after a panic, the closure of the next such call is called, and
    /// told of it; if that returns, this is done.
    ///
    /// # Panics
    ///
    /// If `f` does: this `Once` is then poisoned. If the running thread is the one that runs the closure.
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
        self.call("Once", true, None, f);
    }

    /// [`call_once`](Self::call_once) that waits for another thread's closure at most for `timeout`: whether a closure has returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Once;
    /// use std::time::Duration;
    ///
    /// let once = Once::new();
    /// let slow = once.call_once_for(|| assert!(!once.is_completed()), Duration::ZERO);
    /// assert!(slow, "nobody else runs one, and its own may take any time");
    /// ```
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn call_once_for<F: FnOnce()>(&self, f: F, timeout: Duration) -> bool {
        // The clock is asked only if it is not done.
        self.is_completed() || self.call("Once", false, time::after(timeout), |_| f())
    }

    /// [`call_once`](Self::call_once) that waits for another thread's closure at most until `deadline`: whether a closure has
    /// returned.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs its closure.
    #[must_use = "after a timeout it is not done"]
    #[track_caller]
    pub fn call_once_until<F: FnOnce()>(&self, f: F, deadline: Instant) -> bool {
        self.is_completed() || self.call("Once", false, Some(deadline), |_| f())
    }

    /// Whether a closure has returned. What it did is visible then. `false` while one runs, and after a panic.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.protocol.is_done()
    }

    /// [`Protocol::call`] with a closure that is told more.
    #[inline]
    #[track_caller]
    fn call(&self, what: &str, force: bool, deadline: Option<Instant>, f: impl FnOnce(&OnceState)) -> bool {
        self.protocol.call(what, force, deadline, |poisoned| OnceState::tell(poisoned, f))
    }

    /// [`Protocol::call_interruptible`] with a closure that is told more.
    #[track_caller]
    fn call_interruptible(
        &self,
        what: &str,
        force: bool,
        deadline: Option<Instant>,
        f: impl FnOnce(&OnceState),
    ) -> Result<bool, Interrupted> {
        self.protocol.call_interruptible(what, force, deadline, |poisoned| OnceState::tell(poisoned, f))
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

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once { .. }")
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState").field("poisoned", &self.poisoned).finish()
    }
}
