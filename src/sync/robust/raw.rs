//! The robust lock of one process, without the data: a mutex, its owner, and how the last owner left.
//!
//! **Problem.** An owner that panics, or ends with the lock held, leaves a state that may be broken. The
//! next owner must learn of it, be able to mend the state, and say so. If it does not mend it, no thread
//! should rely on that state again.
//!
//! **Protocol** (that of POSIX robust mutexes). The lock has two words beside the mutex:
//!
//! - the owner's id, from right after the lock to right before the unlock
//! - the [`Condition`] of what it protects (`condition.rs`)
//!
//! `park/robust.rs` says how threads that ended are found, and how the one heir of a dead owner is
//! chosen. The heir replaces the dead owner's id by its own. The mutex stays locked all the time.
//!
//! **Proof.** The owner writes its id after it has locked the mutex, and clears it before it unlocks. So
//! while an id is there, its thread has the mutex. No other thread writes the id, except an heir of a dead
//! owner. Between the lock and the store the id is 0, which never counts as dead. A thread cannot end between
//! the two. But its process may fork there; then the thread's pending entry names the lock
//! (`park/robust.rs`).
//!
//! **Cost** in read-modify-writes: that of the mutex. A lock and an unlock take ten more stores: the id and
//! the thread's count, twice each, and the pending entry.

use super::condition::{Condition, ConditionWord, RobustError};
use super::traits::{RawRobust, Steps};
use crate::park::robust::{self as dead, Abandoned, Pending};
use crate::park::thread::ThreadRef;
use crate::park::wait::Wait;
use crate::shim::atomic::{AtomicU64, Ordering};
use crate::sync::UnlockError;
use crate::sync::mutex::raw::RawMutex;
use crate::sync::mutex::raw::kind::Got;

/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | the lock is free, or has just been locked | the thread that has locked it: its id |
/// | a thread's id | it owns the lock, and may have ended | that thread, to unlock: 0; an heir: its id |
#[derive(Debug, Default)]
struct Owner(AtomicU64);

impl Owner {
    #[inline]
    fn look(&self) -> u64 {
        // Relaxed, here and below: a thread must find only what it wrote itself. The dead are found as
        // `park/robust.rs` says.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, id: u64) {
        self.0.store(id, Ordering::Relaxed);
    }

