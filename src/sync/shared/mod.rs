//! Locks and condition variables that threads of several processes may share, in memory that all of them map.
//!
//! They are plain words, valid when zeroed, with no pointers and no destructor: put one into a shared mapping (by
//! `MAP_SHARED`, or `shm_open`), and let every process use it through its own address. All must be the same program, or at
//! least built with the same layout of the value.
//!
//! Within one process the locks of [`sync`](super) are better in every respect: these here cannot see where the owner
//! runs, and a green thread that sleeps on one takes an LWP with it (which is announced: the slot goes to another LWP). If
//! a process ends while one of its threads owns a lock, the lock stays taken.

mod condvar;
mod mutex;

pub use condvar::Condvar;
pub use mutex::RawMutex;

/// A lock that several processes may share, around a value. See the [module](self).
///
/// # Examples
///
/// ```
/// use selvedge::sync::shared::Mutex;
///
/// let mutex = Mutex::new(1);
/// *mutex.lock() += 1;
/// assert_eq!(*mutex.lock(), 2);
/// ```
///
/// # Blocks
///
/// `lock` and the timed forms block the LWP, if the lock is not free soon.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// Access to the value of a locked [`Mutex`]; unlocks it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
