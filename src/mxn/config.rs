//! The settings of an M:N runtime: what a program sets, what the environment overrides, what makes sense.

use std::io;
use std::time::Duration;

use super::Mxn;
use crate::park::owner;
use crate::settings::{self, Lookup, invalid};
use crate::sys;

/// LWPs at most, unless set: enough for many calls that block in the kernel at once, few enough for default thread limits.
const DEFAULT_MAX_LWPS: usize = 1_024;

/// What an owner's word can name (`ThreadCore::owner_hint` has 16 bits, and other values in them).
const MOST_LWPS: usize = owner::MAX_LWPS - 1;

/// The usable stack of a green thread, unless set: what it does not touch costs no memory.
const DEFAULT_STACK_SIZE: usize = 256 << 10;

/// The stack of a bound thread, unless its builder says otherwise: std's default too.
const BOUND_STACK_SIZE: usize = 2 << 20;

/// How long a thread runs before others get their turn, unless set: what Go and other runtimes use too.
const DEFAULT_TIME_SLICE: Duration = Duration::from_millis(10);

/// How long an LWP without work keeps its kernel thread, unless set: a program that blocked a thousand threads once may
/// do so again. Solaris waited for five minutes.
const DEFAULT_LWP_AGE: Duration = Duration::from_secs(5);

/// How green threads keep a thread register (and with it `thread_local!`, `errno` and C libraries) of their own.
///
/// # Examples
///
/// ```
/// use selvedge::{ThreadRegister, mxn};
///
/// let builder = mxn::Builder::default().thread_register(ThreadRegister::Syscall);
/// # drop(builder);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ThreadRegister {
    /// The best that this machine has.
    #[default]
    Auto,
    /// Written by an instruction at every switch; an error where the processor or the kernel does not allow it.
    Switched,
    /// Written by a system call at every switch.
    Syscall,
}

/// The rung of the ladder that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Register {
    Own(ThreadRegister),
    /// Rung 3; the program has promised what [`Builder::pinned`] asks.
    Pinned,
}

/// Settings of an M:N runtime.
///
/// Each has a default, which an environment variable overrides; what is set here is not overridden.
///
/// | setting | default | variable |
/// |---|---|---|
/// | [`concurrency`](Self::concurrency) | available CPUs | `SELVEDGE_CONCURRENCY=4` |
/// | [`max_lwps`](Self::max_lwps) | 1,024 | `SELVEDGE_MAX_LWPS=256` |
/// | [`stack_size`](Self::stack_size) | 256 KiB | `SELVEDGE_STACK_SIZE=64K` |
/// | [`time_slice`](Self::time_slice) | 10 ms | `SELVEDGE_TIME_SLICE=500us`, `off` |
/// | [`lwp_age`](Self::lwp_age) | 5 s | |
/// | [`thread_register`](Self::thread_register) | the best there is | `SELVEDGE_THREAD_REGISTER=auto`, `switched`, `syscall` |
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
    max_lwps: Option<usize>,
    stack_size: Option<usize>,
    time_slice: Option<Option<Duration>>,
    preemption_signal: Option<Option<i32>>,
    register: Option<Register>,
    lwp_age: Option<Option<Duration>>,
    migrate_always: bool,
}

/// Settings that make sense, each with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) concurrency: usize,
    pub(crate) max_lwps: usize,
    /// Usable bytes of a green thread's stack.
    pub(crate) stack_size: usize,
    pub(crate) bound_stack_size: usize,
    /// `None`: cooperative.
    pub(crate) time_slice: Option<Duration>,
    /// `None`: no thread is interrupted by signals.
    pub(crate) preemption_signal: Option<i32>,
    pub(crate) register: Register,
    /// `None`: for ever.
    pub(crate) lwp_age: Option<Duration>,
    pub(crate) migrate_always: bool,
}

impl Builder {
    /// How many green threads run at once.
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

    /// How many kernel threads the runtime may have: those that run green threads, and those that sleep in the kernel for
    /// one. At least `concurrency`, at most 2,047.
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

    /// The stack, in usable bytes, of green threads whose own builder names none.
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

    /// How long a green thread runs before others get their turn; at least 50 us. `None`: until it waits or yields.
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

    /// The signal that ends a thread's time slice: SIGURG unless set, which programs ignore as a rule, and Go uses for the same. A
    /// handler that the program has for it before the runtime starts goes on getting what is not ours. `None`: no thread is ever interrupted; the
    /// LWP of one that computes for too long goes on as a kernel thread of its own, and another one takes its place.
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

