//! Walks over the threads of a runtime that list only what has changed since the walk before.
//!
//! **Problem.** A monitor that lists 100,000 threads ten times a second would cost the program a whole CPU.
//! Nearly all of them only wait on.
//!
//! **Rejected.** A time or a number of the last change in each thread: all threads would pay for it at each
//! wait, for monitors that are not there.
//!
//! **Solution.** The monitor keeps a mark of each core: which thread had it, and which of its waits that
//! thread was in. Threads number their waits anyway (`park/wait_state.rs`). A glance at the core shows if the
//! mark is still true. Cores are type-stable, so a green thread's core has a number, and marks are in an
//! array. The mark is taken before the look that is listed. If the thread changes in between, the next walk
//! lists it again.
//!
//! Names of locks change seldom. Only if one has changed, the walk looks at the names of all locks that
//! threads wait for (`observe/names.rs`).

use std::collections::HashMap;
use std::num::NonZeroU64;

use super::deadlock::look::{has_owners, owner_of};
use super::id::ThreadId;
use super::info::ThreadInfo;
use super::snapshot::{Looks, Position};
use crate::observe::lock_owners::{self, Holder};
use crate::observe::names;
use crate::park::observed;
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_state::{Glance, WaitSnapshot};
use crate::recorder::session;

/// At how many threads a call looks for each that it may list.
const LOOKS: usize = 32;

/// What a monitor has seen of the threads of one runtime: see
/// [`Runtime::threads_changed`](crate::Runtime::threads_changed).
///
/// It takes 32 bytes for each green thread that the process has had at most at one time. If it is used with
/// another runtime, it begins anew.
#[derive(Default)]
pub struct ThreadsSeen {
    home: usize,
    /// Where the walk goes on.
    next: Position,
    changes: Changes,
}

/// Which threads have changed.
#[derive(Default)]
pub(crate) struct Changes {
    /// The session of the trace in which times are counted.
    session: Option<u32>,
    names: names::Seen,
    /// A name has changed since the walk before.
    renamed: bool,
    /// By the numbers of their cores.
    greens: Vec<Mark>,
    /// By the addresses of their cores.
    kernel: HashMap<usize, Mark>,
    ended: Vec<ThreadId>,
    /// How many cores were looked at for this page.
    pub(super) glances: usize,
    /// Of locks that threads of this page wait for, by address.
    holders: HashMap<usize, Vec<Holder>>,
}

/// What a core had when it was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    /// The thread's identity; 0 for none of the runtime's.
    id: u64,
    /// The number, if the thread has a name, the reason, and its priority; 0: it did not wait.
    wait: u64,
    /// The owner of what it waited for; 0: not known.
    owner: u64,
    /// The mark of the name of what it waited for; 0: it had none.
    name: u64,
}

/// Which core it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// A green thread's: its number.
    Green(usize),
    /// A kernel thread's: its address.
    Kernel(usize),
}

/// Some of the threads of a runtime that have changed, from
/// [`Runtime::threads_changed`](crate::Runtime::threads_changed).
#[derive(Clone, Debug)]
pub struct ThreadChanges {
    threads: Vec<ThreadInfo>,
    ended: Vec<ThreadId>,
    last: bool,
}

impl ThreadsSeen {
    /// Returns the view of a monitor that has seen no thread.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on with the walk over the threads of the runtime at `home`, until there are `most` changed ones,
    /// or many have been looked at. `look_on` adds at most so many more, and returns where to go on.
    pub(crate) fn walk(
        &mut self,
        home: usize,
        most: usize,
        mut look_on: impl FnMut(&mut Looks<'_>, Position, usize) -> Option<Position>,
    ) -> ThreadChanges {
        if self.home != home {
            *self = Self { home, ..Self::new() };
        }
        let changes = &mut self.changes;
        if matches!(self.next, Position::Start) {
            changes.renamed = changes.names.have_changed();
        }
        changes.begin_page();
        let mut looks = Looks::of_changes(home, changes);
        let mut next = Some(self.next);
        while let Some(from) = next
            && looks.len() < most
            && looks.glances() < most.saturating_mul(LOOKS)
        {
            let left = most - looks.len();
            next = look_on(&mut looks, from, left);
        }
        self.next = next.unwrap_or(Position::Start);
        let threads = looks.into_infos(false);
        ThreadChanges { threads, ended: std::mem::take(&mut self.changes.ended), last: next.is_none() }
    }
}

impl Changes {
    fn begin_page(&mut self) {
        self.holders.clear();
        self.glances = 0;
        let session = observed::is_traced().then(|| session::current().number);
        if self.session != session {
            self.session = session;
            // All threads have times now that they had not, or the other way round.
            self.greens.iter_mut().chain(self.kernel.values_mut()).for_each(|mark| mark.wait = 0);
        }
    }

