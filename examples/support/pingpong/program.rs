//! The program: reads the command line, picks the library, plays, and says how long it took.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::game::play;
use super::options::{Model, Options, USAGE, parse};
use crate::support::command_line;
use crate::support::library::Std;
use crate::support::selvedge::{Private, Shared};

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, environment: Option<OsString>) -> u8 {
    command_line::run("pingpong", USAGE, parse(arguments, environment), |options| {
        if options.verbose {
            println!("{options}");
        }
        let elapsed = play_on_model(options)?;
        if options.verbose {
            println!("{} games completed in {} ms", options.games, elapsed.as_millis());
        }
        Ok(())
    })
}

/// Plays where the options say. On a runtime of Selvedge, the program's main thread is one of its threads.
fn play_on_model(options: &Options) -> io::Result<Duration> {
    let tournament = options.tournament();
    let ready = |elapsed: Duration| {
        if options.verbose {
            println!("{} threads initialised in {} ms", 2 * u64::from(options.games), elapsed.as_millis());
        }
    };
    let play_here = || match options.shared {
        false => play::<Private>(tournament, ready),
        true => play::<Shared>(tournament, ready),
    };
    match options.model {
        Model::Std => play::<Std>(tournament, ready),
        model => model.run(options.concurrency, play_here)?,
    }
}
