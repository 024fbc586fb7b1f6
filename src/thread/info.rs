//! What is said of one thread that was looked at from outside: its state, its place and its wait,
//! its times and its stack.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::deadlock::{Named, write_object};
use super::id::ThreadId;
use crate::backtrace::Backtrace;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::recorder::account::{STATES, State, Statement};
use crate::recorder::clock::{self, Scale};
use crate::recorder::session;

/// What a thread was doing at the moment of a look.
///
/// # Examples
///
/// ```
/// use selvedge::thread::{self, ThreadState, WaitReason};
/// use selvedge::{OneToOne, Runtime};
/// use std::time::Duration;
///
/// let rt = OneToOne::new()?;
/// let parked = rt.spawn(thread::park);
/// let unstopped = rt.shutdown(Duration::from_millis(20)).unwrap_err();
/// let state = unstopped.threads()[0].state();
/// assert!(matches!(state, ThreadState::Waiting { reason: WaitReason::Park, .. }));
/// # parked.thread().unpark();
/// # parked.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadState {
    /// It had a kernel thread and used it: it computed, or was ready to.
    Running {
        /// The kernel's number of its kernel thread at that moment.
        tid: Option<u32>,
    },
    /// It was ready to run, and an LWP was chosen for it: it was the next of that LWP, or may run on no other
    /// (`mxn` only).
    Dispatchable {
        /// The number of that LWP in its runtime, as in [`LwpStats`](crate::LwpStats::number).
        lwp: usize,
    },
    /// It was ready to run, and waited in a run queue for its turn. No LWP was chosen for it.
    Runnable,
    /// It waited, as threads of this crate wait. A green thread waits without a kernel thread. A thread that
    /// owns a kernel thread counts as waiting until it runs again.
    Waiting {
        /// What it waited for.
        reason: WaitReason,
        /// The address of that, if it has one: the address of the lock, the condition variable, the barrier.
        at: Option<usize>,
        /// In a join, the thread that was awaited, if it was one of the same runtime.
        thread: Option<ThreadId>,
    },
    /// Its kernel thread slept in the kernel: in a system call, a lock of another library, or a page fault.
    InKernel {
        /// The kernel's number of its kernel thread at that moment.
        tid: u32,
    },
}

impl ThreadState {
    /// Returns the state of a thread that has this kernel thread and does not wait. `is_asleep` asks the
    /// kernel about it.
    pub(crate) fn on_kernel_thread(tid: Option<u32>, is_asleep: impl Fn(u32) -> bool) -> Self {
        match tid {
            Some(tid) if is_asleep(tid) => Self::InKernel { tid },
            tid => Self::Running { tid },
        }
    }
}

impl fmt::Display for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { tid: Some(tid) } => write!(f, "running on kernel thread {tid}"),
            Self::Running { tid: None } => f.write_str("running"),
            Self::Dispatchable { lwp } => write!(f, "dispatchable, next on LWP {lwp}"),
            Self::Runnable => f.write_str("runnable"),
            Self::InKernel { tid } => write!(f, "in the kernel, on kernel thread {tid}"),
            Self::Waiting { reason, at, thread } => {
                write!(f, "waiting for {reason}")?;
                if let Some(at) = at {
                    write!(f, " at {at:#x}")?;
                }
                thread.map_or(Ok(()), |thread| write!(f, " of {thread:?}"))
            }
        }
    }
}

