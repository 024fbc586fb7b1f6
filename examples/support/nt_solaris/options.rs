//! The command line of the comparison.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::workers::search::First;
use crate::support::command_line::{Asked, Line, Model, Refusal, number, word};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: nt_solaris [most|create|compute|locks|search|bursts]... [-n <list>] [-k <trials>] [--paper]
\t[--most <threads>] [--task <ms>] [-i <entries>] [-o <steps>] [-l <steps>] [-p private|shared|both]
\t[--file <path>] [--optimum <length>] [--depth <cities>] [--first greedy|given]
\t[--bursts <bursts>] [--idle <us>] [--cpu <list of us>]
\t[-s process|system] [-S <stacksize>] [-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std] [--json]

  most     how many threads can exist at once, and what stops them; in a process of its own, which
           leaves 500 threads and half of the memory to others
  create   creation, alone, beside a process that computes, and beside threads that do
  compute  computing without synchronisation
  locks    computing with much synchronisation
  search   branch and bound for the travelling salesman
  bursts   computing for a while after being idle for a while
           (all, if none is named)

  -n         numbers of threads, as 1,2,4 (each part but the first has its own)
  -k         trials of each number (3)
  --paper    10 trials, and tasks of 10 s
  --most     threads that are enough (100000)
  --task     computing of each thread in compute, in ms (20)
  -i         times that each thread takes the lock in locks (10000)
  -o         steps of computing before that, of about 1 ns (200)
  -l         steps with the lock (40)
  -p         mutexes private to the process, or fit to be shared between processes (both)
  --file     cities and distances, in TSPLIB's format (gr17)
  --optimum  the length of the best tour, to be checked (2085 for gr17)
  --depth    cities of the branches in the work pile (3)
  --first    the tour to begin with: a good one, or the file's order (greedy)
  --bursts   of each thread (10)
  --idle     before each burst, in us (1000)
  --cpu      computing in a burst, in us (250,1000,4000)
  -s         unbound threads (process), or threads that own a kernel thread each (system) (process; most: both)
  -S         bytes of stack of each thread (0: the runtime's default)
  -c         threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus     CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r         runtime (SELVEDGE_RUNTIME, or mxn)
  --json     say it as one JSON object
";

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Most,
    Create,
    Compute,
    Locks,
    Search,
    Bursts,
}

const PARTS: [(&str, Part); 6] = [
    ("most", Part::Most),
    ("create", Part::Create),
    ("compute", Part::Compute),
    ("locks", Part::Locks),
    ("search", Part::Search),
    ("bursts", Part::Bursts),
];

impl Part {
    pub(crate) fn name(self) -> &'static str {
        let (name, _) = PARTS.iter().find(|(_, part)| *part == self).expect("all parts are in the table");
        name
    }
}

/// Which threads may use a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Private,
    Shared,
    Both,
}

/// The length of the best tour of the instance that comes with this program.
pub(crate) const GR17: u32 = 2085;

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) parts: Vec<Part>,
    /// Empty: each part's own.
    pub(crate) threads: Vec<u32>,
    pub(crate) trials: u32,
    pub(crate) most: u32,
    pub(crate) task: Duration,
    pub(crate) entries: u32,
    pub(crate) outside: u32,
    pub(crate) inside: u32,
    pub(crate) mutexes: Scope,
    /// `None`: the instance that comes with this program.
    pub(crate) file: Option<PathBuf>,
    pub(crate) optimum: Option<u32>,
    pub(crate) depth: u32,
    pub(crate) first: First,
    pub(crate) bursts: u32,
    pub(crate) idle: Duration,
    pub(crate) cpu: Vec<Duration>,
    /// `None`: as the part has it.
    pub(crate) bound: Option<bool>,
    /// Zero: the runtime's default.
    pub(crate) stack_size: usize,
    pub(crate) concurrency: Concurrency,
    pub(crate) model: Model,
    pub(crate) json: bool,
    /// This is the process that finds out how many threads can be; its output is for the one that started it.
    pub(crate) here: bool,
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

