//! The condition in which a robust lock's owners leave what it protects, and the reasons why the lock may
//! not be had.
//!
//! | condition | meaning |
//! |---|---|
//! | `Consistent` | the last owner left it sound |
//! | `OwnerPanicked`, `ProcessDied`, `OwnerDied` | an owner did not |
//! | not recoverable | no owner will mend it |
//!
//! It changes with the lock held, as follows:
//!
//! - `Consistent` becomes `OwnerPanicked` by an owner that unwinds. The heir of a dead owner changes it to
//!   the one of the three that says how that owner died.
//! - One of the three becomes `Consistent` by an owner that has mended the value, and not recoverable by one
//!   that unlocks without. Another death may change it to a later one of the three.
//! - Not recoverable is final.

use std::error::Error;
use std::fmt;

use crate::park::wait::WaitError;
use crate::shim::atomic::{AtomicU8, Ordering};

/// The condition in which an owner finds what a robust lock protects. After several deaths the worst
/// counts, which is the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[must_use = "what the lock protects may have to be mended"]
pub enum Condition {
    /// The last owner left it sound.
    Consistent = 0,
    /// An owner has panicked with the lock held, and what it left has not been mended.
    OwnerPanicked = 1,
    /// The process of an owner has ended, and what it left has not been mended. (Only of locks that
    /// processes share.)
    ProcessDied = 2,
    /// An owner has ended with the lock held, and what it left has not been mended.
    OwnerDied = 3,
}

/// No owner will mend it.
const NOT_RECOVERABLE: u8 = 4;

/// The word of the condition, as in the table; zero is `Consistent`.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct ConditionWord(AtomicU8);

impl ConditionWord {
    pub(in crate::sync) const fn new() -> Self {
        Self(AtomicU8::new(Condition::Consistent as u8))
    }

    /// Returns the condition; `None`: not recoverable.
    #[inline]
    pub(in crate::sync) fn look(&self) -> Option<Condition> {
        // Relaxed, here and below: the lock orders it; for threads without it, it is a look.
        match self.0.load(Ordering::Relaxed) {
            0 => Some(Condition::Consistent),
            1 => Some(Condition::OwnerPanicked),
            2 => Some(Condition::ProcessDied),
            3 => Some(Condition::OwnerDied),
            _ => None,
        }
    }

    /// Notes that the owner has mended it. Returns `false` if there was nothing to mend.
    pub(in crate::sync) fn mend(&self) -> bool {
        let broken = self.look() != Some(Condition::Consistent);
        if broken {
            self.0.store(Condition::Consistent as u8, Ordering::Relaxed);
        }
        broken
    }

    /// Notes how the last owner died. Called by its heir.
    pub(in crate::sync) fn inherit(&self, death: Condition) {
        if let Some(before) = self.look() {
            self.0.store(before.max(death) as u8, Ordering::Relaxed);
        }
    }

    /// Notes how the owner leaves, before it unlocks: it unwinds, or does not.
    #[inline]
    pub(in crate::sync) fn leave(&self, unwinds: bool) {
        if unwinds {
            self.inherit(Condition::OwnerPanicked);
        } else if self.look() != Some(Condition::Consistent) {
            self.0.store(NOT_RECOVERABLE, Ordering::Relaxed);
        }
    }
}

/// The reason why a robust lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RobustError {
    /// An owner died, and its heir has unlocked without saying that it has mended what was left. The lock
    /// cannot be locked again.
    NotRecoverable,
    /// A writer died or panicked, and what it left has not been mended yet. (Only of
    /// [`process_shared::RwLock`](crate::sync::process_shared::RwLock).)
    NotConsistent,
    /// The running thread owns the lock already, and would wait for itself.
    Deadlock,
    /// Another thread has owned the lock until the deadline. (Only of `lock_with`.)
    TimedOut,
    /// The running thread has been interrupted. (Only of `lock_with`.)
    Interrupted,
}

impl fmt::Display for RobustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRecoverable => f.pad("an owner of the lock died, and what it left has not been mended"),
            Self::NotConsistent => f.pad("a writer died, and what it left has not been mended yet"),
            Self::Deadlock => f.pad("the thread owns the lock already, and would wait for itself"),
            Self::TimedOut => WaitError::TimedOut.fmt(f),
            Self::Interrupted => WaitError::Interrupted.fmt(f),
        }
    }
}

impl Error for RobustError {}

impl From<WaitError> for RobustError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => Self::TimedOut,
            WaitError::Interrupted => Self::Interrupted,
        }
    }
}
