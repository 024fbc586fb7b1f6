//! A group of threads that a thread can wait for.
//!
//! **Problem.** Work is given to any number of threads, which give parts of it to others. A thread wants
//! to know when all of it is done. A thread may be a member without having been counted in advance. Each
//! must be counted out, even if it panics.
//!
//! **Rejected.**
//!
//! - A count that is set beforehand (a barrier, a latch). The number is not known.
//! - `add` and `done` as calls. One that is forgotten hangs the waiter; one too many frees it early.
//! - A mutex, a count and a condition variable (crossbeam). Each member that comes or goes takes three
//!   read-modify-writes.
//!
//! **Protocol.** A member is a value. All members share one word: how many there are, and a bit,
//! `WAITERS`. New members are made from members, so a count of zero is final. A subtraction tells the
//! last to leave if threads wait, and it then takes all waiters off the queue. A thread that waits is not
//! a member. With the bucket lock held it looks if there are members, sets `WAITERS` and queues. If its
//! time is over, or it is interrupted, it becomes a member again, unless there are none.
//!
//! **Proof.** No lost wake-up: `WAITERS` is set with the bucket lock held while there are members. So the
//! last of them sees it, and takes the lock after the waiter has been linked. `WAITERS` is never cleared.
//!
//! **Cost** in read-modify-writes: a member made 2 and dropped 2, one each for the memory that they
//! share.

use std::fmt;
use std::sync::Arc;

use crate::fatal;
use crate::park::reason::WaitReason;
use crate::park::wait::{Wait, WaitError, timed};
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::{AtomicUsize, Ordering};

const GONE: Token = Token(0);

/// A member of a group, which can wait until all the others have left.
///
/// A clone is another member of the group; a member leaves when it is dropped.
///
/// # Examples
///
/// ```
/// use selvedge::sync::WaitGroup;
/// use selvedge::{OneToOne, Runtime};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let rt = OneToOne::new()?;
/// let done = Arc::new(AtomicU32::new(0));
/// let group = WaitGroup::new();
/// for _ in 0..4 {
///     let (member, done) = (group.clone(), Arc::clone(&done));
///     rt.spawn(move || {
///         done.fetch_add(1, Ordering::Relaxed);
///         drop(member);
///     });
/// }
/// group.wait();
/// assert_eq!(done.load(Ordering::Relaxed), 4);
/// # std::io::Result::Ok(())
/// ```
#[must_use = "it leaves the group as soon as it is dropped"]
pub struct WaitGroup {
    members: Arc<Members>,
}

impl WaitGroup {
    /// Creates a group of one member.
    pub fn new() -> Self {
        Self { members: Arc::new(Members::one()) }
    }

    /// Leaves the group, and waits until all others have left it too. What they did before they left is
    /// then visible.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait(self) {
        let ended = self.wait_for_others(Wait::forever());
        debug_assert!(ended.is_ok());
    }

    timed! {
        wait
        /// # Examples
        ///
        /// ```
        /// use selvedge::sync::WaitGroup;
        /// use std::time::Duration;
        ///
        /// let group = WaitGroup::new();
        /// let member = group.clone();
        /// let group = group.wait_for(Duration::from_millis(1)).expect_err("the other is still there");
        /// drop(member);
        /// assert!(group.wait_for(Duration::ZERO).is_ok());
        /// ```
        ///
        /// # Errors
        ///
        /// The group, of which this is a member again, if others are still there.
        pub fn wait_for, wait_until(self) -> Result<(), Self> {
            |limit| self.wait_for_others(limit()).map_err(|(group, _)| group)
        }
    }

    /// [`wait`](Self::wait) that ends as `wait` says.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::WaitGroup;
    /// use selvedge::{Wait, WaitError, thread};
    ///
    /// let (group, wait) = (WaitGroup::new(), Wait::forever().interruptible());
    /// thread::current().interrupt();
    /// let (group, why) = group.wait_with(wait).expect_err("interrupted");
    /// assert_eq!(why, WaitError::Interrupted);
    /// assert!(group.wait_with(wait).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError`], and the group, of which this is a member again.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_with(self, wait: Wait) -> Result<(), (Self, WaitError)> {
        match wait.begin() {
            Ok(()) => self.wait_for_others(wait).map_err(|(group, why)| (group, why.reported())),
            Err(why) => Err((self, why)),
        }
    }

    fn wait_for_others(self, wait: Wait) -> Result<(), (Self, WaitError)> {
        let members = Arc::clone(&self.members);
        drop(self);
        members.wait(wait).map_err(|why| (Self { members }, why))
    }
}

