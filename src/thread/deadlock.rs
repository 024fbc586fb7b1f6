//! Which thread waits for which, and which threads wait forever.
//!
//! `look` gathers the facts, `shares` and `graph` judge them, and `watch` does both by itself if a program
//! wants that. This module holds the report.
//!
//! **What is certain.** A thread is reported to wait forever in two cases only:
//!
//! - It waits for other threads that wait forever, and each of these would have to go on first.
//! - No thread of the process can run.
//!
//! Not among them are waits that have a deadline, that an interrupt ends, or that any arriving thread may
//! end. Nor are waits for a lock with an unknown owner. For all of these, the report says what may end them.

mod graph;
pub(super) mod look;
mod shares;
pub(crate) mod watch;

use std::fmt;

use super::id::ThreadId;
use crate::observe::lock_owners;
use crate::park::reason::WaitReason;

/// Begins to record the owners of locks, in the whole process, so that
/// [`Runtime::deadlocks`](crate::Runtime::deadlocks) knows them. Also records what else threads wait for one
/// another for.
///
/// The recording is never switched off. Every lock and unlock then costs some 100 ns more. Without it they
/// pay nothing, and a report only knows which threads joins wait for.
///
/// A green thread is recorded from its next turn on a processor, and a thread that owns a kernel thread from
/// its next wait. So this is best called before everything else. A runtime that itself looks for deadlocks
/// ([`OnDeadlock`](crate::thread::OnDeadlock)) calls it when it is built.
///
/// # Examples
///
/// ```
/// use selvedge::thread;
///
/// thread::record_owners();
/// ```
pub fn record_owners() {
    lock_owners::begin();
}

/// What the threads of a runtime wait for, and which of them wait forever.
///
/// Returned by [`Runtime::deadlocks`](crate::Runtime::deadlocks). When displayed, it has a line for each
/// thread that waits forever. The line says what the thread waits for, the name of that if it has
/// [one](crate::sync::stats::name), and which thread holds it.
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

/// Threads that wait for each other: each for the next, and the last for the first. A thread that waits for
/// itself is a cycle of one.
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
    /// Nothing.
    Nothing,
    /// Its deadline.
    Deadline,
    /// An interrupt, if nothing else.
    Interrupt,
    /// The owner of the lock, or the thread that is joined, which may go on.
    Owner,
    /// The owner of the lock, which is not known. Owners are not recorded, or were not when it acquired the
    /// lock.
    UnknownOwner,
    /// Any thread that notifies, unparks, sends or arrives, even from outside the runtime.
    AnyThread,
    /// The other end of a connection, or whatever else is behind a descriptor or a future.
    Outside,
}

/// How far a runtime stands still: if any of its threads can go on by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standstill {
    /// Some thread can, or there is none.
    #[default]
    None,
    /// All threads wait, none of them with a deadline. Some of them wait for what a thread outside the
    /// runtime could do.
    UnlessWokenFromOutside,
    /// All threads wait, and no thread can wake one. They wait for each other, or no thread of the process
    /// can run except for the one that asks.
    Forever,
}

impl Deadlocks {
    crate::shown::getters! {
        /// Returns `true` if any thread waits forever.
        fn any(&self) -> bool = !self.cycles.is_empty() || !self.stuck.is_empty();
        /// Returns the cycles of threads that wait for each other. Some of the threads may be of another
        /// runtime, or of none, if they hold up a thread of this runtime.
        fn cycles(&self) -> &[Cycle] = &self.cycles;
        /// Returns the other threads that wait forever: for a thread of a cycle, or for a thread to come
        /// where none is left.
        fn stuck(&self) -> &[Blocked] = &self.stuck;
        /// Returns the threads that wait and may go on at some time.
        fn waiting(&self) -> &[Blocked] = &self.waiting;
        /// Says if all threads of the runtime wait.
        fn standstill(&self) -> Standstill = self.standstill;
        /// Returns `true` if owners of locks are [recorded](record_owners). Otherwise, only joins are known
        /// to wait for a certain thread.
        fn owners_recorded(&self) -> bool = self.owners_recorded;
    }

    /// Returns the same without the threads that may go on.
    fn certain(self) -> Self {
        Self { waiting: Vec::new(), ..self }
    }
}

impl Cycle {
    /// Returns the threads. Each waits for what the next one holds.
    #[must_use]
    pub fn threads(&self) -> &[Blocked] {
        &self.blocked
    }
}

impl Blocked {
    crate::shown::getters! {
        /// Returns its identity, as [`Thread::id`](super::Thread::id) does.
        fn id(&self) -> ThreadId = self.id;
        /// Returns its name, if it was given one.
        fn name(&self) -> Option<&str> = self.name.as_deref();
        /// Returns the kind of thing that it waits for.
        fn reason(&self) -> WaitReason = self.reason;
        /// Returns the address of that, if it has one.
        fn at(&self) -> Option<usize> = self.at;
        /// Returns the [name](crate::sync::stats::name) of that.
        fn called(&self) -> Option<&str> = self.called.as_deref();
        /// Returns the threads that hold it, or that are joined, as far as they are known.
        fn owners(&self) -> impl ExactSizeIterator<Item = (ThreadId, Option<&str>)> =
            self.owners.iter().map(|(id, name)| (*id, name.as_deref()));
        /// Returns what may end the wait.
        fn ends_by(&self) -> EndsBy = self.ends_by;
    }
}

/// A thread, by its identity and its name.
pub(super) struct Named<'a>(pub(super) ThreadId, pub(super) Option<&'a str>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)?;
        self.1.map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}

/// Writes the name of what a thread waits for, and the threads that hold it, or that are joined.
pub(super) fn write_object<'a>(
    f: &mut fmt::Formatter<'_>,
    reason: WaitReason,
    called: Option<&str>,
    owners: impl IntoIterator<Item = (ThreadId, Option<&'a str>)>,
) -> fmt::Result {
    if let Some(called) = called {
        write!(f, " {called:?}")?;
    }
    for (n, (id, name)) in owners.into_iter().enumerate() {
        let of = match (n, reason) {
            (0, WaitReason::Join | WaitReason::Scope) => "that of ",
            (0, _) => "held by ",
            _ => "",
        };
        write!(f, ", {of}{}", Named(id, name))?;
    }
    Ok(())
}

impl fmt::Display for EndsBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing ends it",
            Self::Deadline => "at most until its deadline",
            Self::Interrupt => "an interrupt would end it",
            Self::Owner => "the owner may go on",
            Self::UnknownOwner => "the owner is not known",
            Self::AnyThread => "any thread may end it",
            Self::Outside => "what it waits for may come from outside at any time",
        })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waits for {}", Named(self.id, self.name()), self.reason)?;
        if let Some(at) = self.at {
            write!(f, " at {at:#x}")?;
        }
        write_object(f, self.reason, self.called(), self.owners())?;
        if self.ends_by == EndsBy::Nothing { Ok(()) } else { write!(f, ": {}", self.ends_by) }
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
            Self::None => "a thread can go on, or there is none",
            Self::UnlessWokenFromOutside => "all threads wait, unless a thread from outside wakes one",
            Self::Forever => "all threads wait, and no thread is left to wake one",
        })
    }
}

impl fmt::Display for Deadlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.cycles.iter().map(|cycle| format!("deadlock: {cycle}")).collect();
        for (title, some) in [("deadlock: these wait forever:", &self.stuck), ("these wait:", &self.waiting)]
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
        if parts.is_empty() { f.write_str("no thread waits") } else { f.write_str(&parts.join("\n")) }
    }
}

#[cfg(test)]
mod tests;
