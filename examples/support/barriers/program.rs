//! The program: reads the command line, picks the library, computes, and says how long it took.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::options::{Options, USAGE, parse};
use super::workers::compute;
use crate::support::command_line::{self, Model};
use crate::support::library::Std;
use crate::support::load::Load;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, environment: Option<OsString>) -> u8 {
    command_line::run("barriers", USAGE, parse(arguments, environment), |options| {
        print!("{options}");
        let elapsed = compute_on_model(options)?;
        let each = elapsed / options.plan.rounds;
        println!("\n{} rounds in {elapsed:.3?}, {each:.3?} each", options.plan.rounds);
        Ok(())
    })
}

fn compute_on_model(options: &Options) -> io::Result<Duration> {
    let _load = options.load.then(Load::half).transpose()?;
    match options.model {
        Model::Std => compute::<Std>(options.plan),
        model => model.run(options.concurrency, || compute::<Private>(options.plan))?,
    }
}
