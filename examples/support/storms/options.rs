//! The command line of the storms.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use super::hogs::{KINDS, Kind, Plan};
use crate::support::command_line::{Asked, MODELS, Model, Refusal, choose, number, word};

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: storms [--reads] [--naps] [--hogs] [-n <readers>] [-m <sleepers>] [-w <sleepms>] [-p <hogs>]
\t[-k all|arithmetic|malloc|lock|formatting] [-t <ms>] [-e <percent>]
\t[-c <concurrency>] [-r mxn|onetoone|std] [--json]

  --reads  threads that block in read(2), and one that goes on and then releases them
  --naps   threads that sleep in nanosleep(2)
  --hogs   threads that never yield, and one that wants a turn every 10 ms
           (without any of these: all three)
  -n       threads that read (64)
  -m       threads that sleep (1000)
  -w       how long they sleep, in ms (1000)
  -p       hogs for each CPU (2)
  -k       what the hogs do (all: one after the other)
  -t       how long to go on beside readers, and beside hogs, in ms (1000)
  -e       how many turns beside hogs are enough, in percent of those that there is time for (90);
           and how many steps beside readers, in percent of a kernel thread's
  -c       threads that may run at once (0: as many as there are CPUs); for mxn
  -r       runtime (SELVEDGE_RUNTIME, or mxn)
  --json   say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) reads: bool,
    pub(crate) naps: bool,
    pub(crate) hogs: bool,
    pub(crate) readers: u32,
    pub(crate) sleepers: u32,
    pub(crate) sleep_ms: u32,
    pub(crate) hogs_each: u32,
    /// `None`: all kinds in turn.
    pub(crate) kind: Option<Kind>,
    pub(crate) time_ms: u32,
    pub(crate) enough: u32,
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

/// All storms, as described.
pub(crate) const ALL: Options = Options {
    reads: true,
    naps: true,
    hogs: true,
    readers: 64,
    sleepers: 1_000,
    sleep_ms: 1_000,
    hogs_each: 2,
    kind: None,
    time_ms: 1_000,
    enough: 90,
    concurrency: 0,
    model: Model::Mxn,
    json: false,
};

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse<I>(arguments: I, environment: Option<OsString>) -> Result<Options, Refusal>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    use lexopt::Arg::{Long, Short, Value};

    let mut options = Options { reads: false, naps: false, hogs: false, ..ALL };
    let mut model = None;
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("reads") => options.reads = true,
            Long("naps") => options.naps = true,
            Long("hogs") => options.hogs = true,
            // As many as a pipe has room for.
            Short('n') => options.readers = number("-n", &parser.value()?, 1..=10_000)?,
            Short('m') => options.sleepers = number("-m", &parser.value()?, 1..=100_000)?,
            Short('w') => options.sleep_ms = number("-w", &parser.value()?, 1..=u32::MAX)?,
            Short('p') => options.hogs_each = number("-p", &parser.value()?, 1..=1_000)?,
            Short('k') => {
                let all = std::iter::once(("all", None));
                let words: Vec<_> = all.chain(KINDS.map(|(name, kind)| (name, Some(kind)))).collect();
                options.kind = word("-k", &parser.value()?, &words)?;
            }
            Short('t') => options.time_ms = number("-t", &parser.value()?, 10..=u32::MAX)?,
            Short('e') => options.enough = number("-e", &parser.value()?, 0..=100)?,
            Short('c') => options.concurrency = number("-c", &parser.value()?, 0..=usize::MAX)?,
            Short('r') => model = Some(word("-r", &parser.value()?, &MODELS)?),
            Long("json") => options.json = true,
            Short('?' | 'h') | Long("help") => return Err(Refusal::Help),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().into()),
        }
    }
    if !(options.reads || options.naps || options.hogs) {
        options = Options { reads: true, naps: true, hogs: true, ..options };
    }
    Ok(Options { model: choose(model, environment)?, ..options })
}

impl Options {
    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms.into())
    }

    pub(crate) fn sleep(&self) -> Duration {
        Duration::from_millis(self.sleep_ms.into())
    }

    /// The herds, one after the other.
    pub(crate) fn herds(&self) -> Vec<Plan> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let running = match self.concurrency {
            0 => cpus,
            slots => cpus.min(slots as u32),
        };
        let kinds = KINDS.map(|(_, kind)| kind).into_iter();
        let asked = kinds.filter(|kind| self.kind.is_none_or(|only| only == *kind));
        asked.map(|kind| Plan { kind, hogs: self.hogs_each * cpus, running, time: self.time() }).collect()
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reads {
            writeln!(f, "readers       (-n) = {}", self.readers)?;
        }
        if self.naps {
            writeln!(f, "sleepers      (-m) = {}", self.sleepers)?;
            writeln!(f, "sleep, ms     (-w) = {}", self.sleep_ms)?;
        }
        if self.hogs {
            writeln!(f, "hogs, a CPU   (-p) = {}", self.hogs_each)?;
        }
        writeln!(f, "time, ms      (-t) = {}", self.time_ms)?;
        writeln!(f, "enough, %     (-e) = {}", self.enough)?;
        writeln!(f, "concurrency   (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime       (-r) = {}", self.model)
    }
}
