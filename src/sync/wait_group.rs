//! A group of threads that somebody waits for.
//!
//! **Problem.** Work is given to any number of threads, which give parts of it to others; somebody wants to know when all of it is
//! done. A thread may be a member without having been counted in advance, and each must be counted out, even if it panics.
//!
//! **Rejected.** A count that is set beforehand (a barrier, a latch): the number is not known. `add` and `done` as calls: one that
//! is forgotten hangs the waiter, one too many frees it early. A mutex, a count and a condition variable (crossbeam): three
//! read-modify-writes for each member that comes or goes.
//!
//! **Protocol.** A member is a value; all share one word: how many there are, and whether anybody waits. New members are made
//! from members, so a count of zero is final. The last to leave finds by its subtraction whether anybody waits, and then takes all
//! waiters off the queue. Who waits is no member any more; with the bucket lock held it looks whether there are members, sets
//! `WAITERS` and queues. If its time is over, or it is interrupted, it becomes a member again, unless there are none.
//!
//! **Proof.** No lost wake-up: `WAITERS` is set with the bucket lock held while there are members, so the last of them sees it, and
//! takes the lock after the waiter has been linked. `WAITERS` is never cleared.
//!
//! **Cost** in read-modify-writes: a member made 2 and dropped 2, one each for the memory that they share.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fatal;
use crate::park::interrupt;
use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, Options, Token, Woken};
use crate::shim::atomic::{AtomicUsize, Ordering};
use crate::shim::const_new;
use crate::time;

const GONE: Token = Token(0);

/// One of a group, which can wait for all the others to be gone.
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
    /// A group of one.
    pub fn new() -> Self {
        Self { members: Arc::new(Members::one()) }
    }

    /// Leaves the group, and waits until all others have left it too. What they did before that is visible then.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait(self) {
        let ended = self.wait_with(&Options::new(WaitReason::WaitGroup, None));
        debug_assert!(ended.is_ok());
    }

    /// [`wait`](Self::wait), at most for `timeout`.
    ///
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
    /// The group, of which this is a member again, if others are still there by then.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_for(self, timeout: Duration) -> Result<(), Self> {
        self.wait_with(&Options::new(WaitReason::WaitGroup, time::after(timeout))).map_err(|(group, _)| group)
    }

    /// [`wait`](Self::wait), at most until `deadline`.
    ///
    /// # Errors
    ///
    /// The group, of which this is a member again, if others are still there by then.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_until(self, deadline: Instant) -> Result<(), Self> {
        self.wait_with(&Options::new(WaitReason::WaitGroup, Some(deadline))).map_err(|(group, _)| group)
    }

    /// [`wait`](Self::wait), unless the running thread is interrupted. If the last of the others leaves in the same moment, the wait is
    /// over as usual, and the interrupt is left for the next one.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::WaitGroup;
    /// use selvedge::thread;
    ///
    /// let group = WaitGroup::new();
    /// thread::current().interrupt();
    /// let group = group.wait_interruptible().expect_err("interrupted");
    /// assert!(group.wait_interruptible().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// The group, of which this is a member again, if the running thread was interrupted.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible(self) -> Result<(), Self> {
        self.wait_interruptible_with(None).map(|ended| debug_assert!(ended.is_none()))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most for `timeout`: then `Some` of the group, of which this is a member
    /// again.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::WaitGroup;
    /// use std::time::Duration;
    ///
    /// let group = WaitGroup::new();
    /// let _member = group.clone();
    /// let ended = group.wait_interruptible_for(Duration::from_millis(1)).expect("not interrupted");
    /// assert!(ended.is_some(), "the other is still there");
    /// ```
    ///
    /// # Errors
    ///
    /// The group, of which this is a member again, if the running thread was interrupted.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible_for(self, timeout: Duration) -> Result<Option<Self>, Self> {
        self.wait_interruptible_with(time::after(timeout))
    }

    /// [`wait_interruptible`](Self::wait_interruptible), at most until `deadline`: then `Some` of the group, of which this is a
    /// member again.
    ///
    /// # Errors
    ///
    /// The group, of which this is a member again, if the running thread was interrupted.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn wait_interruptible_until(self, deadline: Instant) -> Result<Option<Self>, Self> {
        self.wait_interruptible_with(Some(deadline))
    }

    fn wait_interruptible_with(self, deadline: Option<Instant>) -> Result<Option<Self>, Self> {
        if interrupt::check().is_err() {
            return Err(self);
        }
        match self.wait_with(&Options::interruptible(WaitReason::WaitGroup, deadline)) {
            Ok(()) => Ok(None),
            Err((group, Why::Expired)) => Ok(Some(group)),
            Err((group, Why::Interrupted)) => {
                // It takes the flag.
                let _ = interrupt::reported();
                Err(group)
            }
        }
    }

    fn wait_with(self, options: &Options) -> Result<(), (Self, Why)> {
        let members = Arc::clone(&self.members);
        drop(self);
        members.wait(options).map_err(|why| (Self { members }, why))
    }
}

