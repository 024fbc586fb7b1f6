//! What can be seen of a thread by those who have no reference to it: which runtime it is of, and what it waits for.
//!
//! **Problem.** Who reports on a runtime must look at all its threads, while they run, end, and their cores are used again, and none
//! of them may pay for that.
//!
//! **Rejected.** A list of living threads (two read-modify-writes for each); a counted reference to each thread that is looked at: a
//! thread whose count is one may take itself for the last without a read-modify-write (`thread.rs`), so nobody can add
//! to it from outside.
//!
//! **Protocol.** Cores are type-stable, and those who make them keep lists of all that there are; so any core can be looked at,
//! at any time, through what is atomic in it. A look is one of a moment, and may find parts of two lives. So it begins and ends
//! with the thread's identity, which no other life has: where it is the same, and the thread has not ended, all that was read in
//! between is of that one thread, up to the delays of relaxed stores. Its name is on the heap and freed with the next life, so it is
//! changed, and read by such lookers, under a lock; a life without a name after one without pays nothing.
//!
//! What it waits for is written so that a look which finds the same number of the wait, and a reason, before and after it has read
//! the place, has read the place of that wait: the place is written first, then the number, then the reason, and the reason is taken away
//! before the next place is written.
//!
//! Cost: a store for each life, four for each wait.

use std::num::NonZeroU64;

use super::current::current;
use super::everybody::Wait;
use super::ledger;
use super::queue_lock::{QueueLock, Rank};
use super::reason::WaitReason;
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::shim::global;

global! {
    /// Held by who changes the name of a core, and by who reads one without a reference.
    static NAMES: QueueLock<()> = QueueLock::new(Rank::Pool, ());
}

/// Runs `f`, which changes a name.
pub(super) fn with_names<R>(f: impl FnOnce() -> R) -> R {
    NAMES.with(|()| f())
}

/// Frees the lock from a holder that is not there.
///
/// # Safety
/// In the child of a fork, by its only thread.
pub(super) unsafe fn forget_holder() {
    // SAFETY: the caller's promise.
    unsafe { NAMES.mend(|(), _| ()) };
}

/// A core's part of it. Written by the thread, or for its next life by who has the core to itself.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    /// The address of the runtime; 0: none.
    home: AtomicUsize,
    /// What it waits for, as a [`WaitReason`], with `TIMED`; 0: it does not wait.
    reason: AtomicU8,
    /// Which of its waits that is.
    turn: AtomicU32,
    /// In a wait on a queue: its key; in a join: the core of the other thread. Of the last one, if there is no such wait.
    at: AtomicUsize,
}

/// In `Whereabouts::reason`: the wait has a deadline.
const TIMED: u8 = 1 << 7;

impl Whereabouts {
    pub(super) fn new() -> Self {
        Self {
            home: AtomicUsize::new(0),
            reason: AtomicU8::new(0),
            turn: AtomicU32::new(0),
            at: AtomicUsize::new(0),
        }
    }

    /// Relaxed: for lookers, who look again.
    #[inline]
    pub(super) fn begin(&self, home: usize) {
        self.home.store(home, Ordering::Relaxed);
    }

    /// Says where the thread is about to wait.
    #[inline]
    pub(super) fn at(&self, place: usize) {
        // Release: after the reason of the wait before was taken away. Pairs with `wait`.
        self.at.store(place, Ordering::Release);
    }

