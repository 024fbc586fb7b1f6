//! The program: reads the command line, picks the library, lets the threads work, and says what each got.

use std::ffi::OsString;
use std::io;

use super::options::{Options, USAGE, parse};
use super::workers::{Outcome, work};
use crate::support::command_line::{self, Model};
use crate::support::library::Std;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, environment: Option<OsString>) -> u8 {
    command_line::run("fairness", USAGE, parse(arguments, environment), |options| {
        print!("{options}");
        let outcome = work_on_model(options)?;
        let rate = outcome.total() as f64 / outcome.elapsed.as_secs_f64();
        println!("\n{} turns in {:.3?}, {rate:.0} a second", outcome.total(), outcome.elapsed);
        let (least, most) = (outcome.least(), outcome.most());
        println!("least served {least}, most served {most}: a gap of {:.1} %", 100.0 * outcome.gap());
        Ok(())
    })
}

fn work_on_model(options: &Options) -> io::Result<Outcome> {
    match options.model {
        Model::Std => work::<Std>(options.plan),
        model => model.run(options.concurrency, || work::<Private>(options.plan))?,
    }
}
