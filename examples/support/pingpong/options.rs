//! The command line of Ping-Pong: the original's options, and `-r` for the runtime.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use super::game::{Rest, Tournament};
use crate::support::command_line::{Asked, Line};
pub(crate) use crate::support::command_line::{Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: pingpong [-v] [-i <target>] [-n <ntables>] [-z <sleepms>]
\t[-p private|shared] [-s process|system]
\t[-c <concurrency>] [--cpus <list>] [-S <stacksize>]
\t[-r mxn|onetoone|std] [--json]

  -v      say what is played, and how long it takes
  -i      moves of each player (1000000)
  -n      games at once, each played by two threads (1)
  -z      sleep after each move, in ms (0); -1: take a mutex that all players share
  -p      mutexes private to the process, or fit to be shared between processes (private)
  -s      unbound threads (process), or threads that own a kernel thread each (system) (process)
  -c      threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus  CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -S      bytes of stack of each thread (0: the runtime's default)
  -r      runtime (SELVEDGE_RUNTIME, or mxn)
  --json  say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) verbose: bool,
    pub(crate) target: u32,
    pub(crate) games: u32,
    pub(crate) sleep_ms: i32,
    pub(crate) shared: bool,
    pub(crate) bound: bool,
    pub(crate) concurrency: Concurrency,
    /// Zero: the runtime's default.
    pub(crate) stack_size: usize,
    pub(crate) model: Model,
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
    let mut options = Options {
        verbose: false,
        target: 1_000_000,
        games: 1,
        sleep_ms: 0,
        shared: false,
        bound: false,
        concurrency: Concurrency::of(0),
        stack_size: 0,
        model: Model::Mxn,
        json: false,
    };
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "-v" => options.verbose = true,
            "-i" => options.target = line.number(1..=u32::MAX)?,
            "-n" => options.games = line.number(1..=1_000_000_000)?,
            "-z" => options.sleep_ms = line.number(-1..=i32::MAX)?,
            "-p" => options.shared = line.word(&[("private", false), ("shared", true)])?,
            "-s" => options.bound = line.scope()?,
            "-S" => options.stack_size = line.number(0..=usize::MAX)?,
            _ => return Err(line.unknown()),
        }
    }
    (options.concurrency, options.json) = (line.concurrency, line.json);
    options.model = line.model_or(environment)?;
    if options.shared && options.model == Model::Std {
        return Err(Refusal::Wrong("-p shared: std has no mutex that processes can share".into()));
    }
    Ok(options)
}

impl Options {
    /// What these options mean for the game.
    pub(crate) fn tournament(&self) -> Tournament {
        let rest = match self.sleep_ms {
            0 => Rest::None,
            -1 => Rest::Bottleneck,
            ms => Rest::Sleep(Duration::from_millis(ms.unsigned_abs().into())),
        };
        let stack_size = Some(self.stack_size).filter(|&bytes| bytes > 0);
        let attributes = Attributes { stack_size, bound: self.bound };
        Tournament { games: self.games, target: self.target, rest, attributes }
    }
}

/// The configuration, in the original's form.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nPING-PONG CONFIGURATION:\n")?;
        writeln!(f, "target          (-i) = {}", self.target)?;
        writeln!(f, "ntables         (-n) = {}", self.games)?;
        writeln!(f, "sleepms         (-z) = {}", self.sleep_ms)?;
        writeln!(f, "pthread_scope   (-s) = {}", if self.bound { "system" } else { "process" })?;
        writeln!(f, "pthread_process (-p) = {}", if self.shared { "shared" } else { "private" })?;
        writeln!(f, "concurrency     (-c) = {}", self.concurrency)?;
        writeln!(f, "stacksize       (-S) = {}", self.stack_size)?;
        writeln!(f, "runtime         (-r) = {}", self.model)
    }
}
