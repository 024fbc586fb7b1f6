//! Looks at the threads of one runtime, one after the other, and what follows from them together.
//!
//! Each look is of one moment (`park/wait_state.rs`), but all of them are not of the same one. What a thread
//! waits for leads to others: to the thread that it joins, to the owner of the lock, to the lock's name.
//! These are found after the looks, once for each object, so that a thousand waiters at one lock ask once.
//!
//! **A walk in pages.** Cores are type-stable, and those of a kind are in a list that grows only at its head.
//! A thread has one core all its life. So a walk that goes from newer cores to older ones meets each thread
//! at most once. It meets every thread that lives all the time. Where it stands is a core, which stays where
//! it is.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::num::NonZeroU64;
use std::panic::{RefUnwindSafe, UnwindSafe};

use super::deadlock::look::{has_owners, owner_of};
use super::id::ThreadId;
use super::info::{StackLook, ThreadInfo, ThreadState, TimesNow};
use super::seen::{Changes, Slot};
use crate::backtrace::{self, Backtrace, Unwinder};
use crate::observe::lock_owners::{self, Holder};
use crate::observe::names;
use crate::park::core_pool::{self, KernelThread};
use crate::park::reason::WaitReason;
use crate::park::thread::ThreadRef;
use crate::park::wait_state::{Snapshot, WaitSnapshot};
use crate::park::{all_threads, fork, observed};
use crate::recorder::account::Look;

/// Where a thread is. What runs it knows that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// What it does; `None` if it waits.
    pub(crate) state: Option<ThreadState>,
    /// The LWP that it is on, or was on last.
    pub(crate) lwp: Option<usize>,
    pub(crate) cpu: Option<u32>,
    /// The kernel's number of the kernel thread that it owns.
    pub(crate) owns: Option<u32>,
    /// Its stack, if that is the runtime's.
    pub(crate) stack: Option<StackLook>,
}

impl Place {
    /// Returns the place of a thread that has this kernel thread, and does not wait. `look` asks the kernel:
    /// it returns `true` for a kernel thread that is asleep, and its CPU.
    pub(crate) fn on_kernel_thread(
        tid: Option<u32>,
        look: impl Fn(u32) -> Option<(bool, Option<u32>)>,
    ) -> Self {
        let (asleep, cpu) = tid.and_then(look).unwrap_or_default();
        Self { state: Some(ThreadState::on_kernel_thread(tid, |_| asleep)), cpu, ..Self::default() }
    }
}

/// Threads of one runtime that were looked at.
pub(crate) struct Looks<'a> {
    home: usize,
    seen: Vec<Seen>,
    /// There, if backtraces are asked for.
    unwinder: Option<&'a mut Unwinder>,
    /// There, if only what has changed is asked for.
    changes: Option<&'a mut Changes>,
}

#[derive(Debug)]
struct Seen {
    thread: ThreadRef,
    snapshot: Snapshot,
    place: Place,
    backtrace: Option<Backtrace>,
}

/// What is known of something that threads wait for.
struct Object {
    called: Option<String>,
    holders: Vec<Holder>,
}

impl<'a> Looks<'a> {
    /// Begins with the runtime at `home`. With an unwinder, the looks find backtraces, too.
    pub(crate) fn new(home: usize, unwinder: Option<&'a mut Unwinder>) -> Self {
        Self { home, seen: Vec::new(), unwinder, changes: None }
    }

    /// Begins with what has changed in the runtime at `home`.
    pub(super) fn of_changes(home: usize, changes: &'a mut Changes) -> Self {
        Self { home, seen: Vec::new(), unwinder: None, changes: Some(changes) }
    }

