//! What can be seen of a runtime: its size (`Runtime::info`), and what its kernel threads do
//! (`Runtime::stats`).

use std::fmt;

use super::latency::LatencyHistogram;
use crate::fiber::ThreadRegister;
use crate::settings::cpu_list::CpuList;
use crate::thread::id::ThreadId;

/// What a runtime is, and how large it is at the moment.
///
/// # Examples
///
/// ```
/// use selvedge::{OneToOne, Runtime};
///
/// let info = OneToOne::new()?.info();
/// println!("{info}");
/// assert_eq!(info.thread_register, None);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeInfo {
    /// `"mxn"` or `"onetoone"`.
    pub model: &'static str,
    /// How green threads keep their thread register; `None` if the kernel does.
    pub thread_register: Option<ThreadRegister>,
    /// How many threads can run at once: the slots of `mxn`, the available CPUs for `onetoone`.
    pub concurrency: usize,
    /// How many kernel threads the runtime has.
    pub lwps: usize,
    /// How many threads have started and not ended.
    pub threads: usize,
    /// `true` if the calls of std and of other crates to the C library come to this crate first (feature
    /// `interpose`). Green threads then wait there without their kernel threads.
    pub interposed: bool,
    /// In ascending order.
    pub(crate) cpus: Option<Box<[usize]>>,
}

impl RuntimeInfo {
    /// Returns the CPUs that the runtime runs on, in ascending order, if
    /// [`mxn::Builder::cpus`](crate::mxn::Builder::cpus) or `SELVEDGE_CPUS` has set them.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{OneToOne, Runtime};
    ///
    /// assert_eq!(OneToOne::new()?.info().cpus(), None);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn cpus(&self) -> Option<&[usize]> {
        self.cpus.as_deref()
    }
}

impl fmt::Display for RuntimeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, thread_register, concurrency, lwps, threads, interposed, cpus } = self;
        write!(f, "{model}: {threads} threads on {lwps} LWPs, concurrency {concurrency}")?;
        if let Some(cpus) = cpus {
            write!(f, ", CPUs {}", CpuList(cpus))?;
        }
        if let Some(rung) = thread_register {
            write!(f, ", thread register {rung}")?;
        }
        f.write_str(if *interposed { ", interposed" } else { "" })
    }
}

/// What each kernel thread of a runtime does and has done.
///
/// It is a snapshot that is put together while all goes on. Each figure was true a moment ago, but not all of
/// them at the same moment. Its `Display` is a table for people.
///
/// In a fork of the process that built the runtime, it has no LWPs and no helpers. Of its threads, it has at
/// most the one that called `fork`, which goes on there as a kernel thread. What has been done so far is what
/// had been done in the parent by then.
///
/// # Examples
///
/// ```
/// use selvedge::{LwpState, Mxn, Runtime};
///
/// let rt = Mxn::builder().concurrency(1).build()?;
/// let stats = rt.stats();
/// assert_eq!((stats.concurrency, stats.threads), (1, 0));
/// assert!(stats.lwps.iter().all(|lwp| lwp.state != LwpState::Blocking));
/// println!("{stats}");
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// `"mxn"` or `"onetoone"`.
    pub model: &'static str,
    /// How green threads keep their thread register; `None` if the kernel does.
    pub thread_register: Option<ThreadRegister>,
    /// How many threads have started and not ended, bound ones included.
    pub threads: usize,
    /// How many of them own a kernel thread: bound ones, and all of `onetoone`.
    pub bound: usize,
    /// How many threads can run at once: the slots of `mxn`, the available CPUs for `onetoone`.
    pub concurrency: usize,
    /// How many LWPs there may be; `None` without a bound.
    pub max_lwps: Option<usize>,
    /// The kernel threads that run green threads, by number.
    pub lwps: Vec<LwpStats>,
    /// The runtime's other kernel threads.
    pub helpers: Vec<HelperStats>,
    /// How often the slot of an LWP that slept in the kernel went to a spare one.
    pub compensated: u64,
    /// How often the slot of an LWP with a thread that kept its CPU went to a spare one.
    pub handed_off: u64,
    /// `true`: threads can be preempted by signal. `false`: slots are handed off instead.
    pub preempts_by_signal: bool,
    /// How often a thread was made to yield. Its time slice was over, or it slept in the kernel while no LWP
    /// was left for others.
    pub preempted: u64,
    /// How often there was no spare LWP, and no room for one more (`max_lwps`).
    pub bound_reached: u64,
    /// How many LWPs could not be started, after the runtime had been built.
    pub not_started: u64,
    /// How many LWPs' kernel threads were ended because they had nothing to do for long.
    pub aged: u64,
    /// How many threads wait in run queues; `None` for `onetoone`, as the kernel has its run queue.
    pub run_queue: Option<RunQueueLength>,
    /// How long threads waited from the moment when they could run until they ran, while [times are
    /// counted](crate::trace::Level::Times), and since the counting began; otherwise `None`.
    ///
    /// For `mxn`, it has the waits of green threads in run queues: after they were started or woken, and
    /// after they yielded or were preempted. For `onetoone`, it has the waits for a CPU: after threads were
    /// started, or woken by others. A wait counts when it ends.
    pub run_queue_latency: Option<LatencyHistogram>,
}

