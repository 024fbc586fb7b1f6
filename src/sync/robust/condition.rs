//! In what condition a robust lock's owners leave what it protects, and why it may not be had.
//!
//! | condition | meaning | next |
//! |---|---|---|
//! | `Sound` | whoever had it left well | `OwnerPanicked` by an owner that unwinds; by the heir of a dead one as that died |
//! | `OwnerPanicked`, `OwnerKilled`, `OwnerEnded` | an owner did not | `Sound` by one that has mended it; lost by one that unlocks without; a later one of the three by another death |
//! | lost | nobody will mend it | - |
//!
//! It changes with the lock held.

use std::error::Error;
use std::fmt;

use crate::park::interrupt::Interrupted;
use crate::shim::atomic::{AtomicU8, Ordering};
use crate::shim::const_new;

/// In what condition an owner finds what a robust lock protects. Of several deaths the worst counts, which is the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[must_use = "what the lock protects may have to be mended"]
pub enum Condition {
    /// Whoever had the lock left well.
    Sound = 0,
    /// An owner has panicked with the lock held, and nobody has mended what it left.
    OwnerPanicked = 1,
    /// The process of an owner has ended, and nobody has mended what that left. (Only of locks that processes share.)
    OwnerKilled = 2,
    /// An owner has ended with the lock held, and nobody has mended what it left.
    OwnerEnded = 3,
}

/// Nobody will mend it.
const LOST: u8 = 4;

/// See the table above; zero is `Sound`.
#[derive(Debug)]
#[repr(transparent)]
pub struct ConditionWord(AtomicU8);

impl ConditionWord {
    const_new! {
        pub(in crate::sync) const fn new() -> Self {
            Self(AtomicU8::new(Condition::Sound as u8))
        }
    }

    /// `None`: lost.
    #[inline]
    pub(in crate::sync) fn look(&self) -> Option<Condition> {
        // Relaxed, here and below: the lock orders it; for others it is a look.
        match self.0.load(Ordering::Relaxed) {
            0 => Some(Condition::Sound),
            1 => Some(Condition::OwnerPanicked),
            2 => Some(Condition::OwnerKilled),
            3 => Some(Condition::OwnerEnded),
            _ => None,
        }
    }

    /// By the owner, who has mended it. `false`: there was nothing to mend.
    pub(in crate::sync) fn mend(&self) -> bool {
        let broken = self.look() != Some(Condition::Sound);
        if broken {
            self.0.store(Condition::Sound as u8, Ordering::Relaxed);
        }
        broken
    }

    /// By the heir of an owner that has died so.
    pub(in crate::sync) fn inherit(&self, death: Condition) {
        if let Some(before) = self.look() {
            self.0.store(before.max(death) as u8, Ordering::Relaxed);
        }
    }

    /// By the owner, who is about to unlock, and unwinds or does not.
    #[inline]
    pub(in crate::sync) fn leave(&self, unwinds: bool) {
        if unwinds {
            self.inherit(Condition::OwnerPanicked);
        } else if self.look() != Some(Condition::Sound) {
            self.0.store(LOST, Ordering::Relaxed);
        }
    }
}

/// Why a robust lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RobustError {
    /// An owner died, and its heir has unlocked without saying that it has mended what was left. Nobody can lock it again.
    NotRecoverable,
    /// The running thread owns the lock already, and would wait for itself.
    Deadlock,
    /// The running thread has been interrupted. (Only of waits that are called interruptible.)
    Interrupted,
}

impl fmt::Display for RobustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRecoverable => f.pad("an owner of the lock died, and what it left has not been mended"),
            Self::Deadlock => f.pad("the thread owns the lock already, and would wait for itself"),
            Self::Interrupted => Interrupted.fmt(f),
        }
    }
}

impl Error for RobustError {}
