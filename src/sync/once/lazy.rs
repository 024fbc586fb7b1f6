//! A value that is made when it is first wanted.
//!
//! One place holds the closure until it is called, and the value after that. Which of the two, or neither, it holds, is what the phase of
//! the [`Once`] says:
//!
//! | phase | the place holds |
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
use std::time::{Duration, Instant};

use super::{Once, Phase, poisoned};
use crate::park::interrupt::Interrupted;
use crate::shim::{UnsafeCell, const_new};
use crate::time;

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
/// Whoever wants the value of one whose closure has panicked. Whoever wants it in that closure.
///
/// # Blocks
///
/// Who wants the value while another thread makes it. The closure may block as it likes, and a green thread may migrate
/// meanwhile.
pub struct LazyLock<T, F = fn() -> T> {
    once: Once,
    place: UnsafeCell<Place<T, F>>,
}

/// Both lie at its beginning.
#[repr(C)]
union Place<T, F> {
    closure: ManuallyDrop<F>,
    value: ManuallyDrop<T>,
}

// SAFETY: the closure is called by one thread (hence `F: Send`), which makes the value (hence `T: Send`); many read it after that.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}
// SAFETY: what moves to another thread is the closure or the value, and nothing else that belongs to a thread.
unsafe impl<T: Send, F: Send> Send for LazyLock<T, F> {}

// As std has it.
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

/// What the panics call it.
const NAME: &str = "LazyLock";

impl<T, F> LazyLock<T, F> {
    /// The phase, for who has all to itself.
    fn phase(&mut self) -> Phase {
        self.once.protocol.phase()
    }

