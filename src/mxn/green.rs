//! A green thread: its core, its saved context, its stack with the TLS block in it, and what it is to run.
//!
//! Green threads are type-stable (`park::thread`): they are carved from leaked chunks, and used again. Who may touch
//! the fields that are not atomic is decided by where the thread is:
//!
//! | the thread is | its context, stack, LWP and link belong to |
//! |---|---|
//! | free | whoever has it out of the pool, once `mounted` is clear |
//! | being spawned | the spawner |
//! | on a run queue | the queue; whoever takes it off |
//! | mounted | the LWP that runs it |
//! | asleep, or published while it leaves | nobody, until `mounted` is clear; then whoever won its sleep (I2, I3) |
//!
//! A thread that has ended may be free while its LWP still stands on its stack: whoever joined it released it. So who takes
//! a free thread waits for its flag, as who mounts one does, and whoever buries it touches it no more once the flag is clear.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::ptr::NonNull;

use super::lwp::Lwp;
use super::region::Record;
use super::sched::commit::Mounted;
use super::sched::inject::{Linked, Links};
use super::sched::levels::Visit;
use super::stack::{self, Stack};
use crate::arch::SavedSp;
use crate::park::backend::{Backend, Keeper, Room, Start};
use crate::park::current;
use crate::park::fork;
use crate::park::no_preempt::NoPreempt;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::{ThreadCore, ThreadRef};
use crate::shim::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sys::fork::Generation;
use crate::sys::nap;

/// A green thread. `repr(C)` with the core first: a `ThreadRef` of a green thread points to its `Green`. What a switch
/// touches follows, and what only its first and last moments touch comes last.
#[repr(C, align(128))]
pub(crate) struct Green {
    pub(crate) core: ThreadCore,
    /// Set while an LWP stands on the stack (I2).
    pub(crate) mounted: Mounted,
    /// Set by a thief that found something this thread had woken waiting too long: it computes on after it wakes others,
    /// so its wake-ups should reach another LWP at once (rule 5 of `sched::wake`). A hint.
    pub(crate) wakes_early: AtomicBool,
    /// It has run for more than its share, so it waits among the preempted threads when it wakes up
    /// (`sched::shares`).
    pub(crate) ahead: AtomicBool,
    /// It has run all it will ever run, and wakes only who waited for that.
    pub(crate) ends: Cell<bool>,
    /// How many regions that announced blocking it is in.
    pub(crate) blocking: Cell<u32>,
    /// Where to continue, while not mounted.
    pub(crate) sp: Cell<SavedSp>,
    /// The thread register for life (I1); zero on rung 3.
    pub(crate) tp: Cell<usize>,
    /// The LWP that runs it, while mounted; else the last one.
    pub(crate) lwp: Cell<Option<&'static Lwp>>,

    // Of its first and last moments.
    pub(crate) stack: Cell<Option<Stack>>,
    pub(crate) start: Cell<Option<Start>>,
    /// How long it runs before others get their turn, in ns; `u64::MAX`: until it waits or yields.
    pub(crate) slice: AtomicU64,
    /// How its regions that announced blocking went.
    pub(crate) regions: Record,
    /// Its run time while others waited, in ns. It starts at the run time of a thread with exactly its share
    /// (`sched::shares`).
    pub(crate) ran: AtomicU64,
    links: Links<Green>,
    /// For the closure, then the result. The thread's until it has ended, then whoever's the result is.
    pub(crate) room: Room,
}

// SAFETY: the table in the header says who owns the cells; handing a thread over always passes an acquire/release pair
// (a run queue, or `mounted`).
unsafe impl Sync for Green {}
// SAFETY: as above.
unsafe impl Send for Green {}

// SAFETY: the links belong to whoever has the thread, and that is the queue it is in.
unsafe impl Linked for Green {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Green {
    /// A free thread. Those that are to run come from a cache or the global list.
    pub(super) fn new(backend: &'static dyn Backend) -> Self {
        Self {
            core: ThreadCore::new(backend, &Greens),
            mounted: Mounted::new(),
            wakes_early: AtomicBool::new(false),
            ahead: AtomicBool::new(false),
            slice: AtomicU64::new(u64::MAX),
            ran: AtomicU64::new(0),
            sp: Cell::new(SavedSp::NONE),
            tp: Cell::new(0),
            lwp: Cell::new(None),
            stack: Cell::new(None),
            start: Cell::new(None),
            room: Room::new(),
            ends: Cell::new(false),
            blocking: Cell::new(0),
            regions: Record::default(),
            links: Links::new(),
        }
    }

