//! The command line of creation.

use std::ffi::OsString;
use std::fmt;

use super::workers::Plan;
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: creation [-n <creators>] [-k <children>] [--only] [-i <creations>] [-a <threads>]
\t[-S <stacksize>] [-s process|system] [-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--json]

  -n      top-level threads, which create: 1 to so many (20)
  -k      children of each at a time: 1 to so many (10)
  --only  just -n creators, with just -k children at a time
  -i      children in all, in each run (100000; 0: no such runs)
  -a      then: threads that exist at once, or as many as there can be (100000; 0: none)
  -S      bytes of stack of each of them (0: the runtime's default)
  -s      unbound threads (process), or threads that own a kernel thread each (system) (process)
  -c      threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus  CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r      runtime (SELVEDGE_RUNTIME, or mxn)
  --json  say it as one JSON object

All of it takes seconds for mxn, and some 10 minutes for kernel threads.
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Up to so many creators, and children at a time, unless `only`.
    pub(crate) most: Plan,
    pub(crate) only: bool,
    /// What the children are.
    pub(crate) attributes: Attributes,
    /// Threads that exist at once, in the second part.
    pub(crate) at_once: u32,
    pub(crate) concurrency: Concurrency,
    pub(crate) model: Model,
    /// This is the child of the second part.
    pub(crate) here: bool,
    pub(crate) json: bool,
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

/// The paper's.
pub(crate) const PAPER: Plan = Plan { creators: 20, at_a_time: 10, creations: 100_000 };

/// The paper's, too.
pub(crate) const AT_ONCE: u32 = 100_000;

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let mut options = Options {
        most: PAPER,
        only: false,
        attributes: Attributes::default(),
        at_once: AT_ONCE,
        concurrency: Concurrency::of(0),
        model: Model::Mxn,
        here: false,
        json: false,
    };
    let most = &mut options.most;
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "-n" => most.creators = line.number(1..=1_000)?,
            "-k" => most.at_a_time = line.number(1..=1_000)?,
            "--only" => options.only = true,
            "-i" => most.creations = line.number(0..=u64::MAX)?,
            "-a" => options.at_once = line.number(0..=100_000_000)?,
            "-S" => options.attributes.stack_size = line.stack_size()?,
            "-s" => options.attributes.bound = line.scope()?,
            "--here" => options.here = true,
            _ => return Err(line.unknown()),
        }
    }
    if most.creations == 0 && options.at_once == 0 {
        return Err(Refusal::Wrong("-i 0 -a 0: nothing is left to do".into()));
    }
    (options.concurrency, options.json) = (line.concurrency, line.json);
    options.model = line.model_or(environment)?;
    Ok(options)
}

impl Options {
    /// The runs of the first part, one after the other.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let Plan { creators, at_a_time, creations } = self.most;
        let from = |most| if self.only { most..=most } else { 1..=most };
        let run = |creators| from(at_a_time).map(move |at_a_time| Plan { creators, at_a_time, creations });
        if creations == 0 { Vec::new() } else { from(creators).flat_map(run).collect() }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Plan { creators, at_a_time, creations }, attributes) = (self.most, self.attributes);
        let from = if self.only { "" } else { "1 to " };
        writeln!(f, "creators      (-n) = {from}{creators}")?;
        writeln!(f, "at a time     (-k) = {from}{at_a_time}")?;
        writeln!(f, "creations     (-i) = {creations}")?;
        writeln!(f, "at once       (-a) = {}", self.at_once)?;
        writeln!(f, "stacksize     (-S) = {}", attributes.stack_size.unwrap_or(0))?;
        writeln!(f, "scope         (-s) = {}", if attributes.bound { "system" } else { "process" })?;
        writeln!(f, "concurrency   (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime       (-r) = {}", self.model)
    }
}
