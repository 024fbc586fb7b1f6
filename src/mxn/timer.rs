//! Deadlines of sleeping green threads: one heap for each LWP, which any thread may fire.
//!
//! The entries live on the sleepers' stacks, linked into a pairing heap, so neither arming nor firing
//! allocates (I4). *Rejected*: a binary heap in a vector (it allocates); a timer wheel (a tick to choose,
//! cascades to get right, and the next deadline only to the tick).
//!
//! While an entry is armed, only the holder of the heap's lock may touch it. [`Timers::fire`] ends the sleep
//! **with the lock held**, and [`Timers::disarm`] takes the lock. So a sleeper that was granted in the same
//! moment cannot return, and pop its stack, while another thread still looks at its entry or its sleep. Lock
//! order: heap, then wait-queue bucket.

use std::cell::Cell;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::park::backend::Sleep;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::park::thread::ThreadRef;
use crate::shim;
use crate::shim::atomic::{AtomicU64, Ordering};

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// Nanoseconds since a runtime was built: what the heaps compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(shim::now())
    }

    /// Returns the current time. One clock read (about 18 ns).
    #[inline]
    pub(crate) fn now(self) -> u64 {
        self.at(shim::now())
    }

    /// Returns a point in time as ticks of this clock. What lies before its start counts as its start.
    pub(crate) fn at(self, when: Instant) -> u64 {
        u64::try_from(when.saturating_duration_since(self.0).as_nanos()).unwrap_or(NEVER - 1)
    }

    /// Returns ticks of this clock as a point in time; `None` for `NEVER` and what no `Instant` can say.
    pub(crate) fn instant(self, at: u64) -> Option<Instant> {
        if at == NEVER { None } else { self.0.checked_add(Duration::from_nanos(at)) }
    }
}

/// One deadline of one sleep, on the sleeper's stack.
pub(crate) struct Entry<'a> {
    at: u64,
    thread: ThreadRef,
    sleep: &'a dyn Sleep,
    armed: Cell<bool>,
    child: Cell<Link>,
    sibling: Cell<Link>,
    /// The parent if this is a first child, otherwise the previous sibling.
    prev: Cell<Link>,
}

/// Entries are linked without their lifetimes. `disarm` ensures that none outlives its frame.
type Link = Option<NonNull<Entry<'static>>>;

impl<'a> Entry<'a> {
    pub(crate) fn new(at: u64, thread: ThreadRef, sleep: &'a dyn Sleep) -> Self {
        Self {
            at,
            thread,
            sleep,
            armed: Cell::new(false),
            child: Cell::new(None),
            sibling: Cell::new(None),
            prev: Cell::new(None),
        }
    }

    fn erase(&self) -> NonNull<Entry<'static>> {
        NonNull::from(self).cast()
    }
}

/// The deadlines that were armed on one LWP.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The earliest deadline, or `NEVER`; stored under the lock, read without it.
    next: AtomicU64,
    heap: QueueLock<Heap>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(NEVER), heap: QueueLock::new(Rank::Outer, Heap { root: None }) }
    }

    /// Returns the earliest deadline, or `NEVER`. A hint, except for the LWP that armed it.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Adds an entry. Returns `true` if it is the earliest.
    ///
    /// # Safety
    /// The entry stays where it is until `disarm` of the same heap has returned.
    pub(crate) unsafe fn arm(&self, entry: &Entry<'_>) -> bool {
        self.heap.with(|heap| {
            entry.armed.set(true);
            let earliest = heap.insert(entry.erase());
            if earliest {
                self.next.store(entry.at, Ordering::Relaxed);
            }
            earliest
        })
    }

    /// Removes an entry if it has not fired. When this returns, no thread looks at it.
    pub(crate) fn disarm(&self, entry: &Entry<'_>) {
        self.heap.with(|heap| {
            if entry.armed.replace(false) {
                heap.remove(entry.erase());
                self.next.store(heap.earliest(), Ordering::Relaxed);
            }
        });
    }

    /// Ends all sleeps with a deadline that is not after `now`. `ready` receives each thread that must be
    /// made runnable, with the heap locked. Returns the number of entries that were due.
    pub(crate) fn fire(&self, now: u64, mut ready: impl FnMut(ThreadRef)) -> usize {
        if self.next() > now {
            return 0;
        }
        self.heap.with(|heap| {
            let mut due = 0;
            while let Some(first) = heap.root {
                let entry = get(first);
                if entry.at > now {
                    break;
                }
                heap.remove(first);
                entry.armed.set(false);
                due += 1;
                // Read before the sleep ends. The frame itself stays until the lock is dropped (`disarm`).
                let thread = entry.thread;
                if entry.sleep.expire() {
                    ready(thread);
                }
            }
            self.next.store(heap.earliest(), Ordering::Relaxed);
            due
        })
    }
}

