//! A thread's part in interrupts: its flag, and the record of its sleep.

use std::ptr;

use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::sleep_word::Sleep;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};

/// A thread's part of the protocol (`interrupt.rs`). The thread itself calls the methods, if they do not say
/// otherwise.
pub(in crate::park) struct Interrupt {
    flag: Flag,
    /// Where the thread sleeps, if that may be interrupted.
    record: QueueLock<SleepRecord>,
}

/// | value | meaning | next by |
/// |---|---|---|
/// | `false` | not interrupted | any thread, with the record locked (see [`Interrupt::set`]): `true` |
/// | `true` | interrupted, and not reported yet | the thread: `false`; the core's next life: `false` |
struct Flag(AtomicBool);

impl Flag {
    #[inline]
    fn look(&self) -> bool {
        // Acquire: pairs with `set`, so that a caller that only looks sees what the interrupter did.
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        // Release: pairs with `look` and `take`. A plain store is enough. The lock of the record is held, so
        // an interrupter comes after all earlier ones, and releases what they did. ([`Interrupt::set`]
        // does without the lock: a lost thread never looks.)
        self.0.store(true, Ordering::Release);
    }

    /// Clears the flag. Called by the thread itself. Returns `true` if the flag was set.
    #[inline]
    fn take(&self) -> bool {
        // Acquire: pairs with `set`. The look comes first because the flag is clear nearly always.
        self.look() && self.0.swap(false, Ordering::Acquire)
    }
}

/// Null, or the sleep of a thread that is asleep, on its way to sleep, or on its way back.
struct SleepRecord(*const SleepRef<'static>);

// SAFETY: the pointer is followed only with the lock held, which the sleeper must take before its frame
// ends.
unsafe impl Send for SleepRecord {}

/// A sleep that may be interrupted, in its thread's frame. A pointer to it is one word in the core, where a
/// `&dyn` would be two.
pub(super) struct SleepRef<'a>(pub(super) &'a dyn Sleep);

impl Interrupt {
    pub(in crate::park) fn new() -> Self {
        Self {
            flag: Flag(AtomicBool::new(false)),
            record: QueueLock::new(Rank::Outer, SleepRecord(ptr::null())),
        }
    }

    /// Resets the flag for the next life of the core, which the caller has to itself.
    #[inline]
    pub(in crate::park) fn reset(&self) {
        // Relaxed: published with the core. The record is null: no thread ends in its sleep.
        self.flag.0.store(false, Ordering::Relaxed);
    }

    /// Takes over the flag of another core, when the same thread goes on with this one.
    pub(in crate::park) fn inherit(&self, from: &Self) {
        // Relaxed: there is no other thread.
        self.flag.0.store(from.flag.look(), Ordering::Relaxed);
    }

    /// # Safety
    /// Called in the child of a fork, by its only thread, which has the core that contains this.
    pub(in crate::park) unsafe fn survive_fork(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.record.mend(|record, _| record.0 = ptr::null()) };
    }

    /// Returns `true` if the thread has been interrupted and has not been told yet.
    pub(in crate::park) fn is_set(&self) -> bool {
        self.flag.look()
    }

    /// Returns `true` if the thread sleeps, or is about to, where an interrupt ends the sleep. A look from
    /// outside.
    pub(in crate::park) fn may_end_sleep(&self) -> bool {
        // A locked record is taken for such a sleep. In the child of a fork it may be locked forever.
        self.record.try_with(|record| !record.0.is_null()).unwrap_or(true)
    }

    /// Clears the flag. Returns `true` if the flag was set.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.flag.take()
    }

    /// Sets the flag of a lost thread, which belongs to a parent process and never runs here. Called by any
    /// thread. The record may be locked forever, so it is left alone.
    pub(super) fn set(&self) {
        self.flag.set();
    }

    /// Sets the flag, and tries to [win](Self::win) the thread's sleep. Called by any thread.
    pub(super) fn set_and_win<B>(&self, before: impl FnOnce() -> Option<B>) -> Option<(B, *const AtomicU32)> {
        self.record.with(|record| {
            self.flag.set();
            record.win(before)
        })
    }

    /// Tries to win the thread's sleep, if there is one and `before` returns something. Returns that, and the
    /// address of the sleep's word. `before` runs first, because a kernel thread whose sleep is won may wake
    /// by itself, and end. Called by any thread.
    pub(super) fn win<B>(&self, before: impl FnOnce() -> Option<B>) -> Option<(B, *const AtomicU32)> {
        self.record.with(|record| record.win(before))
    }

    /// Says where the thread is about to sleep. `all` returns `true` if all threads of the runtime are
    /// interrupted. If so, or if the flag is set, the thread tries to win its own sleep. If it wins, it does
    /// not sleep, and this returns `false`.
    pub(super) fn enter(&self, sleep_ref: &SleepRef<'_>, all: impl FnOnce() -> bool) -> bool {
        self.record.with(|record| {
            if (self.flag.look() || all()) && sleep_ref.0.interrupt() {
                return false;
            }
            // A longer lifetime in the type only: `leave` comes before the end of the frame.
            record.0 = ptr::from_ref(sleep_ref).cast();
            true
        })
    }

    /// Takes back what `enter` said. Called after the sleep, also if there was none.
    pub(super) fn leave(&self) {
        self.record.with(|record| record.0 = ptr::null());
    }
}

impl SleepRecord {
    /// Does what [`Interrupt::win`] does. The lock is held.
    fn win<B>(&self, before: impl FnOnce() -> Option<B>) -> Option<(B, *const AtomicU32)> {
        // SAFETY: null, or entered by the thread, which cannot leave without the lock that is held.
        let sleep_ref = unsafe { self.0.as_ref() }?;
        let word = ptr::from_ref(sleep_ref.0.word());
        let known = before()?;
        sleep_ref.0.interrupt().then_some((known, word))
    }
}

#[cfg(all(test, loom))]
mod loom_interrupt;
