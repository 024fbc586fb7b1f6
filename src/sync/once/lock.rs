//! A cell that is written once.
//!
//! The value is written by whoever runs the closure of the cell's [`Once`], before that says done, and read by those who have seen
//! that. So there is no protocol here that is not that of `Once`.

mod interruptible;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::time::{Duration, Instant};

use super::{Once, OnceState};
use crate::shim::{UnsafeCell, const_new};
use crate::time;

/// A value that is written once, by whichever thread comes first: [`std::sync::OnceLock`] for threads of any kind.
///
/// # Examples
///
/// ```
/// use selvedge::sync::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
///
/// assert!(NAME.get().is_none());
/// let name = NAME.get_or_init(|| "selvedge".to_string());
/// assert_eq!(name, "selvedge");
/// assert_eq!(NAME.set("other".to_string()), Err("other".to_string()));
/// ```
///
/// # Blocks
///
/// Who wants the value while another thread makes it, until that has made it or failed. A closure may block as it likes, and a green
/// thread may migrate meanwhile.
pub struct OnceLock<T> {
    once: Once,
    /// `Some` if and only if `once` is done. With an `Option` the cell needs no `Drop` of its own. So, as in
    /// std, a cell may hold a value that does not outlive it.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written by one thread (hence `T: Send`), and read by many after that.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: a cell that moves to another thread takes its value along, and nothing else that belongs to a thread.
unsafe impl<T: Send> Send for OnceLock<T> {}

// As std has it: a value that was left by a panic is whole or absent.
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    const_new! {
        /// A cell without a value.
        #[must_use]
        pub const fn new() -> Self {
            Self { once: Once::new(), value: UnsafeCell::new(None) }
        }
    }