/// What could be seen of a thread from outside. The thread may have gone on since.
///
/// When displayed, it is a line for people.
///
/// # Examples
///
/// ```
/// use selvedge::sync::{Mutex, stats};
/// use selvedge::thread::{self, ThreadState};
/// use selvedge::{Mxn, Runtime};
/// use std::sync::Arc;
///
/// thread::record_owners();
/// let rt = Mxn::new()?;
/// let accounts = Arc::new(Mutex::new(0));
/// stats::name(&*accounts, "accounts");
/// let held = accounts.lock();
/// let theirs = Arc::clone(&accounts);
/// let waiter = rt.spawn(move || *theirs.lock() += 1);
/// let seen = loop {
///     let seen = rt.threads().remove(0);
///     if matches!(seen.state(), ThreadState::Waiting { .. }) {
///         break seen;
///     }
/// };
/// assert_eq!(seen.object_name(), Some("accounts"));
/// assert_eq!(seen.owner().map(|(id, _)| id), Some(thread::current().id()));
/// println!("{seen}");
/// # drop(held);
/// # waiter.join().unwrap();
/// # stats::unname(&*accounts);
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct ThreadInfo {
    pub(super) id: ThreadId,
    pub(super) name: Option<String>,
    pub(super) state: ThreadState,
    pub(super) lwp: Option<usize>,
    pub(super) cpu: Option<u32>,
    pub(super) owns: Option<u32>,
    pub(super) bound: bool,
    pub(super) priority: Priority,
    pub(super) called: Option<String>,
    pub(super) owner: Option<(ThreadId, Option<String>)>,
    pub(super) times: Option<ThreadTimes>,
    pub(super) maker: Option<ThreadId>,
    pub(super) stack: Option<StackLook>,
    pub(super) backtrace: Option<Backtrace>,
}

impl ThreadInfo {
    crate::shown::getters! {
        /// Returns its identity, as [`Thread::id`](super::Thread::id) does.
        fn id(&self) -> ThreadId = self.id;
        /// Returns its name, if it was given one.
        fn name(&self) -> Option<&str> = self.name.as_deref();
        /// Returns what it was doing.
        fn state(&self) -> ThreadState = self.state;
        /// Returns the number of the LWP that it was on, or was on last, as in
        /// [`LwpStats`](crate::LwpStats::number). `None` if it has not run yet, or owns a kernel thread.
        fn lwp(&self) -> Option<usize> = self.lwp;
        /// Returns the CPU that its kernel thread ran on last. `None` if it waited, was ready to run without
        /// a kernel thread, or the system does not say.
        fn cpu(&self) -> Option<u32> = self.cpu;
        /// Returns `true` if it owns a kernel thread: a [bound](super::Builder::bound) one, or any of
        /// `onetoone`.
        fn is_bound(&self) -> bool = self.bound;
        /// Returns the kernel's number of the kernel thread that it owns, also while it waits. `None` if it
        /// owns none, if it has not begun, or if the system has no such numbers.
        fn kernel_thread(&self) -> Option<u32> = self.owns;
        /// Returns its priority.
        fn priority(&self) -> Priority = self.priority;
        /// Returns the identity and the name of the thread that held the lock which this one waited for.
        /// `None` if it waited for no lock, or if the owner is not [recorded](super::record_owners). If
        /// several threads shared the lock, it is one of them.
        fn owner(&self) -> Option<(ThreadId, Option<&str>)> =
            self.owner.as_ref().map(|(id, name)| (*id, name.as_deref()));
        /// Returns how long it has been in each state. `None` unless [times are
        /// counted](crate::trace::Level), or if the kernel has taken the CPU from its LWP in the middle of a
        /// change of state.
        fn times(&self) -> Option<&ThreadTimes> = self.times.as_ref();
        /// Returns the identity of the thread that started it, which may have ended. `None` unless [times are
        /// counted](crate::trace::Level), and were when it was started. Also `None` if a kernel thread
        /// started it that had never used this crate.
        fn maker(&self) -> Option<ThreadId> = self.maker;
        /// Returns how much of its stack has been used until now. `None` if it owns a kernel thread, has
        /// ended meanwhile, or has not got a stack yet.
        ///
        /// This asks the kernel each time. Nothing counts while the thread runs.
        fn stack(&self) -> Option<StackUse> = self.stack?.take(self.id);
    }

    /// Returns where it stands, if the look was to find that.
    pub(crate) fn take_backtrace(&mut self) -> Option<Backtrace> {
        self.backtrace.take()
    }

