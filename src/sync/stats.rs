//! Statistics of contended locks.
//!
//! Nothing is counted unless [`enable`] was called, or the environment has `SELVEDGE_LOCK_STATS=on` when
//! a runtime is built. What is counted is what happens to threads that find a lock taken. A free lock is
//! not noticed, and costs the same as always.
//!
//! A lock is known by its address, and has no destructor that could tell that it is gone. So what is
//! counted belongs to all locks that have been at that address. If locks are waited for at more than some
//! 65,000 addresses, those that were waited for last are kept.
//!
//! # Examples
//!
//! ```
//! use selvedge::sync::{Mutex, stats};
//! use std::time::Duration;
//!
//! static ACCOUNTS: Mutex<u32> = Mutex::new(0);
//!
//! stats::enable();
//! stats::name(&ACCOUNTS, "accounts");
//! std::thread::scope(|s| {
//!     let held = ACCOUNTS.lock();
//!     let other = s.spawn(|| *ACCOUNTS.lock() += 1);
//!     std::thread::sleep(Duration::from_millis(20));
//!     drop(held);
//!     other.join().unwrap();
//! });
//! let report = stats::report();
//! println!("{report}");
//! let accounts = report.locks().iter().find(|lock| lock.name() == Some("accounts")).unwrap();
//! assert_eq!(accounts.contended(), 1);
//! ```

use std::fmt;
use std::time::Duration;

use super::mutex::{Mutex, RawMutex};
use super::rwlock::{RawRwLock, RwLock};
use super::{CheckedMutex, FairMutex, RawCheckedMutex, RawFairMutex, RawRobustMutex};
use super::{ReentrantMutex, RobustMutex, poison};
use crate::observe::contention::{self, Counts};
use crate::observe::names;
use crate::park::observed;
use crate::park::reason::WaitReason;

/// Begins to count, in the whole process.
///
/// # Examples
///
/// ```
/// use selvedge::sync::stats;
///
/// stats::enable();
/// assert!(stats::is_enabled());
/// ```
pub fn enable() {
    contention::switch(true);
}

/// Stops counting, unless [`threadmon`](crate::threadmon) looks at locks. What has been counted stays.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Mutex, stats};
/// use std::time::Duration;
///
/// let mutex = Mutex::new(());
/// let _held = mutex.lock();
/// stats::enable();
/// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
/// stats::disable();
/// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
/// assert_eq!(stats::report().locks()[0].gave_up(), 1);
/// stats::reset();
/// assert!(stats::report().locks().is_empty());
/// ```
pub fn disable() {
    contention::switch(false);
}

/// Returns `true` if anything is counted.
#[must_use]
pub fn is_enabled() -> bool {
    observed::is_contention_counted()
}

/// Forgets all that has been counted, of all locks. Names stay.
pub fn reset() {
    contention::clear();
}

/// A lock that can have a name.
///
/// The trait is sealed.
pub trait Lock: sealed::Sealed {}

mod sealed {
    pub trait Sealed {
        /// Returns the address that its waiters wait on.
        fn address(&self) -> usize;
    }
}

macro_rules! locks {
    ($($lock:ty $(, $value:ident)?: |$this:ident| $address:expr;)*) => {$(
        impl$(<$value: ?Sized>)? Lock for $lock {}

        impl$(<$value: ?Sized>)? sealed::Sealed for $lock {
            fn address(&self) -> usize {
                let $this = self;
                $address
            }
        }
    )*};
}

locks! {
    RawMutex: |lock| lock.key();
    RawFairMutex: |lock| lock.0.key();
    RawRwLock: |lock| lock.address();
    RawCheckedMutex: |lock| lock.key();
    RawRobustMutex: |lock| lock.key();
    CheckedMutex<T>, T: |lock| lock.raw().key();
    RobustMutex<T>, T: |lock| lock.raw().key();
    Mutex<T>, T: |lock| {
        // SAFETY: nothing is unlocked.
        unsafe { lock.raw() }.key()
    };
    FairMutex<T>, T: |lock| {
        // SAFETY: nothing is unlocked.
        unsafe { lock.raw() }.0.key()
    };
    ReentrantMutex<T>, T: |lock| {
        // SAFETY: nothing is unlocked.
        unsafe { lock.raw() }.key()
    };
    RwLock<T>, T: |lock| {
        // SAFETY: nothing is unlocked.
        unsafe { lock.raw() }.address()
    };
    poison::Mutex<T>, T: |lock| lock.raw().key();
    poison::RwLock<T>, T: |lock| sealed::Sealed::address(lock.inner());
}

/// Gives a lock a name, for this report and that on [deadlocks](crate::Runtime::deadlocks). The name
/// belongs to the address of the lock. Before the lock is moved or dropped, the program takes the name
/// away by [`unname`].
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Mutex, stats};
///
/// static QUEUE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
/// stats::name(&QUEUE, "queue");
/// ```
pub fn name<L: Lock + ?Sized>(lock: &L, name: &str) {
    names::give(lock.address(), name);
}

