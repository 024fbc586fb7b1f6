//! Threads that get no turn, because of what other threads do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use selvedge::thread::{Priority, ThreadId};
use selvedge::trace::{EventKind, RuntimeFacts, Span, State, ThreadLine};

use super::scene::{Runtime, Scene, covered, share, waits};
use super::words::{percent, time};
use super::{Candidate, Finding, Kind, Subject};

/// A thread without time slices is a hog if it runs for so long on end. That is a delay that a user begins to
/// notice, and several turns of any scheduler.
const HOG_WITHOUT_SLICES: Duration = Duration::from_millis(50);

/// With time slices, it is a hog after so many of them. On a machine that other programs keep busy, the
/// kernel itself keeps an LWP and the monitor from running for several.
const HOG_SLICES: u32 = 20;

/// In this share of a hog's time, others wait. So a moment without a waiter does not acquit it.
const HOG_WAITED: f64 = 0.8;

/// A hog, or a wait for higher priorities, takes at least this share of the time in all. Less is not felt.
const HOG_SHARE: f64 = 0.01;

/// A thread of lower priority gets a turn some 60 ms after its last one. Shorter waits are as promised, and
/// so are single ones of that length. Waits that are shorter than this count for nothing.
const STARVED: Duration = Duration::from_millis(20);

/// A thread starves if it spends at least this share of its life in such waits.
const STARVED_SHARE: f64 = 0.4;

/// Higher threads are dispatched at least so often during these waits. If they are not, priority is not why.
const STARVED_DISPATCHES: usize = 5;

/// A runnable thread that is not dispatched for so long may never be: several times what any scheduling rule
/// of the runtime makes it wait.
const NEVER: Duration = Duration::from_millis(200);

pub(super) fn find<'a>(scene: &'a Scene<'a>) -> impl Iterator<Item = Candidate<'a>> {
    let hogs = scene.runtimes.iter().flat_map(|runtime| hogs(scene, runtime)).map(Candidate::from);
    let starved = scene.runtimes.iter().flat_map(|runtime| starvation(scene, runtime));
    hogs.chain(starved).chain(never_run(scene))
}

fn hogs<'a>(scene: &'a Scene<'_>, runtime: &'a Runtime) -> impl Iterator<Item = Finding> + 'a {
    let slice = |facts: &RuntimeFacts| facts.time_slice.map(|slice| slice * HOG_SLICES);
    // Without facts, there may be slices of any length. The default is 10 ms.
    let least = runtime.facts.map_or(4 * HOG_WITHOUT_SLICES, |it| slice(&it).unwrap_or_default());
    let least = least.max(HOG_WITHOUT_SLICES);
    // Without its slot, it keeps no other thread from running.
    let hogs = move |span: &Span| {
        let kept = runtime.with_slot(span);
        let is_hog = kept.state == State::Running
            && kept.length() >= least
            && runtime.waited_in(kept.from, kept.to) >= HOG_WAITED;
        is_hog.then_some(kept)
    };
    scene.lines(runtime).filter_map(move |line| {
        let spans: Vec<Span> = line.spans.iter().filter_map(hogs).collect();
        let longest = spans.iter().max_by_key(|span| span.length())?;
        let all = covered(spans.iter().filter_map(|span| scene.clip(span.from, span.to)).collect());
        let severity = scene.share(all);
        if severity < HOG_SHARE {
            return None;
        }
        let (victim, waited) = victim(scene, runtime, longest)?;
        let (hog, name) = (scene.name(line.id), scene.name(victim));
        let advice = match runtime.facts.map(|facts| facts.time_slice) {
            Some(None) => "The runtime has no time slices: set `time_slice`, or let the thread yield.".into(),
            Some(Some(slice)) => format!(
                "The time slice is {}, but the thread could not be preempted: it forbids that, or blocks in \
                 a call that it does not announce.",
                time(slice)
            ),
            None => "Set `time_slice`, or let the thread yield.".into(),
        };
        let text = format!(
            "{hog} kept its LWP for {} on end, {} of the time in all, while other threads waited for one: \
             {name} for {} of that. {advice}",
            time(longest.length()),
            percent(severity),
            time(waited),
        );
        let subjects =
            vec![Subject::Thread(line.id), Subject::Thread(victim), Subject::Runtime(runtime.number)];
        Some(Finding::new(Kind::Hog, severity, subjects, text))
    })
}

/// Returns the thread that waited for an LWP for longest during a span, and how long.
fn victim(scene: &Scene<'_>, runtime: &Runtime, during: &Span) -> Option<(ThreadId, Duration)> {
    let waited = |line: &ThreadLine| -> Duration {
        let first = line.spans.partition_point(|span| span.to <= during.from);
        let spans = line.spans[first..].iter().take_while(|span| span.from < during.to);
        spans.filter(|span| waits(span)).map(|it| it.to.min(during.to) - it.from.max(during.from)).sum()
    };
    scene.lines(runtime).map(|line| (line.id, waited(line))).max_by_key(|&(_, waited)| waited)
}

/// The dispatches in a runtime, for each priority that a thread may wait behind.
struct Above<'a> {
    low: Vec<(Duration, ThreadId)>,
    normal: Vec<(Duration, ThreadId)>,
    scene: &'a Scene<'a>,
    runtime: &'a Runtime,
}

