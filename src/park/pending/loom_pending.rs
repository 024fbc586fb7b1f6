//! A signal that comes while a thread stops blocking it, or begins to wait for it. Negative twins look before
//! they say so, or without a fence.

use std::sync::Arc;

use super::Pending;
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicU64, Ordering};

const SIGNAL: u64 = 1;

/// A thread's signals, and what it blocks.
#[repr(align(2048))]
struct Shared {
    pending: Pending,
    blocked: AtomicU64,
}

/// Models a thread that takes its signals by `take`, and the helper, which knows that one has come.
fn comes(take: fn(&Shared) -> Option<u32>, is_wanted: fn(&Shared) -> bool) {
    model(move || {
        let shared = Arc::new(Shared { pending: Pending::new(), blocked: AtomicU64::new(SIGNAL) });
        // Creates all of loom's objects before the threads start.
        assert!(!is_wanted(&shared) && shared.pending.get() == 0);
        assert_eq!(shared.blocked.load(Ordering::Relaxed), SIGNAL);
        assert_eq!(shared.pending.awaited.load(Ordering::Relaxed), 0);
        let helper = spawn_with(shared.clone(), move |shared| {
            assert!(shared.pending.add(SIGNAL));
            is_wanted(&shared)
        });
        let is_taken = take(&shared).is_some();
        assert!(helper.join().unwrap() || is_taken, "the signal is forgotten");
    });
}

fn is_wanted(shared: &Shared) -> bool {
    shared.pending.is_wanted(|| shared.blocked.load(Ordering::Relaxed))
}

fn unblock(shared: &Shared) -> Option<u32> {
    shared.blocked.store(0, Ordering::Relaxed);
    shared.pending.after_mask();
    shared.pending.take(SIGNAL)
}

fn wait(shared: &Shared) -> Option<u32> {
    shared.pending.await_these(SIGNAL);
    shared.pending.take(SIGNAL)
}

#[test]
fn a_thread_that_unblocks_a_signal_gets_it() {
    comes(unblock, is_wanted);
}

#[test]
fn a_thread_that_waits_for_a_signal_gets_it() {
    comes(wait, is_wanted);
}

#[test]
#[should_panic(expected = "the signal is forgotten")]
fn negative_the_thread_has_no_fence() {
    let unfenced = |shared: &Shared| {
        shared.blocked.store(0, Ordering::Relaxed);
        shared.pending.take(SIGNAL)
    };
    comes(unfenced, is_wanted);
}

#[test]
#[should_panic(expected = "the signal is forgotten")]
fn negative_the_helper_has_no_fence() {
    let unfenced = |shared: &Shared| {
        let signals = shared.pending.get();
        signals & !(shared.blocked.load(Ordering::Relaxed) & !shared.pending.awaited.load(Ordering::Relaxed))
            != 0
    };
    comes(unblock, unfenced);
}

#[test]
#[should_panic(expected = "the signal is forgotten")]
fn negative_the_thread_looks_first() {
    let early = |shared: &Shared| {
        let taken = shared.pending.take(SIGNAL);
        shared.pending.await_these(SIGNAL);
        taken
    };
    comes(early, is_wanted);
}