    /// Returns how many threads have been found.
    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }

    /// Returns `false` for a thread that only waits on, if what has changed is asked for. `is_queued` is told
    /// that it seems to wait, and returns `true` if it is in a run queue.
    pub(crate) fn is_news(
        &mut self,
        slot: Slot,
        thread: ThreadRef,
        is_queued: impl FnOnce() -> bool,
    ) -> bool {
        self.changes.as_deref_mut().is_none_or(|it| it.is_news(self.home, slot, thread, is_queued))
    }

    /// Returns how many cores were looked at, if what has changed is asked for.
    pub(super) fn glances(&self) -> usize {
        self.changes.as_ref().map_or(0, |it| it.glances)
    }

    /// Adds a thread, if it is of the runtime. `place` is told if it waits, and says where it is. `backtrace`
    /// is called if backtraces are asked for.
    pub(crate) fn add(
        &mut self,
        thread: ThreadRef,
        place: impl FnOnce(Option<&WaitSnapshot>) -> Place,
        backtrace: impl FnOnce(&mut Unwinder) -> Backtrace,
    ) {
        let unwinder = self.unwinder.as_deref_mut();
        let look = |wait: Option<&WaitSnapshot>| (place(wait), unwinder.map(backtrace));
        if let Some((snapshot, (place, backtrace))) = thread.snapshot_with(self.home, look) {
            self.seen.push(Seen { thread, snapshot, place, backtrace });
        }
    }

    /// Adds the kernel threads of the runtime from `first` on, until there are `full` threads. Returns where
    /// to go on. `look` asks the kernel about one, as for [`Place::on_kernel_thread`].
    pub(crate) fn add_kernel_threads(
        &mut self,
        first: Option<&'static KernelThread>,
        full: usize,
        look: impl Fn(u32) -> Option<(bool, Option<u32>)>,
    ) -> Option<Position> {
        for kernel in std::iter::successors(first, |kernel| kernel.older()) {
            if self.len() >= full {
                return Some(Position::Kernel(kernel));
            }
            let slot = Slot::Kernel(std::ptr::from_ref(kernel).addr());
            if !self.is_news(slot, kernel.thread(), || false) {
                continue;
            }
            let place = |wait: Option<&WaitSnapshot>| {
                let owns = kernel.tid();
                let place =
                    if wait.is_some() { Place::default() } else { Place::on_kernel_thread(owns, &look) };
                Place { owns, ..place }
            };
            let backtrace = |unwinder: &mut Unwinder| backtrace::of_kernel_thread(kernel.tid(), unwinder);
            self.add(kernel.thread(), place, backtrace);
        }
        None
    }

    /// Returns the threads of the runtime that has only kernel threads: as
    /// [`add_kernel_threads`](Self::add_kernel_threads), from any position.
    pub(crate) fn add_from(
        &mut self,
        from: Position,
        full: usize,
        look: impl Fn(u32) -> Option<(bool, Option<u32>)>,
    ) -> Option<Position> {
        let first = match from {
            Position::Kernel(kernel) => Some(kernel),
            Position::Start | Position::Green(..) => core_pool::newest(),
        };
        self.add_kernel_threads(first, full, look)
    }

    /// Returns the thread of the parent's runtime that is in this fork, if any. The kernel threads of the
    /// other ones are not here.
    pub(crate) fn in_fork(home: usize) -> Vec<ThreadInfo> {
        let mut looks = Looks::new(home, None);
        if let Some(thread) = fork::survivor_of(home) {
            let place = |wait: Option<&WaitSnapshot>| match wait {
                Some(_) => Place::default(),
                None => Place::on_kernel_thread(None, |_| None),
            };
            looks.add(thread, place, |_| Backtrace::default());
        }
        looks.into_infos(true)
    }

    /// Returns the threads in the order of their identities, if these are all of the runtime.
    pub(crate) fn into_sorted(self) -> Vec<ThreadInfo> {
        let mut threads = self.into_infos(true);
        threads.sort_by_key(ThreadInfo::id);
        threads
    }

    /// Returns the threads in the order in which they were looked at. `all`: the runtime has no others.
    pub(crate) fn into_infos(self, all: bool) -> Vec<ThreadInfo> {
        let joined = self.joined(all);
        let mut objects = HashMap::new();
        let times = if observed::is_traced() { TimesNow::take() } else { None };
        let infos = self.seen.into_iter().map(|seen| seen.into_info(&joined, &mut objects, times.as_ref()));
        infos.collect()
    }

    /// Returns the identities of threads that are joined, by the addresses of their cores.
    fn joined(&self, all: bool) -> HashMap<usize, NonZeroU64> {
        let waits = self.seen.iter().filter(|seen| seen.place.state.is_none());
        let waits = waits.filter_map(|seen| seen.snapshot.wait.as_ref());
        let mut left: HashSet<usize> =
            waits.filter(|wait| wait.reason == WaitReason::Join).map(|wait| wait.at).collect();
        let mut joined = HashMap::new();
        if left.is_empty() {
            return joined;
        }
        for seen in &self.seen {
            if left.remove(&seen.thread.address()) {
                joined.insert(seen.thread.address(), seen.snapshot.id);
            }
        }
        if !all && !left.is_empty() {
            all_threads::each(&mut |thread, _| {
                if left.contains(&thread.address())
                    && let Some(id) = thread.id_if(self.home, || true)
                {
                    joined.insert(thread.address(), id);
                }
            });
        }
        joined
    }
}

