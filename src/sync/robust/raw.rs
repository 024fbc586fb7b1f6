//! The robust lock without the data: a mutex, its owner, and how the last one left.
//!
//! **Problem.** An owner that panics, or ends with the lock held, leaves a state that nobody vouches for. The next one must learn of it,
//! be able to mend the state and say so; and if it does not, nobody should rely on that state again.
//!
//! **Protocol** (that of POSIX robust mutexes). Beside the mutex stand the owner's id, from right after the lock to right before the
//! unlock, and the [`Condition`] of what it protects:
//!
//! | condition | meaning | next |
//! |---|---|---|
//! | `SOUND` | whoever had it left well | `PANICKED` by an owner that unwinds; `ORPHANED` by the heir of a dead one |
//! | `PANICKED` | an owner has unwound with it | `SOUND` by an owner that has mended it; `LOST` by one that unlocks without; `ORPHANED` as above |
//! | `ORPHANED` | an owner has ended with it | the same, but for the last |
//! | `LOST` | nobody will mend it | - |
//!
//! It changes with the mutex locked. How threads that ended are found, and how the one heir of a dead owner is chosen, stands in
//! `park/robust.rs`: the heir replaces the dead owner's id by its own, and the mutex stays locked all the time.
//!
//! **Proof.** The id is written by who has locked the mutex, and cleared before it is unlocked; so while an id stands there its thread
//! has the mutex, and nobody else writes but its heirs, once it is dead. Between lock and store the owner is nobody, who never dies; and
//! a thread does not end between the two.
//!
//! **Cost** in read-modify-writes: as the mutex's. Three stores more for a lock and an unlock: the id, the condition's look, the count.

use std::fmt;
use std::time::{Duration, Instant};

use super::RobustError;
use crate::park::robust as dead;
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::shim::const_new;
use crate::sync::mutex::raw::robust::Ended;
use crate::sync::{RawMutex, UnlockError};
use crate::time;

/// In what condition an owner finds what a robust lock protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[must_use = "what the lock protects may have to be mended"]
pub enum Condition {
    /// Whoever had the lock left well.
    Sound = SOUND,
    /// An owner has panicked with the lock held, and nobody has mended what it left.
    OwnerPanicked = PANICKED,
    /// An owner has ended with the lock held, and nobody has mended what it left.
    OwnerEnded = ORPHANED,
}

const SOUND: u8 = 0;
const PANICKED: u8 = 1;
const ORPHANED: u8 = 2;
const LOST: u8 = 3;

/// See the table above.
#[derive(Debug)]
struct Word(AtomicU8);

impl Word {
    #[inline]
    fn look(&self) -> u8 {
        // Relaxed, here and below: the mutex orders it; for others it is a look.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, condition: u8) {
        self.0.store(condition, Ordering::Relaxed);
    }
}

/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | the lock is free, or was locked this moment | who has locked it: its id |
/// | a thread's id | it owns the lock, and may have ended | itself, before it unlocks: 0; an heir: its own id |
#[derive(Debug)]
struct Owner(AtomicU64);

impl Owner {
    #[inline]
    fn look(&self) -> u64 {
        // Relaxed, here and below: a thread must find only what it wrote itself, and the dead are found as `park/robust.rs`
        // says.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, id: u64) {
        self.0.store(id, Ordering::Relaxed);
    }

