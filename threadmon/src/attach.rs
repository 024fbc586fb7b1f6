//! The connection to a program: found or started, and what is wanted of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::threadmon::Client;
use selvedge::trace::Level;

/// How long a program that was started may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that was started here.
pub(crate) struct Started {
    child: Child,
    /// Where its output goes.
    pub(crate) output: PathBuf,
    name: String,
}

impl Started {
    /// Starts a program, which is to serve.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub(crate) fn start(words: &[OsString]) -> Result<Self, String> {
        let name = words[0].display().to_string();
        let (output, path) = output_file().map_err(|error| {
            let room = std::env::temp_dir();
            format!("cannot create a file in {} for the output of {name}: {error}", room.display())
        })?;
        let errors = output.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("SELVEDGE_MON", "on");
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(|error| {
            let _ = std::fs::remove_file(&path);
            format!("cannot start {name}: {error}")
        })?;
        Ok(Self { child, output: path, name })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Connects as soon as the program serves.
    ///
    /// # Errors
    ///
    /// A sentence, and the status to end with.
    pub(crate) fn connect(&mut self, stop: &AtomicBool) -> Result<Client, (String, i32)> {
        let begin = Instant::now();
        loop {
            match Client::connect(self.pid()) {
                Ok(client) => return Ok(client),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err((error.to_string(), 1)),
            }
            let (name, output) = (&self.name, self.output.display());
            if let Ok(Some(status)) = self.child.try_wait() {
                let text = format!("{name} ended before it served ({status}); its output is in {output}");
                return Err((text, code(status)));
            }
            // Relaxed: only the flag itself is read.
            if begin.elapsed() > PATIENCE || stop.load(Ordering::Relaxed) {
                let text = format!(
                    "{name} (process {}) runs, but does not serve after {} s: does it use Selvedge, and build \
                     a runtime? It runs on; its output is in {output}. If it starts the program itself, attach \
                     to that one by its number",
                    self.pid(),
                    begin.elapsed().as_secs()
                );
                return Err((text, 1));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end of the program. Returns its status as this process's own.
    pub(crate) fn wait(mut self) -> i32 {
        if matches!(self.child.try_wait(), Ok(None)) {
            let (name, pid, output) = (&self.name, self.pid(), self.output.display());
            say(format!("waits for {name} (process {pid}); its output is in {output}; Ctrl-C ends it"));
        }
        match self.child.wait() {
            Ok(status) => {
                say(format!(
                    "{} has ended ({status}); its output is in {}",
                    self.name,
                    self.output.display()
                ));
                code(status)
            }
            Err(error) => {
                say(format!("cannot wait for {}: {error}", self.name));
                1
            }
        }
    }
}

/// Says something. If the terminal has gone, nothing is said.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "threadmon: {text}");
}

/// Returns a status as a shell would.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Makes a new file. Its name is not guessed by others: a file that exists is not taken.
fn output_file() -> io::Result<(File, PathBuf)> {
    use std::os::unix::fs::OpenOptionsExt;
    for attempt in 0.. {
        let name = format!("threadmon-{}-{attempt}.out", std::process::id());
        let path = std::env::temp_dir().join(name);
        match File::options().append(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the loop has no end")
}

/// A client, and what it wants. The program forgets that when the connection ends.
pub(crate) struct Attached {
    pub(crate) client: Client,
    pub(crate) pid: u32,
    level: Level,
    sample: Option<NonZeroU32>,
    counts_locks: bool,
}

impl Attached {
    /// Raises the level, and records events of one thread in `sample`, if that is given.
    pub(crate) fn new(client: Client, level: Level, sample: Option<NonZeroU32>) -> io::Result<Self> {
        let mut client = client;
        let pid = client.overview()?.pid;
        let mut it = Self { client, pid, level, sample, counts_locks: false };
        it.ask()?;
        Ok(it)
    }

    /// Tells the program what is wanted.
    fn ask(&mut self) -> io::Result<()> {
        if let Some(one_of) = self.sample {
            self.client.set_sample(one_of)?;
        }
        self.client.set_level(self.level)?;
        if self.counts_locks { self.client.count_locks(true) } else { Ok(()) }
    }

    pub(crate) fn set_level(&mut self, level: Level) -> io::Result<()> {
        self.level = level;
        self.client.set_level(level)
    }

    /// Counts contention from now on.
    pub(crate) fn count_locks(&mut self) -> io::Result<()> {
        self.counts_locks = true;
        self.client.count_locks(true)
    }

    /// Connects again, after an answer that did not come in time.
    pub(crate) fn reconnect(&mut self) -> io::Result<()> {
        let before = std::mem::replace(&mut self.client, Client::connect(self.pid)?);
        self.ask()?;
        // Not earlier: the program goes on with what is wanted.
        drop(before);
        Ok(())
    }
}
