//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: http_server [--listen <address>] [-r mxn|onetoone] [--idle <ms>] [--head <ms>] [--stall <ms>] <folder>

  --listen   where to listen (127.0.0.1:8080); port 0 is any that is free
  -r         threads: green or kernel threads (mxn)
  --idle     how long a connection may be idle between two requests (60000)
  --head     how long a client may take to send a request (10000)
  --stall    how long a client may take no byte of an answer (10000)
";

/// What stands behind the threads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Model {
    Mxn,
    OneToOne,
}

/// How long a server waits for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Between two requests.
    pub(crate) idle: Duration,
    /// For a whole request, from its first byte.
    pub(crate) head: Duration,
    /// For each part of an answer to be taken.
    pub(crate) stall: Duration,
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) listen: String,
    pub(crate) model: Model,
    pub(crate) limits: Limits,
    pub(crate) root: PathBuf,
}

impl Options {
    /// Reads the command line of the process.
    pub(crate) fn parse() -> Result<Self, lexopt::Error> {
        use lexopt::prelude::*;

        let mut listen = "127.0.0.1:8080".to_owned();
        let mut model = Model::Mxn;
        let seconds = Duration::from_secs;
        let mut limits = Limits { idle: seconds(60), head: seconds(10), stall: seconds(10) };
        let mut root = None;
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("listen") => listen = parser.value()?.string()?,
                Short('r') => model = parser.value()?.parse_with(named)?,
                Long("idle") => limits.idle = parser.value()?.parse_with(milliseconds)?,
                Long("head") => limits.head = parser.value()?.parse_with(milliseconds)?,
                Long("stall") => limits.stall = parser.value()?.parse_with(milliseconds)?,
                Value(folder) if root.is_none() => root = Some(folder),
                Short('?' | 'h') | Long("help") => {
                    print!("{USAGE}");
                    process::exit(0);
                }
                _ => return Err(argument.unexpected()),
            }
        }
        let root: OsString = root.ok_or("the folder is missing")?;
        Ok(Self { listen, model, limits, root: root.into() })
    }
}

fn named(model: &str) -> Result<Model, &'static str> {
    match model {
        "mxn" => Ok(Model::Mxn),
        "onetoone" => Ok(Model::OneToOne),
        _ => Err("not one of mxn, onetoone"),
    }
}

fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.map(Duration::from_millis).ok_or("not a number of milliseconds")
}
