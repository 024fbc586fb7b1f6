//! The command line of the growth of costs.

use std::ffi::OsString;

use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: growth [-n <threads>] [-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--row] [--json]

  -n      threads of the largest crowd (1000000); the others are 1, 10, 100 ...
  -c      threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus  CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r      runtime (SELVEDGE_RUNTIME, or mxn)
  --row   only the crowd of -n threads, in this process
  --json  say it as one JSON object; with --row
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) threads: u32,
    pub(crate) concurrency: Concurrency,
    pub(crate) model: Model,
    pub(crate) row: bool,
    pub(crate) json: bool,
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let (mut threads, mut row, mut line) = (1_000_000, false, Line::new(arguments));
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "-n" => threads = line.number(1..=10_000_000)?,
            "--row" => row = true,
            _ => return Err(line.unknown()),
        }
    }
    let (concurrency, model, json) = (line.concurrency, line.model_or(environment)?, line.json);
    if json && !row {
        return Err(Refusal::Wrong("--json: only with --row".into()));
    }
    Ok(Options { threads, concurrency, model, row, json })
}
