//! Threads that wait for locks at the end of the recording, and that no thread will wake.
//!
//! **What is certain.** The recording was written because the program has found such threads.
//!
//! **What is concluded.** A thread that waited for a lock, was woken, and did not wait for the same lock
//! next, has it. If no other thread was seen to get the lock since, that one is its last known owner. To give
//! up a lock for which no thread waits, and to take a free one, leaves no trace. So it may have another owner.
//!
//! **What is guessed, and told as such.** Last known owners have waited for each other's locks for long. Or
//! all threads are blocked at the end, and some have been so at locks for long. (A recording does not tell
//! which waits have a time limit, and lacks threads without events.) Or two threads have waited for two locks
//! for long, and neither was passed on meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use selvedge::thread::{ThreadId, WaitReason};
use selvedge::trace::{Span, State, ThreadLine};

use super::locks::{Waits, is_lock, waits_of, words};
use super::scene::Scene;
use super::words::{count, list, time};
use super::{Finding, Kind, Subject};

/// Threads must have waited for so long: far longer than an owner is off its LWP between two time slices.
const STUCK: Duration = Duration::from_millis(100);

/// Without known owners, they must have waited for this share of the time, too. An owner may hold a lock for
/// long without any error.
const STUCK_SHARE: f64 = 0.2;

/// What a program says that has found a deadlock itself.
const CERTAIN: &str = "threads wait forever";

/// A thread waits for a lock at the end.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    thread: ThreadId,
    reason: WaitReason,
    at: usize,
    from: Duration,
}

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let is_certain = scene.recording.reason() == Some(CERTAIN);
    let waits = waits_of(scene);
    let all = |lines: &[ThreadLine]| -> Vec<Stuck> {
        lines.iter().filter_map(|line| stuck(line, scene.to)).collect()
    };
    let owners = owners(scene, &waits);
    // A cycle does not dissolve, so it may be older than what is known of others.
    let cycle = cycle(&all(scene.timeline.threads()), &owners);
    let stuck = all(&scene.threads);
    let lasts = |it: &Stuck| scene.to - it.from >= STUCK;
    let all_wait_for_long = stuck.iter().any(lasts) && scene.threads.iter().all(is_blocked);
    if is_certain || all_wait_for_long {
        return Some(all_wait(scene, &stuck, &owners, cycle, is_certain));
    }
    if let Some(cycle) = cycle.filter(|cycle| cycle.iter().all(lasts)) {
        let text = format!("{} {OWNED} {ADVICE}", sentence(scene, &cycle, &owners));
        return Some(Finding::new(Kind::Deadlock, 1.0, subjects(&cycle), text));
    }
    let is_still = |it: &&Stuck| {
        let (_, waits) = &waits[&it.at];
        lasts(it)
            && scene.share(scene.to - it.from) >= STUCK_SHARE
            && !waits.iter().any(|wait| wait.by.is_some() && wait.to > it.from)
    };
    let still: Vec<Stuck> = stuck.iter().filter(is_still).copied().collect();
    let locks: BTreeSet<usize> = still.iter().map(|it| it.at).collect();
    // Before a thread came, its lock may have been passed on.
    let since = still.iter().map(|it| it.from).max().filter(|_| locks.len() >= 2)?;
    let text = format!(
        "{} No thread has given one of these locks up for {}: this may be a deadlock. {ADVICE}",
        sentence(scene, &still, &owners),
        time(scene.to - since),
    );
    Some(Finding::new(Kind::Deadlock, scene.share(scene.to - since.max(scene.from)), subjects(&still), text))
}

const OWNED: &str = "If they still have these locks, this is a deadlock.";
const ADVICE: &str = "Take locks in the same order everywhere.";

fn stuck(line: &ThreadLine, end: Duration) -> Option<Stuck> {
    let last = line.spans.last().filter(|last| !line.ends && last.to >= end)?;
    let (reason, at) = last.wait.filter(|&(reason, _)| is_lock(reason))?;
    Some(Stuck { thread: line.id, reason, at: at?, from: last.from })
}

/// Returns `true` if only another thread of the process can make this one go on, as far as its state is
/// known.
fn is_blocked(line: &ThreadLine) -> bool {
    use WaitReason::{Futex, Future, Readable, Writable};
    let from_outside = |span: &Span| {
        span.wait.is_some_and(|(reason, _)| matches!(reason, Future | Futex | Readable | Writable))
    };
    line.ends || line.spans.last().is_none_or(|it| it.state == State::Blocked && !from_outside(it))
}