/// Why a wait has ended before it was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Expired,
    /// The flag is still set.
    Interrupted,
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
/// | 0 | `WAITERS`: somebody waits, or has | set with the bucket lock held; never cleared |
/// | from 1 | how many members there are; 0 is final | a member that comes: one more; one that goes: one less |
struct Members(AtomicUsize);

const WAITERS: usize = 1;
const MEMBER: usize = 2;

impl Members {
    const_new! {
        const fn one() -> Self {
            Self(AtomicUsize::new(MEMBER))
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn count(&self) -> usize {
        // Relaxed: a look.
        self.0.load(Ordering::Relaxed) / MEMBER
    }

    /// A member makes another.
    fn join(&self) {
        // Relaxed: the member that makes it is one of those who have yet to leave.
        let before = self.0.fetch_add(MEMBER, Ordering::Relaxed);
        if before > isize::MAX as usize {
            // Somebody forgets members in a loop, and would wrap the count. (The `Arc` says so before.)
            fatal::too_many_references();
        }
    }

    /// A member goes.
    fn leave(&self) {
        // Release: pairs with the acquire of the last to leave, and of `is_over`: each subtraction is part of the chain that they read.
        let before = self.0.fetch_sub(MEMBER, Ordering::Release);
        if before == MEMBER | WAITERS {
            self.last_has_left();
        }
    }

    #[cold]
    fn last_has_left(&self) {
        // Acquire: what the others did before they left goes on to the waiters with their grant.
        self.0.load(Ordering::Acquire);
        if let Some(all) = wait_queue::grant_all(self.key(), GONE, || true) {
            all.wake_all();
        }
    }

    /// One that has left waits until all have. If it gives up before, it is a member again.
    fn wait(&self, options: &Options) -> Result<(), Why> {
        if self.is_over() {
            return Ok(());
        }
        let why = match wait_queue::wait(self.key(), options, || self.announce(), || ()) {
            Err(_) | Ok(Woken::Granted(_)) => return Ok(()),
            Ok(Woken::Expired { .. }) => Why::Expired,
            Ok(Woken::Interrupted { .. }) => Why::Interrupted,
        };
        if self.rejoin() { Err(why) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        // Acquire: pairs with `leave`.
        self.0.load(Ordering::Acquire) < MEMBER
    }

    /// With the bucket lock held: says that somebody waits, unless all have left.
    fn announce(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen >= MEMBER {
            // Relaxed on success: it publishes nothing, and the bucket lock orders it for who acts on it. Acquire on failure: as
            // in `is_over`.
            match self.0.compare_exchange_weak(seen, seen | WAITERS, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// One that has left and given up waiting is a member again; `false`: all have left.
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
#[path = "tests/loom_wait_group.rs"]
mod loom_wait_group;
