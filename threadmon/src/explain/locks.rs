//! Locks that keep threads waiting.
//!
//! **Problem.** A recording has no owners: to take a free lock is no event.
//!
//! **Solution.** The thread that wakes a waiter of a lock held it. It held the lock since the waiter came, or
//! since the last waiter before that was woken, whichever was later. A lock that was given up with waiters
//! was taken by another thread, or by that one.
//!
//! A thread that interrupts a waiter wakes it, too. The recording does not tell that from an owner.
//!
//! A thread that waits for a condition variable has given up the lock that goes with it. The recording does
//! not say which lock that is, so waits for condition variables are no charge against an owner.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use selvedge::thread::{ThreadId, WaitReason};
use selvedge::trace::{Span, State};

use super::scene::{Scene, covered};
use super::words::{count, list, percent, time};
use super::{Finding, Kind, Subject};

/// A lock has at least two waiters for this share of the time. Below, threads meet by chance.
const CONVOY_SHARE: f64 = 0.25;

/// A convoy goes on: its lock is passed on at least so often. Otherwise, one owner kept the lock for long.
const CONVOY_GRANTS: usize = 10;

/// A lock is held by threads that wait for something else, while others wait for it, for this share of the
/// time. Less hardly delays a program, and may be an error of what is concluded from wake-ups.
const HELD_SHARE: f64 = 0.05;

/// A thread waited for a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) thread: ThreadId,
    pub(super) from: Duration,
    pub(super) to: Duration,
    /// The thread that ended the wait. `None`: it has not ended, or no thread of Selvedge did it.
    pub(super) by: Option<ThreadId>,
}

/// The waits for each lock, in the order of their ends.
pub(super) type Waits = BTreeMap<usize, (WaitReason, Vec<Wait>)>;

pub(super) fn is_lock(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Mutex | WaitReason::RwLock)
}

pub(super) fn waits_of(scene: &Scene<'_>) -> Waits {
    let wakes = scene.timeline.wakes().iter().map(|wake| ((wake.thread, wake.at), wake.by));
    let wakes: HashMap<(ThreadId, Duration), Option<ThreadId>> = wakes.collect();
    let mut waits = Waits::new();
    for line in &scene.threads {
        for span in &line.spans {
            if let Some((reason, Some(at))) = span.wait
                && is_lock(reason)
            {
                let by = wakes.get(&(line.id, span.to)).copied().flatten();
                let wait = Wait { thread: line.id, from: span.from, to: span.to, by };
                waits.entry(at).or_insert((reason, Vec::new())).1.push(wait);
            }
        }
    }
    waits.values_mut().for_each(|(_, waits)| waits.sort_by_key(|wait| wait.to));
    waits
}

pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, (reason, waits)) in waits_of(scene) {
        let held = Held::of(scene, at, &waits);
        let blame = covered(held.spans.clone());
        found.extend(held.finding(scene, at, reason, &waits));
        found.extend(convoy(scene, at, reason, &waits, blame));
    }
    found
}

/// `blame`: for how long the waiters waited because an owner waited for something else.
fn convoy(
    scene: &Scene<'_>,
    at: usize,
    reason: WaitReason,
    waits: &[Wait],
    blame: Duration,
) -> Option<Finding> {
    let mut changes: Vec<(Duration, i32)> = Vec::new();
    for (from, to) in waits.iter().filter_map(|wait| scene.clip(wait.from, wait.to)) {
        changes.extend([(from, 1), (to, -1)]);
    }
    changes.sort();
    let (mut waiting, mut since) = (0_i32, Duration::ZERO);
    let (mut crowded, mut sum, mut most) = (Duration::ZERO, 0.0, 0);
    for (at, change) in changes {
        if waiting >= 2 {
            crowded += at - since;
            sum += (at - since).as_secs_f64() * f64::from(waiting);
        }
        since = at;
        waiting += change;
        most = most.max(waiting);
    }
    let grants = waits.iter().filter(|wait| wait.by.is_some() && wait.to >= scene.from).count();
    let threads = by_length(waits.iter().filter_map(|it| Some((it.thread, scene.clip(it.from, it.to)?))));
    let share = scene.share(crowded);
    if share < CONVOY_SHARE || grants < CONVOY_GRANTS || blame > crowded / 2 {
        return None;
    }
    let names: Vec<String> = threads.iter().map(|&(id, _)| scene.name(id)).collect();
    let text = format!(
        "{} at {at:#x} has a convoy: at least two threads waited for it for {} of the time, {:.1} on \
         average and {most} at most, and it was passed on {grants} times. Those are {}. Hold it for less, \
         or divide what it protects.",
        capital(reason),
        percent(share),
        sum / crowded.as_secs_f64(),
        list(&names),
    );
    let mut subjects = vec![Subject::Object(at)];
    subjects.extend(threads.iter().map(|&(id, _)| Subject::Thread(id)));
    Some(Finding::new(Kind::Convoy, share, subjects, text))
}

