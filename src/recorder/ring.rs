//! The last events of one kernel thread, which overwrites the oldest ones.
//!
//! **Problem.** The writer is in the middle of a switch: it may neither wait nor do a read-modify-write. The
//! reader comes at any time, and must not take half of an old event and half of a new one for an event.
//!
//! **Rejected.**
//!
//! - A lock: the writer would wait for a reader that has lost its CPU.
//! - A sequence number in each event: a fifth word, and a fence for each event.
//!
//! **Protocol.** The writer has two words beside the events: `written`, the number of events so far, and
//! `kept`, below which events may be gone. The ring has pages. At the start of each page, before the page's
//! old events are overwritten, the writer
//!
//! 1. stores into `kept` the number of the first event after that page, by relaxed order, and
//! 2. does a release fence.
//!
//! It stores the words of each event by relaxed order, and then `written` by release.
//!
//! The reader loads `written` by acquire, copies the events by relaxed order, does an acquire fence, and then
//! loads `kept`. It forgets all events below that.
//!
//! **Proof.** An event below `written` has been stored before it is copied. If a copy contains a word of a
//! later event, that word was stored after the release fence of its page. So the reader's acquire fence
//! synchronizes with it, and the load of `kept` returns what was stored before the fence, or more. That is
//! above the number of the event that the copy was to be.
//!
//! **Cost**: five stores an event, and a fence a page, which is no instruction on x86-64.

use crate::shim::atomic::{AtomicU64, Ordering, fence};
use crate::shim::{TRACE_PAGE, zeroed};

use super::event::{Event, WORDS};

/// How many events a reader copies at a time. A crash reads on a small stack.
const COPIES: usize = if TRACE_PAGE < 16 { TRACE_PAGE } else { 16 };

/// A ring of events. One thread at a time writes.
#[derive(Debug)]
pub(crate) struct Ring {
    events: Box<[[AtomicU64; WORDS]]>,
    written: AtomicU64,
    kept: AtomicU64,
}

impl Ring {
    /// Creates a ring that keeps at least the last `events`. If they are many, the system gives memory only
    /// when events come.
    pub(crate) fn new(events: usize) -> Self {
        let pages = (events.div_ceil(TRACE_PAGE) + 1).next_power_of_two();
        Self { events: zeroed(pages * TRACE_PAGE), written: AtomicU64::default(), kept: AtomicU64::default() }
    }

    /// Appends an event. Neither allocates nor waits. Called by one thread at a time.
    #[inline]
    pub(crate) fn push(&self, event: Event) {
        // Relaxed: the writer's own.
        let number = self.written.load(Ordering::Relaxed);
        if number.is_multiple_of(TRACE_PAGE as u64) {
            self.give_up_page(number);
        }
        let at = number as usize & (self.events.len() - 1);
        for (word, value) in self.events[at].iter().zip(event.to_words()) {
            // Relaxed: ordered by `written` for readers in time, by the fence for those that come late.
            word.store(value, Ordering::Relaxed);
        }
        // Release: pairs with `read_some`, which finds the words of all events below.
        self.written.store(number + 1, Ordering::Release);
    }

