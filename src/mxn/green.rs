//! A green thread: its core, its saved context, its stack with the TLS block in it, and what it is to run.
//!
//! Green threads are type-stable (`park::thread`): they are carved from leaked chunks, and used again. Where
//! a thread is decides what may touch its fields that are not atomic:
//!
//! | the thread is | its context, stack, LWP and link belong to |
//! |---|---|
//! | free | the thread that took it out of the pool, once `mounted` is clear |
//! | being spawned | the spawner |
//! | on a run queue | the queue; then the LWP that takes it off |
//! | mounted | the LWP that runs it |
//! | asleep, or published while it leaves | the winner of its sleep, once `mounted` is clear (I2, I3) |
//!
//! A thread that has ended may be free while its LWP still stands on its stack, because a joining thread has
//! released it. So code that takes a free thread waits for its flag, as an LWP that mounts one does. The LWP
//! that takes back an ended thread's resources does not touch it once the flag is clear.

use std::cell::Cell;
use std::fmt;
use std::mem::offset_of;
use std::ptr::NonNull;

use super::lwp::{self, Lwp};
use super::run_queue::inject::{Linked, Links};
use super::slots::blocking::Record;
use crate::fiber::{self, Fiber};
use crate::park::backend::{Backend, CorePool, InlineStorage, Task};
use crate::park::debugger::{Fact, Facts};
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::{ThreadCore, ThreadRef};
use crate::park::{core_pool, observed, table};
use crate::recorder::account::Account;
use crate::recorder::follow::follow;
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sys::preempt::Mask;

/// A green thread. `repr(C)` with the core first: a `ThreadRef` of a green thread points to its `Green`. What
/// a switch touches follows. What only its first and last moments touch comes last.
#[repr(C, align(128))]
pub(crate) struct Green {
    pub(crate) core: ThreadCore,
    pub(crate) fiber: Fiber,
    /// Set by a thief that found a thread which this one had woken waiting too long. This one computes on
    /// after it wakes others, so its wake-ups should reach another LWP at once (rule 5 of `sched::wake`). A
    /// hint.
    wakes_early: AtomicBool,
    /// It has run for more than its share, so it waits among the preempted threads when it wakes up
    /// (`sched::fair_share`).
    ahead: AtomicBool,
    /// It has run all that it will ever run. It wakes only threads that waited for its end.
    pub(crate) ends: Cell<bool>,
    /// An alarm is on its porch (`sched::alarm`).
    pub(crate) has_alarm: Cell<bool>,
    /// How many regions that announced blocking it is in.
    pub(crate) blocking: Cell<u32>,
    /// The LWP that runs it, while mounted. Otherwise the last one.
    pub(crate) lwp: Cell<Option<&'static Lwp>>,
    /// The signals that it blocks, outside of handlers (`lwp::mask`). Other threads look at it.
    mask: AtomicU64,

    // Used in its first and last moments.
    pub(crate) task: Cell<Option<Task>>,
    /// How long it runs before others get their turn, in ns; `u64::MAX`: until it waits or yields.
    slice: AtomicU64,
    /// How its regions that announced blocking went.
    pub(crate) regions: Record,
    /// Its run time while others waited, in ns. It starts at the run time of a thread with exactly its share
    /// (`sched::fair_share`).
    ran: AtomicU64,
    links: Links<Green>,
    /// Holds the closure, or says where it is, then the result. It belongs to the thread until that has
    /// ended, then to the owner of the result.
    pub(crate) room: InlineStorage,
}

// SAFETY: the table in the header says what owns the cells. To hand a thread over always passes an
// acquire/release pair (a run queue, or `mounted`).
unsafe impl Sync for Green {}
// SAFETY: each owner of the cells gets them by an acquire/release pair.
unsafe impl Send for Green {}

// SAFETY: the links belong to the owner of the thread, and that is the queue it is in.
unsafe impl Linked for Green {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Green {
    /// Makes a free thread. Threads that are to run come from a cache or the global list.
    pub(super) fn new(backend: &'static dyn Backend, pool: &'static dyn CorePool) -> Self {
        Self {
            core: ThreadCore::new(backend, pool),
            fiber: Fiber::new(),
            wakes_early: AtomicBool::new(false),
            ahead: AtomicBool::new(false),
            slice: AtomicU64::new(u64::MAX),
            ran: AtomicU64::new(0),
            lwp: Cell::new(None),
            mask: AtomicU64::new(0),
            task: Cell::new(None),
            room: InlineStorage::new(),
            ends: Cell::new(false),
            has_alarm: Cell::new(false),
            blocking: Cell::new(0),
            regions: Record::default(),
            links: Links::new(),
        }
    }