/// Returns the threads of these spans, with the time that each one's cover, the longest first.
fn by_length(spans: impl Iterator<Item = (ThreadId, (Duration, Duration))>) -> Vec<(ThreadId, Duration)> {
    let mut sums: BTreeMap<ThreadId, Vec<(Duration, Duration)>> = BTreeMap::new();
    spans.for_each(|(id, span)| sums.entry(id).or_default().push(span));
    let mut sums: Vec<_> = sums.into_iter().map(|(id, spans)| (id, covered(spans))).collect();
    sums.sort_by_key(|&(_, length)| std::cmp::Reverse(length));
    sums
}

/// How a lock was held by threads that waited for something else.
#[derive(Default)]
struct Held {
    spans: Vec<(Duration, Duration)>,
    owners: Vec<(ThreadId, (Duration, Duration))>,
    /// For how long in which state, and for what.
    longest: Option<(Duration, Span)>,
}

impl Held {
    fn of(scene: &Scene<'_>, at: usize, waits: &[Wait]) -> Self {
        let mut held = Self::default();
        let mut last = Duration::ZERO;
        for wait in waits {
            let begin = wait.from.max(last);
            last = wait.to;
            let Some(owner) = wait.by.filter(|&by| by != wait.thread) else { continue };
            let Some(line) = scene.line(owner) else { continue };
            let first = line.spans.partition_point(|span| span.to <= begin);
            for span in line.spans[first..].iter().take_while(|span| span.from < wait.to) {
                if !waits_with_lock(span, at) {
                    continue;
                }
                let Some(part) = scene.clip(span.from.max(begin), span.to.min(wait.to)) else { continue };
                held.spans.push(part);
                held.owners.push((owner, part));
                let length = part.1 - part.0;
                if held.longest.is_none_or(|(longest, _)| length > longest) {
                    held.longest = Some((length, *span));
                }
            }
        }
        held
    }

    fn finding(&self, scene: &Scene<'_>, at: usize, reason: WaitReason, waits: &[Wait]) -> Option<Finding> {
        let (longest, span) = self.longest?;
        let share = scene.share(covered(self.spans.clone()));
        if share < HELD_SHARE {
            return None;
        }
        let owners = by_length(self.owners.iter().copied());
        let names: Vec<String> = owners.iter().map(|&(id, _)| scene.name(id)).collect();
        let waiters: HashSet<ThreadId> = waits.iter().map(|wait| wait.thread).collect();
        let doing = match (span.state, span.wait) {
            (State::InKernel, _) => "in a call that may block in the kernel".into(),
            (State::Sleeping, _) => "asleep".into(),
            (_, Some((what, Some(object)))) => format!("waiting for {what} at {object:#x}"),
            (_, Some((what, None))) => format!("waiting for {what}"),
            _ => "waiting".into(),
        };
        let text = format!(
            "{} held {} at {at:#x} while {doing}, and others waited for it meanwhile: for {} of the time, \
             {} at longest, {} in all. Give the lock up before such a call.",
            list(&names),
            words(reason),
            percent(share),
            time(longest),
            count(waiters.len(), "waiter"),
        );
        let mut subjects: Vec<_> = owners.iter().map(|&(id, _)| Subject::Thread(id)).collect();
        subjects.push(Subject::Object(at));
        Some(Finding::new(Kind::HeldWhileBlocked, share, subjects, text))
    }
}

/// Returns `true` if the thread waits, and may do so with the lock at `at` held.
fn waits_with_lock(span: &Span, at: usize) -> bool {
    match span.state {
        State::Sleeping | State::InKernel => true,
        State::Blocked => {
            span.wait.is_some_and(|(reason, object)| reason != WaitReason::Condvar && object != Some(at))
        }
        _ => false,
    }
}

pub(super) fn words(reason: WaitReason) -> &'static str {
    if reason == WaitReason::RwLock { "the read-write lock" } else { "the mutex" }
}

fn capital(reason: WaitReason) -> &'static str {
    if reason == WaitReason::RwLock { "The read-write lock" } else { "The mutex" }
}
