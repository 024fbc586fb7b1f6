//! `Thread` and `ThreadId`: who a thread is; and the verbs of the running thread on itself.

use std::fmt;
use std::num::NonZeroU64;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::{current, permit};
use crate::time;

/// A handle to a thread: its name, its identity, and the right to unpark it.
///
/// Any thread has one, whatever runs it: green, bound, 1:1, or a kernel thread that Selvedge did not start. Two handles
/// are equal if they are of one thread.
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

    /// The thread's identity, unique in this process for all time.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// assert_eq!(thread::current().id(), thread::current().id());
    /// ```
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(self.0.id())
    }

    /// The name given to [`Builder::name`](super::Builder::name), if any.
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
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.core().name()
    }

    /// How urgent the thread is.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, Priority};
    ///
    /// assert_eq!(thread::current().priority(), Priority::Normal);
    /// ```
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.0.priority.get()
    }

    /// Makes the thread more or less urgent, whatever it does now.
    ///
    /// A runnable green thread takes its new place at once: raised, it goes before all lower ones that wait, and an LWP that
    /// runs a lower one is asked to look. One that is running goes on, and one that waits for a lock keeps its place in that
    /// queue; both have the new priority the next time they are made runnable or wait. Of a thread that has ended it changes
    /// nothing.
    ///
    /// This costs about as much as all run queues of the runtime are long (up to 256 threads for each LWP): it is not meant for
    /// every lock that a thread takes.
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
            self.0.keeper().reprioritized(self.0);
        }
    }

    /// Posts the thread's permit: wakes it if it is parked, else its next [`park`] returns at once. One permit is all there is:
    /// posting it twice is posting it once. What the caller did before is visible after that `park`.
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

    /// Interrupts the thread: if it is in one of the waits that are called *interruptible*, that ends with an [`Interrupted`](super::Interrupted); else
    /// the next such wait does, without waiting. All other waits, which have the signatures of std, go on undisturbed.
    ///
    /// Each thread has one flag: interrupting it twice before it has noticed is interrupting it once. The wait that reports the interrupt
    /// clears the flag, and so does [`interrupted`](super::interrupted()). What the caller did before is visible to the thread then. An interrupt
    /// that comes in the same moment as what the thread waits for does not win: the wait succeeds, and the next one is interrupted.
    ///
    /// | interruptible | ends as usual |
    /// |---|---|
    /// | [`sleep_interruptible`](super::sleep_interruptible()) and its form with a deadline | [`sleep`], [`sleep_until`] |
    /// | [`park_interruptible`](super::park_interruptible()) and its timed forms | [`park()`], [`park_timeout`], [`park_until`] |
    /// | [`JoinHandle::join_interruptible`](super::JoinHandle::join_interruptible) and its timed forms | `join`, `join_timeout`, `join_until`, [`scope`](super::scope()) |
    /// | [`Mutex::lock_interruptible`](crate::sync::LockInterruptible) and its timed forms | `lock`, `try_lock_for`, `try_lock_until` |
    /// | [`Condvar::wait_interruptible`](crate::sync::Condvar::wait_interruptible) and its timed forms | `wait`, `wait_for`, `wait_until` |
    /// | [`Barrier::wait_interruptible`](crate::sync::Barrier::wait_interruptible) and its timed forms | `wait`, `wait_for`, `wait_until` |
    /// | [`Once::call_once_interruptible`](crate::sync::Once::call_once_interruptible), `wait_interruptible`, and their like | `call_once`, `wait`, and their timed forms |
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime, thread};
    /// use std::time::Duration;
    ///
    /// let rt = OneToOne::new()?;
    /// let sleeper = rt.spawn(|| thread::sleep_interruptible(Duration::from_secs(1000)));
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

    /// Whether the thread has been interrupted, and has not noticed yet.
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
    /// # thread::interrupted();
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

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// The identity of a thread: no other thread of this process, on any runtime, has had it or will have it.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime, thread};
///
/// let rt = OneToOne::new()?;
/// let theirs = rt.spawn(|| thread::current().id()).join().unwrap();
/// assert_ne!(theirs, thread::current().id());
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(NonZeroU64);

impl ThreadId {
    pub(super) fn from_number(number: NonZeroU64) -> Self {
        Self(number)
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThreadId").field(&self.0).finish()
    }
}

/// The running thread.
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
/// The permit is posted by [`Thread::unpark`]. `park` may also return without one, so it belongs into a loop that checks what is
/// waited for.
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
    permit::park(|| None, WaitReason::Park);
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
    permit::park(|| time::after(timeout), WaitReason::Park);
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
    permit::park(|| Some(deadline), WaitReason::Park);
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
        permit::sleep_until(time::after(duration));
    }
}

/// Like [`sleep`], with the time in milliseconds.
#[deprecated = "as in std: replaced by `sleep`"]
pub fn sleep_ms(ms: u32) {
    sleep(Duration::from_millis(ms.into()));
}

/// Sleeps until `deadline`; returns at once if it has passed.
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
    permit::sleep_until(Some(deadline));
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

/// Runs `f`, which may block in the kernel for long, without holding up other threads: the running thread's slot may be given
/// away meanwhile.
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
/// Whatever `f` blocks; then the running thread, until a slot is free again. Announced, so that other threads run on.
pub fn blocking<T>(f: impl FnOnce() -> T) -> T {
    struct Leave(ThreadRef);
    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.backend().exit_blocking(&self.0);
        }
    }
    let me = current::current();
    me.backend().enter_blocking(&me);
    let _leave = Leave(me);
    f()
}
