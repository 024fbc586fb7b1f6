//! `Runtime`: what a program can ask of a thread runtime of either kind.
//!
//! The trait is for programs that choose by type or by value. It holds no code of either backend. All that it
//! needs of one is the object-safe [`Spawner`], which every thread of a runtime also carries. So
//! `thread::spawn` finds its way without a type parameter.

pub(crate) mod latency;
pub(crate) mod registry;
pub(crate) mod stats;

use std::io;
use std::panic::resume_unwind;

pub use self::latency::LatencyHistogram;
pub use self::stats::{HelperStats, LwpState, LwpStats, RunQueueLength, RuntimeInfo, RuntimeStats};
pub(crate) use crate::park::backend::Spawner;
use crate::thread::builder::{self, Builder};
use crate::thread::current;
use crate::thread::deadlock::Deadlocks;
use crate::thread::handle::JoinHandle;
use crate::thread::info::ThreadInfo;
use crate::thread::seen::{ThreadChanges, ThreadsSeen};
use crate::thread::snapshot::{ThreadCursor, ThreadPage};

/// A thread runtime: [`mxn`](crate::mxn) (green threads) or [`OneToOne`](crate::OneToOne) (kernel threads).
///
/// Code that is generic over it runs on either. A reference to a runtime is a runtime too. The trait is
/// sealed: a runtime must keep promises to the locks and to the threads that a signature cannot state.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime};
///
/// fn serve<R: Runtime>(rt: &R) -> u32 {
///     rt.spawn(|| 42).join().unwrap()
/// }
///
/// assert_eq!(serve(&OneToOne::new()?), 42);
/// # std::io::Result::Ok(())
/// ```
pub trait Runtime: sealed::Sealed + Send + Sync {
    /// The model's name, as `SELVEDGE_RUNTIME` spells it.
    const NAME: &'static str;

    /// Returns what this runtime is, and how large it is. In a fork of the process that built it, counts what
    /// exists there.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime};
    ///
    /// assert_eq!(OneToOne::new()?.info().model, "onetoone");
    /// # std::io::Result::Ok(())
    /// ```
    fn info(&self) -> RuntimeInfo;

    /// Returns what each kernel thread of this runtime does, and what has been done to them so far. None is
    /// hidden.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Mxn, Runtime};
    ///
    /// let rt = Mxn::builder().concurrency(2).build()?;
    /// rt.run(|| ());
    /// let stats = rt.stats();
    /// println!("{stats}");
    /// assert!(stats.lwps.len() >= 2);
    /// # std::io::Result::Ok(())
    /// ```
    fn stats(&self) -> RuntimeStats;

    /// Returns all living threads of this runtime, the calling one included, in the order of their
    /// identities. Says what each of them does, where it is, and what it waits for.
    ///
    /// The threads are looked at one after the other while they run, so the list is not of one moment. The
    /// owners and the names of locks are looked up after that. [Pages](Self::threads_page) need less memory.
    ///
    /// In a fork of the process that built the runtime, the list is empty, or has the thread that forked.
    ///
    /// The threads pay nothing for it. The caller pays 100 to 300 ns for each thread of the runtime. It also
    /// pays 20 ns for each thread of the most that the process has had at one time. For each thread that has
    /// a kernel thread and does not wait, it reads a file of `/proc`, which takes some microseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, ThreadState, WaitReason};
    /// use selvedge::{Mxn, Runtime};
    ///
    /// let rt = Mxn::new()?;
    /// let parked = rt.spawn_with(thread::Builder::new().name("idler".into()), thread::park)?;
    /// let is_parked = |state| matches!(state, ThreadState::Waiting { reason: WaitReason::Park, .. });
    /// while !rt.threads().iter().any(|thread| is_parked(thread.state())) {
    ///     thread::yield_now();
    /// }
    /// for thread in rt.threads() {
    ///     println!("{thread}");
    ///     assert_eq!(thread.name(), Some("idler"));
    /// }
    /// parked.thread().unpark();
    /// parked.join().unwrap();
    /// assert!(rt.threads().is_empty());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// Nothing. The calling thread reads files of `/proc`.
    fn threads(&self) -> Vec<ThreadInfo>;

