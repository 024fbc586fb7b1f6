//! The program: reads the command line, picks the library, lets the threads compete, and says how long it
//! took.

use std::ffi::OsString;
use std::io;

use super::options::{Options, USAGE, parse};
use super::workers::{Competed, Plan, compete};
use crate::support::command_line::{self, Model, Text};
use crate::support::library::{Library, Std};
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("contention", USAGE, parse(arguments, environment), |options, text| {
        writeln!(text, "{options}")?;
        Ok(outcome(options, &compete_on_model(options, text)?))
    })
}

fn compete_on_model(options: &Options, text: &mut Text<'_>) -> io::Result<Vec<(Plan, Competed)>> {
    match options.model {
        Model::Std => compete_by_turns::<Std>(&options.plans(), text),
        model => model.run(options.concurrency, || compete_by_turns::<Private>(&options.plans(), text))?,
    }
}

/// One plan after the other, a line for each.
fn compete_by_turns<L: Library>(plans: &[Plan], text: &mut Text<'_>) -> io::Result<Vec<(Plan, Competed)>> {
    let bar = Bar::new("numbers of regions", plans.len() as u64);
    let take_turn = |&plan: &Plan| {
        let done = compete::<L>(plan)?;
        let (regions, entries) = (plan.regions, plan.entries_of_all());
        let (elapsed, each) = (done.elapsed, nanos_each(plan, done));
        bar.aside(|| {
            writeln!(text, "{regions:>7} regions: {entries} entries in {elapsed:.3?}, {each:.1} ns each")
        })?;
        bar.advance(1);
        Ok((plan, done))
    };
    plans.iter().map(take_turn).collect()
}

fn nanos_each(plan: Plan, done: Competed) -> f64 {
    1e9 * done.elapsed.as_secs_f64() / plan.entries_of_all() as f64
}

fn outcome(options: &Options, done: &[(Plan, Competed)]) -> Outcome {
    let mut outcome = Outcome::new("contention");
    outcome.set("threads", options.plan.threads);
    outcome.set("regions", done.iter().map(|(plan, _)| plan.regions).collect::<Vec<_>>());
    outcome.set("entries", options.plan.entries);
    outcome.set("scope", if options.plan.attributes.bound { "system" } else { "process" });
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    for &(plan, done) in done {
        let regions = plan.regions;
        outcome.figure(&format!("{regions} regions"), "ms", 1e3 * done.elapsed.as_secs_f64());
        outcome.figure(&format!("{regions} regions, an entry"), "ns", nanos_each(plan, done));
        let all = plan.entries_of_all();
        outcome.check(format!("{regions} regions counted {all} entries"), done.entered == all);
    }
    outcome
}
