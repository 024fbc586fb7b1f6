//! The program: reads the command line, measures, and writes the report.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::findings::Findings;
use crate::machine::{self, Machine};
use crate::options::{Options, Request, Size, USAGE, parse};
use crate::plan::{self, Experiment};
use crate::report::{INTERRUPTED, Part, Report};
use crate::run::{Progress, Runner, blank};
use crate::support::harness::Question;
use crate::support::harness::sample::{self, Sample, Taker};
use crate::{front, html, plot, results};

/// Runs the program. Gives its exit status: 0; 1: it cannot be done; 2: a check failed; 130: it was
/// interrupted.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let outcome = match parse(arguments, sample::OPTION) {
        Ok(Request::Report(options)) => report(&options),
        Ok(Request::Sample(size, mut parser)) => take_sample(size, &mut parser),
        Ok(Request::Help) => io::stdout().write_all(USAGE.as_bytes()).map(|()| 0).map_err(Into::into),
        Err(error) => Err(format!("{error}\n{USAGE}").into()),
    };
    outcome.unwrap_or_else(|error| {
        eprint!("papers: {}", with_newline(error.to_string()));
        1
    })
}

fn with_newline(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// The other side of [`Taker::take`].
fn take_sample(size: Size, parser: &mut lexopt::Parser) -> Result<u8, Box<dyn Error>> {
    let sample = Sample::parse(parser)?;
    let questions: Vec<Question> =
        plan::all(size).into_iter().flat_map(|experiment| experiment.questions).collect();
    sample.take_here(&questions);
    Ok(0)
}

fn report(options: &Options) -> Result<u8, Box<dyn Error>> {
    let experiments = plan::all(options.size);
    let mut wanted = choose(&experiments, &options.only)?;
    if options.list {
        list(&experiments)?;
        return Ok(0);
    }
    fs::create_dir_all(&options.out).map_err(|error| format!("{}: {error}", options.out.display()))?;

    let taker = Arc::new(Taker::saying(options.size.option()));
    let stopper = Arc::clone(&taker);
    // By Ctrl-C, a closed terminal, or a plain kill.
    ctrlc::set_handler(move || {
        // A user that says it twice does not want to wait for the report either.
        if stopper.is_stopped() {
            std::process::exit(INTERRUPTED.into());
        }
        stopper.stop();
    })?;

    let finished = experiments.iter().position(|experiment| experiment.name == plan::finished::NAME);
    if let Some(finished) = finished.filter(|&finished| wanted[finished])
        && let Err(why) = plan::finished::prepare()
    {
        eprintln!("papers: without the experiment `{}`: {why}", plan::finished::NAME);
        wanted[finished] = false;
    }
    let (machine, start) = (Machine::here(), Instant::now());
    let samples = |experiment: &Experiment| {
        experiment.rounds * experiment.questions.iter().map(|question| question.cases.len()).sum::<usize>()
    };
    let asked = experiments.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
    let all = asked.map(|(experiment, _)| samples(experiment)).sum();
    let mut runner = Runner { taker: &taker, size: options.size, progress: Progress::new(all) };
    let (mut parts, mut first) = (Vec::new(), 0);
    for (experiment, wanted) in experiments.into_iter().zip(wanted) {
        let questions = experiment.questions.len();
        if wanted {
            let begin = Instant::now();
            let findings =
                if taker.is_stopped() { blank(&experiment) } else { runner.measure(&experiment, first) };
            let Experiment { paper, name, exhibits, .. } = experiment;
            let drawn = vec![false; exhibits.len()];
            let seconds = begin.elapsed().as_secs_f64();
            parts.push(Part { paper, name, exhibits, findings, seconds, drawn });
        }
        first += questions;
    }
    runner.progress.finish();

    let taken = parts.iter().map(|part| part.findings.taken()).sum();
    let report = Report {
        machine,
        complaints: of_all(&parts, Findings::failures_of_ours),
        late: of_all(&parts, Findings::late_ones_of_ours),
        parts,
        size: options.size.pick("smoke", "quick", "full"),
        minutes: start.elapsed().as_secs_f64() / 60.0,
        load_at_end: machine::load(),
        interrupted: taker.is_stopped().then_some((taken, all)),
    };
    write(&options.out, report, options.json)
}

/// Writes all files. Gives the exit status.
fn write(out: &Path, mut report: Report, json: bool) -> Result<u8, Box<dyn Error>> {
    for part in &mut report.parts {
        for (exhibit, drawn) in part.exhibits.iter().zip(&mut part.drawn) {
            *drawn = plot::draw(&out.join(format!("{}.svg", exhibit.id)), exhibit, &part.findings)?;
        }
    }
    for picture in front::pictures(&report.parts) {
        plot::ratios::draw(&out.join(format!("{}.svg", picture.name)), &picture)?;
    }
    let results = serde_json::to_string_pretty(&results::json(&report))?;
    fs::write(out.join("results.json"), &results)?;
    let markdown = report.markdown();
    let page = html::page(&markdown, |name| fs::read_to_string(out.join(name)).ok());
    fs::write(out.join("report.md"), &markdown)?;
    fs::write(out.join("report.html"), page)?;
    match json {
        true => writeln!(io::stdout(), "{results}")?,
        false => {
            let [page, text] = ["report.html", "report.md"].map(|name| out.join(name));
            writeln!(io::stdout(), "{}\n{}", page.display(), text.display())?;
        }
    }
    report.complaints.iter().for_each(|complaint| eprintln!("papers: {complaint}"));
    report.late.iter().for_each(|late| eprintln!("papers: too slow: {late}"));
    Ok(report.status())
}

/// What there is to say of our own contenders. They must not fail; their workloads check their results,
/// and panic if these are wrong. They may be slow here and there: a machine can be busy.
fn of_all(parts: &[Part], say: fn(&Findings) -> Vec<String>) -> Vec<String> {
    let of = |part: &Part| {
        say(&part.findings).into_iter().map(|said| format!("{}: {said}", part.name)).collect::<Vec<_>>()
    };
    parts.iter().flat_map(of).collect()
}

/// Which experiments are wanted.
fn choose(experiments: &[Experiment], only: &[String]) -> Result<Vec<bool>, String> {
    let is = |experiment: &Experiment, name: &str| {
        experiment.paper.tag().eq_ignore_ascii_case(name) || experiment.name.eq_ignore_ascii_case(name)
    };
    if let Some(unknown) = only.iter().find(|name| !experiments.iter().any(|experiment| is(experiment, name)))
    {
        return Err(format!("--only {unknown}: there is no such paper or experiment; see --list\n{USAGE}"));
    }
    let wanted = |experiment: &Experiment| only.is_empty() || only.iter().any(|name| is(experiment, name));
    Ok(experiments.iter().map(wanted).collect())
}

fn list(experiments: &[Experiment]) -> io::Result<()> {
    let (mut text, mut paper) = (io::stdout().lock(), None);
    for experiment in experiments {
        if paper != Some(experiment.paper) {
            paper = Some(experiment.paper);
            writeln!(text, "{} {}", experiment.paper.tag(), experiment.paper.heading())?;
        }
        writeln!(text, "  {}", experiment.name)?;
        experiment.exhibits.iter().try_for_each(|exhibit| writeln!(text, "    {}", exhibit.title))?;
    }
    Ok(())
}
