//! The command line of `threadmon`: what is asked, from the start to the exit status.

mod args;
mod attach;
mod cpus;
mod history;
mod json;
mod kernel_threads;
mod model;
mod poller;
mod record;
mod screen;
mod show;
mod source;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod ui;
mod warnings;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use args::{Command, Mode, Options, Target};
use attach::{Attached, Started, say};
use model::Model;
use record::Record;
use selvedge::threadmon::Client;
use selvedge::trace::Recording;
use source::Source;

/// How long `--once` waits for the first threads of a program.
const STARTS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let status = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => run(command).unwrap_or_else(|(problem, status)| {
            say(problem);
            status
        }),
        Err(problem) => {
            say(problem);
            2
        }
    };
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

/// What went wrong, and the exit status.
type Failed = (String, i32);

fn failed(problem: impl ToString) -> Failed {
    (problem.to_string(), 1)
}

fn run(command: Command) -> Result<i32, Failed> {
    match command {
        Command::Help => print(args::HELP),
        Command::Version => print(concat!("threadmon ", env!("CARGO_PKG_VERSION"))),
        Command::Explain(from) => print(threadmon::explain::report(&read(&from)?).trim_end()),
        Command::Export { from, to, perfetto } => export(&read(&from)?, &to, perfetto).map(|()| 0),
        Command::Watch(options) => watch(&options),
    }
}

/// Prints a text. If nothing reads it any more, that is no error: `head` does so.
fn print(text: &str) -> Result<i32, Failed> {
    put(text).map(|_| 0).map_err(failed)
}

/// Prints a text. Returns `false` if nothing reads any more.
fn put(text: &str) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to stdout: {error}"))
        }
        written => Ok(written.is_ok()),
    }
}

fn read(path: &Path) -> Result<Recording, Failed> {
    let read = File::open(path).and_then(|file| Recording::read(BufReader::new(file)));
    read.map_err(|error| failed(format!("cannot read {}: {error}{}", path.display(), hint(path))))
}

/// Returns what the name of a file says, if it is that of a drawing.
fn hint(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json" | "pftrace" | "perfetto-trace") => {
            "; the ending of the name in SELVEDGE_TRACE decides the format, and this one makes a file for \
             viewers: end it with .svt"
        }
        _ => "",
    }
}

fn export(recording: &Recording, to: &Path, perfetto: bool) -> Result<(), Failed> {
    let written = File::create(to).and_then(|file| {
        let mut file = BufWriter::new(file);
        if perfetto {
            recording.write_perfetto(&mut file)?
        } else {
            recording.write_chrome(&mut file)?
        }
        file.flush()
    });
    written.map_err(|error| failed(format!("cannot write {}: {error}", to.display())))
}

/// Attaches to the program, starting it if need be, and shows it.
fn watch(options: &Options) -> Result<i32, Failed> {
    if options.mode == Mode::Screen && !io::stdout().is_terminal() {
        return Err(failed("the output is no terminal: use --once or --json"));
    }
    // Before the program is touched, or started.
    let record = match &options.mode {
        Mode::Record(path) => Some(Record::create(path).map_err(failed)?),
        _ => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    let (client, started) = match &options.target {
        Target::Process(pid) => (Client::connect(*pid).map_err(failed)?, None),
        Target::Program(words) => {
            let mut started = Started::start(words).map_err(failed)?;
            (started.connect(&stop)?, Some(started))
        }
    };
    let attached = Attached::new(client, options.level, options.sample).map_err(failed)?;
    let shown = show(options, attached, record, &stop);
    match (shown, started) {
        (Ok(status), None) => Ok(status),
        (Err(problem), None) => Err(failed(problem)),
        (shown, Some(started)) => {
            if let Err(problem) = &shown {
                say(problem);
            }
            let status = started.wait();
            Ok(if status == 0 && shown.is_err() { 1 } else { status })
        }
    }
}

fn show(
    options: &Options,
    mut attached: Attached,
    record: Option<Record>,
    stop: &AtomicBool,
) -> Result<i32, String> {
    let text = |error: io::Error| error.to_string();
    if let Some(record) = record {
        let done = record.run(&mut attached, options.interval, options.limit, stop)?;
        say(done);
        return Ok(0);
    }
    let source = Source::new(attached);
    match options.mode {
        Mode::Screen => screen::run(source, options.interval, stop).map(|()| 0).map_err(text),
        Mode::Text => {
            let model = look_twice(source, options, stop).map_err(text)?;
            print(text::report(&model).trim_end()).map_err(|it| it.0)
        }
        Mode::Json { once: true } => {
            let model = look_twice(source, options, stop).map_err(text)?;
            print(&json::document(&model).to_string()).map_err(|it| it.0)
        }
        _ => documents(source, options, stop),
    }
}

/// Sees all threads, and sees them again a moment later and once more: so that there are rates.
fn look_twice(mut source: Source, options: &Options, stop: &AtomicBool) -> io::Result<Model> {
    source.with_locks = true;
    let begin = Instant::now();
    // A program that was just started serves before its runtime is there.
    while source.attached.client.overview()?.runtimes.iter().all(|it| it.threads == 0)
        && begin.elapsed() < STARTS
        && !stop.load(Ordering::Relaxed)
    {
        pause(Instant::now() + options.interval, stop);
    }
    let mut model = Model::default();
    for look in 0..3 {
        // The last two count: threads that the first look caught at their start are seen twice, too.
        if look > 0 {
            pause(Instant::now() + options.interval, stop);
        }
        model.apply(source.whole()?);
    }
    Ok(model)
}

/// Prints a document for each refresh.
fn documents(mut source: Source, options: &Options, stop: &AtomicBool) -> Result<i32, String> {
    source.with_locks = true;
    let mut model = Model::default();
    let begin = Instant::now();
    let mut next = begin;
    // Relaxed: only the flag itself is read.
    while !stop.load(Ordering::Relaxed) && options.limit.is_none_or(|limit| begin.elapsed() < limit) {
        match source.snapshot() {
            Ok(snapshot) => model.apply(snapshot),
            Err(error) if model.overview.is_some() && record::has_ended(&error) => return Ok(0),
            Err(error) => return Err(error.to_string()),
        }
        if !put(&json::document(&model).to_string())? {
            return Ok(0);
        }
        next = (next + options.interval).max(Instant::now());
        pause(next, stop);
    }
    Ok(0)
}

/// Waits until then, or for a signal.
fn pause(until: Instant, stop: &AtomicBool) {
    // Relaxed: only the flag itself is read.
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)));
    }
}
