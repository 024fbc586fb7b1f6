//! From events to spans: what each thread and each LWP did, from when to when. A pure function of a
//! recording.

mod cpus;

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

pub use self::cpus::CpuLine;
use self::cpus::Cpus;
use super::event::{Event, EventKind, Track};
use super::recording::Recording;
use crate::park::reason::WaitReason;
use crate::recorder::account;
use crate::thread::id::ThreadId;

/// What a thread does, by ThreadMon's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// It is on an LWP. That may be on a CPU, or wait for one.
    Running,
    /// It is runnable, and an LWP was chosen for it.
    Dispatchable,
    /// It is runnable, and in a run queue.
    Runnable,
    /// It waits for something.
    Blocked,
    /// It waits for a time to pass.
    Sleeping,
    /// It is on an LWP, and has announced that it may block in the kernel. Or the monitor has found that it
    /// sleeps there.
    InKernel,
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Dispatchable, Self::Runnable, Self::Blocked, Self::Sleeping, Self::InKernel];

    /// Returns the word for the state.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Running => "on LWP",
            Self::Dispatchable => "dispatchable",
            Self::Runnable => "run queue",
            Self::Blocked => "blocked",
            Self::Sleeping => "sleeping",
            Self::InKernel => "in kernel",
        }
    }

    /// Returns the state of a thread that waits for this reason.
    pub(crate) fn of_wait(reason: WaitReason) -> Self {
        if reason == WaitReason::Sleep { Self::Sleeping } else { Self::Blocked }
    }
}

impl From<account::State> for State {
    fn from(state: account::State) -> Self {
        match state {
            account::State::Running => Self::Running,
            account::State::Dispatchable => Self::Dispatchable,
            account::State::Queued => Self::Runnable,
            account::State::Blocked => Self::Blocked,
            account::State::Sleeping => Self::Sleeping,
            account::State::InKernel => Self::InKernel,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A thread was in one state, from one time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// When it began, since the start of the recording.
    pub from: Duration,
    /// When it ended.
    pub to: Duration,
    /// The state.
    pub state: State,
    /// The kernel thread that it was on, if it was on one.
    pub track: Option<Track>,
    /// What it waited for, and the address of that.
    pub wait: Option<(WaitReason, Option<usize>)>,
}

impl Span {
    /// Returns how long it lasted.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.to - self.from
    }
}

/// What one thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadLine {
    /// The thread.
    pub id: ThreadId,
    /// Its spans, each of which begins where the one before ended.
    pub spans: Vec<Span>,
    /// How often its time slice was over.
    pub preemptions: usize,
    /// `true` if its start was recorded.
    pub begins: bool,
    /// `true` if its end was recorded.
    pub ends: bool,
}

impl ThreadLine {
    /// Returns how long it was in a state.
    #[must_use]
    pub fn time_in(&self, state: State) -> Duration {
        self.spans.iter().filter(|span| span.state == state).map(Span::length).sum()
    }

    /// Returns from its first recorded moment to its last.
    #[must_use]
    pub fn length(&self) -> Duration {
        match self.spans.as_slice() {
            [first, .., last] => last.to - first.from,
            [only] => only.length(),
            [] => Duration::ZERO,
        }
    }
}

/// What an LWP did in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrackState {
    /// It ran this thread.
    Runs(ThreadId),
    /// It looked for work.
    Searches,
    /// It slept, with a slot.
    Idle,
    /// It slept, without a slot.
    Spare,
    /// It ran threads that are not in the [sample](super::set_sample).
    RunsOthers,
}

/// What one kernel thread did. Spans do not overlap, and there may be gaps: after the end of an LWP there is
/// one, until another kernel thread takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackLine {
    /// Which one.
    pub track: Track,
    /// From when, to when, and what.
    pub spans: Vec<(Duration, Duration, TrackState)>,
}

/// One thread made another runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wake {
    /// When.
    pub at: Duration,
    /// The kernel thread on which the waker ran.
    pub track: Track,
    /// The waker; `None` for a timer.
    pub by: Option<ThreadId>,
    /// The thread that became runnable.
    pub thread: ThreadId,
    /// When that began to run, and where; `None` if it had not by the end.
    pub ran: Option<(Duration, Track)>,
}

/// A recording as spans: for drawings, sums and explanations.
///
/// # Examples
///
/// ```
/// use selvedge::trace::{self, Level, Recording, State, Timeline};
/// use selvedge::{OneToOne, Runtime, thread};
/// use std::time::Duration;
///
/// trace::set_level(Level::Events);
/// let rt = OneToOne::new()?;
/// rt.spawn(|| thread::sleep(Duration::from_millis(5))).join().unwrap();
/// let timeline = Timeline::of(&Recording::take());
/// trace::set_level(Level::Off);
/// let slept: Duration = timeline.threads().iter().map(|line| line.time_in(State::Sleeping)).sum();
/// assert!(slept >= Duration::from_millis(4), "{slept:?}");
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    threads: Vec<ThreadLine>,
    tracks: Vec<TrackLine>,
    cpus: Vec<CpuLine>,
    wakes: Vec<Wake>,
    end: Duration,
}