/// Takes the lock's name away, if it has one.
pub fn unname<L: Lock + ?Sized>(lock: &L) {
    names::take(lock.address());
}

/// What has been counted of one lock.
#[derive(Clone, Debug)]
pub struct LockStats {
    address: usize,
    name: Option<String>,
    counts: Counts,
}

impl LockStats {
    crate::shown::getters! {
        /// Returns the address of the lock.
        fn address(&self) -> usize = self.address;
        /// Returns the [name](name()) of the lock.
        fn name(&self) -> Option<&str> = self.name.as_deref();
    }
}

/// What was counted, by the same names.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl LockStats {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(&self) -> $type {
                self.counts.$name
            }
        )*}
    };
}

counts! {
    /// Returns the kind of the lock: what a thread reports that it waits for.
    kind: Option<WaitReason>;

    /// Returns how often a thread found the lock taken, and waited.
    contended: u64;

    /// Returns how many of those threads got the lock awake: by spinning, or because it was free again.
    spun: u64;

    /// Returns how often a thread slept for the lock. If others were faster when it was woken, a thread
    /// sleeps several times.
    slept: u64;

    /// Returns how often the lock was handed to a waiter without being free in between. The unlock was a fair
    /// one, or the waiter had waited for long.
    handed_over: u64;

    /// Returns how many waits ended without the lock: by a deadline or an interrupt.
    gave_up: u64;

    /// Returns how long all waits took together.
    waited: Duration;

    /// Returns how long the longest wait took.
    longest: Duration;
}

/// What has been counted of all locks. The lock with the longest waits comes first. It displays as a
/// table.
#[derive(Clone, Debug)]
#[must_use]
pub struct Report {
    locks: Vec<LockStats>,
}

/// Returns what has been counted so far. It does not include waits that are going on.
///
/// # Examples
///
/// ```
/// use selvedge::sync::stats;
///
/// println!("{}", stats::report().top(10));
/// ```
pub fn report() -> Report {
    let mut locks: Vec<_> = contention::all()
        .into_iter()
        .map(|(address, counts)| LockStats { address, name: names::of(address), counts })
        .collect();
    locks.sort_by_key(|lock| (std::cmp::Reverse((lock.waited(), lock.contended())), lock.address));
    Report { locks }
}

impl Report {
    /// Returns the locks. The one with the longest waits comes first.
    #[must_use]
    pub fn locks(&self) -> &[LockStats] {
        &self.locks
    }

    /// Keeps the first `n` of them.
    pub fn top(mut self, n: usize) -> Self {
        self.locks.truncate(n);
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  lock",
            "waited", "longest", "contended", "spun", "slept", "handed", "gave up"
        )?;
        for lock in &self.locks {
            let (waited, longest) = (format!("{:.1?}", lock.waited()), format!("{:.1?}", lock.longest()));
            let kind = lock.kind().map_or(String::from("a lock"), |kind| kind.to_string());
            write!(
                f,
                "\n{waited:>12} {longest:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {kind} at {:#x}",
                lock.contended(),
                lock.spun(),
                lock.slept(),
                lock.handed_over(),
                lock.gave_up(),
                lock.address(),
            )?;
            if let Some(name) = lock.name() {
                write!(f, " {name:?}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a lock's waiters wait at an address within the lock, so no other lock's are among
    /// them.
    #[test]
    fn waiters_wait_at_their_own_lock() {
        fn check<L: Lock>(lock: &L) {
            let start = std::ptr::from_ref(lock).addr();
            let address = lock.address();
            assert!((start..start + size_of::<L>()).contains(&address), "{}", std::any::type_name::<L>());
        }
        check(&RawMutex::new());
        check(&RawFairMutex::new());
        check(&RawRwLock::new());
        check(&RawCheckedMutex::new());
        check(&RawRobustMutex::new());
        check(&CheckedMutex::new(1));
        check(&RobustMutex::new(1));
        check(&Mutex::new(1));
        check(&FairMutex::new(1));
        check(&ReentrantMutex::new(1));
        check(&RwLock::new(1));
        check(&poison::Mutex::new(1));
        check(&poison::RwLock::new(1));
    }

    #[test]
    fn each_figure_is_that_of_its_counter() {
        let counts = Counts {
            kind: Some(WaitReason::Mutex),
            contended: 2,
            spun: 3,
            slept: 4,
            handed_over: 5,
            gave_up: 6,
            waited: Duration::from_secs(7),
            longest: Duration::from_secs(8),
        };
        let lock = LockStats { address: 9, name: Some("ten".into()), counts };
        assert_eq!((lock.kind(), lock.address(), lock.name()), (Some(WaitReason::Mutex), 9, Some("ten")));
        let figures = [lock.contended(), lock.spun(), lock.slept(), lock.handed_over(), lock.gave_up()];
        assert_eq!(figures, [2, 3, 4, 5, 6]);
        assert_eq!([lock.waited(), lock.longest()], [7, 8].map(Duration::from_secs));
    }
}
