//! The robust lock of one process, without the data: a mutex, its owner, and how the last one left.
//!
//! **Problem.** An owner that panics, or ends with the lock held, leaves a state that nobody vouches for. The next one must learn of it,
//! be able to mend the state and say so; and if it does not, nobody should rely on that state again.
//!
//! **Protocol** (that of POSIX robust mutexes). Beside the mutex stand the owner's id, from right after the lock to right before the
//! unlock, and the [`Condition`] of what it protects (`condition.rs`). How threads that ended are found, and how the one heir of a
//! dead owner is chosen, stands in `park/robust.rs`: the heir replaces the dead owner's id by its own, and the mutex stays locked
//! all the time.
//!
//! **Proof.** The owner writes its id after it has locked the mutex, and clears it before it unlocks. So
//! while an id is there, its thread has the mutex. No other thread writes the id, except an heir of a dead
//! owner. Between the lock and the store the id is 0, which never counts as dead. A thread cannot end between
//! the two. But its process may fork there; then the thread's pending entry names the lock
//! (`park/robust.rs`).
//!
//! **Cost** in read-modify-writes: that of the mutex. A lock and an unlock take ten more stores: the id and
//! the thread's count, twice each, and the pending entry.

use std::fmt;
use std::time::Instant;

use super::condition::{Condition, ConditionWord, RobustError};
use super::traits::{RawRobust, Steps};
use crate::park::robust::{self as dead, Abandoned, Pending};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::shim::const_new;
use crate::sync::UnlockError;
use crate::sync::mutex::RawMutex;
use crate::sync::mutex::raw::robust::Ended;

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

/// A robust lock that protects nothing by itself: for locking that does not follow scopes, as in C. What it can do stands in
/// [`RawRobust`].
///
/// Where it protects a value, [`RobustMutex`](crate::sync::RobustMutex) is safer.
///
/// # Examples
///
/// ```
/// use selvedge::sync::robust::{Condition, RawRobust, RawRobustMutex};
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
    condition: ConditionWord,
    owner: Owner,
}

impl RawRobustMutex {
    const_new! {
        /// A free lock.
        #[must_use]
        pub const fn new() -> Self {
            Self { mutex: RawMutex::new(), condition: ConditionWord::new(), owner: Owner(AtomicU64::new(0)) }
        }
    }

    /// Where the waiters are.
    pub(in crate::sync) fn key(&self) -> usize {
        self.mutex.key()
    }

    /// The dead owner, if it has one.
    #[inline]
    fn dead_owner(&self) -> Option<u64> {
        Some(self.owner.look()).filter(|&owner| dead::is_dead(owner))
    }

    /// The running thread and its id, unless it owns the lock.
    #[inline]
    fn stranger(&self) -> Result<(ThreadRef, u64), RobustError> {
        let (thread, me) = dead::me();
        if self.owner.look() == me { Err(RobustError::Deadlock) } else { Ok((thread, me)) }
    }

    /// Whether the running thread is now the owner in a dead one's place.
    #[cold]
    fn inherit(&self, me: u64) -> bool {
        let Some(dead) = self.dead_owner() else { return false };
        let heir = self.owner.try_inherit(dead, me);
        if heir {
            dead::passed_on(dead);
            self.mutex.taken_over();
            self.condition.inherit(Condition::OwnerEnded);
        }
        heir
    }

    /// By who has the mutex.
    #[inline]
    fn enter(&self, thread: ThreadRef, me: u64) -> Result<Condition, RobustError> {
        match self.condition.look() {
            Some(found) => {
                self.owner.set(me);
                thread.holds_robust();
                Ok(found)
            }
            None => {
                self.owner.set(0);
                self.mutex.release();
                Err(RobustError::NotRecoverable)
            }
        }
    }

    /// By the owner.
    #[inline]
    fn exit(&self, thread: ThreadRef) {
        let _pending = Pending::begin(thread, self);
        thread.frees_robust();
        self.owner.set(0);
        self.mutex.release();
    }

    #[cold]
    fn is_not_mine(&self) -> UnlockError {
        if self.is_locked() { UnlockError::NotOwner } else { UnlockError::NotLocked }
    }
}

impl Abandoned for RawRobustMutex {
    fn bury(&self, id: u64) {
        if self.owner.look() == 0 && self.is_locked() {
            self.owner.set(id);
        }
    }
}

impl Steps for RawRobustMutex {
    #[inline]
    fn acquire(
        &self,
        deadline: Option<Instant>,
        interruptible: bool,
    ) -> Result<Option<Condition>, RobustError> {
        let (thread, me) = self.stranger()?;
        let _pending = Pending::begin(thread, self);
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

    #[inline]
    fn try_acquire(&self) -> Result<Option<Condition>, RobustError> {
        let (thread, me) = self.stranger()?;
        let _pending = Pending::begin(thread, self);
        if lock_api::RawMutex::try_lock(&self.mutex) || self.inherit(me) {
            self.enter(thread, me).map(Some)
        } else {
            Ok(None)
        }
    }

    #[inline]
    fn condition(&self) -> &ConditionWord {
        &self.condition
    }

    #[inline]
    fn release(&self, unwinds: bool) -> Result<(), UnlockError> {
        let (thread, me) = dead::me();
        if self.owner.look() != me {
            return Err(self.is_not_mine());
        }
        self.condition.leave(unwinds);
        self.exit(thread);
        Ok(())
    }

    fn pass_on(&self) {
        let (thread, me) = dead::me();
        // Not where the thread has been taken for ended before its last destructors: there is an heir by then.
        if self.owner.look() == me {
            self.exit(thread);
        }
    }
}

impl RawRobust for RawRobustMutex {
    fn is_locked(&self) -> bool {
        lock_api::RawMutex::is_locked(&self.mutex)
    }

    fn is_owned_by_current_thread(&self) -> bool {
        self.owner.look() == dead::me().1
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that has been taken for ended, and goes on in a destructor, leaves an heir alone.
    #[test]
    fn a_stranger_passes_nothing_on() {
        let lock = RawRobustMutex::new();
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(lock.lock(), Ok(Condition::Sound))).join().unwrap();
        });
        lock.pass_on();
        assert!(lock.is_locked(), "of the other, who has ended");
        assert_eq!(lock.lock(), Ok(Condition::OwnerEnded));
        lock.pass_on();
        assert!(!lock.is_locked());
    }
}