fn starvation<'a>(scene: &'a Scene<'a>, runtime: &'a Runtime) -> Vec<Candidate<'a>> {
    let threads: HashSet<ThreadId> = scene.lines(runtime).map(|line| line.id).collect();
    let mut above = Above { low: Vec::new(), normal: Vec::new(), scene, runtime };
    for event in
        scene.recording.events().iter().filter(|event| matches!(event.kind, EventKind::Dispatch { .. }))
    {
        let Some(id) = event.thread.filter(|id| threads.contains(id)) else { continue };
        let Some(priority) = scene.priority(id) else { continue };
        if priority > Priority::Low {
            above.low.push((event.at, id));
        }
        if priority > Priority::Normal {
            above.normal.push((event.at, id));
        }
    }
    let above = Rc::new(above);
    scene.lines(runtime).filter_map(|line| above.clone().starves(line)).collect()
}

impl<'a> Above<'a> {
    fn starves(self: Rc<Self>, line: &'a ThreadLine) -> Option<Candidate<'a>> {
        let scene = self.scene;
        let mine = scene.priority(line.id).filter(|&priority| priority < Priority::High)?;
        let spans: Vec<&Span> =
            line.spans.iter().filter(|span| waits(span) && span.length() >= STARVED).collect();
        let severity =
            scene.share(covered(spans.iter().filter_map(|span| scene.clip(span.from, span.to)).collect()));
        let of_life = share(spans.iter().map(|span| span.length()).sum(), line.length());
        let dispatches: usize = spans.iter().map(|span| self.during(mine, span).len()).sum();
        if of_life < STARVED_SHARE || severity < HOG_SHARE || dispatches < STARVED_DISPATCHES {
            return None;
        }
        let tell = move || {
            let mut by: BTreeMap<ThreadId, usize> = BTreeMap::new();
            for (_, id) in spans.iter().flat_map(|span| self.during(mine, span)) {
                *by.entry(*id).or_default() += 1;
            }
            let (worst, count) =
                by.into_iter().max_by_key(|&(_, count)| count).expect("there are dispatches");
            let higher = scene.priority(worst).unwrap_or_default();
            let text = format!(
                "{}, of {mine} priority, waited for an LWP for {} of its life, while threads of higher \
                 priority were dispatched {dispatches} times, {count} of them {} ({higher}). Raise its \
                 priority, let those wait now and then, or add slots.",
                scene.name(line.id),
                percent(of_life),
                scene.name(worst),
            );
            let runtime = Subject::Runtime(self.runtime.number);
            (vec![Subject::Thread(line.id), Subject::Thread(worst), runtime], text)
        };
        Some(Candidate::new(Kind::Starvation, severity, tell))
    }

    /// Returns the dispatches of threads of higher priority during a span.
    fn during(&self, mine: Priority, span: &Span) -> &[(Duration, ThreadId)] {
        let all = if mine == Priority::Low { &self.low } else { &self.normal };
        let from = all.partition_point(|&(at, _)| at < span.from);
        let to = all.partition_point(|&(at, _)| at < span.to);
        &all[from..to.max(from)]
    }
}

fn never_run<'a>(scene: &'a Scene<'a>) -> impl Iterator<Item = Candidate<'a>> {
    let of = scene.runtimes.iter().flat_map(|runtime| runtime.threads.iter().map(move |&at| (at, runtime)));
    let of: HashMap<usize, &Runtime> = of.collect();
    let lines = scene.threads.iter().enumerate();
    lines.filter_map(move |(at, line)| never_runs(scene, of.get(&at).copied(), line))
}

fn never_runs<'a>(
    scene: &'a Scene<'a>,
    runtime: Option<&'a Runtime>,
    line: &'a ThreadLine,
) -> Option<Candidate<'a>> {
    let last = line.spans.last().filter(|span| !line.ends && waits(span) && span.length() >= NEVER)?;
    let (from, to) = scene.clip(last.from, last.to)?;
    let tell = move || {
        let has_run = line.spans.iter().any(|span| span.track.is_some());
        let (name, long) = (scene.name(line.id), time(last.length()));
        let mut subjects = vec![Subject::Thread(line.id)];
        let mut text = if has_run || !line.begins {
            format!("{name} was runnable for the last {long}, and no LWP ran it.")
        } else {
            format!("{name} was started {long} before the end, and has never run.")
        };
        match runtime.map(|runtime| keeper(scene, runtime, last)) {
            Some(Some((keeper, share))) => {
                subjects.push(Subject::Thread(keeper));
                text += &format!(" {} ran for {} of that time.", scene.name(keeper), percent(share));
            }
            Some(None) if scene.is_whole() => text += " Its runtime ran no other thread meanwhile.",
            Some(None) => text += " Its runtime ran no other thread of the sample meanwhile.",
            None => {}
        }
        (subjects, text)
    };
    Some(Candidate::new(Kind::NeverRuns, scene.share(to - from), tell))
}

/// Returns the thread that was on an LWP for longest during a span, and for which share of it.
fn keeper(scene: &Scene<'_>, runtime: &Runtime, during: &Span) -> Option<(ThreadId, f64)> {
    let ran = |line: &ThreadLine| -> Duration {
        let spans = line.spans.iter().filter(|span| span.track.is_some());
        spans.map(|span| span.to.min(during.to).saturating_sub(span.from.max(during.from))).sum()
    };
    let (id, ran) = scene.lines(runtime).map(|line| (line.id, ran(line))).max_by_key(|&(_, ran)| ran)?;
    (!ran.is_zero()).then(|| (id, share(ran, during.length())))
}