impl Options {
    /// What is done if nothing is asked for. The paper's tasks take 10 s each, which on two CPUs is an
    /// hour for every trial.
    pub(crate) fn usual(model: Model) -> Self {
        Self {
            parts: PARTS.map(|(_, part)| part).to_vec(),
            threads: Vec::new(),
            trials: 3,
            most: 100_000,
            task: Duration::from_millis(20),
            entries: 10_000,
            outside: 200,
            inside: 40,
            mutexes: Scope::Both,
            file: None,
            optimum: Some(GR17),
            depth: 3,
            first: First::Greedy,
            bursts: 10,
            idle: Duration::from_millis(1),
            cpu: [250, 1_000, 4_000].map(Duration::from_micros).to_vec(),
            bound: None,
            stack_size: 0,
            concurrency: Concurrency::of(0),
            model,
            json: false,
            here: false,
        }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let stack_size = Some(self.stack_size).filter(|&bytes| bytes > 0);
        Attributes { stack_size, bound: self.bound.unwrap_or(false) }
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
    let mut asked = Options::usual(Model::Mxn);
    let (mut parts, mut optimum) = (Vec::new(), None);
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            part if !part.starts_with('-') => parts.push(word("part", part.as_ref(), &PARTS)?),
            "-n" => asked.threads = list(&option, &line.value()?, 1_000_000)?,
            "-k" => asked.trials = line.number(1..=1_000_000)?,
            "--paper" => (asked.trials, asked.task) = (10, Duration::from_secs(10)),
            "--most" => asked.most = line.number(1..=100_000_000)?,
            "--task" => asked.task = millis(line.number(1..=10_000_000)?),
            "-i" => asked.entries = line.number(1..=u32::MAX)?,
            "-o" => asked.outside = line.number(0..=u32::MAX)?,
            "-l" => asked.inside = line.number(0..=u32::MAX)?,
            "-p" => {
                let words = [("private", Scope::Private), ("shared", Scope::Shared), ("both", Scope::Both)];
                asked.mutexes = line.word(&words)?;
            }
            "--file" => (asked.file, asked.optimum) = (Some(line.value()?.into()), None),
            "--optimum" => optimum = Some(line.number(0..=u32::MAX)?),
            "--depth" => asked.depth = line.number(0..=8)?,
            "--first" => {
                let words = [("greedy", First::Greedy), ("given", First::Given)];
                asked.first = line.word(&words)?;
            }
            "--bursts" => asked.bursts = line.number(1..=1_000_000)?,
            "--idle" => asked.idle = micros(line.number(0..=1_000_000_000)?),
            "--cpu" => {
                let each = list(&option, &line.value()?, 1_000_000_000)?;
                asked.cpu = each.into_iter().map(micros).collect();
            }
            "-s" => asked.bound = Some(line.scope()?),
            "-S" => asked.stack_size = line.number(0..=usize::MAX)?,
            "--here" => asked.here = true,
            _ => return Err(line.unknown()),
        }
    }
    (asked.concurrency, asked.json) = (line.concurrency, line.json);
    asked.model = line.model_or(environment)?;
    asked.optimum = optimum.or(asked.optimum);
    if !parts.is_empty() {
        asked.parts = parts;
    }
    if asked.mutexes == Scope::Shared && asked.model == Model::Std {
        return Err(Refusal::Wrong("-p shared: std has no mutex that processes can share".into()));
    }
    Ok(asked)
}

/// Numbers with commas between them.
fn list(option: &str, value: &OsString, most: u32) -> Result<Vec<u32>, Refusal> {
    let words = value.to_str().unwrap_or("").split(',');
    let numbers: Result<_, _> = words.map(|word| number(option, word.as_ref(), 1..=most)).collect();
    numbers.map_err(|_| {
        Refusal::Wrong(format!("{option} {}: not whole numbers from 1 to {most}, as 1,2,4", value.display()))
    })
}

fn millis(number: u32) -> Duration {
    Duration::from_millis(number.into())
}

fn micros(number: u32) -> Duration {
    Duration::from_micros(number.into())
}

/// The configuration that all parts have in common.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trials      (-k) = {}", self.trials)?;
        writeln!(f, "scope       (-s) = {}", if self.attributes().bound { "system" } else { "process" })?;
        writeln!(f, "stacksize   (-S) = {}", self.stack_size)?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)
    }
}