impl Seen {
    fn into_info(
        self,
        joined: &HashMap<usize, NonZeroU64>,
        objects: &mut HashMap<usize, Object>,
        times: Option<&TimesNow>,
    ) -> ThreadInfo {
        let Self { thread, snapshot, place, backtrace } = self;
        let Snapshot { id, name, kernel, priority, wait, account } = snapshot;
        let (state, wait) = match (place.state, wait) {
            (Some(state), _) => (state, None),
            (None, Some(wait)) => (waiting(&wait, joined), Some(wait)),
            (None, None) => (ThreadState::Running { tid: None }, None),
        };
        let (mut called, mut owner) = (None, None);
        if let Some(wait) = wait
            && let Some(at) = wait.reason.known_address(wait.at)
        {
            let object = objects.entry(at).or_insert_with(|| Object::at(at, wait.reason));
            called.clone_from(&object.called);
            owner = owner_of(thread, &wait, &object.holders)
                .map(|owner| (ThreadId::from_number(owner.id), owner.thread.name_of(owner.id)));
        }
        ThreadInfo {
            id: ThreadId::from_number(id),
            name,
            state,
            lwp: place.lwp,
            cpu: place.cpu,
            owns: place.owns,
            bound: kernel,
            priority,
            called,
            owner,
            maker: account.and_then(Look::maker).map(ThreadId::from_number),
            times: times.zip(account).and_then(|(now, account)| match account {
                Look::Says(statement) => Some(now.times(&statement)),
                Look::Unchanged => Some(now.unchanged(state)),
                Look::Busy => None,
            }),
            stack: place.stack,
            backtrace,
        }
    }
}

impl Object {
    fn at(address: usize, reason: WaitReason) -> Self {
        let holders = if has_owners(reason) { lock_owners::holders(address) } else { Vec::new() };
        Self { called: names::of(address), holders }
    }
}

fn waiting(wait: &WaitSnapshot, joined: &HashMap<usize, NonZeroU64>) -> ThreadState {
    let thread = joined.get(&wait.at).filter(|_| wait.reason == WaitReason::Join).copied();
    ThreadState::Waiting {
        reason: wait.reason,
        at: wait.reason.known_address(wait.at),
        thread: thread.map(ThreadId::from_number),
    }
}

/// Where a walk over the threads of a runtime goes on.
///
/// It stays valid when threads begin and end. A walk that begins with [`start`](Self::start) and follows
/// [`ThreadPage::next`] lists each thread at most once. It lists every thread that lives from its first call
/// to its last.
#[derive(Clone, Copy, Default)]
pub struct ThreadCursor(pub(crate) Position);

/// The next core to look at.
#[derive(Clone, Copy, Default)]
pub(crate) enum Position {
    /// The first of all.
    #[default]
    Start,
    /// A green thread's: its chunk, of a type that `mxn` knows, and its number there.
    Green(&'static (dyn Any + Send + Sync), usize),
    /// A kernel thread's.
    Kernel(&'static KernelThread),
}

// It only says which core is next. It shows nothing of what is there.
impl UnwindSafe for ThreadCursor {}
impl RefUnwindSafe for ThreadCursor {}

impl ThreadCursor {
    /// Returns the beginning of a walk.
    #[must_use]
    pub const fn start() -> Self {
        Self(Position::Start)
    }
}

impl fmt::Debug for ThreadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Position::Start => "ThreadCursor(start)",
            Position::Green(..) => "ThreadCursor(green threads)",
            Position::Kernel(_) => "ThreadCursor(kernel threads)",
        })
    }
}

