//! The program: reads the command line, and measures one crowd after the other.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use super::crowd::{self, Costs};
use super::options::{Options, USAGE, parse};
use crate::support::command_line::{self, Model, Text};
use crate::support::library::Std;
use crate::support::nt_solaris::workers::limits;
use crate::support::nt_solaris::workers::process::Bytes;
use crate::support::outcome::Outcome;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("growth", USAGE, parse(arguments, environment), |options, text| {
        if options.row { row(options, text) } else { table(options, text) }
    })
}

/// The memory of a thread, at most; of one that owns a kernel thread, with its part in the kernel.
const GREEN: u64 = 12 << 10;
const KERNEL: u64 = 40 << 10;

/// Measures the crowd of so many threads.
fn row(options: &Options, text: &mut Text<'_>) -> io::Result<Outcome> {
    let &Options { threads, model, concurrency, .. } = options;
    let each = if model == Model::Mxn { GREEN } else { KERNEL };
    if let Some(room) = limits::room().filter(|room| room.left() < u64::from(threads) * each) {
        return Err(io::Error::other(format!("{threads} threads: there is no room. {room}")));
    }
    let costs = match model {
        Model::Std => crowd::measure::<Std>(threads),
        _ => model.run(concurrency, || crowd::measure::<Private>(threads))?,
    }?;
    head(model, text)?;
    let cells = costs.each.map(|(_, nanos)| format!("{nanos:.0}"));
    writeln!(text, "| {threads} | {} | {} |", cells.join(" | "), costs.bytes)?;
    let mut outcome = Outcome::new("growth");
    outcome.set("threads", threads);
    outcome.set("runtime", model.to_string());
    concurrency.tell(&mut outcome);
    for (what, nanos) in costs.each {
        outcome.figure(what, "ns a thread", nanos);
    }
    outcome.figure("at rest", "bytes a thread", costs.bytes as f64);
    outcome.check("each thread has taken part in each step", costs.missed == 0);
    Ok(outcome)
}

/// Measures each crowd in a process of its own, up to the largest. If one fails, it is the last.
fn table(options: &Options, text: &mut Text<'_>) -> io::Result<Outcome> {
    let &Options { threads: most, model, concurrency, .. } = options;
    head(model, text)?;
    let mut outcome = Outcome::new("growth");
    let crowds = std::iter::successors(Some(1_u32), |last| last.checked_mul(10));
    for threads in crowds.take_while(|&threads| threads < most).chain([most]) {
        let mut row = Command::new(std::env::current_exe()?);
        row.args(["--row", "-n", &threads.to_string(), "-r", &model.to_string()]);
        let row = row.args(concurrency.to_options()).stderr(Stdio::inherit()).output()?;
        let fine = row.status.success();
        outcome.check(format!("{threads} threads have been measured"), fine);
        if !fine {
            break;
        }
        let lines = String::from_utf8_lossy(&row.stdout);
        writeln!(text, "{}", lines.lines().last().unwrap_or_default())?;
    }
    Ok(outcome)
}

/// Says what the rows are.
fn head(model: Model, text: &mut Text<'_>) -> io::Result<()> {
    let names = Costs::NAMES.join(" | ");
    writeln!(text, "{model}: ns a thread, and bytes")?;
    writeln!(text, "{} of memory are free\n", room())?;
    writeln!(text, "| threads | {names} | at rest |")?;
    writeln!(text, "|---|{}---|", "---|".repeat(Costs::NAMES.len()))
}

fn room() -> String {
    limits::room().map_or("? bytes".into(), |room| Bytes(room.left()).to_string())
}
