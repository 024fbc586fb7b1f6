//! Events as readers see them: what happened to a thread, or on an LWP.

use std::fmt;
use std::time::Duration;

use crate::park::priority::{Level, Priority};
use crate::park::reason::WaitReason;
use crate::recorder::event::{self, Kind};
use crate::recorder::rings;
use crate::thread::id::ThreadId;

/// The kernel thread on which an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Track {
    /// An LWP of a runtime.
    Lwp {
        /// The number of the runtime in this process, from 1 on.
        runtime: u32,
        /// The number of the LWP, as in [`LwpStats`](crate::LwpStats).
        lwp: u32,
    },
    /// Another kernel thread, by the order in which they were met.
    Kernel(u32),
}

/// What happened to a thread, or on an LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The thread was started, by the thread `by` if that is one of Selvedge.
    Spawn {
        /// The thread that started it.
        by: Option<ThreadId>,
        /// Its priority then.
        priority: Priority,
    },
    /// The thread became runnable.
    Ready {
        /// The thread that woke it; `None` for a timer, or a kernel thread that Selvedge does not know.
        by: Option<ThreadId>,
        /// `true` if an LWP was chosen for it: it is *dispatchable*. Otherwise it is in a run queue.
        chosen: bool,
    },
    /// The thread began to run on this track. If there is no thread, it is one that is not in the
    /// [sample](super::set_sample), and ran after the LWP had looked for work.
    Dispatch {
        /// The CPU on which it began to run; `None` if the system does not say. The kernel may move the
        /// kernel thread to another one at any time.
        cpu: Option<u32>,
    },
    /// The thread stopped running, because it waits.
    Block {
        /// What for.
        reason: WaitReason,
        /// The address of that, if it has one.
        at: Option<usize>,
    },
    /// The thread stopped running, and stays runnable: it yielded, or gave up a slot.
    Yield,
    /// The thread stopped running because its time slice was over.
    Preempt,
    /// The thread ended.
    Exit,
    /// The thread announced that it may block in the kernel.
    EnterKernel,
    /// What it announced is over.
    LeaveKernel {
        /// The CPU on which it goes on, as for [`Dispatch`](Self::Dispatch).
        cpu: Option<u32>,
    },
    /// The runtime's monitor found that the thread sleeps in the kernel, and has not announced it. It
    /// happened on the monitor's kernel thread, some time after the sleep began: within two rounds if other
    /// threads waited for the slot, otherwise after 100 ms.
    FoundAsleep {
        /// The number of the runtime, as in [`Track::Lwp`].
        runtime: u32,
        /// The number of the LWP on which the thread sleeps.
        lwp: u32,
    },
    /// The monitor found that this thread runs again, some 10 ms later at most. If the thread stops or is
    /// dispatched before that, there is no such event.
    FoundRunning {
        /// The number of the runtime.
        runtime: u32,
        /// The number of the LWP.
        lwp: u32,
        /// The CPU of the LWP, as for [`Dispatch`](Self::Dispatch).
        cpu: Option<u32>,
    },
    /// The LWP took threads from another.
    Steal {
        /// The number of the other.
        from: u32,
    },
    /// The LWP begins to look for work.
    Search,
    /// The LWP begins to sleep, and has a slot.
    Idle,
    /// The LWP begins to sleep, and has no slot.
    Spare,
    /// A slot moved to an LWP that had none. It happened on the kernel thread that moved it, which may be the
    /// monitor, the reserve's thread, any LWP, or a thread that woke others. If that has no ring, nothing
    /// tells of it.
    SlotMove {
        /// The number of the runtime, as in [`Track::Lwp`].
        runtime: u32,
        /// The number of the LWP that lost it; `None` if it is one slot more.
        from: Option<u32>,
        /// The number of the LWP that has it now; `None` if it is one slot less.
        to: Option<u32>,
        /// Why.
        cause: SlotCause,
    },
    /// The LWP begins.
    LwpStart {
        /// The kernel's number of its kernel thread.
        tid: u32,
    },
    /// The LWP ends: it was spare for long, or its runtime ends.
    LwpEnd,
}

