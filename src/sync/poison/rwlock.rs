//! The read-write lock with std's signatures: the lock of `sync`, and a flag.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

use lock_api::RawRwLock as _;

use super::flag::{Entered, Flag};
use crate::park::interrupt::Interrupted;
use crate::sync::rwlock::{self, RwLockInterruptible as _};

/// A lock that lets many read a value, or one change it, and is poisoned when one panics who may change it.
///
/// As [`std::sync::RwLock`], and between threads of all kinds. See the [module](super), and
/// [`sync::RwLock`](crate::sync::RwLock) for whom it prefers.
///
/// A thread that has it and asks for it again may wait for ever, as there. A guard that is leaked keeps its share taken, and does not
/// poison it.
///
/// # Panics
///
/// If there are more than 16,777,215 readers. (std on Linux allows at least 1,073,741,822. The word of this
/// lock needs bits for other purposes.)
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    poison: Flag,
    inner: rwlock::RwLock<T>,
}

/// What a panic left half done is poisoned.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}
impl<T: ?Sized + RefUnwindSafe> UnwindSafe for RwLockReadGuard<'_, T> {}
impl<T: ?Sized + RefUnwindSafe> RefUnwindSafe for RwLockReadGuard<'_, T> {}
impl<T: ?Sized> UnwindSafe for RwLockWriteGuard<'_, T> {}
impl<T: ?Sized> RefUnwindSafe for RwLockWriteGuard<'_, T> {}

impl<T> RwLock<T> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { poison: Flag::new(), inner: rwlock::RwLock::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// With the value, if it is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.inner.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// The lock itself.
    pub(in crate::sync) fn inner(&self) -> &rwlock::RwLock<T> {
        &self.inner
    }

    #[inline]
    fn reader<'a>(&'a self, inner: rwlock::RwLockReadGuard<'a, T>) -> LockResult<RwLockReadGuard<'a, T>> {
        self.poison.judge(RwLockReadGuard::new(inner))
    }

    #[inline]
    fn writer<'a>(&'a self, inner: rwlock::RwLockWriteGuard<'a, T>) -> LockResult<RwLockWriteGuard<'a, T>> {
        let leave = Leave { poison: &self.poison, entered: Entered::now() };
        self.poison.judge(RwLockWriteGuard { leave, inner })
    }

