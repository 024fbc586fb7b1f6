//! The command line of contention.

use std::ffi::OsString;
use std::fmt;

use super::workers::Plan;
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: contention [-n <threads>] [-m <regions>] [-i <entries>] [-s process|system]
\t[-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--json]

  -n      threads (32)
  -m      critical regions (0: 1, then 2, 4, 8, 16 and 32)
  -i      entries of each thread (50000; the paper has so many in total)
  -s      unbound threads (process), or threads that own a kernel thread each (system) (process)
  -c      threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus  CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r      runtime (SELVEDGE_RUNTIME, or mxn)
  --json  say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// With no regions: each number of the paper's in turn.
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

/// The paper's, but that its 50,000 entries are those of all threads in total.
pub(crate) const PAPER: Plan = Plan {
    threads: 32,
    regions: 0,
    entries: 50_000,
    attributes: Attributes { stack_size: None, bound: false },
};

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let (mut plan, mut line) = (PAPER, Line::new(arguments));
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "-n" => plan.threads = line.number(1..=1_000_000)?,
            "-m" => plan.regions = line.number(0..=1_000_000)?,
            "-i" => plan.entries = line.number(1..=u32::MAX)?,
            "-s" => plan.attributes.bound = line.scope()?,
            _ => return Err(line.unknown()),
        }
    }
    let (concurrency, model, json) = (line.concurrency, line.model_or(environment)?, line.json);
    Ok(Options { plan, concurrency, model, json })
}

impl Options {
    /// What is to be done, one after the other.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        match self.plan.regions {
            0 => (0..=5).map(|power| Plan { regions: 1 << power, ..self.plan }).collect(),
            _ => vec![self.plan],
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { threads, regions, entries, attributes } = self.plan;
        writeln!(f, "threads     (-n) = {threads}")?;
        match regions {
            0 => writeln!(f, "regions     (-m) = 1 to 32")?,
            _ => writeln!(f, "regions     (-m) = {regions}")?,
        }
        writeln!(f, "entries     (-i) = {entries}")?;
        writeln!(f, "scope       (-s) = {}", if attributes.bound { "system" } else { "process" })?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)
    }
}
