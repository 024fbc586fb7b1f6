//! Who waits for whom, and who waits for ever.
//!
//! `look` finds out, `shares` and `graph` judge, `watch` does both by itself where a program wants that; here is what is said about it.
//!
//! **What is certain.** A thread is said to wait for ever only if it waits for others that do, each of whom would have to go on first;
//! or if nobody in the process can run. A wait that has a deadline, that an interrupt ends, or that whoever comes may end, is not
//! among them, and neither is one for a lock whose owner is not known: of these is said what may end them.

mod graph;
mod look;
mod shares;
mod watch;

use std::fmt;

use super::ThreadId;
use crate::park::ledger;
use crate::park::reason::WaitReason;

pub use self::watch::OnDeadlock;
pub(crate) use self::watch::{from_environment, start};

/// Has the owners of locks, and what else threads wait for one another for, recorded from now on, in all of the process, so that
/// [`Runtime::deadlocks`](crate::Runtime::deadlocks) knows them.
///
/// It is switched on once and for all. What it costs is paid by every lock and unlock: some 100 ns. Where it is not switched on they
/// pay nothing, and a report knows only whom joins wait for. Threads are recorded from their next turn on a processor, or (if they own a kernel
/// thread) from their next wait, so it is best called first of all; a runtime that is to look out for deadlocks itself
/// ([`OnDeadlock`]) does so when it is built.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// thread::record_owners();
/// ```
pub fn record_owners() {
    ledger::begin();
}

/// What the threads of a runtime wait for, and which of them wait for ever.
///
/// Made by [`Runtime::deadlocks`](crate::Runtime::deadlocks). Displayed, it has a line for each thread that waits for ever, with what
/// it waits for, the name of that if it has [one](crate::sync::stats::name), and who holds it.
///
/// # Examples
///
/// ```
/// use selvedge::{Mxn, Runtime, thread};
///
/// let rt = Mxn::new()?;
/// let parked = rt.spawn(thread::park);
/// assert!(rt.deadlocks().cycles().is_empty());
/// # parked.thread().unpark();
/// # parked.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Deadlocks {
    cycles: Vec<Cycle>,
    stuck: Vec<Blocked>,
    waiting: Vec<Blocked>,
    standstill: Standstill,
    owners_recorded: bool,
}

/// Threads that wait for each other: each for the next, the last for the first. One that waits for itself is a cycle of one.
#[derive(Clone, Debug)]
pub struct Cycle {
    blocked: Vec<Blocked>,
}

/// A thread that waits, and what it waits for.
#[derive(Clone, Debug)]
pub struct Blocked {
    id: ThreadId,
    name: Option<String>,
    reason: WaitReason,
    at: Option<usize>,
    called: Option<String>,
    owners: Vec<(ThreadId, Option<String>)>,
    ends_by: EndsBy,
}

/// What may end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndsBy {
    /// Nothing, and nobody.
    Nobody,
    /// Its deadline.
    Deadline,
    /// An interrupt, if nothing else.
    Interrupt,
    /// The owner of the lock, the thread that is joined: it may go on.
    Owner,
    /// The owner of the lock, which is not known: owners are not recorded, or were not when it took the lock.
    UnknownOwner,
    /// Any thread that comes to notify, unpark, send or arrive; one from outside of the runtime, too.
    Anybody,
}

/// Whether anybody of a runtime can go on by himself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standstill {
    /// Somebody can, or there is nobody.
    #[default]
    None,
    /// All threads wait, none of them with a deadline. Some of them wait for what another thread of the process could do, which
    /// is not one of the runtime's.
    UnlessWokenFromOutside,
    /// All threads wait, and there is nobody to wake one: they wait for each other, or no thread of the process can run, but for the one that
    /// asks.
    ForEver,
}

impl Deadlocks {
    /// What is known of the threads of the runtime at `home`, but the calling one.
    pub(crate) fn of(home: usize) -> Self {
        look::deadlocks(Some(home))
    }

