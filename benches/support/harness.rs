//! Contenders take turns.
//!
//! A machine's speed drifts, and a process remembers. It keeps its heap, its idle workers, the size of its
//! futex hash, and a scheduler that can be configured once. So each sample is taken in a **fresh process**
//! (this program calls itself). In each round every contender gives **one sample**. What counts is the
//! **ratio of medians**. A contender that fails or hangs costs its own sample and nothing else: an alarm ends
//! it.
//!
//! A sample repeats its workload with more and more operations until it lasts long enough. Only the last run
//! counts: the ones before have warmed it up.
//!
//! A question can be asked in several runs of so many rounds each (`--runs`): then the last table shows
//! how far their medians lie apart.
//!
//! All that is `--versus`. Without it, criterion measures the same samples, and has its own options: named
//! baselines, comparison with the run before, and a report as HTML. It measures one contender after the
//! other, so its figures hold the drift.

mod answer;
mod cpu_time;
mod failure;
pub(crate) mod sample;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use cpu_time::CpuTime;
pub(crate) use failure::Failure;
pub(crate) use summary::Summary;

/// How long a measured run should last.
const LONG_ENOUGH: Duration = Duration::from_millis(200);

/// Something to be found out, with one figure for each contender.
pub(crate) struct Question {
    pub(crate) name: String,
    unit: Unit,
    /// How many things happen in one operation of the workload.
    per_operation: u64,
    /// The number of operations of the first run.
    first: u64,
    /// The number of operations of the one run, where the workload has a size of its own.
    fixed: Option<u64>,
    /// How many figures a run has besides.
    further: usize,
    /// These are its CPU time: user, system, and both.
    cpu_time: bool,
    /// No other sample may run beside.
    alone: bool,
    /// `--test` asks another question of the same code.
    only_measured: bool,
    prepare: fn(),
    pub(crate) cases: Vec<Case>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds for each of the things that an operation holds.
    NanosEach(&'static str),
    /// Milliseconds for the whole run.
    MillisInAll,
    /// A number that is neither a time nor a share: the part.
    Number(&'static str),
    /// A part of a whole, in percent.
    Percent(&'static str),
}

/// The contender of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer,
    /// Neither: it shows what nothing can fall below, so it is no peer that could be the best.
    Floor,
}

/// One contender with its workload.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    run: Box<dyn Fn(Effort) -> Run>,
}

/// How much a sample has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Of the next run.
    operations: u64,
    /// Runs are repeated until one lasts so long; zero: there is one.
    enough: Duration,
}

/// What one run did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// What was done; or the whole, where a part is asked for.
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// What [`Unit::Percent`] counts.
    pub(crate) part: u64,
    /// The CPU time that the process took meanwhile, where it was measured.
    pub(crate) cpu: Option<CpuTime>,
    /// Further figures, for a question that asks for [some](Question::further).
    pub(crate) more: Vec<f64>,
    /// What was seen, as text; empty if nothing is to be shown.
    pub(crate) seen: String,
}

impl Run {
    /// So many operations took so long.
    pub(crate) fn took(operations: u64, elapsed: Duration) -> Self {
        Self { operations, elapsed, ..Self::default() }
    }

    /// The same, with the CPU time that was taken since then.
    fn since(self, before: CpuTime) -> Self {
        Self { cpu: Some(CpuTime::now().since(before)), ..self }
    }

    /// Of this whole, so much.
    pub(crate) fn part(part: u64, whole: u64) -> Self {
        Self { operations: whole, part, ..Self::default() }
    }
}

impl Case {
    pub(crate) fn new(name: &'static str, side: Side, run: impl Fn(Effort) -> Run + 'static) -> Self {
        Self { name, side, run: Box::new(run) }
    }

    /// The same by another name.
    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The same on this side.
    pub(crate) fn on(self, side: Side) -> Self {
        Self { side, ..self }
    }
}

impl Effort {
    /// Runs until one lasts long enough, beginning with so many operations.
    fn from(operations: u64) -> Self {
        Self { operations, enough: LONG_ENOUGH }
    }

    /// One run of so many operations.
    fn exactly(operations: u64) -> Self {
        Self { operations, enough: Duration::ZERO }
    }

    /// The same, but where it is repeated, a run of this length is long enough.
    pub(crate) fn enough(self, enough: Duration) -> Self {
        let enough = if self.enough.is_zero() { self.enough } else { enough };
        Self { enough, ..self }
    }

    /// Repeats `work`, which is given a number of operations and tells how long they took.
    pub(crate) fn spend(mut self, mut work: impl FnMut(u64) -> Duration) -> Run {
        loop {
            let before = CpuTime::now();
            let run = Run::took(self.operations, work(self.operations)).since(before);
            match self.more_than(&run) {
                Some(more) => self = more,
                None => return run,
            }
        }
    }

