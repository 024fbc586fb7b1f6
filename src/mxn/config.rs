//! The settings of an M:N runtime: what a program sets, what the environment overrides, and which values are
//! valid.

use std::io;
use std::time::Duration;

use crate::fiber::{ThreadRegister, stack};
use crate::park::owner;
use crate::settings::cpu_list::CpuList;
use crate::settings::{self, Lookup, invalid};
use crate::sys;
use crate::sys::affinity;
use crate::thread::deadlock::watch::{self, OnDeadlock};

/// The most LWPs, unless set: enough for many calls that block in the kernel at once, few enough for default
/// thread limits.
const DEFAULT_MAX_LWPS: usize = 1_024;

/// The most LWPs that an owner's word can name (`ThreadCore::owner_hint` has 16 bits, and other values in
/// them).
const MOST_LWPS: usize = owner::MAX_LWPS - 1;

/// The usable stack of a green thread, unless set. What it does not touch costs no memory.
const DEFAULT_STACK_SIZE: usize = 256 << 10;

/// The stack of a bound thread, unless its builder says otherwise. Std's default too.
const BOUND_STACK_SIZE: usize = 2 << 20;

/// How long a thread runs before others get their turn, unless set. Go and other runtimes use the same.
const DEFAULT_TIME_SLICE: Duration = Duration::from_millis(10);

/// How long an LWP without work keeps its kernel thread, unless set. A program that once blocked a thousand
/// threads may do so again. Solaris waited for five minutes.
const DEFAULT_LWP_AGE: Duration = Duration::from_secs(5);

/// Settings of an M:N runtime.
///
/// Each has a default, which an environment variable overrides. What is set here is not overridden.
///
/// | setting | default | variable |
/// |---|---|---|
/// | [`concurrency`](Self::concurrency) | available CPUs | `SELVEDGE_CONCURRENCY=4` |
/// | [`cpus`](Self::cpus) | those of the caller | `SELVEDGE_CPUS=0-3,8` |
/// | [`max_lwps`](Self::max_lwps) | 1,024 | `SELVEDGE_MAX_LWPS=256` |
/// | [`stack_size`](Self::stack_size) | 256 KiB | `SELVEDGE_STACK_SIZE=64K` |
/// | [`time_slice`](Self::time_slice) | 10 ms | `SELVEDGE_TIME_SLICE=500us`, `off` |
/// | [`preemption_signal`](Self::preemption_signal) | SIGURG | |
/// | [`lwp_age`](Self::lwp_age) | 5 s | |
/// | [`on_deadlock`](Self::on_deadlock) | nothing | `SELVEDGE_DEADLOCK=off`, `report`, `abort` |
/// | [`thread_register`](Self::thread_register) | `auto` | `SELVEDGE_THREAD_REGISTER=switched`, `syscall` |
/// | [`green_std_threads`](Self::green_std_threads) | kernel threads | `SELVEDGE_STD_THREADS=green` |
///
/// # Examples
///
/// ```
/// use selvedge::mxn;
/// use std::time::Duration;
///
/// let builder = mxn::Builder::default().concurrency(2).time_slice(Some(Duration::from_millis(5)));
/// # drop(builder);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    concurrency: Option<usize>,
    cpus: Option<Vec<usize>>,
    max_lwps: Option<usize>,
    stack_size: Option<usize>,
    time_slice: Option<Option<Duration>>,
    preemption_signal: Option<Option<i32>>,
    register: Option<ThreadRegister>,
    may_pin: bool,
    lwp_age: Option<Option<Duration>>,
    on_deadlock: Option<OnDeadlock>,
    green_std_threads: Option<bool>,
    migrate_always: bool,
}

/// Valid settings, each with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) concurrency: usize,
    /// It was not set: it is as many as there are CPUs, and follows their number.
    pub(crate) follows_cpus: bool,
    /// The CPUs to run on, in ascending order; `None`: those of the thread that builds the runtime.
    pub(crate) cpus: Option<Box<[usize]>>,
    pub(crate) max_lwps: usize,
    /// Usable bytes of a green thread's stack.
    pub(crate) stack_size: usize,
    pub(crate) bound_stack_size: usize,
    /// `None`: cooperative.
    pub(crate) time_slice: Option<Duration>,
    /// `None`: no thread is interrupted by signals.
    pub(crate) preemption_signal: Option<i32>,
    pub(crate) register: Option<ThreadRegister>,
    /// `None`: forever.
    pub(crate) lwp_age: Option<Duration>,
    pub(crate) on_deadlock: OnDeadlock,
    /// Contention at locks is counted.
    pub(crate) lock_stats: bool,
    /// Whether the threads that its threads start by std or the C library are its own. `None`: it was not
    /// set.
    pub(crate) green_std_threads: Option<bool>,
    pub(crate) migrate_always: bool,
}

