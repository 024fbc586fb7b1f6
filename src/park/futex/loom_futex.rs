//! Futexes of the program: the comparison against the wake-up, for green threads and for kernel threads.

use std::sync::Arc;

use super::{ANY, NotWoken, announce, may_have_waiters, requeue, wait, wake_in_order};
use crate::park::reason::WaitReason;
use crate::park::tests::loom_model::{Green, both_outcomes, deadline, model, model_within, on, spawn_with};
use crate::park::wait::Wait;
use crate::park::wait_queue::{self, Options, Order};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::{MODEL_STRIDE, futex};

/// Two futexes in different buckets.
#[repr(C, align(2048))]
struct Words {
    word: AtomicU32,
    _between: [u8; MODEL_STRIDE - size_of::<AtomicU32>()],
    other: AtomicU32,
}

impl Words {
    fn new() -> Arc<Self> {
        let (word, other) = (AtomicU32::new(0), AtomicU32::new(0));
        let words = Self { word, _between: [0; MODEL_STRIDE - size_of::<AtomicU32>()], other };
        assert_eq!(words.word.load(Ordering::Relaxed) + words.other.load(Ordering::Relaxed), 0);
        Arc::new(words)
    }
}

fn key(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

fn is_zero(word: &AtomicU32) -> bool {
    // Relaxed: the queue's lock, or the fence, orders it.
    word.load(Ordering::Relaxed) == 0
}

/// Waits until the word is not 0, as the lock of a program does.
fn until_changed(word: &AtomicU32, wait_once: impl Fn(&AtomicU32)) {
    while word.load(Ordering::Acquire) == 0 {
        wait_once(word);
    }
}

fn queued(word: &AtomicU32) {
    let _ = wait(key(word), ANY, Wait::forever(), || is_zero(word));
}

fn in_kernel(word: &AtomicU32) {
    let _ = futex::wait(word, 0, None);
}

/// Changes the word, and wakes `most` waiters.
fn change(word: &AtomicU32, kernel_first: bool, most: usize) -> usize {
    word.store(1, Ordering::Release);
    let kernel = |most: usize| futex::wake(std::ptr::from_ref(word), most as u32);
    if may_have_waiters() { wake_in_order(kernel_first, key(word), ANY, most, kernel) } else { kernel(most) }
}

/// Models a green waiter, and a waker.
fn green(wait_once: fn(&AtomicU32), wake: fn(&AtomicU32)) {
    model(move || {
        let (words, green) = (Words::new(), Green::new());
        let waker = spawn_with(words.clone(), move |words| wake(&words.word));
        on(green.thread(), || until_changed(&words.word, wait_once));
        waker.join().unwrap();
    });
}

#[test]
fn no_wakeup_of_a_green_thread_is_lost() {
    green(queued, |word| _ = change(word, false, 1));
}

/// Queues without a comparison under the lock.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_compared_before_the_lock() {
    let compared_early = |word: &AtomicU32| {
        let same = is_zero(word);
        let _ = wait(key(word), ANY, Wait::forever(), || same);
    };
    green(compared_early, |word| _ = change(word, false, 1));
}

/// The waiter says that it comes when it has compared.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_announced_too_late() {
    let announced_late = |word: &AtomicU32| {
        let options = Options {
            order: Order::Fifo,
            demand: ANY as usize,
            ..Options::new(WaitReason::Futex, Wait::forever())
        };
        let _ = wait_queue::wait(super::key(key(word)), &options, || is_zero(word), announce);
    };
    green(announced_late, |word| _ = change(word, false, 1));
}

/// Models a green waiter and one in the kernel, and a waker of both.
fn mixed(kernel_first: bool, most: usize) {
    model_within(1, move || {
        let (words, green) = (Words::new(), Green::new());
        let kernel = spawn_with(words.clone(), move |words| until_changed(&words.word, in_kernel));
        let waker =
            spawn_with(words.clone(), move |words| assert!(change(&words.word, kernel_first, most) <= most));
        on(green.thread(), || until_changed(&words.word, queued));
        [kernel, waker].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn waiters_of_both_kinds_are_woken() {
    mixed(false, 2);
}

#[test]
fn waiters_of_both_kinds_are_woken_if_the_kernel_is_asked_first() {
    mixed(true, 2);
}

/// One wake-up is for one thread, so the other sleeps on.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_one_wakeup_for_two() {
    mixed(false, 1);
}

/// A wake-up and a deadline: one of them ends the wait, and the waker counts those that it has woken.
#[test]
fn a_wakeup_and_a_deadline_have_one_winner() {
    both_outcomes(model, |seen| {
        let (words, green) = (Words::new(), Green::new());
        let sleeper = {
            let (words, green) = (words.clone(), green.clone());
            let sleep = move || wait(key(&words.word), ANY, Wait::by(deadline()), || true);
            loom::thread::spawn(move || on(green.thread(), sleep))
        };
        let timer = spawn_with(green.clone(), move |green| green.fire());
        let woken = wake_in_order(false, key(&words.word), ANY, 1, |_| 0);
        let slept = sleeper.join().unwrap();
        timer.join().unwrap();
        assert_eq!(woken == 1, slept.is_ok());
        assert_ne!(slept, Err(NotWoken::Differs));
        seen.saw(slept.is_err());
    });
}

/// A waiter is moved to another word, or finds that the first has changed.
fn moved(requeue_to: fn(&Words)) {
    model(move || {
        let (words, green) = (Words::new(), Green::new());
        let waker = spawn_with(words.clone(), move |words| {
            words.word.store(1, Ordering::Release);
            requeue_to(&words);
            wake_in_order(false, key(&words.other), ANY, 1, |_| 0);
        });
        on(green.thread(), || until_changed(&words.word, queued));
        waker.join().unwrap();
    });
}

#[test]
fn no_waiter_is_lost_on_the_way_to_another_word() {
    moved(|words| {
        let (word, other) = (key(&words.word), key(&words.other));
        assert!(requeue((word, 0), (other, 1), || !is_zero(&words.word)).is_some());
    });
}

/// The waiter stays where it was.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_not_moved() {
    moved(|words| {
        let (word, other) = (key(&words.word), key(&words.other));
        assert!(requeue((word, 0), (other, 0), || true).is_some());
    });
}