impl Clone for WaitGroup {
    fn clone(&self) -> Self {
        let members = Arc::clone(&self.members);
        members.join();
        Self { members }
    }
}

impl Drop for WaitGroup {
    fn drop(&mut self) {
        self.members.leave();
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("count", &self.members.count()).finish()
    }
}

/// | bits | meaning | changed by |
/// |---|---|---|
/// | 0 | `WAITERS`: a thread waits, or has waited | set with the bucket lock held; never cleared |
/// | from 1 | how many members there are; 0 is final | a member that comes: + 1; one that goes: - 1 |
struct Members(AtomicUsize);

const WAITERS: usize = 1;
const MEMBER: usize = 2;

impl Members {
    const fn one() -> Self {
        Self(AtomicUsize::new(MEMBER))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn count(&self) -> usize {
        // Relaxed: a look.
        self.0.load(Ordering::Relaxed) / MEMBER
    }

    /// Counts a new member, made by a member.
    fn join(&self) {
        // Relaxed: the member that makes it has yet to leave.
        let before = self.0.fetch_add(MEMBER, Ordering::Relaxed);
        if before > isize::MAX as usize {
            // The program forgets members in a loop, and would wrap the count. (The `Arc` aborts before.)
            fatal::too_many_references();
        }
    }

    /// Counts a member out.
    fn leave(&self) {
        // Release: pairs with the acquire of the last to leave, and of `is_over`. Each subtraction is
        // part of the chain that they read.
        let before = self.0.fetch_sub(MEMBER, Ordering::Release);
        if before == MEMBER | WAITERS {
            self.last_has_left();
        }
    }

    #[cold]
    fn last_has_left(&self) {
        // Acquire: what the others did before they left goes to the waiters with their grant.
        self.0.load(Ordering::Acquire);
        if let Some(all) = wait_queue::grant_all(self.key(), GONE, || true) {
            all.wake_all();
        }
    }

    /// Waits until all members have left. The caller is not a member; if it gives up, it becomes one
    /// again.
    fn wait(&self, wait: Wait) -> Result<(), WaitError> {
        if self.is_over() {
            return Ok(());
        }
        let options = Options::new(WaitReason::WaitGroup, wait);
        match wait_queue::wait_unless(self.key(), &options, || self.is_over(), || self.announce(), || ()) {
            Ok(Woken::Ended { why, .. }) if self.rejoin() => Err(why),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        // Acquire: pairs with the release of `leave`.
        self.0.load(Ordering::Acquire) < MEMBER
    }

    /// Notes that a thread waits, unless all have left. The caller holds the bucket lock.
    fn announce(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen >= MEMBER {
            // Relaxed on success: it publishes nothing, and the bucket lock orders it for the thread that
            // acts on it. Acquire on failure: as in `is_over`.
            match self.0.compare_exchange_weak(seen, seen | WAITERS, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Makes the caller, which has given up its wait, a member again. Returns `false` if all have left.
    fn rejoin(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen >= MEMBER {
            // Orderings as in `announce`.
            match self.0.compare_exchange_weak(seen, seen + MEMBER, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

#[cfg(all(test, loom))]
mod loom_wait_group;
