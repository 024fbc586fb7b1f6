//! The program: reads the command line, parks as many threads as there is room for, wakes them all, and
//! says what they took.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::options::{Options, USAGE, parse};
use super::warden::Warden;
use super::workers::{Reached, park_all};
use crate::support::command_line::{self, Model, Text};
use crate::support::library::Std;
use crate::support::nt_solaris::workers::process::{Bytes, Usage};
use crate::support::outcome::Outcome;
use crate::support::parking::Named;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("million", USAGE, parse(arguments, environment), |options, text| {
        writeln!(text, "{options}")?;
        let (reached, taken) = match options.model {
            Model::Std => park_watched::<Std>(options, text),
            model => model.run(options.concurrency, || park_watched::<Private>(options, text))?,
        }?;
        say(options, &reached, taken, text)?;
        Ok(outcome(options, &reached, taken))
    })
}

fn park_watched<L: Named>(options: &Options, text: &mut Text<'_>) -> io::Result<(Reached, Usage)> {
    let kernel = options.model != Model::Mxn;
    let mut warden = Warden::new(options.plan.threads, kernel, text)?;
    let reached = park_all::<L>(options.plan, &mut warden);
    let taken = warden.taken();
    if reached.started == 0 {
        return Err(io::Error::other(reached.stopped.unwrap_or_default()));
    }
    Ok((reached, taken))
}

/// The steps of the experiment, by name.
fn steps(reached: &Reached) -> [(&'static str, Duration); 3] {
    [("start", reached.start), ("wake", reached.wake), ("join", reached.join)]
}

/// What the threads took, by name; the kernel's stacks where they have some.
fn memory(options: &Options, taken: Usage) -> Vec<(&'static str, u64)> {
    let mut all = vec![
        ("resident", taken.resident),
        ("page tables", taken.page_tables),
        ("address space", taken.address_space),
    ];
    if options.model != Model::Mxn {
        all.push(("kernel stacks", taken.kernel_stacks));
    }
    all
}

fn say(options: &Options, reached: &Reached, taken: Usage, text: &mut Text<'_>) -> io::Result<()> {
    let threads = reached.started;
    writeln!(text, "{threads} threads parked at once")?;
    if let Some(reason) = &reached.stopped {
        writeln!(text, "not {}, because of {reason}", options.plan.threads)?;
    }
    for (what, bytes) in memory(options, taken) {
        writeln!(
            text,
            "{what:>14}: {:>10}, {} bytes each",
            Bytes(bytes).to_string(),
            bytes / u64::from(threads)
        )?;
    }
    for (what, time) in steps(reached) {
        writeln!(text, "{what:>14}: {time:>10.3?}, {:.0} ns each", nanos_each(time, threads))?;
    }
    Ok(())
}

fn nanos_each(time: Duration, threads: u32) -> f64 {
    1e9 * time.as_secs_f64() / f64::from(threads)
}

fn outcome(options: &Options, reached: &Reached, taken: Usage) -> Outcome {
    let threads = reached.started;
    let mut outcome = Outcome::new("million");
    outcome.set("threads", options.plan.threads);
    outcome.set("stack size", options.plan.attributes.stack_size);
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    // What a script wants to know of a number that is too small.
    outcome.set("stopped by", reached.stopped.clone());
    outcome.figure("threads parked at once", "threads", f64::from(threads));
    for (what, bytes) in memory(options, taken) {
        outcome.figure(&format!("{what}, a thread"), "bytes", bytes as f64 / f64::from(threads));
    }
    for (what, time) in steps(reached) {
        outcome.figure(what, "ms", 1e3 * time.as_secs_f64());
        outcome.figure(&format!("{what}, a thread"), "ns", nanos_each(time, threads));
    }
    outcome.check(format!("all {threads} threads were woken and counted"), reached.woken == threads);
    outcome.check("each was woken when it had parked, and has gone after that", reached.strays == 0);
    outcome
}
