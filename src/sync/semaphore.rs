//! A counting semaphore: what programs see of it. `protocol.rs` says how it works. In models of programs,
//! something simpler takes the place of that.

mod owned;
mod protocol;
mod word;

crate::shim::swap! { use protocol::Protocol; use crate::shim::model::semaphore::Protocol; }

use std::error::Error;
use std::fmt;
use std::mem;
use std::ptr;

use crate::park::wait::{Wait, WaitError};

pub use owned::OwnedSemaphorePermit;

/// The most permits. It is so low that no number of threads can claim more than the balance, or what is
/// queued, can count.
const MAX: usize = u32::MAX as usize;

/// A number of permits that threads take and put back. A thread that finds too few waits.
///
/// Permits are not bound to threads: one thread may take a permit and another put it back, and
/// [`add_permits`](Self::add_permits) makes new ones. A permit that is a value ([`SemaphorePermit`]) goes
/// back when it is dropped, unless it is [forgotten](SemaphorePermit::forget).
///
/// The semaphore is fair: threads get their permits in order of arrival, those of higher
/// [priority](crate::thread::Priority) first. The oldest waiter lets at most 16 of these pass. While a
/// request waits, those behind it wait too, even if there are enough permits for them. So requests for
/// few do not starve a request for many.
///
/// Green threads, bound threads, 1:1 threads and threads that Selvedge did not start may share it. What a
/// thread did before it put a permit back is visible to the thread that takes it next.
///
/// Unlike POSIX's `sem_post`, a call that returns a permit may still use the semaphore after another thread
/// has taken that permit. The borrow or the `Arc` of the call keeps the semaphore alive meanwhile. Unsafe
/// code that frees a semaphore must wait until all such calls have returned.
///
/// # Examples
///
/// At most two at once:
///
/// ```
/// use selvedge::sync::Semaphore;
///
/// static SEATS: Semaphore = Semaphore::new(2);
///
/// std::thread::scope(|s| {
///     for _ in 0..5 {
///         s.spawn(|| {
///             let _seat = SEATS.acquire();
///             // At most two threads are here.
///         });
///     }
/// });
/// assert_eq!(SEATS.available_permits(), 2);
/// ```
///
/// As a signal from one thread to another:
///
/// ```
/// use selvedge::sync::Semaphore;
///
/// let ready = Semaphore::new(0);
/// std::thread::scope(|s| {
///     s.spawn(|| ready.add_permits(1));
///     ready.acquire().forget();
/// });
/// assert_eq!(ready.available_permits(), 0);
/// ```
///
/// # Blocks
///
/// The methods called `acquire` block the thread until it has the permits. The timed forms end when their
/// time is over, and those with a [`Wait`] as it says. `try_acquire` without a time never blocks.
pub struct Semaphore {
    protocol: Protocol,
}

impl Semaphore {
    /// The most permits that a semaphore can have.
    pub const MAX_PERMITS: usize = MAX;