    #[inline]
    fn reader_if<'a>(
        &'a self,
        inner: Option<rwlock::RwLockReadGuard<'a, T>>,
    ) -> TryLockResult<RwLockReadGuard<'a, T>> {
        Ok(self.reader(inner.ok_or(TryLockError::WouldBlock)?)?)
    }

    #[inline]
    fn writer_if<'a>(
        &'a self,
        inner: Option<rwlock::RwLockWriteGuard<'a, T>>,
    ) -> TryLockResult<RwLockWriteGuard<'a, T>> {
        Ok(self.writer(inner.ok_or(TryLockError::WouldBlock)?)?)
    }

    /// Comes in to read.
    ///
    /// # Errors
    ///
    /// With the guard, if it is poisoned.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.reader(self.inner.read())
    }

    /// Comes in to read, if that needs no waiting.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it does; [`TryLockError::Poisoned`], with the guard, if it is poisoned.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.reader_if(self.inner.try_read())
    }

    /// [`read`](Self::read), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_read_for(&self, timeout: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.reader_if(self.inner.try_read_for(timeout))
    }

    /// [`read`](Self::read), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_read_until(&self, deadline: Instant) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.reader_if(self.inner.try_read_until(deadline))
    }

    /// [`read`](Self::read), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in. (Whether it is poisoned is said by what is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn read_interruptible(&self) -> Result<LockResult<RwLockReadGuard<'_, T>>, Interrupted> {
        Ok(self.reader(self.inner.read_interruptible()?))
    }

    /// [`read_interruptible`](Self::read_interruptible), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in. (What `try_read` says is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn read_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<TryLockResult<RwLockReadGuard<'_, T>>, Interrupted> {
        Ok(self.reader_if(self.inner.read_interruptible_for(timeout)?))
    }

    /// [`read_interruptible`](Self::read_interruptible), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in. (What `try_read` says is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn read_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<TryLockResult<RwLockReadGuard<'_, T>>, Interrupted> {
        Ok(self.reader_if(self.inner.read_interruptible_until(deadline)?))
    }

    /// Comes in to change the value.
    ///
    /// # Errors
    ///
    /// With the guard, if it is poisoned.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.writer(self.inner.write())
    }

    /// Comes in to change the value, if that needs no waiting.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it does; [`TryLockError::Poisoned`], with the guard, if it is poisoned.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.writer_if(self.inner.try_write())
    }

    /// [`write`](Self::write), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_write_for(&self, timeout: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.writer_if(self.inner.try_write_for(timeout))
    }

    /// [`write`](Self::write), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_write_until(&self, deadline: Instant) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.writer_if(self.inner.try_write_until(deadline))
    }

    /// [`write`](Self::write), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in. (Whether it is poisoned is said by what is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn write_interruptible(&self) -> Result<LockResult<RwLockWriteGuard<'_, T>>, Interrupted> {
        Ok(self.writer(self.inner.write_interruptible()?))
    }

    /// [`write_interruptible`](Self::write_interruptible), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in. (What `try_write` says is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn write_interruptible_for(
        &self,
        timeout: Duration,
    ) -> Result<TryLockResult<RwLockWriteGuard<'_, T>>, Interrupted> {
        Ok(self.writer_if(self.inner.write_interruptible_for(timeout)?))
    }

    /// [`write_interruptible`](Self::write_interruptible), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], and the thread is not in. (What `try_write` says is within `Ok`.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn write_interruptible_until(
        &self,
        deadline: Instant,
    ) -> Result<TryLockResult<RwLockWriteGuard<'_, T>>, Interrupted> {
        Ok(self.writer_if(self.inner.write_interruptible_until(deadline)?))
    }

    /// Whether it is poisoned, at this moment.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Says that the value is fine.
    #[inline]
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// The value, without locking: nobody else has access to it.
    ///
    /// # Errors
    ///
    /// With the value, if it is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.judge(self.inner.get_mut())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RwLock");
        match self.inner.try_read() {
            Some(guard) => debug.field("data", &&*guard),
            None => debug.field("data", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// Shared access to the value of a locked [`RwLock`]; leaves it when dropped. A reader that panics does not poison it.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    /// The value of the lock, shared while the guard lives. The guard holds a pointer and not the lock, so
    /// that it is covariant in `T`.
    value: NonNull<T>,
    pub(super) lock: &'a rwlock::RawRwLock,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else. (As in std, it is not `Send`.)
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    #[inline]
    fn new(inner: rwlock::RwLockReadGuard<'a, T>) -> Self {
        let lock = rwlock::RwLockReadGuard::rwlock(&inner);
        // SAFETY: a pointer into a lock is not null.
        let value = unsafe { NonNull::new_unchecked(lock.data_ptr()) };
        // SAFETY: `drop` unlocks it once, instead of `inner`.
        let guard = Self { value, lock: unsafe { lock.raw() } };
        mem::forget(inner);
        guard
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard has a share of the lock, which ends here.
        unsafe { self.lock.unlock_shared() };
    }
}

/// Exclusive access to the value of a locked [`RwLock`]; leaves it when dropped.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    /// Before the lock: fields are dropped in their order.
    pub(super) leave: Leave<'a>,
    pub(super) inner: rwlock::RwLockWriteGuard<'a, T>,
}

/// Dropped by a panic, it poisons the lock.
pub(super) struct Leave<'a> {
    poison: &'a Flag,
    entered: Entered,
}

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        self.poison.leave(self.entered);
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Reads on, without letting another writer in between.
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let Self { leave, inner } = this;
        drop(leave);
        RwLockReadGuard::new(rwlock::RwLockWriteGuard::downgrade(inner))
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no thread changes the value while the guard has its share of the lock.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
