//! A counting semaphore.
//!
//! **Problem.** Threads take permits, some of them several at once, and others put permits back. Who asks for many must get
//! them in the end, though others ask for few all the time; and a thread that finds enough should pay next to nothing.
//!
//! **Rejected.** A mutex, a count and a condition variable: twice the read-modify-writes, and whoever is woken may find the
//! permits gone. Letting those who come pass those who wait: a request for many then waits until nobody else comes. Giving
//! the first waiter whatever there is, bit by bit (tokio): a waiter that gives up must put its part back, and one of higher
//! priority that comes later cannot have it. A count that goes below zero (Dijkstra): cheaper by a look, but what the waiters
//! on their way to the queue have taken must be told from what those in it have.
//!
//! **Protocol.** One word: the permits, and whether anybody waits.
//!
//! - *Acquire*: if nobody waits and there are enough, subtract. Else, with the bucket lock held, look again, set `WAITERS`
//!   and queue with the demand, in the order of arrival; higher priorities first.
//! - *Release*: add. If `WAITERS` was set, *serve*.
//! - *Serve*, with the bucket lock held: for as long as there is enough for the next waiter, take it off the queue; then
//!   subtract what those wanted, and clear `WAITERS` if the queue is empty. Nobody passes a waiter for which there is not enough.
//! - Whoever leaves the queue without a grant serves too: there may be enough for the one behind. So does a waiter that has
//!   just queued and finds enough for itself: it came with a higher priority than those for whom there is not.
//!
//! **Proof.** (a) While `WAITERS` is set, permits are subtracted with the bucket lock held only, so what serve has seen is
//! still there when it subtracts, once for all. (b) No lost wake-up: `WAITERS` is set with the bucket lock held while there is not enough.
//! An addition comes before that in the order of the word, and is seen, or after it, and serves. (c) No permit is lost: a
//! waiter is served by whoever unlinks it, and one that has been unlinked is neither expired nor interrupted (I3).
//! (d) At any moment the next waiter is one for whom there is not enough, or somebody is on the way to serve: what changes who is next
//! is a wait that begins or ends, and what changes how much there is is an addition.
//!
//! **Cost** in read-modify-writes: acquire 1, release 1, and a look before the first. With a waiter: the bucket lock and 1 for
//! the waiter; the same for a release that has looked for waiters before it adds (`add_permits`), 1 more for one that has not (a permit
//! that is dropped: the look would cost it more, waiters or not).

mod interruptible;
mod owned;
mod permit;
mod word;

use std::fmt;
use std::time::{Duration, Instant};

use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, Options, Order, Token, Woken};
use crate::shim::const_new;
use crate::time;
use word::{MAX, Word};

pub use owned::OwnedSemaphorePermit;
pub use permit::{SemaphorePermit, TooManyPermits};

const SERVED: Token = Token(0);

/// A number of permits that threads take and put back; who finds too few waits.
///
/// Permits are not bound to threads: one may be taken by one thread and put back by another, and
/// [`add_permits`](Self::add_permits) makes new ones. A permit that is a value ([`SemaphorePermit`]) goes back when it is
/// dropped, unless it is [forgotten](SemaphorePermit::forget).
///
/// The semaphore is fair: threads get their permits in the order in which they have come, those of higher
/// [priority](crate::thread::Priority) first (but nobody lets more than 16 of those pass once it is the oldest). While a request
/// waits, those behind it wait too, even if there are enough permits for them; so a request for many is not starved by
/// requests for few.
///
/// It may be shared between green threads, bound threads, 1:1 threads and threads that Selvedge did not start. What a thread
/// did before it put a permit back is visible to the one that takes it next.
///
/// # Examples
///
/// At most two at once:
///
/// ```
/// use selvedge::sync::Semaphore;
///
/// static SEATS: Semaphore = Semaphore::new(2);
///
/// std::thread::scope(|s| {
///     for _ in 0..5 {
///         s.spawn(|| {
///             let _seat = SEATS.acquire();
///             // At most two threads are here.
///         });
///     }
/// });
/// assert_eq!(SEATS.available_permits(), 2);
/// ```
///
/// As a signal from one thread to another:
///
/// ```
/// use selvedge::sync::Semaphore;
///
/// let ready = Semaphore::new(0);
/// std::thread::scope(|s| {
///     s.spawn(|| ready.add_permits(1));
///     ready.acquire().forget();
/// });
/// assert_eq!(ready.available_permits(), 0);
/// ```
///
/// # Blocks
///
/// Whatever is called `acquire` blocks the thread until it has the permits, its time is over, or it is interrupted, as the
/// name says; what is called `try_acquire` without a time never does.
pub struct Semaphore {
    word: Word,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
enum Ended {
    Taken,
    Expired,
    /// The flag is still set.
    Interrupted,
}

impl Semaphore {
    /// The most permits that a semaphore can have.
    pub const MAX_PERMITS: usize = MAX;

    const_new! {
        /// A semaphore with so many permits.
        ///
        /// # Panics
        ///
        /// If there are more than [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[must_use]
        pub const fn new(permits: usize) -> Self {
            assert!(permits <= MAX, "more permits than a semaphore can have");
            Self { word: Word::new(permits) }
        }
    }

    #[inline]
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// How many permits are there. While threads wait, these are not enough for the next of them.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.word.permits()
    }