/// A pairing heap of entries (Fredman, Sedgewick, Sleator, Tarjan 1986). Insert is O(1), remove amortised
/// O(log n).
#[derive(Debug)]
struct Heap {
    root: Link,
}

// SAFETY: the pointers are followed only with the heap's lock held, and what they point to is armed.
unsafe impl Send for Heap {}

/// Follows a link.
fn get<'h>(link: NonNull<Entry<'static>>) -> &'h Entry<'static> {
    // SAFETY: private to this file, and called only with the lock held on what is linked. That is armed, so
    // it is alive.
    unsafe { link.as_ref() }
}

impl Heap {
    fn earliest(&self) -> u64 {
        self.root.map_or(NEVER, |root| get(root).at)
    }

    /// Inserts an entry. Returns `true` if it became the root.
    fn insert(&mut self, entry: NonNull<Entry<'static>>) -> bool {
        let root = self.root.map_or(entry, |root| Self::meld(root, entry));
        self.root = Some(root);
        root == entry
    }

    fn remove(&mut self, entry: NonNull<Entry<'static>>) {
        let e = get(entry);
        let orphans = Self::pair_up(e.child.take());
        if self.root == Some(entry) {
            self.root = orphans;
            return;
        }
        let prev = e.prev.take().expect("all but the root have a predecessor");
        let next = e.sibling.take();
        if get(prev).child.get() == Some(entry) {
            get(prev).child.set(next);
        } else {
            get(prev).sibling.set(next);
        }
        if let Some(next) = next {
            get(next).prev.set(Some(prev));
        }
        if let (Some(orphans), Some(root)) = (orphans, self.root) {
            self.root = Some(Self::meld(root, orphans));
        }
    }

    /// Makes one tree of two. Of equal deadlines, the first stays in front.
    fn meld(a: NonNull<Entry<'static>>, b: NonNull<Entry<'static>>) -> NonNull<Entry<'static>> {
        let (top, below) = if get(b).at < get(a).at { (b, a) } else { (a, b) };
        let first = get(top).child.replace(Some(below));
        get(below).sibling.set(first);
        get(below).prev.set(Some(top));
        if let Some(first) = first {
            get(first).prev.set(Some(below));
        }
        get(top).sibling.set(None);
        get(top).prev.set(None);
        top
    }

    /// Melds a list of siblings into one tree: in pairs from the left, then the pairs from the right. It is
    /// iterative, because a dispatcher's stack is small.
    fn pair_up(mut list: Link) -> Link {
        let mut pairs: Link = None;
        while let Some(a) = list {
            let b = get(a).sibling.take();
            list = b.and_then(|b| get(b).sibling.take());
            let pair = b.map_or(a, |b| Self::meld(a, b));
            get(pair).sibling.set(pairs);
            pairs = Some(pair);
        }
        let mut tree: Link = None;
        while let Some(pair) = pairs {
            pairs = get(pair).sibling.take();
            tree = Some(tree.map_or(pair, |tree| Self::meld(tree, pair)));
        }
        if let Some(root) = tree {
            get(root).prev.set(None);
        }
        tree
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, loom))]
mod loom_timer;