    /// Whether any thread waits for ever.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.cycles.is_empty() || !self.stuck.is_empty()
    }

    /// Threads that wait for each other. Some may be of another runtime, or of none, if they hold up one of this runtime.
    #[must_use]
    pub fn cycles(&self) -> &[Cycle] {
        &self.cycles
    }

    /// The others that wait for ever: for one of a cycle, or for somebody to come where nobody is left.
    #[must_use]
    pub fn stuck(&self) -> &[Blocked] {
        &self.stuck
    }

    /// Those who wait, and may go on some time.
    #[must_use]
    pub fn waiting(&self) -> &[Blocked] {
        &self.waiting
    }

    /// Whether all threads of the runtime wait.
    #[must_use]
    pub fn standstill(&self) -> Standstill {
        self.standstill
    }

    /// Whether owners of locks are [recorded](record_owners). Without that, only joins are known to wait for a thread in particular.
    #[must_use]
    pub fn owners_recorded(&self) -> bool {
        self.owners_recorded
    }

    /// The same without those who may go on.
    fn certain(self) -> Self {
        Self { waiting: Vec::new(), ..self }
    }
}

impl Cycle {
    /// The threads, each with what the next one holds.
    #[must_use]
    pub fn threads(&self) -> &[Blocked] {
        &self.blocked
    }
}

impl Blocked {
    /// Its identity, as [`Thread::id`](super::Thread::id) has it.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// Its name, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What kind of thing it waits for.
    #[must_use]
    pub fn reason(&self) -> WaitReason {
        self.reason
    }

    /// The address of that, if it has one.
    #[must_use]
    pub fn at(&self) -> Option<usize> {
        self.at
    }

    /// What that is [called](crate::sync::stats::name).
    #[must_use]
    pub fn called(&self) -> Option<&str> {
        self.called.as_deref()
    }

    /// The threads that hold it, or are joined: as far as they are known.
    #[must_use]
    pub fn owners(&self) -> impl ExactSizeIterator<Item = (ThreadId, Option<&str>)> {
        self.owners.iter().map(|(id, name)| (*id, name.as_deref()))
    }

    /// What may end the wait.
    #[must_use]
    pub fn ends_by(&self) -> EndsBy {
        self.ends_by
    }
}

/// A thread, by its identity and its name.
struct Who<'a>(ThreadId, Option<&'a str>);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)?;
        self.1.map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}

impl fmt::Display for EndsBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "for ever",
            Self::Deadline => "at most until its deadline",
            Self::Interrupt => "an interrupt would end it",
            Self::Owner => "who may go on",
            Self::UnknownOwner => "whose owner is not known",
            Self::Anybody => "any thread that comes may end it",
        })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", Who(self.id, self.name()), self.reason)?;
        if let Some(at) = self.at {
            write!(f, " at {at:#x}")?;
        }
        if let Some(called) = &self.called {
            write!(f, " {called:?}")?;
        }
        for (n, (id, name)) in self.owners().enumerate() {
            let of = match (n, self.reason) {
                (0, WaitReason::Join | WaitReason::Scope) => "that of ",
                (0, _) => "held by ",
                _ => "",
            };
            write!(f, ", {of}{}", Who(id, name))?;
        }
        if self.ends_by == EndsBy::Nobody { Ok(()) } else { write!(f, ": {}", self.ends_by) }
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.blocked[..] {
            [_] => f.write_str("a thread waits for itself:")?,
            all => write!(f, "{} threads wait for each other:", all.len())?,
        }
        self.blocked.iter().try_for_each(|blocked| write!(f, "\n  {blocked}"))
    }
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "somebody can go on, or there is nobody",
            Self::UnlessWokenFromOutside => "all threads wait, unless somebody from outside wakes one",
            Self::ForEver => "all threads wait, and nobody is left to wake one",
        })
    }
}

impl fmt::Display for Deadlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.cycles.iter().map(|cycle| format!("deadlock: {cycle}")).collect();
        for (title, some) in [("deadlock: these wait for ever:", &self.stuck), ("these wait:", &self.waiting)]
        {
            if !some.is_empty() {
                let lines: String = some.iter().map(|blocked| format!("\n  {blocked}")).collect();
                parts.push(format!("{title}{lines}"));
            }
        }
        if self.standstill != Standstill::None {
            parts.push(self.standstill.to_string());
        }
        let unknown = |blocked: &Blocked| blocked.owners.is_empty() && blocked.reason == WaitReason::Mutex;
        if !self.owners_recorded && self.stuck.iter().chain(&self.waiting).any(unknown) {
            parts.push(String::from(
                "(owners of locks are recorded after thread::record_owners, or with SELVEDGE_DEADLOCK=report)",
            ));
        }
        if parts.is_empty() { f.write_str("nobody waits") } else { f.write_str(&parts.join("\n")) }
    }
}