    /// The thread waits, with a deadline or without.
    #[inline]
    pub(crate) fn waits(&self, reason: WaitReason, timed: bool) {
        // Relaxed: the thread's own. Release: after the place, and after the end of the wait before. A look
        // that finds this number finds both. Pairs with `wait`.
        self.turn.store(self.turn.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // Release: after the place and the number. Pairs with `wait`.
        self.reason.store(reason as u8 | if timed { TIMED } else { 0 }, Ordering::Release);
    }

    /// It does no longer.
    #[inline]
    pub(crate) fn goes_on(&self) {
        // Relaxed: `at` orders it before the next place.
        self.reason.store(0, Ordering::Relaxed);
    }

    /// What the thread waits for: the number of the wait, for what and where, and whether it has a deadline.
    fn wait(&self) -> Option<(u32, WaitReason, usize, bool)> {
        // Acquire, all: they pair with `at` and `waits`, and stay in this order.
        let turn = self.turn.load(Ordering::Acquire);
        let number = self.reason.load(Ordering::Acquire);
        let at = self.at.load(Ordering::Acquire);
        let same = self.reason.load(Ordering::Acquire) == number && self.turn.load(Ordering::Acquire) == turn;
        let reason = WaitReason::from_number(number & !TIMED)?;
        same.then_some((turn, reason, at, number & TIMED != 0))
    }
}

/// Runs `f`, in which the calling kernel thread sleeps until all threads of the runtime at `home` have ended: it can be seen waiting for
/// them, if anybody looks.
pub(crate) fn until_all_end<R>(home: usize, f: impl FnOnce() -> R) -> R {
    if !ledger::is_on() {
        return f();
    }
    let whereabouts = &current().core().whereabouts;
    whereabouts.at(home);
    whereabouts.waits(WaitReason::Scope, false);
    let result = f();
    whereabouts.goes_on();
    result
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct Glimpse {
    pub(crate) id: NonZeroU64,
    pub(crate) name: Option<String>,
    /// What it waits for, and where. (It may have gone on since, so nobody may follow the address.)
    pub(crate) waits: Option<(WaitReason, usize)>,
}

impl ThreadCore {
    /// Where the core is, as a joiner says it.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether this is a thread of the runtime at `home`, and has not ended.
    pub(crate) fn lives_at(&self, home: usize) -> bool {
        // Done is said with release, and looked at first: whoever has ended is not found in its runtime.
        !self.is_done() && self.whereabouts.home.load(Ordering::Relaxed) == home
    }
}

impl ThreadRef {
    /// A look at a core that may be anybody's: what it is about, if it is a living thread of the runtime at `home` all the time, and
    /// what `more` reads meanwhile. May allocate.
    pub(crate) fn glimpse<R>(self, home: usize, more: impl FnOnce() -> R) -> Option<(Glimpse, R)> {
        if !self.lives_at(home) {
            return None;
        }
        let id = self.id();
        let name = self.name_from_outside();
        let more = more();
        let waits = self.whereabouts.wait().map(|(_, reason, at, _)| (reason, at));
        (self.lives_at(home) && self.id() == id).then_some((Glimpse { id, name, waits }, more))
    }

    /// A look at a core that may be anybody's: its identity, its runtime, and its wait; `None`: no living thread has it.
    pub(super) fn sight(self) -> Option<(NonZeroU64, usize, Option<Wait>)> {
        let home = self.whereabouts.home.load(Ordering::Relaxed);
        if !self.lives_at(home) {
            return None;
        }
        let id = self.id();
        let wait = self.whereabouts.wait().map(|(turn, reason, at, timed)| Wait {
            turn,
            reason,
            at,
            timed,
            interruptible: self.interrupt.may_end_sleep(),
            asleep: false,
        });
        (self.lives_at(home) && self.id() == id).then_some((id, home, wait))
    }

    /// The name of the thread of this identity; `None`: it has none, or has ended.
    pub(crate) fn name_of(self, id: NonZeroU64) -> Option<String> {
        self.name_from_outside().filter(|_| !self.is_done() && self.id() == id)
    }

    /// The name of a thread that may end meanwhile. Twice under the lock, so that nothing is allocated with it held.
    fn name_from_outside(self) -> Option<String> {
        let mut text = String::new();
        loop {
            let needed = with_names(|| {
                // Changed with the lock held.
                let name = self.name()?;
                if name.len() <= text.capacity() {
                    text.clear();
                    text.push_str(name);
                }
                Some(name.len())
            })?;
            if needed <= text.capacity() && text.len() == needed {
                return Some(text);
            }
            text.reserve(needed);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_whereabouts.rs"]
mod loom_whereabouts;
