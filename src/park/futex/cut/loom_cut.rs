//! A thread that waits for a semaphore in the kernel, and one that cuts that short. Negative twins wake only
//! once, ask without an order, publish nothing, or look before they publish.

use std::sync::Arc;

use super::Cut;
use crate::park::futex::semaphore_word::SemaphoreWord;
use crate::park::tests::loom_model::{model, model_within, spawn_with};
use crate::shim::atomic::{AtomicBool, Ordering, fence};
use crate::shim::futex;

/// A semaphore to which no thread posts, and the thread that waits there.
#[repr(align(2048))]
struct Room {
    word: SemaphoreWord,
    cut: Cut,
    /// What the thread that asks has written before.
    reason: AtomicBool,
}

impl Room {
    fn new() -> Arc<Self> {
        let room = Self { word: SemaphoreWord::new(0), cut: Cut::new(), reason: AtomicBool::from(false) };
        // Creates all of loom's objects before the threads start.
        assert_eq!(room.word.value(), 0);
        assert!(room.cut.at.load(Ordering::Relaxed).is_null() && !room.cut.asked.load(Ordering::Relaxed));
        Arc::new(room)
    }
}

type Sleep = fn(&Cut, *const u32, &dyn Fn()) -> bool;

fn sleep(cut: &Cut, futex: *const u32, sleep: &dyn Fn()) -> bool {
    cut.sleep(futex, sleep).is_some()
}

fn wake(at: *const u32) -> bool {
    futex::wake(at.cast(), u32::MAX);
    loom::thread::yield_now();
    true
}

fn ends(sleep: Sleep, cut: fn(&Cut)) {
    let room = Room::new();
    let other = spawn_with(room.clone(), move |room| cut(&room.cut));
    let in_kernel = || {
        let _ = futex::wait_while(room.word.futex().addr(), || room.word.value() == 0, None);
    };
    while sleep(&room.cut, room.word.futex(), &in_kernel) {}
    other.join().unwrap();
}

#[test]
fn a_sleeper_is_cut_short() {
    model(|| ends(sleep, |cut| cut.cut(wake)));
}

fn has_a_reason(cut: fn(&Cut)) {
    model(move || {
        let room = Room::new();
        let other = spawn_with(room.clone(), move |room| {
            room.reason.store(true, Ordering::Relaxed);
            cut(&room.cut);
        });
        if room.cut.sleep(room.word.futex(), || ()).is_none() {
            assert!(room.reason.load(Ordering::Relaxed), "no reason is known");
        }
        other.join().unwrap();
    });
}

#[test]
fn what_was_written_before_is_known() {
    has_a_reason(|cut| cut.cut(wake));
}

#[test]
#[should_panic(expected = "no reason is known")]
fn negative_a_question_that_publishes_nothing() {
    has_a_reason(|cut| cut.asked.store(true, Ordering::Relaxed));
}

/// A thread that is asked once does not sleep again, so the other need not wake it for long.
#[test]
fn a_post_and_a_cut_may_meet() {
    model_within(3, || {
        let room = Room::new();
        let poster = spawn_with(room.clone(), |room| {
            if room.word.post().unwrap() {
                futex::wake(room.word.futex().cast(), 1);
            }
        });
        let cutter = spawn_with(room.clone(), |room| room.cut.cut(wake));
        let taken = room.word.take(|word| {
            let in_kernel = || {
                let _ = futex::wait_while(word.futex().addr(), || word.value() == 0, None);
            };
            room.cut.sleep(word.futex(), in_kernel).ok_or(())
        });
        [poster, cutter].into_iter().for_each(|thread| thread.join().unwrap());
        // Whoever came first, the post is there, or was taken.
        assert_eq!(room.word.value(), u32::from(taken.is_err()));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_one_wake_up_may_come_too_early() {
    let once = |cut: &Cut| {
        cut.asked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let at = cut.at.load(Ordering::Relaxed);
        if !at.is_null() {
            wake(at);
        }
    };
    model(move || ends(sleep, once));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_look_before_the_sleep_is_published() {
    let early: Sleep = |cut, futex, sleep| {
        let asked = cut.asked.load(Ordering::Relaxed);
        cut.at.store(futex.cast_mut(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !asked {
            sleep();
        }
        cut.at.store(std::ptr::null_mut(), Ordering::Relaxed);
        !asked
    };
    model(move || ends(early, |cut| cut.cut(wake)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_a_question_without_an_order() {
    let unordered = |cut: &Cut| {
        cut.asked.store(true, Ordering::Release);
        loop {
            let at = cut.at.load(Ordering::Acquire);
            if at.is_null() {
                return;
            }
            wake(at);
        }
    };
    model(move || ends(sleep, unordered));
}