/// Why a slot moved to another LWP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SlotCause {
    /// The thread on the LWP that had it kept its CPU for longer than its time slice.
    Computes,
    /// The LWP that had it slept in the kernel, and its thread had not announced that.
    InKernel,
    /// The LWP that had it left it to any other: its thread had announced that it may block, or it had slept
    /// in the kernel for long.
    Open,
    /// Threads waited that may run on this one LWP only.
    Home,
    /// The runtime was to run more threads at once, or fewer: by
    /// [`set_concurrency`](crate::Mxn::set_concurrency), or by the CPUs that it may use.
    Concurrency,
}

impl fmt::Display for SlotCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Computes => "a thread kept its CPU",
            Self::InKernel => "a thread slept in the kernel",
            Self::Open => "a thread had announced that it may block",
            Self::Home => "threads may run here only",
            Self::Concurrency => "the concurrency has changed",
        })
    }
}

impl SlotCause {
    fn from_number(number: u8) -> Option<Self> {
        [
            (event::SlotCause::Computes, Self::Computes),
            (event::SlotCause::InKernel, Self::InKernel),
            (event::SlotCause::Open, Self::Open),
            (event::SlotCause::Home, Self::Home),
            (event::SlotCause::Concurrency, Self::Concurrency),
        ]
        .into_iter()
        .find_map(|(cause, public)| (cause as u8 == number).then_some(public))
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When it happened, since the start of the recording. The recorder reads the clock once for an event.
    pub at: Duration,
    /// Where it happened.
    pub track: Track,
    /// The thread to which it happened; `None` for events of LWPs.
    pub thread: Option<ThreadId>,
    /// What happened.
    pub kind: EventKind,
}

pub(super) fn id(number: u64) -> Option<ThreadId> {
    std::num::NonZeroU64::new(number).map(ThreadId::from_number)
}

pub(super) fn kind_of(event: event::Event) -> Option<EventKind> {
    Some(match event.kind {
        Kind::Spawn => EventKind::Spawn { by: id(event.object), priority: Level::meaning(event.detail) },
        Kind::Ready => EventKind::Ready { by: id(event.object), chosen: event.detail == 1 },
        Kind::Dispatch => EventKind::Dispatch { cpu: event.cpu() },
        Kind::Block => {
            let at = usize::try_from(event.object).ok().filter(|&at| at != 0);
            EventKind::Block { reason: WaitReason::from_number(event.detail)?, at }
        }
        Kind::Yield => EventKind::Yield,
        Kind::Preempt => EventKind::Preempt,
        Kind::Exit => EventKind::Exit,
        Kind::EnterKernel => EventKind::EnterKernel,
        Kind::LeaveKernel => EventKind::LeaveKernel { cpu: event.cpu() },
        Kind::Steal => EventKind::Steal { from: event.number },
        Kind::Search => EventKind::Search,
        Kind::Idle => EventKind::Idle,
        Kind::Spare => EventKind::Spare,
        Kind::Name | Kind::Taken => return None,
        Kind::SlotMove => {
            let lwp = |number: u32| Some(number).filter(|&number| number != rings::NO_LWP);
            let (runtime, from) = event.lwp();
            EventKind::SlotMove {
                runtime,
                from: lwp(from),
                to: lwp(event.number),
                cause: SlotCause::from_number(event.detail)?,
            }
        }
        Kind::LwpStart => EventKind::LwpStart { tid: event.number },
        Kind::LwpEnd => EventKind::LwpEnd,
        Kind::FoundAsleep => {
            let (runtime, lwp) = event.lwp();
            EventKind::FoundAsleep { runtime, lwp }
        }
        Kind::FoundRunning => {
            let (runtime, lwp) = event.lwp();
            EventKind::FoundRunning { runtime, lwp, cpu: event.cpu() }
        }
    })
}
