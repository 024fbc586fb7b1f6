//! crossbeam-epoch: each thread has a participant, which is pinned while it reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_epoch::{self as epoch, Atomic, Owned};
use harness::{HOPS, crew};

/// Counts those that live, and knows when it has been dropped.
struct Item {
    alive: Arc<AtomicUsize>,
    value: usize,
    check: usize,
}

impl Item {
    fn new(alive: &Arc<AtomicUsize>, value: usize) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { alive: alive.clone(), value, check: !value }
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        assert_eq!(self.check, !self.value, "dropped twice");
        self.check = 0;
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

fn pinned_across_switches() -> usize {
    let alive = Arc::new(AtomicUsize::new(0));
    let slot = Arc::new(Atomic::new(Item::new(&alive, 0)));
    let (theirs, counted) = (slot.clone(), alive.clone());
    let migrations = crew(16, move |member| {
        for round in 0..HOPS {
            let guard = epoch::pin();
            let seen = theirs.load(Ordering::Acquire, &guard);
            // SAFETY: never null; not freed while this thread is pinned.
            let item = unsafe { seen.deref() };
            let value = item.value;
            member.hop();
            assert_eq!((item.value, item.check), (value, !value), "freed although this thread is pinned");
            let new = Owned::new(Item::new(&counted, member.index() << 16 | round));
            let old = theirs.swap(new, Ordering::AcqRel, &guard);
            // SAFETY: just unlinked, by this thread alone.
            unsafe { guard.defer_destroy(old) };
            member.hop();
            drop(guard);
        }
    });
    // All but the last are dropped once no thread is pinned: a few rounds of collection see to it. If
    // garbage of a thread that has ended were lost, this would not end, and the watchdog would say so.
    while alive.load(Ordering::Relaxed) > 1 {
        epoch::pin().flush();
        selvedge::thread::yield_now();
    }
    // SAFETY: the crew has ended; no other thread has the slot.
    drop(unsafe { slot.swap(epoch::Shared::null(), Ordering::AcqRel, epoch::unprotected()).into_owned() });
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    migrations
}

harness::on_every_runtime!(pinned_across_switches);