    /// Returns the [name](crate::sync::stats::name) that the program gave to what it waited for.
    #[must_use]
    pub fn object_name(&self) -> Option<&str> {
        self.called.as_deref()
    }
}

impl fmt::Display for ThreadInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Named(self.id, self.name()), self.state)?;
        match self.state {
            ThreadState::Waiting { reason, .. } => write_object(f, reason, self.object_name(), self.owner())?,
            ThreadState::Running { .. } | ThreadState::InKernel { .. } => {
                self.lwp.map_or(Ok(()), |lwp| write!(f, ", LWP {lwp}"))?;
                self.cpu.map_or(Ok(()), |cpu| write!(f, ", CPU {cpu}"))?;
            }
            ThreadState::Dispatchable { .. } | ThreadState::Runnable => {}
        }
        if self.priority == Priority::Normal { Ok(()) } else { write!(f, ", {} priority", self.priority) }
    }
}

/// How long a thread has been in each state, while [times are counted](crate::trace::Level::Times).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadTimes {
    /// How much of its life is accounted for: since it began, or since the counting did. It is the sum of
    /// `states`, but for rounding.
    pub life: Duration,
    /// By state, in the order of [`trace::State::ALL`](crate::trace::State::ALL).
    pub states: [Duration; 6],
    /// How long it has been in its present state.
    pub since: Duration,
    /// How often it began to run.
    pub dispatches: u64,
    /// How often its slice was over.
    pub preempted: u32,
    /// How often it began to run on another LWP than before.
    pub migrations: u64,
    /// The CPU where it last began to run; `None` if it has not yet, or if the system does not say. The
    /// kernel may have moved its kernel thread since.
    pub cpu: Option<u32>,
}

/// Converts what accounts say, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimesNow {
    scale: Scale,
    /// How long the session has lasted, in counts.
    session: u64,
}

impl TimesNow {
    /// Returns `None` if no times were ever counted.
    pub(crate) fn take() -> Option<Self> {
        let session = clock::now().saturating_sub(session::current().began);
        Some(Self { scale: Scale::at_once()?, session })
    }

    fn span(&self, counts: u64) -> Duration {
        Duration::from_nanos(self.scale.span(counts))
    }

    /// Returns the times of a thread with this account.
    pub(crate) fn times(&self, statement: &Statement) -> ThreadTimes {
        let Statement { life, since, times, dispatches, preempted, migrations, cpu, .. } = *statement;
        ThreadTimes {
            life: self.span(life),
            states: times.map(|counts| self.span(counts)),
            since: self.span(since),
            dispatches,
            preempted,
            migrations,
            cpu,
        }
    }

    /// Returns the times of a thread that has been in one state since the counting began.
    pub(crate) fn unchanged(&self, state: ThreadState) -> ThreadTimes {
        let state = match state {
            ThreadState::Running { .. } => State::Running,
            ThreadState::InKernel { .. } => State::InKernel,
            ThreadState::Dispatchable { .. } => State::Dispatchable,
            ThreadState::Runnable => State::Queued,
            ThreadState::Waiting { reason: WaitReason::Sleep, .. } => State::Sleeping,
            ThreadState::Waiting { .. } => State::Blocked,
        };
        let mut times = [0; STATES];
        times[state as usize] = self.session;
        let (life, since) = (self.session, self.session);
        self.times(&Statement {
            life,
            state,
            since,
            times,
            dispatches: 0,
            preempted: 0,
            migrations: 0,
            maker: 0,
            cpu: None,
        })
    }
}

/// The stack of a green thread, and how much of it has been used.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// let deep = rt.spawn(|| {
///     std::hint::black_box([1_u8; 100_000]);
///     thread::park();
/// });
/// # let parked = || matches!(rt.threads()[0].state(), thread::ThreadState::Waiting { .. });
/// # while !parked() { thread::yield_now() }
/// let stack = rt.threads()[0].stack().expect("it lives");
/// assert!(stack.high_water() > 100_000 && stack.high_water() <= stack.size());
/// println!("{stack}");
/// # deep.thread().unpark();
/// # deep.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackUse {
    size: usize,
    high_water: usize,
}