    /// The value, if there is one.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: done.
        self.once.is_completed().then(|| unsafe { self.get_done() })
    }

    /// The value, if there is one.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the caller has exclusive access to the cell.
        self.value.with_mut(|value| unsafe { &mut *value }.as_mut())
    }

    /// # Safety
    /// `once` is done, and this thread has seen that.
    #[inline]
    unsafe fn get_done(&self) -> &T {
        // SAFETY: the caller's promise: the value has been written. While the cell is shared, it does not
        // change.
        let value = self.value.with(|value| unsafe { &*value });
        // SAFETY: as above.
        unsafe { value.as_ref().unwrap_unchecked() }
    }

    /// Writes the value, unless there is one, or another thread is just making it.
    ///
    /// # Errors
    ///
    /// `value` itself, if there is another.
    ///
    /// # Panics
    ///
    /// If the running thread is the one that makes the value.
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    /// The value; if there is none, `f` makes it. If another thread is just making it, waits for that; if that one fails, `f`
    /// makes it after all.
    ///
    /// # Panics
    ///
    /// If `f` does; there is no value then. If the running thread is the one that makes the value: it would wait for itself.
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(f, None).expect("a wait without a deadline ends with the value"),
        }
    }

    /// [`get_or_init`](Self::get_or_init) that waits for another thread's value at most for `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    /// use std::time::Duration;
    ///
    /// let cell = OnceLock::new();
    /// assert_eq!(cell.get_or_init_for(|| 7, Duration::ZERO), Some(&7));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_init_for<F: FnOnce() -> T>(&self, f: F, timeout: Duration) -> Option<&T> {
        self.get().or_else(|| self.init(f, time::after(timeout)))
    }

    /// [`get_or_init`](Self::get_or_init) that waits for another thread's value at most until `deadline`.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_init_until<F: FnOnce() -> T>(&self, f: F, deadline: Instant) -> Option<&T> {
        self.get().or_else(|| self.init(f, Some(deadline)))
    }

    #[cold]
    #[track_caller]
    fn init<F: FnOnce() -> T>(&self, f: F, deadline: Option<Instant>) -> Option<&T> {
        let done = self.once.call("OnceLock", true, deadline, |_| self.write(f()));
        // SAFETY: done: `f` has returned, or somebody else's.
        done.then(|| unsafe { self.get_done() })
    }

    /// [`get_or_init`](Self::get_or_init) with an `f` that may fail.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    ///
    /// let cell: OnceLock<u16> = OnceLock::new();
    /// assert!(cell.get_or_try_init(|| "many".parse()).is_err());
    /// assert_eq!(cell.get_or_try_init(|| "80".parse()), Ok(&80));
    /// ```
    ///
    /// # Errors
    ///
    /// That of `f`; there is no value then.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[inline]
    #[track_caller]
    pub fn get_or_try_init<F, E>(&self, f: F) -> Result<&T, E>
    where
        F: FnOnce() -> Result<T, E>,
    {
        match self.get() {
            Some(value) => Ok(value),
            None => self
                .try_init(f, None)
                .map(|value| value.expect("a wait without a deadline ends with the value or an error")),
        }
    }

    /// [`get_or_try_init`](Self::get_or_try_init) that waits for another thread's value at most for `timeout`: then `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    /// use std::time::Duration;
    ///
    /// let cell: OnceLock<u16> = OnceLock::new();
    /// assert_eq!(cell.get_or_try_init_for(|| "80".parse(), Duration::ZERO), Ok(Some(&80)));
    /// ```
    ///
    /// # Errors
    ///
    /// That of `f`; there is no value then.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_try_init_for<F, E>(&self, f: F, timeout: Duration) -> Result<Option<&T>, E>
    where
        F: FnOnce() -> Result<T, E>,
    {
        match self.get() {
            Some(value) => Ok(Some(value)),
            None => self.try_init(f, time::after(timeout)),
        }
    }

    /// [`get_or_try_init`](Self::get_or_try_init) that waits for another thread's value at most until `deadline`: then `None`.
    ///
    /// # Errors
    ///
    /// That of `f`; there is no value then.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_try_init_until<F, E>(&self, f: F, deadline: Instant) -> Result<Option<&T>, E>
    where
        F: FnOnce() -> Result<T, E>,
    {
        self.try_init(f, Some(deadline))
    }

    #[cold]
    #[track_caller]
    fn try_init<F, E>(&self, f: F, deadline: Option<Instant>) -> Result<Option<&T>, E>
    where
        F: FnOnce() -> Result<T, E>,
    {
        let mut result = Ok(());
        let done = self.once.call("OnceLock", true, deadline, |state| self.try_write(f, state, &mut result));
        // SAFETY: done, unless `f` has failed.
        result.map(|()| done.then(|| unsafe { self.get_done() }))
    }

    /// By the closure of `once`: whether `f` has failed is also said by `result`.
    #[inline]
    fn try_write<E>(&self, f: impl FnOnce() -> Result<T, E>, state: &OnceState, result: &mut Result<(), E>) {
        match f() {
            Ok(value) => self.write(value),
            Err(error) => {
                *result = Err(error);
                state.fail();
            }
        }
    }

    /// By the closure of `once`.
    fn write(&self, value: T) {
        // SAFETY: one closure runs at a time, none after one has succeeded, and nobody reads before that.
        self.value.with_mut(|place| unsafe { ptr::write(place, Some(value)) });
    }

    /// Waits until somebody has written the value.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    ///
    /// let cell = OnceLock::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| cell.set(7).unwrap());
    ///     assert_eq!(*cell.wait(), 7);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If the running thread is the one that makes the value.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.wait_with(None).expect("a wait without a deadline ends with the value"),
        }
    }

    /// [`wait`](Self::wait), at most for `timeout`.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_for(&self, timeout: Duration) -> Option<&T> {
        self.get().or_else(|| self.wait_with(time::after(timeout)))
    }

    /// [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Blocks
    ///
    /// The thread.
    #[track_caller]
    pub fn wait_until(&self, deadline: Instant) -> Option<&T> {
        self.wait_with(Some(deadline))
    }

    #[cold]
    #[track_caller]
    fn wait_with(&self, deadline: Option<Instant>) -> Option<&T> {
        let done = self.once.protocol.wait("OnceLock", true, deadline);
        // SAFETY: done.
        done.then(|| unsafe { self.get_done() })
    }

    /// The value, if there is one.
    #[must_use]
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out, if there is one; the cell is as new.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    ///
    /// let mut cell = OnceLock::from(3);
    /// assert_eq!(cell.take(), Some(3));
    /// assert_eq!(cell.get(), None);
    /// ```
    pub fn take(&mut self) -> Option<T> {
        self.once = Once::new();
        // SAFETY: the caller has exclusive access to the cell.
        self.value.with_mut(|value| unsafe { &mut *value }.take())
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    /// A cell with this value.
    fn from(value: T) -> Self {
        Self { once: Once::new_completed(), value: UnsafeCell::new(Some(value)) }
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().map_or_else(Self::new, |value| Self::from(value.clone()))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => tuple.field(value),
            None => tuple.field(&format_args!("<uninit>")),
        };
        tuple.finish()
    }
}