    /// The green thread behind a reference.
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

    /// Whether the hint of rule 5 is set.
    #[inline]
    pub(crate) fn wakes_early(&self) -> bool {
        // Relaxed: a hint.
        self.wakes_early.load(Ordering::Relaxed)
    }

    /// Whether it is to wait among those that lost their slice.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        // Relaxed: a hint.
        self.ahead.load(Ordering::Relaxed)
    }

    /// Its time slice.
    pub(crate) fn slice(&self) -> u64 {
        // Relaxed: set before it runs; a stale one costs a look too early or too late.
        self.slice.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn ptr(&'static self) -> NonNull<Green> {
        NonNull::from(self)
    }
}

/// Ended green threads, of whatever runtime.
#[derive(Debug)]
pub(crate) struct Greens;

impl Keeper for Greens {
    fn reprioritized(&self, thread: ThreadRef) {
        if current::try_current() == Some(thread) {
            // It runs, and so is in no queue.
            return;
        }
        if thread.is_lost() {
            // Its queues are the parent's.
            return;
        }
        let _no_preempt = NoPreempt::hold();
        if let Some(visit) = Visit::of(thread) {
            // SAFETY: the keeper of green threads' cores alone.
            visit.scheduler().reprioritize(unsafe { Green::of(thread) });
        }
    }

    fn recycle(&self, core: ThreadRef) {
        // SAFETY: the keeper of green threads' cores alone.
        let green = unsafe { Green::of(core) };
        let _no_preempt = NoPreempt::hold();
        let me = current::try_current().filter(|me| !me.is_kernel());
        // SAFETY: only schedulers' threads own no kernel thread.
        match me.and_then(|me| unsafe { Green::of(me) }.lwp.get()) {
            Some(lwp) => lwp.greens.give_back(green),
            None => FREE.with(|free| free.push(green)),
        }
    }
}

impl fmt::Debug for Green {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

/// Threads that a per-LWP cache keeps; half of them go to the global list when it is full.
const CACHE_BOUND: usize = 512;
/// Threads made, or moved between the lists, at a time.
const BATCH: usize = 64;

/// Free green threads of one LWP; its owner alone touches it. A list through the threads themselves.
#[derive(Debug, Default)]
pub(crate) struct Cache(List);

/// The free threads that no LWP has.
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
        // SAFETY: greens are leaked; this one is free and ours.
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
    /// A free thread. May allocate: for spawners only.
    #[inline]
    pub(crate) fn take(&self, backend: &'static dyn Backend) -> &'static Green {
        match self.0.pop() {
            Some(green) if green.mounted.wait_clear() => green,
            Some(green) => self.take_another(green, backend),
            None => self.refill(backend),
        }
    }

    /// Where the LWP that `green` ended on has been held up before it left its stack: another.
    #[cold]
    fn take_another(&self, green: &'static Green, backend: &'static dyn Backend) -> &'static Green {
        // There is one such thread for each LWP at most, so this ends.
        let another = self.take(backend);
        self.0.push(green);
        another
    }