    /// Passes the lock from a dead owner to an heir.
    #[must_use]
    fn try_inherit(&self, dead: u64, heir: u64) -> bool {
        // Relaxed: the list of the dead has ordered it, and the mutex will.
        self.0.compare_exchange(dead, heir, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A robust lock that protects nothing by itself, for locking that does not follow scopes, as in C.
/// [`RawRobust`] says what it can do.
///
/// If it is to protect a value, [`RobustMutex`](crate::sync::RobustMutex) is safer.
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
/// assert_eq!(LOCK.lock(), Ok(Condition::OwnerDied));
/// // Here what it protects is mended.
/// assert!(LOCK.mark_consistent());
/// LOCK.unlock()?;
/// assert_eq!(LOCK.lock(), Ok(Condition::Consistent));
/// LOCK.unlock()?;
/// # Ok::<(), selvedge::sync::UnlockError>(())
/// ```
#[derive(Default)]
pub struct RawRobustMutex {
    mutex: RawMutex,
    condition: ConditionWord,
    owner: Owner,
}

impl RawRobustMutex {
    /// Creates a free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { mutex: RawMutex::new(), condition: ConditionWord::new(), owner: Owner(AtomicU64::new(0)) }
    }

    /// Returns the key under which its waiters queue.
    pub(in crate::sync) fn key(&self) -> usize {
        self.mutex.key()
    }

    /// Returns the dead owner, if it has one.
    #[inline]
    fn dead_owner(&self) -> Option<u64> {
        Some(self.owner.look()).filter(|&owner| dead::is_dead(owner))
    }

    /// Returns the running thread and its id, unless it owns the lock.
    #[inline]
    fn stranger(&self) -> Result<(ThreadRef, u64), RobustError> {
        let (thread, me) = dead::me();
        if self.owner.look() == me { Err(RobustError::Deadlock) } else { Ok((thread, me)) }
    }

    /// Returns `true` if the running thread has become the owner in place of a dead one.
    #[cold]
    fn inherit(&self, me: u64) -> bool {
        let Some(dead) = self.dead_owner() else { return false };
        let heir = self.owner.try_inherit(dead, me);
        if heir {
            dead::passed_on(dead);
            self.mutex.taken_over();
            self.condition.inherit(Condition::OwnerDied);
        }
        heir
    }

    /// Completes the acquire of a thread that has the mutex.
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

    /// Releases the lock. Called by the owner.
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
    fn owner_died(&self, id: u64) {
        if self.owner.look() == 0 && self.is_locked() {
            self.owner.set(id);
        }
    }
}

impl Steps for RawRobustMutex {
    #[inline]
    fn acquire(&self, wait: Wait) -> Result<Condition, RobustError> {
        let (thread, me) = self.stranger()?;
        let _pending = Pending::begin(thread, self);
        wait.run(|wait| {
            let attempt = || self.mutex.acquire_unless(|| self.dead_owner().is_some(), wait);
            while attempt()? == Got::OwnerDied && !self.inherit(me) {}
            Ok(())
        })?;
        self.enter(thread, me)
    }

    #[inline]
    fn try_acquire(&self) -> Result<Option<Condition>, RobustError> {
        let (thread, me) = self.stranger()?;
        let _pending = Pending::begin(thread, self);
        if self.mutex.try_acquire() || self.inherit(me) { self.enter(thread, me).map(Some) } else { Ok(None) }
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
        // If the thread was considered ended before its last destructors ran, the lock has an heir by
        // now.
        if self.owner.look() == me {
            self.exit(thread);
        }
    }
}

impl RawRobust for RawRobustMutex {
    fn is_locked(&self) -> bool {
        self.mutex.is_taken()
    }

    fn is_owned_by_current_thread(&self) -> bool {
        self.owner.look() == dead::me().1
    }
}

crate::shown::debug! {
    [] RawRobustMutex: "RawRobustMutex",
    "locked": |lock| lock.is_locked(),
    "not_recoverable": |lock| lock.is_not_recoverable()
}

#[cfg(all(test, loom))]
mod loom_robust;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{RobustMutex, RobustMutexGuard};

    /// A thread that was considered ended goes on in a destructor, and leaves an heir alone.
    #[test]
    fn a_stranger_passes_nothing_on() {
        let lock = RawRobustMutex::new();
        std::thread::scope(|s| {
            s.spawn(|| assert_eq!(lock.lock(), Ok(Condition::Consistent))).join().unwrap();
        });
        lock.pass_on();
        assert!(lock.is_locked(), "by the other thread, which has ended");
        assert_eq!(lock.lock(), Ok(Condition::OwnerDied));
        lock.pass_on();
        assert!(!lock.is_locked());
    }
    /// A thread that ends between its acquire and its entry in the lock leaves the lock without an owner.
    #[test]
    fn a_lock_without_an_owner_is_that_of_the_thread_that_died() {
        let lock = RawRobustMutex::new();
        lock.owner_died(7);
        assert_eq!(lock.owner.look(), 0, "it is free");
        assert!(lock.mutex.try_acquire());
        lock.owner_died(7);
        assert_eq!(lock.owner.look(), 7);
        lock.owner_died(8);
        assert_eq!(lock.owner.look(), 7, "it is another's");
    }

    #[test]
    fn a_guard_of_a_part_leaves_the_lock_well() {
        let lock = RobustMutex::new((1, 2));
        assert!(!lock.is_owned_by_current_thread());
        let part = RobustMutexGuard::map(lock.lock().unwrap().unwrap(), |pair| &mut pair.0);
        assert!(lock.is_owned_by_current_thread());
        std::thread::scope(|s| {
            s.spawn(|| assert!(!lock.is_owned_by_current_thread()));
        });
        drop(part);
        assert_eq!(lock.lock().unwrap().condition(), Condition::Consistent);
    }

    #[test]
    fn news_is_in_words_and_stays_for_the_next_owner() {
        let lock = RobustMutex::new(());
        assert_eq!(lock.lock().unwrap().refuse(), "the last owner of the lock has left well");
        let panics = || {
            let _guard = lock.lock().unwrap().unwrap();
            std::panic::resume_unwind(Box::new(()));
        };
        std::thread::scope(|s| assert!(s.spawn(panics).join().is_err()));
        for _ in 0..2 {
            assert_eq!(lock.lock().unwrap().refuse(), "the last owner of the lock has panicked");
        }
    }
}
