//! The read-write lock with std's signatures: the lock of `sync`, and a flag. Guards of a part of the value
//! are as in nightly std.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::{LockResult, TryLockError, TryLockResult};

use lock_api::RawRwLock as _;

use super::flag::Flag;
use crate::park::wait::{Wait, WaitError, timed};
use crate::sync::lock::Entered;
use crate::sync::rwlock::{self, RawRwLock, RwLockWith as _};

/// A lock that lets many threads read a value, or one change it. If a thread that may change it panics,
/// the lock is poisoned.
///
/// Like [`std::sync::RwLock`], but for threads of all kinds. See the [module](super).
/// [`sync::RwLock`](crate::sync::RwLock) says which waiters it prefers.
///
/// A thread that has the lock and asks for it again may wait forever, as in std. A guard that is leaked
/// keeps its share taken, and does not poison the lock.
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

/// The lock is poisoned if a panic leaves the value half changed.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}
impl<T: ?Sized + RefUnwindSafe> UnwindSafe for RwLockReadGuard<'_, T> {}
impl<T: ?Sized + RefUnwindSafe> RefUnwindSafe for RwLockReadGuard<'_, T> {}
impl<T: ?Sized> UnwindSafe for RwLockWriteGuard<'_, T> {}
impl<T: ?Sized> RefUnwindSafe for RwLockWriteGuard<'_, T> {}

/// Defines the ways in of one side: for what, the names, and the guard. Also defines how the lock makes the
/// guard of that of the lock inside.
macro_rules! side {
    (
        $what:literal: $enter:ident, $try:ident, $for:ident, $until:ident, $with:ident -> $guard:ident,
        |$lock:ident, $inner:ident| $make:expr
    ) => {
        #[doc = concat!("Comes in ", $what, ".")]
        ///
        /// # Errors
        ///
        /// The guard within an error, if the lock is poisoned.
        ///
        /// # Blocks
        ///
        /// The thread.
        #[inline]
        pub fn $enter(&self) -> LockResult<$guard<'_, T>> {
            let ($lock, $inner) = (self, self.inner.$enter());
            self.poison.judge($make)
        }

        #[doc = concat!("Comes in ", $what, ", if it need not wait.")]
        ///
        /// # Errors
        ///
        /// [`TryLockError::WouldBlock`] if it would wait; [`TryLockError::Poisoned`], with the guard, if it
        /// is poisoned.
        #[inline]
        pub fn $try(&self) -> TryLockResult<$guard<'_, T>> {
            let ($lock, $inner) = (self, self.inner.$try().ok_or(TryLockError::WouldBlock)?);
            Ok(self.poison.judge($make)?)
        }

        timed! {
            $enter
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($try), "`](Self::", stringify!($try), ").")]
            pub fn $for, $until(&self) -> TryLockResult<$guard<'_, T>> {
                |limit| match self.$try() {
                    Err(TryLockError::WouldBlock) => {
                        Ok(self.$with(limit()).map_err(|_| TryLockError::WouldBlock)??)
                    }
                    entered => entered,
                }
            }
        }

        #[doc = concat!("Comes in ", $what, ", unless `wait` ends before.")]
        ///
        /// # Errors
        ///
        /// [`WaitError`], and the thread is not in. (An error within `Ok` tells that the lock is poisoned.)
        ///
        /// # Blocks
        ///
        /// The thread.
        pub fn $with(&self, wait: Wait) -> Result<LockResult<$guard<'_, T>>, WaitError> {
            let ($lock, $inner) = (self, self.inner.$with(wait)?);
            Ok(self.poison.judge($make))
        }
    };
}

impl<T> RwLock<T> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { poison: Flag::new(), inner: rwlock::RwLock::new(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// The value within an error, if the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.inner.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Returns the lock itself.
    pub(in crate::sync) fn inner(&self) -> &rwlock::RwLock<T> {
        &self.inner
    }

    side! {
        "to read":
        read, try_read, try_read_for, try_read_until, read_with -> RwLockReadGuard,
        |_lock, inner| RwLockReadGuard::new(inner)
    }

    side! {
        "to change the value":
        write, try_write, try_write_for, try_write_until, write_with -> RwLockWriteGuard,
        |lock, inner| {
            let leave = Leave { poison: &lock.poison, entered: Entered::now() };
            RwLockWriteGuard { leave, inner }
        }
    }

    /// Returns `true` if it is poisoned at this moment.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Clears the poison: the value is sound.
    #[inline]
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Returns the value without locking: no other thread has access to it.
    ///
    /// # Errors
    ///
    /// The value within an error, if the lock is poisoned.
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

/// Shared access to the value of a locked [`RwLock`]; leaves it when dropped. A reader that panics does
/// not poison it.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    /// The value of the lock, shared while the guard lives. The guard holds a pointer and not the lock, so
    /// that it is covariant in `T`.
    value: NonNull<T>,
    lock: &'a RawRwLock,
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
    /// Stands before the lock, because fields are dropped in their order.
    leave: Leave<'a>,
    inner: rwlock::RwLockWriteGuard<'a, T>,
}

/// Poisons the lock if a panic drops it.
struct Leave<'a> {
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
    /// Turns the writer into a reader, and lets no other writer in between. As in std, that poisons nothing,
    /// even if a panic unwinds.
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let Self { leave, inner } = this;
        mem::forget(leave);
        RwLockReadGuard::new(rwlock::RwLockWriteGuard::downgrade(inner))
    }
}

