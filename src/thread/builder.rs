//! `Builder`: the options of a new thread. `spawn`: where it starts.
//!
//! A thread starts on the runtime of the thread that spawns it. If that thread belongs to no runtime, it
//! starts on the process default.

use std::io;
use std::time::Duration;

use super::handle::{JoinHandle, Joining};
use super::scope::{Scope, ScopedJoinHandle};
use super::task::{self, spawn_unchecked};
use crate::park::backend::{Cpus, SpawnOptions, Spawner};
use crate::park::current::try_current;
use crate::park::priority::Priority;
use crate::process_default;
use crate::runtime::Runtime;
use crate::settings::{check_stack_size, check_time_slice, invalid, nanoseconds};

/// Sets up a new thread: its name, its stack, its kind, its priority, its processors.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let worker = thread::Builder::new().name("worker".into()).stack_size(64 << 10).spawn(|| {
///     assert_eq!(thread::current().name(), Some("worker"));
/// })?;
/// worker.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    /// The options as they were given; `spawn` reports errors. They have the type that a backend takes, so
    /// that they need not be moved.
    options: SpawnOptions,
}

impl Builder {
    /// Creates options for a thread without a name, with the runtime's default stack, not bound.
    ///
    /// # Examples
    ///
    /// ```
    /// let handle = selvedge::thread::Builder::new().spawn(|| 1)?;
    /// assert_eq!(handle.join().unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the thread, for [`Thread::name`](super::Thread::name) and dumps, and for panic messages if the
    /// thread owns a kernel thread. If the name has a zero byte, `spawn` fails.
    ///
    /// # Examples
    ///
    /// ```
    /// let handle = selvedge::thread::Builder::new().name("reader".into()).spawn(|| ())?;
    /// assert_eq!(handle.thread().name(), Some("reader"));
    /// # handle.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn name(mut self, name: String) -> Self {
        self.options.name = Some(name.into_boxed_str());
        self
    }

    /// Sets the size of the stack, in bytes that the thread can use.
    ///
    /// - The default is the runtime's: 256 KiB for a green thread, 2 MiB for a bound or a 1:1 one.
    /// - Less than 4 KiB is rounded up to that.
    /// - With 0, or more than 1 TiB (64 GiB for a green thread), `spawn` fails.
    ///
    /// # Examples
    ///
    /// ```
    /// let small = selvedge::thread::Builder::new().stack_size(64 << 10).spawn(|| ())?;
    /// # small.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.options.stack_size = Some(bytes);
        self
    }

    /// Says if the thread gets a kernel thread of its own. On the 1:1 runtime every thread has one.
    ///
    /// # Examples
    ///
    /// ```
    /// let bound = selvedge::thread::Builder::new().bound(true).spawn(|| ())?;
    /// # bound.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn bound(mut self, bound: bool) -> Self {
        self.options.bound = bound;
        self
    }

    /// Sets how long the thread runs, on the M:N runtime, before others get their turn: at least 50 us. With
    /// `None`, it runs until it waits or yields. The default is the runtime's. On the 1:1 runtime, and for
    /// bound threads, the kernel decides.
    ///
    /// # Examples
    ///
    /// ```
    /// let cooperative = selvedge::thread::Builder::new().time_slice(None).spawn(|| ())?;
    /// # cooperative.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn time_slice(mut self, slice: Option<Duration>) -> Self {
        self.options.time_slice = Some(nanoseconds(slice));
        self
    }

    /// Sets the priority of the thread: see [`Priority`]. The default is [`Priority::Normal`], whatever the
    /// priority of the calling thread is.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, Priority};
    ///
    /// let urgent = thread::Builder::new().priority(Priority::High).spawn(|| thread::current().priority())?;
    /// assert_eq!(urgent.join().unwrap(), Priority::High);
    /// # std::io::Result::Ok(())
    /// ```
    #[inline]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.options.priority = priority;
        self
    }

    /// Sets the processors that the thread's kernel thread may use, by the system's numbers. Processors that
    /// this process does not have are ignored. This is for threads that own a kernel thread:
    /// [`bound`](Self::bound) ones, and all of the 1:1 runtime.
    ///
    /// `spawn` fails with `InvalidInput` if there are no processors, or none that this process may use. It
    /// also does so if the thread is green, because a green thread runs on any LWP. It fails with
    /// `Unsupported` on systems that bind no thread to processors (all except Linux).
    ///
    /// # Examples
    ///
    /// ```
    /// let pinned = selvedge::thread::Builder::new().bound(true).affinity(0..4096).spawn(|| ())?;
    /// # pinned.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// `spawn` then waits until the kernel has run the new thread's first instructions on one of its
    /// processors. The wait is announced, as by [`blocking`](super::blocking).
    pub fn affinity(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        self.options.cpus = Some(Box::new(Cpus(cpus)));
        self
    }

    /// Starts the thread on the runtime of the calling thread, or on the process default if it belongs to
    /// none.
    ///
    /// # Examples
    ///
    /// ```
    /// let handle = selvedge::thread::Builder::new().spawn(|| 6 * 7)?;
    /// assert_eq!(handle.join().unwrap(), 42);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// A stack size, name or affinity that is not possible, a limit that is reached (threads, memory,
    /// mappings), or a process default that cannot start. The closure is then dropped.
    ///
    /// # Blocks
    ///
    /// Nothing except the system calls that create a stack or a kernel thread.
    #[inline]
    pub fn spawn<F, T>(mut self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.check()?;
        // SAFETY: `F` and `T` are `Send`, and borrow nothing that ends.
        unsafe { spawn_unchecked(here()?, &mut self.options, f, ()) }.map(JoinHandle::new)
    }

    /// Starts the thread as [`spawn`](Self::spawn) does, with a closure and a result that may borrow.
    ///
    /// # Examples
    ///
    /// ```
    /// let words = ["warp", "weft"];
    /// // SAFETY: `words` is alive until the thread has been joined, and joining cannot unwind here.
    /// let handle = unsafe { selvedge::thread::Builder::new().spawn_unchecked(|| words.len())? };
    /// assert_eq!(handle.join().unwrap(), 2);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Safety
    ///
    /// As in std: the thread must end before anything ends that `f` or its result borrows. To wait for that,
    /// join the handle. If the handle is dropped or forgotten instead, `f` and `T` must be `'static`.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Blocks
    ///
    /// As [`spawn`](Self::spawn).
    pub unsafe fn spawn_unchecked<F, T>(mut self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        self.check()?;
        // SAFETY: `F` and `T` are `Send`, and the caller promises the rest.
        unsafe { spawn_unchecked(here()?, &mut self.options, f, ()) }.map(JoinHandle::new)
    }

    /// Starts the thread on the runtime `rt`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, thread};
    ///
    /// let rt = OneToOne::new()?;
    /// let handle = thread::Builder::new().name("there".into()).spawn_on(&rt, || 1)?;
    /// assert_eq!(handle.join().unwrap(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Blocks
    ///
    /// As [`spawn`](Self::spawn).
    #[inline]
    pub fn spawn_on<R, F, T>(mut self, rt: &R, f: F) -> io::Result<JoinHandle<T>>
    where
        R: Runtime + ?Sized,
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.check()?;
        // SAFETY: `F` and `T` are `Send`, and borrow nothing that ends.
        unsafe { spawn_unchecked(rt.spawner().0, &mut self.options, f, ()) }.map(JoinHandle::new)
    }

    /// Starts the thread in a [`scope`](super::scope()), on the runtime of the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread;
    ///
    /// let words = vec!["warp", "weft"];
    /// thread::scope(|s| {
    ///     let builder = thread::Builder::new().name("counter".into());
    ///     let length = builder.spawn_scoped(s, || words.len()).expect("a thread");
    ///     assert_eq!(length.join().unwrap(), 2);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Blocks
    ///
    /// As [`spawn`](Self::spawn).
    #[inline]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        mut self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.check()?;
        scope.spawn_with(here()?, &mut self.options, f)
    }

    /// Checks the options, and returns an error if one is not possible. A stack that is too small is made
    /// larger.
    #[inline]
    fn check(&mut self) -> io::Result<()> {
        match self.options {
            SpawnOptions { name: None, stack_size: None, time_slice: None, cpus: None, .. } => Ok(()),
            _ => check(&mut self.options),
        }
    }
}

