//! Contenders take turns.
//!
//! A machine's speed drifts, and a process remembers: its heap, its idle workers, the size of its futex hash, a
//! scheduler that can be configured once. So each sample is taken in a **fresh process** (this program calls itself), in
//! each round every contender gives **one sample**, and what counts is the **ratio of medians**. A contender that fails
//! or hangs costs its own sample and nothing else: an alarm ends it.
//!
//! A sample repeats its workload with more and more operations until it lasts long enough; only the last run counts, the
//! ones before have warmed it up.
//!
//! A question can be asked in several runs of so many rounds each (`--runs`): then the last table shows how far their medians
//! lie apart.
//!
//! criterion measures one function after the other, so its figures hold the drift. With `--criterion` it gives its
//! statistics, history and comparison with the run before, over the same samples.

use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// How long a measured run should last.
const LONG_ENOUGH: Duration = Duration::from_millis(200);
/// After which a sample is given up.
const ALARM: Duration = Duration::from_secs(100);
/// Samples of each contender.
const ROUNDS: usize = 5;

/// Something to be found out, with one figure for each contender.
pub(crate) struct Question {
    name: String,
    unit: Unit,
    /// How many things happen in one operation of the workload.
    per_operation: u64,
    /// The number of operations of the first run.
    first: u64,
    /// The number of operations of the one run, where the workload has a size of its own.
    fixed: Option<u64>,
    prepare: fn(),
    cases: Vec<Case>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds for each of the things that an operation holds.
    NanosEach(&'static str),
    /// Milliseconds for the whole run.
    MillisInAll,
    /// A part of a whole, in percent.
    Percent(&'static str),
}

/// Whose case it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer,
}

/// One contender with its workload.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    side: Side,
    run: Box<dyn Fn(Effort) -> Run>,
}

/// How much a sample has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    /// Runs until one lasts long enough, beginning with so many operations.
    From(u64),
    /// One run of so many operations.
    Exactly(u64),
}

/// What one run did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// What was done; or the whole, where a part is asked for.
    operations: u64,
    elapsed: Duration,
    /// What [`Unit::Percent`] counts.
    part: u64,
}

impl Run {
    /// So many operations took so long.
    pub(crate) fn took(operations: u64, elapsed: Duration) -> Self {
        Self { operations, elapsed, part: 0 }
    }

    /// Of this whole, so much.
    pub(crate) fn part(part: u64, whole: u64) -> Self {
        Self { operations: whole, elapsed: Duration::ZERO, part }
    }
}

impl Case {
    pub(crate) fn new(name: &'static str, side: Side, run: impl Fn(Effort) -> Run + 'static) -> Self {
        Self { name, side, run: Box::new(run) }
    }
}

