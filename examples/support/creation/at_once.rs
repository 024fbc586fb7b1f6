//! The second part: many threads that exist at once; how long it takes to start them, and to see all of
//! them end.
//!
//! They live in a process of their own, since a limit may end it rather than refuse one thread more: see
//! [`apart`](crate::support::nt_solaris::apart).

use std::io;
use std::process::Command;

use super::options::Options;
use super::program::ms;
use crate::support::command_line::{Model, Text};
use crate::support::nt_solaris::apart::{Report, Told, attempt, listen};
use crate::support::nt_solaris::workers::most::Plan;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;

/// What the child does.
///
/// # Errors
/// The runtime does not start, or the output is not read.
pub(crate) fn here(options: &Options, text: &mut Text<'_>) -> io::Result<()> {
    let plan = Plan { most: options.at_once, attributes: options.attributes };
    attempt(plan, options.model, options.concurrency, text)
}

/// Lets a child, which is this program with `--here`, find out.
///
/// # Errors
/// There is no child, or it could not begin.
pub(crate) fn apart(options: &Options) -> io::Result<Report> {
    let bar = Bar::new("threads", options.at_once.into());
    let mut told = 0;
    listen(command(options)?, |made| {
        bar.advance((made - told).into());
        told = made;
    })
}

fn command(options: &Options) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let scope = if options.attributes.bound { "system" } else { "process" };
    let stack_size = options.attributes.stack_size.unwrap_or(0);
    command.args(["--here", "-s", scope, "-r", &options.model.to_string()]);
    command.args(["-a", &options.at_once.to_string(), "-S", &stack_size.to_string()]);
    command.args(options.concurrency.to_options());
    Ok(command)
}

/// Says what came of it. A limit is a finding, and no failure: what was to be, and what was, stand side
/// by side.
///
/// # Errors
/// The output is not read.
pub(crate) fn tell(
    options: &Options,
    report: &Report,
    text: &mut Text<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let (wanted, made) = (options.at_once, report.made);
    let stopped_by = Some(report.stopped_by.as_str()).filter(|_| made < wanted);
    outcome.set("stopped_by", stopped_by);
    outcome.figure("threads at once", "threads", f64::from(made));
    match stopped_by {
        None => writeln!(text, "\n{made} threads at once")?,
        Some(reason) => writeln!(text, "\n{made} threads at once, not {wanted}: {reason}")?,
    }
    if options.model != Model::Std {
        outcome.check("a limit refuses a thread, and does not end the process", report.told.is_some());
    }
    let Some(Told { ran, making, begun, ending, .. }) = report.told else { return Ok(()) };
    for (what, time) in [("start", begun), ("stop", ending), ("start and stop", begun + ending)] {
        let each = 1e6 * ms(time) / f64::from(made.max(1));
        writeln!(text, "{what:>16}: {time:>10.3?}, {each:>8.1} ns each")?;
        outcome.figure(what, "ms", ms(time));
    }
    outcome.figure("start, without their first steps", "ms", ms(making));
    outcome.check(format!("all {made} threads ran and ended"), ran == made && made > 0);
    Ok(())
}
