//! Threads that get no turn, because of what other threads do.

use std::collections::HashSet;
use std::time::Duration;

use selvedge::thread::{Priority, ThreadId};
use selvedge::trace::{EventKind, RuntimeFacts, Span, State, ThreadLine};

use super::scene::{Runtime, Scene, covered, share, waits};
use super::words::{percent, time};
use super::{Finding, Kind, Subject};

/// A thread without time slices is a hog if it runs for so long on end: a delay that a user begins to notice,
/// and several turns of any scheduler.
const HOG_WITHOUT_SLICES: Duration = Duration::from_millis(50);

/// With time slices, it is a hog after so many of them. On a machine that other programs keep busy, the kernel
/// itself keeps an LWP and the monitor from running for several.
const HOG_SLICES: u32 = 20;

/// In this share of a hog's time, others wait. So a moment without a waiter does not acquit it.
const HOG_WAITED: f64 = 0.8;

/// A hog, or a wait for higher priorities, takes at least this share of the time in all. Less is not felt.
const HOG_SHARE: f64 = 0.01;

/// A thread of lower priority gets a turn some 60 ms after its last one. Shorter waits are as promised, and so
/// are single ones of that length. Waits that are shorter than this count for nothing.
const STARVED: Duration = Duration::from_millis(20);

/// A thread starves if it spends at least this share of its life in such waits.
const STARVED_SHARE: f64 = 0.4;

/// Higher threads are dispatched at least so often during these waits. If they are not, priority is not why.
const STARVED_DISPATCHES: usize = 5;

/// A runnable thread that is not dispatched for so long may never be: several times what any scheduling rule
/// of the runtime makes it wait.
const NEVER: Duration = Duration::from_millis(200);

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found: Vec<_> = scene.runtimes.iter().flat_map(|runtime| hogs(scene, runtime)).collect();
    found.extend(scene.runtimes.iter().flat_map(|runtime| starvation(scene, runtime)));
    found.extend(scene.threads.iter().filter_map(|line| never_runs(scene, line)));
    found
}

fn hogs<'a>(scene: &'a Scene<'_>, runtime: &'a Runtime) -> impl Iterator<Item = Finding> + 'a {
    let slice = |facts: &RuntimeFacts| facts.time_slice.map(|slice| slice * HOG_SLICES);
    // Without facts, there may be slices of any length. The default is 10 ms.
    let least = runtime.facts.map_or(4 * HOG_WITHOUT_SLICES, |it| slice(&it).unwrap_or_default());
    let least = least.max(HOG_WITHOUT_SLICES);
    let is_hog = move |span: &&Span| {
        span.state == State::Running
            && span.length() >= least
            && runtime.waited_in(span.from, span.to) >= HOG_WAITED
    };
    scene.lines(runtime).filter_map(move |line| {
        let spans: Vec<&Span> = line.spans.iter().filter(is_hog).collect();
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
                "The time slice is {}, but the thread could not be preempted: it forbids that, or blocks in a \
                 call that it does not announce.",
                time(slice)
            ),
            None => "Set `time_slice`, or let the thread yield.".into(),
        };
        let text = format!(
            "{hog} kept its LWP for {} on end, {} of the time in all, while other threads waited for one: {name} \
             for {} of that. {advice}",
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

fn starvation(scene: &Scene<'_>, runtime: &Runtime) -> Vec<Finding> {
    let mut above: Vec<(Duration, ThreadId, Priority)> = Vec::new();
    let threads: HashSet<ThreadId> = scene.lines(runtime).map(|line| line.id).collect();
    for event in scene.recording.events().iter().filter(|event| event.kind == EventKind::Dispatch) {
        if let Some((id, priority)) = event.thread.and_then(|id| Some((id, scene.priority(id)?)))
            && priority > Priority::Low
            && threads.contains(&id)
        {
            above.push((event.at, id, priority));
        }
    }
    if above.is_empty() {
        return Vec::new();
    }
    scene.lines(runtime).filter_map(|line| starves(scene, runtime, line, &above)).collect()
}

/// `above`: the dispatches of threads whose priority may be higher.
fn starves(
    scene: &Scene<'_>,
    runtime: &Runtime,
    line: &ThreadLine,
    above: &[(Duration, ThreadId, Priority)],
) -> Option<Finding> {
    let mine = scene.priority(line.id).filter(|&priority| priority < Priority::High)?;
    let spans: Vec<&Span> =
        line.spans.iter().filter(|span| waits(span) && span.length() >= STARVED).collect();
    let waited = covered(spans.iter().filter_map(|span| scene.clip(span.from, span.to)).collect());
    let of_life = share(spans.iter().map(|span| span.length()).sum(), line.length());
    if of_life < STARVED_SHARE || scene.share(waited) < HOG_SHARE {
        return None;
    }
    let mut by: Vec<(ThreadId, usize)> = Vec::new();
    for span in &spans {
        let first = above.partition_point(|&(at, ..)| at < span.from);
        let dispatches = above[first..].iter().take_while(|&&(at, ..)| at < span.to);
        for &(_, id, _) in dispatches.filter(|&&(_, _, priority)| priority > mine) {
            match by.iter_mut().find(|(it, _)| *it == id) {
                Some((_, count)) => *count += 1,
                None => by.push((id, 1)),
            }
        }
    }
    let dispatches: usize = by.iter().map(|(_, count)| count).sum();
    let (worst, count) = by.into_iter().max_by_key(|&(_, count)| count)?;
    if dispatches < STARVED_DISPATCHES {
        return None;
    }
    let higher = scene.priority(worst)?;
    let text = format!(
        "{}, of {mine} priority, waited for an LWP for {} of its life, while threads of higher priority were \
         dispatched {dispatches} times, {count} of them {} ({higher}). Raise its priority, let those wait now and \
         then, or add slots.",
        scene.name(line.id),
        percent(of_life),
        scene.name(worst),
    );
    let subjects = vec![Subject::Thread(line.id), Subject::Thread(worst), Subject::Runtime(runtime.number)];
    Some(Finding::new(Kind::Starvation, scene.share(waited), subjects, text))
}

fn never_runs(scene: &Scene<'_>, line: &ThreadLine) -> Option<Finding> {
    let last = line.spans.last().filter(|span| !line.ends && waits(span) && span.length() >= NEVER)?;
    let has_run = line.spans.iter().any(|span| span.track.is_some());
    let (name, long) = (scene.name(line.id), time(last.length()));
    let what = if has_run || !line.begins {
        format!("{name} was runnable for the last {long}, and no LWP ran it.")
    } else {
        format!("{name} was started {long} before the end, and has never run.")
    };
    let mut subjects = vec![Subject::Thread(line.id)];
    let position = |it: &&Runtime| scene.lines(it).any(|it| it.id == line.id);
    let why = match scene.runtimes.iter().find(position).and_then(|runtime| keeper(scene, runtime, last)) {
        Some((keeper, share)) => {
            subjects.push(Subject::Thread(keeper));
            format!(" {} ran for {} of that time.", scene.name(keeper), percent(share))
        }
        None => " Its runtime ran no other thread meanwhile.".into(),
    };
    let (from, to) = scene.clip(last.from, last.to)?;
    Some(Finding::new(Kind::NeverRuns, scene.share(to - from), subjects, what + &why))
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
