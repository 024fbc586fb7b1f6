//! `Thread` and `ThreadId`: a thread's identity. And what the running thread can do to itself.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use super::id::ThreadId;
use crate::park::interrupt::{self, Interrupted};
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait::{Wait, WaitError};
use crate::park::{backend, current, permit};

/// A handle to a thread: its name, its identity, and the right to unpark it. Two handles are equal if they
/// are of one thread. Any thread has one, also a kernel thread that Selvedge did not start.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let me = thread::current();
/// assert_eq!(me, thread::current());
/// ```
pub struct Thread(ThreadRef);

impl Thread {
    /// Takes over one counted reference.
    pub(crate) fn from_counted(core: ThreadRef) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> ThreadRef {
        self.0
    }

    crate::shown::getters! {
        /// Returns the thread's identity, which is unique in this process forever.
        ///
        /// # Examples
        ///
        /// ```
        /// use selvedge::thread;
        ///
        /// assert_eq!(thread::current().id(), thread::current().id());
        /// ```
        fn id(&self) -> ThreadId = ThreadId::from_number(self.0.id());
        /// Returns the name given to [`Builder::name`](super::Builder::name), if any.
        ///
        /// # Examples
        ///
        /// ```
        /// use selvedge::{OneToOne, thread};
        ///
        /// let rt = OneToOne::new()?;
        /// let worker = thread::Builder::new().name("worker".into()).spawn_on(&rt, || ())?;
        /// assert_eq!(worker.thread().name(), Some("worker"));
        /// # worker.join().unwrap();
        /// # std::io::Result::Ok(())
        /// ```
        fn name(&self) -> Option<&str> = self.0.core().name();
        /// Returns the priority of the thread.
        ///
        /// # Examples
        ///
        /// ```
        /// use selvedge::thread::{self, Priority};
        ///
        /// assert_eq!(thread::current().priority(), Priority::Normal);
        /// ```
        fn priority(&self) -> Priority = self.0.priority.get();
    }

    /// Changes the priority of the thread, whatever it does at the moment.
    ///
    /// - A runnable green thread moves at once. If it was raised, it goes before all lower
    ///   ones that wait, and an LWP that runs a lower one is asked to look.
    /// - A thread that runs goes on. A thread that waits for a lock keeps its position in that queue. Both
    ///   have the new priority when they are made runnable, or wait, the next time.
    /// - For a thread that has ended, nothing changes.
    ///
    /// The cost grows with the length of all run queues of the runtime (up to 256 threads for each LWP). So
    /// it is not meant for every lock that a thread acquires.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, Priority};
    ///
    /// let worker = thread::spawn(thread::park);
    /// worker.thread().set_priority(Priority::High);
    /// assert_eq!(worker.thread().priority(), Priority::High);
    /// worker.thread().unpark();
    /// # worker.join().unwrap();
    /// ```
    pub fn set_priority(&self, priority: Priority) {
        if self.0.priority.set(priority) != priority {
            self.0.pool().reprioritized(self.0);
        }
    }

    /// Posts the thread's permit. If the thread is parked, this wakes it. Otherwise its next [`park`]
    /// returns at once. There is only one permit: to post it twice is to post it once. What the caller did
    /// before is visible after that `park`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// thread::current().unpark();
    /// thread::park(); // returns at once
    /// ```
    #[inline]
    pub fn unpark(&self) {
        permit::unpark(self.0);
    }

    /// Interrupts the thread. If it is in an [interruptible](Wait::interruptible) wait, that wait ends with
    /// an error. Otherwise the next such wait does, without waiting. All other waits go on undisturbed.
    ///
    /// Each thread has one flag: to interrupt it twice before it has noticed is to interrupt it once. The
    /// wait that reports the interrupt clears the flag, and so does
    /// [`take_interrupt`](super::take_interrupt()). What the caller did before is visible to the thread then.
    /// If an interrupt comes at the same moment as what the thread waits for, the interrupt does not win. The
    /// wait succeeds, and the next one is interrupted.
    ///
    /// These waits are interruptible if their [`Wait`] says so: [`sleep_with`], [`park_with`],
    /// [`join_with`](super::JoinHandle::join_with), `lock_with` of a mutex, and all others that take one. The
    /// waits of a [`TaskGroup`](super::TaskGroup) always are.
    ///
    /// These end as usual, and so do their timed forms:
    ///
    /// - [`sleep`], [`sleep_until`]
    /// - [`park()`], [`park_timeout`], [`park_until`]
    /// - `join`, and [`scope`](super::scope())
    /// - `lock` and `try_lock_for` of a mutex
    /// - `wait` of a condition variable or a barrier
    /// - `call_once` and `wait` of a `Once`
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime, Wait, thread};
    ///
    /// let rt = OneToOne::new()?;
    /// let sleeper = rt.spawn(|| thread::sleep_with(Wait::forever().interruptible()));
    /// sleeper.thread().interrupt();
    /// assert!(sleeper.join().unwrap().is_err());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// Nothing.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// Returns `true` if the thread has been interrupted and has not noticed yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// let me = thread::current();
    /// assert!(!me.is_interrupted());
    /// me.interrupt();
    /// assert!(me.is_interrupted());
    /// # thread::take_interrupt();
    /// ```
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }
}

// As in std. What a handle leads to is atomic, or changes only where no panic can intervene.
impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}

impl Clone for Thread {
    fn clone(&self) -> Self {
        Self(self.0.retain())
    }
}

