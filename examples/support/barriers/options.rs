//! The command line of the barriers.

use std::ffi::OsString;
use std::fmt;

use super::workers::Plan;
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: barriers [--fine | --coarse] [-n <threads>] [-i <iterations>] [-m <side>] [-k <rounds>]
\t[-s process|system] [-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--load] [--json]

  --fine    a matrix of 2 x 2, 100 iterations, 10000 rounds
  --coarse  a matrix of 50 x 50, 400000 iterations, 10 rounds (this if neither is said)
  -n        threads (4)
  -i        times that each cell is incremented between two barriers
  -m        rows and columns of each thread's matrix
  -k        rounds, each with a barrier at its end
  -s        unbound threads (process), or threads that own a kernel thread each (system) (process)
  -c        threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus    CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r        runtime (SELVEDGE_RUNTIME, or mxn)
  --load    meanwhile another process keeps half of the CPUs busy
  --json    say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    pub(crate) concurrency: Concurrency,
    pub(crate) model: Model,
    pub(crate) load: bool,
    pub(crate) json: bool,
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

/// The paper's matrix of 500 x 500 is one of 1 MB, which has its own story to tell (of caches); this one
/// fits into the first.
pub(crate) const COARSE: Plan = Plan {
    threads: 4,
    iterations: 400_000,
    side: 50,
    rounds: 10,
    attributes: Attributes { stack_size: None, bound: false },
};

/// The paper's.
pub(crate) const FINE: Plan = Plan { iterations: 100, side: 2, rounds: 10_000, ..COARSE };

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let (mut plan, mut load) = (COARSE, false);
    let (mut threads, mut bound) = (COARSE.threads, false);
    let (mut iterations, mut side, mut rounds) = (None, None, None);
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "--fine" => plan = FINE,
            "--coarse" => plan = COARSE,
            "--load" => load = true,
            "-n" => threads = line.number(1..=1_000_000)?,
            "-i" => iterations = Some(line.number(0..=u32::MAX)?),
            "-m" => side = Some(line.number(1..=10_000)?),
            "-k" => rounds = Some(line.number(1..=u32::MAX)?),
            "-s" => bound = line.scope()?,
            _ => return Err(line.unknown()),
        }
    }
    plan.threads = threads;
    plan.attributes.bound = bound;
    plan.iterations = iterations.unwrap_or(plan.iterations);
    plan.side = side.unwrap_or(plan.side);
    plan.rounds = rounds.unwrap_or(plan.rounds);
    let (concurrency, model, json) = (line.concurrency, line.model_or(environment)?, line.json);
    Ok(Options { plan, concurrency, model, load, json })
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { threads, iterations, side, rounds, attributes } = self.plan;
        writeln!(f, "threads     (-n) = {threads}")?;
        writeln!(f, "iterations  (-i) = {iterations}")?;
        writeln!(f, "matrix      (-m) = {side} x {side}")?;
        writeln!(f, "rounds      (-k) = {rounds}")?;
        writeln!(f, "scope       (-s) = {}", if attributes.bound { "system" } else { "process" })?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)?;
        writeln!(f, "load             = {}", if self.load { "half of the CPUs" } else { "none" })
    }
}
