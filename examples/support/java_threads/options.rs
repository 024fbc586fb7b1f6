//! The command line of `java_threads`.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use super::models::{WAYS, Way};
use super::workers::{Plan, Until};
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: java_threads [--throughput | --fairness] [-n <threads>] [-o <steps>] [-l <steps>] [-t <ms> | -i <turns>]
\t[-p private|shared] [-s process|system] [-S <stacksize>]
\t[-c <concurrency>] [--cpus <list>] [-r mxn|onetoone|std]
\t[--models] [--json]

  --throughput  400 threads, then 2000; 5000 steps without the lock, 100 with it; 100 turns of each thread
  --fairness    two threads for each CPU; 400 steps without the lock, 100 with it; 2000 ms
                (first the one and then the other if neither is said)
  -n            threads, instead
  -o            steps of computing without the lock in each turn, of about 2 ns, instead
  -l            steps with the lock, instead
  -t            how long all of them work, in ms, instead
  -i            turns of each thread, instead
  -p            a mutex private to the process, or fit to be shared between processes (private)
  -s            unbound threads (process), or threads that own a kernel thread each (system) (process)
  -S            bytes of stack of each thread (0: the runtime's default)
  -c            threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus        CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r            runtime (SELVEDGE_RUNTIME, or mxn)
  --models      instead of -p, -s and -r: all models of the paper, and std, in turn
  --json        say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// `None`: both.
    pub(crate) part: Option<Part>,
    /// Instead of each part's own.
    pub(crate) threads: Option<u32>,
    pub(crate) outside: Option<u32>,
    pub(crate) inside: Option<u32>,
    pub(crate) until: Option<Until>,
    pub(crate) stack_size: Option<usize>,
    /// `None`: all of them.
    pub(crate) way: Option<Way>,
    pub(crate) concurrency: Concurrency,
    pub(crate) json: bool,
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

/// What is to be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// How much many threads get done.
    Throughput,
    /// Shows if all threads get the same share.
    Fairness,
}

/// Many threads that compute; the paper has 400, and 2,000.
pub(crate) fn many(threads: u32) -> Plan {
    let until = Until::Turns(100);
    Plan { threads, outside: 5_000, inside: 100, until, attributes: Attributes::default() }
}

/// Two threads for each CPU, two seconds.
pub(crate) fn two_per_cpu() -> Plan {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let until = Until::Time(Duration::from_secs(2));
    Plan { threads: 2 * cpus, outside: 400, inside: 100, until, attributes: Attributes::default() }
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
        part: None,
        threads: None,
        outside: None,
        inside: None,
        until: None,
        stack_size: None,
        way: None,
        concurrency: Concurrency::of(0),
        json: false,
    };
    let (mut shared, mut bound, mut all) = (None, None, false);
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "--throughput" => options.part = Some(Part::Throughput),
            "--fairness" => options.part = Some(Part::Fairness),
            "-n" => options.threads = Some(line.number(1..=1_000_000)?),
            "-o" => options.outside = Some(line.number(0..=u32::MAX)?),
            "-l" => options.inside = Some(line.number(0..=u32::MAX)?),
            "-t" => {
                let ms = line.number(1..=1_000_000)?;
                options.until = Some(Until::Time(Duration::from_millis(ms)));
            }
            "-i" => options.until = Some(Until::Turns(line.number(1..=u64::MAX)?)),
            "-p" => shared = Some(line.word(&[("private", false), ("shared", true)])?),
            "-s" => bound = Some(line.scope()?),
            "-S" => options.stack_size = line.stack_size()?,
            "--models" => all = true,
            _ => return Err(line.unknown()),
        }
    }
    (options.concurrency, options.json) = (line.concurrency, line.json);
    if all && (line.model.is_some() || shared.is_some() || bound.is_some()) {
        return Err(Refusal::Wrong("--models: these have -p, -s and -r of their own".into()));
    }
    if !all {
        let (shared, bound) = (shared.unwrap_or(false), bound.unwrap_or(false));
        options.way = Some(Way { model: line.model_or(environment)?, shared, bound });
    }
    if options.way.is_some_and(|way| way.shared && way.model == Model::Std) {
        return Err(Refusal::Wrong("-p shared: std has no mutex that processes can share".into()));
    }
    Ok(options)
}

impl Options {
    /// What is to be done, one after the other.
    pub(crate) fn plans(&self) -> Vec<(Part, Plan)> {
        let plans = |part| match part {
            Part::Throughput => match self.threads {
                None => vec![many(400), many(2_000)],
                Some(threads) => vec![many(threads)],
            },
            Part::Fairness => vec![two_per_cpu()],
        };
        let parts = self.part.map_or(vec![Part::Throughput, Part::Fairness], |part| vec![part]);
        let both = parts.into_iter().flat_map(|part| plans(part).into_iter().map(move |plan| (part, plan)));
        both.map(|(part, plan)| (part, self.instead(plan))).collect()
    }

    /// A plan, with what the user wants otherwise.
    fn instead(&self, plan: Plan) -> Plan {
        Plan {
            threads: self.threads.unwrap_or(plan.threads),
            outside: self.outside.unwrap_or(plan.outside),
            inside: self.inside.unwrap_or(plan.inside),
            until: self.until.unwrap_or(plan.until),
            attributes: Attributes { stack_size: self.stack_size, bound: false },
        }
    }

    /// On what, one after the other.
    pub(crate) fn ways(&self) -> Vec<Way> {
        self.way.map_or(WAYS.to_vec(), |way| vec![way])
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, plan) in self.plans() {
            let Plan { threads, outside, inside, until, .. } = plan;
            let name = match part {
                Part::Throughput => "throughput",
                Part::Fairness => "fairness",
            };
            let until = match until {
                Until::Time(time) => format!("(-t) {} ms", time.as_millis()),
                Until::Turns(turns) => format!("(-i) {turns} turns each"),
            };
            write!(f, "{name:<10} = (-n) {threads} threads, (-o) {outside} steps without the lock, ")?;
            writeln!(f, "(-l) {inside} with it, {until}")?;
        }
        let ways: Vec<_> = self.ways().iter().map(Way::to_string).collect();
        writeln!(f, "models     = {}", ways.join("; "))?;
        writeln!(f, "stacksize   (-S) = {}", self.stack_size.unwrap_or(0))?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)
    }
}
