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
//! Cost: a store for each life, three for each wait.

use std::num::NonZeroU64;

use super::queue_lock::{QueueLock, Rank};
use super::reason::WaitReason;
use super::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::{AtomicU8, AtomicUsize, Ordering};
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
    /// What it waits for, as a [`WaitReason`]; 0: it does not wait.
    reason: AtomicU8,
    /// In a wait on a queue: its key; in a join: the core of the other thread. Of the last one, if there is no such wait.
    at: AtomicUsize,
}

impl Whereabouts {
    pub(super) fn new() -> Self {
        Self { home: AtomicUsize::new(0), reason: AtomicU8::new(0), at: AtomicUsize::new(0) }
    }

    /// Relaxed, here and below: for lookers, who look again.
    #[inline]
    pub(super) fn begin(&self, home: usize) {
        self.home.store(home, Ordering::Relaxed);
    }

    /// Says where the thread is about to wait.
    #[inline]
    pub(super) fn at(&self, place: usize) {
        self.at.store(place, Ordering::Relaxed);
    }

    /// The thread waits.
    #[inline]
    pub(crate) fn waits(&self, reason: WaitReason) {
        self.reason.store(reason as u8, Ordering::Relaxed);
    }

    /// It does no longer.
    #[inline]
    pub(crate) fn goes_on(&self) {
        self.reason.store(0, Ordering::Relaxed);
    }
}

/// What a look found.
#[derive(Debug)]
pub(crate) struct Glimpse {
    pub(crate) id: NonZeroU64,
    pub(crate) name: Option<String>,
    /// What it waits for, and where. (The two may be of different waits, so nobody may follow the address.)
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
        let reason = WaitReason::from_number(self.whereabouts.reason.load(Ordering::Relaxed));
        let waits = reason.map(|reason| (reason, self.whereabouts.at.load(Ordering::Relaxed)));
        (self.lives_at(home) && self.id() == id).then_some((Glimpse { id, name, waits }, more))
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
