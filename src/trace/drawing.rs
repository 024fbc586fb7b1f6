//! What a viewer of traces draws: lines with bars, arrows between them, and curves. The formats differ only
//! in how they spell it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::event::{Event, EventKind, Track};
use super::groups;
use super::recording::Recording;
use super::timeline::{Span, State, ThreadLine, Timeline, TrackState};
use crate::thread::id::ThreadId;

/// The most threads that get lines of their own.
pub(super) const MOST_THREADS: usize = 1_000;

/// What lines stand under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Heading {
    KernelThreads,
    Threads,
    Cpus,
    /// Threads that have no lines of their own.
    Groups,
}

/// One line of the drawing.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) heading: Heading,
    /// No other line under the heading has this number.
    pub(super) number: u64,
    /// They do not overlap.
    pub(super) bars: Vec<Bar>,
    /// What happened at one moment, in the order of time.
    pub(super) marks: Vec<(Duration, String)>,
}

/// One bar on a line.
pub(super) struct Bar {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) name: String,
}

/// A thread made another runnable, and that ran then.
pub(super) struct Arrow {
    pub(super) from: Duration,
    /// A position in `Drawing::lines`.
    pub(super) from_line: usize,
    pub(super) to: Duration,
    pub(super) to_line: usize,
}

/// Numbers over time, under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) heading: Heading,
    /// Each with the name of what it counts, if there are several.
    pub(super) curves: Vec<(&'static str, Curve)>,
}

/// A number from a moment on, until the next.
pub(super) type Curve = Vec<(Duration, u64)>;

pub(super) struct Drawing {
    /// The headings that have something, and their names.
    pub(super) headings: Vec<(Heading, String)>,
    pub(super) lines: Vec<Line>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) charts: Vec<Chart>,
}

impl Drawing {
    pub(super) fn of(recording: &Recording) -> Self {
        let timeline = Timeline::of_whole(recording);
        let name = |id: ThreadId| match recording.name(id) {
            Some(name) => name.to_owned(),
            None => format!("thread {}", id.as_u64().get()),
        };
        let mut marks = marks(recording.events());
        let mut lines = Vec::new();
        let mut line_of = HashMap::new();
        for (number, line) in timeline.tracks().iter().enumerate() {
            line_of.insert(line.track, lines.len());
            let bars = line.spans.iter().map(|&(from, to, state)| {
                let name = match state {
                    TrackState::Runs(id) => name(id),
                    TrackState::Searches => "(searches)".into(),
                    TrackState::Idle => "(idle)".into(),
                    TrackState::Spare => "(spare)".into(),
                    TrackState::RunsOthers => "(threads that are not in the sample)".into(),
                };
                Bar { from, to, name }
            });
            let name = track_name(line.track);
            let (marks, heading) = (marks.remove(&line.track).unwrap_or_default(), Heading::KernelThreads);
            lines.push(Line { name, heading, number: number as u64, bars: bars.collect(), marks });
        }
        let (drawn, rest) = most(&timeline);
        for line in drawn {
            let bars =
                line.spans.iter().map(|span| Bar { from: span.from, to: span.to, name: bar_name(span) });
            lines.push(Line {
                name: name(line.id),
                heading: Heading::Threads,
                number: line.id.as_u64().get(),
                bars: bars.collect(),
                marks: Vec::new(),
            });
        }
        for line in timeline.cpus().iter().take(MOST_THREADS) {
            let bars = line.spans.iter().map(|&(from, to, id, track)| {
                let name = format!("{}, on {}", name(id), track_name(track));
                Bar { from, to, name }
            });
            lines.push(Line {
                name: format!("CPU {}", line.cpu),
                heading: Heading::Cpus,
                number: line.cpu.into(),
                bars: bars.collect(),
                marks: Vec::new(),
            });
        }
        let arrows = timeline.wakes().iter().filter_map(|wake| {
            let (to, track) = wake.ran?;
            let (from_line, to_line) = (*line_of.get(&wake.track)?, *line_of.get(&track)?);
            Some(Arrow { from: wake.at, from_line, to, to_line })
        });
        let arrows = arrows.collect();
        let charts = [runnable(recording, &timeline), groups::of(recording, &rest)].concat();
        let threads = match recording.sampled().get() {
            1 => "threads".into(),
            one_of => format!("threads (a sample: one of {one_of})"),
        };
        let kernel_threads = match recording.whole_since() {
            None | Some(Duration::ZERO) => "kernel threads".into(),
            Some(since) => format!("kernel threads (from {since:.3?} on: earlier events are missing)"),
        };
        let headings = [
            (Heading::KernelThreads, kernel_threads),
            (Heading::Threads, threads),
            (Heading::Cpus, "CPUs (where threads began to run)".into()),
            (Heading::Groups, format!("{} more threads, by name", rest.len())),
        ];
        let is_there = |heading| match heading {
            Heading::KernelThreads | Heading::Threads => true,
            Heading::Cpus => !timeline.cpus().is_empty(),
            Heading::Groups => !rest.is_empty(),
        };
        let headings = headings.into_iter().filter(|&(heading, _)| is_there(heading)).collect();
        Self { headings, lines, arrows, charts }
    }
}

