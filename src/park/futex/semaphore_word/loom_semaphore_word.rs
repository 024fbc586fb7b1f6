//! The number of a semaphore: posts while threads begin to wait, in a queue and in the kernel. Negative twins
//! sleep uncounted, look for waiters before they add, or add without an ordering.

use std::ops::Deref;
use std::sync::Arc;

use super::{SemaphoreWord, WAITER};
use crate::park::futex::{ANY, wait, wake_in_order};
use crate::park::tests::loom_model::{
    Green, Letter, both_outcomes, deadline, model, model_within, on, spawn_with,
};
use crate::park::wait::Wait;
use crate::shim::atomic::Ordering;
use crate::shim::futex::{self, Waited};

/// A semaphore, and what a thread does before it posts.
#[repr(align(2048))]
struct Room {
    word: SemaphoreWord,
    done: Letter,
}

impl Deref for Room {
    type Target = SemaphoreWord;

    fn deref(&self) -> &SemaphoreWord {
        &self.word
    }
}

impl Room {
    fn new() -> Arc<Self> {
        let room = Self { word: SemaphoreWord::new(0), done: Letter::default() };
        // Creates all of loom's objects before the threads start.
        assert_eq!(room.value() + room.done.read(), 0);
        Arc::new(room)
    }
}

type Sleep = fn(&SemaphoreWord) -> Result<(), ()>;

/// Sleeps as a kernel thread does.
fn in_kernel(word: &SemaphoreWord) -> Result<(), ()> {
    let _ = futex::wait_while(word.futex().addr(), || word.value() == 0, None);
    Ok(())
}

/// Sleeps as a green thread does.
fn queued(word: &SemaphoreWord) -> Result<(), ()> {
    let _ = wait(word.futex().addr(), ANY, Wait::forever(), || word.value() == 0);
    Ok(())
}

/// Wakes one sleeper of either kind.
fn wake(word: *const u32) {
    wake_in_order(false, word.addr(), ANY, 1, |most| futex::wake(word.cast(), most as u32));
}

fn post(word: &SemaphoreWord) {
    let futex = word.futex();
    if word.post().unwrap() {
        wake(futex);
    }
}

/// One thread posts, and another takes it. The letter says that it comes afterwards, and has the memory to
/// itself.
fn one(post: fn(&Room), take: fn(&SemaphoreWord)) {
    model(move || {
        let room = Room::new();
        let poster = spawn_with(room.clone(), move |room| {
            room.done.read();
            post(&room);
        });
        take(&room);
        room.done.write(1);
        poster.join().unwrap();
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    });
}

fn take(word: &SemaphoreWord) {
    word.take(in_kernel).unwrap();
}

#[test]
fn a_post_is_not_lost() {
    one(|room| post(room), take);
}

/// The waiter sleeps without being counted in.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_asleep_uncounted() {
    let uncounted = |word: &SemaphoreWord| {
        while !word.try_take() {
            in_kernel(word).unwrap();
        }
    };
    one(|room| post(room), uncounted);
}

/// The waiter is counted in when it has looked, and does not look again.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_counted_after_the_comparison() {
    let counted_late = |word: &SemaphoreWord| {
        while !word.try_take() {
            let same = word.value() == 0;
            word.0.fetch_add(WAITER, Ordering::Relaxed);
            let _ = futex::wait_while(word.futex().addr(), || same, None);
            word.0.fetch_sub(WAITER, Ordering::Relaxed);
        }
    };
    one(|room| post(room), counted_late);
}

/// The look for waiters is a step of its own, before the value changes.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_looked_before_the_post() {
    let looked_early = |room: &Room| {
        let waits = room.0.load(Ordering::Relaxed) >= WAITER;
        room.post().unwrap();
        if waits {
            wake(room.futex());
        }
    };
    one(looked_early, take);
}

/// The look for waiters is a step of its own, after the value has changed. The thread that takes the post
/// may have destroyed the semaphore by then.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_looked_after_the_post() {
    let looked_late = |room: &Room| {
        room.post().unwrap();
        room.done.read();
        if room.0.load(Ordering::Relaxed) >= WAITER {
            wake(room.futex());
        }
    };
    one(looked_late, take);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_posted_unordered() {
    let unordered = |room: &Room| {
        if room.0.fetch_add(1, Ordering::Relaxed) >= WAITER {
            wake(room.futex());
        }
    };
    one(unordered, take);
}

/// Models two waiters, one in the queue and one in the kernel, and two posts.
fn two(post: fn(&SemaphoreWord), sleeps: [Sleep; 2]) {
    model_within(1, move || {
        let (room, green) = (Room::new(), Green::new());
        let kernel = spawn_with(room.clone(), move |room| room.take(sleeps[0]).unwrap());
        let poster = spawn_with(room.clone(), move |room| (0..2).for_each(|_| post(&room)));
        on(green.thread(), || room.take(sleeps[1]).unwrap());
        [kernel, poster].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn two_posts_are_for_two() {
    two(post, [in_kernel, queued]);
}

/// Only the first post wakes, as if the second were for the same waiter.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_only_the_first_post_wakes() {
    let first_only = |word: &SemaphoreWord| {
        if word.post().unwrap() && word.value() == 1 {
            wake(word.futex());
        }
    };
    two(first_only, [in_kernel, in_kernel]);
}

/// A post and the end of a wait: the post is taken, or it stays.
#[test]
fn a_post_that_comes_too_late_stays() {
    both_outcomes(model, |seen| {
        let room = Room::new();
        let poster = spawn_with(room.clone(), move |room| post(&room));
        let clock = loom::thread::spawn(crate::shim::strike);
        let taken = room.take(|word| {
            let is_same = || word.value() == 0;
            match futex::wait_while(word.futex().addr(), is_same, deadline()) {
                Waited::Woken => Ok(()),
                Waited::TimedOut => Err(()),
            }
        });
        [poster, clock].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(room.0.load(Ordering::Relaxed), taken.map_or(1, |()| 0));
        seen.saw(taken.is_err());
    });
}
