//! A copy of all rings: what happened on each kernel thread, in the order of time.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::time::Duration;

use super::raw::Raw;
use crate::park::priority::{Level, Priority};
use crate::park::reason::WaitReason;
use crate::recorder::event::{self, Kind};
use crate::recorder::rings;
use crate::runtime::registry::Facts;
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
    Dispatch,
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
    LeaveKernel,
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

/// What is known of a runtime of which a recording has events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeFacts {
    /// Its number in the process, as in [`Track::Lwp`].
    pub number: u32,
    /// `true` for `mxn`, `false` for `onetoone`.
    pub has_green_threads: bool,
    /// How many threads could run at once: the slots of `mxn`, the CPUs for `onetoone`.
    pub concurrency: usize,
    /// How many LWPs there might be; `None` without a bound.
    pub max_lwps: Option<usize>,
    /// How many kernel threads ran its threads at the end. In a recording of a crash, for `onetoone`: when
    /// the runtime was built, or the level of the trace last changed.
    pub lwps: usize,
    /// How often an LWP was missing, and there could be no more.
    pub bound_reached: u64,
    /// The time slice; `None` if threads were not preempted.
    pub time_slice: Option<Duration>,
}

impl RuntimeFacts {
    fn of(facts: &Facts) -> Self {
        Self {
            number: facts.number as u32,
            has_green_threads: facts.is_green == 1,
            concurrency: facts.concurrency as usize,
            max_lwps: Some(facts.max_lwps as usize).filter(|&max| max != 0),
            lwps: facts.lwps as usize,
            bound_reached: facts.bound_reached,
            time_slice: Some(facts.slice).filter(|&slice| slice != u64::MAX).map(Duration::from_nanos),
        }
    }
}

/// The events that were in all rings at one moment.
///
/// # Examples
///
/// ```
/// use selvedge::trace::{self, EventKind, Level, Recording};
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// trace::set_level(Level::Events);
/// rt.run(|| (0..10).for_each(|_| thread::yield_now()));
/// let recording = Recording::take();
/// trace::set_level(Level::Off);
/// assert!(recording.events().iter().any(|event| event.kind == EventKind::Exit));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recording {
    events: Vec<Event>,
    names: HashMap<ThreadId, String>,
    tracks: Vec<Track>,
    length: Duration,
    /// What all of this was made of.
    raw: Raw,
}

impl Recording {
    /// Copies all rings: the events since the level was last raised to
    /// [`Level::Events`](super::Level::Events). Events that are recorded meanwhile may be missing.
    ///
    /// # Blocks
    ///
    /// Nothing, but it takes up to 10 ms if the trace was switched on a moment ago.
    #[must_use]
    pub fn take() -> Self {
        Self::of(Raw::take())
    }

    /// Copies what has come into the rings since the last call with the same `seen`: how far each ring has
    /// been read.
    pub(crate) fn take_since(seen: &mut HashMap<usize, u64>) -> Self {
        Self::of(Raw::take_since(seen, |_| true))
    }

    /// Reads a recording that [`write`](Self::write) has written, or that `SELVEDGE_TRACE` has left behind.
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::trace::Recording;
    ///
    /// let mut bytes = Vec::new();
    /// Recording::take().write(&mut bytes)?;
    /// assert!(Recording::read(&*bytes).is_ok());
    /// let error = Recording::read(&b"something else"[..]).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidData` if it is no recording, or one of another version. Otherwise what `from` returns. A file
    /// that ends too early is read as far as it goes.
    pub fn read(from: impl Read) -> io::Result<Self> {
        Raw::read(from).map(Self::of)
    }