    /// From the dead to an heir.
    #[must_use]
    fn try_inherit(&self, dead: u64, heir: u64) -> bool {
        // Relaxed: the list of the dead has ordered it, and the mutex will.
        self.0.compare_exchange(dead, heir, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A robust lock that protects nothing by itself: for locking that does not follow scopes, as in C.
///
/// Where it protects a value, [`RobustMutex`](super::RobustMutex) is safer.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Condition, RawRobustMutex, RobustError};
///
/// static LOCK: RawRobustMutex = RawRobustMutex::new();
///
/// // A thread ends with the lock held.
/// std::thread::spawn(|| _ = LOCK.lock().unwrap()).join().unwrap();
/// assert_eq!(LOCK.lock(), Ok(Condition::OwnerEnded));
/// // Here what it protects is mended.
/// assert!(LOCK.mark_sound());
/// LOCK.unlock()?;
/// assert_eq!(LOCK.lock(), Ok(Condition::Sound));
/// LOCK.unlock()?;
/// # Ok::<(), selvedge::sync::UnlockError>(())
/// ```
pub struct RawRobustMutex {
    mutex: RawMutex,
    condition: Word,
    owner: Owner,
}

impl RawRobustMutex {
    const_new! {
        /// A free lock.
        #[must_use]
        pub const fn new() -> Self {
            Self { mutex: RawMutex::new(), condition: Word(AtomicU8::new(SOUND)), owner: Owner(AtomicU64::new(0)) }
        }
    }

    /// The dead owner, if it has one.
    #[inline]
    fn dead_owner(&self) -> Option<u64> {
        Some(self.owner.look()).filter(|&owner| dead::is_dead(owner))
    }

    /// Locks; `None`: another thread has owned it until the deadline.
    #[inline]
    fn acquire(
        &self,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Result<Option<Condition>, RobustError> {
        let (thread, me) = dead::me();
        if self.owner.look() == me {
            return Err(RobustError::Deadlock);
        }
        loop {
            match self.mutex.acquire_unless(|| self.dead_owner().is_some(), deadline, interruptible) {
                Ended::Locked => return self.enter(thread, me).map(Some),
                Ended::OwnerDied if self.inherit(me) => return self.enter(thread, me).map(Some),
                Ended::OwnerDied => {}
                Ended::Expired => return Ok(None),
                Ended::Interrupted => return Err(RobustError::Interrupted),
            }
        }
    }

    /// Whether the running thread is now the owner in a dead one's place.
    #[cold]
    fn inherit(&self, me: u64) -> bool {
        let Some(dead) = self.dead_owner() else { return false };
        let heir = self.owner.try_inherit(dead, me);
        if heir {
            dead::passed_on(dead);
            if self.condition.look() != LOST {
                self.condition.set(ORPHANED);
            }
        }
        heir
    }

    /// By who has the mutex.
    #[inline]
    fn enter(&self, thread: ThreadRef, me: u64) -> Result<Condition, RobustError> {
        let found = match self.condition.look() {
            SOUND => Condition::Sound,
            PANICKED => Condition::OwnerPanicked,
            ORPHANED => Condition::OwnerEnded,
            _ => {
                self.owner.set(0);
                self.mutex.release();
                return Err(RobustError::NotRecoverable);
            }
        };
        self.owner.set(me);
        thread.holds_robust();
        Ok(found)
    }

    /// Locks, and says in what condition the last owner has left what it protects.
    ///
    /// If that is not [`Condition::Sound`], the running thread should mend it and say so, by [`mark_sound`](Self::mark_sound): else
    /// nobody can lock it after it is unlocked.
    ///
    /// # Errors
    ///
    /// [`RobustError::NotRecoverable`]: an owner has not mended it. [`RobustError::Deadlock`]: the running thread owns it already.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock(&self) -> Result<Condition, RobustError> {
        self.acquire(None, false).map(|found| found.expect("a wait without a deadline ends with the lock"))
    }

    /// [`lock`](Self::lock) if it is free, or its owner has ended; `None`: another thread owns it.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn try_lock(&self) -> Result<Option<Condition>, RobustError> {
        let (thread, me) = dead::me();
        if self.owner.look() == me {
            return Err(RobustError::Deadlock);
        }
        if lock_api::RawMutex::try_lock(&self.mutex) || self.inherit(me) {
            return self.enter(thread, me).map(Some);
        }
        Ok(None)
    }

    /// [`lock`](Self::lock), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_for(&self, timeout: Duration) -> Result<Option<Condition>, RobustError> {
        self.acquire(time::after(timeout), false)
    }

    /// [`lock`](Self::lock), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_lock_until(&self, deadline: Instant) -> Result<Option<Condition>, RobustError> {
        self.acquire(Some(deadline), false)
    }

    /// [`lock`](Self::lock), unless the running thread is interrupted.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock), and [`RobustError::Interrupted`]: the lock was not taken.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible(&self) -> Result<Condition, RobustError> {
        self.acquire(None, true).map(|found| found.expect("a wait without a deadline ends with the lock"))
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most for `timeout`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_for(&self, timeout: Duration) -> Result<Option<Condition>, RobustError> {
        self.acquire(time::after(timeout), true)
    }

    /// [`lock_interruptible`](Self::lock_interruptible), at most until `deadline`; `None`: another thread has owned it all the time.
    ///
    /// # Errors
    ///
    /// As [`lock_interruptible`](Self::lock_interruptible).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn lock_interruptible_until(&self, deadline: Instant) -> Result<Option<Condition>, RobustError> {
        self.acquire(Some(deadline), true)
    }

    /// By the owner: what it protects is as it should be. `false`: it was already, or the running thread does not own it.
    pub fn mark_sound(&self) -> bool {
        let mended = self.is_owned_by_current_thread() && self.condition.look() != SOUND;
        if mended {
            self.condition.set(SOUND);
        }
        mended
    }

    /// Unlocks. What an owner before has left, and this one has not [marked as mended](Self::mark_sound), is then lost: nobody can lock
    /// it again.
    ///
    /// # Errors
    ///
    /// [`UnlockError`], if the running thread does not own it; it is then left as it is.
    pub fn unlock(&self) -> Result<(), UnlockError> {
        self.unlock_by(false)
    }

    /// [`unlock`](Self::unlock) by an owner that `unwinds`, or does not.
    #[inline]
    pub(super) fn unlock_by(&self, unwinds: bool) -> Result<(), UnlockError> {
        let (thread, me) = dead::me();
        if self.owner.look() != me {
            return Err(self.is_not_mine());
        }
        let found = self.condition.look();
        if unwinds {
            self.condition.set(found.max(PANICKED));
        } else if found != SOUND {
            self.condition.set(LOST);
        }
        thread.frees_robust();
        self.owner.set(0);
        self.mutex.release();
        Ok(())
    }

    /// By the owner, which has not touched what the lock protects: unlocks, and leaves the news to the next one.
    pub(super) fn pass_on(&self) {
        let (thread, me) = dead::me();
        debug_assert_eq!(self.owner.look(), me);
        thread.frees_robust();
        self.owner.set(0);
        self.mutex.release();
    }

    #[cold]
    fn is_not_mine(&self) -> UnlockError {
        if self.is_locked() { UnlockError::NotOwner } else { UnlockError::NotLocked }
    }

    /// Whether somebody owns it, at this moment; an owner that has ended counts.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        lock_api::RawMutex::is_locked(&self.mutex)
    }

    /// Whether the running thread owns it.
    #[must_use]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.owner.look() == dead::me().1
    }

    /// Whether nobody can lock it any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.condition.look() == LOST
    }
}

impl Default for RawRobustMutex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RawRobustMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRobustMutex")
            .field("locked", &self.is_locked())
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_robust.rs"]
mod loom_robust;
