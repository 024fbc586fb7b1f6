//! The program: reads the command line, picks the library, lets the threads compete, and says how long it took.

use std::ffi::OsString;
use std::io;

use super::options::{Options, USAGE, parse};
use super::workers::{Plan, compete};
use crate::support::command_line::{self, Model};
use crate::support::library::{Library, Std};
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, environment: Option<OsString>) -> u8 {
    command_line::run("contention", USAGE, parse(arguments, environment), |options| {
        println!("{options}");
        compete_on_model(options)
    })
}

fn compete_on_model(options: &Options) -> io::Result<()> {
    match options.model {
        Model::Std => compete_by_turns::<Std>(&options.plans()),
        model => model.run(options.concurrency, || compete_by_turns::<Private>(&options.plans()))?,
    }
}

/// One plan after the other, a line for each.
fn compete_by_turns<L: Library>(plans: &[Plan]) -> io::Result<()> {
    for &plan in plans {
        let elapsed = compete::<L>(plan)?;
        let entries = u64::from(plan.threads) * u64::from(plan.entries);
        let each = elapsed.as_nanos() as f64 / entries as f64;
        println!("{:>7} regions: {entries} entries in {elapsed:.3?}, {each:.1} ns each", plan.regions);
    }
    Ok(())
}
