//! A recording, prepared for the rules. It has the time that it covers in full, and for each runtime how many
//! threads waited and ran at each moment.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use selvedge::thread::{Priority, ThreadId};
use selvedge::trace::{
    EventKind, Recording, RuntimeFacts, Span, State, ThreadLine, Timeline, Track, TrackLine, TrackState,
};

/// With so many events, the ring of an LWP was full, if the recording does not say more: it keeps the last
/// 16,000, and a copy may miss some.
const FULL: usize = 15_000;

/// A thread that waits for an LWP for longer would run elsewhere by now, if any LWP could take it. An LWP
/// without work naps for a millisecond at most before it looks at what others leave lying.
pub(super) const LONG_WAIT: Duration = Duration::from_millis(1);

/// An LWP is idle for long only if it had nothing to do for so long on end. If the machine is busy, the
/// kernel may take tens of ms to run an LWP that was woken.
const LONG_IDLE: Duration = Duration::from_millis(50);

/// What happens in a runtime, until something changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    pub(super) from: Duration,
    pub(super) to: Duration,
    /// Threads on LWPs, without those that have announced that they may block.
    pub(super) running: i64,
    /// Threads that wait for an LWP.
    pub(super) waiting: i64,
    /// Those of them that do so for at least [`LONG_WAIT`].
    pub(super) waiting_long: i64,
    /// Those of them that see others dispatched meanwhile. If none is, the kernel runs no LWP of the runtime.
    pub(super) passed_over: i64,
    /// Threads that have announced that they may block in the kernel, or were found asleep there.
    pub(super) in_kernel: i64,
    /// LWPs that have a slot and no work.
    pub(super) free: i64,
    /// Those of them that have none for at least [`LONG_IDLE`].
    pub(super) free_long: i64,
}

impl Step {
    pub(super) fn length(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }
}

/// A runtime with green threads.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) number: u32,
    /// `None` if the recording does not say.
    pub(super) facts: Option<RuntimeFacts>,
    /// How many threads may run at once. Without facts: how many LWPs ever had something to do at once.
    pub(super) slots: usize,
    /// Its threads, as positions in `Scene::threads`.
    pub(super) threads: Vec<usize>,
    /// All of the time, in order.
    pub(super) steps: Vec<Step>,
    /// When which LWP lost its slot.
    losses: BTreeSet<(u32, Duration)>,
}

impl Runtime {
    /// Returns the share of this time in which a thread waited for an LWP.
    pub(super) fn waited_in(&self, from: Duration, to: Duration) -> f64 {
        let first = self.steps.partition_point(|step| step.to <= from);
        let steps = self.steps[first..].iter().take_while(|step| step.from < to);
        let waited = steps.filter(|step| step.waiting > 0).map(|step| step.to.min(to) - step.from.max(from));
        share(waited.sum(), to - from)
    }

    /// Returns the part of a thread's time on an LWP in which that had its slot.
    pub(super) fn with_slot(&self, span: &Span) -> Span {
        let Some(Track::Lwp { lwp, .. }) = span.track else { return *span };
        let lost = self.losses.range((lwp, span.from)..(lwp, span.to)).next();
        let mut with_slot = *span;
        with_slot.to = lost.map_or(span.to, |&(_, at)| at);
        with_slot
    }

    /// Returns for how long a step was as `is` says, in seconds.
    pub(super) fn time_when(&self, is: impl Fn(&Step) -> bool) -> f64 {
        self.steps.iter().filter(|step| is(step)).map(Step::length).sum()
    }
}

/// A recording, prepared.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) recording: &'a Recording,
    pub(super) timeline: Timeline,
    /// The lines of the timeline, without states at the end that may be out of date.
    pub(super) threads: Vec<ThreadLine>,
    /// From when on the events of all LWPs are there.
    pub(super) from: Duration,
    /// The time of the last event.
    pub(super) to: Duration,
    /// Events before that are missing.
    pub(super) is_cut: bool,
    pub(super) runtimes: Vec<Runtime>,
    priorities: HashMap<ThreadId, Priority>,
    positions: HashMap<ThreadId, usize>,
}

