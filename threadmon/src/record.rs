//! `--record`: events to a file, as they come.
//!
//! The rings of the program keep the last events only. Each refresh takes what is new, and appends it to the
//! file. So memory is bounded here, and what a program did that was killed is there but for one refresh.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::attach::Attached;

/// A file that is being written.
pub(crate) struct Record {
    file: File,
    path: String,
    events: u64,
    bytes: u64,
}

impl Record {
    /// # Errors
    ///
    /// A sentence.
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| format!("cannot create {name}: {error}"))?;
        Ok(Self { file, path: name, events: 0, bytes: 0 })
    }

    /// Records until the program ends, `stop`, or the limit. Returns what has come of it.
    ///
    /// # Errors
    ///
    /// A sentence: the disk is full, or the program does not answer. The file can be read as far as it goes.
    pub(crate) fn run(
        mut self,
        attached: &mut Attached,
        interval: Duration,
        limit: Option<Duration>,
        stop: &AtomicBool,
    ) -> Result<String, String> {
        let begin = Instant::now();
        let mut next = begin;
        let mut last = false;
        while !last {
            // Relaxed: only the flag itself is read.
            last = stop.load(Ordering::Relaxed) || limit.is_some_and(|limit| begin.elapsed() >= limit);
            match attached.client.events(false) {
                Ok(recording) => self.append(&recording)?,
                Err(error) if self.bytes > 0 && has_ended(&error) => break,
                Err(error) => return Err(format!("{error}; {}", self.what())),
            }
            next = (next + interval).max(Instant::now());
            while !last && Instant::now() < next && !stop.load(Ordering::Relaxed) {
                std::thread::sleep((next - Instant::now()).min(Duration::from_millis(20)));
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(format!("recorded {seconds:.1} s; {}; `threadmon explain {}` says more", self.what(), self.path))
    }

    fn append(&mut self, recording: &selvedge::trace::Recording) -> Result<(), String> {
        let mut bytes = Vec::new();
        let made =
            if self.bytes == 0 { recording.write(&mut bytes) } else { recording.write_more(&mut bytes) };
        let written = made.and_then(|()| self.file.write_all(&bytes));
        if let Err(error) = written {
            return Err(format!("cannot write {}: {error}; {}", self.path, self.what()));
        }
        self.bytes += bytes.len() as u64;
        self.events += recording.events().len() as u64;
        Ok(())
    }

    fn what(&self) -> String {
        format!("{} has {} events, {} bytes", self.path, self.events, self.bytes)
    }
}

/// Returns `true` if the program has gone.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
