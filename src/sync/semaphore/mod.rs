//! A counting semaphore.
//!
//! **Problem.** Threads take permits, some of them several at once, and others put permits back. Who asks for many must get
//! them in the end, though others ask for few all the time; and a thread that finds enough should pay next to nothing.
//!
//! **Rejected.** A mutex, a count and a condition variable: twice the read-modify-writes, and whoever is woken may find the
//! permits gone. Letting those who come pass those who wait: a request for many then waits until nobody else comes. Giving
//! the first waiter whatever there is, bit by bit (tokio): a waiter that gives up must put its part back, and one of higher
//! priority that comes later cannot have it. A bit beside the permits that says whether anybody waits: who takes a permit must look
//! first, which costs 1.1 ns of 10.7 where nobody waits, and nothing less where somebody does.
//!
//! **Protocol** (Dijkstra's count, for requests of any size). Who asks for permits subtracts them at once. If they were not there, it has
//! *claimed* them. Two numbers: the *balance*, which is the permits less what is claimed; and what is *queued*, which is the claims
//! of those in the queue, and changes with the bucket lock held. So both together are what is there for those in the queue,
//! less what is claimed by those on their way to it.
//!
//! - *Acquire*: subtract from the balance. If it was high enough, done. Else, with the bucket lock held, add the claim to what is
//!   queued, and queue with the demand, in the order of arrival, higher priorities first. (Or take it, if nobody is queued and
//!   enough has come meanwhile.) Who has queued while something was there serves.
//! - *Release*: add to the balance. If it was below zero, *serve*.
//! - *Serve*, with the bucket lock held: for as long as there is enough for the next waiter, take it off the queue, and its
//!   claim off what is queued. Nobody passes a waiter for which there is not enough.
//! - Whoever leaves the queue without a grant withdraws its claim, and serves: there may be enough for the one behind.
//!
//! **Proof.** (a) No permit is given twice. A claim is met by taking it off what is queued, the balance has paid already. Between a
//! server's look at the balance and its grant others may take from the balance only what is above zero, hence what nobody has claimed.
//! (b) No wake-up is lost. What there is for those in the queue grows by a release, by a claim that is withdrawn, and by one that
//! arrives in the queue; and who is next changes with arrivals and departures. All of them serve after that, but for a release that finds the balance not
//! below zero. Then somebody has lifted it from there, and serves after this release, or has served with all that was claimed; or it was
//! lifted, and lowered by a claim that is on its way, which serves when it arrives.
//! (c) No permit is lost: a waiter is served by whoever unlinks it, and one that has been unlinked is neither expired nor
//! interrupted (I3).
//!
//! **Cost** in read-modify-writes: acquire 1, release 1. With a waiter 2 each, of which the bucket lock is one.

mod interruptible;
mod owned;
mod permit;
mod word;

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use crate::park::reason::WaitReason;
use crate::park::wait_queue::{self, Options, Order, Token, Woken};
use crate::shim::{const_new, fork};
use crate::time;
use word::{MAX, Queued, Word};

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

    /// How many permits are there. While threads wait, these are not enough for the next of them; a thread that is just about to wait may
    /// hide them.
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
        self.try_take(n).then(|| SemaphorePermit::new(self, n))
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
        if self.word.try_give(n).ok_or(TooManyPermits)? {
            self.forget_lost(n as i64);
            self.serve(0);
        }
        Ok(())
    }

    /// Puts back what has been taken.
    #[inline]
    fn give_back(&self, n: usize) {
        if self.word.give(n) {
            self.serve_checked(n);
        }
    }

    /// The rest of `give_back` where something was missing, or there is too much.
    #[cold]
    fn serve_checked(&self, n: usize) {
        self.forget_lost(n as i64);
        self.serve(0);
        if self.word.is_overflown() {
            overflowed(n);
        }
    }

    #[inline]
    fn try_take(&self, n: usize) -> bool {
        n == 0 || self.word.try_take(n) || self.try_take_slow(n)
    }

    /// There may be enough though the balance says no: if nobody is queued, those who have claimed it are about to withdraw, or were
    /// threads of a parent process.
    #[cold]
    fn try_take_slow(&self, n: usize) -> bool {
        let mut taken = false;
        self.forget_lost(0);
        if n <= MAX && self.word.permits() >= n {
            wait_queue::if_empty(self.key(), || taken = self.word.try_take_unqueued(n));
        }
        taken
    }

    #[inline]
    fn take(&self, n: usize, deadline: Option<Instant>) -> bool {
        n == 0
            || (n <= MAX && self.word.take_or_claim(n))
            || self.wait(n, Options::new(WaitReason::Semaphore, deadline)) == Ended::Taken
    }

    /// `take` that reads the clock only if there is a wait.
    fn take_for(&self, n: usize, timeout: Duration) -> bool {
        self.try_take(n) || self.take(n, time::after(timeout))
    }

    /// Waits for the `n` permits that the caller has claimed.
    #[cold]
    fn wait(&self, n: usize, mut options: Options) -> Ended {
        assert!(n <= MAX, "asked for more permits than a semaphore can have");
        options.order = Order::Fifo;
        options.demand = n;
        let claim = Claim { semaphore: self, n, open: Cell::new(true) };
        if fork::is_child() {
            self.forget_lost(-(n as i64));
            if self.word.is_enough() {
                claim.open.set(false);
                return Ended::Taken;
            }
        }
        let queued = Cell::new(Queued::Met);
        let validate = || {
            claim.open.set(false);
            queued.set(self.word.queue(n));
            queued.get() != Queued::Met
        };
        let before_sleep = || {
            if queued.get() == Queued::SomeLeft {
                self.serve(0);
            }
        };
        match wait_queue::wait(self.key(), &options, validate, before_sleep) {
            Err(_) | Ok(Woken::Granted(_)) => Ended::Taken,
            Ok(Woken::Expired { .. }) => {
                self.serve(n);
                Ended::Expired
            }
            Ok(Woken::Interrupted { .. }) => {
                self.serve(n);
                Ended::Interrupted
            }
        }
    }

    /// In the child of a fork, once: threads of the parent's that waited are not here. `mine` is what the caller has just added to
    /// the balance, or taken off. (Of those that were on their way to the queue nothing is known but what is missing, and whose claim
    /// that is, is known only while the child has no other thread.)
    fn forget_lost(&self, mine: i64) {
        let process = fork::Generation::now();
        if fork::is_child() && !self.word.is_known_to(process) {
            let mine = fork::is_alone().then_some(mine);
            wait_queue::if_empty(self.key(), || self.word.forget_lost(process, mine));
        }
    }

    /// Withdraws a queued claim of `n`, and gives the next waiters what they wait for, as far as it goes.
    fn serve(&self, n: usize) {
        let served = wait_queue::grant_while(
            self.key(),
            SERVED,
            || self.word.begin(n),
            |serving, demand| serving.give(demand),
            |serving, _| self.word.end(&serving),
        );
        if let Some(served) = served {
            served.wake_all();
        }
    }
}

/// A claim that is withdrawn if the wait for it cannot begin.
struct Claim<'a> {
    semaphore: &'a Semaphore,
    n: usize,
    /// Neither queued nor met.
    open: Cell<bool>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.open.get() {
            self.semaphore.word.withdraw(self.n);
            self.semaphore.serve(0);
        }
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
