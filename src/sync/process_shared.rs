//! Locks and the like that threads of several processes may share, in memory that all of them map.
//!
//! They are plain words, valid when zeroed, with no pointers and no destructor. Put one into a shared
//! mapping (by `MAP_SHARED`, or `shm_open`); every process uses it through its own address. All processes
//! must be the same program, or at least built with the same layout of the value. They must see each
//! other under the same process ids and times (be in one PID namespace and one time namespace).
//!
//! | what | if a process is killed |
//! |---|---|
//! | [`Mutex`] | the next owner is told |
//! | [`RwLock`] | while it writes: others are told, until one mends it; while it reads: its share is lost |
//! | [`Condvar`] | while it waits: a notification may be lost with it |
//! | [`Semaphore`] | its permits are lost |
//! | [`Barrier`] | if it waits, it has arrived; otherwise the others wait |
//! | [`Once`] | while it runs the closure: the others find it poisoned |
//!
//! **Robust.** A process may be killed with a [`Mutex`] held. The next owner then gets the lock with that
//! news, as an [`Acquired`] ([`Condition::ProcessDied`](super::Condition::ProcessDied)). An owner is found
//! dead as follows:
//!
//! | what has happened to the owner | it is found dead |
//! |---|---|
//! | its process has ended or was killed (also if it is a zombie) | soon |
//! | its thread, of any kind, has ended in the same process with the lock held | soon |
//! | its thread has ended in another process | when that process has ended, or asks for the lock |
//! | it has panicked | at once |
//! | its process has called `exec` with the lock held | when that process has ended |
//! | it is in another PID or time namespace | never |
//!
//! *Soon* means that each `try_lock` finds it. Threads that wait find it within a tenth of a second, and
//! threads that come to wait find it within some milliseconds.
//!
//! In the child of a fork, locks that the parent holds stay the parent's. A copy of its guard does
//! nothing there when dropped.
//!
//! **Green threads** that wait for the same lock wait in a queue of their process. One of them sleeps in the
//! kernel, for all of them, and takes an LWP with it (which is announced: the slot goes to another LWP).
//! Before that, it waits for a tenth of a millisecond without the kernel, if its own process had the lock
//! last.
//!
//! **Fairness.** Of the threads in the kernel, each process has one for its green threads, and each kernel
//! thread is one. The kernel wakes them in turn. But a thread that unlocks prefers green threads of its own
//! process. Of 64 wake-ups by one thread, one goes to the kernel first.
//!
//! Within one process the locks of [`sync`](super) are better in every respect. The locks here cannot see
//! where the owner runs. If a thread sleeps in the kernel, an interrupt is noticed within a tenth of a
//! second.
//!
//! **Outside Linux** there is no futex of this crate. A waiter then looks at the word from time to time. It
//! notices within a tenth of a second what another process has released or notified.

mod barrier;
mod condvar;
mod mutex;
mod once;
mod rwlock;
mod semaphore;

use super::lock::{Guard, Lock, MappedGuard};
use super::robust;

pub use barrier::Barrier;
pub use condvar::Condvar;
pub use mutex::RawMutex;
pub use once::Once;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Semaphore, SemaphorePermit};

/// A lock around a value that several processes may share. See the [module](self), and
/// [`RobustMutex`](super::RobustMutex) for what it can do.
///
/// The value must make sense to other processes: no references, nothing on the heap.
///
/// # Examples
///
/// ```
/// use selvedge::sync::process_shared::Mutex;
///
/// let mutex = Mutex::new(1);
/// *mutex.lock()?.unwrap() += 1;
/// assert_eq!(*mutex.lock()?.unwrap(), 2);
/// # Ok::<(), selvedge::sync::RobustError>(())
/// ```
///
/// # Blocks
///
/// `lock`, the timed forms and `lock_with` block the thread; for one green thread of each process, its LWP
/// too.
pub type Mutex<T> = Lock<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]. Dropping it unlocks the mutex.
pub type MutexGuard<'a, T> = Guard<'a, RawMutex, T>;

/// Access to a part of the value of a locked [`Mutex`], made by [`MutexGuard::map`]. Dropping it unlocks the
/// mutex.
pub type MappedMutexGuard<'a, T> = MappedGuard<'a, RawMutex, T>;

/// What a new owner of a [`Mutex`] gets: the lock, and how the last owner left it.
pub type Acquired<'a, T> = robust::Acquired<'a, RawMutex, T>;

/// A locked [`Mutex`]; its last owner has ended with the lock held, in a process that goes on.
pub type Abandoned<'a, T> = robust::Abandoned<'a, RawMutex, T>;

impl<T> Mutex<T> {
    /// Creates a free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::from_raw(RawMutex::new(), value)
    }
}
