//! The read-write lock: which threads hold it, and which keep readers out.
//!
//! As with the real lock, a reader that comes while a writer waits stays out, unless it reads again. So a
//! model finds a thread that reads twice and would be kept out by a writer that comes in between.

use std::cell::Cell;

use super::{Monitor, also_unwinding};
use crate::park::wait::{Wait, WaitError};

/// The algorithm of a read-write lock in a model.
#[derive(Debug, Default)]
pub struct RawRwLock(Monitor<Inside>);

#[derive(Clone, Default)]
struct Inside {
    /// The readers, the upgradable one among them.
    readers: usize,
    is_upgradable: bool,
    is_written: bool,
    /// The writers and upgraders that wait. They keep new readers out.
    keep_out: usize,
}

/// What a thread asks for, or has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
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
            Wish::Upgradable => (self.readers, self.is_upgradable) = (self.readers + 1, true),
            Wish::Write => self.is_written = true,
            Wish::Upgrade => (self.readers, self.is_upgradable, self.is_written) = (0, false, true),
        }
    }

    fn leave(&mut self, wish: Wish) {
        match wish {
            Wish::Read | Wish::ReadAgain => self.readers -= 1,
            Wish::Upgradable => (self.readers, self.is_upgradable) = (self.readers - 1, false),
            Wish::Write | Wish::Upgrade => self.is_written = false,
        }
    }

    fn try_enter(&mut self, wish: Wish) -> bool {
        let admitted = self.admits(wish);
        if admitted {
            self.enter(wish);
        }
        admitted
    }
}

impl RawRwLock {
    /// Creates a free lock.
    pub const fn new() -> Self {
        Self(Monitor::new(Inside { readers: 0, is_upgradable: false, is_written: false, keep_out: 0 }))
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn acquire(&self, wish: Wish) {
        self.acquire_with(wish, Wait::forever()).expect("no deadline");
    }

    pub(crate) fn try_acquire(&self, wish: Wish) -> bool {
        self.0.with(|inside| inside.try_enter(wish))
    }

    pub(crate) fn acquire_with(&self, wish: Wish, wait: Wait) -> Result<(), WaitError> {
        let keeps_out = Cell::new(0);
        let attempt = |inside: &mut Inside| {
            // A waiter is not kept out by itself.
            inside.keep_out -= keeps_out.take();
            let admitted = inside.try_enter(wish);
            if !admitted && matches!(wish, Wish::Write | Wish::Upgrade) {
                keeps_out.set(1);
                inside.keep_out += 1;
            }
            admitted.then_some(())
        };
        self.0.wait(wait, attempt, |inside| inside.keep_out -= keeps_out.get())
    }

    pub(crate) fn try_upgrade(&self) -> bool {
        self.try_acquire(Wish::Upgrade)
    }

    pub(crate) fn upgrade_with(&self, wait: Wait) -> Result<(), WaitError> {
        self.acquire_with(Wish::Upgrade, wait)
    }

    pub(crate) fn release(&self, wish: Wish) {
        also_unwinding(|| self.0.change(|inside| inside.leave(wish)));
    }

    pub(crate) fn release_fair(&self, wish: Wish) {
        self.release(wish);
    }

    /// Turns the writer into a reader, upgradable or not. No thread comes in between.
    pub(crate) fn downgrade_to(&self, kept: Wish) {
        self.0.change(|inside| {
            inside.leave(Wish::Write);
            inside.enter(kept);
        });
    }

    /// Turns the upgradable reader into an ordinary one.
    pub(crate) fn leave_upgrade(&self) {
        self.0.change(|inside| inside.is_upgradable = false);
    }

    pub(crate) fn bump(&self, wish: Wish) {
        if self.0.has_waiters() {
            self.release(wish);
            self.acquire(wish);
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.0.with(|inside| inside.is_written || inside.readers > 0)
    }

    pub(crate) fn is_written(&self) -> bool {
        self.0.with(|inside| inside.is_written)
    }
}