/// How many threads wait in the run queues of a runtime.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime};
///
/// let stats = Mxn::builder().concurrency(1).build()?.stats();
/// assert_eq!(stats.run_queue.unwrap_or_default().total(), 0);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunQueueLength {
    /// An LWP was chosen for them: they run next there, or can run nowhere else.
    pub dispatchable: usize,
    /// No LWP was chosen. They wait in the queue of an LWP, where others may take them, or in a shared queue.
    pub queued: usize,
}

impl RunQueueLength {
    /// Returns how many threads wait in all.
    #[must_use]
    pub fn total(&self) -> usize {
        self.dispatchable.saturating_add(self.queued)
    }
}

/// What one LWP does, and has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LwpStats {
    /// Its number in the runtime. Another kernel thread may have had it before.
    pub number: usize,
    /// The kernel's number of its kernel thread; 0 while that is being started.
    pub tid: u32,
    /// What it does.
    pub state: LwpState,
    /// The thread that is mounted: it runs there, or waits in the kernel there.
    /// [`ThreadInfo::lwp`](crate::thread::ThreadInfo::lwp) leads back.
    pub thread: Option<ThreadId>,
    /// The CPU that its kernel thread ran on last, if the system says.
    pub cpu: Option<u32>,
    /// How often it has looked for the thread to run next.
    pub dispatches: u64,
    /// How often it has taken threads from another.
    pub steals: u64,
    /// How often threads that were queued here have woken another LWP.
    pub wakes: u64,
    /// How many threads were started by threads that ran here.
    pub spawned: u64,
    /// How many threads ended here.
    pub ended: u64,
    /// How many threads wait in its own run queue.
    pub queued: usize,
}

/// What an LWP does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LwpState {
    /// Its kernel thread is being started.
    Starting,
    /// Runs a thread. (If no other thread needs to run, the thread may also wait in the kernel, unannounced.)
    Running,
    /// Looks for a thread to run.
    Searching,
    /// Sleeps until there is something to run, and has the right to run it.
    Idle,
    /// Sleeps until it is given the right to run threads.
    Spare,
    /// Runs a thread that announced that it may block.
    Blocking,
    /// Waits in the kernel, for its thread. Another LWP runs instead.
    InKernel,
    /// Runs on, with its thread, without the right to do so, until that thread next waits or yields.
    WithoutSlot,
}

/// A kernel thread of a runtime that runs none of its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HelperStats {
    /// Its name, as `ps -L` shows it.
    pub name: &'static str,
    /// The kernel's number of it; 0 while it is being started.
    pub tid: u32,
}

impl HelperStats {
    pub(crate) fn new(name: &'static str, tid: u32) -> Self {
        Self { name, tid }
    }
}

impl RuntimeStats {
    /// Returns the figures of a runtime with kernel threads as its threads.
    pub(crate) fn of_kernel_threads(info: &RuntimeInfo) -> Self {
        Self {
            model: info.model,
            thread_register: info.thread_register,
            threads: info.threads,
            bound: info.threads,
            concurrency: info.concurrency,
            max_lwps: None,
            lwps: Vec::new(),
            helpers: Vec::new(),
            compensated: 0,
            handed_off: 0,
            preempts_by_signal: false,
            preempted: 0,
            bound_reached: 0,
            not_started: 0,
            aged: 0,
            run_queue: None,
            run_queue_latency: None,
        }
    }

    /// Returns how many LWPs are in this state.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::{LwpState, Mxn, Runtime};
    ///
    /// let stats = Mxn::builder().concurrency(1).build()?.stats();
    /// println!("{} in reserve", stats.count(LwpState::Spare));
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use]
    pub fn count(&self, state: LwpState) -> usize {
        self.lwps.iter().filter(|lwp| lwp.state == state).count()
    }
}

impl fmt::Display for LwpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Searching => "searching",
            Self::Idle => "idle",
            Self::Spare => "spare",
            Self::Blocking => "blocking",
            Self::InKernel => "in kernel",
            Self::WithoutSlot => "without slot",
        })
    }
}

impl fmt::Display for RunQueueLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.total() == 1 { "thread" } else { "threads" };
        write!(f, "{} {noun}, {} of them dispatchable", self.total(), self.dispatchable)
    }
}