impl Timeline {
    /// Builds the spans of a recording. What a thread did before its first event is not known, so its line
    /// begins there.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        Self::since(recording, Duration::ZERO)
    }

    /// Builds the spans since [the moment](Recording::whole_since) from which on no events are missing. What
    /// a thread did at that moment is not known, so its line begins with its next event.
    pub(super) fn of_whole(recording: &Recording) -> Self {
        Self::since(recording, recording.whole_since().unwrap_or_default())
    }

    fn since(recording: &Recording, since: Duration) -> Self {
        let builder = Builder { is_sample: recording.sampled().get() > 1, ..Builder::default() };
        let events = recording.events();
        builder.build(&events[events.partition_point(|event| event.at < since)..], recording.length())
    }

    /// Builds the spans of these events, in the order of time, until `end`. Times are those of the events: of
    /// a [recording](Recording::events), or of one thread's
    /// [history](crate::threadmon::HistoryView::events).
    ///
    /// # Examples
    ///
    /// ```
    /// use selvedge::trace::{self, EventKind, Level, Recording, Timeline};
    /// use selvedge::{OneToOne, Runtime, thread};
    ///
    /// trace::set_level(Level::Events);
    /// let rt = OneToOne::new()?;
    /// let id = rt.run(|| thread::current().id());
    /// let recording = Recording::take();
    /// trace::set_level(Level::Off);
    /// // The events of one thread.
    /// let of_it = recording.events().iter().filter(|event| event.thread == Some(id));
    /// let events: Vec<_> = of_it.copied().collect();
    /// let timeline = Timeline::of_events(&events, recording.length());
    /// assert_eq!(timeline.threads().len(), 1);
    /// # std::io::Result::Ok(())
    /// ```
    #[must_use]
    pub fn of_events(events: &[Event], end: Duration) -> Self {
        Builder::default().build(events, end)
    }

    crate::shown::getters! {
        /// Returns the lines of threads, in the order of their identities.
        fn threads(&self) -> &[ThreadLine] = &self.threads;
        /// Returns the lines of kernel threads.
        fn tracks(&self) -> &[TrackLine] = &self.tracks;
        /// Returns the lines of the CPUs on which threads began to run.
        fn cpus(&self) -> &[CpuLine] = &self.cpus;
        /// Returns all wake-ups, in the order of time.
        fn wakes(&self) -> &[Wake] = &self.wakes;
        /// Returns when the recording was taken, since its first event.
        fn end(&self) -> Duration = self.end;
    }
}

/// A thread while its line is built.
struct Thread {
    line: ThreadLine,
    /// The span that has not ended.
    open: Option<Span>,
    /// A waker came before the thread had stopped: whether an LWP was chosen.
    early: Option<bool>,
    /// Its last wake-up, until it runs.
    woken: Option<usize>,
    /// The open span is that of a sleep which the monitor has found.
    found: bool,
}

#[derive(Default)]
struct Builder {
    threads: HashMap<ThreadId, Thread>,
    tracks: HashMap<Track, (TrackLine, Option<(Duration, TrackState)>)>,
    cpus: Cpus,
    wakes: Vec<Wake>,
    /// LWPs run threads that are not in the recording.
    is_sample: bool,
}

impl Builder {
    fn add(&mut self, event: &Event) {
        let Event { at, track, .. } = *event;
        match (event.kind, event.thread) {
            (EventKind::Search, _) => self.track(track, at, Some(TrackState::Searches)),
            (EventKind::Idle, _) => self.track(track, at, Some(TrackState::Idle)),
            (EventKind::Spare, _) => self.track(track, at, Some(TrackState::Spare)),
            // It does nothing until its next event. After its end, another kernel thread may take its place.
            (EventKind::LwpStart { .. } | EventKind::LwpEnd, _) => self.track(track, at, None),
            (EventKind::Dispatch { .. }, None) => self.track(track, at, Some(TrackState::RunsOthers)),
            (EventKind::FoundAsleep { runtime, lwp }, Some(id)) => {
                self.asleep(id, at, Track::Lwp { runtime, lwp });
            }
            (EventKind::FoundRunning { runtime, lwp, cpu }, Some(id)) => {
                self.awake(id, at, Track::Lwp { runtime, lwp }, cpu);
            }
            (kind, Some(id)) => self.thread(id, at, track, kind),
            _ => {}
        }
    }

