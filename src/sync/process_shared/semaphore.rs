//! A semaphore in four words that several processes map.
//!
//! **Protocol.** A thread takes its permits by compare-and-swap. If there are too few, it counts itself in,
//! and sleeps on the number of permits. A thread that adds permits then looks if any thread is counted in.
//! If so, it wakes as many as there are new permits. If a waiter wants several permits, it wakes all.
//!
//! **Proof.** The waiter counts itself in, does a fence, and looks at the permits. The other thread adds the
//! permits, does a fence, and looks at the count. One of the two sees the other. A wake-up for one permit
//! reaches a waiter that wants one. If that gives up, or finds more permits than it takes, it wakes the next.
//! If it is killed instead, the others sleep to the end of their naps.
//!
//! A waiter that is killed stays counted in. This costs a system call for each permit, and nothing else.

use std::mem;

use crate::park::process::{self, Process};
use crate::park::shared_futex::{self, Awaited, How, LONGEST_NAP, Waited};
use crate::park::wait::{Wait, WaitError};
use crate::shim::atomic::{AtomicU32, Ordering, fence};
use crate::sync::TooManyPermits;

/// A number of permits that threads of several processes take and put back. A thread that finds too few
/// waits.
///
/// Permits are not bound to threads or processes: one may take a permit and another [put it
/// back](Self::add_permits). A [`SemaphorePermit`] belongs to the process that took it: its copy in the child
/// of a fork puts nothing back.
///
/// Processes get their permits in no particular order: a thread that comes may take permits before one that
/// waits. Requests for many permits may starve beside requests for few.
///
/// **Not robust.** The permits of a process that is killed are gone. What a process shall put back even if it
/// is killed belongs under a [`Mutex`](super::Mutex).
///
/// Unlike POSIX's `sem_post`, a call that returns a permit may still use the semaphore after another thread
/// has taken that permit. So its memory must stay mapped meanwhile.
///
/// # Examples
///
/// ```
/// use selvedge::sync::process_shared::Semaphore;
///
/// let semaphore = Semaphore::new(1);
/// let permit = semaphore.acquire();
/// assert!(semaphore.try_acquire().is_none());
/// drop(permit);
/// assert_eq!(semaphore.available_permits(), 1);
/// ```
///
/// # Blocks
///
/// The methods called `acquire` block the thread until it has the permits; see the [module](super). An
/// interrupt of a thread that sleeps in the kernel is noticed within a tenth of a second.
#[derive(Default)]
#[repr(C)]
pub struct Semaphore {
    permits: AtomicU32,
    /// The number of threads between the begin and the end of their wait.
    waiting: AtomicU32,
    /// Those of them that want several permits.
    wanting_many: AtomicU32,
    /// The process that has added permits last.
    giver: AtomicU32,
}

/// Permits of a process-shared [`Semaphore`], which go back when this is dropped. Its copy in the child of a
/// fork does nothing when dropped.
///
/// Dropping it panics if the semaphore would then have more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS),
/// because the program has added permits meanwhile. They are not put back.
#[must_use = "the permits go back as soon as it is dropped"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: u32,
    /// In a child of a fork, a copy is worth nothing.
    process: Process,
}

/// A wait for so many permits.
struct Permits<'a>(&'a Semaphore, u32);

impl Awaited for Permits<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.0.permits
    }

    fn look(&mut self) -> Option<u32> {
        // Relaxed: only a look.
        let seen = self.0.permits.load(Ordering::Relaxed);
        (seen < self.1).then_some(seen)
    }
}

/// A thread that is counted in.
struct Counted<'a>(&'a Semaphore, u32);

impl<'a> Counted<'a> {
    fn new(semaphore: &'a Semaphore, n: u32) -> Self {
        // Relaxed: the fence orders it.
        semaphore.waiting.fetch_add(1, Ordering::Relaxed);
        if n > 1 {
            semaphore.wanting_many.fetch_add(1, Ordering::Relaxed);
        }
        // Pairs with the fence of `try_give`: either that finds the count, or this thread finds its permits.
        fence(Ordering::SeqCst);
        Self(semaphore, n)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Relaxed: a count that is too high costs a system call.
        if self.1 > 1 {
            self.0.wanting_many.fetch_sub(1, Ordering::Relaxed);
        }
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Semaphore {
    /// The most permits that a semaphore can have.
    pub const MAX_PERMITS: usize = i32::MAX as usize;

    /// Creates a semaphore with so many permits. A zeroed one has none.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        assert!(permits <= Self::MAX_PERMITS, "more permits than a semaphore can have");
        Self {
            permits: AtomicU32::new(permits as u32),
            waiting: AtomicU32::new(0),
            wanting_many: AtomicU32::new(0),
            giver: AtomicU32::new(0),
        }
    }

    /// Returns how many permits are there.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.permits.load(Ordering::Relaxed) as usize
    }

