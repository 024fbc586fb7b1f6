//! What the command lines of the papers' programs have in common.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::ops::RangeInclusive;

use selvedge::{OneToOne, Runtime};

use super::concurrency::{Concurrency, Cpus, MOST_CPUS};
use super::outcome::Outcome;

/// What stands behind the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// Selvedge's green threads.
    Mxn,
    /// Selvedge's kernel threads.
    OneToOne,
    /// The standard library.
    Std,
}

/// What `-r` may say.
const MODELS: [(&str, Model); 3] = [("mxn", Model::Mxn), ("onetoone", Model::OneToOne), ("std", Model::Std)];

impl Model {
    /// Runs `main` on a thread of this model's runtime; for std, here. `concurrency` is for M:N.
    ///
    /// # Errors
    /// The runtime does not start.
    pub(crate) fn run<T: Send>(
        self,
        concurrency: Concurrency,
        main: impl FnOnce() -> T + Send,
    ) -> io::Result<T> {
        match self {
            Self::Std => Ok(main()),
            Self::OneToOne => Ok(OneToOne::new()?.run(main)),
            Self::Mxn => Ok(concurrency.builder().build()?.run(main)),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = MODELS.iter().find(|(_, model)| model == self).expect("all models are in the table");
        f.write_str(name)
    }
}

/// Why there are no options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The user asked for the usage.
    Help,
    /// What is wrong with the command line.
    Wrong(String),
}

/// What the options of every program say.
pub(crate) trait Asked {
    /// `--json`: one object on standard output, and nothing else.
    fn json(&self) -> bool;
}

/// Where a program's text for people goes: standard output, or nowhere.
pub(crate) type Text<'a> = dyn Write + Send + 'a;