impl Builder {
    /// Sets how many green threads run at once.
    ///
    /// The default is as many as there are CPUs: those of [`cpus`](Self::cpus) or of the affinity mask. The
    /// quota of the control group, rounded up, is an upper limit. While the runtime is in use, it looks each
    /// second whether they have become more or fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = selvedge::mxn::Builder::default().concurrency(4);
    /// # drop(builder);
    /// ```
    pub fn concurrency(mut self, slots: usize) -> Self {
        self.concurrency = Some(slots);
        self
    }

    /// Sets the CPUs that the runtime runs on, by the system's numbers. So two runtimes of a process can have
    /// CPUs of their own. The default is the affinity of the thread that builds the runtime.
    ///
    /// Each LWP may run on all of these CPUs, and so may the runtime's other kernel threads. What its threads
    /// start runs there, too:
    ///
    /// - A [bound](crate::thread::Builder::bound) thread, unless it has an
    ///   [affinity](crate::thread::Builder::affinity) of its own.
    /// - Kernel threads that green threads start by [`std::thread`] or by the C library, and child processes:
    ///   the kernel lets them inherit these CPUs.
    ///
    /// The CPUs that the process may use can change later (`taskset --all-tasks`, the control group's
    /// `cpuset`). While the runtime is in use, it looks for that each second, and follows:
    ///
    /// - If the kernel threads may use fewer of the set, they run on those that are left. The default
    ///   [`concurrency`](Self::concurrency) is their number.
    /// - If they may use other CPUs besides, the runtime takes them back to the set. It does not take bound
    ///   threads back.
    /// - If they may use none of the set, they run where they were sent, until they may use some of it again.
    ///
    /// [`build`](Self::build) returns an error if the set is empty, or if the process may not use one of the
    /// CPUs. A process may use the CPUs of its first thread and of the thread that builds the runtime. On
    /// systems other than Linux, the error is `Unsupported`.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{Mxn, Runtime};
    ///
    /// let Ok(rt) = Mxn::builder().cpus([0]).build() else {
    ///     return; // This process may not use CPU 0.
    /// };
    /// assert_eq!(rt.info().cpus(), Some(&[0][..]));
    /// ```
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        self.cpus = Some(cpus);
        self
    }

    /// Sets how many kernel threads the runtime may have: those that run green threads, and those that sleep
    /// in the kernel for one. At least `concurrency`, at most 2,047.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = selvedge::mxn::Builder::default().max_lwps(64);
    /// # drop(builder);
    /// ```
    pub fn max_lwps(mut self, lwps: usize) -> Self {
        self.max_lwps = Some(lwps);
        self
    }

    /// Sets the stack, in usable bytes, of green threads that do not get one from their own builder.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = selvedge::mxn::Builder::default().stack_size(64 << 10);
    /// # drop(builder);
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets how long a green thread runs before others get their turn; at least 50 us. `None`: until it waits
    /// or yields.
    ///
    /// # Examples
    ///
    /// ```
    /// let cooperative = selvedge::mxn::Builder::default().time_slice(None);
    /// # drop(cooperative);
    /// ```
    pub fn time_slice(mut self, slice: Option<Duration>) -> Self {
        self.time_slice = Some(slice);
        self
    }

    /// Sets the signal that ends a thread's time slice. The default is SIGURG, which programs ignore as a
    /// rule, and which Go uses for the same.
    ///
    /// If the program has a handler for it before the runtime starts, that goes on getting the signals that
    /// are not ours. With `None`, no thread is ever interrupted. If a thread computes for too long, its LWP
    /// goes on as a kernel thread of its own, and another one takes its place.
    ///
    /// [`build`](Self::build) returns an error, which says what is allowed, if the signal does not exist. It
    /// also does so if the signal has a meaning of its own (faults, job control, SIGKILL, SIGCHLD and the
    /// like). That is so even if no signal would be used, without time slices or [pinned](Self::pinned).
    /// All runtimes of a process that use a signal use the same one: another is an error, too.
    ///
    /// # Examples
    ///
    /// ```
    /// let without = selvedge::mxn::Builder::default().preemption_signal(None);
    /// # drop(without);
    /// ```
    pub fn preemption_signal(mut self, signal: Option<i32>) -> Self {
        self.preemption_signal = Some(signal);
        self
    }

    /// Sets how green threads keep their thread register. Default: the best that the machine has.
    ///
    /// [`build`](Self::build) returns an error if the processor or the kernel does not allow it. It also does
    /// so for [`ThreadRegister::Pinned`], which only the unsafe [`pinned`](Self::pinned) can ask for.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{ThreadRegister, mxn};
    ///
    /// let builder = mxn::Builder::default().thread_register(ThreadRegister::Switched);
    /// # drop(builder);
    /// ```
    pub fn thread_register(mut self, register: ThreadRegister) -> Self {
        self.register = Some(register);
        self
    }

    /// Leaves the thread register alone: green threads stay on the LWP that first ran them, and share its
    /// thread-locals. For machines on which neither other way works.
    ///
    /// While one of these threads sleeps in the kernel, the other threads of its LWP wait, even if they are
    /// woken.
    ///
    /// # Examples
    ///
    /// ```
    /// // SAFETY: this program keeps no thread-local borrowed, and no lock of std held, if a thread may wait.
    /// let builder = unsafe { selvedge::mxn::Builder::default().pinned() };
    /// # drop(builder);
    /// ```
    ///
    /// # Safety
    ///
    /// Green threads of one LWP see the same thread-locals. No code that they run, in any library, may rely
    /// on a thread-local being its thread's own across a call that can switch threads. Across such a call, no
    /// `RefCell` in a thread-local may be borrowed, and no reentrant lock of std (such as `StdoutLock`) may
    /// be held. After it, no `errno` from before may be read.
    pub unsafe fn pinned(mut self) -> Self {
        self.register = Some(ThreadRegister::Pinned);
        self.may_pin = true;
        self
    }

    /// Sets how long a kernel thread stays once it has nothing to do, if it was needed because others slept
    /// in the kernel. A few always stay, in reserve. Default: 5 s. `None`: as long as the runtime.
    ///
    /// When a kernel thread ends, the kernel also ends what belongs to it. Examples are a child process that
    /// asked to die with its parent (`PR_SET_PDEATHSIG`), and requests to an `io_uring`. So a kernel thread
    /// that has child processes is kept, and if the kernel does not tell, all are. If anything else of the
    /// kernel's must not end with the kernel thread that asked for it, use a
    /// [bound](crate::thread::Builder::bound) thread, or `None` here.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = selvedge::mxn::Builder::default().lwp_age(Some(Duration::from_secs(60)));
    /// # drop(builder);
    /// ```
    pub fn lwp_age(mut self, age: Option<Duration>) -> Self {
        self.lwp_age = Some(age);
        self
    }

    /// Sets what is done about deadlocks.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{mxn, thread::OnDeadlock};
    ///
    /// let builder = mxn::Builder::default().on_deadlock(OnDeadlock::Report);
    /// # drop(builder);
    /// ```
    pub fn on_deadlock(mut self, what: OnDeadlock) -> Self {
        self.on_deadlock = Some(what);
        self
    }

    /// Sets whether the threads that this runtime's threads start by [`std::thread`], or by the C library's
    /// `pthread_create`, are green threads of this runtime.
    ///
    /// With `true`, [`build`](Self::build) returns an error if the program does not have the feature
    /// `interpose`. With `false`, they are kernel threads. If neither is set, `SELVEDGE_STD_THREADS=kernel`
    /// or `green` decides: kernel threads, or green threads of the process default. The guide tells [what
    /// differs](crate::guide::unmodified#threads-of-std).
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = selvedge::mxn::Builder::default().green_std_threads(true);
    /// # drop(builder);
    /// ```
    pub fn green_std_threads(mut self, green: bool) -> Self {
        self.green_std_threads = Some(green);
        self
    }

    /// Makes every switch a migration to another LWP: for tests.
    #[doc(hidden)]
    pub fn migrate_always(mut self, always: bool) -> Self {
        self.migrate_always = always;
        self
    }

    /// Returns the settings, or an error for the first that is not valid.
    pub(crate) fn resolve(self) -> io::Result<Settings> {
        self.resolve_in(&settings::process)
    }

    fn resolve_in(self, lookup: Lookup<'_>) -> io::Result<Settings> {
        let concurrency = match self.concurrency {
            Some(slots) => Some(check_count("concurrency", slots)?),
            None => settings::number(lookup, settings::CONCURRENCY, 1..=MOST_LWPS)?,
        };
        let follows_cpus = concurrency.is_none();
        let cpus = check_cpus(self.cpus, lookup)?;
        let available = || match &cpus {
            Some(cpus) => affinity::available_of(cpus),
            None => affinity::available(),
        };
        let concurrency = concurrency.unwrap_or_else(|| available().min(MOST_LWPS));
        let max_lwps = match self.max_lwps {
            Some(lwps) => check_count("max_lwps", lwps)?,
            None => settings::number(lookup, settings::MAX_LWPS, 1..=MOST_LWPS)?
                .unwrap_or(DEFAULT_MAX_LWPS.max(concurrency)),
        };
        if max_lwps < concurrency {
            return Err(invalid(format!(
                "invalid max_lwps {max_lwps} (set, or by {}): concurrency is {concurrency}, and each slot needs an LWP",
                settings::MAX_LWPS
            )));
        }
        let stack_size = match self.stack_size {
            Some(bytes) => settings::check_stack_size(bytes)?,
            None => settings::stack_size(lookup, stack::LARGEST)?.unwrap_or(DEFAULT_STACK_SIZE),
        };
        let time_slice = match self.time_slice {
            Some(slice) => settings::check_time_slice(slice)?,
            None => env_time_slice(lookup)?.unwrap_or(Some(DEFAULT_TIME_SLICE)),
        };
        let register = match self.register {
            Some(ThreadRegister::Pinned) if !self.may_pin => {
                return Err(invalid(
                    "invalid thread_register: pinned is chosen by Builder::pinned, which is unsafe".into(),
                ));
            }
            Some(register) => Some(register),
            None => env_register(lookup)?.flatten(),
        };
        let on_deadlock = match self.on_deadlock {
            Some(what) => what,
            None => watch::from_environment(lookup)?.unwrap_or_default(),
        };
        Ok(Settings {
            concurrency,
            follows_cpus,
            cpus,
            max_lwps,
            stack_size,
            bound_stack_size: BOUND_STACK_SIZE,
            time_slice,
            preemption_signal: self.preemption_signal.unwrap_or(Some(sys::preempt::DEFAULT_SIGNAL)),
            register,
            lwp_age: self.lwp_age.unwrap_or(Some(DEFAULT_LWP_AGE)),
            on_deadlock,
            lock_stats: settings::lock_stats(lookup)?,
            green_std_threads: self.green_std_threads,
            migrate_always: self.migrate_always,
        })
    }
}

