//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: papers [--quick | --smoke] [--only <what>,...] [--out <directory>] [--json] [--list]

  --quick  two minutes in all, instead of half an hour; of each paper, little but its main conclusion is judged
  --smoke  a few seconds, and no verdicts: whether everything runs
  --only   these papers or experiments, by the names that --list gives: P1,contention
  --out    where report.html, report.md, results.json and the figures go (target/papers)
  --json   print what results.json holds
  --list   the papers, with their experiments and exhibits; nothing is run
";

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) size: Size,
    /// Empty: all.
    pub(crate) only: Vec<String>,
    pub(crate) out: PathBuf,
    pub(crate) json: bool,
    pub(crate) list: bool,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Smoke,
    Quick,
    Full,
}

impl Size {
    /// As an option, which the processes of the samples are told.
    pub(crate) fn option(self) -> Vec<String> {
        match self {
            Self::Smoke => vec!["--smoke".to_owned()],
            Self::Quick => vec!["--quick".to_owned()],
            Self::Full => Vec::new(),
        }
    }

    /// Samples of each contender.
    pub(crate) fn rounds(self) -> usize {
        self.pick(1, 2, 5)
    }

    /// How long a measured run should last.
    pub(crate) fn enough(self) -> Duration {
        Duration::from_millis(self.pick(2, 20, 150))
    }

    /// After which a sample is given up.
    pub(crate) fn patience(self) -> Duration {
        Duration::from_secs(self.pick(10, 30, 100))
    }

    /// One of three.
    pub(crate) fn pick<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// What a command line can be.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Report(Options),
    /// This process is to take a sample of a plan of this size; the rest of the line says which.
    Sample(Size, lexopt::Parser),
    Help,
}

/// Reads a command line (without the program's name). `sample` is the option that asks for a sample.
///
/// # Errors
/// An option is not known, or has no value, or two contradict each other.
pub(crate) fn parse<I>(arguments: I, sample: &str) -> Result<Request, lexopt::Error>
where
    I: IntoIterator<Item: Into<OsString>>,
{
    let mut options =
        Options { size: Size::Full, only: Vec::new(), out: "target/papers".into(), json: false, list: false };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") if options.size != Size::Smoke => options.size = Size::Quick,
            Long("smoke") if options.size != Size::Quick => options.size = Size::Smoke,
            Long("quick" | "smoke") => return Err("--quick and --smoke exclude each other".into()),
            Long("only") => {
                let list = parser.value()?.string()?;
                options.only.extend(list.split(',').map(|name| name.trim().to_owned()));
            }
            Long("out") => options.out = parser.value()?.into(),
            Long("json") => options.json = true,
            Long("list") => options.list = true,
            Long("help") | Short('h' | '?') => return Ok(Request::Help),
            Long(name) if name == sample => return Ok(Request::Sample(options.size, parser)),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Request::Report(options))
}
