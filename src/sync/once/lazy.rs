//! A value that is made when it is first wanted.
//!
//! The payload is the closure until it is called, and the value after that. The phase of the [`Once`]
//! says what it holds:
//!
//! | phase | the payload is |
//! |---|---|
//! | not done | the closure |
//! | runs | nothing: the closure is on the stack of the thread that runs it |
//! | failed | nothing |
//! | done | the value |

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;

use super::{Once, Phase, poisoned};
use crate::park::wait::{Wait, WaitError, timed};
use crate::shim::UnsafeCell;

/// A value that is made by the first thread that wants it: [`std::sync::LazyLock`] for threads of any kind.
///
/// # Examples
///
/// ```
/// use selvedge::sync::LazyLock;
/// use std::collections::HashMap;
///
/// static PORTS: LazyLock<HashMap<&str, u16>> = LazyLock::new(|| HashMap::from([("http", 80), ("https", 443)]));
///
/// assert_eq!(PORTS["http"], 80);
/// ```
///
/// # Panics
///
/// If a thread wants the value after the closure has panicked, or within the closure.
///
/// # Blocks
///
/// A thread that wants the value while another makes it. The closure may block, and a green thread may
/// migrate meanwhile.
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    payload: UnsafeCell<Payload<T, F>>,
}

/// The closure or the value. Both lie at its beginning.
#[repr(C)]
union Payload<T, F> {
    closure: ManuallyDrop<F>,
    value: ManuallyDrop<T>,
}

// SAFETY: one thread calls the closure (hence `F: Send`), which makes the value (hence `T: Send`). Many
// threads read it after that.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}
// SAFETY: the closure or the value moves to another thread, and nothing else that belongs to a thread.
unsafe impl<T: Send, F: Send> Send for LazyLock<T, F> {}

// As in std.
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

/// The name in panics.
const NAME: &str = "LazyLock";

impl<T, F> LazyLock<T, F> {
    /// Returns the phase. The caller has exclusive access.
    fn phase(&mut self) -> Phase {
        self.once.protocol.phase()
    }

    /// Returns the value, if it has been made.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::LazyLock;
    ///
    /// let lazy = LazyLock::new(|| 92);
    /// assert_eq!(LazyLock::get(&lazy), None);
    /// assert_eq!(*lazy, 92);
    /// assert_eq!(LazyLock::get(&lazy), Some(&92));
    /// ```
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    #[must_use]
    pub fn get(this: &Self) -> Option<&T> {
        // SAFETY: `once` is done, and this thread has seen that.
        this.once.is_completed().then(|| unsafe { this.get_done() })
    }