/// Some of the threads of a runtime, from [`Runtime::threads_page`](crate::Runtime::threads_page).
#[derive(Clone, Debug)]
pub struct ThreadPage {
    threads: Vec<ThreadInfo>,
    next: Option<ThreadCursor>,
}

impl ThreadPage {
    pub(crate) fn new(threads: Vec<ThreadInfo>, next: Option<Position>) -> Self {
        Self { threads, next: next.map(ThreadCursor) }
    }

    /// Returns the only page of the runtime at `home`, in a fork of the process that has its threads.
    pub(crate) fn in_fork(home: usize, from: ThreadCursor) -> Self {
        let is_first = matches!(from.0, Position::Start);
        Self::new(if is_first { Looks::in_fork(home) } else { Vec::new() }, None)
    }

    /// Returns the threads of this page, in no particular order.
    #[must_use]
    pub fn threads(&self) -> &[ThreadInfo] {
        &self.threads
    }

    /// Returns the threads of this page by value.
    #[must_use]
    pub fn into_threads(self) -> Vec<ThreadInfo> {
        self.threads
    }

    /// Returns where the next page begins; `None` after the last one. The next page may be empty.
    #[must_use]
    pub fn next(&self) -> Option<ThreadCursor> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(reason: WaitReason, at: usize) -> WaitSnapshot {
        WaitSnapshot { serial: 1, reason, at, timed: false, interruptible: false, asleep: false }
    }

    #[test]
    fn a_thread_waits_at_its_lock_whichever_queue_it_is_in() {
        let at = |reason, at| waiting(&wait(reason, at), &HashMap::new());
        for queue in 0..4 {
            let (reason, lock) = (WaitReason::RwLock, Some(4096));
            assert_eq!(at(reason, 4096 + queue), ThreadState::Waiting { reason, at: lock, thread: None });
        }
        let reason = WaitReason::Mutex;
        assert_eq!(at(reason, 4098), ThreadState::Waiting { reason, at: Some(4098), thread: None });
    }

    #[test]
    fn a_kernel_thread_is_asked_where_it_runs() {
        let place = Place::on_kernel_thread(Some(4), |tid| Some((tid == 4, Some(1))));
        assert_eq!((place.state, place.cpu), (Some(ThreadState::InKernel { tid: 4 }), Some(1)));
        let place = Place::on_kernel_thread(Some(5), |tid| Some((tid == 4, Some(1))));
        assert_eq!((place.state, place.cpu), (Some(ThreadState::Running { tid: Some(5) }), Some(1)));
        let place = Place::on_kernel_thread(Some(5), |_| None);
        assert_eq!((place.state, place.cpu), (Some(ThreadState::Running { tid: Some(5) }), None));
    }

    /// The joined thread may be on another page.
    #[test]
    fn a_joined_thread_is_found_if_it_was_not_looked_at() {
        let [joins, joined] = std::array::from_fn(|_| core_pool::take(1, None, None));
        joins.wait_state.at(joined.address());
        joins.wait_state.waits(WaitReason::Join, false);
        for (all, found) in [(false, Some(ThreadId::from_number(joined.id()))), (true, None)] {
            let mut looks = Looks::new(0, None);
            let place = |wait: Option<&WaitSnapshot>| {
                assert!(wait.is_some());
                Place::default()
            };
            looks.add(joins, place, |_| panic!("no backtrace is asked for"));
            let infos = looks.into_infos(all);
            let [info] = &infos[..] else { panic!("one thread was looked at: {infos:?}") };
            let (reason, at, thread) = (WaitReason::Join, None, found);
            assert_eq!(info.state(), ThreadState::Waiting { reason, at, thread });
            assert!(info.is_bound() && info.owner().is_none() && info.object_name().is_none());
        }
        joins.wait_state.goes_on();
        [joins, joined].into_iter().for_each(|thread| thread.release());
    }
}
