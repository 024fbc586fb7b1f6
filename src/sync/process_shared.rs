//! Locks and condition variables that threads of several processes may share, in memory that all of them map.
//!
//! They are plain words, valid when zeroed, with no pointers and no destructor. Put one into a shared
//! mapping (by `MAP_SHARED`, or `shm_open`); every process uses it through its own address. All processes
//! must be the same program, or at least built with the same layout of the value. They must see each
//! other under the same process ids (be in one PID namespace).
//!
//! **Robust.** A process may be killed with a lock held. The next owner then gets the lock with that
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
//! | it is in another PID namespace | never |
//!
//! *Soon* means: each `try_lock` finds it, threads that wait find it within a tenth of a second, and
//! threads that come to wait find it within some milliseconds.
//!
//! In the child of a fork, locks that the parent holds stay the parent's. A copy of its guard does
//! nothing there when dropped.
//!
//! Within one process the locks of [`sync`](super) are better in every respect. The locks here cannot see
//! where the owner runs. A green thread that sleeps on one takes an LWP with it (which is announced: the
//! slot goes to another LWP). An interrupt is noticed within a tenth of a second.
//!
//! **Outside Linux** there is no futex of this crate. A waiter then looks at the word from time to time. It
//! notices within a tenth of a second what another process has released or notified.

mod condvar;
mod mutex;

use super::lock::{Guard, Lock, MappedGuard};
use super::robust;

pub use condvar::Condvar;
pub use mutex::RawMutex;

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
/// `lock`, the timed forms and `lock_with` block the LWP, unless the lock is free soon.
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