/// Returns the thread that was last seen to get each lock.
fn owners(scene: &Scene<'_>, waits: &Waits) -> HashMap<usize, ThreadId> {
    let mut owners = HashMap::new();
    for (&at, (_, waits)) in waits {
        let got = waits.iter().rev().find(|wait| {
            // Otherwise it may have been a timer.
            let Some(line) = scene.line(wait.thread).filter(|_| wait.by.is_some()) else { return false };
            let after = line.spans.partition_point(|span| span.from < wait.to);
            let mut after = line.spans[after..].iter().skip_while(|span| span.track.is_none());
            // It has run since, and did not wait for the same lock next.
            after.next().is_some()
                && after.find_map(|span| span.wait).is_none_or(|(_, object)| object != Some(at))
        });
        if let Some(wait) = got {
            owners.insert(at, wait.thread);
        }
    }
    owners
}

/// Returns threads that wait for each other, each for the lock of the next.
fn cycle(stuck: &[Stuck], owners: &HashMap<usize, ThreadId>) -> Option<Vec<Stuck>> {
    let by_thread: HashMap<ThreadId, Stuck> = stuck.iter().map(|&it| (it.thread, it)).collect();
    for &first in stuck {
        let mut path = vec![first];
        while let Some(last) = path.last()
            && let Some(owner) = owners.get(&last.at)
            && let Some(&next) = by_thread.get(owner)
        {
            if next.thread == first.thread {
                // A thread that waits for a lock that it had may have given it up to one that was not seen.
                if path.len() > 1 {
                    return Some(path);
                }
                break;
            }
            if path.iter().any(|it| it.thread == next.thread) {
                break;
            }
            path.push(next);
        }
    }
    None
}

/// Returns the finding if no thread can go on.
fn all_wait(
    scene: &Scene<'_>,
    stuck: &[Stuck],
    owners: &HashMap<usize, ThreadId>,
    cycle: Option<Vec<Stuck>>,
    is_certain: bool,
) -> Finding {
    let all: Vec<_> = scene.threads.iter().filter(|line| is_blocked(line) && !line.ends).collect();
    let mut text = match (&cycle, stuck.is_empty()) {
        (Some(cycle), _) => sentence(scene, cycle, owners),
        (None, false) => sentence(scene, stuck, owners),
        (None, true) => {
            let waits = all.iter().filter_map(|line| Some((line.id, line.spans.last()?.wait?.0)));
            let waits: Vec<String> =
                waits.map(|(id, reason)| format!("{} waits for {reason}", scene.name(id))).collect();
            format!("{}.", list(&waits))
        }
    };
    text += if is_certain {
        " The program has found that threads wait forever."
    } else {
        " All threads of the recording wait. If no other thread and no time limit ends one of these waits, \
         this is a deadlock."
    };
    if cycle.is_none() && !stuck.is_empty() && all.len() > stuck.len() {
        text += &format!(" {} for something else.", others(all.len() - stuck.len()));
    }
    let locks: BTreeSet<usize> = cycle.as_deref().unwrap_or(stuck).iter().map(|it| it.at).collect();
    if locks.len() > 1 {
        text += " ";
        text += ADVICE;
    }
    let subjects = match (&cycle, stuck.is_empty()) {
        (Some(cycle), _) => subjects(cycle),
        (None, false) => subjects(stuck),
        (None, true) => all.iter().map(|line| Subject::Thread(line.id)).collect(),
    };
    Finding::new(Kind::Deadlock, 1.0, subjects, text)
}

fn others(number: usize) -> String {
    format!("{} {}", count(number, "other thread"), if number == 1 { "waits" } else { "wait" })
}

/// Says which thread waits for which lock, and which one was last seen with it.
fn sentence(scene: &Scene<'_>, stuck: &[Stuck], owners: &HashMap<usize, ThreadId>) -> String {
    let clauses: Vec<String> = stuck
        .iter()
        .map(|it| {
            let waits = format!("{} waits for {} at {:#x}", scene.name(it.thread), words(it.reason), it.at);
            match owners.get(&it.at).filter(|&&owner| owner != it.thread) {
                Some(&owner) => format!("{waits} (last seen with {})", scene.name(owner)),
                None => waits,
            }
        })
        .collect();
    format!("{}.", list(&clauses))
}

fn subjects(stuck: &[Stuck]) -> Vec<Subject> {
    let threads = stuck.iter().map(|it| Subject::Thread(it.thread));
    let locks: BTreeSet<usize> = stuck.iter().map(|it| it.at).collect();
    threads.chain(locks.into_iter().map(Subject::Object)).collect()
}
