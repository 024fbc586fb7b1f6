//! The most threads, in a process of its own. It is full of threads then, and a limit may end it rather than
//! refuse one more.
//!
//! The child is this program with `--here`. Now and then it prints a line with a number, which is how many
//! threads it has made. The last line begins with [`END`]. If that does not come, the last number still says
//! how far it got.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic::PanicHookInfo;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::options::Options;
use super::workers::limits;
use super::workers::most::{Most, Plan, Stop, most};
use super::workers::process::Usage;
use crate::support::command_line::{Model, Text};
use crate::support::concurrency::Concurrency;
use crate::support::library::{Attributes, Std};
use crate::support::selvedge::Private;

/// How the last line of a child begins.
const END: &str = "end";

/// What is known of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) made: u32,
    /// What stopped it, for people.
    pub(crate) stopped_by: String,
    /// `None`: the process was ended.
    pub(crate) told: Option<Told>,
}

/// What only a process can tell that has come to its end: see [`Most`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) ran: u32,
    pub(crate) making: Duration,
    pub(crate) begun: Duration,
    pub(crate) ending: Duration,
    pub(crate) memory: Usage,
}

impl Report {
    pub(crate) fn of(found: &Most) -> Self {
        let Most { made, making, begun, ending, ran, memory, ref stop } = *found;
        let stopped_by = match stop {
            Stop::Enough => "--most".to_owned(),
            stop => stop.to_string().replace('\n', " "),
        };
        Self { made, stopped_by, told: Some(Told { ran, making, begun, ending, memory }) }
    }

    /// In one line; of a process that has come to its end.
    fn to_line(&self) -> Option<String> {
        let Told { ran, making, begun, ending, memory } = self.told?;
        let times = [making, begun, ending].map(|time| time.as_nanos().to_string()).join(" ");
        let Usage { resident, page_tables, address_space, kernel_stacks } = memory;
        let memory = format!("{resident} {page_tables} {address_space} {kernel_stacks}");
        Some(format!("{END} {} {ran} {times} {memory} {}", self.made, self.stopped_by))
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.splitn(11, ' ');
        if words.next() != Some(END) {
            return None;
        }
        let mut number = || words.next()?.parse::<u64>().ok();
        let (made, ran) = (number()?.try_into().ok()?, number()?.try_into().ok()?);
        let [making, begun, ending] = [number()?, number()?, number()?].map(Duration::from_nanos);
        let memory = Usage {
            resident: number()?,
            page_tables: number()?,
            address_space: number()?,
            kernel_stacks: number()?,
        };
        let stopped_by = words.next()?.to_owned();
        Some(Self { made, stopped_by, told: Some(Told { ran, making, begun, ending, memory }) })
    }
}

/// What the child does. From then on, its panics name the limits that are reached.
///
/// # Errors
/// The runtime does not start, or the output is not read.
pub(crate) fn here(options: &Options, text: &mut Text<'_>) -> io::Result<()> {
    let plan = Plan { most: options.most, attributes: options.attributes() };
    attempt(plan, options.model, options.concurrency, text)
}

/// [`here`], for any program.
///
/// # Errors
/// As there.
pub(crate) fn attempt(
    plan: Plan,
    model: Model,
    concurrency: Concurrency,
    text: &mut Text<'_>,
) -> io::Result<()> {
    std::panic::set_hook(Box::new(say_why));
    let mut tell = |made: u32| {
        // If the output is not read, the last line will fail.
        let _ = writeln!(text, "{made}");
    };
    let found = match model {
        Model::Std => most::<Std>(plan, &mut tell),
        model => model.run(concurrency, || most::<Private>(plan, &mut tell))?,
    };
    writeln!(text, "{}", Report::of(&found).to_line().unwrap_or_default())
}

/// A thread may also begin, and then panic for want of something: std's, without a stack for signals.
fn say_why(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let said = payload.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
    // Written as it comes, not made up before: there may be no memory left. If it cannot be written, it
    // would not be read.
    let mut errors = io::stderr().lock();
    let _ = write!(errors, "{}", said.unwrap_or("a panic").lines().next().unwrap_or_default());
    for limit in limits::reached() {
        let _ = write!(errors, "; {limit}");
    }
    let _ = writeln!(errors);
}

/// Lets a child find out. `tell` is told how far it is.
///
/// # Errors
/// There is no child, or it could not begin.
pub(crate) fn apart(options: &Options, attributes: Attributes, tell: impl FnMut(u32)) -> io::Result<Report> {
    listen(command(options, attributes)?, tell)
}

/// The other side of [`attempt`].
pub(crate) fn listen(mut command: Command, mut tell: impl FnMut(u32)) -> io::Result<Report> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let errors = child.stderr.take().expect("piped");
    // Beside, so that the child never waits for room.
    let errors = std::thread::spawn(move || first_line(errors));
    let (mut made, mut report) = (0, None);
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line?;
        match line.parse() {
            Ok(number) => {
                made = number;
                tell(made);
            }
            Err(_) => report = Report::from_line(&line).or(report),
        }
    }
    let status = child.wait()?;
    let said = errors.join().expect("reading does not panic");
    match report {
        Some(report) if status.success() => Ok(report),
        _ if status.code().is_some() => Err(io::Error::other(format!("the child ended by {status}: {said}"))),
        _ => {
            Ok(Report { made, stopped_by: format!("the process was ended by {status}: {said}"), told: None })
        }
    }
}

fn command(options: &Options, attributes: Attributes) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let scope = if attributes.bound { "system" } else { "process" };
    let numbers = [options.most as usize, options.stack_size].map(|n| n.to_string());
    command.args(["most", "--here", "-s", scope, "-r", &options.model.to_string()]);
    command.args(["--most", &numbers[0], "-S", &numbers[1]]).args(options.concurrency.to_options());
    Ok(command)
}

fn first_line(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What was read before an error counts.
    let _ = from.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}