/// Runs `program` with the options of the command line, or refuses a wrong one. Prints what the program found
/// out if that is asked for, and says which of its checks did not hold. All programs share this part.
///
/// Returns the exit status. It is 0, also if the usage was asked for, or 1 if the command line is wrong or
/// the system refuses something. It is 2 if a check did not hold.
pub(crate) fn run<O: Asked>(
    name: &str,
    usage: &str,
    parsed: Result<O, Refusal>,
    program: impl FnOnce(&O, &mut Text<'_>) -> io::Result<Outcome>,
) -> u8 {
    let finished = match &parsed {
        Ok(options) if options.json() => program(options, &mut io::sink())
            .and_then(|outcome| writeln!(io::stdout(), "{}", outcome.to_json()).map(|()| outcome)),
        Ok(options) => program(options, &mut io::stdout()),
        Err(Refusal::Help) => match io::stdout().write_all(usage.as_bytes()) {
            Ok(()) => return 0,
            Err(error) => Err(error),
        },
        Err(Refusal::Wrong(what)) => {
            eprint!("{name}: {what}\n{usage}");
            return 1;
        }
    };
    match finished {
        Ok(outcome) => {
            outcome.failed().for_each(|claim| eprintln!("{name}: this does not hold: {claim}"));
            outcome.exit_status()
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            1
        }
    }
}

/// A command line, one option after the other. What all programs are asked, it keeps for itself; the rest
/// it gives out.
#[derive(Debug)]
pub(crate) struct Line {
    parser: lexopt::Parser,
    /// What was given out last.
    option: String,
    /// `-c` and `--cpus`, for M:N.
    pub(crate) concurrency: Concurrency,
    /// `-r`.
    pub(crate) model: Option<Model>,
    /// `--json`.
    pub(crate) json: bool,
}

impl Line {
    /// Without the program's name.
    pub(crate) fn new(arguments: impl IntoIterator<Item: Into<OsString>>) -> Self {
        let parser = lexopt::Parser::from_args(arguments);
        Self { parser, option: String::new(), concurrency: Concurrency::of(0), model: None, json: false }
    }

    /// The next of the program's own options, with its dashes; or what is no option, and has none.
    ///
    /// # Errors
    /// An option of all programs has no value, or a wrong one; or the usage is asked for.
    pub(crate) fn next_option(&mut self) -> Result<Option<String>, Refusal> {
        use lexopt::Arg::{Long, Short, Value};

        while let Some(argument) = self.parser.next()? {
            self.option = match argument {
                Short('?' | 'h') | Long("help") => return Err(Refusal::Help),
                Short(letter) => format!("-{letter}"),
                Long(name) => format!("--{name}"),
                // After `--`.
                Value(ref word) if word.as_encoded_bytes().starts_with(b"-") => {
                    return Err(argument.unexpected().into());
                }
                Value(word) => word.to_string_lossy().into_owned(),
            };
            match self.option.as_str() {
                "-c" => self.concurrency.slots = self.number(0..=u32::MAX as usize)?,
                "--cpus" => self.concurrency.cpus = Some(self.cpus()?),
                "-r" => self.model = Some(self.word(&MODELS)?),
                "--json" => self.json = true,
                _ => return Ok(Some(self.option.clone())),
            }
        }
        Ok(None)
    }

    /// The program has no such option.
    pub(crate) fn unknown(&self) -> Refusal {
        Refusal::Wrong(format!("{}: there is no such option", self.option))
    }

    /// The value of the option that was given out last; so do those that follow.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn value(&mut self) -> Result<OsString, Refusal> {
        Ok(self.parser.value()?)
    }

    /// A whole number.
    ///
    /// # Errors
    /// It is none, or lies outside of `range`.
    pub(crate) fn number<T>(&mut self, range: RangeInclusive<T>) -> Result<T, Refusal>
    where
        T: std::str::FromStr + PartialOrd + fmt::Display,
    {
        number(&self.option, &self.parser.value()?, range)
    }

    /// One of a few words.
    ///
    /// # Errors
    /// It is another.
    pub(crate) fn word<T: Copy>(&mut self, words: &[(&str, T)]) -> Result<T, Refusal> {
        word(&self.option, &self.parser.value()?, words)
    }

    /// Returns `true` if each thread is to own a kernel thread.
    ///
    /// # Errors
    /// As [`word`](Self::word).
    pub(crate) fn scope(&mut self) -> Result<bool, Refusal> {
        self.word(&[("process", false), ("system", true)])
    }

    /// Bytes of stack; `None`, which is said by zero: the runtime's default.
    ///
    /// # Errors
    /// As [`number`](Self::number).
    pub(crate) fn stack_size(&mut self) -> Result<Option<usize>, Refusal> {
        let bytes = self.number(0..=usize::MAX)?;
        Ok((bytes > 0).then_some(bytes))
    }

    /// A list of CPUs.
    fn cpus(&mut self) -> Result<Cpus, Refusal> {
        let value = self.parser.value()?;
        value.to_str().and_then(Cpus::parse).ok_or_else(|| {
            let (value, most) = (value.display(), MOST_CPUS - 1);
            Refusal::Wrong(format!("{} {value}: not a list of CPUs up to {most}, such as 0-3,8", self.option))
        })
    }

    /// When all options have been read: the model of `-r`, else of `SELVEDGE_RUNTIME`, else M:N.
    ///
    /// # Errors
    /// The variable names no runtime of Selvedge. Or CPUs were named for another model than M:N.
    pub(crate) fn model_or(&self, environment: Option<OsString>) -> Result<Model, Refusal> {
        let model = match (self.model, environment) {
            (Some(model), _) => model,
            (None, Some(name)) => word("SELVEDGE_RUNTIME", &name, &MODELS[..2])?,
            (None, None) => Model::Mxn,
        };
        if model != Model::Mxn && self.concurrency.cpus.is_some() {
            return Err(Refusal::Wrong(format!("--cpus: for mxn, not for {model} (use taskset)")));
        }
        Ok(model)
    }
}

/// A whole number.
///
/// # Errors
/// It is none, or lies outside of `range`.
pub(crate) fn number<T>(option: &str, value: &OsStr, range: RangeInclusive<T>) -> Result<T, Refusal>
where
    T: std::str::FromStr + PartialOrd + fmt::Display,
{
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed.filter(|number| range.contains(number)).ok_or_else(|| {
        let (low, high) = (range.start(), range.end());
        Refusal::Wrong(format!("{option} {}: not a whole number from {low} to {high}", value.display()))
    })
}

/// One of a few words.
///
/// # Errors
/// It is another.
pub(crate) fn word<T: Copy>(option: &str, value: &OsStr, words: &[(&str, T)]) -> Result<T, Refusal> {
    let known = words.iter().find(|(name, _)| value == *name);
    known.map(|&(_, meaning)| meaning).ok_or_else(|| {
        let names: Vec<_> = words.iter().map(|&(name, _)| name).collect();
        Refusal::Wrong(format!("{option} {}: not one of {}", value.display(), names.join(", ")))
    })
}

impl From<lexopt::Error> for Refusal {
    fn from(error: lexopt::Error) -> Self {
        Self::Wrong(error.to_string())
    }
}