impl Drop for Thread {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

impl PartialEq for Thread {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Thread {}

crate::shown::debug! { [] Thread: "Thread", "id": |thread| thread.id(), "name": |thread| thread.name() }

/// Returns a handle to the running thread.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// println!("I am {:?}", thread::current().id());
/// ```
#[must_use]
pub fn current() -> Thread {
    Thread(current::current().retain())
}

/// Waits for the running thread's permit, and consumes it.
///
/// The permit is posted by [`Thread::unpark`]. `park` may also return without one, so it belongs in a loop
/// that checks for what the thread waits.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime, thread};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let rt = OneToOne::new()?;
/// let ready = Arc::new(AtomicBool::new(false));
/// let waiter = rt.spawn({
///     let ready = Arc::clone(&ready);
///     move || {
///         while !ready.load(Ordering::Acquire) {
///             thread::park();
///         }
///     }
/// });
/// ready.store(true, Ordering::Release);
/// waiter.thread().unpark();
/// waiter.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// The running thread, until the permit is there.
#[inline]
pub fn park() {
    let _ = permit::park(Wait::forever, WaitReason::Park);
}

/// Like [`park()`], for at most `timeout`.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::Duration;
///
/// thread::park_timeout(Duration::from_millis(1));
/// ```
///
/// # Blocks
///
/// The running thread, until the permit is there or the time is over.
pub fn park_timeout(timeout: Duration) {
    let _ = permit::park(|| Wait::timeout(timeout), WaitReason::Park);
}

/// Like [`park_timeout`], with the timeout in milliseconds.
#[deprecated = "as in std: replaced by `park_timeout`"]
pub fn park_timeout_ms(ms: u32) {
    park_timeout(Duration::from_millis(ms.into()));
}

/// Like [`park()`], until `deadline` at the latest.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::{Duration, Instant};
///
/// thread::park_until(Instant::now() + Duration::from_millis(1));
/// ```
///
/// # Blocks
///
/// The running thread, until the permit is there or the time has come.
pub fn park_until(deadline: Instant) {
    let _ = permit::park(|| Wait::until(deadline), WaitReason::Park);
}

/// Waits as [`park()`] does, and ends as `wait` says.
///
/// # Examples
///
/// ```
/// use selvedge::{Wait, WaitError, thread};
///
/// let (me, wait) = (thread::current(), Wait::forever().interruptible());
/// me.unpark();
/// assert!(thread::park_with(wait).is_ok());
/// me.interrupt();
/// assert_eq!(thread::park_with(wait), Err(WaitError::Interrupted));
/// ```
///
/// # Errors
///
/// [`WaitError`]; a permit was not consumed.
///
/// # Blocks
///
/// The running thread, until the permit is there or the wait has ended.
pub fn park_with(wait: Wait) -> Result<(), WaitError> {
    wait.run(|wait| permit::park(|| wait, WaitReason::Park))
}

/// Sleeps for at least `duration`. Neither permits nor signals cut it short.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::Duration;
///
/// thread::sleep(Duration::from_millis(1));
/// ```
///
/// # Blocks
///
/// The running thread. A `duration` of zero returns at once.
pub fn sleep(duration: Duration) {
    if !duration.is_zero() {
        let _ = permit::sleep(Wait::timeout(duration));
    }
}

/// Like [`sleep`], with the time in milliseconds.
#[deprecated = "as in std: replaced by `sleep`"]
pub fn sleep_ms(ms: u32) {
    sleep(Duration::from_millis(ms.into()));
}

/// Sleeps until `deadline`. Returns at once if it has passed.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
/// use std::time::{Duration, Instant};
///
/// thread::sleep_until(Instant::now() + Duration::from_millis(1));
/// ```
///
/// # Blocks
///
/// The running thread.
pub fn sleep_until(deadline: Instant) {
    let _ = permit::sleep(Wait::until(deadline));
}

/// Sleeps until `wait` ends.
///
/// # Examples
///
/// ```
/// use selvedge::{Wait, thread};
/// use std::time::Duration;
///
/// let wait = Wait::timeout(Duration::from_millis(1)).interruptible();
/// assert!(thread::sleep_with(wait).is_ok());
/// ```
///
/// # Errors
///
/// [`Interrupted`], if that came first, even if the deadline has passed.
///
/// # Blocks
///
/// The running thread, until the deadline or an interrupt ends the wait.
pub fn sleep_with(wait: Wait) -> Result<(), Interrupted> {
    // The only error, because a sleep waits for its deadline.
    wait.run(permit::sleep).map_err(|_| Interrupted)
}

/// Returns `true` if the running thread has been [interrupted](Thread::interrupt) and no wait has reported
/// that yet. Clears the interrupt, as the wait would. For threads that compute, and check from time to time.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// assert!(!thread::take_interrupt());
/// thread::current().interrupt();
/// assert!(thread::take_interrupt());
/// assert!(!thread::take_interrupt());
/// ```
#[must_use = "the interrupt is taken: nothing else will report it"]
pub fn take_interrupt() -> bool {
    interrupt::take()
}

/// Lets another thread that is ready run first.
///
/// # Examples
///
/// ```
/// selvedge::thread::yield_now();
/// ```
///
/// # Blocks
///
/// Nothing: the running thread stays ready.
#[inline]
pub fn yield_now() {
    let me = current::current();
    me.backend().yield_now(&me);
}

/// Runs `f`, which may block in the kernel for long, without holding up other threads. The running thread's
/// slot may be released meanwhile.
///
/// On the 1:1 runtime, and on a bound thread, this only calls `f`.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let hosts = thread::blocking(|| std::fs::read_to_string("/etc/hosts"));
/// # let _ = hosts;
/// ```
///
/// # Blocks
///
/// Whatever `f` blocks; then the running thread, until a slot is free again. The call is announced, so other
/// threads run on.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    backend::blocking(current::current(), f)
}