impl Effort {
    /// Repeats `work`, which is given a number of operations and tells how long they took.
    pub(crate) fn spend(mut self, mut work: impl FnMut(u64) -> Duration) -> Run {
        loop {
            let run = Run::took(self.operations(), work(self.operations()));
            match self.more_than(run) {
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
            let run = Run::took(self.operations(), work(self.operations()).await);
            match self.more_than(run) {
                Some(more) => self = more,
                None => return run,
            }
        }
    }

    pub(crate) fn operations(self) -> u64 {
        match self {
            Self::From(operations) | Self::Exactly(operations) => operations,
        }
    }

    /// What to do after `run`, unless it was long enough.
    fn more_than(self, run: Run) -> Option<Self> {
        match self {
            Self::Exactly(_) => None,
            Self::From(_) if run.elapsed >= LONG_ENOUGH / 2 => None,
            Self::From(operations) => {
                let factor = LONG_ENOUGH.as_nanos() / run.elapsed.as_nanos().max(1);
                Some(Self::From(operations * factor.clamp(2, 10) as u64))
            }
        }
    }
}

impl Question {
    pub(crate) fn new(name: impl Into<String>, unit: Unit, cases: Vec<Case>) -> Self {
        Self { name: name.into(), unit, per_operation: 1, first: 1000, fixed: None, prepare: || (), cases }
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

    /// What a sample's process does before anything else.
    pub(crate) fn prepare(self, prepare: fn()) -> Self {
        Self { prepare, ..self }
    }

    fn figure(&self, run: Run) -> f64 {
        let nanos = run.elapsed.as_nanos() as f64;
        match self.unit {
            Unit::NanosEach(_) => nanos / (run.operations * self.per_operation) as f64,
            Unit::MillisInAll => nanos / 1e6,
            Unit::Percent(_) => 100.0 * run.part as f64 / run.operations.max(1) as f64,
        }
    }

    fn unit(&self) -> String {
        match self.unit {
            Unit::NanosEach(what) => format!("ns {what}"),
            Unit::MillisInAll => "ms".to_owned(),
            Unit::Percent(what) => format!("% {what}"),
        }
    }
}

/// What the command line asks for.
enum Request {
    Rounds { rounds: usize, runs: usize },
    Criterion,
    Smoke,
    List,
    Sample { question: usize, case: usize, effort: Effort },
}

/// The `main` of a bench.
pub(crate) fn answer(questions: Vec<Question>) -> ExitCode {
    let (request, filter) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!(
                "{error}\nusage: [--rounds <n> [--runs <n>] | --criterion | --test | --list] [<part of a question's name>]"
            );
            return ExitCode::FAILURE;
        }
    };
    let asked = |question: &&Question| filter.as_ref().is_none_or(|part| question.name.contains(part));
    let numbered = || questions.iter().enumerate().filter(|(_, question)| asked(question));
    match request {
        Request::Sample { question, case, effort } => {
            sample_here(&questions[question], case, effort);
            ExitCode::SUCCESS
        }
        Request::List => {
            for (index, question) in numbered() {
                let line = |(number, case): (usize, &Case)| {
                    println!("{index} {number} {} {}: {}", question.per_operation, question.name, case.name);
                };
                question.cases.iter().enumerate().for_each(line);
            }
            ExitCode::SUCCESS
        }
        Request::Smoke => {
            let failures: usize = numbered().map(|(index, question)| smoke(index, question)).sum();
            if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Request::Rounds { rounds, runs } => {
            let cpus = super::affinity::allowed().len();
            println!("{cpus} CPUs, {rounds} rounds, a fresh process for each sample");
            let run = |_| numbered().map(|(index, question)| compete(index, question, rounds)).collect();
            let medians: Vec<Vec<_>> = (0..runs).map(run).collect();
            if runs > 1 {
                println!(
                    "\n{}",
                    spread(&numbered().map(|(_, question)| question).collect::<Vec<_>>(), &medians)
                );
            }
            ExitCode::SUCCESS
        }
        Request::Criterion => {
            let mut criterion = criterion::Criterion::default().sample_size(10);
            numbered().for_each(|(index, question)| analyse(&mut criterion, index, question));
            criterion.final_summary();
            ExitCode::SUCCESS
        }
    }
}

fn parse() -> Result<(Request, Option<String>), lexopt::Error> {
    use lexopt::prelude::*;

    // As with criterion: without cargo's `--bench`, it is `cargo test` that runs us.
    let mut bench = false;
    let (mut request, mut filter) = (None, None);
    let (mut rounds, mut runs) = (None, None);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => bench = true,
            Long("test") => request = Some(Request::Smoke),
            Long("list") => request = Some(Request::List),
            Long("criterion") => request = Some(Request::Criterion),
            Long("rounds") => rounds = Some(parser.value()?.parse()?),
            Long("runs") => runs = Some(parser.value()?.parse()?),
            Long("sample") => {
                let (question, case) = (parser.value()?.parse()?, parser.value()?.parse()?);
                let exactly = parser.value()? == "exactly";
                let operations = parser.value()?.parse()?;
                let effort = if exactly { Effort::Exactly(operations) } else { Effort::From(operations) };
                request = Some(Request::Sample { question, case, effort });
            }
            Value(part) if filter.is_none() => filter = Some(part.string()?),
            _ => return Err(argument.unexpected()),
        }
    }
    let request = request.unwrap_or(if bench || rounds.is_some() || runs.is_some() {
        Request::Rounds { rounds: rounds.unwrap_or(ROUNDS), runs: runs.unwrap_or(1) }
    } else {
        Request::Smoke
    });
    Ok((request, filter))
}

/// Takes a sample in a process of its own.
fn sample(question: usize, case: usize, effort: Effort) -> Result<Run, String> {
    let kind = if matches!(effort, Effort::Exactly(_)) { "exactly" } else { "from" };
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .arg("--sample")
        .args([question.to_string(), case.to_string(), kind.to_owned(), effort.operations().to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match (output.status.success(), numbers.next(), numbers.next(), numbers.next()) {
        (true, Some(Ok(operations)), Some(Ok(nanos)), Some(Ok(part))) => {
            Ok(Run { operations, elapsed: Duration::from_nanos(nanos), part })
        }
        _ => {
            let reason = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "{} {}",
                output.status,
                reason.lines().find(|line| !line.is_empty()).unwrap_or_default()
            ))
        }
    }
}

