//! The command line: what is asked, or an error that says what is expected.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;
use selvedge::trace::Level;

pub(crate) const HELP: &str = "\
Shows the threads, LWPs and CPUs of a running program that uses Selvedge.

Usage: threadmon [OPTIONS] PID
       threadmon [OPTIONS] -- PROGRAM [ARGUMENTS...]
       threadmon explain FILE
       threadmon export FILE --chrome OUT | --perfetto OUT

The program must serve: SELVEDGE_MON=on in its environment, or a call of selvedge::threadmon::serve().
With --, threadmon sets that, starts the program, and ends with the program's status. The output of the
program goes to a file in the directory for temporary files.

Options:
  --once            print one snapshot as text, and end
  --json            print JSON: a document for each refresh, one a line; with --once, one document
  --record FILE     record events until the program ends, or Ctrl-C, or --for
  --sample N        with --record: only one thread of N records events (default: 1)
  --for SECONDS     end --json or --record after this time
  --interval MS     the time between refreshes, 10 to 60000 (default: 100)
  --level LEVEL     what the program counts meanwhile: off, times or events
                    (default: times; events with --record); if the program or another
                    threadmon wants more, it counts more
  -h, --help        print this
  -V, --version     print the version

Keys: 1 threads, 2 LWPs, 3 CPUs, 4 mapping, 5 locks, ? help, q quit.

`explain` says in sentences what a recording has. `export` converts it, for ui.perfetto.dev.
Exit status: 0; 1 for an error; 2 for a wrong command line; with --, the program's.";

/// What is looked at.
#[derive(Debug, PartialEq)]
pub(crate) enum Target {
    Process(u32),
    Program(Vec<OsString>),
}

/// How it is shown.
#[derive(Debug, PartialEq)]
pub(crate) enum Mode {
    Screen,
    Text,
    Json { once: bool },
    Record(PathBuf),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) target: Target,
    pub(crate) mode: Mode,
    pub(crate) interval: Duration,
    pub(crate) level: Level,
    /// Of how many threads one records events, if that is to be set.
    pub(crate) sample: Option<NonZeroU32>,
    /// When `--json` and `--record` end.
    pub(crate) limit: Option<Duration>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Watch(Options),
    Explain(PathBuf),
    Export { from: PathBuf, to: PathBuf, perfetto: bool },
    Help,
    Version,
}

/// # Errors
///
/// A sentence that says what is wrong, and what is expected.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut all: Vec<OsString> = arguments.into_iter().collect();
    let program = all.iter().position(|it| it == "--").map(|at| {
        let program = all.split_off(at + 1);
        all.pop();
        program
    });
    let mut parser = lexopt::Parser::from_args(all);
    let (mut once, mut json, mut record, mut limit) = (false, false, None, None);
    let (mut interval, mut level, mut sample) = (Duration::from_millis(100), None, None);
    let (mut chrome, mut perfetto, mut words) = (None, None, Vec::new());
    let text = |error: lexopt::Error| error.to_string();
    while let Some(argument) = parser.next().map_err(text)? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("once") => once = true,
            Long("json") => json = true,
            Long("record") => record = Some(PathBuf::from(parser.value().map_err(text)?)),
            Long("chrome") => chrome = Some(PathBuf::from(parser.value().map_err(text)?)),
            Long("perfetto") => perfetto = Some(PathBuf::from(parser.value().map_err(text)?)),
            Long("interval") => {
                let ms = number("--interval", parser.value().map_err(text)?, 10, 60_000)?;
                interval = Duration::from_millis(ms);
            }
            Long("for") => {
                let seconds = number("--for", parser.value().map_err(text)?, 1, 1_000_000)?;
                limit = Some(Duration::from_secs(seconds));
            }
            Long("sample") => {
                let one_of = number("--sample", parser.value().map_err(text)?, 1, u32::MAX.into())?;
                sample = u32::try_from(one_of).ok().and_then(NonZeroU32::new);
            }
            Long("level") => level = Some(level_of(parser.value().map_err(text)?)?),
            Value(word) => words.push(word),
            other => return Err(text(other.unexpected())),
        }
    }
    if let (Some(verb @ ("explain" | "export")), None) =
        (words.first().and_then(|word| word.to_str()), &program)
    {
        let [_, from] = words.as_slice() else { return Err(format!("expected one file after `{verb}`")) };
        let from = PathBuf::from(from);
        return match (verb, chrome, perfetto) {
            ("explain", None, None) => Ok(Command::Explain(from)),
            ("export", Some(to), None) => Ok(Command::Export { from, to, perfetto: false }),
            ("export", None, Some(to)) => Ok(Command::Export { from, to, perfetto: true }),
            ("explain", ..) => {
                Err("`explain` prints text: --chrome and --perfetto belong to `export`".into())
            }
            _ => Err("expected --chrome OUT or --perfetto OUT after `export FILE`".into()),
        };
    }
    if chrome.is_some() || perfetto.is_some() {
        return Err("--chrome and --perfetto belong to `export FILE`".into());
    }
    let target = match (words.as_slice(), program) {
        ([], Some(program)) if program.is_empty() => return Err("expected a program after --".into()),
        ([], Some(program)) => Target::Program(program),
        ([pid], None) => Target::Process(pid_of(pid)?),
        ([], None) => {
            return Err("expected the number of a process, or -- and a program; see --help".into());
        }
        ([_, other, ..], None) => {
            return Err(format!("unexpected argument `{}`; a program stands after --", other.display()));
        }
        (_, Some(_)) => return Err("expected the number of a process, or -- and a program, not both".into()),
    };
    let mode = match (record, json, once) {
        (Some(_), true, _) | (Some(_), _, true) => {
            return Err("--record writes a file: it goes with neither --once nor --json".into());
        }
        (Some(file), ..) => Mode::Record(file),
        (None, true, once) => Mode::Json { once },
        (None, false, true) => Mode::Text,
        (None, false, false) => Mode::Screen,
    };
    if limit.is_some() && matches!(mode, Mode::Screen | Mode::Text | Mode::Json { once: true }) {
        return Err("--for goes with --record, or with --json without --once".into());
    }
    let records = matches!(mode, Mode::Record(_));
    if records && level.is_some_and(|it| it != Level::Events) {
        return Err("--record needs the level `events`".into());
    }
    if sample.is_some() && !records {
        return Err("--sample goes with --record".into());
    }
    let level = level.unwrap_or(if records { Level::Events } else { Level::Times });
    Ok(Command::Watch(Options { target, mode, interval, level, sample, limit }))
}

