//! A lock for one writer or many readers of several processes: what programs see of it. `rwlock/raw.rs` says
//! how it works.

mod raw;

use std::cell::UnsafeCell;

use self::raw::RawRwLock;
use crate::park::process::{self, Process};
use crate::park::wait::{Wait, timed};
use crate::sync::lock::Entered;
use crate::sync::robust::{Condition, RobustError};

/// A lock that lets one thread write a value, or many read it, in any of several processes.
///
/// The value must make sense to other processes: no references, nothing on the heap. Memory that holds one is
/// valid if it is zeroed, and the value is valid when zeroed.
///
/// Writers go first: while one waits, no more readers come in. So a thread that reads must not read again,
/// and readers may starve while writers follow each other.
///
/// **Robust for writers.** If a process or thread ends, or panics, while it writes, the value is
/// *inconsistent*. Until a thread has [mended](Self::mend) it, all others get
/// [`RobustError::NotConsistent`]. They notice a death as with a [`Mutex`](super::Mutex). If a thread has
/// leaked its guard and ended, borrows of the value may live on. Then it is
/// [unsafe](Self::mend_abandoned) to mend it.
///
/// **Not robust for readers.** If a process is killed while it reads, its share is never given back. Readers
/// go on. Writers wait until their time is over.
///
/// A call that unlocks may still use the lock after another thread has locked it. So its memory must stay
/// mapped meanwhile.
///
/// # Examples
///
/// ```
/// use selvedge::sync::process_shared::RwLock;
///
/// let lock = RwLock::new(1);
/// *lock.write()? += 1;
/// let (one, other) = (lock.read()?, lock.read()?);
/// assert_eq!((*one, *other), (2, 2));
/// assert!(lock.try_write()?.is_none());
/// # Ok::<(), selvedge::sync::RobustError>(())
/// ```
///
/// # Panics
///
/// All methods that lock it for reading do so if 2,147,483,647 read guards exist already. That happens if
/// guards are forgotten.
///
/// # Blocks
///
/// `read`, `write`, `mend`, the timed forms and those with a [`Wait`]; see the [module](super).
#[derive(Default)]
#[repr(C)]
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread change the value, perhaps each time another, or several read it.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

/// Access to the value of a [`RwLock`] for reading. Dropping it unlocks the lock.
#[must_use = "the lock is unlocked as soon as it is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// In a child of a fork, a copy is worth nothing.
    process: Process,
}

/// Access to the value of a [`RwLock`] for writing. Dropping it unlocks the lock.
#[must_use = "the lock is unlocked as soon as it is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    entered: Entered,
    /// Not `Send`: the lock knows which thread has it.
    _of_this_thread: std::marker::PhantomData<*mut ()>,
}

// SAFETY: a shared guard gives shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

/// Defines the ways in of one side: for what, unless what, the names, and the guard. The lock makes that for
/// a thread that is in.
macro_rules! side {
    (
        $what:literal, $unless:literal:
        $enter:ident, $try:ident, $for:ident, $until:ident, $with:ident -> $guard:ident,
        |$lock:ident| $make:expr
    ) => {
        #[doc = concat!("Locks it for ", $what, ".")]
        ///
        /// # Errors
        ///
        /// [`RobustError::NotConsistent`]: a writer has died or panicked. [`RobustError::Deadlock`]: the
        /// running thread writes already.
        ///
        /// # Blocks
        ///
        /// The thread.
        pub fn $enter(&self) -> Result<$guard<'_, T>, RobustError> {
            self.$with(Wait::forever())
        }

        #[doc = concat!(
                    "[`", stringify!($enter), "`](Self::", stringify!($enter), ") that ends as `wait` says."
                )]
        /// An interrupt of a thread that sleeps in the kernel is noticed within a tenth of a second.
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($enter), "`](Self::", stringify!($enter), ").")]
        /// [`RobustError::TimedOut`] or [`RobustError::Interrupted`]: the wait has ended.
        ///
        /// # Blocks
        ///
        /// The thread.
        pub fn $with(&self, wait: Wait) -> Result<$guard<'_, T>, RobustError> {
            self.raw.$enter(wait)?;
            let $lock = self;
            $make
        }

        #[doc = concat!("Locks it for ", $what, ", unless ", $unless, ": then it returns `None`.")]
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($enter), "`](Self::", stringify!($enter), ").")]
        pub fn $try(&self) -> Result<Option<$guard<'_, T>>, RobustError> {
            let $lock = self;
            if self.raw.$try()? { $make.map(Some) } else { Ok(None) }
        }

        timed! {
            $enter: "; then it returns `None`"
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($enter), "`](Self::", stringify!($enter), ").")]
            pub fn $for, $until(&self) -> Result<Option<$guard<'_, T>>, RobustError> {
                |limit| in_time(self.$with(limit()))
            }
        }
    };
}

