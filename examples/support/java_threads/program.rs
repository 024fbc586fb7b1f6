//! The program: reads the command line, picks the library, lets the threads work, and says what each got.

use std::ffi::OsString;
use std::io;
use std::time::Instant;

use super::options::{Options, USAGE, parse};
use super::workers::{Shares, Until, work};
use crate::support::command_line::{self, Model};
use crate::support::crew::Sampler;
use crate::support::library::Std;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;
use crate::support::selvedge::Private;

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>, environment: Option<OsString>) -> u8 {
    command_line::run("java_threads", USAGE, parse(arguments, environment), |options, text| {
        write!(text, "{options}")?;
        let shares = work_on_model(options)?;
        let (total, elapsed) = (shares.total(), shares.elapsed);
        writeln!(text, "\n{total} turns in {elapsed:.3?}, {:.0} a second", rate(&shares))?;
        let (least, most) = (shares.least(), shares.most());
        writeln!(text, "least served {least}, most served {most}: a gap of {:.1} %", 100.0 * shares.gap())?;
        Ok(outcome(options, &shares))
    })
}

fn work_on_model(options: &Options) -> io::Result<Shares> {
    let plan = options.plan;
    let watch = |turns: Sampler| match plan.until {
        Until::Turns(each) => Bar::sampling("turns", each.saturating_mul(plan.threads.into()), turns),
        Until::Time(time) => {
            let start = Instant::now();
            let passed = move || start.elapsed().as_millis() as u64;
            Bar::sampling("ms", time.as_millis() as u64, Box::new(passed))
        }
    };
    match options.model {
        Model::Std => work::<Std, _>(plan, watch),
        model => model.run(options.concurrency, || work::<Private, _>(plan, watch))?,
    }
}

/// Turns a second.
fn rate(shares: &Shares) -> f64 {
    shares.total() as f64 / shares.elapsed.as_secs_f64()
}

fn outcome(options: &Options, shares: &Shares) -> Outcome {
    let plan = options.plan;
    let mut outcome = Outcome::new("java_threads");
    outcome.set("threads", plan.threads);
    outcome.set("outside", plan.outside);
    outcome.set("inside", plan.inside);
    match plan.until {
        Until::Time(time) => outcome.set("time_ms", time.as_millis() as u64),
        Until::Turns(turns) => outcome.set("turns", turns),
    }
    outcome.set("scope", if plan.attributes.bound { "system" } else { "process" });
    outcome.set("concurrency", options.concurrency);
    outcome.set("runtime", options.model.to_string());
    outcome.figure("throughput", "turns/s", rate(shares));
    outcome.figure("least served", "turns", shares.least() as f64);
    outcome.figure("most served", "turns", shares.most() as f64);
    outcome.figure("gap", "%", 100.0 * shares.gap());
    outcome.check("each turn was counted under the lock", shares.counted == shares.total());
    if let Until::Turns(turns) = plan.until {
        let exact = shares.served.iter().all(|&served| served == turns);
        outcome.check(format!("each thread had {turns} turns"), exact);
    }
    outcome
}