    /// Returns the value, if it has been made.
    #[must_use]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        this.once.is_completed().then(|| {
            // SAFETY: done, so the payload is the value; the caller has exclusive access.
            this.payload.with_mut(|payload| unsafe { &mut *payload.cast::<T>() })
        })
    }

    /// Returns the value.
    ///
    /// # Safety
    /// `once` is done, and this thread has seen that.
    #[inline]
    unsafe fn get_done(&self) -> &T {
        // SAFETY: the caller's promise: the payload is the value. No thread writes it while it is
        // shared.
        self.payload.with(|payload| unsafe { &*payload.cast::<T>() })
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Creates a value that `f` will make.
    #[must_use]
    pub const fn new(f: F) -> Self {
        Self { once: Once::new(), payload: UnsafeCell::new(Payload { closure: ManuallyDrop::new(f) }) }
    }

    /// Returns the value, and makes it if it has not been made before. The same as `*this`, but explicit.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::LazyLock;
    ///
    /// let lazy = LazyLock::new(|| 92);
    /// assert_eq!(LazyLock::force(&lazy), &92);
    /// ```
    ///
    /// # Panics
    ///
    /// If the closure does, or has done. If the closure itself calls this.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        match Self::get(this) {
            Some(value) => value,
            None => this.make(Wait::forever()).expect("a wait without a deadline ends with the value"),
        }
    }

    timed! {
        force: ". Only the wait for another thread's value is limited"
        /// # Examples
        ///
        /// ```
        /// use selvedge::sync::LazyLock;
        /// use std::time::Duration;
        ///
        /// let lazy = LazyLock::new(|| 92);
        /// assert_eq!(LazyLock::force_for(&lazy, Duration::ZERO), Some(&92));
        /// ```
        ///
        /// # Panics
        ///
        /// As [`force`](Self::force).
        #[track_caller]
        pub fn force_for, force_until(this: &Self) -> Option<&T> {
            |limit| Self::get(this).or_else(|| this.make(limit()).ok())
        }
    }

    /// [`force`](Self::force) that waits for another thread's value as `wait` says. An interrupt does not end
    /// the closure.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::LazyLock;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (lazy, wait) = (LazyLock::new(|| 92), Wait::forever().interruptible());
    /// thread::current().interrupt();
    /// assert_eq!(LazyLock::force_with(&lazy, wait), Err(WaitError::Interrupted));
    /// assert_eq!(LazyLock::force_with(&lazy, wait), Ok(&92));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[track_caller]
    pub fn force_with(this: &Self, wait: Wait) -> Result<&T, WaitError> {
        wait.begin()?;
        this.make(wait).map_err(WaitError::reported)
    }

    #[cold]
    #[track_caller]
    fn make(&self, wait: Wait) -> Result<&T, WaitError> {
        self.once.call_as(NAME, false, wait, |_| self.fill())?;
        // SAFETY: `once` is done, and this thread has seen that.
        Ok(unsafe { self.get_done() })
    }

    /// Calls the closure and stores its value. Called by the closure of `once`.
    #[inline]
    fn fill(&self) {
        // SAFETY: the one closure of `once` runs, so the payload is the closure. No other thread looks
        // at it meanwhile.
        let closure = self.payload.with(|payload| unsafe { ptr::read(payload.cast::<F>()) });
        let value = closure();
        // SAFETY: no other thread looks at the payload; what is overwritten has been taken.
        self.payload.with_mut(|payload| unsafe { ptr::write(payload.cast::<T>(), value) });
    }

    /// [`force`](Self::force) with exclusive access.
    ///
    /// # Panics
    ///
    /// If the closure does, or has done.
    #[track_caller]
    pub fn force_mut(this: &mut Self) -> &mut T {
        Self::force(this);
        Self::get_mut(this).expect("made just now")
    }

    /// Returns the value if it has been made, and otherwise the closure.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::LazyLock;
    ///
    /// let lazy = LazyLock::new(|| "made".to_string());
    /// LazyLock::force(&lazy);
    /// assert_eq!(LazyLock::into_inner(lazy).ok().unwrap(), "made");
    /// ```
    ///
    /// # Errors
    ///
    /// The closure.
    ///
    /// # Panics
    ///
    /// If the closure has panicked.
    #[track_caller]
    pub fn into_inner(mut this: Self) -> Result<T, F> {
        let phase = this.phase();
        if !matches!(phase, Phase::Done | Phase::Fresh) {
            poisoned(NAME);
        }
        let this = ManuallyDrop::new(this);
        this.payload.with(|payload| {
            if phase == Phase::Done {
                // SAFETY: done: the payload is the value. It is read for the last time, because `this`
                // is not dropped.
                Ok(unsafe { ptr::read(payload.cast::<T>()) })
            } else {
                // SAFETY: not begun: the payload is the closure. It is read for the last time.
                Err(unsafe { ptr::read(payload.cast::<F>()) })
            }
        })
    }
}

impl<T, F> Drop for LazyLock<T, F> {
    fn drop(&mut self) {
        let phase = self.phase();
        self.payload.with_mut(|payload| match phase {
            // SAFETY: done: the payload is the value, and it is not used again.
            Phase::Done => unsafe { ptr::drop_in_place(payload.cast::<T>()) },
            // SAFETY: not begun: the payload is the closure.
            Phase::Fresh => unsafe { ptr::drop_in_place(payload.cast::<F>()) },
            Phase::Failed | Phase::Runs => {}
        });
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    /// Does [`force`](Self::force).
    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    /// Does [`force_mut`](Self::force_mut).
    #[inline]
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        Self::force_mut(self)
    }
}

impl<T, F> From<T> for LazyLock<T, F> {
    /// Creates a value that has been made.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::LazyLock;
    ///
    /// let mut lazy: LazyLock<_> = LazyLock::from(92);
    /// *lazy += 1;
    /// assert_eq!(LazyLock::get(&lazy), Some(&93));
    /// ```
    fn from(value: T) -> Self {
        Self {
            once: Once::new_completed(),
            payload: UnsafeCell::new(Payload { value: ManuallyDrop::new(value) }),
        }
    }
}

impl<T: Default> Default for LazyLock<T> {
    /// Creates a value that is made by `T::default` when it is wanted.
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple(NAME);
        match Self::get(self) {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}

#[cfg(all(test, loom))]
mod loom_lazy;
