//! The command line of the storms.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use super::hogs::{KINDS, Kind, Plan};
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: storms [--reads] [--naps] [--hogs] [-n <readers>] [-m <sleepers>] [-w <sleepms>] [-p <hogs>]
\t[-k all|arithmetic|malloc|lock|formatting] [-t <ms>] [-e <percent>]
\t[-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--json]

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
  --cpus   CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
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
    pub(crate) concurrency: Concurrency,
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
    concurrency: Concurrency::of(0),
    model: Model::Mxn,
    json: false,
};

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let mut options = Options { reads: false, naps: false, hogs: false, ..ALL };
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "--reads" => options.reads = true,
            "--naps" => options.naps = true,
            "--hogs" => options.hogs = true,
            // As many as a pipe has room for.
            "-n" => options.readers = line.number(1..=10_000)?,
            "-m" => options.sleepers = line.number(1..=100_000)?,
            "-w" => options.sleep_ms = line.number(1..=u32::MAX)?,
            "-p" => options.hogs_each = line.number(1..=1_000)?,
            "-k" => {
                let all = std::iter::once(("all", None));
                let words: Vec<_> = all.chain(KINDS.map(|(name, kind)| (name, Some(kind)))).collect();
                options.kind = line.word(&words)?;
            }
            "-t" => options.time_ms = line.number(10..=u32::MAX)?,
            "-e" => options.enough = line.number(0..=100)?,
            _ => return Err(line.unknown()),
        }
    }
    if !(options.reads || options.naps || options.hogs) {
        options = Options { reads: true, naps: true, hogs: true, ..options };
    }
    let (concurrency, model, json) = (line.concurrency, line.model_or(environment)?, line.json);
    Ok(Options { concurrency, model, json, ..options })
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
        let cpus = self.concurrency.available() as u32;
        let running = match self.concurrency.slots {
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
