//! The program: reads the command line, lets the threads work on each model, and says how much they did
//! and what each got.

use std::ffi::OsString;
use std::io;
use std::time::Instant;

use super::models::{STANDARD, Way};
use super::options::{Options, Part, USAGE, parse};
use super::workers::{Plan, Shares, Until};
use crate::support::command_line::{self, Text};
use crate::support::crew::Sampler;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("java_threads", USAGE, parse(arguments, environment), |options, text| {
        write!(text, "{options}")?;
        let mut outcome = configuration(options);
        for (part, plan) in options.plans() {
            let title = title(part, plan);
            writeln!(text, "\n{title}")?;
            let mut standard = None;
            for way in options.ways() {
                let shares = way.work(plan, options.concurrency, |turns| watch(plan, turns))?;
                standard = standard.or((way == STANDARD).then(|| rate(&shares)));
                let row = Row { title: &title, way, plan, shares, standard };
                row.tell(text)?;
                row.note(&mut outcome);
            }
        }
        Ok(outcome)
    })
}

fn configuration(options: &Options) -> Outcome {
    let mut outcome = Outcome::new("java_threads");
    for (part, plan) in options.plans() {
        let title = title(part, plan);
        outcome.set(&format!("{title}: outside"), plan.outside);
        outcome.set(&format!("{title}: inside"), plan.inside);
        match plan.until {
            Until::Time(time) => outcome.set(&format!("{title}: time_ms"), time.as_millis() as u64),
            Until::Turns(turns) => outcome.set(&format!("{title}: turns"), turns),
        }
    }
    outcome.set("models", options.ways().iter().map(Way::to_string).collect::<Vec<_>>());
    outcome.set("stack_size", options.stack_size);
    options.concurrency.tell(&mut outcome);
    if let Some(way) = options.way {
        outcome.set("mutexes", if way.shared { "shared" } else { "private" });
        outcome.set("scope", if way.bound { "system" } else { "process" });
        outcome.set("runtime", way.model.to_string());
    }
    outcome
}

fn title(part: Part, plan: Plan) -> String {
    let what = match part {
        Part::Throughput => "throughput",
        Part::Fairness => "fairness",
    };
    format!("{what}, {} threads", plan.threads)
}

fn watch(plan: Plan, turns: Sampler) -> Bar {
    match plan.until {
        Until::Turns(each) => Bar::sampling("turns", each.saturating_mul(plan.threads.into()), turns),
        Until::Time(time) => {
            let start = Instant::now();
            let passed = move || start.elapsed().as_millis() as u64;
            Bar::sampling("ms", time.as_millis() as u64, Box::new(passed))
        }
    }
}

/// Turns a second.
fn rate(shares: &Shares) -> f64 {
    shares.total() as f64 / shares.elapsed.as_secs_f64()
}

/// What one model made of one plan.
struct Row<'a> {
    title: &'a str,
    way: Way,
    plan: Plan,
    shares: Shares,
    /// The rate of the standard model, if that has been measured.
    standard: Option<f64>,
}

impl Row<'_> {
    /// By how much more this model did than the standard one, in percent, as in the paper's table.
    fn more(&self) -> Option<f64> {
        let standard = self.standard.filter(|_| self.way != STANDARD)?;
        Some(100.0 * (rate(&self.shares) / standard - 1.0))
    }

    fn tell(&self, text: &mut Text<'_>) -> io::Result<()> {
        let shares = &self.shares;
        let (total, elapsed) = (shares.total(), shares.elapsed);
        let name = self.way.to_string();
        write!(text, "{name:<24} {total:>9} turns in {elapsed:>9.3?}, {:>9.0} a second", rate(shares))?;
        if let Some(more) = self.more() {
            write!(text, ", {more:+.0} %")?;
        }
        if let Until::Time(_) = self.plan.until {
            let (least, most, gap) = (shares.least(), shares.most(), 100.0 * shares.gap());
            write!(text, "; least served {least}, most served {most}: a gap of {gap:.1} %")?;
        }
        writeln!(text)
    }

    fn note(&self, outcome: &mut Outcome) {
        let shares = &self.shares;
        let name = |what| format!("{}, {}, {what}", self.title, self.way);
        outcome.figure(&name("turns"), "1/s", rate(shares));
        if let Some(more) = self.more() {
            outcome.figure(&name("more than the standard model"), "%", more);
        }
        outcome.check(name("each turn was counted under the lock"), shares.counted == shares.total());
        match self.plan.until {
            Until::Time(_) => {
                outcome.figure(&name("least served"), "turns", shares.least() as f64);
                outcome.figure(&name("most served"), "turns", shares.most() as f64);
                outcome.figure(&name("gap"), "%", 100.0 * shares.gap());
            }
            Until::Turns(turns) => {
                let exact = shares.served.iter().all(|&served| served == turns);
                outcome.check(name(&format!("each thread had {turns} turns")), exact);
            }
        }
    }
}