    /// How green threads keep their thread register.
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
        self.register = Some(Register::Own(register));
        self
    }

    /// Leaves the thread register alone: green threads stay on the LWP that first ran them, and share its
    /// thread-locals. For machines where neither other way works.
    ///
    /// # Examples
    ///
    /// ```
    /// // SAFETY: this program keeps no thread-local borrowed, and no lock of std held, where a thread may wait.
    /// let builder = unsafe { selvedge::mxn::Builder::default().pinned() };
    /// # drop(builder);
    /// ```
    ///
    /// # Safety
    ///
    /// Green threads of one LWP see the same thread-locals. No code that they run, in any library, may rely on a
    /// thread-local being its thread's own across a call that can switch threads: no `RefCell` in a thread-local borrowed, no
    /// reentrant lock of std (such as `StdoutLock`) held, no `errno` read after it.
    pub unsafe fn pinned(mut self) -> Self {
        self.register = Some(Register::Pinned);
        self
    }

    /// How long a kernel thread stays that was needed because others slept in the kernel, once it has nothing to do. A few
    /// always stay, in reserve. Default: 5 s. `None`: as long as the runtime.
    ///
    /// With a kernel thread the kernel ends what belongs to it: a child process that asked to die with its parent
    /// (`PR_SET_PDEATHSIG`), requests to an `io_uring`. A kernel thread that has child processes is therefore kept
    /// (and all are, where the kernel does not tell). Where anything else of the kernel's must not end with the kernel thread
    /// that it was asked for on, use a [bound](crate::thread::Builder::bound) thread, or `None` here.
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

    /// Makes every switch a migration to another LWP: for tests.
    #[doc(hidden)]
    pub fn migrate_always(mut self, always: bool) -> Self {
        self.migrate_always = always;
        self
    }

    /// Starts the runtime: its LWPs, a reserve of spare ones, and its monitor.
    ///
    /// # Examples
    ///
    /// ```
    /// let rt = selvedge::Mxn::builder().concurrency(2).build()?;
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a setting, or the environment variable that stands in for one, makes no sense; `Unsupported` if green
    /// threads cannot have thread registers of their own here; and whatever keeps kernel threads or memory from being had.
    ///
    /// # Blocks
    ///
    /// The calling thread, for some kernel threads' starts.
    pub fn build(self) -> io::Result<Mxn> {
        Mxn::start(self.resolve()?)
    }

    /// The settings, or the first that makes no sense.
    pub(super) fn resolve(self) -> io::Result<Settings> {
        self.resolve_in(&settings::process)
    }

    fn resolve_in(self, lookup: Lookup<'_>) -> io::Result<Settings> {
        let concurrency = match self.concurrency {
            Some(slots) => check_count("concurrency", slots)?,
            None => settings::number(lookup, settings::CONCURRENCY, MOST_LWPS)?
                .unwrap_or_else(|| sys::affinity::available().min(MOST_LWPS)),
        };
        let max_lwps = match self.max_lwps {
            Some(lwps) => check_count("max_lwps", lwps)?,
            None => settings::number(lookup, settings::MAX_LWPS, MOST_LWPS)?
                .unwrap_or(DEFAULT_MAX_LWPS.max(concurrency)),
        };
        if max_lwps < concurrency {
            return Err(invalid(format!(
                "max_lwps is {max_lwps} (set, or by {}), and concurrency is {concurrency}: each slot needs an LWP",
                settings::MAX_LWPS
            )));
        }
        let stack_size = match self.stack_size {
            Some(bytes) => settings::check_stack_size(bytes)?,
            None => settings::stack_size(lookup)?.unwrap_or(DEFAULT_STACK_SIZE),
        };
        let time_slice = match self.time_slice {
            Some(slice) => settings::check_time_slice(slice)?,
            None => env_time_slice(lookup)?.unwrap_or(Some(DEFAULT_TIME_SLICE)),
        };
        let register = match self.register {
            Some(register) => register,
            None => Register::Own(env_register(lookup)?.unwrap_or_default()),
        };
        Ok(Settings {
            concurrency,
            max_lwps,
            stack_size,
            bound_stack_size: BOUND_STACK_SIZE,
            time_slice,
            preemption_signal: self.preemption_signal.unwrap_or(Some(sys::preempt::DEFAULT_SIGNAL)),
            register,
            lwp_age: self.lwp_age.unwrap_or(Some(DEFAULT_LWP_AGE)),
            migrate_always: self.migrate_always,
        })
    }
}

