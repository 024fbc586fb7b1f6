//! The program: reads the command line, lets the storms blow one after the other, and says how far each
//! thread got.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use super::blocking::{Reads, naps, reads};
use super::hogs::{self, PAUSE, Plan, Turns};
use super::options::{Options, USAGE, parse};
use crate::support::command_line::{self, Model, Text};
use crate::support::latency::Latencies;
use crate::support::library::Std;
use crate::support::outcome::Outcome;
use crate::support::parking::Parking;
use crate::support::progress::Bar;
use crate::support::selvedge::Private;

/// Of the sleepers, so many may have to go one after the other: more, and they do not sleep side by side.
const IN_A_ROW: u32 = 10;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("storms", USAGE, parse(arguments, environment), |options, text| {
        writeln!(text, "{options}")?;
        match options.model {
            Model::Std => blow::<Std>(options, text),
            model => model.run(options.concurrency, || blow::<Private>(options, text))?,
        }
    })
}

fn blow<L: Parking>(options: &Options, text: &mut Text<'_>) -> io::Result<Outcome> {
    let mut outcome = configuration(options);
    let herds = if options.hogs { options.herds() } else { Vec::new() };
    let storms = usize::from(options.reads) + usize::from(options.naps) + herds.len();
    let bar = Bar::new("storms", storms as u64);
    if options.reads {
        let found = reads::<L>(options.readers, options.time())?;
        bar.aside(|| tell_reads(options, &found, &mut outcome, text))?;
        bar.advance(1);
    }
    if options.naps {
        let took = naps::<L>(options.sleepers, options.sleep())?;
        bar.aside(|| tell_naps(options, took, &mut outcome, text))?;
        bar.advance(1);
    }
    for plan in herds {
        let got = hogs::run::<L>(plan)?;
        bar.aside(|| tell_hogs(options, plan, &got, &mut outcome, text))?;
        bar.advance(1);
    }
    Ok(outcome)
}

fn configuration(options: &Options) -> Outcome {
    let mut outcome = Outcome::new("storms");
    if options.reads {
        outcome.set("readers", options.readers);
    }
    if options.naps {
        outcome.set("sleepers", options.sleepers);
        outcome.set("sleep", options.sleep_ms);
    }
    if options.hogs {
        outcome.set("hogs for each CPU", options.hogs_each);
    }
    outcome.set("time", options.time_ms);
    outcome.set("enough", options.enough);
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    outcome
}

fn tell_reads(
    options: &Options,
    found: &Reads,
    outcome: &mut Outcome,
    text: &mut Text<'_>,
) -> io::Result<()> {
    let (readers, steps, kernel) = (options.readers, found.steps.count(), found.kernel_steps);
    writeln!(
        text,
        "reads: beside {} of {readers} threads in read(2), {steps} steps of 1 ms; a kernel thread {kernel}",
        found.blocked
    )?;
    tell_times("step", &found.steps, text)?;
    outcome.figure("reads, steps", "steps", steps as f64);
    outcome.figure("reads, steps of a kernel thread", "steps", kernel as f64);
    figures("reads, step", &found.steps, outcome);
    outcome.check(
        format!("all {readers} reads were released, by a number each ({} were)", found.released),
        found.released == readers,
    );
    outcome.check(
        format!("all {readers} threads were blocked until then ({} were)", found.blocked),
        found.blocked == readers,
    );
    outcome.check(
        format!(
            "{steps} steps beside readers are at least {} % of a kernel thread's {kernel}",
            options.enough
        ),
        100 * steps >= u64::from(options.enough) * kernel,
    );
    Ok(())
}

fn tell_naps(
    options: &Options,
    took: Duration,
    outcome: &mut Outcome,
    text: &mut Text<'_>,
) -> io::Result<()> {
    let (sleepers, each) = (options.sleepers, options.sleep());
    writeln!(text, "naps: {sleepers} threads slept for {each:?} in {took:.3?}")?;
    outcome.figure("naps", "ms", 1e3 * took.as_secs_f64());
    outcome.check(format!("none of {sleepers} woke before {each:?}"), took >= each);
    let row = IN_A_ROW.min(sleepers);
    outcome
        .check(format!("{sleepers} sleeps took less than {row} in a row, and one"), took < (row + 1) * each);
    Ok(())
}

fn tell_hogs(
    options: &Options,
    plan: Plan,
    got: &Turns,
    outcome: &mut Outcome,
    text: &mut Text<'_>,
) -> io::Result<()> {
    let (kind, turns) = (plan.kind.name(), got.turns.count());
    let wanted = u64::from(options.time_ms) / PAUSE.as_millis() as u64;
    writeln!(text, "hogs: beside {} with {kind}, {turns} turns of {wanted}", plan.hogs)?;
    tell_times("turn", &got.turns, text)?;
    outcome.figure(&format!("hogs, {kind}, turns"), "turns", turns as f64);
    figures(&format!("hogs, {kind}, turn"), &got.turns, outcome);
    outcome.figure(&format!("hogs, {kind}, work"), "pieces", got.hog_turns as f64);
    let enough = options.enough;
    outcome.check(
        format!("{turns} turns beside {kind} are at least {enough} % of {wanted}"),
        100 * turns >= u64::from(enough) * wanted,
    );
    outcome.check(
        format!("none of the hogs' {} pieces of {kind} was wrong ({} were)", got.hog_turns, got.wrong),
        got.wrong == 0,
    );
    outcome.check(format!("the hogs got something done with {kind}"), got.hog_turns > 0);
    Ok(())
}

fn tell_times(what: &str, times: &Latencies, text: &mut Text<'_>) -> io::Result<()> {
    let [half, most, longest] = [times.percentile(50.0), times.percentile(99.0), times.longest()];
    writeln!(text, "      a {what} took {half:.1?}, 99 % less than {most:.1?}, the longest {longest:.1?}")
}

fn figures(what: &str, times: &Latencies, outcome: &mut Outcome) {
    let all =
        [("50 %", times.percentile(50.0)), ("99 %", times.percentile(99.0)), ("longest", times.longest())];
    for (which, time) in all {
        outcome.figure(&format!("{what}, {which}"), "ms", 1e3 * time.as_secs_f64());
    }
}
