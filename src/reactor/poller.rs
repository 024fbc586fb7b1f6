//! A runtime's set of descriptors, and which of its kernel threads looks after it.
//!
//! The set is made when a thread first waits for a descriptor. A runtime whose threads never do pays one load
//! where it looks for work.
//!
//! At most one kernel thread sleeps in the set: it has the role. It leaves the set when there are events, or
//! when it is wanted elsewhere. The others look at the set without waiting while they look for work. A thread
//! that cannot reach the set, as it has a table of descriptors of its own, asks another one.

use std::fmt;
use std::io;

use crate::shim::OnceLock;
use crate::shim::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::shim::poll_set::PollSet;

/// See the header.
pub(crate) struct Poller {
    set: OnceLock<PollSet>,
    /// Tells it from all others of the process. Not 0.
    number: u32,
    /// A kernel thread sleeps in the set.
    slept_in: AtomicBool,
    /// How often kernel threads have looked at the set.
    looks: AtomicU32,
    /// What a thread is asked to do that can reach the set.
    asked: AtomicU32,
}

/// To ring the bell.
pub(crate) const RING: u32 = 1;
/// To look at the set.
pub(crate) const LOOK: u32 = 2;

impl Poller {
    /// Makes the poller of the runtime of this number.
    pub(crate) fn new(runtime: u32) -> Self {
        let number = runtime.wrapping_add(1).max(1);
        Self {
            set: OnceLock::new(),
            number,
            slept_in: AtomicBool::new(false),
            looks: AtomicU32::new(0),
            asked: AtomicU32::new(0),
        }
    }

    /// Returns the set, if any thread has waited for a descriptor.
    #[inline]
    pub(crate) fn set(&self) -> Option<&PollSet> {
        self.set.get()
    }

    /// Has the descriptor's events reported under `token`. `by` says which poller does so already.
    ///
    /// # Errors
    ///
    /// As [`PollSet::new`] and [`PollSet::add`].
    pub(crate) fn watch(&self, descriptor: i32, token: u64, by: &AtomicU32) -> io::Result<()> {
        // Relaxed: the poller is this runtime's, which has added the descriptor itself.
        if by.load(Ordering::Relaxed) == self.number {
            return Ok(());
        }
        self.made()?.add(descriptor, token)?;
        by.store(self.number, Ordering::Relaxed);
        Ok(())
    }

    /// Has what the descriptor is at this moment reported under `token`, and its events from now on.
    ///
    /// # Errors
    ///
    /// As [`PollSet::new`] and [`PollSet::add`].
    pub(crate) fn watch_anew(&self, descriptor: i32, token: u64) -> io::Result<()> {
        self.made()?.renew(descriptor, token)
    }

    /// Returns the set, and makes it if need be.
    fn made(&self) -> io::Result<&PollSet> {
        if self.set().is_none() {
            // If another thread is faster, this one's is closed.
            let _ = self.set.set(PollSet::new()?);
        }
        Ok(self.set().expect("it has been made"))
    }

    /// Takes the role of the one that sleeps in the set, if there is a set and the role is free. It is given
    /// back by [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> Option<&PollSet> {
        let set = self.set()?;
        // Relaxed: a role, not data.
        let taken = self.slept_in.load(Ordering::Relaxed) || self.slept_in.swap(true, Ordering::Relaxed);
        (!taken).then_some(set)
    }

    /// Gives the role back.
    pub(crate) fn leave(&self) {
        self.slept_in.store(false, Ordering::Relaxed);
        self.looked();
    }

    /// Notes that a kernel thread has looked at the set.
    pub(crate) fn looked(&self) {
        // Relaxed: a hint. It is enough that it changes.
        self.looks.store(self.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns `true` if a kernel thread sleeps in the set, or there is no set.
    pub(crate) fn is_slept_in(&self) -> bool {
        // Relaxed: a hint.
        self.set().is_none() || self.slept_in.load(Ordering::Relaxed)
    }

    /// Returns how often kernel threads have looked at the set. It changes with each look.
    pub(crate) fn looks(&self) -> u32 {
        // Relaxed: a hint.
        self.looks.load(Ordering::Relaxed)
    }

    /// Leaves a request for a thread that can reach the set.
    pub(crate) fn ask(&self, what: u32) {
        // Release: pairs with `take_asked`.
        self.asked.fetch_or(what, Ordering::Release);
    }

    /// Takes the requests.
    pub(crate) fn take_asked(&self) -> u32 {
        // Relaxed: a look. Acquire: pairs with `ask`.
        if self.asked.load(Ordering::Relaxed) == 0 { 0 } else { self.asked.swap(0, Ordering::Acquire) }
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("set", &self.set()).finish_non_exhaustive()
    }
}