impl Settings {
    /// The time slice in ns; `u64::MAX`: there is none.
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

fn env_register(lookup: Lookup<'_>) -> io::Result<Option<ThreadRegister>> {
    settings::read(lookup, settings::THREAD_REGISTER, "auto, switched or syscall", |value| match value {
        "auto" => Some(ThreadRegister::Auto),
        "switched" => Some(ThreadRegister::Switched),
        "syscall" => Some(ThreadRegister::Syscall),
        _ => None,
    })
}

fn check_count(what: &str, count: usize) -> io::Result<usize> {
    if (1..=MOST_LWPS).contains(&count) {
        Ok(count)
    } else {
        Err(invalid(format!("{what} is {count}: allowed is 1 to {MOST_LWPS}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn resolve(builder: Builder, env: &[(&str, &str)]) -> io::Result<Settings> {
        builder.resolve_in(&|name| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn slots(concurrency: usize) -> Builder {
        Builder::default().concurrency(concurrency)
    }

    #[test]
    fn defaults() {
        let settings = resolve(Builder::default(), &[]).unwrap();
        assert_eq!(settings.concurrency, sys::affinity::available());
        assert_eq!(settings.max_lwps, 1024);
        assert_eq!(settings.stack_size, 256 << 10);
        assert_eq!(settings.bound_stack_size, 2 << 20);
        assert_eq!(settings.time_slice, Some(Duration::from_millis(10)));
        assert_eq!(settings.register, Register::Own(ThreadRegister::Auto));
        assert!(!settings.migrate_always);
    }

    #[test]
    fn a_variable_overrides_the_default_but_not_what_was_set() {
        let env = [
            (settings::CONCURRENCY, "3"),
            (settings::MAX_LWPS, "9"),
            (settings::STACK_SIZE, "64K"),
            (settings::TIME_SLICE, "off"),
            (settings::THREAD_REGISTER, "syscall"),
        ];
        let from_env = Settings {
            concurrency: 3,
            max_lwps: 9,
            stack_size: 64 << 10,
            bound_stack_size: BOUND_STACK_SIZE,
            time_slice: None,
            preemption_signal: Some(sys::preempt::DEFAULT_SIGNAL),
            register: Register::Own(ThreadRegister::Syscall),
            lwp_age: Some(DEFAULT_LWP_AGE),
            migrate_always: false,
        };
        assert_eq!(resolve(Builder::default(), &env).unwrap(), from_env);

        let ms = Some(Duration::from_millis(1));
        let set = slots(2)
            .max_lwps(4)
            .stack_size(1 << 20)
            .time_slice(ms)
            .preemption_signal(None)
            .thread_register(ThreadRegister::Switched)
            .lwp_age(None)
            .migrate_always(true);
        let wanted = Settings {
            concurrency: 2,
            max_lwps: 4,
            stack_size: 1 << 20,
            bound_stack_size: BOUND_STACK_SIZE,
            time_slice: ms,
            preemption_signal: None,
            register: Register::Own(ThreadRegister::Switched),
            lwp_age: None,
            migrate_always: true,
        };
        assert_eq!(resolve(set, &env).unwrap(), wanted);
    }

    #[test]
    fn what_was_set_hides_nonsense_in_the_environment() {
        let env = [(settings::CONCURRENCY, "none"), (settings::THREAD_REGISTER, "x")];
        // SAFETY: nothing is built from it.
        let builder = unsafe { slots(1).pinned() };
        assert_eq!(resolve(builder, &env).unwrap().register, Register::Pinned);
    }

    #[test]
    fn nonsense_in_the_environment_is_named() {
        for (name, value, allowed) in [
            (settings::CONCURRENCY, "0", "1 to 2047"),
            (settings::CONCURRENCY, "two", "1 to 2047"),
            (settings::CONCURRENCY, "-1", "1 to 2047"),
            (settings::CONCURRENCY, "", "1 to 2047"),
            (settings::MAX_LWPS, "40000", "1 to 2047"),
            (settings::STACK_SIZE, "0", "256K"),
            (settings::STACK_SIZE, "8MB", "256K"),
            (settings::STACK_SIZE, "2048G", "256K"),
            (settings::TIME_SLICE, "10", "10ms"),
            (settings::TIME_SLICE, "0ms", "10ms"),
            (settings::TIME_SLICE, "49us", "10ms"),
            (settings::TIME_SLICE, "on", "off"),
            (settings::THREAD_REGISTER, "pinned", "auto, switched or syscall"),
            (settings::THREAD_REGISTER, "Auto", "auto, switched or syscall"),
        ] {
            let error = resolve(Builder::default(), &[(name, value)]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(&format!("{value:?}")), "{name}={value}: {text}");
            assert!(text.contains(allowed), "{name}={value}: {text}");
        }
    }

    #[test]
    fn nonsense_that_was_set_is_named() {
        let us = Some(Duration::from_micros(1));
        for (builder, said) in [
            (slots(0), "concurrency is 0"),
            (slots(1 << 20), "1 to 2047"),
            (slots(4).max_lwps(0), "max_lwps is 0"),
            (slots(4).max_lwps(3), "max_lwps is 3"),
            (slots(4).stack_size(0), "stack size of 0"),
            (slots(4).stack_size(usize::MAX), "1 TiB"),
            (slots(4).time_slice(us), "too short"),
            (slots(4).time_slice(Some(Duration::ZERO)), "too short"),
        ] {
            let error = resolve(builder.clone(), &[]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(said), "{builder:?}: {error}");
        }
    }

    #[test]
    fn limits_fit_together() {
        assert_eq!(resolve(slots(2000), &[]).unwrap().max_lwps, 2000);
        let error = resolve(slots(8), &[(settings::MAX_LWPS, "4")]).unwrap_err();
        assert!(error.to_string().contains(settings::MAX_LWPS), "{error}");
        assert_eq!(resolve(Builder::default().stack_size(1), &[]).unwrap().stack_size, 4 << 10);
    }
}