impl<'a> Scene<'a> {
    pub(super) fn of(recording: &'a Recording) -> Self {
        let timeline = Timeline::of(recording);
        let mut rings: BTreeMap<Track, (Duration, usize)> = BTreeMap::new();
        let mut priorities = HashMap::new();
        for event in recording.events() {
            rings.entry(event.track).or_insert((event.at, 0)).1 += 1;
            if let (EventKind::Spawn { priority, .. }, Some(id)) = (event.kind, event.thread) {
                priorities.insert(id, priority);
            }
        }
        // Kernel threads without LWPs have small rings. What is lost of them are wake-ups, which other events
        // show, too.
        let full = rings.iter().filter(|(track, (_, events))| is_lwp(track) && *events >= FULL);
        let full = full.map(|(_, &(first, _))| first).max();
        let (from, is_cut) = match recording.whole_since() {
            Some(since) => (since.min(timeline.end()), since > Duration::ZERO),
            None => (full.unwrap_or_default(), full.is_some()),
        };
        let positions = timeline.threads().iter().enumerate().map(|(at, line)| (line.id, at)).collect();
        let mut scene = Self {
            recording,
            from,
            to: timeline.end(),
            is_cut,
            runtimes: Vec::new(),
            threads: timeline.threads().to_vec(),
            timeline,
            priorities,
            positions,
        };
        if scene.is_cut {
            scene.forget_old_states();
        }
        scene.runtimes = scene.runtimes();
        scene
    }

    /// Removes the last span of each thread that was last seen before [`from`](Self::from), and off an LWP.
    /// It may have run and ended since, and the events of that may be lost.
    fn forget_old_states(&mut self) {
        for line in &mut self.threads {
            line.spans.pop_if(|span| !line.ends && span.track.is_none() && span.from < self.from);
        }
    }

    /// Returns `true` if all threads were recorded, not a sample of them.
    pub(super) fn is_whole(&self) -> bool {
        self.recording.sampled().get() == 1
    }

    /// Returns the time that is looked at.
    pub(super) fn length(&self) -> Duration {
        self.to.saturating_sub(self.from)
    }

    /// Returns the share of the time that is looked at.
    pub(super) fn share(&self, of: Duration) -> f64 {
        share(of, self.length())
    }

    /// Returns the part of a span that is looked at.
    pub(super) fn clip(&self, from: Duration, to: Duration) -> Option<(Duration, Duration)> {
        let (from, to) = (from.max(self.from), to.min(self.to));
        (from < to).then_some((from, to))
    }

    pub(super) fn name(&self, id: ThreadId) -> String {
        match self.recording.name(id) {
            Some(name) => crate::clean(name),
            None => anonymous(id),
        }
    }

    /// Returns the priority that a thread was started with, if its start was recorded.
    pub(super) fn priority(&self, id: ThreadId) -> Option<Priority> {
        self.priorities.get(&id).copied()
    }

    pub(super) fn line(&self, id: ThreadId) -> Option<&ThreadLine> {
        self.positions.get(&id).map(|&at| &self.threads[at])
    }

    /// Returns the lines of a runtime's threads.
    pub(super) fn lines<'b>(&'b self, runtime: &'b Runtime) -> impl Iterator<Item = &'b ThreadLine> {
        runtime.threads.iter().map(|&at| &self.threads[at])
    }

    fn runtimes(&self) -> Vec<Runtime> {
        let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for track in self.recording.tracks() {
            if let Track::Lwp { runtime, .. } = *track {
                threads.entry(runtime).or_default();
            }
        }
        for (at, line) in self.threads.iter().enumerate() {
            if let Some(runtime) = self.recording.runtime_of(line.id) {
                threads.entry(runtime).or_default().push(at);
            }
        }
        threads.into_iter().map(|(number, threads)| self.runtime(number, threads)).collect()
    }

