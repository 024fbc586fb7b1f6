//! Dumps: what all threads do, as text for people, and as JSON.
//!
//! Programs have many threads at few places. So a dump with backtraces has each backtrace once, with all the
//! threads that have it, and each place in the code is named once.

mod json;

use std::collections::HashMap;
use std::fmt::{self, Write};
#[cfg(target_os = "linux")]
use std::io;
use std::mem::{self, Discriminant};

use crate::backtrace::{Backtrace, Function, Unwinder};
use crate::park::reason::WaitReason;
use crate::runtime::registry;
use crate::runtime::stats::RuntimeStats;
#[cfg(target_os = "linux")]
use crate::settings::{self, Lookup};
#[cfg(target_os = "linux")]
use crate::sys::message::all_to_standard_error;
#[cfg(target_os = "linux")]
use crate::sys::once::Mutex;
use crate::sys::pthread;
#[cfg(target_os = "linux")]
use crate::sys::quit;
use crate::thread::current::blocking;
use crate::thread::info::{ThreadInfo, ThreadState};
use crate::thread::snapshot::ThreadCursor;
use crate::threadmon::collect::runtime_view;
use crate::threadmon::views::RuntimeView;

/// The threads of one page.
const PAGE: usize = 4_096;
/// How many threads with the same backtrace have lines of their own in a text.
const LINES: usize = 3;
/// How many groups of threads are in a text.
const GROUPS: usize = 1_000;
/// The stack of the kernel thread that collects. To read debug information takes more than a small stack has.
const STACK: usize = 2 << 20;

/// Returns what all threads of all runtimes do, with a table of the LWPs before. Each thread has a line with
/// its state, what it waits for, and the owner of that. A [`Dump`] has backtraces, too.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, thread, threadmon};
///
/// let rt = Mxn::new()?;
/// let parked = rt.spawn_with(thread::Builder::new().name("idler".into()), thread::park)?;
/// while !threadmon::dump().contains("\"idler\": waiting for its permit (park)") {}
/// # parked.thread().unpark();
/// # parked.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
///
/// # Blocks
///
/// Nothing. It looks at all threads, and reads files of `/proc`.
#[must_use]
pub fn dump() -> String {
    let mut text = String::new();
    for runtime in registry::all() {
        let _ = writeln!(text, "runtime {}\n{}", runtime.number(), runtime.stats());
        let mut next = Some(ThreadCursor::start());
        while let Some(from) = next {
            let page = runtime.threads_page(from, PAGE, None);
            next = page.next();
            for thread in page.threads() {
                let _ = writeln!(text, "{thread}");
            }
        }
    }
    text
}

/// Prints a [`Dump`] to standard error at each `SIGQUIT` (Ctrl-\ in a terminal) from now on. The program goes
/// on.
/// `SELVEDGE_DUMP=on` does the same when a runtime is built. A second call does nothing.
///
/// A kernel thread of its own prints, so threads that keep all LWPs cannot keep it from that. In a child of a
/// fork, the signal does nothing.
///
/// # Examples
///
/// ```
/// selvedge::threadmon::dump_on_quit()?;
/// # std::io::Result::Ok(())
/// ```
///
/// # Errors
///
/// The program handles `SIGQUIT` itself, or the system refuses a thread.
#[cfg(target_os = "linux")]
pub fn dump_on_quit() -> io::Result<()> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock(|_| ());
    if !*watched {
        // Not by std, the lock of which a thread may hold that is stuck. If nothing reads it any more, the
        // program goes on.
        quit::watch(STACK, || all_to_standard_error(format!("{}\n", Dump::collect()).as_bytes()))?;
        *watched = true;
    }
    Ok(())
}

