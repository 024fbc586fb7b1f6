//! Models of the flag of the poisoned locks: a thread that finds the value half changed finds the flag
//! set. If the flag is set after the unlock, it does not.

use std::sync::Arc;

use super::Flag;
use crate::park::tests::loom_model::{model, together};
use crate::shim::UnsafeCell;
use crate::sync::mutex::RawMutex;
use lock_api::RawMutex as _;

/// Two numbers that are the same, unless the flag is set.
#[derive(Default)]
#[repr(align(2048))]
struct Pair {
    mutex: RawMutex,
    poison: Flag,
    numbers: UnsafeCell<(u32, u32)>,
}

// SAFETY: what the models are to show: loom reports an access to the numbers that is not ordered.
unsafe impl Sync for Pair {}
// SAFETY: loom checks it.
unsafe impl Send for Pair {}

impl Pair {
    fn new() -> Arc<Self> {
        let pair: Arc<Self> = Arc::default();
        // Creates all of loom's objects before the threads start.
        pair.mutex.lock();
        assert!(!pair.poison.is_set());
        pair.numbers.with_mut(|_| ());
        pair.unlock();
        pair
    }

    fn unlock(&self) {
        // SAFETY: locked by the caller.
        unsafe { self.mutex.unlock() };
    }

    /// An owner panics half way.
    fn breaks(&self) {
        self.mutex.lock();
        // SAFETY: checked by loom.
        self.numbers.with_mut(|numbers| unsafe { (*numbers).0 += 1 });
    }

    /// A thread looks at the numbers and the flag.
    fn looks(&self) {
        self.mutex.lock();
        // SAFETY: checked by loom.
        let (one, other) = self.numbers.with(|numbers| unsafe { *numbers });
        assert_eq!(self.poison.is_set(), one != other, "half changed, and no word of it");
        self.unlock();
    }
}

fn against_one_that_looks(panics: fn(&Pair)) {
    let pair = Pair::new();
    let theirs = pair.clone();
    together([Box::new(move || panics(&pair)), Box::new(move || theirs.looks())]);
}

#[test]
fn the_flag_is_seen_with_the_value() {
    model(|| {
        against_one_that_looks(|pair| {
            pair.breaks();
            pair.poison.set();
            pair.unlock();
        });
    });
}

#[test]
#[should_panic(expected = "no word of it")]
fn negative_set_after_the_unlock() {
    model(|| {
        against_one_that_looks(|pair| {
            pair.breaks();
            pair.unlock();
            pair.poison.set();
        });
    });
}
