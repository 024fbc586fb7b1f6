//! The program: reads the command line, and does one experiment after the other.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use super::apart::{Report, Told, apart, here};
use super::journal::Journal;
use super::options::{Options, Part, Scope, USAGE, parse};
use super::parts::{self, CREATED, SEARCHING, SELVEDGE, STD, WORKING, Workloads};
use super::workers::tsplib::{self, Instance};
use crate::support::command_line::{self, Model};
use crate::support::library::Attributes;
use crate::support::load::Load;
use crate::support::outcome::Outcome;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("nt_solaris", USAGE, parse(arguments, environment), |options, text| {
        if options.here {
            here(options, text)?;
            return Ok(configuration(options));
        }
        write!(text, "{options}")?;
        let instance = match options.parts.contains(&Part::Search) {
            true => Some(Arc::new(match &options.file {
                Some(file) => tsplib::read(file)?,
                None => tsplib::gr17(),
            })),
            false => None,
        };
        let mut journal = Journal::new(text, configuration(options));
        for &part in &options.parts {
            journal.begin(part.name(), steps(part, options));
            experiment(part, options, instance.as_ref(), &mut journal)?;
        }
        Ok(journal.outcome)
    })
}

fn experiment(
    part: Part,
    options: &Options,
    instance: Option<&Arc<Instance>>,
    journal: &mut Journal<'_, '_>,
) -> io::Result<()> {
    let busy = 2 * parts::cpus();
    match part {
        Part::Most => most(options, journal),
        Part::Create => {
            on_model(options, |on| parts::create(on, options, journal, "alone", 0))?;
            let load = Load::half()?;
            on_model(options, |on| parts::create(on, options, journal, "beside a process that computes", 0))?;
            drop(load);
            let beside = format!("beside {busy} threads that compute");
            on_model(options, |on| parts::create(on, options, journal, &beside, busy))
        }
        Part::Compute => on_model(options, |on| parts::compute(on, options, journal)),
        Part::Locks => on_model(options, |on| parts::locks(on, options, journal)),
        Part::Search => {
            let instance = instance.expect("read before");
            on_model(options, |on| parts::search(on, options, journal, instance))
        }
        Part::Bursts => on_model(options, |on| parts::bursts(on, options, journal)),
    }
}

/// On a runtime of Selvedge, the caller of the experiment is one of its threads.
fn on_model(options: &Options, part: impl FnOnce(&Workloads) -> io::Result<()> + Send) -> io::Result<()> {
    match options.model {
        Model::Std => part(&STD),
        model => model.run(options.concurrency, || part(&SELVEDGE))?,
    }
}

/// The most threads: unbound and bound ones, where there are both.
fn most(options: &Options, journal: &mut Journal<'_, '_>) -> io::Result<()> {
    journal.table("most threads", &["", "most", "made, ms", "begun, ms", "ended, ms", "KiB each"])?;
    for &bound in scopes(options) {
        let attributes = Attributes { bound, ..options.attributes() };
        let mut told = 0;
        let report = apart(options, attributes, |made| {
            journal.advance((made - told).into());
            told = made;
        })?;
        tell_most(if bound { "bound" } else { "threads" }, options, journal, &report)?;
    }
    Ok(())
}

/// Returns the scopes to measure in turn; `true` is bound.
fn scopes(options: &Options) -> &[bool] {
    match (options.bound, options.model) {
        (Some(true), _) => &[true],
        (None, Model::Mxn) => &[false, true],
        _ => &[false],
    }
}

fn tell_most(row: &str, options: &Options, journal: &mut Journal<'_, '_>, report: &Report) -> io::Result<()> {
    let Report { made, stopped_by, told } = report;
    journal.figure(row, "threads", f64::from(*made));
    journal.outcome.set(&format!("most threads, {row}, stopped by"), stopped_by.as_str());
    if options.model != Model::Std {
        journal.check(row, "a limit refuses a thread, and does not end the process", told.is_some());
    }
    let Some(Told { ran, making, begun, ending, memory }) = *told else {
        return journal.row(&[row.to_owned(), format!("{made}+")], stopped_by);
    };
    for (what, time) in [("making", making), ("until all had begun", begun), ("ending", ending)] {
        journal.figure(&format!("{row}, {what}"), "ms", parts::ms(time));
    }
    let each = |bytes: u64| bytes as f64 / f64::from((*made).max(1)) / 1024.0;
    journal.figure(&format!("{row}, memory of each"), "KiB", each(memory.memory(false)));
    journal.figure(&format!("{row}, addresses of each"), "KiB", each(memory.address_space));
    journal.check(row, &format!("all {made} ran"), ran == *made);
    journal.check(row, "there was one", *made > 0);
    let enough = *made == options.most || stopped_by != "--most";
    journal.check(row, "something stopped it, or there were enough", enough);
    let cells =
        [parts::ms(making), parts::ms(begun), parts::ms(ending), each(memory.memory(false))].map(parts::cell);
    let remark = format!("stopped by {stopped_by}");
    journal.row(&[&[row.to_owned(), made.to_string()][..], &cells].concat(), &remark)
}

/// How many steps the bar of a part has.
fn steps(part: Part, options: &Options) -> u64 {
    let rows = |usual| parts::threads(options, usual).len() as u64;
    let tables = match part {
        Part::Most => return scopes(options).len() as u64 * u64::from(options.most),
        Part::Create => 3 * rows(CREATED),
        Part::Compute => rows(WORKING),
        Part::Locks if options.mutexes == Scope::Both && options.model != Model::Std => 2 * rows(WORKING),
        Part::Locks => rows(WORKING),
        Part::Search => rows(SEARCHING),
        Part::Bursts => options.cpu.len() as u64 * rows(WORKING),
    };
    tables * u64::from(options.trials)
}

fn configuration(options: &Options) -> Outcome {
    let mut outcome = Outcome::new("nt_solaris");
    outcome.set("parts", options.parts.iter().map(|part| part.name()).collect::<Vec<_>>());
    outcome.set("trials", options.trials);
    outcome.set("scope", if options.attributes().bound { "system" } else { "process" });
    outcome.set("stack size", options.stack_size);
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    outcome
}
