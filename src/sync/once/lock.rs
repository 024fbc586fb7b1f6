//! A cell that is written once.
//!
//! The thread that runs the closure of the cell's [`Once`] writes the value, before the `Once` is done.
//! Threads that have seen it done read the value. So the only protocol here is that of `Once`.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;

use super::{Once, OnceState};
use crate::park::wait::{Wait, WaitError, timed};
use crate::shim::UnsafeCell;

/// A value that is written once, by the first thread to come: [`std::sync::OnceLock`] for threads of any
/// kind.
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
/// A thread that wants the value while another makes it, until that has made it or failed. A closure may
/// block, and a green thread may migrate meanwhile.
pub struct OnceLock<T> {
    once: Once,
    /// `Some` if and only if `once` is done. With an `Option` the cell needs no `Drop` of its own. So, as in
    /// std, a cell may hold a value that does not outlive it.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: one thread writes the value (hence `T: Send`), and many read it after that.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: a cell that moves to another thread takes its value along, and nothing else that belongs to a
// thread.
unsafe impl<T: Send> Send for OnceLock<T> {}

// As in std: a value that was left by a panic is whole or absent.
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Creates a cell without a value.
    #[must_use]
    pub const fn new() -> Self {
        Self { once: Once::new(), value: UnsafeCell::new(None) }
    }

    /// Returns the value, if there is one.
    ///
    /// # Blocks
    ///
    /// Never.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: `once` is done, and this thread has seen that.
        self.once.is_completed().then(|| unsafe { self.get_done() })
    }

    /// Returns the value, if there is one.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the caller has exclusive access to the cell.
        self.value.with_mut(|value| unsafe { &mut *value }.as_mut())
    }

    /// Returns the value.
    ///
    /// # Safety
    /// `once` is done, and this thread has seen that.
    #[inline]
    unsafe fn get_done(&self) -> &T {
        // SAFETY: the caller's promise: the value has been written. While the cell is shared, it does not
        // change.
        let value = self.value.with(|value| unsafe { &*value });
        // SAFETY: the caller's promise: there is a value.
        unsafe { value.as_ref().unwrap_unchecked() }
    }

    /// Writes the value, unless there is one, or another thread is making it.
    ///
    /// # Errors
    ///
    /// `value` itself, if there is another.
    ///
    /// # Panics
    ///
    /// If the running thread makes the value.
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

    /// Returns the value; if there is none, `f` makes it. If another thread is making it, waits for that;
    /// if that fails, `f` makes it after all.
    ///
    /// # Panics
    ///
    /// If `f` does; there is no value then. If the running thread makes the value: it would wait for
    /// itself.
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.init(f, Wait::forever()).expect("a wait without a deadline ends with the value"),
        }
    }

    timed! {
        get_or_init: ". Only the wait for another thread's value is limited"
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
        #[track_caller]
        pub fn get_or_init_for, get_or_init_until [F: FnOnce() -> T] (&self, f: F) -> Option<&T> {
            |limit| self.get().or_else(|| self.init(f, limit()).ok())
        }
    }

    /// [`get_or_init`](Self::get_or_init) that waits for another thread's value as `wait` says. An interrupt
    /// does not end `f`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::OnceLock;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (cell, wait) = (OnceLock::new(), Wait::forever().interruptible());
    /// thread::current().interrupt();
    /// assert_eq!(cell.get_or_init_with(wait, || 7), Err(WaitError::Interrupted));
    /// assert_eq!(cell.get_or_init_with(wait, || 8), Ok(&8));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`WaitError`], and `f` was not called.
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_init_with<F: FnOnce() -> T>(&self, wait: Wait, f: F) -> Result<&T, WaitError> {
        wait.begin()?;
        self.init(f, wait).map_err(WaitError::reported)
    }

    #[cold]
    #[track_caller]
    fn init<F: FnOnce() -> T>(&self, f: F, wait: Wait) -> Result<&T, WaitError> {
        self.once.call_as("OnceLock", true, wait, |_| self.write(f()))?;
        // SAFETY: `once` is done, and this thread has seen that.
        Ok(unsafe { self.get_done() })
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
                .try_init(f, Wait::forever())
                .expect("a wait without a deadline ends with the value or an error"),
        }
    }

    timed! {
        get_or_try_init: ": then `None`. Only the wait for another thread's value is limited"
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
        #[track_caller]
        pub fn get_or_try_init_for, get_or_try_init_until [F, E] (&self, f: F) -> Result<Option<&T>, E>
        where [F: FnOnce() -> Result<T, E>]
        {
            |limit| self.get().map(Ok).or_else(|| self.try_init(f, limit()).ok()).transpose()
        }
    }

    /// [`get_or_init_with`](Self::get_or_init_with) with an `f` that may fail.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init).
    ///
    /// # Errors
    ///
    /// [`WaitError`], and `f` was not called. (The error of `f` is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread, while another makes the value.
    #[track_caller]
    pub fn get_or_try_init_with<F, E>(&self, wait: Wait, f: F) -> Result<Result<&T, E>, WaitError>
    where
        F: FnOnce() -> Result<T, E>,
    {
        wait.begin()?;
        self.try_init(f, wait).map_err(WaitError::reported)
    }

    #[cold]
    #[track_caller]
    fn try_init<E>(&self, f: impl FnOnce() -> Result<T, E>, wait: Wait) -> Result<Result<&T, E>, WaitError> {
        let mut result = Ok(());
        self.once.call_as("OnceLock", true, wait, |state| self.try_write(f, state, &mut result))?;
        // SAFETY: `once` is done, and this thread has seen that, unless `f` has failed.
        Ok(result.map(|()| unsafe { self.get_done() }))
    }

    /// Writes the value of `f`, or its error to `result`. Called by the closure of `once`.
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

    /// Writes the value. Called by the closure of `once`.
    fn write(&self, value: T) {
        // SAFETY: one closure runs at a time, and none after one has succeeded. No thread reads before
        // that.
        self.value.with_mut(|at| unsafe { ptr::write(at, Some(value)) });
    }

    /// Waits until a thread has written the value.
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
    /// If the running thread makes the value.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> &T {
        match self.get() {
            Some(value) => value,
            None => self.awaited(Wait::forever()).expect("a wait without a deadline ends with the value"),
        }
    }

    timed! {
        wait
        /// # Panics
        ///
        /// As [`wait`](Self::wait).
        #[track_caller]
        pub fn wait_for, wait_until(&self) -> Option<&T> {
            |limit| self.get().or_else(|| self.awaited(limit()).ok())
        }
    }

    /// [`wait`](Self::wait) that ends as `wait` says.
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
    pub fn wait_with(&self, wait: Wait) -> Result<&T, WaitError> {
        wait.begin()?;
        self.awaited(wait).map_err(WaitError::reported)
    }

    #[cold]
    #[track_caller]
    fn awaited(&self, wait: Wait) -> Result<&T, WaitError> {
        self.once.protocol.wait("OnceLock", true, wait)?;
        // SAFETY: `once` is done, and this thread has seen that.
        Ok(unsafe { self.get_done() })
    }

    /// Returns the value, if there is one.
    #[must_use]
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out, if there is one. The cell is then as new.
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
    /// Creates a cell with this value.
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
