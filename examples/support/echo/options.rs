//! The command line of the echo.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;

use super::workers::Plan;
use crate::support::command_line::{Asked, Line, Model, Refusal};
use crate::support::concurrency::Concurrency;
use crate::support::library::Attributes;
use crate::support::sockets::Manners;

/// The names of the options, for people.
pub(crate) const USAGE: &str = "\
usage: echo [--listen <address>|--connect <address>] [-n <connections>] [-i <messages>] [-b <bytes>]
\t[-s net|std] [-a yes|no] [-m <lwps>] [-S <stacksize>] [-c <concurrency>] [--cpus <list>]
\t[-r mxn|onetoone|std] [--json]

  --listen   be the server, at an address such as 127.0.0.1:7007, until all connections have been closed
  --connect  be the clients
             (without either: both, over the loopback)
  -n         connections, each with a thread at both ends (1000)
  -i         messages of each client, one after the other (100)
  -b         bytes of a message (64)
  -s         sockets of Selvedge's threads: of selvedge::net, or of std (net)
  -a         announce each read, as one that may block in the kernel (no); for mxn with -s std
  -m         kernel threads that there may be (0: one for each thread, or as many as can be); for mxn
  -S         bytes of stack of each thread (0: the runtime's default)
  -c         threads that may run at once (0: as many as there are CPUs); for mxn
  --cpus     CPUs that the runtime runs on, such as 0-3,8 (all); for mxn
  -r         runtime (SELVEDGE_RUNTIME, or mxn)
  --json     say it as one JSON object
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) role: Role,
    pub(crate) plan: Plan,
    /// Zero: enough.
    pub(crate) max_lwps: usize,
    pub(crate) concurrency: Concurrency,
    pub(crate) model: Model,
    pub(crate) json: bool,
}

/// Which end of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Both,
    Server(SocketAddr),
    Client(SocketAddr),
}

impl Asked for Options {
    fn json(&self) -> bool {
        self.json
    }
}

/// A thousand, as the name of the experiment says.
pub(crate) const THOUSAND: Options = Options {
    role: Role::Both,
    plan: Plan {
        connections: 1_000,
        messages: 100,
        bytes: 64,
        manners: Manners::Net,
        attributes: Attributes { stack_size: None, bound: false },
    },
    max_lwps: 0,
    concurrency: Concurrency::of(0),
    model: Model::Mxn,
    json: false,
};

/// What a client sends before it reads must fit into the sockets between it and the server.
const LONGEST: usize = 64 << 10;
/// What a runtime takes.
pub(crate) const MOST_LWPS: usize = 2_047;

/// Reads a command line (without the program's name). `environment` is the value of `SELVEDGE_RUNTIME`.
///
/// # Errors
/// An option is not known, has no value, or a value out of its range; or the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item: Into<OsString>>,
    environment: Option<OsString>,
) -> Result<Options, Refusal> {
    let mut options = THOUSAND;
    let plan = &mut options.plan;
    let mut role = None;
    let (mut net, mut announced) = (true, false);
    let mut line = Line::new(arguments);
    while let Some(option) = line.next_option()? {
        match option.as_str() {
            "--listen" if role.is_none() => role = Some(Role::Server(address(&option, &line.value()?)?)),
            "--connect" if role.is_none() => role = Some(Role::Client(address(&option, &line.value()?)?)),
            "--listen" | "--connect" => {
                return Err(Refusal::Wrong("one of --listen and --connect, and once".into()));
            }
            "-n" => plan.connections = line.number(1..=100_000)?,
            "-i" => plan.messages = line.number(1..=u32::MAX)?,
            "-b" => plan.bytes = line.number(1..=LONGEST)?,
            "-s" => net = line.word(&[("net", true), ("std", false)])?,
            "-a" => announced = line.word(&[("yes", true), ("no", false)])?,
            "-m" => options.max_lwps = line.number(0..=MOST_LWPS)?,
            "-S" => plan.attributes.stack_size = line.stack_size()?,
            _ => return Err(line.unknown()),
        }
    }
    plan.manners = match (net, announced) {
        (true, true) => return Err(Refusal::Wrong("-a yes: only with -s std".into())),
        (true, false) => Manners::Net,
        (false, true) => Manners::Announced,
        (false, false) => Manners::Bare,
    };
    let (concurrency, model, json) = (line.concurrency, line.model_or(environment)?, line.json);
    Ok(Options { role: role.unwrap_or(Role::Both), concurrency, model, json, ..options })
}

fn address(option: &str, value: &OsString) -> Result<SocketAddr, Refusal> {
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        Refusal::Wrong(format!("{option} {}: not an address such as 127.0.0.1:7007", value.display()))
    })
}

impl Options {
    /// How many threads there will be: an acceptor, and the ends of connections that are in this process.
    pub(crate) fn threads(&self) -> usize {
        let ends = if self.role == Role::Both { 2 } else { 1 };
        ends * self.plan.connections as usize + 1
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { connections, messages, bytes, manners, attributes } = self.plan;
        match self.role {
            Role::Both => (),
            Role::Server(address) => writeln!(f, "server           = {address}")?,
            Role::Client(address) => writeln!(f, "clients of       = {address}")?,
        }
        writeln!(f, "connections (-n) = {connections}")?;
        writeln!(f, "messages    (-i) = {messages}")?;
        writeln!(f, "bytes       (-b) = {bytes}")?;
        writeln!(f, "sockets     (-s) = {}", if manners == Manners::Net { "net" } else { "std" })?;
        writeln!(f, "announce    (-a) = {}", if manners == Manners::Announced { "yes" } else { "no" })?;
        writeln!(f, "LWPs        (-m) = {}", self.max_lwps)?;
        writeln!(f, "stack size  (-S) = {}", attributes.stack_size.unwrap_or(0))?;
        writeln!(f, "concurrency (-c) = {}", self.concurrency)?;
        writeln!(f, "runtime     (-r) = {}", self.model)
    }
}