fn number(option: &str, value: OsString, from: u64, to: u64) -> Result<u64, String> {
    let text = value.string().map_err(|error| error.to_string())?;
    let number = text.parse().ok().filter(|it| (from..=to).contains(it));
    number.ok_or_else(|| {
        format!("invalid value `{text}` for {option}: expected a whole number from {from} to {to}")
    })
}

fn level_of(value: OsString) -> Result<Level, String> {
    match value.to_str() {
        Some("off") => Ok(Level::Off),
        Some("times") => Ok(Level::Times),
        Some("events") => Ok(Level::Events),
        _ => Err(format!("invalid value `{}` for --level: expected off, times or events", value.display())),
    }
}

fn pid_of(word: &OsString) -> Result<u32, String> {
    let number = word.to_str().and_then(|text| text.parse().ok()).filter(|&pid| pid != 0);
    number.ok_or_else(|| {
        format!("`{}` is no number of a process; a program stands after --, see --help", word.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn options(line: &str) -> Options {
        match of(line) {
            Ok(Command::Watch(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_process_or_a_program() {
        assert_eq!(options("12").target, Target::Process(12));
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let it = options("--once -- ls --json -- x");
        assert_eq!((it.target, it.mode), (Target::Program(words("ls --json -- x")), Mode::Text));
        let it = options("--json --interval 20 --for 3 7 --level off");
        assert_eq!((it.mode, it.interval), (Mode::Json { once: false }, Duration::from_millis(20)));
        assert_eq!((it.level, it.limit), (Level::Off, Some(Duration::from_secs(3))));
        assert_eq!(options("--record f 7").level, Level::Events);
        assert_eq!(options("--record f --sample 16 7").sample, NonZeroU32::new(16));
        assert_eq!(options("7").level, Level::Times);
    }

    #[test]
    fn files_are_explained_and_exported() {
        assert_eq!(of("explain a"), Ok(Command::Explain("a".into())));
        let export = Command::Export { from: "a".into(), to: "b".into(), perfetto: true };
        assert_eq!(of("export a --perfetto b"), Ok(export));
        assert_eq!(of("--help"), Ok(Command::Help));
        assert_eq!(of("7 -V"), Ok(Command::Version));
    }

    #[test]
    fn a_wrong_line_says_what_is_expected() {
        for (line, part) in [
            ("", "expected the number of a process"),
            ("0", "no number of a process"),
            ("-- ", "a program after --"),
            ("ls", "after --"),
            ("1 2", "unexpected argument `2`"),
            ("1 -- ls", "not both"),
            ("--interval 9 1", "from 10 to 60000"),
            ("--interval x 1", "`x`"),
            ("--level high 1", "off, times or events"),
            ("--record f --once 1", "neither"),
            ("--record f --level times 1", "`events`"),
            ("--for 1 1", "--record"),
            ("--sample 2 1", "--record"),
            ("--record f --sample 0 1", "from 1 to"),
            ("--chrome f 1", "export"),
            ("explain", "one file"),
            ("explain a b", "one file"),
            ("explain a --chrome b", "belong to `export`"),
            ("export a", "--chrome OUT or --perfetto OUT"),
            ("export a --chrome b --perfetto c", "--chrome OUT or --perfetto OUT"),
            ("--nonsense", "--nonsense"),
        ] {
            let error = of(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