    #[cold]
    fn refill(&self, backend: &'static dyn Backend) -> &'static Green {
        FREE.with(|free| free.move_to(&self.0, BATCH));
        if self.0.first.get().is_none() { make(&self.0, backend) } else { self.take(backend) }
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

    /// Hands everything to the global list: the LWP ends.
    pub(crate) fn flush(&self) {
        self.spill(usize::MAX);
    }
}

/// Before the first green thread of a runtime: any of them may fork.
pub(super) fn expect_forks() -> io::Result<()> {
    fork::expect_green_threads();
    Generation::watched(in_child).map(|_| ())
}

/// In a child, whose one thread is none of ours any more: the process-wide pools are nobody's. (The caches of LWPs are lost with them.)
fn in_child() {
    let forget = |free: &mut List, held| {
        if held {
            *free = List { first: Cell::new(None), len: Cell::new(0) };
        }
    };
    // SAFETY: the child's only thread calls this before anything else, and spawning does not fork.
    unsafe { FREE.mend(forget) };
    // SAFETY: as above.
    unsafe { stack::in_child() };
    // SAFETY: as above.
    unsafe { Visit::forget_all() };
    nap::in_child();
}

/// A free thread, for a spawner that is on no LWP.
pub(crate) fn take_global(backend: &'static dyn Backend) -> &'static Green {
    if let Some(green) = FREE.with(|free| free.pop()) {
        if green.mounted.wait_clear() {
            return green;
        }
        // As in `take_another`.
        let another = take_global(backend);
        FREE.with(|free| free.push(green));
        return another;
    }
    // Allocates without the lock: an allocator may do anything.
    let made = List::default();
    let green = make(&made, backend);
    FREE.with(|free| made.move_to(free, BATCH));
    green
}

/// All green threads that there are, free ones too: chunks in a list that only grows, so that anybody may go through it.
struct Chunks {
    greens: &'static [Green],
    older: Option<&'static Chunks>,
}

static CHUNKS: AtomicPtr<Chunks> = AtomicPtr::new(std::ptr::null_mut());

impl Chunks {
    fn newest() -> Option<&'static Self> {
        // Acquire: pairs with the release of `add`. What is in the list is leaked.
        let newest = CHUNKS.load(Ordering::Acquire);
        // SAFETY: null, or put there by `add`.
        unsafe { newest.as_ref() }
    }

    fn add(greens: &'static [Green]) {
        let chunk = Box::leak(Box::new(Self { greens, older: None }));
        loop {
            chunk.older = Self::newest();
            let older =
                chunk.older.map_or(std::ptr::null_mut(), |older| std::ptr::from_ref(older).cast_mut());
            // Release: the chunk is there for who finds it.
            if CHUNKS.compare_exchange(older, chunk, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

/// Every green thread of the process, of whatever runtime, living or not: to be looked at as `park/whereabouts.rs` says.
pub(super) fn all() -> impl Iterator<Item = &'static Green> {
    std::iter::successors(Chunks::newest(), |chunk| chunk.older).flat_map(|chunk| chunk.greens)
}

/// [`all`], for who does not know what they are.
pub(super) fn each(f: &mut dyn FnMut(ThreadRef)) {
    all().for_each(|green| f(green.thread()));
}

/// Makes a chunk of threads: one to use, the rest into `rest`.
fn make(rest: &List, backend: &'static dyn Backend) -> &'static Green {
    let chunk: Vec<Green> = (0..BATCH).map(|_| Green::new(backend)).collect();
    // Leaked: type-stable. What was made once is used again for as long as the process lives.
    let chunk: &'static [Green] = Vec::leak(chunk);
    Chunks::add(chunk);
    let (first, others) = chunk.split_first().expect("a batch is not empty");
    for green in others {
        rest.push(green);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Never;

    impl Backend for Never {
        fn block(
            &self,
            _me: &ThreadRef,
            _sleep: &dyn crate::park::backend::Sleep,
            _deadline: Option<std::time::Instant>,
            _reason: crate::park::reason::WaitReason,
        ) {
            unreachable!("nobody runs")
        }

        fn wake(&self, _target: ThreadRef, _word: *const crate::shim::atomic::AtomicU32) {
            unreachable!("nobody sleeps")
        }

        fn yield_now(&self, _me: &ThreadRef) {
            unreachable!("nobody runs")
        }

        fn sleeps_in_kernel(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_thread_whose_stack_somebody_stands_on_is_not_taken() {
        let cache = Cache::default();
        let first = cache.take(&Never);
        let second = cache.take(&Never);
        assert!(!std::ptr::eq(first, second));
        cache.give_back(second);
        first.mounted.set();
        cache.give_back(first);
        assert!(std::ptr::eq(cache.take(&Never), second), "the other one");
        first.mounted.clear();
        assert!(std::ptr::eq(cache.take(&Never), first), "kept");
        cache.give_back(first);
        cache.give_back(second);
        cache.flush();
    }
}
