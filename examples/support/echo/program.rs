//! The program: reads the command line, is the server, the clients or both, and says how fast the echo was.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge::{Mxn, OneToOne, Runtime, RuntimeStats};

use super::options::{MOST_LWPS, Options, Role, USAGE, parse};
use super::workers::{Served, Talk, echo, serve, talk};
use crate::support::command_line::{self, Model, Text};
use crate::support::library::Std;
use crate::support::open_files;
use crate::support::outcome::Outcome;
use crate::support::progress::Bar;
use crate::support::selvedge::Private;
use crate::support::sockets::{Manners, Network};

/// What is found out at the ends of the connections that are here.
type Found = (Option<Talk>, Option<Served>);

/// Runs the program. Gives its exit status.
pub(crate) fn run(arguments: impl IntoIterator<Item: Into<OsString>>, environment: Option<OsString>) -> u8 {
    command_line::run("echo", USAGE, parse(arguments, environment), |options, text| {
        writeln!(text, "{options}")?;
        perform(options, text)
    })
}

/// What the options ask for.
///
/// # Errors
/// Those of sockets, of starting threads, and of the runtime's start.
pub(crate) fn perform(options: &Options, text: &mut Text<'_>) -> io::Result<Outcome> {
    // A socket for each thread; the acceptor's listens.
    open_files::make_room(options.threads() as u64)?;
    let (found, stats) = match options.model {
        Model::Std => (be_there::<Std>(options, text)?, None),
        Model::OneToOne => (OneToOne::new()?.run(|| be_there::<Private>(options, text))?, None),
        Model::Mxn => {
            let rt = runtime(options)?;
            (rt.run(|| be_there::<Private>(options, text))?, Some(rt.stats()))
        }
    };
    say(&found, stats.as_ref(), text)?;
    Ok(outcome(options, &found, stats.as_ref()))
}

/// An M:N runtime that lets every thread block in the kernel at once, if it can and std's sockets are asked
/// for.
fn runtime(options: &Options) -> io::Result<Mxn> {
    let mut builder = options.concurrency.builder();
    // Besides those that block, some must run.
    let running = options.concurrency.slots.max(options.concurrency.available()) + 1;
    let enough = (options.threads() + running).min(MOST_LWPS);
    if options.max_lwps > 0 {
        builder = builder.max_lwps(options.max_lwps);
    } else if options.plan.manners != Manners::Net {
        builder = builder.max_lwps(enough);
    }
    builder.build()
}

fn be_there<N: Network>(options: &Options, text: &mut Text<'_>) -> io::Result<Found> {
    let plan = options.plan;
    let said: Arc<AtomicU64> = Arc::default();
    let messages = u64::from(plan.connections) * u64::from(plan.messages);
    let sampler = {
        let said = Arc::clone(&said);
        Box::new(move || said.load(Ordering::Relaxed))
    };
    match options.role {
        Role::Both => {
            let _bar = Bar::sampling("messages", messages, sampler);
            echo::<N>(plan, &said).map(|(talk, served)| (Some(talk), Some(served)))
        }
        Role::Server(address) => {
            let listener = N::listen(address, plan.connections)?;
            writeln!(text, "listening at {}", N::address(&listener)?)?;
            text.flush()?;
            serve::<N>(listener, plan).map(|served| (None, Some(served)))
        }
        Role::Client(address) => {
            let _bar = Bar::sampling("messages", messages, sampler);
            talk::<N>(address, plan, &said).map(|talk| (Some(talk), None))
        }
    }
}

/// The latencies that count, by name, in microseconds.
fn latencies(talk: &Talk) -> [(&'static str, f64); 4] {
    let all = &talk.latencies;
    let micros = |(name, time): (&'static str, std::time::Duration)| (name, 1e6 * time.as_secs_f64());
    [
        ("50 %", all.percentile(50.0)),
        ("99 %", all.percentile(99.0)),
        ("99.9 %", all.percentile(99.9)),
        ("longest", all.longest()),
    ]
    .map(micros)
}

fn a_second(talk: &Talk) -> f64 {
    talk.latencies.count() as f64 / talk.elapsed.as_secs_f64()
}

fn say((talk, served): &Found, stats: Option<&RuntimeStats>, text: &mut Text<'_>) -> io::Result<()> {
    if let Some(talk) = talk {
        let (count, elapsed) = (talk.latencies.count(), talk.elapsed);
        writeln!(text, "{count} messages in {elapsed:.3?}, {:.0} a second", a_second(talk))?;
        for (which, micros) in latencies(talk) {
            writeln!(text, "{which:>10}: {micros:>10.0} us")?;
        }
    }
    if let Some(Served { connections, bytes }) = served {
        writeln!(text, "{connections} connections served, {bytes} bytes")?;
    }
    if let Some(stats) = stats {
        writeln!(
            text,
            "{} LWPs in the end; {} times a slot went to another while its LWP slept; {} times there was none",
            stats.lwps.len(),
            stats.compensated,
            stats.bound_reached
        )?;
    }
    Ok(())
}

fn outcome(options: &Options, (talk, served): &Found, stats: Option<&RuntimeStats>) -> Outcome {
    let plan = options.plan;
    let messages = u64::from(plan.connections) * u64::from(plan.messages);
    let mut outcome = Outcome::new("echo");
    let role = match options.role {
        Role::Both => "both",
        Role::Server(_) => "server",
        Role::Client(_) => "clients",
    };
    outcome.set("role", role);
    outcome.set("connections", plan.connections);
    outcome.set("messages", plan.messages);
    outcome.set("bytes", plan.bytes);
    outcome.set("sockets", if plan.manners == Manners::Net { "net" } else { "std" });
    outcome.set("announced", plan.manners == Manners::Announced);
    outcome.set("stack size", plan.attributes.stack_size);
    options.concurrency.tell(&mut outcome);
    outcome.set("runtime", options.model.to_string());
    if let Some(talk) = talk {
        outcome.figure("messages", "1/s", a_second(talk));
        for (which, micros) in latencies(talk) {
            outcome.figure(&format!("latency, {which}"), "us", micros);
        }
        let (count, wrong) = (talk.latencies.count(), talk.wrong);
        outcome.check(format!("all {messages} messages came back ({count} did)"), count == messages);
        outcome.check(format!("every byte came back as it was sent ({wrong} did not)"), wrong == 0);
    }
    if let Some(Served { connections, bytes }) = *served {
        outcome.figure("bytes served", "bytes", bytes as f64);
        let expected = plan.connections;
        outcome.check(
            format!("all {expected} connections were served ({connections} were)"),
            connections == expected,
        );
        if talk.is_some() {
            let all = messages * plan.bytes as u64;
            outcome.check(format!("the server has seen all {all} bytes ({bytes})"), bytes == all);
        }
    }
    if let Some(stats) = stats {
        outcome.set("LWPs allowed", stats.max_lwps);
        outcome.figure("LWPs", "LWPs", stats.lwps.len() as f64);
        outcome.figure("slots moved from sleeping LWPs", "times", stats.compensated as f64);
        outcome.figure("no LWP to move a slot to", "times", stats.bound_reached as f64);
    }
    outcome
}
