//! The read-write lock: which threads hold it and which wait, under a lock of loom's.
//!
//! As with the real lock, a reader that comes while a writer waits stays out, unless it reads again. So a
//! model finds a thread that reads twice and would be kept out by a writer that comes in between.

use std::fmt;
use std::mem;
use std::time::{Duration, Instant};

use super::mutex::Deadline;
use super::{Expiries, Lazy, also_unwinding};
use crate::park::wait::{Wait, WaitError};

/// A lock that many read, or one writes. (In a model: over loom's parts.)
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// Access to the value of an [`RwLock`], to read it.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// Access to the value of an [`RwLock`], to write it.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// Access to the value of an [`RwLock`], to read it, and perhaps write it later.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// Access to a part of the value of an [`RwLock`], to read it.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// Access to a part of the value of an [`RwLock`], to write it.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// [`RwLockReadGuard`] with a share of the lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;
/// [`RwLockWriteGuard`] with a share of the lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;
/// [`RwLockUpgradableReadGuard`] with a share of the lock.
#[cfg(feature = "arc_lock")]
pub type ArcRwLockUpgradableReadGuard<T> = lock_api::ArcRwLockUpgradableReadGuard<RawRwLock, T>;

/// The lock, without the data.
pub struct RawRwLock {
    state: Lazy<RwLockState>,
    expiries: Expiries,
}

#[derive(Default)]
struct RwLockState {
    inside: loom::sync::Mutex<Inside>,
    changed: loom::sync::Condvar,
}

#[derive(Default)]
struct Inside {
    /// The readers, the upgradable one among them.
    readers: usize,
    is_upgradable: bool,
    is_written: bool,
    /// The writers and upgraders that wait. They keep new readers out.
    keep_out: usize,
    waiting: usize,
}

/// What a thread asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read,
    ReadAgain,
    Upgradable,
    Write,
    /// It has the upgradable share.
    Upgrade,
}

impl Inside {
    fn admits(&self, wish: Wish) -> bool {
        match wish {
            Wish::ReadAgain => !self.is_written,
            Wish::Read => !self.is_written && self.keep_out == 0,
            Wish::Upgradable => !self.is_written && !self.is_upgradable && self.keep_out == 0,
            Wish::Write => !self.is_written && self.readers == 0,
            Wish::Upgrade => self.readers == 1,
        }
    }

    fn enter(&mut self, wish: Wish) {
        match wish {
            Wish::Read | Wish::ReadAgain => self.readers += 1,
            Wish::Upgradable => {
                self.readers += 1;
                self.is_upgradable = true;
            }
            Wish::Write => self.is_written = true,
            Wish::Upgrade => {
                *self = Self { readers: 0, is_upgradable: false, is_written: true, ..mem::take(self) }
            }
        }
    }

    fn keeps_out(wish: Wish) -> usize {
        usize::from(matches!(wish, Wish::Write | Wish::Upgrade))
    }
}

impl RawRwLock {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self { state: Lazy::new(), expiries: Expiries::new() }
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn inside(&self) -> (&RwLockState, loom::sync::MutexGuard<'_, Inside>) {
        let state = self.state.get(RwLockState::default);
        (state, state.inside.lock().expect("no poison"))
    }

    fn acquire(&self, wish: Wish) {
        let (state, mut inside) = self.inside();
        inside.keep_out += Inside::keeps_out(wish);
        loop {
            // A waiter is not kept out by itself.
            inside.keep_out -= Inside::keeps_out(wish);
            if inside.admits(wish) {
                inside.enter(wish);
                return;
            }
            inside.keep_out += Inside::keeps_out(wish);
            inside.waiting += 1;
            inside = state.changed.wait(inside).expect("no poison");
            inside.waiting -= 1;
        }
    }

    fn try_acquire(&self, wish: Wish) -> bool {
        let (_, mut inside) = self.inside();
        let admitted = inside.admits(wish);
        if admitted {
            inside.enter(wish);
        }
        admitted
    }

