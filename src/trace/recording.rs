//! A copy of all rings: what happened on each kernel thread, in the order of time.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::time::Duration;

use super::event::{Event, Track, id, kind_of};
use super::order;
use super::raw::{LONGEST_NAME, Raw};
use crate::recorder::event::{self, Kind};
use crate::runtime::registry::Facts;
use crate::thread::id::ThreadId;

/// The shortest time that is not zero.
const SHORTEST: Duration = Duration::from_nanos(1);

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
    /// How many CPUs it had [of its own](crate::mxn::Builder::cpus); `None` if it might use all that the
    /// process might use.
    pub cpus: Option<usize>,
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
            cpus: Some(facts.cpus as usize).filter(|&cpus| cpus != 0),
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
    /// The numbers of the runtimes of green threads.
    runtimes: HashMap<ThreadId, u32>,
    tracks: Vec<Track>,
    length: Duration,
    whole_since: Option<Duration>,
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

    pub(super) fn of(raw: Raw) -> Self {
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
        order::sort(&mut all);
        tracks.sort();
        let end = raw.scale.map(|scale| scale.end()).or(all.last().map(|(event, _)| event.count));
        // Without events, it has no length.
        let start = all.first().map(|(event, _)| event.count).or(end).unwrap_or_default();
        let span = |counts| raw.scale.map_or(counts, |scale| scale.span(counts));
        let length = Duration::from_nanos(span(end.unwrap_or(0).saturating_sub(start)));
        let whole_since = raw.lwps_whole_since.map(|count| match count {
            0 => Duration::ZERO,
            // Not zero, though it may be the first event: those before it are missing.
            _ => Duration::from_nanos(span(count.saturating_sub(start))).min(length).max(SHORTEST),
        });
        let runtimes = runtimes(&all);
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
        Self { events: events.collect(), names, runtimes, tracks, length, whole_since, raw }
    }

    /// Adds names of threads, by `ThreadView::id` of `threadmon`: of those that were started before events
    /// were recorded. The first 256 bytes of a name are kept.
    pub fn add_names(&mut self, names: impl IntoIterator<Item = (u64, String)>) {
        for (number, mut name) in names {
            let end = (0..=LONGEST_NAME).rev().find(|&end| name.is_char_boundary(end));
            name.truncate(end.unwrap_or(0));
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
        let runtimes = events.iter().filter_map(|event| match (event.thread, event.track) {
            (Some(id), Track::Lwp { runtime, .. }) => Some((id, runtime)),
            _ => None,
        });
        Self { runtimes: runtimes.collect(), events, length, ..Self::default() }
    }

    /// Returns the recording with these names of threads, for tests.
    #[cfg(test)]
    pub(super) fn with_names(mut self, names: impl IntoIterator<Item = (u64, String)>) -> Self {
        self.add_names(names);
        self
    }

    /// Lets the recording say that it is of one thread in `one_of`.
    #[cfg(test)]
    pub(super) fn sampled_by(mut self, one_of: u32) -> Self {
        self.raw.one_of = NonZeroU32::new(one_of);
        self
    }

    /// Lets the recording say that events may be missing before this moment.
    #[cfg(test)]
    pub(super) fn whole_from(mut self, since: Duration) -> Self {
        self.whole_since = Some(since);
        self
    }

    crate::shown::getters! {
        /// Returns the events, in the order of time.
        fn events(&self) -> &[Event] = &self.events;
        /// Returns the time from the first event to the moment when the recording was taken. Nothing has
        /// happened since the last event, or it is missing. Without events, it is zero.
        fn length(&self) -> Duration = self.length;
        /// Returns from when on the events of all LWPs are there: how long after the first event of all. Zero
        /// if none is missing, `None` if that is not known: a file was not written to its end.
        ///
        /// An LWP with many events may have overwritten its first ones, while those of other LWPs are still
        /// there. A state from before this moment may have ended earlier than the [timeline](super::Timeline)
        /// shows. Other kernel threads have shorter [rings](super::set_ring_events). What these have
        /// overwritten does not count here.
        ///
        /// # Examples
        ///
        /// ```
        /// use selvedge::trace::{self, Level, Recording};
        /// use selvedge::{Mxn, Runtime, thread};
        /// use std::time::Duration;
        ///
        /// trace::set_level(Level::Events);
        /// let rt = Mxn::builder().concurrency(1).build()?;
        /// rt.run(|| (0..10).for_each(|_| thread::spawn(|| ()).join().unwrap()));
        /// assert_eq!(Recording::take().whole_since(), Some(Duration::ZERO));
        /// rt.run(|| (0..20_000).for_each(|_| thread::spawn(|| ()).join().unwrap()));
        /// assert!(Recording::take().whole_since() > Some(Duration::ZERO));
        /// # std::io::Result::Ok(())
        /// ```
        fn whole_since(&self) -> Option<Duration> = self.whole_since;
        /// Returns the kernel threads on which anything happened.
        fn tracks(&self) -> &[Track] = &self.tracks;
        /// Returns why the recording was written, if a crash was the reason.
        fn reason(&self) -> Option<&str> = Some(self.raw.why.as_str()).filter(|why| !why.is_empty());
    }

    /// Returns what is known of the runtimes, by number. A recording of a crash has what was known shortly
    /// before, and may lack a runtime that was about to change, or one of more than a hundred.
    pub fn runtimes(&self) -> impl Iterator<Item = RuntimeFacts> + '_ {
        self.raw.facts.iter().map(RuntimeFacts::of)
    }

    crate::shown::getters! {
        /// Returns how many CPUs the process might use; 0 if that is not known.
        fn cpus(&self) -> usize = self.raw.cpus as usize;
        /// Returns of how many threads one [recorded events](super::set_sample): 1 if all did. Of other
        /// threads, there is nothing but what the threads of the sample did to them.
        fn sampled(&self) -> NonZeroU32 = self.raw.one_of.unwrap_or(NonZeroU32::MIN);
    }

    /// Returns the name of a thread, or the first 48 bytes of it, if the thread was started while events were
    /// recorded, or [was named](Self::add_names). Of threads that live long, about a thousand names are kept.
    /// Other names are events, and as soon overwritten.
    #[must_use]
    pub fn name(&self, thread: ThreadId) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }

    /// Returns the number of the runtime of which a thread is a green one. `None`: it owns a kernel thread,
    /// or has no events.
    #[must_use]
    pub fn runtime_of(&self, thread: ThreadId) -> Option<u32> {
        self.runtimes.get(&thread).copied()
    }
}

/// Returns the runtimes of all green threads: those of the LWPs that they ran on, or those that wakers name.
fn runtimes(all: &[(event::Event, Track)]) -> HashMap<ThreadId, u32> {
    let mut runtimes = HashMap::new();
    for (event, track) in all {
        let runtime = match (event.kind, track) {
            (Kind::Spawn | Kind::Ready, _) if event.number != 0 => event.number,
            (Kind::Spawn | Kind::Ready, _) => continue,
            (_, &Track::Lwp { runtime, .. }) => runtime,
            _ => continue,
        };
        if let Some(id) = id(event.thread) {
            runtimes.insert(id, runtime);
        }
    }
    runtimes
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
