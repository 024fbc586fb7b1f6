//! A permit as a value, for as long as the semaphore is borrowed, and the error of too many permits.

use std::error::Error;
use std::fmt;
use std::mem;
use std::ptr;

use super::Semaphore;

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
    pub(super) fn new(semaphore: &'a Semaphore, permits: usize) -> Self {
        Self { semaphore, permits }
    }

    /// Returns the semaphore to which these permits go back.
    #[must_use]
    pub fn semaphore(&self) -> &'a Semaphore {
        self.semaphore
    }

    /// Returns how many permits these are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
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
pub(super) fn sum(some: usize, more: usize) -> usize {
    some.checked_add(more).expect("permits that can be counted")
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.protocol.give_back(self.permits);
    }
}

crate::sync::impls::debug! { [] SemaphorePermit<'_>: "SemaphorePermit", "permits": |permit| permit.permits }

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