    fn acquire_until(&self, wish: Wish, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Never => self.acquire(wish),
            Deadline::May if !self.try_acquire(wish) => {
                self.expiries.one_more();
                return false;
            }
            Deadline::May => {}
        }
        true
    }

    /// Changes the state: a holder leaves, or gives up a part of its share.
    fn change(&self, change: impl FnOnce(&mut Inside)) {
        also_unwinding(|| {
            let (state, mut inside) = self.inside();
            change(&mut inside);
            let waiting = inside.waiting;
            drop(inside);
            if waiting > 0 {
                state.changed.notify_all();
            }
        });
    }

    fn look<R>(&self, look: impl FnOnce(&Inside) -> R) -> R {
        look(&self.inside().1)
    }
}

impl Default for RawRwLock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").finish_non_exhaustive()
    }
}

// SAFETY: `admits` lets a writer in if there is no holder, and a reader if there is no writer.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self::new();

    type GuardMarker = lock_api::GuardNoSend;

    fn lock_shared(&self) {
        self.acquire(Wish::Read);
    }

    fn try_lock_shared(&self) -> bool {
        self.try_acquire(Wish::Read)
    }

    unsafe fn unlock_shared(&self) {
        self.change(|inside| inside.readers -= 1);
    }

    fn lock_exclusive(&self) {
        self.acquire(Wish::Write);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.try_acquire(Wish::Write)
    }

    unsafe fn unlock_exclusive(&self) {
        self.change(|inside| inside.is_written = false);
    }

    fn is_locked(&self) -> bool {
        self.look(|inside| inside.is_written || inside.readers > 0)
    }

    fn is_locked_exclusive(&self) -> bool {
        self.look(|inside| inside.is_written)
    }
}

// SAFETY: a fair unlock gives back what a plain one does.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self) {
        self.change(|inside| inside.readers -= 1);
    }

    unsafe fn unlock_exclusive_fair(&self) {
        self.change(|inside| inside.is_written = false);
    }
}

// SAFETY: one change, so no thread comes in between.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.change(|inside| {
            inside.is_written = false;
            inside.readers = 1;
        });
    }
}

// SAFETY: admitted by `admits`, as in the plain forms. `false` means that the lock was not acquired.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, _: Duration) -> bool {
        self.acquire_until(Wish::Read, Deadline::May)
    }

    fn try_lock_shared_until(&self, _: Instant) -> bool {
        self.acquire_until(Wish::Read, Deadline::May)
    }

    fn try_lock_exclusive_for(&self, _: Duration) -> bool {
        self.acquire_until(Wish::Write, Deadline::May)
    }

    fn try_lock_exclusive_until(&self, _: Instant) -> bool {
        self.acquire_until(Wish::Write, Deadline::May)
    }
}

// SAFETY: a writer that holds the lock keeps out a reader that reads again.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        self.acquire(Wish::ReadAgain);
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.try_acquire(Wish::ReadAgain)
    }
}

// SAFETY: a writer that holds the lock keeps out a reader that reads again. `false` means that the lock was
// not acquired.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, _: Duration) -> bool {
        self.acquire_until(Wish::ReadAgain, Deadline::May)
    }

    fn try_lock_shared_recursive_until(&self, _: Instant) -> bool {
        self.acquire_until(Wish::ReadAgain, Deadline::May)
    }
}

// SAFETY: `admits` lets one upgradable reader in at a time. It becomes the writer when it is the only
// reader.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    fn lock_upgradable(&self) {
        self.acquire(Wish::Upgradable);
    }

    fn try_lock_upgradable(&self) -> bool {
        self.try_acquire(Wish::Upgradable)
    }

    unsafe fn unlock_upgradable(&self) {
        self.change(|inside| {
            inside.readers -= 1;
            inside.is_upgradable = false;
        });
    }

    unsafe fn upgrade(&self) {
        self.acquire(Wish::Upgrade);
    }

    unsafe fn try_upgrade(&self) -> bool {
        self.try_acquire(Wish::Upgrade)
    }
}