    /// Writes the recording in the format that [`read`](Self::read) and `threadmon` read.
    ///
    /// # Errors
    ///
    /// What `to` returns.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        self.raw.write(to)
    }

    /// Writes the recording after another one of the same process, which `to` already has. So a file grows as
    /// events come. [`read`](Self::read) puts the parts together.
    ///
    /// # Errors
    ///
    /// What `to` returns.
    pub fn write_more(&self, to: impl Write) -> io::Result<()> {
        self.raw.write_more(to)
    }

    fn of(raw: Raw) -> Self {
        let mut all = Vec::new();
        let mut tracks = Vec::new();
        let mut names = Names::default();
        for (number, ring) in raw.rings.iter().enumerate() {
            let track = ring.track(number as u32);
            tracks.push(track);
            for &event in &ring.events {
                match event.kind {
                    Kind::Name => names.add(event),
                    _ => all.push((event, track)),
                }
            }
        }
        all.sort_by_key(|(event, _)| event.count);
        all.chunk_by_mut(|(one, _), (next, _)| one.count == next.count).for_each(dispatch_last);
        tracks.sort();
        let start = all.first().map_or(0, |(event, _)| event.count);
        let end = raw.scale.map(|scale| scale.end()).or(all.last().map(|(event, _)| event.count));
        let span = |counts| raw.scale.map_or(counts, |scale| scale.span(counts));
        let length = Duration::from_nanos(span(end.unwrap_or(0).saturating_sub(start)));
        let events = all.iter().filter_map(|&(event, track)| {
            let (at, kind) = (Duration::from_nanos(span(event.count - start)), kind_of(event)?);
            Some(Event { at, track, thread: id(event.thread), kind })
        });
        let mut names = names.finish();
        for (number, name) in &raw.names {
            if let Some(id) = id(*number) {
                names.entry(id).or_insert_with(|| name.clone());
            }
        }
        Self { events: events.collect(), names, tracks, length, raw }
    }

    /// Adds names of threads, by `ThreadView::id` of `threadmon`: of those that were started before events
    /// were recorded.
    pub fn add_names(&mut self, names: impl IntoIterator<Item = (u64, String)>) {
        for (number, name) in names {
            if let Some(id) = id(number) {
                self.names.entry(id).or_insert_with(|| name.clone());
                self.raw.names.push((number, name));
            }
        }
    }

    /// Creates a recording of these events, for tests of what reads it.
    #[cfg(test)]
    pub(super) fn from_events(events: Vec<Event>) -> Self {
        let length = events.last().map_or(Duration::ZERO, |event| event.at);
        Self { events, length, ..Self::default() }
    }

    /// Lets the recording say that it is of one thread in `one_of`.
    #[cfg(test)]
    pub(super) fn sampled_by(mut self, one_of: u32) -> Self {
        self.raw.one_of = NonZeroU32::new(one_of);
        self
    }

    /// Returns the events, in the order of time.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the time from the first event to the moment when the recording was taken. Nothing has happened
    /// since the last event, or it is missing.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Returns the kernel threads on which anything happened.
    #[must_use]
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns why the recording was written, if a crash was the reason.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        Some(self.raw.why.as_str()).filter(|why| !why.is_empty())
    }

    /// Returns what is known of the runtimes, by number. A recording of a crash has what was known shortly
    /// before, and may lack a runtime that was about to change, or one of more than a hundred.
    pub fn runtimes(&self) -> impl Iterator<Item = RuntimeFacts> + '_ {
        self.raw.facts.iter().map(RuntimeFacts::of)
    }

    /// Returns how many CPUs the process might use; 0 if that is not known.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.raw.cpus as usize
    }

    /// Returns of how many threads one [recorded events](super::set_sample): 1 if all did. Of other threads,
    /// there is nothing but what the threads of the sample did to them.
    #[must_use]
    pub fn sampled(&self) -> NonZeroU32 {
        self.raw.one_of.unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the name of a thread, or the first 48 bytes of it, if the thread was started while events were
    /// recorded, or [was named](Self::add_names). Of threads that live long, about a thousand names are kept.
    /// Other names are events, and as soon overwritten.
    #[must_use]
    pub fn name(&self, thread: ThreadId) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }
}

pub(super) fn id(number: u64) -> Option<ThreadId> {
    std::num::NonZeroU64::new(number).map(ThreadId::from_number)
}