    /// Gives up the events that the page from `number` on overwrites.
    #[inline]
    fn give_up_page(&self, number: u64) {
        let end = (number + TRACE_PAGE as u64).saturating_sub(self.events.len() as u64);
        // Relaxed: the fence orders it before the words of the page.
        self.kept.store(end, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Returns `true` if it keeps the last `events`, and not many times as many.
    pub(super) fn keeps(&self, events: usize) -> bool {
        let room = self.events.len() - TRACE_PAGE;
        room >= events && room <= 8 * events.max(TRACE_PAGE)
    }

    /// Returns how many events have been appended.
    pub(crate) fn written(&self) -> u64 {
        // Relaxed: a figure.
        self.written.load(Ordering::Relaxed)
    }

    /// Calls `f` with all events that are still there, from the number `from` on, oldest first. Returns the
    /// number of the next.
    #[cfg(test)]
    pub(crate) fn read(&self, from: u64, mut f: impl FnMut(Event)) -> u64 {
        self.read_some(from, usize::MAX, |_, event| f(event))
    }

    /// Calls `f` with the first `most` events that are still there from the number `from` on, oldest first.
    /// `f` also gets their numbers, some of which may be missing: the writer may be faster. Returns the
    /// number of the next. Any thread may call it. Neither allocates nor takes a lock.
    pub(crate) fn read_some(&self, from: u64, most: usize, mut f: impl FnMut(u64, Event)) -> u64 {
        // Acquire: pairs with `push`.
        let written = self.written.load(Ordering::Acquire);
        let mut next = written.saturating_sub(self.events.len() as u64).max(from);
        let last = written.min(next.saturating_add(most as u64));
        while next < last {
            let mut copies = [[0; WORDS]; COPIES];
            let end = last.min(next + COPIES as u64);
            for (copy, number) in copies.iter_mut().zip(next..end) {
                let at = number as usize & (self.events.len() - 1);
                // Relaxed: the fence below tells which copies are whole.
                *copy = self.events[at].each_ref().map(|word| word.load(Ordering::Relaxed));
            }
            // Acquire: pairs with the fence of `give_up_page`.
            fence(Ordering::Acquire);
            let kept = self.kept.load(Ordering::Relaxed);
            for (copy, number) in copies.iter().zip(next..end).filter(|&(_, number)| number >= kept) {
                if let Some(event) = Event::from_words(*copy) {
                    f(number, event);
                }
            }
            next = end.max(kept);
        }
        next
    }
}

#[cfg(all(test, loom))]
mod loom_ring;

#[cfg(test)]
mod tests {
    use super::super::event::Kind;
    use super::*;

    fn numbers(ring: &Ring, from: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        ring.read(from, |event| numbers.push(event.thread));
        numbers
    }

    #[test]
    fn the_last_events_are_kept() {
        let ring = Ring::new(100);
        let capacity = ring.events.len() as u64;
        assert_eq!(capacity, 256);
        for number in 0..10 * capacity {
            ring.push(Event::new(number, Kind::Yield, number));
            let found = numbers(&ring, 0);
            // All but the rest of the page that is being written: not one more, not one less.
            let page = number - number % TRACE_PAGE as u64;
            let first = (page + TRACE_PAGE as u64).saturating_sub(capacity);
            let last: Vec<u64> = (first..=number).collect();
            assert_eq!(found, last);
            assert!(found.len() as u64 >= 100.min(number + 1), "{} of {number}", found.len());
        }
        assert_eq!(numbers(&ring, ring.written() - 3).len(), 3);
        let (mut some, from) = (Vec::new(), ring.written() - 100);
        assert_eq!(ring.read_some(from, 40, |_, event| some.push(event.thread)), from + 40);
        assert_eq!(some, (from..from + 40).collect::<Vec<_>>());
        assert_eq!(ring.read_some(from, 0, |_, _| panic!("none was asked for")), from);
        assert_eq!(ring.read(ring.written(), |_| panic!("there is no more")), ring.written());
    }

    #[test]
    fn a_ring_will_do_for_about_as_many_events_as_it_keeps() {
        assert!(Ring::new(100).keeps(100) && Ring::new(100).keeps(50));
        assert!(!Ring::new(100).keeps(1_000) && !Ring::new(10_000).keeps(100));
        // 256 events, of which a page may be given up.
        assert!(Ring::new(100).keeps(192) && !Ring::new(100).keeps(193));
        // 960 events.
        assert!(Ring::new(900).keeps(120) && !Ring::new(900).keeps(119));
    }

    /// A reader beside a writer finds only whole events, in order.
    #[test]
    fn events_are_whole_while_they_are_overwritten() {
        let ring = Ring::new(64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..300_000 {
                    ring.push(Event::new(number, Kind::Block, number).with(number, number as u8));
                }
            });
            let mut from = 0;
            while from < 299_999 {
                let mut last = 0;
                from = ring.read(from, |event| {
                    assert_eq!((event.count, event.object), (event.thread, event.thread));
                    assert!(event.count > last && event.detail == event.count as u8);
                    last = event.count;
                });
            }
        });
    }
}
