//! What is told of a process: plain data, which travels.

use std::time::Duration;

use super::codec::wire_struct;
use crate::park::priority::Priority;
use crate::park::reason::WaitReason;
use crate::runtime::latency::LatencyHistogram;
use crate::runtime::stats::{LwpState, RunQueueLength};
use crate::thread::info::ThreadTimes;
use crate::trace::{Event, Level, State};

/// A process, its CPUs, and its runtimes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Overview {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// The monotonic clock there, since boot.
    pub at: Duration,
    /// How many CPUs it may use.
    pub cpus: usize,
    /// The CPU time that it has used: user and system.
    pub user: Duration,
    /// The CPU time that the kernel has used for it.
    pub system: Duration,
    /// The CPU time of the thread that serves this.
    pub monitor: Duration,
    /// What is counted and recorded of threads.
    pub level: Level,
    /// Its runtimes.
    pub runtimes: Vec<RuntimeView>,
}

/// A runtime.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RuntimeView {
    /// Its number in the process, from 1 on.
    pub number: u32,
    /// `"mxn"` or `"onetoone"`.
    pub model: String,
    /// How many threads live.
    pub threads: usize,
    /// How many of them own a kernel thread.
    pub bound: usize,
    /// How many can run at once.
    pub concurrency: usize,
    /// How many LWPs there may be; `None` without a bound.
    pub max_lwps: Option<usize>,
    /// Its LWPs.
    pub lwps: Vec<LwpView>,
    /// Its other kernel threads: names and kernel numbers.
    pub helpers: Vec<(String, u32)>,
    /// How often a slot moved because its LWP slept in the kernel.
    pub compensated: u64,
    /// How often a slot moved because its thread kept the CPU.
    pub handed_off: u64,
    /// How often a thread was preempted.
    pub preempted: u64,
    /// How often there was no spare LWP, and no room for one more.
    pub bound_reached: u64,
    /// How many threads wait in run queues; `None`: the kernel has its run queue.
    pub run_queue: Option<RunQueueLength>,
    /// How long threads waited until they ran, while times are counted.
    pub run_queue_latency: Option<LatencyHistogram>,
}

/// An LWP.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LwpView {
    /// Its number in the runtime.
    pub number: usize,
    /// The kernel's number of its kernel thread.
    pub tid: u32,
    /// What it does.
    pub state: LwpState,
    /// The identity of the thread on it.
    pub thread: Option<u64>,
    /// The CPU that it is on, or was on last.
    pub cpu: Option<u32>,
    /// How often it has looked for the thread to run next.
    pub dispatches: u64,
    /// How often it has taken threads from another.
    pub steals: u64,
    /// How often threads that were queued here have woken another LWP.
    pub wakes: u64,
    /// Its CPU time, and the time that it waited for a CPU, as the kernel counts them.
    pub cpu_time: Option<(Duration, Duration)>,
    /// Its time by state, while times are counted: running, searching, idle, spare.
    pub times: Option<[Duration; 4]>,
    /// How many threads wait in its own run queue.
    pub queued: usize,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadView {
    /// Its identity. No other thread of the process has had it or will.
    pub id: u64,
    /// Its name.
    pub name: Option<String>,
    /// What it does.
    pub state: State,
    /// What it waits for.
    pub reason: Option<WaitReason>,
    /// The address of that.
    pub at: Option<u64>,
    /// The name that the program gave to that.
    pub object: Option<String>,
    /// The owner of the awaited lock, or the awaited thread: its identity, and its name.
    pub owner: Option<(u64, Option<String>)>,
    /// The LWP that it is on, was on last, or was chosen for it.
    pub lwp: Option<usize>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The kernel's number of its kernel thread, if it is on one, or owns one.
    pub tid: Option<u32>,
    /// It owns a kernel thread.
    pub bound: bool,
    /// Its priority.
    pub priority: Priority,
    /// Its times, while they are counted.
    pub times: Option<ThreadTimes>,
    /// How many bytes of its stack have been used, and how many it has.
    pub stack: Option<(usize, usize)>,
    /// The identity of the thread that started it, if times were counted then.
    pub maker: Option<u64>,
}

/// Some threads of a runtime that have changed.
///
/// Threads that still wait, as they did when the client got them, are in no page.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadPageView {
    /// The threads.
    pub threads: Vec<ThreadView>,
    /// The identities of threads that the client got before and that have ended.
    pub ended: Vec<u64>,
    /// `true` if the walk has come to its end. The next page begins another.
    pub last: bool,
}

/// A lock for which threads have waited, while [that is counted](crate::sync::stats).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LockView {
    /// Its address.
    pub at: u64,
    /// The name that the program gave to it.
    pub name: Option<String>,
    /// What threads report that they wait for.
    pub kind: Option<WaitReason>,
    /// How often a thread found it taken.
    pub contended: u64,
    /// How often a thread slept for it.
    pub slept: u64,
    /// The time that threads waited, in total.
    pub waited: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// Its owner, if owners are recorded.
    pub owner: Option<(u64, Option<String>)>,
}

/// What has happened to a thread since the last look, while events are [recorded](Level::Events).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistoryView {
    /// The monotonic clock there, since boot.
    pub at: Duration,
    /// The last events of the thread, in the order of time, at most 1,000. Their times are by that clock.
    pub events: Vec<Event>,
    /// Events before this moment may be missing; zero if none is.
    pub whole_since: Duration,
    /// The names that the program gave to what the thread waited for, by address.
    pub objects: Vec<(u64, String)>,
}

wire_struct! {
    Overview { pid program at cpus user system monitor level runtimes }
    RuntimeView {
        number model threads bound concurrency max_lwps lwps helpers compensated handed_off preempted
        bound_reached run_queue run_queue_latency
    }
    RunQueueLength { dispatchable queued }
    LatencyHistogram { counts sum }
    LwpView { number tid state thread cpu dispatches steals wakes cpu_time times queued }
    ThreadTimes { life states since dispatches preempted migrations cpu }
    ThreadView { id name state reason at object owner lwp cpu tid bound priority times stack maker }
    ThreadPageView { threads ended last }
    LockView { at name kind contended slept waited longest owner }
    Event { at track thread kind }
    HistoryView { at events whole_since objects }
}
