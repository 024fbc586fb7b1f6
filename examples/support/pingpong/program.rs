//! The program: reads the command line, picks the library, plays, and says how long it took.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::game::{Played, play};
use super::options::{Model, Options, USAGE, parse};
use crate::support::command_line::{self, Text};
use crate::support::crew::Sampler;
use crate::support::library::Std;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;
use crate::support::selvedge::{Private, Shared};

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("pingpong", USAGE, parse(arguments, environment), |options, text| {
        if options.verbose {
            writeln!(text, "{options}")?;
        }
        let (setup, played) = play_on_model(options, text)?;
        if options.verbose {
            writeln!(text, "{} games completed in {} ms", options.games, played.elapsed.as_millis())?;
        }
        Ok(outcome(options, setup, played))
    })
}

/// Plays where the options say. On a runtime of Selvedge, the program's main thread is one of its
/// threads. Gives the time until all threads stood at their tables, too.
fn play_on_model(options: &Options, text: &mut Text<'_>) -> io::Result<(Duration, Played)> {
    let tournament = options.tournament();
    let threads = 2 * u64::from(options.games);
    let mut told = Ok(Duration::ZERO);
    let ready = |elapsed: Duration, moves: Sampler| {
        let line = format!("{threads} threads initialised in {} ms", elapsed.as_millis());
        let said = if options.verbose { writeln!(text, "{line}") } else { Ok(()) };
        told = said.map(|()| elapsed);
        Bar::sampling("moves", threads * u64::from(options.target), moves)
    };
    let played = match options.model {
        Model::Std => play::<Std, _>(tournament, ready),
        model if options.shared => model.run(options.concurrency, || play::<Shared, _>(tournament, ready))?,
        model => model.run(options.concurrency, || play::<Private, _>(tournament, ready))?,
    }?;
    Ok((told?, played))
}

fn outcome(options: &Options, setup: Duration, played: Played) -> Outcome {
    let mut outcome = Outcome::new("pingpong");
    outcome.set("target", options.target);
    outcome.set("games", options.games);
    outcome.set("sleep_ms", options.sleep_ms);
    outcome.set("mutexes", if options.shared { "shared" } else { "private" });
    outcome.set("scope", if options.bound { "system" } else { "process" });
    options.concurrency.tell(&mut outcome);
    outcome.set("stack_size", options.stack_size);
    outcome.set("runtime", options.model.to_string());
    outcome.figure("threads initialised", "ms", 1e3 * setup.as_secs_f64());
    outcome.figure("games completed", "ms", 1e3 * played.elapsed.as_secs_f64());
    let moves = 2.0 * f64::from(options.games) * f64::from(options.target);
    outcome.figure("a move", "ns", 1e9 * played.elapsed.as_secs_f64() / moves);
    let claim = format!("in all {} games both players made {} moves", options.games, options.target);
    outcome.check(claim, played.completed == options.games);
    outcome
}