/// Prints dumps if `SELVEDGE_DUMP` asks for it. Called when a runtime is built.
///
/// # Errors
///
/// As [`dump_on_quit`], and if the value is neither `on` nor `off`.
#[cfg(target_os = "linux")]
pub(crate) fn dump_if_asked(lookup: Lookup<'_>) -> io::Result<()> {
    if settings::dump(lookup)? { dump_on_quit() } else { Ok(()) }
}

/// What all threads of all runtimes did at a moment, and where each of them stood.
///
/// When displayed, it is text for people: the runtimes, then the threads, with their backtraces. Threads that
/// do the same at the same place are shown together. [`write_json`](Self::write_json) writes all of them.
///
/// No thread is stopped, and none pays for it. A thread that runs while its stack is read is looked at again.
/// If that happens too often, the dump says so, and has no backtrace of it. What stands in brackets there:
///
/// | the thread | its backtrace |
/// |---|---|
/// | a green one that waits, or waits for an LWP | complete |
/// | a green one that computes | complete, if its runtime [preempts by signal](crate::RuntimeStats) |
/// | any that is in a system call | up to a frame that needs a register which the kernel does not tell |
/// | a bound one, or one of `onetoone`, that computes | none: it is sent no signal |
///
/// Backtraces are there on Linux, on x86-64, aarch64 and riscv64, with the crate's feature `backtraces`,
/// which is on by default. Elsewhere, a line says that there are none. A program without debug information
/// has the names of its functions only; one that was stripped has addresses.
///
/// # Examples
///
/// ```
/// use selvedge::threadmon::Dump;
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// let parked = rt.spawn_with(thread::Builder::new().name("idler".into()), thread::park)?;
/// while !Dump::take().to_string().contains("\"idler\": waiting for its permit (park)") {}
/// # parked.thread().unpark();
/// # parked.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub struct Dump {
    runtimes: Vec<DumpedRuntime>,
    threads: Vec<DumpedThread>,
    /// Each once.
    backtraces: Vec<Backtrace>,
    /// What is at each address of a backtrace.
    functions: HashMap<usize, Vec<Function>>,
    /// Why there are no backtraces.
    missing: Option<&'static str>,
}

struct DumpedRuntime {
    view: RuntimeView,
    stats: RuntimeStats,
}

struct DumpedThread {
    runtime: u32,
    info: ThreadInfo,
    /// Where its backtrace is in the list.
    backtrace: Option<usize>,
}

/// What threads have in common that are shown together.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    runtime: u32,
    backtrace: Option<usize>,
    state: Discriminant<ThreadState>,
    reason: Option<WaitReason>,
}

