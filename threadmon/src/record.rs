//! `--record`: events to a file, as they come.
//!
//! The rings of the program keep the last events only. Each refresh takes what is new, and appends it to the
//! file, one answer of the program after another. So memory is bounded here, and what a program did that was
//! killed is there but for one refresh.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use selvedge::threadmon::Client;

use crate::attach::Attached;

/// How many threads are asked for at a time.
const PAGE: u32 = 4096;

/// The most names of one part of a file.
const MOST: usize = 1_000_000;

/// How long events are still taken at the end that the program has recorded before it. It may record faster
/// than they are taken.
const REST: Duration = Duration::from_secs(1);

/// A file that is being written.
pub(crate) struct Record {
    file: File,
    path: String,
    events: u64,
    bytes: u64,
    /// Events were overwritten between two refreshes.
    lost: bool,
    /// More events were there at the end.
    cut: bool,
    /// Of which runtimes not all names are written yet.
    unnamed: Option<Vec<u32>>,
}

impl Record {
    /// Opens the file. What is in it stays until the first events come: there may be no such process.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| format!("cannot create {name}: {error}"))?;
        Ok(Self { file, path: name, events: 0, bytes: 0, lost: false, cut: false, unnamed: None })
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
        let (mut next, mut end) = (begin, None);
        loop {
            // Relaxed: only the flag itself is read.
            if stop.load(Ordering::Relaxed) || limit.is_some_and(|limit| begin.elapsed() >= limit) {
                end.get_or_insert_with(|| Instant::now() + REST);
            }
            let part = attached.client.events_part(false).and_then(|(mut recording, more)| {
                recording.add_names(self.names(&mut attached.client, end.is_some())?);
                Ok((recording, more))
            });
            let more = match part {
                Ok((recording, more)) => {
                    self.append(&recording)?;
                    more
                }
                Err(error) if self.bytes > 0 && has_ended(&error) => break,
                Err(error) => return Err(format!("{error}; {}", self.what())),
            };
            if end.is_some_and(|end| !more || Instant::now() >= end) {
                self.cut = more;
                break;
            }
            if more {
                continue;
            }
            next = (next + interval).max(Instant::now());
            while Instant::now() < next && !stop.load(Ordering::Relaxed) {
                std::thread::sleep((next - Instant::now()).min(Duration::from_millis(20)));
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(format!("recorded {seconds:.1} s; {}; `threadmon explain {}` says more", self.what(), self.path))
    }

    /// Returns the next names of threads that were there before the recording; with `all`, all of them.
    /// Threads that start later tell their names in events.
    fn names(&mut self, client: &mut Client, all: bool) -> io::Result<Vec<(u64, String)>> {
        let mut left = match self.unnamed.take() {
            Some(left) => left,
            None => client.overview()?.runtimes.iter().map(|it| it.number).collect(),
        };
        let mut names = Vec::new();
        while let Some(&runtime) = left.last() {
            let last = match client.threads(runtime, PAGE, false) {
                Ok(page) => {
                    names.extend(page.threads.into_iter().filter_map(|it| Some((it.id, it.name?))));
                    page.last
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) => return Err(error),
            };
            if last {
                left.pop();
            }
            if !all || names.len() > MOST {
                break;
            }
        }
        self.unnamed = Some(left);
        Ok(names)
    }

    fn append(&mut self, recording: &selvedge::trace::Recording) -> Result<(), String> {
        let mut bytes = Vec::new();
        let made =
            if self.bytes == 0 { recording.write(&mut bytes) } else { recording.write_more(&mut bytes) };
        let written = made.and_then(|()| {
            // A pipe or a device has no length.
            if self.bytes == 0 && self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            self.file.write_all(&bytes)
        });
        if let Err(error) = written {
            return Err(format!("cannot write {}: {error}; {}", self.path, self.what()));
        }
        // What was lost before the first refresh was lost before this began.
        self.lost |= self.bytes > 0 && recording.whole_since() > Some(Duration::ZERO);
        self.bytes += bytes.len() as u64;
        self.events += recording.events().len() as u64;
        Ok(())
    }

    fn what(&self) -> String {
        let lost = if self.lost {
            ", and lacks some that were overwritten: a shorter --interval, or a larger SELVEDGE_TRACE_EVENTS, \
             keeps more"
        } else {
            ""
        };
        let cut = if self.cut { ", and lacks the last ones of some LWPs" } else { "" };
        format!("{} has {} events, {} bytes{lost}{cut}", self.path, self.events, self.bytes)
    }
}

/// Returns `true` if the program has gone.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
