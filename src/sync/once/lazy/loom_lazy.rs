//! Models of `LazyLock`: one value for all threads that want it and for those that only look. A negative
//! twin reads the value without a look if it has been made.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::LazyLock;
use crate::park::tests::loom_model::{Body, Green, large_model, model, on, spawn_with, together};

/// The number of calls of closures. An atomic of std, so it is not a step of the model.
static CALLS: AtomicU32 = AtomicU32::new(0);

#[repr(align(2048))]
struct Lazy(LazyLock<u32>);

impl Lazy {
    fn new() -> Arc<Self> {
        CALLS.store(0, Ordering::Relaxed);
        let make: fn() -> u32 = || CALLS.fetch_add(1, Ordering::Relaxed) + 7;
        let lazy = Arc::new(Self(LazyLock::new(make)));
        // Loom's objects are created at their first use, so use them all before the threads start.
        assert_eq!(LazyLock::get(&lazy.0), None);
        lazy
    }

    fn body(self: &Arc<Self>, run: fn(&LazyLock<u32>)) -> Body {
        let this = self.clone();
        Box::new(move || run(&this.0))
    }

    fn ends(self: Arc<Self>) {
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        assert_eq!(LazyLock::get(&self.0), Some(&7));
    }
}

fn wants(lazy: &LazyLock<u32>) {
    assert_eq!(**lazy, 7);
}

fn looks(lazy: &LazyLock<u32>) {
    assert!(matches!(LazyLock::get(lazy), None | Some(7)));
}

#[test]
fn one_value_is_made_for_all() {
    large_model(|| {
        let lazy = Lazy::new();
        together([lazy.body(wants), lazy.body(wants), lazy.body(looks)]);
        lazy.ends();
    });
}

#[test]
fn one_value_is_made_for_green_and_kernel_threads() {
    model(|| {
        let lazy = Lazy::new();
        let green = Green::new();
        let other =
            spawn_with((green.clone(), lazy.body(wants)), move |(green, wants)| on(green.thread(), wants));
        together([lazy.body(wants)]);
        other.join().unwrap();
        lazy.ends();
    });
}

/// A thread reads the value without a look if it has been made.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_seen_before_it_is_there() {
    model(|| {
        let lazy = Lazy::new();
        let looks = |lazy: &LazyLock<u32>| {
            // SAFETY: it is not safe: that is the bug. (The bytes of the closure are read as the number.)
            let _ = unsafe { lazy.get_done() };
        };
        together([lazy.body(wants), lazy.body(looks)]);
    });
}
