//! The command line of a bench, and what it prints.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::sample::{self, Sample, Taker};
use super::{Case, Effort, Failure, Question, Run, Side, Summary};
use crate::support::affinity;

/// After which a sample is given up.
const ALARM: Duration = Duration::from_secs(100);
/// Samples of each contender.
const ROUNDS: usize = 5;

/// Samples that `--test` takes at a time, for one may sleep while another computes. It judges no figures.
const SMOKE_AT_ONCE: usize = 2;

/// What the command line asks for.
enum Request {
    Versus { rounds: usize, runs: usize },
    Smoke,
    List,
    Sample(Sample),
}

/// Does what the command line asks for.
pub(super) fn to_command_line(questions: Vec<Question>) -> ExitCode {
    if is_for_criterion() {
        let mut criterion = criterion::Criterion::default()
            .sample_size(10)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(2))
            .configure_from_args();
        let ask = |(index, question)| analyse(&mut criterion, index, question);
        let failures = questions.iter().enumerate().map(ask).sum();
        criterion.final_summary();
        return unless(failures);
    }
    let (request, filter) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!(
                "{error}\nusage: --versus [--rounds <n>] [--runs <n>] | --test | --list, each with [<this bench's name, or part of a question's>]; without these, criterion's options"
            );
            return ExitCode::FAILURE;
        }
    };
    let own = own_name();
    let asked = |question: &Question| {
        filter.as_ref().is_none_or(|part| *part == own || question.name.contains(part.as_str()))
    };
    let numbered = || questions.iter().enumerate().filter(|(_, question)| asked(question));
    if let Some(part) = filter.as_ref().filter(|_| numbered().next().is_none()) {
        // `cargo bench -- <part>` asks every bench.
        eprintln!("{own}: no question is called {part}");
        return ExitCode::SUCCESS;
    }
    match request {
        Request::Sample(sample) => {
            sample.take_here(&questions);
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
            let questions = numbered().filter(|(_, question)| !question.only_measured);
            unless(smoke(&questions.collect::<Vec<_>>()))
        }
        Request::Versus { rounds, runs } => {
            let (cpus, s) = (affinity::allowed().len(), if rounds == 1 { "" } else { "s" });
            println!("{cpus} CPUs, {rounds} round{s}, a fresh process for each sample");
            let run = |_| numbered().map(|(index, question)| compete(index, question, rounds)).collect();
            let results: Vec<Vec<_>> = (0..runs).map(run).collect();
            let asked: Vec<_> = numbered().map(|(_, question)| question).collect();
            if runs > 1 {
                println!("\n{}", spread(&asked, &results));
            }
            unless(results.iter().map(|run| failures(&asked, run)).sum())
        }
    }
}

/// Returns success, unless so many of ours have failed.
fn unless(failures: usize) -> ExitCode {
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns `true` if cargo asks for a benchmark, with no option of our own.
fn is_for_criterion() -> bool {
    let mut bench = false;
    for argument in std::env::args().skip(1) {
        match argument.split('=').next().unwrap_or_default() {
            "--bench" => bench = true,
            "--versus" | "--rounds" | "--runs" | "--test" | "--list" => return false,
            option if option.strip_prefix("--") == Some(sample::OPTION) => return false,
            _ => {}
        }
    }
    bench
}

fn parse() -> Result<(Request, Option<String>), lexopt::Error> {
    use lexopt::prelude::*;

    let (mut request, mut filter) = (None, None);
    let (mut versus, mut rounds, mut runs) = (false, None, None);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bench") => {}
            Long("versus") => versus = true,
            Long("test") => request = Some(Request::Smoke),
            Long("list") => request = Some(Request::List),
            Long("rounds") => rounds = Some(some_of("--rounds", parser.value()?.parse()?)?),
            Long("runs") => runs = Some(some_of("--runs", parser.value()?.parse()?)?),
            Long(sample::OPTION) => request = Some(Request::Sample(Sample::parse(&mut parser)?)),
            Value(part) if filter.is_none() => filter = Some(part.string()?),
            _ => return Err(argument.unexpected()),
        }
    }
    // As with criterion: without cargo's `--bench`, it is `cargo test` that runs us.
    let versus = versus || rounds.is_some() || runs.is_some();
    let request = request.unwrap_or(if versus {
        Request::Versus { rounds: rounds.unwrap_or(ROUNDS), runs: runs.unwrap_or(1) }
    } else {
        Request::Smoke
    });
    Ok((request, filter))
}

/// Of none there is no median.
fn some_of(option: &str, number: usize) -> Result<usize, lexopt::Error> {
    if number > 0 { Ok(number) } else { Err(format!("{option} 0: nothing would be measured").into()) }
}

/// The bench's name: that of its file, without the hash that cargo adds.
fn own_name() -> String {
    let file = std::env::args_os().next().map(PathBuf::from);
    let stem = file.as_deref().and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned();
    match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            name.to_owned()
        }
        _ => stem,
    }
}

/// Takes a sample in a process of its own.
fn sample(question: usize, case: usize, effort: Effort) -> Result<Run, Failure> {
    Taker::default().take(&Sample { question, case, effort, patience: ALARM })
}

/// Lets each contender run once, shortly. Returns the number of ours that failed.
fn smoke(questions: &[(usize, &Question)]) -> usize {
    let (alone, beside): (Vec<_>, Vec<_>) = questions.iter().partition(|(_, question)| question.alone);
    smoke_at_once(&beside, SMOKE_AT_ONCE) + smoke_at_once(&alone, 1)
}