    /// Returns at most `max` threads of this runtime, and where the next page begins. A `max` of 0 counts as
    /// 1.
    ///
    /// This is [`threads`](Self::threads) for runtimes with many threads: memory is needed for one page only.
    /// Threads may begin and end between two pages. A walk from [`ThreadCursor::start`] to the end lists each
    /// thread at most once. It lists each thread that lives all the time.
    ///
    /// A page has a fixed cost of some microseconds. If a thread of the page joins a thread of another page,
    /// the call looks at all threads of the process. So pages of some thousand threads are best.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, ThreadCursor};
    /// use selvedge::{Mxn, Runtime};
    ///
    /// let rt = Mxn::new()?;
    /// let parked: Vec<_> = (0..100).map(|_| rt.spawn(thread::park)).collect();
    /// let (mut next, mut count) = (Some(ThreadCursor::start()), 0);
    /// while let Some(from) = next {
    ///     let page = rt.threads_page(from, 30);
    ///     count += page.threads().len();
    ///     next = page.next();
    /// }
    /// assert_eq!(count, 100);
    /// # parked.iter().for_each(|parked| parked.thread().unpark());
    /// # parked.into_iter().for_each(|parked| parked.join().unwrap());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// As [`threads`](Self::threads).
    fn threads_page(&self, from: ThreadCursor, max: usize) -> ThreadPage;

    /// Returns at most `max` threads of this runtime that have changed since the caller listed them last, and
    /// those that have ended. `seen` has what the caller has listed so far. A `max` of 0 counts as 1.
    ///
    /// The first walk lists all threads. Each later walk leaves out threads that still wait: the same wait,
    /// for a lock of the same owner and [name](crate::sync::stats::name()), and with the same priority.
    /// Nothing but their [times](ThreadInfo::times) is different.
    ///
    /// This is for monitors of many threads. A thread that still waits costs 20 to 100 ns, and no memory is
    /// needed for it but `seen`'s.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::thread::{self, ThreadsSeen};
    /// use selvedge::{Mxn, Runtime};
    ///
    /// let rt = Mxn::new()?;
    /// let mut parked: Vec<_> = (0..100).map(|_| rt.spawn(thread::park)).collect();
    /// let mut seen = ThreadsSeen::new();
    /// while rt.threads_changed(&mut seen, 1000).threads().len() > 0 {
    ///     thread::yield_now(); // They are on their way to their waits.
    /// }
    /// let one = parked.remove(7);
    /// let id = one.thread().id();
    /// one.thread().unpark();
    /// one.join().unwrap();
    /// let changes = rt.threads_changed(&mut seen, 1000);
    /// assert_eq!(changes.ended(), [id]);
    /// assert!(changes.threads().is_empty() && changes.is_last());
    /// # parked.iter().for_each(|parked| parked.thread().unpark());
    /// # parked.into_iter().for_each(|parked| parked.join().unwrap());
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// As [`threads`](Self::threads).
    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges;

    /// Returns what the threads of this runtime wait for, all but the calling one, and which of them wait
    /// forever. Those wait for each other, for themselves, or for another thread to come although none is
    /// left.
    ///
    /// A thread is reported to wait forever only if that is certain, so this does not find all deadlocks. It
    /// does not find those of threads that sleep in locks of other libraries or in the kernel. Nor does it
    /// find those of locks without a known owner. Owners are recorded only [on
    /// demand](crate::thread::record_owners). Without that, it is known which thread a join waits for, and
    /// whether any thread is left that can run.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::sync::Mutex;
    /// use selvedge::thread;
    /// use selvedge::{OneToOne, Runtime};
    /// use std::time::Duration;
    ///
    /// thread::record_owners();
    /// let rt = OneToOne::new()?;
    /// static MUTEX: Mutex<()> = Mutex::new(());
    /// let relocks = rt.spawn(|| {
    ///     std::mem::forget(MUTEX.lock());
    ///     drop(MUTEX.lock());
    /// });
    /// while rt.deadlocks().cycles().is_empty() {
    ///     thread::sleep(Duration::from_millis(1));
    /// }
    /// println!("{}", rt.deadlocks());
    /// // SAFETY: its owner has forgotten the guard.
    /// unsafe { MUTEX.force_unlock() };
    /// relocks.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// Nothing. It looks at all threads of the process, twice.
    fn deadlocks(&self) -> Deadlocks;

