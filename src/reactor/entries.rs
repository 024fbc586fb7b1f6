//! The table of descriptors that threads have waited for.
//!
//! **Problem.** An event names a descriptor that may be closed by now, and its number may belong to another.
//! What the event leads to must be there all the same.
//!
//! **Rejected.** The address of the socket as the token: it would have to outlive the last event. The
//! descriptor's number alone: it is used again at once, and the runtime is not told.
//!
//! **Shape.** Entries are type-stable: they lie in pages that are never freed, each twice as large as the one
//! before. An entry is used again, with the next number of its life. A token is the entry's number and its
//! life, and a word that an event is to change has its life, too (`readiness.rs`).
//!
//! A set keeps one token for a descriptor. So all sources of one descriptor at one time share an entry, and
//! its life ([`join`](Entry::join)). They find it by the descriptor's number (`numbers.rs`).

use std::ptr;

use super::readiness::Readiness;
use crate::park::fork;
use crate::park::queue_lock::{QueueLock, Rank};
use crate::shim::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::shim::poll_set::{Event, Report};
use crate::shim::{UnsafeCell, global};

/// Entries in the first page.
const FIRST: usize = 64;
/// Enough pages for any number of descriptors.
const PAGES: usize = 26;

/// What is known of one descriptor. It has a cache line of its own, as two CPUs may serve two descriptors.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) read: Readiness,
    pub(crate) write: Readiness,
    /// The number of its life. Changed by the thread that takes or gives back the entry, or with the lock of
    /// [`FREE`] held.
    life: AtomicU32,
    /// How many sources share it, and [`KEPT`]. Changed with the lock of [`FREE`] held.
    sources: AtomicU32,
    number: u32,
    /// The next free entry. Guarded by the lock of [`FREE`].
    next: UnsafeCell<*const Entry>,
}

// SAFETY: `next` is guarded by the lock of `FREE`, and `number` does not change. The rest is atomic.
unsafe impl Sync for Entry {}

/// The free entries, and how many there are in all.
struct Free {
    first: *const Entry,
    made: usize,
}

// SAFETY: it points to type-stable memory that belongs to the list while it is in there.
unsafe impl Send for Free {}

global! {
    static FREE: QueueLock<Free> = QueueLock::new(Rank::Pool, Free { first: ptr::null(), made: 0 });
    static TABLE: [AtomicPtr<Entry>; PAGES] = [const { AtomicPtr::new(ptr::null_mut()) }; PAGES];
}

/// The entry is used without sources, so its life does not end.
const KEPT: u32 = 1 << 31;

/// Returns the page of an entry, and its place there.
fn place(number: usize) -> (usize, usize) {
    let page = (number / FIRST + 1).ilog2() as usize;
    (page, number - FIRST * ((1 << page) - 1))
}

/// Returns the entry of a number that was given out.
fn entry(number: u32) -> Option<&'static Entry> {
    let (page, place) = place(number as usize);
    // Acquire: pairs with `make`.
    let first = TABLE.get(page)?.load(Ordering::Acquire);
    if first.is_null() {
        return None;
    }
    // SAFETY: the page has `FIRST << page` entries.
    let entry = unsafe { first.add(place) };
    // SAFETY: pages are never freed.
    Some(unsafe { &*entry })
}

