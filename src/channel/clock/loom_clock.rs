//! Models of the message of a clock: of two threads that receive it, one gets it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Clock;
use crate::park::tests::loom_model::{model, spawn_with};
use crate::time;

type Take = fn(&Clock) -> Option<Instant>;

fn two_receivers(period: Option<Duration>, take: Take) {
    model(move || {
        // The model's clock goes on with each look, so the moment has passed at the next.
        let clock = Arc::new(Clock::new(time::now(), period));
        assert!(clock.has_struck());
        let other = spawn_with(Arc::clone(&clock), move |theirs| take(&theirs));
        let taken = [take(&clock), other.join().unwrap()];
        assert_eq!(taken.iter().flatten().count(), 1, "one message for one receiver");
        assert_eq!(clock.next().is_some(), period.is_some());
    });
}

#[test]
fn the_message_of_a_clock_is_received_once() {
    two_receivers(None, Clock::take);
    two_receivers(Some(Duration::from_secs(1000)), Clock::take);
}

/// The look and the taking are two critical sections.
#[test]
#[should_panic(expected = "one message for one receiver")]
fn negative_taken_without_another_look() {
    two_receivers(None, |clock| {
        let seen = clock.next().filter(|next| time::has_passed(Some(*next)))?;
        clock.next.with(|next| *next = None);
        seen.instant()
    });
}