impl StackUse {
    pub(crate) fn new(size: usize, high_water: usize) -> Self {
        Self { size, high_water }
    }

    crate::shown::getters! {
        /// Returns how many bytes the thread may use.
        fn size(&self) -> usize = self.size;
        /// Returns how many bytes have been used at most, to the page.
        ///
        /// Stacks are used again with their memory. So this may be the mark of a thread that had the stack
        /// before. Pages that the system has swapped out do not count, unless there is a page below them that
        /// does.
        fn high_water(&self) -> usize = self.high_water;
    }
}

impl fmt::Display for StackUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} KiB", self.high_water.div_ceil(1 << 10), self.size >> 10)
    }
}

/// A thread that had a stack of its runtime's when it was looked at.
#[derive(Clone, Copy)]
pub(crate) struct StackLook {
    thread: ThreadRef,
    look: fn(ThreadRef) -> Option<StackUse>,
}

// A look changes nothing.
impl UnwindSafe for StackLook {}
impl RefUnwindSafe for StackLook {}

impl StackLook {
    /// `look` asks the kernel about the stack that the thread has now. It may have ended, and another thread
    /// may have its core.
    pub(crate) fn new(thread: ThreadRef, look: fn(ThreadRef) -> Option<StackUse>) -> Self {
        Self { thread, look }
    }

    /// Looks now. Returns `None` unless the thread of this identity has lived all the while.
    pub(super) fn take(self, id: ThreadId) -> Option<StackUse> {
        let lives = || self.thread.lives_as(id.as_u64());
        let used = lives().then(|| (self.look)(self.thread)).flatten();
        used.filter(|_| lives())
    }
}

crate::shown::debug! { [] StackLook: "StackLook" }

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn id(number: u64) -> ThreadId {
        ThreadId::from_number(NonZeroU64::new(number).unwrap())
    }

    #[test]
    fn a_line_says_what_is_known() {
        let state = ThreadState::Waiting { reason: WaitReason::Mutex, at: Some(0x1000), thread: None };
        let mut info = ThreadInfo {
            id: id(7),
            name: Some("clerk".into()),
            state,
            lwp: Some(1),
            cpu: None,
            owns: None,
            bound: false,
            priority: Priority::Normal,
            called: Some("accounts".into()),
            owner: Some((id(3), Some("worker-3".into()))),
            times: None,
            maker: None,
            stack: None,
            backtrace: None,
        };
        let (waits, held) = ("waiting for a mutex at 0x1000", "held by ThreadId(3) \"worker-3\"");
        assert_eq!(info.to_string(), format!("ThreadId(7) \"clerk\": {waits} \"accounts\", {held}"));
        (info.called, info.owner, info.name) = (None, None, None);
        assert_eq!(info.to_string(), "ThreadId(7): waiting for a mutex at 0x1000");
        (info.state, info.cpu, info.priority) =
            (ThreadState::Running { tid: Some(12) }, Some(0), Priority::High);
        assert_eq!(info.to_string(), "ThreadId(7): running on kernel thread 12, LWP 1, CPU 0, high priority");
        let state = |state: ThreadState| state.to_string();
        assert_eq!(state(ThreadState::Dispatchable { lwp: 3 }), "dispatchable, next on LWP 3");
        assert_eq!(state(ThreadState::Runnable), "runnable");
        assert_eq!(state(ThreadState::InKernel { tid: 4 }), "in the kernel, on kernel thread 4");
        let (reason, thread) = (WaitReason::Join, Some(id(2)));
        assert_eq!(
            state(ThreadState::Waiting { reason, at: None, thread }),
            "waiting for the end of a thread (join) of ThreadId(2)"
        );
    }
}