    /// Returns `false` for a thread that waits on, and for a core without a thread of the runtime at `home`.
    /// `is_queued` returns `true` for a thread that seems to wait and is in a run queue.
    pub(super) fn is_news(
        &mut self,
        home: usize,
        slot: Slot,
        thread: ThreadRef,
        is_queued: impl FnOnce() -> bool,
    ) -> bool {
        self.glances += 1;
        let glance = thread.glance(home);
        let before = match slot {
            Slot::Green(number) => self.greens.get(number),
            Slot::Kernel(address) => self.kernel.get(&address),
        };
        let before = before.copied().unwrap_or_default();
        let now = glance.map_or(Mark::default(), |glance| self.mark(thread, &glance, before));
        match slot {
            Slot::Green(number) => {
                if number >= self.greens.len() && glance.is_some() {
                    self.greens.resize(number + 1, Mark::default());
                }
                self.greens.get_mut(number).into_iter().for_each(|mark| *mark = now);
            }
            Slot::Kernel(address) if glance.is_none() => drop(self.kernel.remove(&address)),
            Slot::Kernel(address) => drop(self.kernel.insert(address, now)),
        }
        if before.id != now.id {
            self.ended.extend(NonZeroU64::new(before.id).map(ThreadId::from_number));
        }
        glance.is_some() && (now.wait == 0 || now != before || is_queued())
    }

    fn mark(&mut self, thread: ThreadRef, glance: &Glance, before: Mark) -> Mark {
        let &Glance { id, wait, priority, named } = glance;
        let id = id.get();
        let Some((serial, reason, at)) = wait else { return Mark { id, ..Mark::default() } };
        let number = u64::from(serial) << 32
            | u64::from(named) << 16
            | u64::from(reason as u8) << 8
            | u64::from(priority as u8);
        let name = match reason.known_address(at) {
            None => 0,
            Some(_) if (before.id, before.wait) == (id, number) && !self.renamed => before.name,
            Some(lock) => names::mark_of(lock),
        };
        // A reason is not 0.
        Mark { id, wait: number, owner: self.owner(thread, serial, reason, at), name }
    }

    /// Returns the owner of what a thread waits for; 0 if that is not known.
    fn owner(&mut self, thread: ThreadRef, serial: u32, reason: WaitReason, at: usize) -> u64 {
        if !has_owners(reason) || !observed::are_owners_recorded() {
            return 0;
        }
        let Some(lock) = reason.known_address(at) else { return 0 };
        let holders = self.holders.entry(lock).or_insert_with(|| lock_owners::holders(lock));
        let wait = WaitSnapshot { serial, reason, at, timed: false, interruptible: false, asleep: false };
        owner_of(thread, &wait, holders).map_or(0, |owner| owner.id.get())
    }
}

impl ThreadChanges {
    /// Returns the only changes of the runtime at `home`, in a fork of the process that has its threads.
    pub(crate) fn in_fork(home: usize) -> Self {
        Self { threads: Looks::in_fork(home), ended: Vec::new(), last: true }
    }

    /// Returns the threads that have changed, or are new, in no particular order.
    #[must_use]
    pub fn threads(&self) -> &[ThreadInfo] {
        &self.threads
    }

    /// Returns the threads that have changed by value.
    #[must_use]
    pub fn into_threads(self) -> Vec<ThreadInfo> {
        self.threads
    }

    crate::shown::getters! {
        /// Returns the threads that were listed before and have ended.
        fn ended(&self) -> &[ThreadId] = &self.ended;
        /// Returns `true` if the walk has come to its end. The next call begins another.
        fn is_last(&self) -> bool = self.last;
    }
}

crate::shown::debug! { [] ThreadsSeen: "ThreadsSeen" }
