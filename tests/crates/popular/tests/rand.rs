//! rand: a generator for each thread, in a thread-local `Rc`.

use std::collections::HashSet;
use std::sync::Arc;

use harness::{HOPS, crew};
use rand::Rng;
use selvedge::sync::Mutex;

fn generators_are_separate_and_stay() -> usize {
    let first: Arc<Mutex<HashSet<u128>>> = Arc::default();
    crew(32, move |member| {
        let mut held = rand::rng();
        assert!(first.lock().insert(held.random()), "two threads draw the same numbers");
        let mut heads = 0;
        for _ in 0..HOPS {
            heads += u32::from(held.random::<bool>());
            member.hop();
            // The one that is held, and the one that is looked up again, are one generator.
            heads += u32::from(rand::rng().random::<bool>());
            assert!((0..6).contains(&rand::rng().random_range(0..6)));
        }
        // 400 tosses: the bounds are ten standard deviations away.
        assert!((100..300).contains(&heads), "{heads} heads of {}", 2 * HOPS);
    })
}

harness::on_every_runtime!(generators_are_separate_and_stay);