    /// Returns the green thread behind a reference.
    ///
    /// # Safety
    /// `thread` is a green thread: its backend is a scheduler.
    #[inline]
    pub(crate) unsafe fn of(thread: ThreadRef) -> &'static Green {
        let core: *const ThreadCore = thread.core();
        // SAFETY: the caller says it is the first field of a `Green` (repr(C)), all of which are leaked.
        unsafe { &*core.cast::<Green>() }
    }

    #[inline]
    pub(crate) fn thread(&'static self) -> ThreadRef {
        ThreadRef::new(&self.core)
    }

    /// Returns the LWP that runs it, until it waits. To allocate may be to wait: the allocator may have locks
    /// of this crate. If it has a home and waits, returns that.
    #[inline]
    pub(crate) fn lwp(&self) -> &'static Lwp {
        self.lwp.get().expect("a running green thread has an LWP")
    }

    /// Returns `true` if the hint of rule 5 is set.
    #[inline]
    pub(crate) fn wakes_early(&self) -> bool {
        // Relaxed: a hint.
        self.wakes_early.load(Ordering::Relaxed)
    }

    pub(crate) fn set_wakes_early(&self, it_does: bool) {
        // Relaxed: a hint.
        self.wakes_early.store(it_does, Ordering::Relaxed);
    }

    /// Returns `true` if it is to wait among the threads that lost their slice.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        // Relaxed: a hint.
        self.ahead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ahead(&self, is_ahead: bool) {
        // Relaxed: a hint.
        self.ahead.store(is_ahead, Ordering::Relaxed);
    }

    /// Returns the signals that it blocks.
    #[inline]
    pub(crate) fn mask(&self) -> Mask {
        // Relaxed: its owner's. Other threads look again.
        Mask::from_bits(self.mask.load(Ordering::Relaxed))
    }

    /// Sets what [`mask`](Self::mask) returns.
    pub(crate) fn set_mask(&self, mask: Mask) {
        // Relaxed: see `mask`.
        self.mask.store(mask.bits(), Ordering::Relaxed);
    }

    /// Returns its time slice.
    pub(crate) fn slice(&self) -> u64 {
        // Relaxed: set before it runs. A stale value costs a look too early or too late.
        self.slice.load(Ordering::Relaxed)
    }

    /// Sets its time slice, before it runs.
    pub(crate) fn set_slice(&self, slice: u64) {
        // Relaxed: see `slice`.
        self.slice.store(slice, Ordering::Relaxed);
    }

    /// Returns its run time while others waited, in ns.
    pub(crate) fn ran(&self) -> u64 {
        // Relaxed: a figure.
        self.ran.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ran(&self, ran: u64) {
        // Relaxed: a figure.
        self.ran.store(ran, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn ptr(&'static self) -> NonNull<Green> {
        NonNull::from(self)
    }
}

impl fmt::Debug for Green {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

/// How many threads a per-LWP cache keeps. Half of them go to the global list when it is full.
const CACHE_BOUND: usize = 512;
/// How many threads are made, or moved between the lists, at a time.
const BATCH: usize = 64;

/// Free green threads of one LWP, linked through the threads themselves. Its owner alone touches it.
#[derive(Debug, Default)]
pub(crate) struct Cache(List);

/// The free threads that are in no LWP's cache.
static FREE: QueueLock<List> = QueueLock::new(Rank::Pool, List { first: Cell::new(None), len: Cell::new(0) });

#[derive(Debug, Default)]
struct List {
    first: Cell<Option<NonNull<Green>>>,
    len: Cell<usize>,
}

// SAFETY: free threads belong to the list they are in.
unsafe impl Send for List {}

impl List {
    #[inline]
    fn push(&self, green: &'static Green) {
        green.links.next.set(self.first.replace(Some(green.ptr())));
        self.len.set(self.len.get() + 1);
    }

    #[inline]
    fn pop(&self) -> Option<&'static Green> {
        let first = self.first.get()?;
        // SAFETY: greens are leaked. This one is free, and the list owns it.
        let green: &'static Green = unsafe { first.as_ref() };
        self.first.set(green.links.next.take());
        self.len.set(self.len.get() - 1);
        Some(green)
    }

    fn move_to(&self, to: &Self, count: usize) {
        for _ in 0..count {
            let Some(green) = self.pop() else { break };
            to.push(green);
        }
    }
}

impl Cache {
    /// Takes a free thread, if there is one. Allocates none: the caller might go on on another LWP.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<&'static Green> {
        match self.0.pop() {
            Some(green) if green.fiber.mounted.wait_clear() => Some(green),
            Some(green) => self.take_another(green),
            None => self.refill(),
        }
    }

    /// Takes another thread, because the LWP that `green` ended on was held up before it left its stack.
    #[cold]
    fn take_another(&self, green: &'static Green) -> Option<&'static Green> {
        // There is at most one such thread for each LWP, so this ends.
        let another = self.take();
        self.0.push(green);
        another
    }

    #[cold]
    fn refill(&self) -> Option<&'static Green> {
        FREE.with(|free| free.move_to(&self.0, BATCH));
        if self.0.first.get().is_none() { None } else { self.take() }
    }

    /// Takes an ended thread back. Never allocates or frees (I4).
    #[inline]
    pub(crate) fn give_back(&self, green: &'static Green) {
        self.0.push(green);
        if self.0.len.get() > CACHE_BOUND {
            self.spill(CACHE_BOUND / 2);
        }
    }

    #[cold]
    fn spill(&self, count: usize) {
        FREE.with(|free| self.0.move_to(free, count));
    }

    /// Hands everything to the global list, when the LWP ends.
    pub(crate) fn flush(&self) {
        self.spill(usize::MAX);
    }
}

/// Mends the global list in a child of a fork. (The caches of LWPs are lost with them.)
///
/// # Safety
/// Called by the child's only thread, before anything else. Spawning does not fork.
pub(super) unsafe fn in_child() {
    let forget = |free: &mut List, held| {
        if held {
            *free = List { first: Cell::new(None), len: Cell::new(0) };
        }
    };
    // SAFETY: the caller's promise.
    unsafe { FREE.mend(forget) };
}

/// Takes an ended thread back, from a caller that is on no LWP.
pub(super) fn give_back_global(green: &'static Green) {
    FREE.with(|free| free.push(green));
}

/// Takes a free thread, for a spawner that is on no LWP, or whose LWP has none. May allocate.
pub(crate) fn take_global(backend: &'static dyn Backend, pool: &'static dyn CorePool) -> &'static Green {
    if let Some(green) = FREE.with(|free| free.pop()) {
        if green.fiber.mounted.wait_clear() {
            return green;
        }
        // Its LWP was held up, as in `take_another`.
        let another = take_global(backend, pool);
        give_back_global(green);
        return another;
    }
    // Allocates without the lock, because an allocator may do anything.
    let made = List::default();
    let green = make(&made, backend, pool);
    FREE.with(|free| made.move_to(free, BATCH));
    green
}

