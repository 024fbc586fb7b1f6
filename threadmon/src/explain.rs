//! What a recording says about why threads did not run, in sentences.
//!
//! **Problem.** A recording has a hundred thousand events. Which of them matter to a programmer?
//!
//! **Solution.** Each *kind* of trouble has a rule over the recording alone, and thresholds with a reason.
//! The rules are in the files below, by family. A rule gives a share of the recorded time, by which findings
//! are sorted, so that the worst comes first. If nothing stands out, nothing is said.
//!
//! **Limits.** A recording has no owners of locks: they are concluded from which thread woke which waiter
//! (`locks.rs`). It has the priority that a thread was started with, and no later one. It does not say that
//! an LWP waits for a CPU, so thresholds are far above what the kernel makes it wait. If it is a sample of
//! the threads, only the rules about single threads apply. What threads do together is not in it.

mod deadlock;
mod locks;
mod scene;
mod slots;
mod storms;
mod turns;
mod words;

use std::cmp::Reverse;
use std::collections::BTreeMap;
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

/// What a finding is about, and its sentences.
type Told = (Vec<Subject>, String);

/// What may become a finding. A million threads may be starved, and three of them are told.
struct Candidate<'a> {
    kind: Kind,
    severity: f64,
    tell: Box<dyn FnOnce() -> Told + 'a>,
}

impl<'a> Candidate<'a> {
    fn new(kind: Kind, severity: f64, tell: impl FnOnce() -> Told + 'a) -> Self {
        Self { kind, severity, tell: Box::new(tell) }
    }
}

impl From<Finding> for Candidate<'_> {
    fn from(finding: Finding) -> Self {
        Self::new(finding.kind, finding.severity, move || (finding.subjects, finding.text))
    }
}

/// Returns what stands out in a recording, the worst first. There are at most three findings of each kind.
#[must_use]
pub fn explain(recording: &Recording) -> Vec<Finding> {
    findings(&Scene::of(recording))
}

fn findings<'a>(scene: &'a Scene<'a>) -> Vec<Finding> {
    let whole = scene.is_whole();
    let deadlock = if whole { deadlock::find(scene) } else { None };
    let mut found: Vec<Candidate<'a>> = deadlock.map(Candidate::from).into_iter().collect();
    if scene.length() >= LEAST_TIME {
        found.extend(turns::find(scene));
    }
    if scene.length() >= LEAST_TIME && whole {
        let told = [slots::find(scene), locks::find(scene), storms::find(scene)];
        found.extend(told.into_iter().flatten().map(Candidate::from));
    }
    // Between equals, the kind decides: `Kind` has what names a culprit before what names only a lack.
    let key = |it: &Candidate<'_>| (Reverse((it.severity * 100.0).round() as u32), it.kind);
    found.sort_by(|a, b| key(a).cmp(&key(b)).then(b.severity.total_cmp(&a.severity)));
    shorten(found)
}

/// Tells the worst of each kind, and notes how many more there were.
fn shorten(found: Vec<Candidate<'_>>) -> Vec<Finding> {
    let mut told: Vec<Finding> = Vec::new();
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for candidate in found {
        let count = counts.entry(candidate.kind).or_default();
        *count += 1;
        if *count <= MOST_OF_A_KIND {
            let (subjects, text) = (candidate.tell)();
            told.push(Finding::new(candidate.kind, candidate.severity, subjects, text));
        }
    }
    for (kind, count) in counts {
        if let Some(last) = told.iter_mut().rfind(|it| it.kind == kind) {
            last.more = count.saturating_sub(MOST_OF_A_KIND);
        }
    }
    told
}

/// Returns the findings as text for a terminal, below a header that says what was recorded.
#[must_use]
pub fn report(recording: &Recording) -> String {
    let scene = Scene::of(recording);
    let mut text = header(&scene);
    let found = findings(&scene);
    if found.is_empty() {
        text.push_str(match (recording.events(), scene.is_whole()) {
            ([], _) => "It has no events.\n",
            (_, true) => "Nothing stands out.\n",
            (_, false) => "No thread of it stands out.\n",
        });
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
        let _ = writeln!(text, "It was written because {}.", crate::clean(reason));
    }
    if !scene.is_whole() {
        let _ = writeln!(
            text,
            "It is a sample: one thread of {} was recorded. Hogs, and threads that get no turn, are found among \
             these only. A sample cannot tell whether there are too few slots or LWPs, whether LWPs are equally \
             busy, and what threads do to each other by locks, wake-ups and deadlocks.",
            recording.sampled(),
        );
    }
    if scene.is_cut {
        let last = time(scene.length());
        let _ = writeln!(text, "Earlier events were overwritten. What follows is about the last {last}.");
    }
    text.push('\n');
    text
}