    fn thread(&mut self, id: ThreadId, at: Duration, track: Track, kind: EventKind) {
        let runnable = |chosen| if chosen { State::Dispatchable } else { State::Runnable };
        let thread = self.threads.entry(id).or_insert_with(|| Thread {
            line: ThreadLine { id, spans: Vec::new(), preemptions: 0, begins: false, ends: false },
            open: None,
            early: None,
            woken: None,
            found: false,
        });
        let runs = |state| matches!(state, State::Running | State::InKernel);
        match kind {
            EventKind::Spawn { .. } => {
                thread.line.begins = true;
                thread.enter(at, State::Runnable, None, None);
            }
            EventKind::Ready { by, chosen } => {
                if thread.open.is_some_and(|open| runs(open.state)) {
                    thread.early = Some(chosen);
                } else if !thread.line.ends {
                    // (One that has ended was a kernel thread, and its waker is late.)
                    thread.enter(at, runnable(chosen), None, None);
                }
                thread.woken = Some(self.wakes.len());
                self.wakes.push(Wake { at, track, by, thread: id, ran: None });
            }
            EventKind::Dispatch { cpu } => {
                thread.early = None;
                thread.enter(at, State::Running, Some(track), None);
                if let Some(wake) = thread.woken.take() {
                    self.wakes[wake].ran = Some((at, track));
                }
                self.track(track, at, Some(TrackState::Runs(id)));
                self.cpus.begin(cpu, at, id, track);
            }
            EventKind::Block { reason, at: object } => {
                // A kernel thread may run, and wait again, before its waker has told of the wake-up. If the
                // waker was early instead, the thread does not sleep.
                match thread.early.take().filter(|_| matches!(track, Track::Lwp { .. })) {
                    Some(chosen) => thread.enter(at, runnable(chosen), None, None),
                    None => thread.enter(at, State::of_wait(reason), None, Some((reason, object))),
                }
                self.stops(track, at);
            }
            EventKind::Yield | EventKind::Preempt => {
                thread.line.preemptions += usize::from(kind == EventKind::Preempt);
                thread.enter(at, State::Runnable, None, None);
                self.stops(track, at);
            }
            EventKind::Exit => {
                thread.close(at);
                thread.line.ends = true;
                self.stops(track, at);
            }
            EventKind::EnterKernel => {
                thread.enter(at, State::InKernel, Some(track), None);
                self.cpus.end(track, at);
            }
            EventKind::LeaveKernel { cpu } => {
                thread.enter(at, State::Running, Some(track), None);
                self.cpus.begin(cpu, at, id, track);
            }
            _ => {}
        }
    }

    /// A thread sleeps in the kernel, as the monitor has found. The monitor may be late: the thread must run
    /// there, by its own events.
    fn asleep(&mut self, id: ThreadId, at: Duration, on: Track) {
        if let Some(thread) = self.threads.get_mut(&id)
            && thread.open.is_some_and(|open| open.state == State::Running && open.track == Some(on))
        {
            thread.enter(at, State::InKernel, Some(on), None);
            thread.found = true;
            self.cpus.end(on, at);
        }
    }

    /// That sleep is over.
    fn awake(&mut self, id: ThreadId, at: Duration, on: Track, cpu: Option<u32>) {
        if let Some(thread) = self.threads.get_mut(&id)
            && thread.found
            && thread.open.is_some_and(|open| open.track == Some(on))
        {
            thread.enter(at, State::Running, Some(on), None);
            self.cpus.begin(cpu, at, id, on);
        }
    }

    /// Ends a thread's time on a kernel thread. An LWP then runs another thread, if no event says what it
    /// does.
    fn stops(&mut self, track: Track, at: Duration) {
        let others = self.is_sample && matches!(track, Track::Lwp { .. });
        self.track(track, at, others.then_some(TrackState::RunsOthers));
    }

    /// Ends what a kernel thread did, and begins the next.
    fn track(&mut self, track: Track, at: Duration, next: Option<TrackState>) {
        self.cpus.end(track, at);
        let (line, open) =
            self.tracks.entry(track).or_insert_with(|| (TrackLine { track, spans: Vec::new() }, None));
        if let Some((from, state)) = open.take()
            && (from < at || state != TrackState::RunsOthers)
        {
            line.spans.push((from, at, state));
        }
        *open = next.map(|state| (at, state));
    }

    fn build(mut self, events: &[Event], end: Duration) -> Timeline {
        events.iter().for_each(|event| self.add(event));
        self.finish(events.last().map_or(end, |last| last.at.max(end)))
    }

    fn finish(mut self, end: Duration) -> Timeline {
        let open: Vec<Track> = self.tracks.keys().copied().collect();
        open.into_iter().for_each(|track| self.track(track, end, None));
        let mut tracks: Vec<_> = self.tracks.into_values().map(|(line, _)| line).collect();
        tracks.sort_by_key(|line| line.track);
        let mut threads: Vec<_> = self
            .threads
            .into_values()
            .map(|mut thread| {
                thread.close(end);
                thread.line
            })
            .collect();
        threads.sort_by_key(|line| line.id);
        Timeline { threads, tracks, cpus: self.cpus.finish(end), wakes: self.wakes, end }
    }
}

impl Thread {
    /// Ends the open span, and begins another.
    fn enter(
        &mut self,
        at: Duration,
        state: State,
        track: Option<Track>,
        wait: Option<(WaitReason, Option<usize>)>,
    ) {
        self.close(at);
        self.open = Some(Span { from: at, to: at, state, track, wait });
    }

    fn close(&mut self, at: Duration) {
        self.found = false;
        if let Some(open) = self.open.take() {
            // A clock of another CPU may be behind by a little.
            self.line.spans.push(Span { to: at.max(open.from), ..open });
        }
    }
}

#[cfg(test)]
mod tests;
