//! Asks the program, and does not ask too much: what it spends on answers is measured.
//!
//! **Problem.** A list of 100,000 threads ten times a second would cost the program more than a monitor may.
//!
//! **Solution.** The program lists only threads that have changed. Each refresh takes one page of each
//! runtime, and goes on where the last page ended. The program says how much CPU time its serving thread has
//! used. If that was more than [`SHARE`], pages become shorter, and later longer again. Deadlocks are looked
//! for seldom, and the more seldom the longer that takes.
//!
//! So a row may be old: of threads that all run, each is listed once in a walk of many refreshes. The screen
//! says how many rows are old.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use selvedge::threadmon::{HistoryView, LockView, Overview, ThreadPageView};
use selvedge::trace::Level;
use syscalls::Sysno;

use crate::attach::Attached;
use crate::cpus::{self, CpuTimes};
use crate::kernel_threads::{self, KernelThread};

/// The most CPU time that the program is to spend on answers: this share of one CPU.
const SHARE: f64 = 0.08;

const LONGEST_PAGE: u32 = 4096;
const SHORTEST_PAGE: u32 = 64;

/// The most pages of one whole list.
const MOST_PAGES: usize = 4096;

/// The time between two searches for deadlocks, at least.
const DEADLOCKS: Duration = Duration::from_secs(2);

/// What one refresh brings.
pub(crate) struct Snapshot {
    pub(crate) overview: Overview,
    /// What was known of threads before is void.
    pub(crate) anew: bool,
    /// The runtimes' numbers, each with its next page.
    pub(crate) pages: Vec<(u32, ThreadPageView)>,
    /// `None`: they were not asked for.
    pub(crate) locks: Option<Vec<LockView>>,
    /// What was found; `None`: it was not looked for.
    pub(crate) deadlocks: Option<String>,
    /// By CPU.
    pub(crate) cpus: Vec<CpuTimes>,
    /// The kernel threads that threads own, by the threads' identities.
    pub(crate) own: HashMap<u64, KernelThread>,
    /// The system calls in which kernel threads wait, by the kernel's numbers of these.
    pub(crate) calls: HashMap<u32, Sysno>,
    /// The followed thread, and what has happened to it; `None`: events are not recorded.
    pub(crate) history: Option<(u64, HistoryView)>,
}

pub(crate) struct Source {
    pub(crate) attached: Attached,
    page: u32,
    /// When, and how much CPU time the serving thread had used.
    last: Option<(Duration, Duration)>,
    next_deadlocks: Instant,
    pub(crate) with_locks: bool,
    followed: Option<u64>,
    /// The history of the followed thread begins with the next snapshot.
    anew: bool,
    /// The connection is new, so the program lists all threads.
    connected: bool,
}

impl Source {
    pub(crate) fn new(attached: Attached) -> Self {
        Self {
            attached,
            page: LONGEST_PAGE,
            last: None,
            next_deadlocks: Instant::now(),
            with_locks: false,
            followed: None,
            anew: true,
            connected: true,
        }
    }

    /// Asks for the history of this thread from now on, or of none.
    pub(crate) fn follow(&mut self, thread: Option<u64>) {
        self.followed = thread;
        self.anew = true;
    }

    pub(crate) fn snapshot(&mut self) -> io::Result<Snapshot> {
        let client = &mut self.attached.client;
        let overview = client.overview()?;
        if let Some((at, monitor)) = self.last {
            let spent = overview.monitor.saturating_sub(monitor).as_secs_f64();
            let share = spent / overview.at.saturating_sub(at).as_secs_f64().max(0.001);
            self.page = next_page(self.page, share);
        }
        self.last = Some((overview.at, overview.monitor));
        let mut pages = Vec::new();
        for runtime in &overview.runtimes {
            match client.threads(runtime.number, self.page, false) {
                Ok(page) => pages.push((runtime.number, page)),
                // It has ended meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let own = kernel_threads::read(self.attached.pid, &pages);
        let calls = kernel_threads::calls(self.attached.pid, &overview, &own);
        let locks = if self.with_locks { Some(client.locks()?) } else { None };
        let deadlocks = if Instant::now() >= self.next_deadlocks {
            let begin = Instant::now();
            let found = client.deadlocks()?;
            self.next_deadlocks = Instant::now() + DEADLOCKS.max(begin.elapsed() * 50);
            Some(found)
        } else {
            None
        };
        let history = match self.followed.filter(|_| overview.level == Level::Events) {
            Some(id) => Some((id, client.history(id, self.anew)?)),
            None => None,
        };
        self.anew = history.is_none();
        let anew = std::mem::take(&mut self.connected);
        Ok(Snapshot { overview, anew, pages, locks, deadlocks, cpus: cpus::read(), own, calls, history })
    }

    /// Returns a snapshot with all threads that have changed.
    pub(crate) fn whole(&mut self) -> io::Result<Snapshot> {
        let mut snapshot = self.snapshot()?;
        for (runtime, page) in &mut snapshot.pages {
            // A program may start threads faster than they are listed.
            for _ in 0..MOST_PAGES {
                if page.last {
                    break;
                }
                match self.attached.client.threads(*runtime, LONGEST_PAGE, false) {
                    Ok(next) => {
                        page.threads.extend(next.threads);
                        page.ended.extend(next.ended);
                        page.last = next.last;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) => return Err(error),
                }
            }
        }
        snapshot.own = kernel_threads::read(self.attached.pid, &snapshot.pages);
        Ok(snapshot)
    }

    pub(crate) fn level(&mut self, level: Level) -> io::Result<()> {
        self.attached.set_level(level)
    }

    /// Connects again. The program lists all threads anew.
    pub(crate) fn reconnect(&mut self) -> io::Result<()> {
        (self.last, self.connected) = (None, true);
        self.attached.reconnect()
    }
}

/// Returns the length of the next page, after one that took this share of a CPU.
fn next_page(page: u32, share: f64) -> u32 {
    let factor = (SHARE / share.max(0.001)).clamp(0.5, 1.25);
    ((f64::from(page) * factor) as u32).clamp(SHORTEST_PAGE, LONGEST_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_as_long_as_the_program_can_afford() {
        assert_eq!(next_page(LONGEST_PAGE, 0.01), LONGEST_PAGE);
        assert_eq!(next_page(4096, 0.16), 2048);
        assert_eq!(next_page(4096, 9.0), 2048);
        assert_eq!(next_page(1000, 0.01), 1250);
        assert_eq!(next_page(SHORTEST_PAGE, 1.0), SHORTEST_PAGE);
        // A program that needs 20 us for a thread, ten times a second.
        let mut page = LONGEST_PAGE;
        for _ in 0..20 {
            page = next_page(page, f64::from(page) * 20e-6 * 10.0);
        }
        assert!((350..450).contains(&page), "{page}");
    }
}
