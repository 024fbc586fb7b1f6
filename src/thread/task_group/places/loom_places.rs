//! Two threads that want the same place.

use std::sync::Arc;

use super::{Options, Ordering, Place, Places, WaitReason, wait_queue};
use crate::park::tests::loom_model::{Letter, body, both_outcomes, deadline, model, together};
use crate::park::wait::Wait;
use crate::shim::{MODEL_STRIDE, strike};

/// One place, and what the thread that has it uses. Its alignment is the one that the models ask for, so that
/// its bucket is the same each time.
#[repr(align(2048))]
struct Shared {
    places: Places,
    letter: Letter,
}

const _: () = assert!(MODEL_STRIDE <= 2048);

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Arc::new(Self { places: Places::new(1), letter: Letter::default() });
        // Everything must exist before the threads do.
        assert_eq!(shared.places.free.load(Ordering::Relaxed), 1);
        assert_eq!(shared.letter.read(), 0);
        shared
    }

    /// Uses the place for a moment.
    fn use_it(&self, place: Place<'_>) {
        self.letter.add_one();
        drop(place);
    }
}

/// Two threads use the place in turn; they take it by `take`.
fn two_threads(take: fn(&Places) -> Place<'_>) {
    let shared = Shared::new();
    let uses = move |shared: &Shared| shared.use_it(take(&shared.places));
    together([body(&shared, uses), body(&shared, uses)]);
    assert_eq!((shared.letter.read(), shared.places.free.load(Ordering::Relaxed)), (2, 1));
}

#[test]
fn a_place_has_one_thread_at_a_time() {
    model(|| two_threads(|places| places.take(Wait::forever()).unwrap()));
}

#[test]
fn a_thread_that_gives_up_leaves_the_place_alone() {
    both_outcomes(model, |seen| {
        let shared = Shared::new();
        let seen = seen.clone();
        let waits = move |shared: &Shared| {
            let place = shared.places.take(Wait::by(deadline()));
            seen.saw(place.is_err());
            place.into_iter().for_each(|place| shared.use_it(place));
        };
        let uses = |shared: &Shared| {
            let place = shared.places.take(Wait::forever()).unwrap();
            strike();
            shared.use_it(place);
        };
        together([body(&shared, uses), body(&shared, waits)]);
        assert_eq!(shared.places.free.load(Ordering::Relaxed), 1);
    });
}

/// Without the last look before the sleep. The place may have come back, and wakes no thread any more.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_sleeping_without_a_last_look() {
    model(|| {
        two_threads(|places| {
            while !places.try_take() {
                let options = Options::new(WaitReason::Scope, Wait::forever());
                let _ = wait_queue::wait(places.key(), &options, || true, || ());
            }
            Place(places)
        });
    });
}

/// A thread that takes the place without acquire.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_taking_without_acquire() {
    model(|| {
        two_threads(|places| {
            while places.free.compare_exchange(1, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                crate::shim::spin_hint();
            }
            Place(places)
        });
    });
}
