//! The command line of the million.

use std::ffi::OsString;
use std::fmt;

use super::workers::Plan;
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: million [-n <threads>] [-S <stacksize>] [-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--json]

  -n      threads to park (1000000); as many as there is room for, if that is less
  -S      bytes of stack of each thread (0: the runtime's default)
  -c      threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus  CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r      runtime (SELVEDGE_RUNTIME, or mxn)
  --json  say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    pub(crate) concurrency: Concurrency,
    pub(crate) model: Model,
    pub(crate) json: bool,
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

/// What the name says.
pub(crate) const MILLION: Plan =
    Plan { threads: 1_000_000, attributes: Attributes { stack_size: None, bound: false } };

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let (mut plan, mut line) = (MILLION, Line::new(arguments));
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "-n" => plan.threads = line.number(1..=100_000_000)?,
            "-S" => plan.attributes.stack_size = line.stack_size()?,
            _ => return Err(line.unknown()),
        }
    }
    let (concurrency, model, json) = (line.concurrency, line.model_or(environment)?, line.json);
    Ok(Options { plan, concurrency, model, json })
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "threads     (-n) = {}", self.plan.threads)?;
        writeln!(f, "stack size  (-S) = {}", self.plan.attributes.stack_size.unwrap_or(0))?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)
    }
}
