//! The command line of `java_threads`.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use super::workers::{Plan, Until};
use crate::support::command_line::{Asked, MODELS, Model, Refusal, choose, number, word};
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: java_threads [-n <threads>] [-o <steps>] [-l <steps>] [-t <ms> | -i <turns>]
\t[-s process|system] [-c <concurrency>] [-r mxn|onetoone|std] [--json]

  -n      threads (0: two for each CPU)
  -o      steps of computing without the lock in each turn, of about 2 ns (400)
  -l      steps with the lock (100)
  -t      how long all of them work, in ms (2000)
  -i      instead: turns of each thread
  -s      unbound threads (process), or threads that own a kernel thread each (system) (process)
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

/// Two threads for each CPU, two seconds.
pub(crate) fn two_per_cpu() -> Plan {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    Plan {
        threads: 2 * cpus,
        outside: 400,
        inside: 100,
        until: Until::Time(Duration::from_secs(2)),
        attributes: Attributes::default(),
    }
}

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse<I>(arguments: I, environment: Option<OsString>) -> Result<Options, Refusal>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    use lexopt::Arg::{Long, Short, Value};

    let (mut plan, mut model, mut concurrency, mut json) = (two_per_cpu(), None, 0, false);
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('n') => match number("-n", &parser.value()?, 0..=1_000_000)? {
                0 => {}
                threads => plan.threads = threads,
            },
            Short('o') => plan.outside = number("-o", &parser.value()?, 0..=u32::MAX)?,
            Short('l') => plan.inside = number("-l", &parser.value()?, 0..=u32::MAX)?,
            Short('t') => {
                let ms = number("-t", &parser.value()?, 1..=1_000_000)?;
                plan.until = Until::Time(Duration::from_millis(ms));
            }
            Short('i') => plan.until = Until::Turns(number("-i", &parser.value()?, 1..=u64::MAX)?),
            Short('s') => {
                let words = [("process", false), ("system", true)];
                plan.attributes.bound = word("-s", &parser.value()?, &words)?;
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
        let Plan { threads, outside, inside, until, attributes } = self.plan;
        writeln!(f, "threads     (-n) = {threads}")?;
        writeln!(f, "outside     (-o) = {outside} steps")?;
        writeln!(f, "with lock   (-l) = {inside} steps")?;
        match until {
            Until::Time(time) => writeln!(f, "time        (-t) = {} ms", time.as_millis())?,
            Until::Turns(turns) => writeln!(f, "turns       (-i) = {turns}")?,
        }
        writeln!(f, "scope       (-s) = {}", if attributes.bound { "system" } else { "process" })?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)
    }
}
