//! What a viewer of traces draws: lines with bars, arrows between them, and one curve. The formats differ
//! only in how they spell it.

use std::collections::HashMap;
use std::time::Duration;

use super::recording::{Event, EventKind, Recording, Track};
use super::timeline::{Span, State, Timeline, TrackState};
use crate::thread::id::ThreadId;

/// The most threads that get lines of their own.
const MOST_THREADS: usize = 1_000;

/// One line of the drawing.
pub(super) struct Line {
    pub(super) name: String,
    /// It is a kernel thread's. Otherwise it is a thread's.
    pub(super) is_kernel: bool,
    /// No other line of its kind has this number.
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

pub(super) struct Drawing {
    /// What the lines of threads are called together.
    pub(super) threads: String,
    pub(super) lines: Vec<Line>,
    pub(super) arrows: Vec<Arrow>,
    /// How many threads are runnable and do not run, from when on.
    pub(super) runnable: Vec<(Duration, u64)>,
}

impl Drawing {
    pub(super) fn of(recording: &Recording) -> Self {
        let timeline = Timeline::of(recording);
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
            let name = match line.track {
                Track::Lwp { runtime, lwp } => format!("runtime {runtime}, LWP {lwp}"),
                Track::Kernel(number) => format!("kernel thread {number}"),
            };
            let marks = marks.remove(&line.track).unwrap_or_default();
            lines.push(Line { name, is_kernel: true, number: number as u64, bars: bars.collect(), marks });
        }
        for line in most(&timeline) {
            let bars =
                line.spans.iter().map(|span| Bar { from: span.from, to: span.to, name: bar_name(span) });
            lines.push(Line {
                name: name(line.id),
                is_kernel: false,
                number: line.id.as_u64().get(),
                bars: bars.collect(),
                marks: Vec::new(),
            });
        }
        let arrows = timeline.wakes().iter().filter_map(|wake| {
            let (to, track) = wake.ran?;
            let (from_line, to_line) = (*line_of.get(&wake.track)?, *line_of.get(&track)?);
            Some(Arrow { from: wake.at, from_line, to, to_line })
        });
        let threads = match recording.sampled().get() {
            1 => "threads".into(),
            one_of => format!("threads (a sample: one of {one_of})"),
        };
        Self { threads, arrows: arrows.collect(), runnable: runnable(&timeline), lines }
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

/// Returns the threads that get lines: those with the most spans, if they are too many.
fn most(timeline: &Timeline) -> Vec<&super::timeline::ThreadLine> {
    let mut threads: Vec<_> = timeline.threads().iter().collect();
    if threads.len() > MOST_THREADS {
        threads.sort_by_key(|line| std::cmp::Reverse(line.spans.len()));
        threads.truncate(MOST_THREADS);
        threads.sort_by_key(|line| line.id);
    }
    threads
}

fn bar_name(span: &Span) -> String {
    match (span.state, span.wait) {
        (_, Some((reason, Some(at)))) => format!("{}: {reason} at {at:#x}", span.state),
        (_, Some((reason, None))) => format!("{}: {reason}", span.state),
        (state, None) => state.to_string(),
    }
}

/// Counts the threads that are runnable and do not run.
fn runnable(timeline: &Timeline) -> Vec<(Duration, u64)> {
    let waits = |span: &&Span| matches!(span.state, State::Runnable | State::Dispatchable);
    let spans = timeline.threads().iter().flat_map(|line| line.spans.iter().filter(waits));
    let mut changes: Vec<(Duration, i64)> = spans.flat_map(|span| [(span.from, 1), (span.to, -1)]).collect();
    changes.sort();
    let mut count = 0;
    let mut curve: Vec<(Duration, u64)> = Vec::new();
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
    use super::super::recording::SlotCause;
    use super::*;

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
}