impl Dump {
    /// Looks at all threads.
    ///
    /// A kernel thread of its own does that, because it takes more stack than a green thread may have. So the
    /// caller is in the dump, too. If the system refuses the kernel thread, there are no backtraces.
    ///
    /// # Blocks
    ///
    /// The running thread, for some milliseconds, and for some microseconds for each thread. The first dump
    /// reads the program's debug information, which may take a second.
    pub fn take() -> Self {
        let collector = std::thread::Builder::new().name("selvedge-dump".into()).stack_size(STACK);
        match pthread::kernel(|| collector.spawn(Self::collect)) {
            Ok(collector) => match blocking(|| collector.join()) {
                Ok(dump) => dump,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Err(_) => Self::with(Err("no backtraces: the system refuses a kernel thread to collect them")),
        }
    }

    /// Does what [`take`](Self::take) does, on the caller, which has [`STACK`].
    fn collect() -> Self {
        Self::with(Unwinder::new())
    }

    fn with(unwinder: Result<Unwinder, &'static str>) -> Self {
        let (mut unwinder, missing) = match unwinder {
            Ok(unwinder) => (Some(unwinder), None),
            Err(why) => (None, Some(why)),
        };
        let (mut runtimes, mut threads, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for runtime in registry::all() {
            let stats = runtime.stats();
            runtimes.push(DumpedRuntime { view: runtime_view(&*runtime, &stats), stats });
            let mut next = Some(ThreadCursor::start());
            while let Some(from) = next {
                let page = runtime.threads_page(from, PAGE, unwinder.as_mut());
                next = page.next();
                threads.extend(page.into_threads().into_iter().map(|mut info| {
                    let fresh = known.len();
                    let backtrace = info.take_backtrace().map(|it| *known.entry(it).or_insert(fresh));
                    DumpedThread { runtime: runtime.number(), info, backtrace }
                }));
            }
        }
        threads.sort_by_key(|thread| (thread.runtime, thread.info.id()));
        let mut backtraces: Vec<(Backtrace, usize)> = known.into_iter().collect();
        backtraces.sort_by_key(|&(_, number)| number);
        let backtraces: Vec<Backtrace> = backtraces.into_iter().map(|(backtrace, _)| backtrace).collect();
        let addresses = backtraces.iter().flat_map(|it| it.frames.iter().copied());
        let functions = unwinder.map(|it| it.resolve(addresses)).unwrap_or_default();
        Self { runtimes, threads, backtraces, functions, missing }
    }

    /// Returns the threads that are shown together, in the order of the first of each.
    fn groups(&self) -> Vec<Vec<&DumpedThread>> {
        let (mut groups, mut known): (Vec<Vec<&DumpedThread>>, _) = (Vec::new(), HashMap::new());
        for thread in &self.threads {
            let at = *known.entry(thread.kind()).or_insert(groups.len());
            if at == groups.len() {
                groups.push(Vec::new());
            }
            groups[at].push(thread);
        }
        groups
    }

    /// Writes the lines of a backtrace.
    fn write_backtrace(&self, f: &mut fmt::Formatter<'_>, backtrace: &Backtrace) -> fmt::Result {
        for address in &backtrace.frames {
            let functions = self.functions.get(address).map_or(&[][..], Vec::as_slice);
            if functions.is_empty() {
                writeln!(f, "    at {address:#x}")?;
            }
            for Function { name, place } in functions {
                match name {
                    Some(name) => write!(f, "    at {name}")?,
                    None => write!(f, "    at {address:#x}")?,
                }
                match place {
                    Some((file, line)) => writeln!(f, " ({file}:{line})")?,
                    None => writeln!(f)?,
                }
            }
        }
        backtrace.note.map_or(Ok(()), |note| writeln!(f, "    ({note})"))
    }
}

impl DumpedThread {
    fn kind(&self) -> Kind {
        let Self { runtime, info, backtrace } = self;
        let reason = match info.state() {
            ThreadState::Waiting { reason, .. } => Some(reason),
            _ => None,
        };
        let state = mem::discriminant(&info.state());
        Kind { runtime: *runtime, backtrace: *backtrace, state, reason }
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for DumpedRuntime { view, stats } in &self.runtimes {
            writeln!(f, "runtime {}\n{stats}", view.number)?;
        }
        if let Some(why) = self.missing {
            writeln!(f, "{why}")?;
        }
        let groups = self.groups();
        for group in groups.iter().take(GROUPS) {
            writeln!(f)?;
            for thread in group.iter().take(LINES) {
                writeln!(f, "{}", thread.info)?;
            }
            match group.len().saturating_sub(LINES) {
                0 => {}
                1 => writeln!(f, "and 1 more thread like these")?,
                more => writeln!(f, "and {more} more threads like these")?,
            }
            if let Some(backtrace) = group[0].backtrace {
                self.write_backtrace(f, &self.backtraces[backtrace])?;
            }
        }
        if let Some(left @ 1..) = groups.len().checked_sub(GROUPS) {
            let threads: usize = groups[GROUPS..].iter().map(Vec::len).sum();
            writeln!(f, "\nand {threads} more threads, at {left} other places")?;
        }
        Ok(())
    }
}

crate::shown::debug! {
    [] Dump: "Dump",
    "threads": |dump| dump.threads.len(),
    "backtraces": |dump| dump.backtraces.len()
}