/// All green threads, free ones too: chunks in a list that only grows. So any thread may go through it.
pub(super) struct Chunks {
    greens: &'static [Green],
    older: Option<&'static Chunks>,
    /// How many were made before.
    number: usize,
}

static CHUNKS: AtomicPtr<Chunks> = AtomicPtr::new(std::ptr::null_mut());

/// For debuggers. Whatever the script finds begins with this table.
#[used]
static FACTS: Facts<10> = Facts::new([
    Fact::address("more", &raw const core_pool::FACTS),
    Fact::address("more", &raw const table::FACTS),
    Fact::address("more", &raw const fiber::FACTS),
    Fact::address("more", &raw const lwp::FACTS),
    Fact::address("chunks", &raw const CHUNKS),
    Fact::number("chunk.greens", offset_of!(Chunks, greens)),
    Fact::number("chunk.older", offset_of!(Chunks, older)),
    Fact::number("green.size", size_of::<Green>()),
    Fact::number("green.fiber", offset_of!(Green, fiber)),
    Fact::number("green.lwp", offset_of!(Green, lwp)),
]);

impl Chunks {
    /// Returns the chunk that was made last.
    pub(super) fn newest() -> Option<&'static Self> {
        // Acquire: pairs with the release of `add`. What is in the list is leaked.
        let newest = CHUNKS.load(Ordering::Acquire);
        // SAFETY: null, or put there by `add`.
        unsafe { newest.as_ref() }
    }

    /// Returns the chunk that was made before.
    pub(super) fn older(&self) -> Option<&'static Self> {
        self.older
    }

    pub(super) fn greens(&self) -> &'static [Green] {
        self.greens
    }

    /// Returns the number of its first thread among all of the process. The numbers of the others follow.
    pub(super) fn first_number(&self) -> usize {
        self.number * BATCH
    }

    fn add(greens: &'static [Green]) {
        FACTS.keep();
        let chunk = Box::leak(Box::new(Self { greens, older: None, number: 0 }));
        loop {
            chunk.older = Self::newest();
            chunk.number = chunk.older.map_or(0, |older| older.number + 1);
            let older =
                chunk.older.map_or(std::ptr::null_mut(), |older| std::ptr::from_ref(older).cast_mut());
            // Release: a thread that finds the chunk sees what is in it.
            if CHUNKS.compare_exchange(older, chunk, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

/// Returns every green thread of the process, of all runtimes, living or not. To look at them, see
/// `park/wait_state.rs`.
pub(super) fn all() -> impl Iterator<Item = &'static Green> {
    std::iter::successors(Chunks::newest(), |chunk| chunk.older).flat_map(|chunk| chunk.greens)
}

/// Does what [`all`] does, for callers that do not know `Green`.
pub(super) fn each(f: &mut dyn FnMut(ThreadRef)) {
    all().for_each(|green| f(green.thread()));
}

/// Gives all green threads accounts. May allocate.
pub(super) fn open_accounts() {
    std::iter::successors(Chunks::newest(), |chunk| chunk.older).for_each(|it| open_accounts_of(it.greens));
}

/// Gives the threads of a chunk accounts, unless they have them.
fn open_accounts_of(greens: &'static [Green]) {
    if greens.iter().all(|green| green.core.account.get().is_some()) {
        return;
    }
    let accounts: &'static [Account] = Vec::leak(greens.iter().map(|_| Account::new()).collect());
    for (green, account) in greens.iter().zip(accounts) {
        // If two threads come here, each account that the first has filled in stays.
        green.core.account.fill(account);
    }
}

/// Makes a chunk of threads: returns one to use, and puts the others into `rest`.
fn make(rest: &List, backend: &'static dyn Backend, pool: &'static dyn CorePool) -> &'static Green {
    let chunk: Vec<Green> = (0..BATCH).map(|_| Green::new(backend, pool)).collect();
    // Leaked: type-stable. What was made once is used again for as long as the process lives.
    let chunk: &'static [Green] = Vec::leak(chunk);
    Chunks::add(chunk);
    follow(observed::is_traced, |traced| {
        if traced {
            open_accounts_of(chunk);
        }
    });
    let (first, others) = chunk.split_first().expect("a batch is not empty");
    for green in others {
        rest.push(green);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mxn::backend::Greens;

    struct Never;

    impl Backend for Never {
        fn block(
            &self,
            _me: &ThreadRef,
            _sleep: &dyn crate::park::backend::Sleep,
            _deadline: Option<crate::time::Moment>,
            _reason: crate::park::reason::WaitReason,
        ) {
            unreachable!("no thread runs")
        }

        fn wake(&self, _target: ThreadRef, _word: *const crate::shim::atomic::AtomicU32) {
            unreachable!("no thread sleeps")
        }

        fn yield_now(&self, _me: &ThreadRef) {
            unreachable!("no thread runs")
        }
    }

    /// A million threads that only wait have a million of these.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_thread_takes_three_pairs_of_lines() {
        assert_eq!(size_of::<Green>(), 3 * 128);
    }

    #[test]
    fn a_thread_with_a_stack_in_use_is_not_taken() {
        let cache = Cache::default();
        let take = || cache.take().unwrap_or_else(|| take_global(&Never, &Greens));
        let (first, second) = (take(), take());
        assert!(!std::ptr::eq(first, second));
        cache.give_back(second);
        first.fiber.mounted.set();
        cache.give_back(first);
        assert!(std::ptr::eq(take(), second), "the other one");
        first.fiber.mounted.clear();
        assert!(std::ptr::eq(take(), first), "kept");
        cache.give_back(first);
        cache.give_back(second);
        cache.flush();
    }
}
