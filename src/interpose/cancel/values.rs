//! What is known of signals that wait for green threads, besides their numbers.
//!
//! A signal of `pthread_sigqueue` has a value, and one from `SIGRTMIN` may wait several times. Neither may
//! take memory: a handler of a signal may send others. So there is one table for all threads. If it is full,
//! the sender is told `EAGAIN`, as the kernel does.
//!
//! | owner | the place belongs to | next by |
//! |---|---|---|
//! | 0 | the sender that takes it | that sender: `BUSY` |
//! | `BUSY` | that sender | it: the thread's number |
//! | another | the thread of that number | it: 0 |

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use crate::sys::Tid;
use crate::sys::kthread::FAULTS;
use crate::sys::preempt;
use crate::sys::process;

/// A signal, as a thread gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) signal: c_int,
    /// The value of a signal that was queued.
    pub(super) value: Option<usize>,
}

impl Sent {
    /// Sends it to a kernel thread. Returns `false` if that has ended, or if the kernel has no memory for it.
    /// Async-signal-safe.
    pub(super) fn send_to(self, tid: Tid) -> bool {
        match self.value {
            Some(value) => preempt::queue_to(tid, self.signal, value).is_ok(),
            None => process::send_to(tid, self.signal),
        }
    }

    /// Sends it to the calling kernel thread, which blocks all signals for now, but for those that faults
    /// raise. Such a one is blocked, too: its handler may jump out of what this crate is about. Returns
    /// `false` if the kernel has no memory for it. Async-signal-safe.
    pub(super) fn send_here(self) -> bool {
        if FAULTS.contains(&self.signal) {
            preempt::block(self.signal);
        }
        match self.value {
            Some(value) => preempt::queue_here(self.signal, value).is_ok(),
            None => process::send_here(self.signal),
        }
    }
}

/// The place of one signal.
pub(super) struct Place {
    owner: AtomicUsize,
    signal: AtomicI32,
    value: AtomicUsize,
    has_value: AtomicI32,
    /// Those of one number come in the order of these.
    turn: AtomicU64,
}

const BUSY: usize = 1;
pub(super) const PLACES: usize = 512;

static TABLE: [Place; PLACES] = [const {
    Place {
        owner: AtomicUsize::new(0),
        signal: AtomicI32::new(0),
        value: AtomicUsize::new(0),
        has_value: AtomicI32::new(0),
        turn: AtomicU64::new(0),
    }
}; PLACES];

static TURN: AtomicU64 = AtomicU64::new(0);

/// Keeps a signal for a thread. Returns `false` if the table is full. Async-signal-safe.
pub(super) fn keep(owner: usize, sent: Sent) -> bool {
    let free = |place: &&Place| {
        // Acquire: pairs with `Place::free`. Relaxed on failure: another place is tried.
        place.owner.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let Some(place) = TABLE.iter().find(free) else { return false };
    // Relaxed, all: published with the owner.
    place.signal.store(sent.signal, Ordering::Relaxed);
    place.value.store(sent.value.unwrap_or(0), Ordering::Relaxed);
    place.has_value.store(sent.value.is_some().into(), Ordering::Relaxed);
    place.turn.store(TURN.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    // Release: pairs with `of`.
    place.owner.store(owner, Ordering::Release);
    true
}

/// Returns what is kept of a signal for a thread.
fn of(owner: usize, signal: c_int) -> impl Iterator<Item = &'static Place> {
    // Acquire: pairs with `keep`.
    let is_its = move |place: &&Place| place.owner.load(Ordering::Acquire) == owner;
    TABLE.iter().filter(is_its).filter(move |place| place.signal.load(Ordering::Relaxed) == signal)
}

impl Place {
    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    /// Returns the signal that is kept here.
    pub(super) fn sent(&self) -> Sent {
        let has_value = self.has_value.load(Ordering::Relaxed) != 0;
        let value = has_value.then(|| self.value.load(Ordering::Relaxed));
        Sent { signal: self.signal.load(Ordering::Relaxed), value }
    }

    /// Forgets the signal, for the thread that it was for.
    pub(super) fn free(&self) {
        // Release: pairs with `keep`.
        self.owner.store(0, Ordering::Release);
    }
}

/// Returns the first of a signal, for the thread itself. It keeps its turn until it is [freed](Place::free).
pub(super) fn first(owner: usize, signal: c_int) -> Option<&'static Place> {
    of(owner, signal).min_by_key(|place| place.turn())
}