impl<T> RwLock<T> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
    }

    /// Returns the value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    side! {
        "reading", "a thread writes or waits to":
        read, try_read, try_read_for, try_read_until, read_with -> RwLockReadGuard,
        |lock| Ok(RwLockReadGuard::new(lock))
    }

    side! {
        "writing", "a thread reads or writes":
        write, try_write, try_write_for, try_write_until, write_with -> RwLockWriteGuard,
        |lock| lock.written()
    }

    /// Returns the guard of a thread that has the lock, if the value is consistent.
    fn written(&self) -> Result<RwLockWriteGuard<'_, T>, RobustError> {
        if self.raw.condition() != Condition::Consistent {
            self.raw.leave_as_it_is();
            return Err(RobustError::NotConsistent);
        }
        Ok(RwLockWriteGuard::new(self))
    }

    /// Locks it for writing, and if the value is inconsistent, calls `mend`, which is told why. When that
    /// returns, the value is consistent. Does nothing if it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::Wait;
    /// use selvedge::sync::process_shared::RwLock;
    /// use selvedge::sync::{Condition, RobustError};
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let lock = RwLock::new(1);
    /// let panics = || {
    ///     *lock.write().unwrap() = 0;
    ///     let _guard = lock.write_with(Wait::forever()).unwrap();
    ///     panic!("on purpose");
    /// };
    /// assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    /// assert_eq!(lock.read().unwrap_err(), RobustError::NotConsistent);
    /// lock.mend(Wait::forever(), |value, why| {
    ///     assert_eq!(why, Condition::OwnerPanicked);
    ///     *value = 1;
    /// })?;
    /// assert_eq!(*lock.read()?, 1);
    /// # Ok::<(), RobustError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write_with`](Self::write_with). But [`RobustError::NotConsistent`] means that a thread has ended
    /// with the lock held: see [`mend_abandoned`](Self::mend_abandoned).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn mend(&self, wait: Wait, mend: impl FnOnce(&mut T, Condition)) -> Result<(), RobustError> {
        self.raw.write(wait)?;
        if self.raw.condition() == Condition::OwnerDied {
            self.raw.leave_as_it_is();
            return Err(RobustError::NotConsistent);
        }
        self.mend_written(mend);
        Ok(())
    }

    /// [`mend`](Self::mend), also if a thread has ended with the lock held ([`Condition::OwnerDied`]).
    ///
    /// # Errors
    ///
    /// As [`write_with`](Self::write_with), but not that the value is inconsistent.
    ///
    /// # Safety
    ///
    /// No thread has access to the value by the guard of a thread that has ended. Such access could be a
    /// borrow from a guard that was leaked, or a guard in a thread-local that is yet to be destroyed. (A
    /// guard that was forgotten, by [`mem::forget`](std::mem::forget), gives no access.)
    ///
    /// # Blocks
    ///
    /// The thread.
    pub unsafe fn mend_abandoned(
        &self,
        wait: Wait,
        mend: impl FnOnce(&mut T, Condition),
    ) -> Result<(), RobustError> {
        self.raw.write(wait)?;
        self.mend_written(mend);
        Ok(())
    }

    /// Mends the value, if it is inconsistent. The running thread has just locked it for writing.
    fn mend_written(&self, mend: impl FnOnce(&mut T, Condition)) {
        let why = self.raw.condition();
        let mut guard = RwLockWriteGuard::new(self);
        if why != Condition::Consistent {
            mend(&mut guard, why);
            self.raw.mend();
        }
    }

    /// Returns the value, which no other thread can use: this is the only reference to the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    crate::shown::getters! {
        /// Returns `true` if a thread reads or writes at this moment, or waits to write.
        fn is_locked(&self) -> bool = self.raw.is_locked();
        /// Returns `true` if a thread writes at this moment, or waits until no thread reads.
        fn is_locked_exclusive(&self) -> bool = self.raw.is_locked_exclusive();
    }
}

/// Returns `None` for a wait that timed out.
fn in_time<G>(guard: Result<G, RobustError>) -> Result<Option<G>, RobustError> {
    match guard {
        Err(RobustError::TimedOut) => Ok(None),
        guard => guard.map(Some),
    }
}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    fn new(lock: &'a RwLock<T>) -> Self {
        Self { lock, process: process::this() }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    fn new(lock: &'a RwLock<T>) -> Self {
        Self { lock, entered: Entered::now(), _of_this_thread: std::marker::PhantomData }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        if self.process == process::this() {
            self.lock.raw.end_read();
        }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.raw.end_write(self.entered.has_panicked_since());
    }
}

crate::sync::impls::guard! {
    ['a,] RwLockReadGuard<'a, T>:
    // SAFETY: while the guard lives, no thread writes.
    |guard| unsafe { &*guard.lock.value.get() }
}
crate::sync::impls::guard! {
    ['a,] RwLockWriteGuard<'a, T>:
    // SAFETY: while the guard lives, no other thread has the lock.
    |guard| unsafe { &*guard.lock.value.get() },
    // SAFETY: no other thread has the lock, and the guard is borrowed exclusively.
    mut |guard| unsafe { &mut *guard.lock.value.get() }
}

crate::shown::debug! {
    [T: ?Sized] RwLock<T>: "RwLock",
    "locked": |lock| lock.is_locked(),
    "writes": |lock| lock.is_locked_exclusive()
}
