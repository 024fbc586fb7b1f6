//! Threads that wait for an LWP, because of how many slots and LWPs there are, and what those do.

use std::time::Duration;

use selvedge::trace::{EventKind, Span, State, ThreadLine, Track, TrackState};

use super::scene::{LONG_WAIT, Runtime, Scene, Step, waits};
use super::words::{count, percent, time};
use super::{Finding, Kind, Subject};

/// Threads wait while all slots are busy for at least this share of the time. Below, a burst is all there is,
/// and more slots would be idle most of the time.
const SLOTS_SHARE: f64 = 0.20;

/// While all slots are busy, at least so many threads wait on average. A thread that has just been woken, and
/// runs as soon as its waker waits, needs no slot of its own. Pairs that wake each other stay below.
const SLOTS_WAITING: f64 = 0.8;

/// LWPs are missing for at least this share of the time, if the runtime has not said that they were.
const BOUND_SHARE: f64 = 0.05;

/// Threads wait beside an LWP that is idle for long, for at least this share of the time. Less is not worth
/// the work to spread threads in another way.
const IMBALANCE_SHARE: f64 = 0.20;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let runtimes = scene.runtimes.iter();
    runtimes
        .flat_map(|runtime| {
            let found = [too_few_slots(scene, runtime), at_bound(scene, runtime), imbalance(scene, runtime)];
            found.into_iter().flatten()
        })
        .collect()
}

fn too_few_slots(scene: &Scene<'_>, runtime: &Runtime) -> Option<Finding> {
    let slots = runtime.slots;
    let cpus = runtime.facts?.cpus.map_or(scene.recording.cpus(), |own| own.min(scene.recording.cpus()));
    if cpus <= slots {
        return None;
    }
    // A thread that blocks without announcing it seems to run. It has no slot.
    let all_busy = |step: &Step| step.running >= slots as i64 && !is_at_bound(runtime, step);
    let busy = runtime.time_when(all_busy);
    let waited = runtime.time_when(|step| all_busy(step) && step.waiting > 0);
    let share = waited / scene.length().as_secs_f64();
    let sum: f64 =
        runtime.steps.iter().filter(|&it| all_busy(it)).map(|it| it.length() * it.waiting as f64).sum();
    let mean = if busy > 0.0 { sum / busy } else { 0.0 };
    if share < SLOTS_SHARE || mean < SLOTS_WAITING {
        return None;
    }
    let (worst, waited) = worst(scene, runtime, Duration::ZERO)?;
    let enough = cpus.min(slots + mean.ceil() as usize);
    let (half, most) = latency(scene, runtime)?;
    let text = format!(
        "{} waited for an LWP for {} of its life: runtime {} has {}, all of them were busy for {} of the \
         time, and {mean:.1} threads waited meanwhile on average. Half of all waits took up to {}, and one \
         of 100 took {} or more. It may use {cpus} CPUs: try a concurrency of {enough}.",
        scene.name(worst.id),
        percent(super::scene::share(waited, worst.length())),
        runtime.number,
        count(slots, "slot"),
        percent(busy / scene.length().as_secs_f64()),
        time(half),
        time(most),
    );
    let subjects = vec![Subject::Runtime(runtime.number), Subject::Thread(worst.id)];
    Some(Finding::new(Kind::TooFewSlots, share, subjects, text))
}

/// Returns the times that half and 99 of 100 waits for an LWP took at most.
fn latency(scene: &Scene<'_>, runtime: &Runtime) -> Option<(Duration, Duration)> {
    let spans = scene.lines(runtime).flat_map(|line| line.spans.iter().filter(|span| waits(span)));
    let mut took: Vec<Duration> = spans.map(Span::length).collect();
    took.sort_unstable();
    let at = |hundredths: usize| took.get((took.len() * hundredths / 100).min(took.len().saturating_sub(1)));
    Some((*at(50)?, *at(99)?))
}

/// Returns the thread that waited for an LWP for longest, and how long, in waits of at least `least`.
fn worst<'a>(
    scene: &'a Scene<'_>,
    runtime: &'a Runtime,
    least: Duration,
) -> Option<(&'a ThreadLine, Duration)> {
    let waited = |line: &ThreadLine| -> Duration {
        let spans = line.spans.iter().filter(|span| waits(span) && span.length() >= least);
        spans.filter_map(|span| scene.clip(span.from, span.to)).map(|(from, to)| to - from).sum()
    };
    let lines = scene.lines(runtime).map(|line| (line, waited(line)));
    lines.max_by_key(|&(_, waited)| waited).filter(|(_, waited)| !waited.is_zero())
}

/// Returns `true` if an LWP was missing at some time, and all that there may be have a thread now.
fn is_at_bound(runtime: &Runtime, step: &Step) -> bool {
    let facts = runtime.facts.filter(|facts| facts.bound_reached > 0);
    let max = facts.and_then(|facts| facts.max_lwps);
    max.is_some_and(|max| step.running + step.in_kernel >= max as i64)
}