impl Settings {
    /// Returns the time slice in ns; `u64::MAX`: there is none.
    pub(super) fn slice(&self) -> u64 {
        settings::nanoseconds(self.time_slice)
    }
}

fn env_time_slice(lookup: Lookup<'_>) -> io::Result<Option<Option<Duration>>> {
    settings::read(
        lookup,
        settings::TIME_SLICE,
        "a time such as 10ms or 500us, at least 50us, or off",
        |value| {
            if value == "off" {
                return Some(None);
            }
            settings::parse_time(value).filter(|&slice| slice >= settings::MIN_TIME_SLICE).map(Some)
        },
    )
}

/// Returns what the environment asks for; `Some(None)`: the best.
fn env_register(lookup: Lookup<'_>) -> io::Result<Option<Option<ThreadRegister>>> {
    settings::read(lookup, settings::THREAD_REGISTER, "auto, switched or syscall", |value| match value {
        "auto" => Some(None),
        "switched" => Some(Some(ThreadRegister::Switched)),
        "syscall" => Some(Some(ThreadRegister::Syscall)),
        _ => None,
    })
}

/// Returns the CPUs that the program has set, or else the environment, if the process may use them all.
fn check_cpus(set: Option<Vec<usize>>, lookup: Lookup<'_>) -> io::Result<Option<Box<[usize]>>> {
    let (cpus, given) = match set {
        Some(cpus) => {
            let given = format!("invalid cpus `{}`", CpuList(&cpus));
            (cpus, given)
        }
        None => {
            let Some(cpus) = settings::cpus(lookup)? else { return Ok(None) };
            let given = format!("invalid value `{}` in {}", CpuList(&cpus), settings::CPUS);
            (cpus, given)
        }
    };
    let allowed =
        affinity::allowed().map_err(|error| io::Error::new(error.kind(), format!("{given}: {error}")))?;
    let refused: Vec<_> = cpus.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect();
    let wrong = match refused[..] {
        [] if cpus.is_empty() => "there is none".to_owned(),
        [] => return Ok(Some(cpus.into())),
        _ => format!("this process may not use {}, or there is no such CPU", CpuList(&refused)),
    };
    Err(invalid(format!("{given}: {wrong}; expected CPUs out of {}", CpuList(&allowed))))
}

fn check_count(what: &str, count: usize) -> io::Result<usize> {
    if (1..=MOST_LWPS).contains(&count) {
        Ok(count)
    } else {
        Err(invalid(format!("invalid {what} {count}: expected 1 to {MOST_LWPS}")))
    }
}

#[cfg(test)]
mod tests;