/// The other side of [`sample`].
fn sample_here(question: &Question, case: usize, effort: Effort) {
    // SAFETY: no memory is involved. The signal's default action ends the process, however stuck its threads are.
    unsafe { libc::alarm(ALARM.as_secs() as u32) };
    (question.prepare)();
    let run = (question.cases[case].run)(effort);
    println!("{} {} {}", run.operations, run.elapsed.as_nanos(), run.part);
}

/// Lets everybody run once, shortly. Gives the number of contenders of ours that failed.
fn smoke(index: usize, question: &Question) -> usize {
    let mut failures = 0;
    for (number, case) in question.cases.iter().enumerate() {
        let result = sample(
            index,
            number,
            Effort::Exactly(question.fixed.map_or(question.first.min(100), |fixed| fixed.min(2))),
        );
        let word = match &result {
            Ok(_) => "ok",
            Err(reason) => reason.as_str(),
        };
        println!("{}: {}: {word}", question.name, case.name);
        failures += usize::from(result.is_err() && case.side == Side::Ours);
    }
    failures
}

/// Asks everybody in turn, several times, and prints who is how fast. Gives the medians.
fn compete(index: usize, question: &Question, rounds: usize) -> Vec<Option<f64>> {
    let effort = question.fixed.map_or(Effort::From(question.first), Effort::Exactly);
    let mut figures: Vec<Result<Vec<f64>, String>> = question.cases.iter().map(|_| Ok(Vec::new())).collect();
    for _ in 0..rounds {
        for (number, taken) in figures.iter_mut().enumerate() {
            // Whoever has failed once is not asked again.
            let Ok(list) = taken else { continue };
            match sample(index, number, effort) {
                Ok(run) => list.push(question.figure(run)),
                Err(reason) => *taken = Err(reason),
            }
        }
    }
    let medians: Vec<Option<f64>> = figures
        .iter_mut()
        .map(|taken| {
            let list = taken.as_mut().ok()?;
            list.sort_by(f64::total_cmp);
            list.get(list.len() / 2).copied()
        })
        .collect();
    println!("\n{}", table(question, &figures, &medians));
    medians
}

/// How far the medians of several runs lie apart.
fn spread(questions: &[&Question], runs: &[Vec<Vec<Option<f64>>>]) -> String {
    let mut text = format!("medians of {} runs: least, most, and the most by the least\n", runs.len());
    for (at, question) in questions.iter().enumerate() {
        for (number, case) in question.cases.iter().enumerate() {
            let medians: Vec<f64> = runs.iter().filter_map(|run| run[at][number]).collect();
            let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
            let most = medians.iter().copied().fold(0.0, f64::max);
            let name = format!("{}: {}", question.name, case.name);
            let _ = writeln!(text, "  {name:<52}{least:>12.1}{most:>12.1}{:>8.3}", most / least);
        }
    }
    text
}

fn table(question: &Question, figures: &[Result<Vec<f64>, String>], medians: &[Option<f64>]) -> String {
    let peers = question.cases.iter().zip(medians).filter(|(case, _)| case.side == Side::Peer);
    let best = peers.filter_map(|(_, median)| *median).min_by(f64::total_cmp);

    let mut text = format!("{}\n", question.name);
    let _ = writeln!(
        text,
        "  {:<28}{:>12}{:>12}{:>12}{:>14}",
        question.unit(),
        "median",
        "least",
        "most",
        "of best peer"
    );
    for ((case, taken), median) in question.cases.iter().zip(figures).zip(medians) {
        let name = format!("{}{}", if case.side == Side::Ours { "* " } else { "  " }, case.name);
        let _ = match (taken, median) {
            (Ok(list), Some(median)) => {
                let (least, most) = (list[0], list[list.len() - 1]);
                let ratio = best.map_or(f64::NAN, |best| median / best);
                writeln!(text, "  {name:<28}{median:>12.1}{least:>12.1}{most:>12.1}{ratio:>14.2}")
            }
            (Err(reason), _) => writeln!(text, "  {name:<28}failed: {reason}"),
            (Ok(_), None) => writeln!(text, "  {name:<28}not asked"),
        };
    }
    text
}

/// Hands everybody to criterion.
fn analyse(criterion: &mut criterion::Criterion, index: usize, question: &Question) {
    let mut group = criterion.benchmark_group(&question.name);
    for (number, case) in question.cases.iter().enumerate() {
        if let Err(reason) = sample(index, number, Effort::Exactly(1)) {
            println!("{}: {}: {reason}", question.name, case.name);
            continue;
        }
        group.throughput(criterion::Throughput::Elements(question.per_operation));
        group.bench_function(case.name, |bencher| {
            bencher.iter_custom(|operations| {
                sample(index, number, Effort::Exactly(operations)).expect("it ran before").elapsed
            });
        });
    }
    group.finish();
}