crate::sync::impls::guard! {
    [] RwLockReadGuard<'_, T>:
    // SAFETY: no thread changes the value while the guard has its share of the lock.
    |guard| unsafe { guard.value.as_ref() }
}

crate::sync::impls::guard! {
    [] RwLockWriteGuard<'_, T>: |guard| &guard.inner, mut |guard| &mut guard.inner
}

/// Shared access to a part of the value of a locked [`RwLock`]. [`RwLockReadGuard::map`] makes
/// it; dropping it leaves the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedRwLockReadGuard<'a, T: ?Sized> {
    value: NonNull<T>,
    lock: &'a RawRwLock,
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MappedRwLockReadGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized, F>(orig: Self, f: F) -> MappedRwLockReadGuard<'a, U>
    where
        F: FnOnce(&T) -> &U,
    {
        let value = NonNull::from(f(&orig));
        orig.of_part(value)
    }

    /// Makes a guard of a part of the value, if `f` returns one.
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn filter_map<U: ?Sized, F>(orig: Self, f: F) -> Result<MappedRwLockReadGuard<'a, U>, Self>
    where
        F: FnOnce(&T) -> Option<&U>,
    {
        match f(&orig).map(NonNull::from) {
            Some(value) => Ok(orig.of_part(value)),
            None => Err(orig),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedRwLockReadGuard<'a, U> {
        let lock = self.lock;
        // The new guard leaves it.
        mem::forget(self);
        MappedRwLockReadGuard { value, lock }
    }
}

impl<T: ?Sized> Drop for MappedRwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard has a share of the lock, which ends here.
        unsafe { self.lock.unlock_shared() };
    }
}

crate::sync::impls::guard! {
    [] MappedRwLockReadGuard<'_, T>:
    // SAFETY: the part lies in the value of a lock that is held.
    |guard| unsafe { guard.value.as_ref() }
}

/// Exclusive access to a part of the value of a locked [`RwLock`]. [`RwLockWriteGuard::map`]
/// makes it; dropping it leaves the lock.
#[must_use = "the lock is unlocked when the guard is dropped"]
pub struct MappedRwLockWriteGuard<'a, T: ?Sized> {
    value: NonNull<T>,
    /// Stands before `_write`, because fields are dropped in their order.
    _leave: Leave<'a>,
    _write: Write<'a>,
    /// The guard can change the value.
    part: PhantomData<&'a mut T>,
}

/// The writer's share of a lock.
struct Write<'a>(&'a RawRwLock);

impl Drop for Write<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made from a guard, which proves that the lock is held and does not leave it itself.
        unsafe { self.0.unlock_exclusive() };
    }
}

// SAFETY: a shared guard gives shared access to the value, and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MappedRwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Makes a guard of a part of the value.
    pub fn map<U: ?Sized, F>(mut orig: Self, f: F) -> MappedRwLockWriteGuard<'a, U>
    where
        F: FnOnce(&mut T) -> &mut U,
    {
        let value = NonNull::from(f(&mut orig));
        orig.of_part(value)
    }

    /// Makes a guard of a part of the value, if `f` returns one.
    ///
    /// # Errors
    ///
    /// Returns the guard itself if `f` returns `None`.
    pub fn filter_map<U: ?Sized, F>(mut orig: Self, f: F) -> Result<MappedRwLockWriteGuard<'a, U>, Self>
    where
        F: FnOnce(&mut T) -> Option<&mut U>,
    {
        match f(&mut orig).map(NonNull::from) {
            Some(value) => Ok(orig.of_part(value)),
            None => Err(orig),
        }
    }

    fn of_part<U: ?Sized>(self, value: NonNull<U>) -> MappedRwLockWriteGuard<'a, U> {
        let Self { leave, inner } = self;
        // SAFETY: the new guard leaves the lock once, instead of `inner`.
        let raw = unsafe { lock_api::RwLockWriteGuard::rwlock(&inner).raw() };
        mem::forget(inner);
        MappedRwLockWriteGuard { value, _leave: leave, _write: Write(raw), part: PhantomData }
    }
}

crate::sync::impls::guard! {
    [] MappedRwLockWriteGuard<'_, T>:
    // SAFETY: the part lies in the value of a lock that is held.
    |guard| unsafe { guard.value.as_ref() },
    // SAFETY: the part lies in the value of a lock that is held, and the guard is borrowed exclusively.
    mut |guard| unsafe { guard.value.as_mut() }
}