    /// Takes a permit, and waits for it if need be.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.acquire();
    /// assert!(semaphore.try_acquire().is_none());
    /// drop(permit);
    /// assert!(semaphore.try_acquire().is_some());
    /// ```
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn acquire(&self) -> SemaphorePermit<'_> {
        self.acquire_many(1)
    }

    /// Takes `n` permits at once, and waits until all of them are there if need be. None are taken at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// let semaphore = Semaphore::new(5);
    /// let permits = semaphore.acquire_many(3);
    /// assert_eq!((permits.num_permits(), semaphore.available_permits()), (3, 2));
    /// ```
    ///
    /// # Panics
    ///
    /// If `n` is more than [`MAX_PERMITS`](Self::MAX_PERMITS): the wait would never end.
    ///
    /// # Blocks
    ///
    /// The thread.
    #[inline]
    pub fn acquire_many(&self, n: usize) -> SemaphorePermit<'_> {
        self.take(n, None);
        SemaphorePermit::new(self, n)
    }

    /// Takes a permit if there is one and nobody waits.
    #[inline]
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if there are so many and nobody waits.
    #[inline]
    pub fn try_acquire_many(&self, n: usize) -> Option<SemaphorePermit<'_>> {
        self.word.try_take(n).then(|| SemaphorePermit::new(self, n))
    }

    /// [`acquire`](Self::acquire), at most for `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// use std::time::Duration;
    ///
    /// let semaphore = Semaphore::new(0);
    /// assert!(semaphore.try_acquire_for(Duration::from_millis(1)).is_none());
    /// ```
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_for(&self, timeout: Duration) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many_for(1, timeout)
    }

    /// [`acquire`](Self::acquire), at most until `deadline`.
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_until(&self, deadline: Instant) -> Option<SemaphorePermit<'_>> {
        self.try_acquire_many_until(1, deadline)
    }

    /// [`acquire_many`](Self::acquire_many), at most for `timeout`.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_many_for(&self, n: usize, timeout: Duration) -> Option<SemaphorePermit<'_>> {
        self.take_for(n, timeout).then(|| SemaphorePermit::new(self, n))
    }

    /// [`acquire_many`](Self::acquire_many), at most until `deadline`.
    ///
    /// # Panics
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Blocks
    ///
    /// The thread.
    pub fn try_acquire_many_until(&self, n: usize, deadline: Instant) -> Option<SemaphorePermit<'_>> {
        self.take(n, Some(deadline)).then(|| SemaphorePermit::new(self, n))
    }

    /// Adds `n` permits: new ones, or those of permits that were [forgotten](SemaphorePermit::forget).
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// let semaphore = Semaphore::new(0);
    /// semaphore.add_permits(2);
    /// assert!(semaphore.try_acquire_many(2).is_some());
    /// ```
    ///
    /// # Panics
    ///
    /// If there were more than [`MAX_PERMITS`](Self::MAX_PERMITS) then. None is added.
    #[inline]
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        if self.try_add_permits(n).is_err() {
            overflowed(n);
        }
    }

    /// [`add_permits`](Self::add_permits) that does not panic.
    ///
    /// # Examples
    ///
    /// ```
    /// # use selvedge::sync::Semaphore;
    /// let semaphore = Semaphore::new(1);
    /// assert!(semaphore.try_add_permits(Semaphore::MAX_PERMITS).is_err());
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`] if there were more than [`MAX_PERMITS`](Self::MAX_PERMITS) then. None is added.
    #[inline]
    pub fn try_add_permits(&self, n: usize) -> Result<(), TooManyPermits> {
        if self.word.try_give(n) || self.serve(n) { Ok(()) } else { Err(TooManyPermits) }
    }

    /// Puts back what has been taken.
    #[inline]
    fn give_back(&self, n: usize) {
        if self.word.give(n) {
            self.serve_checked(n);
        }
    }

    /// The rest of `give_back` where somebody waits, or the permits are too many.
    #[cold]
    fn serve_checked(&self, n: usize) {
        self.serve(0);
        if self.word.permits() > MAX {
            overflowed(n);
        }
    }

    #[inline]
    fn take(&self, n: usize, deadline: Option<Instant>) -> bool {
        self.word.try_take(n)
            || self.take_slow(n, Options::new(WaitReason::Semaphore, deadline)) == Ended::Taken
    }

    /// `take` that reads the clock only if there is a wait.
    fn take_for(&self, n: usize, timeout: Duration) -> bool {
        self.word.try_take(n) || self.take(n, time::after(timeout))
    }

    #[cold]
    fn take_slow(&self, n: usize, mut options: Options) -> Ended {
        assert!(n <= MAX, "asked for more permits than a semaphore can have");
        options.order = Order::Fifo;
        options.demand = n;
        let before_sleep = || {
            // Priority has put this thread before those for whom there is not enough.
            if self.word.permits() >= n {
                self.serve(0);
            }
        };
        match wait_queue::wait(self.key(), &options, || !self.word.take_or_announce(n), before_sleep) {
            Err(_) | Ok(Woken::Granted(_)) => Ended::Taken,
            Ok(Woken::Expired { .. }) => {
                self.serve(0);
                Ended::Expired
            }
            Ok(Woken::Interrupted { .. }) => {
                self.serve(0);
                Ended::Interrupted
            }
        }
    }

    /// Adds `n`, and gives the next waiters what they wait for, as far as it goes; `false`: there would be too many.
    fn serve(&self, n: usize) -> bool {
        let mut fits = true;
        let served = wait_queue::grant_while(
            self.key(),
            SERVED,
            || self.word.begin(n),
            |serving, demand| serving.as_mut().is_some_and(|serving| serving.give(demand)),
            |serving, others_wait| match serving {
                Some(serving) => self.word.end(serving, others_wait),
                None => fits = false,
            },
        );
        if let Some(served) = served {
            served.wake_all();
        }
        fits
    }
}

#[cold]
#[track_caller]
fn overflowed(n: usize) -> ! {
    panic!("{n} permits more are more than a semaphore can have");
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("permits", &self.available_permits()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
#[path = "../tests/loom_semaphore.rs"]
mod loom_semaphore;
