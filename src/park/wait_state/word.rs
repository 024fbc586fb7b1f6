//! What a thread says of itself: its runtime, and what it waits for.

use std::mem::offset_of;

use crate::park::debugger::{Fact, Facts};
use crate::park::reason::WaitReason;
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// The part of a core that can be seen from outside. Written by the thread; for its next life, by the party
/// that has the core to itself.
#[derive(Debug)]
pub(crate) struct WaitState {
    /// The address of the runtime; 0 for none.
    home: AtomicUsize,
    /// What it waits for, as a [`WaitReason`], with `TIMED`; 0 if it does not wait.
    reason: AtomicU8,
    /// The number of that wait.
    serial: AtomicU32,
    /// In a wait on a queue, its key. In a join, the core of the other thread. Otherwise, what the last such
    /// wait left here.
    at: AtomicUsize,
}

/// For debuggers.
pub(in crate::park) static FACTS: Facts<2> = Facts::new([
    Fact::number("wait.reason", offset_of!(WaitState, reason)),
    Fact::number("wait.at", offset_of!(WaitState, at)),
]);

/// In `WaitState::reason`: the wait has a deadline.
const TIMED: u8 = 1 << 7;

impl WaitState {
    pub(in crate::park) fn new() -> Self {
        Self {
            home: AtomicUsize::new(0),
            reason: AtomicU8::new(0),
            serial: AtomicU32::new(0),
            at: AtomicUsize::new(0),
        }
    }

    /// Begins a life in the runtime at `home`. Relaxed: looks from outside look twice.
    #[inline]
    pub(in crate::park) fn begin(&self, home: usize) {
        self.home.store(home, Ordering::Relaxed);
    }

    /// Returns the address of the runtime; 0 for none.
    pub(super) fn home(&self) -> usize {
        // Relaxed: as in `begin`.
        self.home.load(Ordering::Relaxed)
    }

    /// Says where the thread is about to wait.
    #[inline]
    pub(crate) fn at(&self, address: usize) {
        // Release: after the reason of the wait before was taken away. Pairs with `wait`.
        self.at.store(address, Ordering::Release);
    }

    /// Returns where the thread waits, or has waited last.
    pub(in crate::park) fn key(&self) -> usize {
        // Relaxed: the fence of the caller orders it (`mxn/timer/alarm.rs`).
        self.at.load(Ordering::Relaxed)
    }

    /// Says that the thread waits, with a deadline or without.
    #[inline]
    pub(crate) fn waits(&self, reason: WaitReason, timed: bool) {
        // Relaxed: the thread's own. Release: after the address, and after the end of the wait before. A look
        // that finds this number finds both. Pairs with `wait`.
        self.serial.store(self.serial.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // Release: after the address and the number. Pairs with `wait`.
        self.reason.store(reason as u8 | if timed { TIMED } else { 0 }, Ordering::Release);
    }

    /// Says that the thread does not wait.
    #[inline]
    pub(crate) fn goes_on(&self) {
        // Relaxed: `at` orders it before the next address.
        self.reason.store(0, Ordering::Relaxed);
    }

    /// Returns what the thread waits for: the number of the wait, the reason, the address, and `true` if
    /// there is a deadline.
    pub(crate) fn wait(&self) -> Option<(u32, WaitReason, usize, bool)> {
        // Acquire, all: pairs with `at` and `waits`, and keeps this order.
        let serial = self.serial.load(Ordering::Acquire);
        let number = self.reason.load(Ordering::Acquire);
        let at = self.at.load(Ordering::Acquire);
        let same =
            self.reason.load(Ordering::Acquire) == number && self.serial.load(Ordering::Acquire) == serial;
        let reason = WaitReason::from_number(number & !TIMED)?;
        same.then_some((serial, reason, at, number & TIMED != 0))
    }
}

#[cfg(all(test, loom))]
mod loom_wait_state;