// SAFETY: a fair unlock gives back what a plain one does.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgrade::unlock_upgradable(self) };
    }
}

// SAFETY: one change, so no thread comes in between.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    unsafe fn downgrade_upgradable(&self) {
        self.change(|inside| inside.is_upgradable = false);
    }

    unsafe fn downgrade_to_upgradable(&self) {
        self.change(|inside| {
            inside.is_written = false;
            inside.is_upgradable = true;
            inside.readers = 1;
        });
    }
}

// SAFETY: the lock is acquired as in `RawRwLockUpgrade`. `false` means that it was not, or that the caller is
// still a reader.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    fn try_lock_upgradable_for(&self, _: Duration) -> bool {
        self.acquire_until(Wish::Upgradable, Deadline::May)
    }

    fn try_lock_upgradable_until(&self, _: Instant) -> bool {
        self.acquire_until(Wish::Upgradable, Deadline::May)
    }

    unsafe fn try_upgrade_for(&self, _: Duration) -> bool {
        self.acquire_until(Wish::Upgrade, Deadline::May)
    }

    unsafe fn try_upgrade_until(&self, _: Instant) -> bool {
        self.acquire_until(Wish::Upgrade, Deadline::May)
    }
}

mod sealed {
    pub trait Sealed {}
}

impl<T: ?Sized> sealed::Sealed for RwLock<T> {}
impl<T: ?Sized> sealed::Sealed for RwLockUpgradableReadGuard<'_, T> {}

/// Makes one wait that may time out, out of one without a limit and one with a deadline.
macro_rules! with {
    ($($with:ident $guard:ident $lock:ident $lock_until:ident;)*) => {
        /// Waits that end as a [`Wait`] says. (In a model, no thread is interrupted.)
        pub trait RwLockWith: sealed::Sealed {
            /// What the lock protects.
            type Value: ?Sized;

            $(
                /// Acquires the lock.
                ///
                /// # Errors
                ///
                /// [`WaitError::TimedOut`].
                fn $with(&self, wait: Wait) -> Result<$guard<'_, Self::Value>, WaitError>;
            )*
        }

        impl<T: ?Sized> RwLockWith for RwLock<T> {
            type Value = T;

            $(
                fn $with(&self, wait: Wait) -> Result<$guard<'_, T>, WaitError> {
                    match wait.deadline {
                        Some(deadline) => self.$lock_until(deadline).ok_or(WaitError::TimedOut),
                        None => Ok(self.$lock()),
                    }
                }
            )*
        }
    };
}

with! {
    read_with RwLockReadGuard read try_read_until;
    read_recursive_with RwLockReadGuard read_recursive try_read_recursive_until;
    write_with RwLockWriteGuard write try_write_until;
    upgradable_read_with RwLockUpgradableReadGuard upgradable_read try_upgradable_read_until;
}

/// Guards with an upgrade that ends as a [`Wait`] says. (In a model, no thread is interrupted.)
pub trait UpgradeWith: Sized + sealed::Sealed {
    /// What it becomes.
    type Upgraded;

    /// Becomes the writer.
    ///
    /// # Errors
    ///
    /// The guard as it was, and [`WaitError::TimedOut`].
    fn upgrade_with(this: Self, wait: Wait) -> Result<Self::Upgraded, (Self, WaitError)>;
}

impl<'a, T: ?Sized> UpgradeWith for RwLockUpgradableReadGuard<'a, T> {
    type Upgraded = RwLockWriteGuard<'a, T>;

    fn upgrade_with(this: Self, wait: Wait) -> Result<Self::Upgraded, (Self, WaitError)> {
        match wait.deadline {
            Some(deadline) => {
                Self::try_upgrade_until(this, deadline).map_err(|this| (this, WaitError::TimedOut))
            }
            None => Ok(Self::upgrade(this)),
        }
    }
}
