//! What a recording says about why threads did not run, in sentences.
//!
//! **Problem.** A recording has a hundred thousand events. Which of them matter to a programmer?
//!
//! **Solution.** Each *kind* of trouble has a rule over the recording alone, and thresholds with a reason. The
//! rules are in the files below, by family. A rule gives a share of the recorded time, by which findings are
//! sorted, so that the worst comes first. If nothing stands out, nothing is said.
//!
//! **Limits.** A recording has no owners of locks: they are concluded from which thread woke which waiter
//! (`locks.rs`). It has the priority that a thread was started with, and no later one.

mod deadlock;
mod locks;
mod scene;
mod slots;
mod storms;
mod turns;
mod words;

use std::fmt::{self, Write as _};
use std::time::Duration;

use selvedge::thread::ThreadId;
use selvedge::trace::{Recording, Track};

use self::scene::Scene;
use self::words::{count, percent, time};

/// How many findings of one kind are told. More of the same help no reader.
const MOST_OF_A_KIND: usize = 3;

/// Of a shorter recording, only what is certain is told: one time slice may be all of it.
const LEAST_TIME: Duration = Duration::from_millis(5);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// Threads wait for each other, or for locks that no thread gives up.
    Deadlock,
    /// A thread is runnable, and is never dispatched.
    NeverRuns,
    /// A thread keeps its LWP, and others wait for it.
    Hog,
    /// A thread waits while threads of higher priority run again and again.
    Starvation,
    /// LWPs are in the kernel, threads wait, and there may be no more LWPs.
    LwpsAtBound,
    /// Threads wait for busy LWPs while other LWPs have nothing to do.
    Imbalance,
    /// Threads wait for an LWP, all slots are busy, and CPUs are left.
    TooFewSlots,
    /// A lock has several waiters most of the time.
    Convoy,
    /// A thread waits for something else while others wait for its lock.
    HeldWhileBlocked,
    /// Many threads are woken at once, and most of them wait again at once.
    WakeUpStorm,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// A thread.
    Thread(ThreadId),
    /// A runtime, by its number.
    Runtime(u32),
    /// An LWP, or another kernel thread.
    Track(Track),
    /// The address of what threads wait for.
    Object(usize),
}

/// One thing that is wrong. It is displayed as sentences with figures and advice.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: Kind,
    /// What it is about, the most important first.
    pub subjects: Vec<Subject>,
    /// The share of the recorded time in which it kept a thread from running, or ran one for nothing. From 0
    /// to 1.
    pub severity: f64,
    /// How many more findings of this kind there are that are not listed. The last one of a kind has it.
    pub more: usize,
    text: String,
}

impl Finding {
    fn new(kind: Kind, severity: f64, subjects: Vec<Subject>, text: String) -> Self {
        Self { kind, subjects, severity: severity.clamp(0.0, 1.0), more: 0, text }
    }

    /// Returns the threads that it is about.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.subjects.iter().filter_map(|subject| match subject {
            Subject::Thread(id) => Some(*id),
            _ => None,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " (And {more} more like this.)"),
        }
    }
}

/// Returns what stands out in a recording, the worst first. There are at most three findings of each kind.
#[must_use]
pub fn explain(recording: &Recording) -> Vec<Finding> {
    findings(&Scene::of(recording))
}

fn findings(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found: Vec<_> = deadlock::find(scene).into_iter().collect();
    if scene.length() >= LEAST_TIME {
        found.extend(turns::find(scene));
        found.extend(slots::find(scene));
        found.extend(locks::find(scene));
        found.extend(storms::find(scene));
    }
    // Between equals, the kind decides: `Kind` has what names a culprit before what names only a lack.
    let percent = |finding: &Finding| (finding.severity * 100.0).round();
    found.sort_by(|a, b| percent(b).total_cmp(&percent(a)).then(a.kind.cmp(&b.kind)));
    shorten(found)
}

/// Leaves the worst of each kind, and notes how many more there were.
fn shorten(found: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        if kept.iter().filter(|it| it.kind == finding.kind).count() < MOST_OF_A_KIND {
            kept.push(finding);
        } else if let Some(last) = kept.iter_mut().rfind(|it| it.kind == finding.kind) {
            last.more += 1;
        }
    }
    kept
}

/// Returns the findings as text for a terminal, below a header that says what was recorded.
#[must_use]
pub fn report(recording: &Recording) -> String {
    let scene = Scene::of(recording);
    let mut text = header(&scene);
    let found = findings(&scene);
    if found.is_empty() {
        text.push_str("Nothing stands out.\n");
    }
    for (number, finding) in found.iter().enumerate() {
        let severity = percent(finding.severity);
        let _ = writeln!(text, "{:>2}. [{severity}] {finding}", number + 1);
    }
    text
}

fn header(scene: &Scene<'_>) -> String {
    let recording = scene.recording;
    let lwps = recording.tracks().iter().filter(|track| matches!(track, Track::Lwp { .. })).count();
    let others = recording.tracks().len() - lwps;
    let mut text = format!(
        "{} recorded: {}, {}, {}",
        time(scene.timeline.end()),
        count(scene.timeline.threads().len(), "thread"),
        count(lwps, "LWP"),
        count(others, "other kernel thread"),
    );
    if recording.cpus() > 0 {
        let _ = write!(text, ", {}", count(recording.cpus(), "CPU"));
    }
    text.push_str(".\n");
    if let Some(reason) = recording.reason() {
        let _ = writeln!(text, "It was written because {reason}.");
    }
    if scene.full > 0 {
        let _ = writeln!(
            text,
            "The first events of {} were overwritten. What follows is about the last {}.",
            count(scene.full, "LWP"),
            time(scene.length()),
        );
    }
    text.push('\n');
    text
}
