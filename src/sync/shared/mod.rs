//! Locks and condition variables that threads of several processes may share, in memory that all of them map.
//!
//! They are plain words, valid when zeroed, with no pointers and no destructor: put one into a shared mapping (by
//! `MAP_SHARED`, or `shm_open`), and let every process use it through its own address. All must be the same program, or at
//! least built with the same layout of the value, and see each other under the same process ids (be in one PID namespace).
//!
//! **Robust.** A process may be killed with a lock held; the next owner then gets the lock with that news, as a [`Legacy`]
//! ([`Condition::OwnerKilled`](super::Condition::OwnerKilled)). What is found, and when:
//!
//! | an owner | is found dead |
//! |---|---|
//! | whose process has ended or was killed, a zombie too | by each `try_lock`; by those who wait, within a tenth of a second; by those who come to wait, within some milliseconds |
//! | whose thread has ended with the lock held, of any kind, in the same process | as above |
//! | whose thread has ended, in another process | once that process has ended, or one of its own threads has asked for the lock |
//! | that has panicked | at once |
//! | whose process has called `exec` with the lock held | once that process has ended |
//! | in another PID namespace | never |
//!
//! In the child of a fork, what the parent has locked stays the parent's; a copy of its guard does nothing there when dropped.
//!
//! Within one process the locks of [`sync`](super) are better in every respect: these here cannot see where the owner
//! runs, and a green thread that sleeps on one takes an LWP with it (which is announced: the slot goes to another LWP). An interrupt
//! is noticed within a tenth of a second.

mod condvar;
mod mutex;

use super::robust;

pub use condvar::Condvar;
pub use mutex::RawMutex;

/// A lock that several processes may share, around a value. See the [module](self), and [`robust::Lock`] for what it can do.
///
/// The value must make sense to other processes: no references, nothing on the heap.
///
/// # Examples
///
/// ```
/// use selvedge::sync::shared::Mutex;
///
/// let mutex = Mutex::new(1);
/// *mutex.lock()?.unwrap() += 1;
/// assert_eq!(*mutex.lock()?.unwrap(), 2);
/// # Ok::<(), selvedge::sync::RobustError>(())
/// ```
///
/// # Blocks
///
/// `lock`, and the timed and interruptible forms, block the LWP, if the lock is not free soon.
pub type Mutex<T> = robust::Lock<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]; unlocks it when dropped.
pub type MutexGuard<'a, T> = robust::Guard<'a, RawMutex, T>;

/// What an owner of a [`Mutex`] gets: the lock, and how the one before has left.
pub type Legacy<'a, T> = robust::Legacy<'a, RawMutex, T>;

/// A locked [`Mutex`] whose last owner has ended with the lock held, in a process that goes on.
pub type Orphan<'a, T> = robust::Orphan<'a, RawMutex, T>;

impl<T> Mutex<T> {
    /// A free lock around `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::from_raw(RawMutex::new(), value)
    }
}
