//! The program: reads the command line, picks the library, computes, and says how long it took.

use std::ffi::OsString;
use std::io;

use super::options::{Options, USAGE, parse};
use super::workers::{Computed, compute};
use crate::support::command_line::{self, Model};
use crate::support::crew::Sampler;
use crate::support::library::Std;
use crate::support::load::Load;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("barriers", USAGE, parse(arguments, environment), |options, text| {
        write!(text, "{options}")?;
        let done = compute_on_model(options)?;
        let (rounds, elapsed) = (options.plan.rounds, done.elapsed);
        writeln!(text, "\n{rounds} rounds in {elapsed:.3?}, {:.3?} each", elapsed / rounds)?;
        Ok(outcome(options, done))
    })
}

fn compute_on_model(options: &Options) -> io::Result<Computed> {
    let _load = options.load.then(Load::half).transpose()?;
    let watch = |rounds: Sampler| Bar::sampling("rounds", options.plan.rounds.into(), rounds);
    match options.model {
        Model::Std => compute::<Std, _>(options.plan, watch),
        model => model.run(options.concurrency, || compute::<Private, _>(options.plan, watch))?,
    }
}

fn outcome(options: &Options, done: Computed) -> Outcome {
    let plan = options.plan;
    let mut outcome = Outcome::new("barriers");
    outcome.set("threads", plan.threads);
    outcome.set("iterations", plan.iterations);
    outcome.set("side", plan.side);
    outcome.set("rounds", plan.rounds);
    outcome.set("scope", if plan.attributes.bound { "system" } else { "process" });
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    outcome.set("load", options.load);
    outcome.figure("all rounds", "ms", 1e3 * done.elapsed.as_secs_f64());
    outcome.figure("a round", "us", 1e6 * done.elapsed.as_secs_f64() / f64::from(plan.rounds));
    let (threads, rounds) = (plan.threads, plan.rounds);
    outcome.check(format!("the threads met {rounds} times"), done.rounds == u64::from(rounds));
    outcome.check(format!("all {threads} threads saw every round in its turn"), done.in_step == threads);
    let claim = format!("in all {threads} matrices each cell was incremented as often as planned");
    outcome.check(claim, done.correct == threads);
    outcome
}