fn at_bound(scene: &Scene<'_>, runtime: &Runtime) -> Option<Finding> {
    let slots = runtime.slots as i64;
    let max = runtime.facts.and_then(|facts| facts.max_lwps);
    let reached = runtime.facts.map_or(0, |facts| facts.bound_reached);
    let missing = |step: &Step| {
        let none_runs = step.in_kernel > 0 && step.running < slots && step.free == 0;
        step.waiting_long > 0 && (is_at_bound(runtime, step) || none_runs)
    };
    let share = runtime.time_when(missing) / scene.length().as_secs_f64();
    if reached == 0 && share < BOUND_SHARE {
        return None;
    }
    let in_kernel = |line: &ThreadLine| line.time_in(State::InKernel);
    let blocks =
        scene.lines(runtime).max_by_key(|line| in_kernel(line)).filter(|line| !in_kernel(line).is_zero());
    let mut subjects = vec![Subject::Runtime(runtime.number)];
    let mut text = format!("Runtime {} had no LWP left for runnable threads", runtime.number);
    if share > 0.0 {
        text += &format!(", for {} of the time", percent(share));
    }
    if reached > 0 {
        text += &format!("; {} one was missing, and there could be no more", times(reached));
    }
    match blocks {
        Some(line) => {
            subjects.push(Subject::Thread(line.id));
            let (name, long) = (scene.name(line.id), time(in_kernel(line)));
            text += &format!(". {name} was in the kernel for longest ({long})");
            if !announces(scene, line) {
                text += ", in calls that it does not announce";
            }
        }
        None if share > 0.0 => {
            text += ". Its threads computed where they cannot be preempted, or were in calls that they do not \
                     announce";
        }
        None => {}
    }
    if let Some((worst, waited)) = worst(scene, runtime, LONG_WAIT) {
        subjects.push(Subject::Thread(worst.id));
        text += &format!(", and {} waited for {}", scene.name(worst.id), time(waited));
    }
    text += &match max {
        Some(max) => {
            format!(". There may be {}: raise `max_lwps`, or block in fewer threads.", count(max, "LWP"))
        }
        None => ". Block in fewer threads at once.".into(),
    };
    Some(Finding::new(Kind::LwpsAtBound, share, subjects, text))
}

/// Returns `true` if a thread has announced that it may block.
fn announces(scene: &Scene<'_>, line: &ThreadLine) -> bool {
    let events = scene.recording.events().iter();
    events.filter(|event| event.thread == Some(line.id)).any(|event| event.kind == EventKind::EnterKernel)
}

fn times(number: u64) -> String {
    if number == 1 { "once".into() } else { format!("{number} times") }
}

fn imbalance(scene: &Scene<'_>, runtime: &Runtime) -> Option<Finding> {
    let share = runtime.time_when(|it| it.passed_over > 0 && it.free_long > 0) / scene.length().as_secs_f64();
    if share < IMBALANCE_SHARE {
        return None;
    }
    let (worst, waited) = worst(scene, runtime, LONG_WAIT)?;
    let (busy, busy_for) = most(scene, runtime, None, |state| matches!(state, TrackState::Runs(_)))?;
    let is_free = |state: &TrackState| matches!(state, TrackState::Idle | TrackState::Searches);
    let (idle, idle_for) = most(scene, runtime, Some(busy), is_free)?;
    let text = format!(
        "The LWPs of runtime {} were not equally busy: for {} of the time, threads waited while an LWP had \
         nothing to do. LWP {} was busy for {}, and LWP {} was idle for {}; {} waited for {}. Threads that \
         are pinned to LWPs cannot move: start them on different ones, or do not pin them.",
        runtime.number,
        percent(share),
        number(busy),
        percent(scene.share(busy_for)),
        number(idle),
        percent(scene.share(idle_for)),
        scene.name(worst.id),
        time(waited),
    );
    let subjects = vec![
        Subject::Runtime(runtime.number),
        Subject::Track(busy),
        Subject::Track(idle),
        Subject::Thread(worst.id),
    ];
    Some(Finding::new(Kind::Imbalance, share, subjects, text))
}

/// Returns the LWP that was in such a state for longest, and for how long. It is not the LWP `except`.
fn most(
    scene: &Scene<'_>,
    runtime: &Runtime,
    except: Option<Track>,
    is: impl Fn(&TrackState) -> bool,
) -> Option<(Track, Duration)> {
    let of_runtime = |track| matches!(track, Track::Lwp { runtime: number, .. } if number == runtime.number);
    let lines =
        scene.timeline.tracks().iter().filter(|line| of_runtime(line.track) && Some(line.track) != except);
    let times = lines.map(|line| {
        let spans = line.spans.iter().filter(|(_, _, state)| is(state));
        let spans = spans.filter_map(|&(from, to, _)| scene.clip(from, to));
        (line.track, spans.map(|(from, to)| to - from).sum())
    });
    times.max_by_key(|&(_, time)| time)
}

fn number(track: Track) -> u32 {
    match track {
        Track::Lwp { lwp, .. } => lwp,
        Track::Kernel(number) => number,
        _ => 0,
    }
}