impl fmt::Display for RuntimeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} threads, {} of them bound", self.model, self.threads, self.bound)?;
        write!(f, "; concurrency {}", self.concurrency)?;
        if let Some(most) = self.max_lwps {
            write!(f, ", {} LWPs of at most {most}, {} spare", self.lwps.len(), self.count(LwpState::Spare))?;
        }
        if let Some(rung) = self.thread_register {
            write!(f, ", thread register {rung}")?;
        }
        if let Some(length) = &self.run_queue {
            write!(f, "\nrun queues: {length}")?;
        }
        if let Some(latency) = &self.run_queue_latency {
            write!(f, "\nrun-queue latency: {latency}")?;
        }
        if self.max_lwps.is_none() {
            return Ok(());
        }
        write!(
            f,
            "\nslots moved: {} blocked, {} handed off; {} preemptions; max_lwps reached {} times; {} LWPs not started, {} aged",
            self.compensated,
            self.handed_off,
            self.preempted,
            self.bound_reached,
            self.not_started,
            self.aged
        )?;
        write!(f, "\n{:>12} {:>8} {:<12} {:>4} {:>13}", "LWP", "tid", "state", "CPU", "thread")?;
        write!(f, " {:>11} {:>8} {:>8} {:>9} {:>9}", "dispatches", "steals", "wakes", "spawned", "ended")?;
        write!(f, " {:>6}", "queued")?;
        for lwp in &self.lwps {
            let cpu = lwp.cpu.map_or_else(|| "-".into(), |cpu| cpu.to_string());
            let thread = lwp.thread.map_or_else(|| "-".into(), |thread| format!("{thread:?}"));
            write!(f, "\n{:>12} {:>8} {:<12} {cpu:>4} {thread:>13}", lwp.number, lwp.tid, lwp.state)?;
            write!(
                f,
                " {:>11} {:>8} {:>8} {:>9} {:>9} {:>6}",
                lwp.dispatches, lwp.steals, lwp.wakes, lwp.spawned, lwp.ended, lwp.queued
            )?;
        }
        for helper in &self.helpers {
            write!(f, "\n{:>12} {:>8}", helper.name, helper.tid)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn people_can_read_it() {
        let info = RuntimeInfo {
            model: "mxn",
            thread_register: Some(ThreadRegister::Switched),
            concurrency: 2,
            lwps: 2,
            threads: 7,
            interposed: false,
            cpus: Some([0, 1, 2, 8].into()),
        };
        assert_eq!(
            info.to_string(),
            "mxn: 7 threads on 2 LWPs, concurrency 2, CPUs 0-2,8, thread register switched"
        );
        let mut stats = RuntimeStats::of_kernel_threads(&info);
        assert_eq!(
            stats.to_string(),
            "mxn: 7 threads, 7 of them bound; concurrency 2, thread register switched"
        );
        (stats.bound, stats.max_lwps, stats.compensated) = (1, Some(64), 3);
        let lwp = |number, state| LwpStats {
            number,
            tid: 4711,
            state,
            thread: (number == 0).then(|| ThreadId::from_number(NonZeroU64::MIN)),
            cpu: (number == 0).then_some(1),
            dispatches: 123,
            steals: 4,
            wakes: 5,
            spawned: 6,
            ended: 7,
            queued: 2,
        };
        stats.lwps = vec![lwp(0, LwpState::Running), lwp(1, LwpState::Spare)];
        stats.helpers = vec![HelperStats::new("selvedge-mon", 4712)];
        stats.run_queue = Some(RunQueueLength { dispatchable: 1, queued: 3 });
        assert_eq!(stats.count(LwpState::Spare), 1);
        let wanted = "\
mxn: 7 threads, 1 of them bound; concurrency 2, 2 LWPs of at most 64, 1 spare, thread register switched
run queues: 4 threads, 1 of them dispatchable
slots moved: 3 blocked, 0 handed off; 0 preemptions; max_lwps reached 0 times; 0 LWPs not started, 0 aged
         LWP      tid state         CPU        thread  dispatches   steals    wakes   spawned     ended queued
           0     4711 running         1   ThreadId(1)         123        4        5         6         7      2
           1     4711 spare           -             -         123        4        5         6         7      2
selvedge-mon     4712";
        assert_eq!(stats.to_string(), wanted);
        stats.run_queue_latency = Some(LatencyHistogram::default());
        assert!(stats.to_string().contains("dispatchable\nrun-queue latency: no waits\nslots moved"));
        assert_eq!(
            RunQueueLength { dispatchable: 1, queued: 0 }.to_string(),
            "1 thread, 1 of them dispatchable"
        );
    }
}
