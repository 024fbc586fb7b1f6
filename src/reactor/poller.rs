//! A runtime's set of descriptors, and which of its kernel threads looks after it.
//!
//! The set is made when a thread first waits for a descriptor. A runtime whose threads never do pays one load
//! where it looks for work.
//!
//! At most one kernel thread sleeps in the set: it has the role. It leaves the set when there are events, or
//! when it is wanted elsewhere. The others look at the set without waiting while they look for work. A thread
//! that cannot reach the set, as it has a table of descriptors of its own, asks another one.
//!
//! **A set that is lost.** The program may close the set, as `closefrom` does. The first kernel thread that
//! finds this takes the set out, and reports all descriptors as ready. The threads that waited make their
//! calls again, and whichever would block makes a new set. What a set has is known by the set's number
//! ([`Poller::watch`]). *Proof* that no thread waits for a lost set: a thread looks at its word before it
//! asks if the descriptor is watched. If the loss is reported later, the word has changed since that look, so
//! the thread does not wait. If it is reported earlier, the number has changed before, and the thread adds
//! the descriptor to a new set. A lost set is leaked: its descriptors may be other files by now.

use std::io;
use std::ptr;

use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::shim::global;
use crate::shim::poll_set::{Events, PollSet};

/// See the header.
pub(crate) struct Poller {
    /// Null if there is none.
    set: AtomicPtr<PollSet>,
    /// Tells the set, or the next one, from all others of the process. Not 0.
    number: AtomicU32,
    /// The kernel thread that sleeps in the set; 0 if there is none.
    sleeper: AtomicU32,
    /// How often kernel threads have looked at the set.
    looks: AtomicU32,
    /// What a thread is asked to do that can reach the set.
    asked: AtomicU32,
}

/// To ring the bell.
pub(crate) const RING: u32 = 1;
/// To look at the set.
pub(crate) const LOOK: u32 = 2;

global! {
    /// How many numbers have been given out.
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
}

/// Returns a number for the next set.
fn number() -> u32 {
    // Relaxed: only the number matters.
    NUMBERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
}

impl Poller {
    pub(crate) fn new() -> Self {
        Self {
            set: AtomicPtr::new(ptr::null_mut()),
            number: AtomicU32::new(number()),
            sleeper: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            asked: AtomicU32::new(0),
        }
    }

    /// Returns the set, if any thread has waited for a descriptor.
    #[inline]
    pub(crate) fn set(&self) -> Option<&PollSet> {
        // Acquire: pairs with `made`.
        // SAFETY: null, or a set that is freed when this is dropped, or never.
        unsafe { self.set.load(Ordering::Acquire).as_ref() }
    }

    /// Has the descriptor's events reported under `token`. `by` says which poller does so already.
    ///
    /// # Errors
    ///
    /// As [`PollSet::new`] and [`PollSet::add`].
    #[inline]
    pub(crate) fn watch(&self, descriptor: i32, token: u64, by: &AtomicU32) -> io::Result<()> {
        // Before the set: if that is lost meanwhile, the number is an old one. Relaxed: what reports a loss
        // publishes the next number.
        let number = self.number.load(Ordering::Relaxed);
        // Relaxed: the poller is this runtime's, which has added the descriptor itself.
        if by.load(Ordering::Relaxed) == number {
            return Ok(());
        }
        self.add(descriptor, token)?;
        by.store(number, Ordering::Relaxed);
        Ok(())
    }

    #[cold]
    fn add(&self, descriptor: i32, token: u64) -> io::Result<()> {
        self.made()?.add(descriptor, token)
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
        if let Some(set) = self.set() {
            return Ok(set);
        }
        let new = Box::into_raw(Box::new(PollSet::new()?));
        // Release: pairs with `set`. Acquire: as there.
        match self.set.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
            // SAFETY: freed when this is dropped, or never.
            Ok(_) => Ok(unsafe { &*new }),
            Err(other) => {
                // SAFETY: made in this call, and no other thread has it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `set`.
                Ok(unsafe { &*other })
            }
        }
    }

    /// Gives up a set that the program has closed. Returns `true` if the caller is the first to do so: it
    /// then reports all descriptors as ready.
    #[cold]
    #[must_use]
    pub(crate) fn lose(&self, set: &PollSet) -> bool {
        let lost = ptr::from_ref(set).cast_mut();
        // Relaxed: a thread that finds it all the same cannot add anything, as it is closed.
        let (done, other) = (Ordering::Relaxed, Ordering::Relaxed);
        let is_first = self.set.compare_exchange(lost, ptr::null_mut(), done, other).is_ok();
        if is_first {
            // Relaxed: as in `watch`.
            self.number.store(number(), Ordering::Relaxed);
        }
        is_first
    }

    /// Takes the role of the one that sleeps in the set for the kernel thread `tid`, if there is a set and
    /// the role is free. It is given back by [`leave`](Self::leave).
    pub(crate) fn enter(&self, tid: u32) -> Option<&PollSet> {
        let set = self.set()?;
        debug_assert_ne!(tid, 0, "a kernel thread that has begun has its id");
        // Relaxed: a role, not data.
        let (is_free, taken) = (Ordering::Relaxed, Ordering::Relaxed);
        let enters = self.sleeper.load(Ordering::Relaxed) == 0
            && self.sleeper.compare_exchange(0, tid, is_free, taken).is_ok();
        enters.then_some(set)
    }

    /// Gives the role back.
    pub(crate) fn leave(&self) {
        self.sleeper.store(0, Ordering::Relaxed);
        self.looked();
    }

    /// Returns the kernel thread that sleeps in the set; 0 if there is none.
    pub(crate) fn sleeper(&self) -> u32 {
        // Relaxed: the sleeper's own word orders it for a waker.
        self.sleeper.load(Ordering::Relaxed)
    }

    /// Notes that a kernel thread has looked at the set.
    pub(crate) fn looked(&self) {
        // Relaxed: a hint. It is enough that it changes.
        self.looks.store(self.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns `true` if a kernel thread sleeps in the set, or there is no set.
    pub(crate) fn is_slept_in(&self) -> bool {
        // Relaxed: a hint.
        self.set().is_none() || self.sleeper() != 0
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

impl Drop for Poller {
    fn drop(&mut self) {
        // Relaxed: no thread uses this any more.
        let set = self.set.load(Ordering::Relaxed);
        if !set.is_null() {
            // SAFETY: made by `made`, and no thread uses this any more.
            let set = unsafe { Box::from_raw(set) };
            if !set.look(&mut Events::new()) {
                Box::leak(set);
            }
        }
    }
}

crate::shown::debug! { [] Poller: "Poller", "set": |poller| poller.set() }

#[cfg(all(test, loom))]
mod loom_poller;