    crate::sync::impls::acquires! { "selvedge::sync::process_shared::Semaphore" }

    /// Takes a permit if there is one.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if there are so many.
    pub fn try_acquire_many(&self, n: usize) -> Option<SemaphorePermit<'_>> {
        let permits = u32::try_from(n).ok()?;
        self.try_take(permits).then(|| SemaphorePermit::new(self, n))
    }

    /// Adds `n` permits: new ones, or those of permits that were [forgotten](SemaphorePermit::forget), or of
    /// processes that were killed.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS). None is added.
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        assert!(self.try_add_permits(n).is_ok(), "{n} permits more are more than a semaphore can have");
    }

    /// [`add_permits`](Self::add_permits) that does not panic.
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`] if there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS). None is added.
    pub fn try_add_permits(&self, n: usize) -> Result<(), TooManyPermits> {
        let n = u32::try_from(n).map_err(|_| TooManyPermits)?;
        self.note_giver();
        let more = |seen: u32| seen.checked_add(n).filter(|&sum| sum as usize <= Self::MAX_PERMITS);
        // Release: pairs with the acquire of `try_take`.
        match self.permits.fetch_update(Ordering::Release, Ordering::Relaxed, more) {
            Ok(_) => {
                self.wake(n);
                Ok(())
            }
            Err(_) => Err(TooManyPermits),
        }
    }

    /// Says of which process the thread is that adds permits.
    fn note_giver(&self) {
        let id = process::this().id;
        // Relaxed: a hint. The look comes first so that the cache line stays where it is.
        if self.giver.load(Ordering::Relaxed) != id {
            self.giver.store(id, Ordering::Relaxed);
        }
    }

    /// Wakes the waiters of `n` new permits.
    fn wake(&self, n: u32) {
        // Pairs with the fence of `Counted::new`.
        fence(Ordering::SeqCst);
        // Relaxed, here and below: the fence orders it.
        if n > 0 && self.waiting.load(Ordering::Relaxed) > 0 {
            let all = self.wanting_many.load(Ordering::Relaxed) > 0;
            shared_futex::wake(&self.permits, if all { u32::MAX } else { n });
        }
    }

    /// Takes `n` permits if there are so many.
    fn try_take(&self, n: u32) -> bool {
        let less = |seen: u32| seen.checked_sub(n);
        // Acquire: pairs with the release of `try_add_permits`.
        self.permits.fetch_update(Ordering::Acquire, Ordering::Relaxed, less).is_ok()
    }

    fn take(&self, n: usize, wait: Wait) -> Result<(), WaitError> {
        assert!(n <= Self::MAX_PERMITS, "more permits than a semaphore can have");
        let n = n as u32;
        if self.try_take(n) || shared_futex::wait_awake(|| self.try_take(n)) {
            return Ok(());
        }
        self.take_asleep(n, wait)
    }

    fn take_asleep(&self, n: u32, wait: Wait) -> Result<(), WaitError> {
        let counted = Counted::new(self, n);
        let taken = self.take_counted(n, wait);
        drop(counted);
        // A wake-up may have come for more permits than this thread has taken, or for none that it takes.
        if self.permits.load(Ordering::Relaxed) > 0 {
            self.wake(1);
        }
        taken
    }

    fn take_counted(&self, n: u32, wait: Wait) -> Result<(), WaitError> {
        loop {
            if self.try_take(n) {
                return Ok(());
            }
            let near = self.giver.load(Ordering::Relaxed) == process::this().id;
            let how = How { wait, nap: Some(LONGEST_NAP), near };
            if shared_futex::wait(&mut Permits(self, n), how) == Waited::TimedOut {
                if self.try_take(n) {
                    return Ok(());
                }
                wait.go_on()?;
            }
        }
    }
}

impl<'a> SemaphorePermit<'a> {
    fn new(semaphore: &'a Semaphore, permits: usize) -> Self {
        Self { semaphore, permits: permits as u32, process: process::this() }
    }

    crate::shown::getters! {
        /// Returns the semaphore to which these permits go back.
        fn semaphore(&self) -> &'a Semaphore = self.semaphore;
        /// Returns how many permits these are.
        fn num_permits(&self) -> usize = self.permits as usize;
    }

    /// Forgets the permits: they are not put back. [`Semaphore::add_permits`] makes new ones.
    pub fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for SemaphorePermit<'_> {
    fn drop(&mut self) {
        if self.process == process::this() {
            self.semaphore.add_permits(self.num_permits());
        }
    }
}

crate::shown::debug! { [] Semaphore: "Semaphore", "permits": |semaphore| semaphore.available_permits() }
crate::shown::debug! { [] SemaphorePermit<'_>: "SemaphorePermit", "permits": |permit| permit.permits }

#[cfg(all(test, loom))]
mod loom_shared_semaphore;
