//! The program: reads the command line, picks the library, lets threads create threads, and says how long
//! it took.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::at_once;
use super::curves::{Cell, by_at_a_time, by_creators};
use super::options::{Options, USAGE, parse};
use super::workers::{Created, Plan, Register, create_and_count};
use crate::support::command_line::{self, Model, Text};
use crate::support::library::{Attributes, Library, Std};
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("creation", USAGE, parse(arguments, environment), |options, text| {
        let mut outcome = configuration(options);
        if options.here {
            at_once::here(options, text)?;
            return Ok(outcome);
        }
        writeln!(text, "{options}")?;
        if options.most.creations > 0 {
            create_on_model(options, text, &mut outcome)?;
        }
        if options.at_once > 0 {
            at_once::tell(options, &at_once::apart(options)?, text, &mut outcome)?;
        }
        Ok(outcome)
    })
}

fn configuration(options: &Options) -> Outcome {
    let (Plan { creators, at_a_time, creations }, attributes) = (options.most, options.attributes);
    let mut outcome = Outcome::new("creation");
    outcome.set("creators", creators);
    outcome.set("at_a_time", at_a_time);
    outcome.set("only", options.only);
    outcome.set("creations", creations);
    outcome.set("at_once", options.at_once);
    outcome.set("stack_size", attributes.stack_size);
    outcome.set("scope", if attributes.bound { "system" } else { "process" });
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    outcome
}

fn create_on_model(options: &Options, text: &mut Text<'_>, outcome: &mut Outcome) -> io::Result<()> {
    let (plans, attributes) = (options.plans(), options.attributes);
    match options.model {
        Model::Std => create_by_turns::<Std>(&plans, attributes, text, outcome),
        model => model
            .run(options.concurrency, || create_by_turns::<Private>(&plans, attributes, text, outcome))?,
    }
}

/// The first part: one run after the other, a table of their times, and its two curves.
fn create_by_turns<L: Library>(
    plans: &[Plan],
    attributes: Attributes,
    text: &mut Text<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let most_creators = plans.iter().map(|plan| plan.creators).max().unwrap_or(0);
    let register = Register::new(most_creators);
    let bar = Bar::new("runs", plans.len() as u64);
    let run = |&plan: &Plan| {
        let created = create_and_count::<L>(plan, attributes, register);
        bar.advance(1);
        created.map(|created| (plan, created))
    };
    let runs = plans.iter().map(run).collect::<io::Result<Vec<(Plan, Created)>>>()?;
    bar.finish();

    let cell = |&(plan, created): &(Plan, Created)| Cell {
        creators: plan.creators,
        at_a_time: plan.at_a_time,
        elapsed: created.elapsed,
    };
    let cells: Vec<Cell> = runs.iter().map(cell).collect();
    for cell in &cells {
        let name = format!("{}, {} at a time", creators(cell.creators), cell.at_a_time);
        outcome.figure(&name, "ms", ms(cell.elapsed));
    }
    let creations = plans[0].creations;
    let claim = format!("in each of {} runs the children counted {creations}", runs.len());
    outcome.check(claim, runs.iter().all(|(plan, created)| created.counted == plan.creations));

    let each = |cell: &Cell| 1e9 * cell.elapsed.as_secs_f64() / creations as f64;
    writeln!(text, "{creations} threads created by so many, at least:")?;
    for cell in by_creators(&cells) {
        let (name, time) = (creators(cell.creators), cell.elapsed);
        writeln!(
            text,
            "{name:>16}: {time:>10.3?}, {:>8.1} ns each, {} at a time",
            each(&cell),
            cell.at_a_time
        )?;
        outcome.figure(&format!("least of {name}"), "ms", ms(time));
    }
    writeln!(text, "\n{creations} threads, so many of each creator at a time, at least:")?;
    for cell in by_at_a_time(&cells) {
        let (name, time) = (format!("{} at a time", cell.at_a_time), cell.elapsed);
        writeln!(
            text,
            "{name:>16}: {time:>10.3?}, {:>8.1} ns each, {}",
            each(&cell),
            creators(cell.creators)
        )?;
        outcome.figure(&format!("least of {name}"), "ms", ms(time));
    }
    Ok(())
}

fn creators(number: u32) -> String {
    format!("{number} creator{}", if number == 1 { "" } else { "s" })
}

pub(super) fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