fn track_name(track: Track) -> String {
    match track {
        Track::Lwp { runtime, lwp } => format!("runtime {runtime}, LWP {lwp}"),
        Track::Kernel(number) => format!("kernel thread {number}"),
    }
}

/// Returns what is marked on the lines of LWPs: when they began and ended, and when they were given slots.
fn marks(events: &[Event]) -> HashMap<Track, Vec<(Duration, String)>> {
    let mut marks: HashMap<Track, Vec<_>> = HashMap::new();
    for event in events {
        let (track, text) = match event.kind {
            EventKind::LwpStart { tid } => (event.track, format!("begins, as kernel thread {tid}")),
            EventKind::LwpEnd => (event.track, "ends".into()),
            EventKind::SlotMove { runtime, from, to, cause } => {
                let (lwp, text) = match (from, to) {
                    (Some(from), Some(to)) => (to, format!("gets the slot of LWP {from}: {cause}")),
                    (None, Some(to)) => (to, format!("gets one slot more: {cause}")),
                    (Some(from), None) => (from, format!("loses its slot: {cause}")),
                    (None, None) => continue,
                };
                (Track::Lwp { runtime, lwp }, text)
            }
            _ => continue,
        };
        marks.entry(track).or_default().push((event.at, text));
    }
    marks
}

/// Returns the threads that get lines: those with the most spans, if they are too many. And the other
/// threads.
fn most(timeline: &Timeline) -> (Vec<&ThreadLine>, Vec<&ThreadLine>) {
    let mut threads: Vec<_> = timeline.threads().iter().collect();
    if threads.len() <= MOST_THREADS {
        return (threads, Vec::new());
    }
    threads.sort_by_key(|line| std::cmp::Reverse(line.spans.len()));
    let rest = threads.split_off(MOST_THREADS);
    threads.sort_by_key(|line| line.id);
    (threads, rest)
}

fn bar_name(span: &Span) -> String {
    match (span.state, span.wait) {
        (_, Some((reason, Some(at)))) => format!("{}: {reason} at {at:#x}", span.state),
        (_, Some((reason, None))) => format!("{}: {reason}", span.state),
        (state, None) => state.to_string(),
    }
}

/// Counts the threads that are runnable and do not run, of each runtime: the length of its run queues.
/// Threads that own kernel threads wait for the kernel.
fn runnable(recording: &Recording, timeline: &Timeline) -> Vec<Chart> {
    let waits = |span: &&Span| matches!(span.state, State::Runnable | State::Dispatchable);
    let mut spans: BTreeMap<Option<u32>, Vec<&Span>> = BTreeMap::new();
    for line in timeline.threads() {
        let of = spans.entry(recording.runtime_of(line.id)).or_default();
        of.extend(line.spans.iter().filter(waits));
    }
    let charts = spans.into_iter().filter(|(_, spans)| !spans.is_empty()).map(|(runtime, spans)| {
        let name = match runtime {
            Some(runtime) => format!("runnable threads of runtime {runtime}"),
            None => "runnable threads with kernel threads of their own".into(),
        };
        Chart { name, heading: Heading::Threads, curves: vec![("threads", count(spans))] }
    });
    charts.take(MOST_THREADS).collect()
}