    fn runtime(&self, number: u32, threads: Vec<usize>) -> Runtime {
        let facts = self.recording.runtimes().find(|facts| facts.number == number);
        let of_runtime = |track| matches!(track, Track::Lwp { runtime, .. } if runtime == number);
        let mut sum = Sum::default();
        for line in self.timeline.tracks().iter().filter(|line| of_runtime(line.track)) {
            for (from, to) in free(line) {
                let is_long = to - from >= LONG_IDLE;
                if let Some((from, to)) = self.clip(from, to) {
                    sum.add(from, to, |step, by| {
                        step.free += by;
                        step.free_long += if is_long { by } else { 0 };
                    });
                }
            }
        }
        let dispatches = self.recording.events().iter();
        let dispatches =
            dispatches.filter(|it| matches!(it.kind, EventKind::Dispatch { .. }) && of_runtime(it.track));
        let dispatches: Vec<Duration> = dispatches.map(|event| event.at).collect();
        for span in threads.iter().flat_map(|&at| &self.threads[at].spans) {
            let Some((from, to)) = self.clip(span.from, span.to) else { continue };
            let is_long = span.length() >= LONG_WAIT;
            let next = dispatches.partition_point(|&at| at < span.from);
            let is_passed = is_long && dispatches.get(next).is_some_and(|&at| at < span.to);
            match span.state {
                State::Running => sum.add(from, to, |step, by| step.running += by),
                State::InKernel => sum.add(from, to, |step, by| step.in_kernel += by),
                _ if waits(span) => sum.add(from, to, |step, by| {
                    step.waiting += by;
                    step.waiting_long += if is_long { by } else { 0 };
                    step.passed_over += if is_passed { by } else { 0 };
                }),
                _ => {}
            }
        }
        let losses = self.recording.events().iter().filter_map(|event| match event.kind {
            EventKind::SlotMove { runtime, from: Some(lwp), .. } if runtime == number => {
                Some((lwp, event.at))
            }
            _ => None,
        });
        let losses: BTreeSet<(u32, Duration)> = losses.collect();
        let steps = sum.finish(self.from, self.to);
        let seen = steps.iter().map(|step| step.running + step.free).max().unwrap_or(0);
        let slots = facts.map_or(usize::try_from(seen).unwrap_or(0), |facts| facts.concurrency).max(1);
        Runtime { number, facts, slots, threads, steps, losses }
    }
}

/// Returns what a thread without a name is called. Its number is in no method, but in its debug output.
fn anonymous(id: ThreadId) -> String {
    let number: String = format!("{id:?}").chars().filter(char::is_ascii_digit).collect();
    format!("thread {number}")
}

/// Returns `true` if the thread is runnable, and not on an LWP.
pub(super) fn waits(span: &Span) -> bool {
    matches!(span.state, State::Runnable | State::Dispatchable)
}

pub(super) fn share(of: Duration, all: Duration) -> f64 {
    if all.is_zero() { 0.0 } else { of.as_secs_f64() / all.as_secs_f64() }
}

/// Returns how much time these spans cover together.
pub(super) fn covered(mut spans: Vec<(Duration, Duration)>) -> Duration {
    spans.sort();
    let (mut all, mut until) = (Duration::ZERO, Duration::ZERO);
    for (from, to) in spans {
        all += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    all
}

/// Returns when an LWP had a slot and no work, each time on end.
fn free(line: &TrackLine) -> Vec<(Duration, Duration)> {
    let mut free: Vec<(Duration, Duration)> = Vec::new();
    for &(from, to, state) in &line.spans {
        if matches!(state, TrackState::Idle | TrackState::Searches) {
            match free.last_mut() {
                // It looked for work, or napped again.
                Some(last) if last.1 == from => last.1 = to,
                _ => free.push((from, to)),
            }
        }
    }
    free
}

fn is_lwp(track: &Track) -> bool {
    matches!(track, Track::Lwp { .. })
}

/// What changes, and when.
#[derive(Default)]
struct Sum(BTreeMap<Duration, Step>);

impl Sum {
    fn add(&mut self, from: Duration, to: Duration, change: impl Fn(&mut Step, i64)) {
        change(self.0.entry(from).or_default(), 1);
        change(self.0.entry(to).or_default(), -1);
    }

    fn finish(self, from: Duration, to: Duration) -> Vec<Step> {
        let mut now = Step { from, ..Step::default() };
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        for (at, change) in self.0 {
            if at > now.from {
                steps.push(Step { to: at, ..now });
            }
            now.from = at;
            now.running += change.running;
            now.waiting += change.waiting;
            now.waiting_long += change.waiting_long;
            now.passed_over += change.passed_over;
            now.in_kernel += change.in_kernel;
            now.free += change.free;
            now.free_long += change.free_long;
        }
        if to > now.from {
            steps.push(Step { to, ..now });
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_two_spans_share_counts_once() {
        let ms = Duration::from_millis;
        assert_eq!(covered(vec![(ms(5), ms(8)), (ms(0), ms(2)), (ms(1), ms(3)), (ms(6), ms(7))]), ms(6));
        assert_eq!(covered(vec![]), ms(0));
    }
}
