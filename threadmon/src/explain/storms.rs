//! Many threads are woken at one object within a moment, and most of them wait there again at once.
//!
//! A message wakes one receiver, and a barrier wakes all because all may go on. Neither is a storm. What
//! remains are condition variables, semaphores and locks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use selvedge::thread::{ThreadId, WaitReason};
use selvedge::trace::{State, ThreadLine};

use super::locks::is_lock;
use super::scene::{Scene, covered};
use super::words::{list, percent};
use super::{Finding, Kind, Subject};

/// So many threads are woken at once. Fewer cost no more than a few switches.
const STORM: usize = 8;

/// This share of them waits again at once.
const IN_VAIN: f64 = 0.75;

/// A thread waits again at once if it has run for no longer meanwhile. That is enough to take a lock and to
/// look at a condition, and less than what is worth a wake-up.
const AT_ONCE: Duration = Duration::from_micros(50);

/// Two wake-ups of one storm are no further apart. A broadcast needs less than one us for each.
const APART: Duration = Duration::from_micros(100);

/// One storm is chance, or the start of a program.
const STORMS: usize = 3;

/// They take this share of the time in all. Less is not felt.
const STORM_SHARE: f64 = 0.01;

/// A thread was woken at an object.
#[derive(Clone, Copy, Debug)]
struct Woken {
    at: Duration,
    thread: ThreadId,
    by: ThreadId,
    /// When it waited there again, if it did so at once.
    again: Option<Duration>,
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let mut by_object: BTreeMap<usize, (WaitReason, Vec<Woken>)> = BTreeMap::new();
    let wakes = scene.timeline.wakes().iter().map(|wake| ((wake.thread, wake.at), wake.by));
    let wakes: HashMap<_, _> = wakes.collect();
    for line in &scene.threads {
        for (number, span) in line.spans.iter().enumerate() {
            if let Some((reason, Some(object))) = span.wait
                && can_storm(reason)
                && span.to >= scene.from
                // Otherwise its time was over.
                && let Some(&Some(by)) = wakes.get(&(line.id, span.to))
            {
                let again = again(line, number, object);
                let woken = Woken { at: span.to, thread: line.id, by, again };
                by_object.entry(object).or_insert((reason, Vec::new())).1.push(woken);
            }
        }
    }
    let found = by_object.into_iter().filter_map(|(object, (reason, mut woken))| {
        woken.sort_by_key(|it| it.at);
        finding(scene, object, reason, &woken)
    });
    found.collect()
}

fn can_storm(reason: WaitReason) -> bool {
    is_lock(reason) || matches!(reason, WaitReason::Condvar | WaitReason::Semaphore)
}

/// Returns when a thread waited again for the object of its span `number`, if it did so at once.
fn again(line: &ThreadLine, number: usize, object: usize) -> Option<Duration> {
    let mut ran = Duration::ZERO;
    for span in &line.spans[number + 1..] {
        match span.state {
            State::Running => ran += span.length(),
            // It may have to wait for the lock that goes with a condition variable.
            State::Blocked if span.wait.is_some_and(|(_, at)| at == Some(object)) => return Some(span.from),
            State::Blocked if span.wait.is_some_and(|(reason, _)| is_lock(reason)) => {}
            State::Runnable | State::Dispatchable => {}
            _ => return None,
        }
        if ran > AT_ONCE {
            return None;
        }
    }
    None
}

fn finding(scene: &Scene<'_>, object: usize, reason: WaitReason, woken: &[Woken]) -> Option<Finding> {
    let storms: Vec<&[Woken]> = woken
        .chunk_by(|a, b| b.at - a.at <= APART && a.by == b.by)
        .filter(|storm| {
            let threads: BTreeSet<ThreadId> = storm.iter().map(|it| it.thread).collect();
            // If a thread comes twice, it was woken once for each thing that it did.
            threads.len() >= STORM
                && threads.len() == storm.len()
                && vain(storm) as f64 >= IN_VAIN * storm.len() as f64
        })
        .collect();
    let spans = storms.iter().filter_map(|storm| {
        let until = storm.iter().filter_map(|it| it.again).max()?;
        scene.clip(storm[0].at, until)
    });
    let share = scene.share(covered(spans.collect()));
    if storms.len() < STORMS || share < STORM_SHARE {
        return None;
    }
    let all: usize = storms.iter().map(|storm| storm.len()).sum();
    let in_vain: usize = storms.iter().map(|storm| vain(storm)).sum();
    let wakers: BTreeSet<ThreadId> = storms.iter().map(|storm| storm[0].by).collect();
    let names: Vec<String> = wakers.iter().map(|&id| scene.name(id)).collect();
    let text = format!(
        "{} times, {} threads on average were woken at once at {reason} at {object:#x} by {}, and {} of them \
         waited there again at once: {} of the time. Wake one thread for each thing that there is to do.",
        storms.len(),
        all / storms.len(),
        list(&names),
        percent(in_vain as f64 / all as f64),
        percent(share),
    );
    let threads: BTreeSet<ThreadId> = storms.iter().flat_map(|it| it.iter().map(|it| it.thread)).collect();
    let mut subjects = vec![Subject::Object(object)];
    subjects.extend(wakers.into_iter().chain(threads).map(Subject::Thread));
    Some(Finding::new(Kind::WakeUpStorm, share, subjects, text))
}

fn vain(storm: &[Woken]) -> usize {
    storm.iter().filter(|it| it.again.is_some()).count()
}