pub(super) fn kind_of(event: event::Event) -> Option<EventKind> {
    Some(match event.kind {
        Kind::Spawn => EventKind::Spawn { by: id(event.object), priority: Level::meaning(event.detail) },
        Kind::Ready => EventKind::Ready { by: id(event.object), chosen: event.detail == 1 },
        Kind::Dispatch => EventKind::Dispatch,
        Kind::Block => {
            let at = usize::try_from(event.object).ok().filter(|&at| at != 0);
            EventKind::Block { reason: WaitReason::from_number(event.detail)?, at }
        }
        Kind::Yield => EventKind::Yield,
        Kind::Preempt => EventKind::Preempt,
        Kind::Exit => EventKind::Exit,
        Kind::EnterKernel => EventKind::EnterKernel,
        Kind::LeaveKernel => EventKind::LeaveKernel,
        Kind::Steal => EventKind::Steal { from: event.number },
        Kind::Search => EventKind::Search,
        Kind::Idle => EventKind::Idle,
        Kind::Spare => EventKind::Spare,
        Kind::Name => return None,
        Kind::SlotMove => {
            let lwp = |number: u32| Some(number).filter(|&number| number != rings::NO_LWP);
            EventKind::SlotMove {
                runtime: event.object as u32,
                from: lwp((event.object >> 32) as u32),
                to: lwp(event.number),
                cause: SlotCause::from_number(event.detail)?,
            }
        }
        Kind::LwpStart => EventKind::LwpStart { tid: event.number },
        Kind::LwpEnd => EventKind::LwpEnd,
    })
}

/// Names, put together from their parts.
#[derive(Default)]
struct Names(HashMap<ThreadId, Vec<[u8; 12]>>);

impl Names {
    fn add(&mut self, event: event::Event) {
        let Some(id) = id(event.thread) else { return };
        let mut part = [0; 12];
        part[..8].copy_from_slice(&event.object.to_le_bytes());
        part[8..].copy_from_slice(&event.number.to_le_bytes());
        let parts = self.0.entry(id).or_default();
        // If an earlier part was overwritten, the name is given up.
        if parts.len() == usize::from(event.detail) {
            parts.push(part);
        }
    }

    fn finish(self) -> HashMap<ThreadId, String> {
        let text = |parts: Vec<[u8; 12]>| {
            let bytes: Vec<u8> = parts.into_iter().flatten().take_while(|&byte| byte != 0).collect();
            String::from_utf8_lossy(&bytes).trim_end_matches('\u{fffd}').to_owned()
        };
        self.0.into_iter().map(|(id, parts)| (id, text(parts))).filter(|(_, name)| !name.is_empty()).collect()
    }
}

/// Puts what comes before a thread's dispatch before it, among events of one time: its wake-up, and the end of
/// its last run on another LWP. If an LWP reads an earlier time than these, its dispatch gets theirs
/// (`not_before` of an account).
fn dispatch_last(events: &mut [(event::Event, Track)]) {
    for late in 1..events.len() {
        let (it, track) = events[late];
        let stops = matches!(it.kind, Kind::Block | Kind::Yield | Kind::Preempt);
        let dispatch =
            |(early, _): &(event::Event, Track)| early.kind == Kind::Dispatch && early.thread == it.thread;
        // The run that ended on this LWP is not the one that began on another.
        if let Some(early) = events[..late].iter().rposition(dispatch)
            && (it.kind == Kind::Ready || stops && events[early].1 != track)
        {
            events[early..=late].rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_comes_after_the_end_of_the_last_run_and_the_wake_up() {
        let [one, other] = [1, 2].map(|lwp| Track::Lwp { runtime: 1, lwp });
        let event = |kind, thread, track| (event::Event::new(7, kind, thread), track);
        let kinds = |events: &[(event::Event, Track)]| {
            events.iter().map(|(event, _)| (event.kind, event.thread)).collect::<Vec<_>>()
        };
        let mut events = [
            event(Kind::Dispatch, 5, one),
            event(Kind::Dispatch, 4, other),
            event(Kind::Block, 5, other),
            event(Kind::Ready, 5, other),
        ];
        dispatch_last(&mut events);
        let sorted = [(Kind::Block, 5), (Kind::Ready, 5), (Kind::Dispatch, 5), (Kind::Dispatch, 4)];
        assert_eq!(kinds(&events), sorted);
        let mut short = [event(Kind::Dispatch, 5, one), event(Kind::Yield, 5, one)];
        dispatch_last(&mut short);
        assert_eq!(kinds(&short), [(Kind::Dispatch, 5), (Kind::Yield, 5)], "a run of no time");
    }
}