    /// Creates a semaphore with so many permits.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        assert!(permits <= MAX, "more permits than a semaphore can have");
        Self { protocol: Protocol::new(permits) }
    }

    /// Returns how many permits are there. While threads wait, these are not enough for the next of them.
    /// A thread that is about to wait may hide them.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.protocol.permits()
    }

    super::impls::acquires! { "selvedge::sync::Semaphore" }

    #[inline]
    fn take(&self, n: usize, wait: Wait) -> Result<(), WaitError> {
        self.protocol.take(n, wait)
    }

    /// Takes a permit if there is one and no thread waits.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if there are so many and no thread waits.
    #[inline]
    pub fn try_acquire_many(&self, n: usize) -> Option<SemaphorePermit<'_>> {
        self.protocol.try_take(n).then(|| SemaphorePermit::new(self, n))
    }

    /// Takes `n` permits, and ends as `wait` says. Returns `true` if it has them.
    fn take_by(&self, n: usize, wait: impl FnOnce() -> Wait) -> bool {
        self.protocol.try_take(n) || self.protocol.take(n, wait()).is_ok()
    }

    /// Adds `n` permits: new ones, or those of permits that were [forgotten](SemaphorePermit::forget).
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// let semaphore = Semaphore::new(0);
    /// semaphore.add_permits(2);
    /// assert!(semaphore.try_acquire_many(2).is_some());
    /// ```
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS). None is added.
    #[inline]
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        if self.try_add_permits(n).is_err() {
            overflowed(n);
        }
    }

    /// [`add_permits`](Self::add_permits) that does not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// assert!(semaphore.try_add_permits(Semaphore::MAX_PERMITS).is_err());
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`] if there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS). None is added.
    #[inline]
    pub fn try_add_permits(&self, n: usize) -> Result<(), TooManyPermits> {
        if self.protocol.try_give(n) { Ok(()) } else { Err(TooManyPermits) }
    }
}

#[cold]
#[track_caller]
fn overflowed(n: usize) -> ! {
    panic!("{n} permits more are more than a semaphore can have");
}

impl Default for Semaphore {
    /// Returns a semaphore without permits.
    fn default() -> Self {
        Self::new(0)
    }
}

crate::shown::debug! { [] Semaphore: "Semaphore", "permits": |semaphore| semaphore.available_permits() }

/// Permits taken from a [`Semaphore`], which go back when this is dropped.
///
/// Dropping it panics if the semaphore then has more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS),
/// because the program has added permits meanwhile. They are put back all the same.
///
/// # Examples
///
/// ```
/// use selvedge::sync::Semaphore;
///
/// let semaphore = Semaphore::new(4);
/// let mut mine = semaphore.acquire_many(3);
/// let theirs = mine.split(1).unwrap();
/// assert_eq!((mine.num_permits(), theirs.num_permits()), (2, 1));
/// drop(theirs);
/// mine.merge(semaphore.acquire());
/// mine.forget();
/// assert_eq!(semaphore.available_permits(), 1);
/// ```
#[must_use = "the permits go back as soon as it is dropped"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl<'a> SemaphorePermit<'a> {
    /// Creates the value of permits that the caller has taken.
    #[inline]
    fn new(semaphore: &'a Semaphore, permits: usize) -> Self {
        Self { semaphore, permits }
    }

    crate::shown::getters! {
        /// Returns the semaphore to which these permits go back.
        fn semaphore(&self) -> &'a Semaphore = self.semaphore;
        /// Returns how many permits these are.
        fn num_permits(&self) -> usize = self.permits;
    }

    /// Forgets the permits: they are not put back. [`Semaphore::add_permits`] makes new ones.
    #[inline]
    pub fn forget(self) {
        mem::forget(self);
    }

    /// Splits `n` of these permits off, as a value of their own; `None` if there are not so many.
    #[must_use]
    pub fn split(&mut self, n: usize) -> Option<Self> {
        self.permits = self.permits.checked_sub(n)?;
        Some(Self::new(self.semaphore, n))
    }

    /// Adds the permits of `other` to these.
    ///
    /// # Panics
    ///
    /// If `other` comes from another semaphore. Both are then dropped as usual.
    #[track_caller]
    pub fn merge(&mut self, other: Self) {
        assert!(ptr::eq(self.semaphore, other.semaphore), "permits of two semaphores");
        self.permits = sum(self.permits, other.permits);
        other.forget();
    }
}

/// Returns the number of permits of two values together.
#[track_caller]
fn sum(some: usize, more: usize) -> usize {
    some.checked_add(more).expect("permits that can be counted")
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.protocol.give_back(self.permits);
    }
}

crate::shown::debug! { [] SemaphorePermit<'_>: "SemaphorePermit", "permits": |permit| permit.permits }

/// The error of [`Semaphore::try_add_permits`]: there would be more than a semaphore can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TooManyPermits;

impl fmt::Display for TooManyPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more permits than a semaphore can have")
    }
}

impl Error for TooManyPermits {}

#[cfg(all(test, loom))]
mod loom_semaphore;