    /// The value, if it has been made.
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
        // SAFETY: done.
        this.once.is_completed().then(|| unsafe { this.get_done() })
    }

    /// The value, if it has been made.
    #[must_use]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        this.once.is_completed().then(|| {
            // SAFETY: done, so it is the value that is there; and the caller has all to itself.
            this.place.with_mut(|place| unsafe { &mut *place.cast::<T>() })
        })
    }

    /// # Safety
    /// `once` is done, and this thread has seen that.
    #[inline]
    unsafe fn get_done(&self) -> &T {
        // SAFETY: the caller's promise: it is the value that is there, and nobody writes it while it is shared.
        self.place.with(|place| unsafe { &*place.cast::<T>() })
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_new! {
        /// A value that `f` will make.
        #[must_use]
        pub const fn new(f: F) -> Self {
            Self { once: Once::new(), place: UnsafeCell::new(Place { closure: ManuallyDrop::new(f) }) }
        }
    }

    /// The value, which is made now if it has not been made before. As `*this`, for who wants to see that.
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
    /// If the closure does, now or before. If it is the closure that calls.
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[inline]
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        match Self::get(this) {
            Some(value) => value,
            None => this.make(None).expect("a wait without a deadline ends with the value"),
        }
    }

    /// [`force`](Self::force) that waits for another thread's value at most for `timeout`.
    ///
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
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[track_caller]
    pub fn force_for(this: &Self, timeout: Duration) -> Option<&T> {
        Self::get(this).or_else(|| this.make(time::after(timeout)))
    }

    /// [`force`](Self::force) that waits for another thread's value at most until `deadline`.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[track_caller]
    pub fn force_until(this: &Self, deadline: Instant) -> Option<&T> {
        Self::get(this).or_else(|| this.make(Some(deadline)))
    }

    /// [`force`](Self::force), unless the running thread is interrupted while another runs the closure. A thread that has been
    /// interrupted gets the error whether or not there is a value; if it is made in the same moment, the interrupt is left for the next
    /// wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::LazyLock;
    /// use selvedge::thread;
    ///
    /// let lazy = LazyLock::new(|| 92);
    /// thread::current().interrupt();
    /// assert!(LazyLock::force_interruptible(&lazy).is_err());
    /// assert_eq!(LazyLock::force_interruptible(&lazy), Ok(&92));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[track_caller]
    pub fn force_interruptible(this: &Self) -> Result<&T, Interrupted> {
        this.make_interruptible(None)
            .map(|value| value.expect("a wait without a deadline ends with the value"))
    }

    /// [`force_interruptible`](Self::force_interruptible) that waits at most for `timeout`: then `None`.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[track_caller]
    pub fn force_interruptible_for(this: &Self, timeout: Duration) -> Result<Option<&T>, Interrupted> {
        this.make_interruptible(time::after(timeout))
    }

    /// [`force_interruptible`](Self::force_interruptible) that waits at most until `deadline`: then `None`.
    ///
    /// # Panics
    ///
    /// As [`force`](Self::force).
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    ///
    /// # Blocks
    ///
    /// The thread, while another runs the closure.
    #[track_caller]
    pub fn force_interruptible_until(this: &Self, deadline: Instant) -> Result<Option<&T>, Interrupted> {
        this.make_interruptible(Some(deadline))
    }

    #[cold]
    #[track_caller]
    fn make(&self, deadline: Option<Instant>) -> Option<&T> {
        let done = self.once.call(NAME, false, deadline, |_| self.fill());
        // SAFETY: done.
        done.then(|| unsafe { self.get_done() })
    }

    #[track_caller]
    fn make_interruptible(&self, deadline: Option<Instant>) -> Result<Option<&T>, Interrupted> {
        let done = self.once.call_interruptible(NAME, false, deadline, |_| self.fill())?;
        // SAFETY: done.
        Ok(done.then(|| unsafe { self.get_done() }))
    }

    /// By the closure of `once`.
    #[inline]
    fn fill(&self) {
        // SAFETY: the one closure of `once` runs, so this is there, and nobody else looks at the place meanwhile.
        let closure = self.place.with(|place| unsafe { ptr::read(place.cast::<F>()) });
        let value = closure();
        // SAFETY: as above; what is overwritten has been taken.
        self.place.with_mut(|place| unsafe { ptr::write(place.cast::<T>(), value) });
    }

    /// As [`force`](Self::force), of what one has to oneself.
    ///
    /// # Panics
    ///
    /// If the closure does, now or before.
    #[track_caller]
    pub fn force_mut(this: &mut Self) -> &mut T {
        Self::force(this);
        Self::get_mut(this).expect("made just now")
    }

    /// The value if it has been made, and otherwise the closure.
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
        this.place.with(|place| {
            if phase == Phase::Done {
                // SAFETY: done: the value is there; it is read for the last time, since `this` is not dropped.
                Ok(unsafe { ptr::read(place.cast::<T>()) })
            } else {
                // SAFETY: not begun: the closure is there, and as above.
                Err(unsafe { ptr::read(place.cast::<F>()) })
            }
        })
    }
}

impl<T, F> Drop for LazyLock<T, F> {
    fn drop(&mut self) {
        let phase = self.phase();
        self.place.with_mut(|place| match phase {
            // SAFETY: done: the value is there, and nobody looks at it again.
            Phase::Done => unsafe { ptr::drop_in_place(place.cast::<T>()) },
            // SAFETY: not begun: the closure is there.
            Phase::Fresh => unsafe { ptr::drop_in_place(place.cast::<F>()) },
            Phase::Failed | Phase::Runs => {}
        });
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    /// As [`force`](Self::force).
    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    /// As [`force_mut`](Self::force_mut).
    #[inline]
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        Self::force_mut(self)
    }
}

impl<T, F> From<T> for LazyLock<T, F> {
    /// A value that has been made.
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
            place: UnsafeCell::new(Place { value: ManuallyDrop::new(value) }),
        }
    }
}

impl<T: Default> Default for LazyLock<T> {
    /// The default value, made when it is wanted.
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
#[path = "../tests/loom_lazy.rs"]
mod loom_lazy;