/// Counts how many of these spans there are at each moment.
pub(super) fn count<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Curve {
    let mut changes: Vec<(Duration, i64)> =
        spans.into_iter().flat_map(|span| [(span.from, 1), (span.to, -1)]).collect();
    changes.sort();
    let mut count = 0;
    let mut curve: Curve = Vec::new();
    for (at, change) in changes {
        count += change;
        let value = u64::try_from(count).unwrap_or(0);
        match curve.last_mut() {
            Some(last) if last.0 == at => last.1 = value,
            _ => curve.push((at, value)),
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::super::event::SlotCause;
    use super::*;
    use crate::park::reason::WaitReason;

    /// What happens at one moment stands on the line of the LWP that it happens to.
    #[test]
    fn slots_and_lives_are_marks() {
        let lwp = |lwp| Track::Lwp { runtime: 1, lwp };
        let monitor = Track::Kernel(7);
        let moves = |from| EventKind::SlotMove { runtime: 1, from, to: Some(1), cause: SlotCause::InKernel };
        let less = EventKind::SlotMove { runtime: 1, from: Some(1), to: None, cause: SlotCause::Concurrency };
        let events = [
            (lwp(1), EventKind::LwpStart { tid: 70 }),
            (lwp(1), EventKind::Spare),
            (monitor, moves(Some(0))),
            (lwp(1), EventKind::Search),
            (lwp(1), EventKind::Spare),
            (monitor, moves(None)),
            // It is not in the recording.
            (monitor, EventKind::SlotMove { runtime: 1, from: None, to: Some(9), cause: SlotCause::Home }),
            (monitor, less),
            (lwp(1), EventKind::LwpEnd),
        ];
        let events = (0..).zip(events).map(|(us, (track, kind))| {
            let at = Duration::from_micros(us);
            Event { at, track, thread: None, kind }
        });
        let recording = Recording::from_events(events.collect());
        let drawing = Drawing::of(&recording);
        let [line] = &drawing.lines[..] else { panic!("the monitor does nothing") };
        let marks: Vec<_> = line.marks.iter().map(|(at, text)| (at.as_micros(), text.as_str())).collect();
        assert_eq!(
            marks,
            [
                (0, "begins, as kernel thread 70"),
                (2, "gets the slot of LWP 0: a thread slept in the kernel"),
                (5, "gets one slot more: a thread slept in the kernel"),
                (7, "loses its slot: the concurrency has changed"),
                (8, "ends")
            ]
        );
        let mut chrome = Vec::new();
        recording.write_chrome(&mut chrome).unwrap();
        let chrome = String::from_utf8(chrome).unwrap();
        let ends = r#"{"ph":"i","s":"t","name":"ends","pid":1,"tid":0,"ts":8.000}"#;
        assert!(chrome.contains(ends), "{chrome}");
        let mut perfetto = Vec::new();
        recording.write_perfetto(&mut perfetto).unwrap();
        let begins = b"begins, as kernel thread 70";
        assert!(perfetto.windows(begins.len()).any(|bytes| bytes == begins));
    }

    /// A thread may have run, and waited for something else, in a time of which events are missing.
    #[test]
    fn nothing_is_drawn_of_a_time_that_has_gaps() {
        let track = Track::Lwp { runtime: 1, lwp: 0 };
        let runs = EventKind::Dispatch { cpu: Some(0) };
        let waits = EventKind::Block { reason: WaitReason::Mutex, at: Some(0x10) };
        let ready = EventKind::Ready { by: None, chosen: false };
        let events = [
            (1, 1, runs),
            (2, 1, waits),
            (3, 2, ready),
            (4, 2, runs),
            // Here, events are missing.
            (50, 3, runs),
            (60, 3, EventKind::Yield),
            (61, 2, runs),
            (70, 1, ready),
        ];
        let events = events.map(|(us, thread, kind)| {
            let thread = Some(ThreadId::from_number(std::num::NonZeroU64::new(thread).unwrap()));
            Event { at: Duration::from_micros(us), track, thread, kind }
        });
        let since = Duration::from_micros(50);
        let drawing = Drawing::of(&Recording::from_events(events.to_vec()).whole_from(since));
        let bars = drawing.lines.iter().flat_map(|line| &line.bars);
        assert_eq!(bars.filter(|bar| bar.from < since).map(|bar| &bar.name).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(drawing.arrows.len(), 0, "of thread 2, which may have run meanwhile");
        assert!(drawing.charts.iter().flat_map(|it| &it.curves).all(|(_, curve)| curve[0].0 >= since));
        let first = drawing.lines.iter().find(|line| line.heading == Heading::Threads && line.number == 1);
        let first: Vec<_> = first.unwrap().bars.iter().map(|bar| bar.name.as_str()).collect();
        assert_eq!(first, ["run queue"], "it may have waited for another mutex before");
        assert_eq!(
            drawing.headings[0].1,
            "kernel threads (from 50.000\u{b5}s on: earlier events are missing)"
        );
    }

    /// If there are too many threads, those that did most have lines, in the order of their identities.
    #[test]
    fn the_busiest_threads_have_lines() {
        let track = Track::Lwp { runtime: 1, lwp: 0 };
        let (all, busy) = (MOST_THREADS as u64 + 10, MOST_THREADS as u64);
        let events = (1..=all).flat_map(|thread| {
            let run = [EventKind::Dispatch { cpu: None }, EventKind::Yield];
            run.repeat(if thread > busy { 2 } else { 1 }).into_iter().map(move |kind| (thread, kind))
        });
        let events = (0..).zip(events).map(|(us, (thread, kind))| {
            let thread = Some(ThreadId::from_number(std::num::NonZeroU64::new(thread).unwrap()));
            Event { at: Duration::from_micros(us), track, thread, kind }
        });
        let drawing = Drawing::of(&Recording::from_events(events.collect()));
        let lines = drawing.lines.iter().filter(|line| line.heading == Heading::Threads);
        let numbers: Vec<u64> = lines.map(|line| line.number).collect();
        assert_eq!(numbers.len(), MOST_THREADS);
        assert!(numbers.is_sorted());
        assert!((busy + 1..=all).all(|thread| numbers.contains(&thread)), "{:?}", numbers.last());
    }

    /// Each runtime has a curve of its own, and so have the threads with kernel threads of their own.
    #[test]
    fn runnable_threads_are_counted_by_runtime() {
        let [one, other] = [1, 2].map(|runtime| Track::Lwp { runtime, lwp: 0 });
        let runs = EventKind::Dispatch { cpu: None };
        let ready = EventKind::Ready { by: None, chosen: false };
        let events = [
            (one, 1, EventKind::Yield),
            (other, 2, EventKind::Yield),
            (one, 3, EventKind::Preempt),
            (Track::Kernel(0), 4, ready),
            (one, 1, runs),
            (other, 2, runs),
            (one, 3, runs),
            (Track::Kernel(1), 4, runs),
        ];
        let events = (0..).zip(events).map(|(us, (track, thread, kind))| {
            let thread = Some(ThreadId::from_number(std::num::NonZeroU64::new(thread).unwrap()));
            Event { at: Duration::from_micros(us), track, thread, kind }
        });
        let drawing = Drawing::of(&Recording::from_events(events.collect()));
        let charts: Vec<_> = drawing
            .charts
            .iter()
            .map(|chart| {
                let [(_, curve)] = &chart.curves[..] else { panic!("one curve") };
                let curve: Vec<_> = curve.iter().map(|&(at, count)| (at.as_micros(), count)).collect();
                (chart.name.as_str(), curve)
            })
            .collect();
        assert_eq!(
            charts,
            [
                ("runnable threads with kernel threads of their own", vec![(3, 1), (7, 0)]),
                ("runnable threads of runtime 1", vec![(0, 1), (2, 2), (4, 1), (6, 0)]),
                ("runnable threads of runtime 2", vec![(1, 1), (5, 0)]),
            ]
        );
    }
}
