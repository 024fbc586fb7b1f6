//! The command line of the million.

use std::ffi::OsString;
use std::fmt;

use super::workers::Plan;
use crate::support::command_line::{Asked, MODELS, Model, Refusal, choose, number, word};
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: million [-n <threads>] [-S <stacksize>] [-c <concurrency>] [-r mxn|onetoone|std] [--json]

  -n      threads to park (1000000); as many as there is room for, if that is less
  -S      bytes of stack of each thread (0: the runtime's default)
  -c      threads that may run at once (0: as many as there are CPUs); for mxn
  -r      runtime (SELVEDGE_RUNTIME, or mxn)
  --json  say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    /// Zero: the runtime's default.
    pub(crate) concurrency: usize,
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
pub(crate) fn parse<I>(arguments: I, environment: Option<OsString>) -> Result<Options, Refusal>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    use lexopt::Arg::{Long, Short, Value};

    let (mut plan, mut model, mut concurrency, mut json) = (MILLION, None, 0, false);
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('n') => plan.threads = number("-n", &parser.value()?, 1..=100_000_000)?,
            Short('S') => {
                let bytes = number("-S", &parser.value()?, 0..=usize::MAX)?;
                plan.attributes.stack_size = (bytes > 0).then_some(bytes);
            }
            Short('c') => concurrency = number("-c", &parser.value()?, 0..=usize::MAX)?,
            Short('r') => model = Some(word("-r", &parser.value()?, &MODELS)?),
            Long("json") => json = true,
            Short('?' | 'h') | Long("help") => return Err(Refusal::Help),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().into()),
        }
    }
    Ok(Options { plan, concurrency, model: choose(model, environment)?, json })
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "threads     (-n) = {}", self.plan.threads)?;
        writeln!(f, "stack size  (-S) = {}", self.plan.attributes.stack_size.unwrap_or(0))?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)
    }
}
