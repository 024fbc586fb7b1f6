//! Wake-ups that handlers leave to the helper. Negative twins look at an address in the place of leaving it
//! again, leave it or ring without an ordering, ring too early, or look at the bell too late.

use std::sync::Arc;

use super::Left;
use crate::park::futex::semaphore_word::SemaphoreWord;
use crate::park::tests::loom_model::{model, model_within, spawn_with};
use crate::shim::atomic::Ordering;
use crate::shim::futex;

/// Semaphores, and the wake-ups that handlers leave.
#[repr(align(2048))]
struct Shared<const N: usize> {
    semaphores: [SemaphoreWord; 2],
    left: Left<N>,
}

impl<const N: usize> Shared<N> {
    fn new() -> Arc<Self> {
        let shared = Self { semaphores: [SemaphoreWord::new(0), SemaphoreWord::new(0)], left: Left::new() };
        // Creates all of loom's objects before the threads start.
        assert_eq!(shared.semaphores.each_ref().map(SemaphoreWord::value), [0, 0]);
        assert_eq!(shared.left.serve(|_| unreachable!("nothing was left")), 0);
        Arc::new(shared)
    }

    /// Waits as a thread of the program does.
    fn take(&self, which: usize) {
        let sleep = |word: &SemaphoreWord| {
            let _ = futex::wait_while(word.futex().addr(), || word.value() == 0, None);
            Ok::<(), ()>(())
        };
        self.semaphores[which].take(sleep).unwrap();
    }

    /// Posts as a handler does.
    fn post(&self, which: usize, leave: impl FnOnce(&Left<N>, *const u32)) {
        let semaphore = &self.semaphores[which];
        // The model's helper is to hear of each post, whether a thread waits or not.
        let _ = semaphore.post().unwrap();
        leave(&self.left, semaphore.futex());
    }

    /// Serves until so many wake-ups have been left, all of which are served then.
    fn help(&self, all: u32, serve: impl Fn(&Left<N>) -> u32) {
        loop {
            let rung = serve(&self.left);
            if rung == all {
                return;
            }
            self.left.sleep(rung);
        }
    }
}

fn wake(word: *const u32) {
    futex::wake(word.cast(), u32::MAX);
}

fn serve<const N: usize>(left: &Left<N>) -> u32 {
    left.serve(wake)
}

/// Models a waiter, a handler that posts, and the helper.
fn one(leave: fn(&Left<1>, *const u32), serve: fn(&Left<1>) -> u32) {
    model(move || {
        let shared = Shared::<1>::new();
        let waiter = spawn_with(shared.clone(), move |shared| shared.take(0));
        let handler = spawn_with(shared.clone(), move |shared| shared.post(0, leave));
        shared.help(1, serve);
        [waiter, handler].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_a_handler_leaves_is_seen_to() {
    one(Left::leave, serve);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_rung_before_it_was_left() {
    one(
        |left, futex| {
            left.ring();
            left.places[0].store(futex.cast_mut(), Ordering::Release);
        },
        serve,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_rung_unordered() {
    one(
        |left, word| {
            left.places[0].swap(word.cast_mut(), Ordering::Release);
            left.rung.fetch_add(1, Ordering::Relaxed);
            futex::wake(&left.rung, 1);
        },
        serve,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_left_unordered() {
    one(
        |left, futex| {
            left.places[0].swap(futex.cast_mut(), Ordering::Relaxed);
            left.ring();
        },
        serve,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_places_before_the_bell() {
    let bell_last = |left: &Left<1>| {
        left.serve(wake);
        left.rung.load(Ordering::Acquire)
    };
    one(Left::leave, bell_last);
}

/// Models a thread that waits for two posts of one semaphore, by two handlers.
fn twice(leave: fn(&Left<1>, *const u32)) {
    model_within(1, move || {
        let shared = Shared::<1>::new();
        let handlers = [(); 2].map(|()| spawn_with(shared.clone(), move |shared| shared.post(0, leave)));
        let waiter = spawn_with(shared.clone(), move |shared| (0..2).for_each(|_| shared.take(0)));
        shared.help(2, serve);
        handlers.into_iter().chain([waiter]).for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn an_address_is_left_twice() {
    twice(Left::leave);
}

/// The handler sees that the address is there, and does not leave it again.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_seen_and_not_left_again() {
    twice(|left, futex| {
        if left.places[0].load(Ordering::Relaxed) != futex.cast_mut() {
            left.places[0].swap(futex.cast_mut(), Ordering::Release);
        }
        left.ring();
    });
}

/// Models two handlers that need the same place for different semaphores.
fn two(leave: fn(&Left<1>, *const u32)) {
    model_within(1, move || {
        let shared = Shared::<1>::new();
        let handlers =
            [0, 1].map(|which| spawn_with(shared.clone(), move |shared| shared.post(which, leave)));
        let waiter = spawn_with(shared.clone(), move |shared| (0..2).for_each(|which| shared.take(which)));
        shared.help(2, serve);
        handlers.into_iter().chain([waiter]).for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_handler_waits_for_a_place() {
    two(Left::leave);
}

/// The second handler writes over what the first has left.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_overwritten() {
    two(|left, futex| {
        left.places[0].swap(futex.cast_mut(), Ordering::Release);
        left.ring();
    });
}