    /// [`spend`](Self::spend) for work that can be awaited.
    pub(crate) async fn spend_async<F>(mut self, mut work: impl FnMut(u64) -> F) -> Run
    where
        F: Future<Output = Duration>,
    {
        loop {
            let before = CpuTime::now();
            let run = Run::took(self.operations, work(self.operations).await).since(before);
            match self.more_than(&run) {
                Some(more) => self = more,
                None => return run,
            }
        }
    }

    pub(crate) fn operations(self) -> u64 {
        self.operations
    }

    /// What to do after `run`, unless it was long enough.
    fn more_than(self, run: &Run) -> Option<Self> {
        if run.elapsed >= self.enough / 2 {
            return None;
        }
        let factor = self.enough.as_nanos() / run.elapsed.as_nanos().max(1);
        Some(Self { operations: self.operations * factor.clamp(2, 10) as u64, ..self })
    }
}

impl Question {
    pub(crate) fn new(name: impl Into<String>, unit: Unit, cases: Vec<Case>) -> Self {
        Self {
            name: name.into(),
            unit,
            per_operation: 1,
            first: 1000,
            fixed: None,
            further: 0,
            cpu_time: false,
            alone: false,
            only_measured: false,
            prepare: || (),
            cases,
        }
    }

    /// The same by another name.
    pub(crate) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Each operation of the workload holds `count` of the things that are counted.
    pub(crate) fn per_operation(self, count: u64) -> Self {
        Self { per_operation: count, ..self }
    }

    /// The workload is run with so many operations first, since one of them is much.
    pub(crate) fn first(self, operations: u64) -> Self {
        Self { first: operations, ..self }
    }

    /// The workload is run once, with so many operations.
    pub(crate) fn fixed(self, operations: u64) -> Self {
        Self { fixed: Some(operations), ..self }
    }

    /// A run has so many figures besides the one that the unit names.
    pub(crate) fn further(self, figures: usize) -> Self {
        Self { further: figures, ..self }
    }

    /// Each run also has its CPU time, in the question's unit: in user mode, in the kernel, and both.
    pub(crate) fn with_cpu_time(self) -> Self {
        Self { further: 3, cpu_time: true, ..self }
    }

    /// `--test` leaves the question out if `so`: another one has the same code do work of another size, or it
    /// cannot be made small.
    pub(crate) fn only_measured(self, so: bool) -> Self {
        Self { only_measured: so, ..self }
    }

    /// A sample takes too much memory or time to have others beside it, as `--test` has.
    pub(crate) fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    /// Returns the further figures of a run.
    fn more(&self, run: &Run) -> Vec<f64> {
        let Some(CpuTime { user, system }) = run.cpu.filter(|_| self.cpu_time) else {
            return run.more.clone();
        };
        let figure = |time| self.figure(&Run::took(run.operations, time));
        vec![figure(user), figure(system), figure(user + system)]
    }

    /// Returns how many figures a run has.
    pub(crate) fn figures_each(&self) -> usize {
        1 + self.further
    }

    /// What a sample's process does before anything else.
    pub(crate) fn prepare(self, prepare: fn()) -> Self {
        Self { prepare, ..self }
    }

    /// What a sample of this is to do.
    pub(crate) fn effort(&self) -> Effort {
        self.fixed.map_or(Effort::from(self.first), Effort::exactly)
    }

    /// What a run says.
    pub(crate) fn figure(&self, run: &Run) -> f64 {
        let nanos = run.elapsed.as_nanos() as f64;
        match self.unit {
            Unit::NanosEach(_) => nanos / (run.operations * self.per_operation) as f64,
            Unit::MillisInAll => nanos / 1e6,
            Unit::Number(_) => run.part as f64,
            Unit::Percent(_) => 100.0 * run.part as f64 / run.operations.max(1) as f64,
        }
    }

    /// Returns all figures of a run, the one that the unit names first. `None`: the contender has no such
    /// figure.
    pub(crate) fn figures<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = Option<f64>> + 'a {
        let more = (0..self.further).map(|number| run.more.get(number).copied());
        std::iter::once(Some(self.figure(run))).chain(more)
    }

    /// Returns `true` if the figures are times.
    pub(crate) fn is_of_time(&self) -> bool {
        matches!(self.unit, Unit::NanosEach(_) | Unit::MillisInAll)
    }

    /// What the figures count.
    pub(crate) fn unit(&self) -> String {
        match self.unit {
            Unit::NanosEach(what) => format!("ns {what}"),
            Unit::MillisInAll => "ms".to_owned(),
            Unit::Number(what) => what.to_owned(),
            Unit::Percent(what) => format!("% {what}"),
        }
    }
}

/// The `main` of a bench.
pub(crate) fn answer(questions: Vec<Question>) -> ExitCode {
    answer::to_command_line(questions)
}