fn check(options: &mut SpawnOptions) -> io::Result<()> {
    if let Some(bytes) = &mut options.stack_size {
        *bytes = check_stack_size(*bytes)?;
    }
    if let Some(name) = &options.name
        && let Some(at) = name.bytes().position(|byte| byte == 0)
    {
        return Err(invalid(format!("the thread name {name:?} has a zero byte at offset {at}")));
    }
    if let Some(slice) = options.time_slice {
        check_time_slice(Some(Duration::from_nanos(slice)))?;
    }
    match &options.cpus {
        Some(cpus) if cpus.0.is_empty() => {
            Err(invalid("an affinity with no processor: the thread could never run".into()))
        }
        _ => Ok(()),
    }
}

/// Returns the runtime of the calling thread, or the process default if it has none.
#[inline]
pub(super) fn here() -> io::Result<&'static dyn Spawner> {
    match try_current().and_then(|me| me.spawner()) {
        Some(spawner) => Ok(spawner),
        None => process_default::spawner(),
    }
}

/// Runs `f` as a thread of `spawner` with this name and waits for it, so `f` may borrow.
pub(crate) fn run_on<F, T>(spawner: &dyn Spawner, name: Option<&str>, f: F) -> io::Result<task::Result<T>>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let mut options = SpawnOptions { name: name.map(Box::from), ..SpawnOptions::default() };
    // SAFETY: `F` and `T` are `Send`, and the thread has ended when this function returns. The join cannot
    // unwind, since the new thread is not the caller.
    unsafe { spawn_unchecked(spawner, &mut options, f, ()) }.map(Joining::join)
}

/// Starts a thread on the runtime of the calling thread, or on the process default if it belongs to none.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// let handle = thread::spawn(|| 6 * 7);
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
///
/// # Panics
///
/// If the thread cannot be started. [`Builder::spawn`] returns an error instead.
///
/// # Blocks
///
/// As [`Builder::spawn`].
#[inline]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: `F` and `T` are `Send`, and borrow nothing that ends.
    let spawned =
        here().and_then(|spawner| unsafe { spawn_unchecked(spawner, &mut SpawnOptions::default(), f, ()) });
    spawned.map(JoinHandle::new).expect("failed to spawn thread")
}

/// Starts a thread on the runtime `rt`.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, thread};
///
/// let rt = OneToOne::new()?;
/// assert_eq!(thread::spawn_on(&rt, || 7).join().unwrap(), 7);
/// # std::io::Result::Ok(())
/// ```
///
/// # Panics
///
/// If the thread cannot be started. [`Builder::spawn_on`] returns an error instead.
///
/// # Blocks
///
/// As [`Builder::spawn`].
#[inline]
pub fn spawn_on<R, F, T>(rt: &R, f: F) -> JoinHandle<T>
where
    R: Runtime + ?Sized,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: `F` and `T` are `Send`, and borrow nothing that ends.
    let spawned = unsafe { spawn_unchecked(rt.spawner().0, &mut SpawnOptions::default(), f, ()) };
    spawned.map(JoinHandle::new).expect("failed to spawn thread")
}
