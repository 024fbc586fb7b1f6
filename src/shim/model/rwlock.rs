//! The read-write lock: who is in and who waits, under a lock of loom's.
//!
//! As with the real one, readers who come while a writer waits stay out, unless they read again; so a model finds a thread that reads
//! twice, and would be kept out by a writer who comes in between.

use std::fmt;
use std::mem;
use std::time::{Duration, Instant};

use super::mutex::Deadline;
use super::{Expiries, Lazy, also_unwinding};
use crate::park::interrupt::Interrupted;

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
    state: Lazy<State>,
    expiries: Expiries,
}

#[derive(Default)]
struct State {
    inside: loom::sync::Mutex<Inside>,
    changed: loom::sync::Condvar,
}

#[derive(Default)]
struct Inside {
    /// Those who read, the upgradable one among them.
    readers: usize,
    is_upgradable: bool,
    is_written: bool,
    /// Writers and upgraders who wait: they keep new readers out.
    keep_out: usize,
    waiting: usize,
}

/// What somebody wants to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Read,
    ReadAgain,
    Upgradable,
    Write,
    /// Has the upgradable share.
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
    /// A free lock.
    pub const fn new() -> Self {
        Self { state: Lazy::new(), expiries: Expiries::new() }
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn inside(&self) -> (&State, loom::sync::MutexGuard<'_, Inside>) {
        let state = self.state.get(State::default);
        (state, state.inside.lock().expect("no poison"))
    }

    fn acquire(&self, wish: Wish) {
        let (state, mut inside) = self.inside();
        inside.keep_out += Inside::keeps_out(wish);
        loop {
            // It is not kept out by itself.
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

    /// Somebody leaves, or wants to be less than before.
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

// SAFETY: `admits` lets a writer in where nobody is, and a reader where no writer is.
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

// SAFETY: as the plain forms, which they are.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self) {
        self.change(|inside| inside.readers -= 1);
    }

    unsafe fn unlock_exclusive_fair(&self) {
        self.change(|inside| inside.is_written = false);
    }
}

// SAFETY: one change: nobody comes in in between.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.change(|inside| {
            inside.is_written = false;
            inside.readers = 1;
        });
    }
}

// SAFETY: as above; `false` means that it is not in.
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

// SAFETY: one that reads again is kept out by a writer that is in.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        self.acquire(Wish::ReadAgain);
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.try_acquire(Wish::ReadAgain)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, _: Duration) -> bool {
        self.acquire_until(Wish::ReadAgain, Deadline::May)
    }

    fn try_lock_shared_recursive_until(&self, _: Instant) -> bool {
        self.acquire_until(Wish::ReadAgain, Deadline::May)
    }
}

// SAFETY: `admits` lets one upgradable reader in at a time, which becomes the writer when it is the only reader.
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

// SAFETY: as the plain form, which it is.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: the caller's promise.
        unsafe { lock_api::RawRwLockUpgrade::unlock_upgradable(self) };
    }
}

// SAFETY: as `RawRwLockDowngrade`.
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

// SAFETY: as `RawRwLockUpgrade`; `false` means that it is not in, or still a reader.
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

/// The three forms of a wait, which is the plain one's.
macro_rules! forms {
    ($($guard:ident $plain:ident $for:ident $until:ident: $lock:ident $lock_for:ident $lock_until:ident;)*) => {
        /// Waits that an interrupt can end. (In a model: nobody is interrupted.)
        pub trait RwLockInterruptible: sealed::Sealed {
            /// What the lock protects.
            type Value: ?Sized;

            $(
                /// Comes in.
                ///
                /// # Errors
                ///
                /// None in a model.
                fn $plain(&self) -> Result<$guard<'_, Self::Value>, Interrupted>;

                /// Comes in, or gives up: `None`.
                ///
                /// # Errors
                ///
                /// None in a model.
                fn $for(&self, time: Duration) -> Result<Option<$guard<'_, Self::Value>>, Interrupted>;

                /// Comes in, or gives up: `None`.
                ///
                /// # Errors
                ///
                /// None in a model.
                fn $until(&self, deadline: Instant) -> Result<Option<$guard<'_, Self::Value>>, Interrupted>;
            )*
        }

        impl<T: ?Sized> RwLockInterruptible for RwLock<T> {
            type Value = T;

            $(
                fn $plain(&self) -> Result<$guard<'_, T>, Interrupted> {
                    Ok(self.$lock())
                }

                fn $for(&self, time: Duration) -> Result<Option<$guard<'_, T>>, Interrupted> {
                    Ok(self.$lock_for(time))
                }

                fn $until(&self, deadline: Instant) -> Result<Option<$guard<'_, T>>, Interrupted> {
                    Ok(self.$lock_until(deadline))
                }
            )*
        }
    };
}

forms! {
    RwLockReadGuard read_interruptible read_interruptible_for read_interruptible_until:
        read try_read_for try_read_until;
    RwLockReadGuard read_recursive_interruptible read_recursive_interruptible_for read_recursive_interruptible_until:
        read_recursive try_read_recursive_for try_read_recursive_until;
    RwLockWriteGuard write_interruptible write_interruptible_for write_interruptible_until:
        write try_write_for try_write_until;
    RwLockUpgradableReadGuard
        upgradable_read_interruptible upgradable_read_interruptible_for upgradable_read_interruptible_until:
        upgradable_read try_upgradable_read_for try_upgradable_read_until;
}

/// Guards that can be upgraded in a way that an interrupt can end. (In a model: nobody is interrupted.)
pub trait UpgradeInterruptible: Sized + sealed::Sealed {
    /// What it becomes.
    type Upgraded;

    /// Becomes the writer.
    ///
    /// # Errors
    ///
    /// None in a model.
    fn upgrade_interruptible(this: Self) -> Result<Self::Upgraded, (Self, Interrupted)>;

    /// Becomes the writer, or gives up.
    ///
    /// # Errors
    ///
    /// None in a model.
    fn upgrade_interruptible_for(
        this: Self,
        time: Duration,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)>;

    /// Becomes the writer, or gives up.
    ///
    /// # Errors
    ///
    /// None in a model.
    fn upgrade_interruptible_until(
        this: Self,
        deadline: Instant,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)>;
}

impl<'a, T: ?Sized> UpgradeInterruptible for RwLockUpgradableReadGuard<'a, T> {
    type Upgraded = RwLockWriteGuard<'a, T>;

    fn upgrade_interruptible(this: Self) -> Result<Self::Upgraded, (Self, Interrupted)> {
        Ok(Self::upgrade(this))
    }

    fn upgrade_interruptible_for(
        this: Self,
        time: Duration,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)> {
        Ok(Self::try_upgrade_for(this, time))
    }

    fn upgrade_interruptible_until(
        this: Self,
        deadline: Instant,
    ) -> Result<Result<Self::Upgraded, Self>, (Self, Interrupted)> {
        Ok(Self::try_upgrade_until(this, deadline))
    }
}