impl Entry {
    /// Begins a life of an entry. May allocate.
    pub(crate) fn take() -> &'static Self {
        let entry = loop {
            let free = FREE.with(|free| {
                // SAFETY: null, or in the list, and type-stable.
                let entry: &'static Self = unsafe { free.first.as_ref() }?;
                // SAFETY: the lock is held.
                free.first = entry.next.with(|next| unsafe { *next });
                Some(entry)
            });
            match free {
                Some(entry) => break entry,
                None => make(),
            }
        };
        entry.begin();
        entry
    }

    /// Ends its life. No thread waits for it. Events that come from now on have no effect.
    pub(crate) fn give_back(&'static self) {
        self.begin();
        FREE.with(|free| self.link(free));
    }

    /// Begins the next life. No thread waits for it, and the caller has it to itself.
    fn begin(&self) {
        // Relaxed: the caller has it to itself.
        let life = self.life.load(Ordering::Relaxed).wrapping_add(1);
        self.life.store(life, Ordering::Relaxed);
        self.read.begin(life);
        self.write.begin(life);
    }

    /// Counts a source of its descriptor. The first begins a life, in which it calls `first` before others
    /// come. What others have found out is tried again. The caller adds the descriptor to a set next.
    pub(crate) fn join(&self, first: impl FnOnce()) {
        FREE.with(|_| {
            // Relaxed, here and below: the lock orders it.
            let sources = self.sources.load(Ordering::Relaxed);
            self.sources.store(sources + 1, Ordering::Relaxed);
            if sources == 0 {
                self.begin();
                first();
            } else {
                self.read.try_again();
                self.write.try_again();
            }
        });
    }

    /// Counts a source off. With the last one, its life ends.
    pub(crate) fn leave(&self) {
        FREE.with(|_| {
            let sources = self.sources.load(Ordering::Relaxed) - 1;
            self.sources.store(sources, Ordering::Relaxed);
            if sources == 0 {
                self.begin();
            }
        });
    }

    /// [`leave`](Self::leave) that does not look if others are left: a model must find the bug.
    #[cfg(all(test, loom))]
    pub(super) fn end_at_once(&self) {
        FREE.with(|_| self.begin());
    }

    /// Keeps the life of now for good, for waits without a source.
    pub(crate) fn keep(&self) {
        // Relaxed: only this sets it.
        if self.sources.load(Ordering::Relaxed) & KEPT == 0 {
            FREE.with(|_| self.sources.fetch_or(KEPT, Ordering::Relaxed));
        }
    }

    /// Returns `true` if sources share it.
    pub(crate) fn has_sources(&self) -> bool {
        // Relaxed: the first source is followed by an event, which the caller has seen or finds in the word.
        self.sources.load(Ordering::Relaxed) & !KEPT != 0
    }

    fn link(&self, free: &mut Free) {
        // SAFETY: the lock is held.
        self.next.with_mut(|next| unsafe { *next = free.first });
        free.first = self;
    }

    /// Returns what an event says that is for this life of it.
    #[inline]
    pub(crate) fn token(&self) -> u64 {
        // Relaxed: the caller keeps this life.
        u64::from(self.life.load(Ordering::Relaxed)) << 32 | u64::from(self.number)
    }

    /// Begins to fetch what [`event`](Self::event) needs of this event.
    #[inline]
    pub(crate) fn fetch(event: Event) {
        if let Some(entry) = entry(event.token as u32) {
            let direction = if event.read.is_some() { &entry.read } else { &entry.write };
            direction.fetch();
        }
    }

    /// Calls `wake` with the threads that an event ends the sleep of.
    pub(crate) fn event(event: Event, mut wake: impl FnMut(crate::park::wait_queue::Grants)) {
        let Some(entry) = entry(event.token as u32) else { return };
        let life = (event.token >> 32) as u32;
        for (report, readiness) in [(event.read, &entry.read), (event.write, &entry.write)] {
            if let Some(report) = report
                && let Some(grants) = readiness.notify(life, report)
            {
                wake(grants);
            }
        }
    }
}

/// Reports all descriptors as ready, and calls `wake` with the threads whose sleep that ends.
#[cold]
pub(crate) fn all_are_ready(mut wake: impl FnMut(crate::park::wait_queue::Grants)) {
    let ready = Some(Report::Ready);
    for entry in (0..).map_while(entry) {
        Entry::event(Event { token: entry.token(), read: ready, write: ready }, &mut wake);
    }
}

/// Makes another page, unless another thread has done so.
#[cold]
fn make() {
    fork::tell_children(in_child);
    let before = FREE.with(|free| free.made);
    let (page, _) = place(before);
    let count = FIRST << page;
    let number = |at: usize| u32::try_from(before + at).expect("there are fewer descriptors");
    let entries: Vec<Entry> = (0..count)
        .map(|at| Entry {
            read: Readiness::new(),
            write: Readiness::new(),
            life: AtomicU32::new(0),
            sources: AtomicU32::new(0),
            number: number(at),
            next: UnsafeCell::new(ptr::null()),
        })
        .collect();
    // What another thread has made unneeded is freed without the lock.
    let _unneeded = FREE.with(|free| {
        if free.made != before {
            return Some(entries);
        }
        let entries: &'static [Entry] = entries.leak();
        // Release: pairs with `entry`.
        TABLE[page].store(entries.as_ptr().cast_mut(), Ordering::Release);
        entries.iter().rev().for_each(|entry| entry.link(free));
        free.made = before + count;
        None
    });
}

/// Frees the list in a child of a fork. If another thread was changing it, gives its entries up.
fn in_child() {
    let mend = |free: &mut Free, held| {
        if held {
            free.first = ptr::null();
        }
    };
    // SAFETY: called in the child, by its only thread, which was not in `with`: that forks not.
    unsafe { FREE.mend(mend) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_places() {
        assert_eq!((place(0), place(63), place(64)), ((0, 0), (0, 63), (1, 0)));
        assert_eq!((place(191), place(192)), ((1, 127), (2, 0)));
        assert!(place(u32::MAX as usize).0 <= PAGES);
    }

    #[test]
    fn a_token_is_of_one_life() {
        let before: Vec<_> = (0..1_000).map(|_| Entry::take()).collect();
        let entry = before[999];
        let token = entry.token();
        assert!(std::ptr::eq(super::entry(token as u32).unwrap(), entry));
        let event = Event { token, read: Some(Report::Closed), write: Some(Report::Closed) };
        let seen = entry.read.look();
        Entry::event(event, |_| panic!("no thread waits"));
        assert_ne!(entry.read.look(), seen);
        before.into_iter().for_each(Entry::give_back);
        let seen = entry.read.look();
        Entry::event(event, |_| panic!("no thread waits"));
        assert_eq!(entry.read.look(), seen);
        Entry::event(Event { token: u64::MAX, ..event }, |_| panic!("there is no such entry"));
    }
}