/// Lets each contender run once, so many at a time. Returns the number of ours that failed.
fn smoke_at_once(questions: &[(usize, &Question)], at_once: usize) -> usize {
    let cases = questions.iter().flat_map(|&(index, question)| {
        let effort = Effort::exactly(question.fixed.map_or(question.first.min(100), |fixed| fixed.min(1)));
        let case = move |(number, case): (usize, &Case)| {
            (index, number, effort, case.side, format!("{}: {}", question.name, case.name))
        };
        question.cases.iter().enumerate().map(case)
    });
    let (cases, failures) = (Mutex::new(cases.collect::<Vec<_>>().into_iter()), AtomicUsize::new(0));
    let next = || cases.lock().expect("nothing panics that holds it").next();
    let work = || {
        while let Some((index, number, effort, side, name)) = next() {
            let result = sample(index, number, effort);
            let word = result.as_ref().map_or_else(Failure::to_string, |_| "ok".to_owned());
            println!("{name}: {word}");
            // Relaxed: the end of the scope orders it.
            failures.fetch_add(usize::from(result.is_err() && side == Side::Ours), Ordering::Relaxed);
        }
    };
    thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
    failures.into_inner()
}

/// A contender's figures from all rounds; or why it has none.
type Figures = Result<Summary, Failure>;

/// Asks each contender in turn, once or several times.
fn measure(index: usize, question: &Question, rounds: usize) -> Vec<Figures> {
    let mut figures: Vec<Result<Vec<f64>, Failure>> = question.cases.iter().map(|_| Ok(Vec::new())).collect();
    for _ in 0..rounds {
        for (number, taken) in figures.iter_mut().enumerate() {
            // A contender that has failed once is not asked again.
            let Ok(list) = taken else { continue };
            match sample(index, number, question.effort()) {
                Ok(run) => list.push(question.figure(&run)),
                Err(reason) => *taken = Err(reason),
            }
        }
    }
    let all = |list: Vec<f64>| Summary::of(&list).expect("there is a round");
    figures.into_iter().map(|taken| taken.map(all)).collect()
}

/// [Measures](measure), and prints how fast each contender is.
fn compete(index: usize, question: &Question, rounds: usize) -> Vec<Figures> {
    let figures = measure(index, question, rounds);
    println!("\n{}", table(question, &figures));
    figures
}

/// Returns how many of ours failed in a run.
fn failures(questions: &[&Question], run: &[Vec<Figures>]) -> usize {
    let cases = questions.iter().flat_map(|question| &question.cases).zip(run.iter().flatten());
    cases.filter(|(case, figures)| case.side == Side::Ours && figures.is_err()).count()
}

/// How far the medians of several runs lie apart.
fn spread(questions: &[&Question], runs: &[Vec<Vec<Figures>>]) -> String {
    let mut text = format!("medians of {} runs: least, most, and the most by the least\n", runs.len());
    for (at, question) in questions.iter().enumerate() {
        let _ = writeln!(text, "{}, {}", question.name, question.unit());
        for (number, case) in question.cases.iter().enumerate() {
            let medians: Vec<f64> =
                runs.iter().filter_map(|run| Some(run[at][number].as_ref().ok()?.median)).collect();
            let _ = write!(text, "  {:<50}", case.name);
            if let Some(Summary { least, most, .. }) = Summary::of(&medians) {
                let _ = write!(text, "{least:>12.1}{most:>12.1}{:>8}", ratio(most, Some(least), 3));
            }
            if medians.len() < runs.len() {
                let _ = write!(text, "  failed in {} of the runs", runs.len() - medians.len());
            }
            text.push('\n');
        }
    }
    text
}

/// Says how many times the one is the other, with so many decimals. Of nothing, all is infinitely much.
fn ratio(one: f64, other: Option<f64>, decimals: usize) -> String {
    match other {
        Some(other) if other > 0.0 => format!("{:.decimals$}", one / other),
        _ => "-".to_owned(),
    }
}

fn table(question: &Question, figures: &[Figures]) -> String {
    let peers = question.cases.iter().zip(figures).filter(|(case, _)| case.side == Side::Peer);
    let best = peers.filter_map(|(_, taken)| Some(taken.as_ref().ok()?.median)).min_by(f64::total_cmp);

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
    for (case, taken) in question.cases.iter().zip(figures) {
        let name = format!("{}{}", if case.side == Side::Ours { "* " } else { "  " }, case.name);
        let _ = match taken {
            Ok(Summary { median, least, most }) => {
                let ratio = ratio(*median, best, 2);
                writeln!(text, "  {name:<28}{median:>12.1}{least:>12.1}{most:>12.1}{ratio:>14}")
            }
            Err(reason) => writeln!(text, "  {name:<28}failed: {reason}"),
        };
    }
    text
}

/// Hands all contenders to criterion, which measures times only. Returns the number of ours that failed.
fn analyse(criterion: &mut criterion::Criterion, index: usize, question: &Question) -> usize {
    if !question.is_of_time() {
        println!("{}: not a time; --versus asks it", question.name);
        return 0;
    }
    let mut failures = 0;
    let mut group = criterion.benchmark_group(&question.name);
    for (number, case) in question.cases.iter().enumerate() {
        if let Err(reason) = sample(index, number, Effort::exactly(1)) {
            println!("{}: {}: {reason}", question.name, case.name);
            failures += usize::from(case.side == Side::Ours);
            continue;
        }
        let take = |operations| sample(index, number, Effort::exactly(operations)).expect("it ran before");
        // An iteration is one operation, or the whole workload where it has a size of its own.
        let elements = question.fixed.unwrap_or(1) * question.per_operation;
        group.throughput(criterion::Throughput::Elements(elements));
        group.bench_function(case.name, |bencher| {
            bencher.iter_custom(|iterations| match question.fixed {
                None => take(iterations).elapsed,
                Some(fixed) => (0..iterations).map(|_| take(fixed).elapsed).sum(),
            });
        });
    }
    group.finish();
    failures
}