/// Does so for a signal that waits only once, and forgets the others: two threads may have sent it.
pub(super) fn only(owner: usize, signal: c_int) -> Option<&'static Place> {
    let first = first(owner, signal)?;
    of(owner, signal).filter(|&place| !ptr::eq(place, first)).for_each(Place::free);
    Some(first)
}

/// Forgets what is kept for a thread, which ends, or for all threads.
pub(super) fn forget(owner: Option<usize>) {
    let is_meant = |place: &&Place| match owner {
        Some(owner) => place.owner.load(Ordering::Acquire) == owner,
        None => true,
    };
    TABLE.iter().filter(is_meant).for_each(Place::free);
}

#[cfg(test)]
mod tests {
    use super::super::Cancel;
    use super::*;
    use crate::sync::Mutex;

    /// One test at a time: there is one table.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Its handler may have run, and another thread have sent the next, before the sender is back.
    #[test]
    fn a_signal_that_comes_while_the_last_is_given_has_its_value() {
        let _alone = ALONE.lock();
        let cancel = Cancel::green();
        cancel.add_signal(10, Some(1)).unwrap();
        let next = || cancel.add_signal(10, Some(2)).is_ok();
        assert_eq!(cancel.give_signal(u64::MAX, |sent| sent.value == Some(1) && next()), Some(true));
        assert_eq!(cancel.give_signal(u64::MAX, |sent| sent.value == Some(2)), Some(true));
        assert_eq!(cancel.give_signal(u64::MAX, |_| true), None);
        // One that is refused waits once, too, with the value of the first.
        cancel.add_signal(10, Some(3)).unwrap();
        let refuse = |sent: Sent| (cancel.add_signal(10, Some(4)).is_ok(), sent.value == Some(9)).1;
        assert_eq!(cancel.give_signal(u64::MAX, refuse), Some(false));
        assert_eq!(cancel.give_signal(u64::MAX, |sent| sent.value == Some(3)), Some(true));
        assert_eq!(cancel.give_signal(u64::MAX, |_| true), None);
    }

    /// If it was sent while the thread took the one before, it came without its value.
    #[test]
    fn each_signal_has_its_value_however_fast_they_come() {
        let _alone = ALONE.lock();
        let cancel = Cancel::green();
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                for value in 1..5_000 {
                    cancel.add_signal(10, Some(value)).unwrap();
                    while cancel.signals() != 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut last = 0;
            let mut take = |sent: Sent| {
                let before = std::mem::replace(&mut last, sent.value.expect("it was sent with one"));
                before < last
            };
            loop {
                let is_last = sender.is_finished();
                match cancel.give_signal(u64::MAX, &mut take) {
                    Some(is_later) => assert!(is_later),
                    None if is_last => break,
                    None => std::thread::yield_now(),
                }
            }
        });
    }

    #[test]
    fn signals_of_one_number_keep_their_order_and_find_room() {
        let _alone = ALONE.lock();
        let owner = (&raw const TURN).addr();
        let sent = |signal, value| Sent { signal, value };
        for it in [sent(40, Some(7)), sent(41, None), sent(40, Some(8))] {
            assert!(keep(owner, it));
        }
        let look = |owner, signal| first(owner, signal).map(Place::sent);
        for value in [7, 8] {
            assert_eq!([(); 2].map(|()| look(owner, 40)), [Some(sent(40, Some(value))); 2]);
            first(owner, 40).unwrap().free();
        }
        assert_eq!((look(owner, 40), look(owner + 8, 41)), (None, None));
        forget(Some(owner));
        assert_eq!(look(owner, 41), None);
        // A full table refuses.
        let one = sent(50, None);
        let kept = (0..=PLACES).take_while(|_| keep(owner, one)).count();
        assert!(kept == PLACES && !keep(owner, one));
        forget(Some(owner));
        assert!(keep(owner, one));
        forget(Some(owner));
    }
}