    /// Starts a thread of this runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime};
    ///
    /// assert_eq!(OneToOne::new()?.spawn(|| 7).join().unwrap(), 7);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the thread cannot be started. [`spawn_with`](Self::spawn_with) returns an error instead.
    ///
    /// # Blocks
    ///
    /// Nothing but the system calls that make a stack or a kernel thread.
    fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        builder::spawn_on(self, f)
    }

    /// Starts a thread of this runtime with the settings of `builder`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime, thread};
    ///
    /// let rt = OneToOne::new()?;
    /// let named = rt.spawn_with(thread::Builder::new().name("n".into()), || ())?;
    /// assert_eq!(named.thread().name(), Some("n"));
    /// # named.join().unwrap();
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    ///
    /// # Blocks
    ///
    /// As [`spawn`](Self::spawn).
    fn spawn_with<F, T>(&self, builder: Builder, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        builder.spawn_on(self, f)
    }

    /// Runs `f` as a thread of this runtime, waits for it, and returns what it returns. In it,
    /// `thread::spawn` and all other calls of [`thread`](crate::thread) use this runtime. `f` may borrow.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime, thread};
    ///
    /// let rt = OneToOne::new()?;
    /// let n = rt.run(|| thread::spawn(|| 7).join().unwrap());
    /// assert_eq!(n, 7);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Panics
    ///
    /// With the panic of `f`, or if the thread cannot be started.
    ///
    /// # Blocks
    ///
    /// The calling thread, until `f` and its thread's thread-local destructors are done. Threads that `f`
    /// left behind run on.
    fn run<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let outcome = builder::run_on(self.spawner().0, None, f).expect("failed to spawn thread");
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs `f`, which may block in the kernel for long, without holding up other threads; see
    /// [`thread::blocking`](crate::thread::blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime};
    ///
    /// let rt = OneToOne::new()?;
    /// rt.run(|| rt.blocking(|| std::thread::sleep(std::time::Duration::from_millis(1))));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Blocks
    ///
    /// Whatever `f` blocks. That is announced, so other threads run on.
    fn blocking<F, T>(&self, f: F) -> T
    where
        F: FnOnce() -> T,
    {
        current::blocking(f)
    }
}

impl<R: Runtime + ?Sized> Runtime for &R {
    const NAME: &'static str = R::NAME;

    fn info(&self) -> RuntimeInfo {
        (**self).info()
    }

    fn stats(&self) -> RuntimeStats {
        (**self).stats()
    }

    fn threads(&self) -> Vec<ThreadInfo> {
        (**self).threads()
    }

    fn threads_page(&self, from: ThreadCursor, max: usize) -> ThreadPage {
        (**self).threads_page(from, max)
    }

    fn threads_changed(&self, seen: &mut ThreadsSeen, max: usize) -> ThreadChanges {
        (**self).threads_changed(seen, max)
    }

    fn deadlocks(&self) -> Deadlocks {
        (**self).deadlocks()
    }
}

impl<R: sealed::Sealed + ?Sized> sealed::Sealed for &R {
    fn spawner(&self) -> sealed::SpawnerRef<'_> {
        (**self).spawner()
    }
}

pub(crate) mod sealed {
    use std::fmt;

    use super::Spawner;

    /// Keeps `Runtime` to the two backends of this crate.
    pub trait Sealed {
        /// Returns what spawns new threads.
        fn spawner(&self) -> SpawnerRef<'_>;
    }

    /// A [`Spawner`] that the signature of a public trait may name.
    #[derive(Clone, Copy)]
    pub struct SpawnerRef<'a>(pub(crate) &'a dyn Spawner);

    impl fmt::Debug for SpawnerRef<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("SpawnerRef")
        }
    }
}
