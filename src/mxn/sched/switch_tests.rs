//! A thread is mounted only when no LWP stands on its stack, whichever way the LWP comes to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::mxn::Mxn;
use crate::mxn::green::Green;
use crate::mxn::tests::wait_until;
use crate::park::current;
use crate::runtime::Runtime;
use crate::thread;

/// Wakes a thread while its stack seems to be in use, and lets the waker `leave`. The thread must not run
/// before its stack is free.
fn the_next_thread_waits_for_its_stack(leave: fn()) {
    let rt = Mxn::builder().concurrency(1).build().expect("a runtime");
    let (tell, told) = channel();
    let stack_is_free = Arc::new(AtomicBool::new(false));
    let is_free = Arc::clone(&stack_is_free);
    let next = rt.spawn(move || {
        let me = current::try_current().expect("a green thread");
        // SAFETY: the runtime has green threads only.
        let me: &'static Green = unsafe { Green::of(me) };
        tell.send(me).expect("the test waits");
        thread::park();
        is_free.load(Ordering::SeqCst)
    });
    let green = told.recv().expect("the thread runs");
    wait_until(|| !green.fiber.mounted.is_set());
    let woken = next.thread().clone();
    let last = rt.spawn(move || {
        // In place of an LWP that is about to leave it.
        green.fiber.mounted.set();
        woken.unpark();
        leave();
    });
    wait_until(|| green.fiber.mounted.is_set());
    // A thread that runs too early does so in this time.
    std::thread::sleep(Duration::from_millis(10));
    stack_is_free.store(true, Ordering::SeqCst);
    green.fiber.mounted.clear();
    assert!(next.join().expect("it parks"), "it ran on a stack that was in use");
    last.join().expect("it wakes");
}

/// More often than a dispatcher is due once, which would look for itself.
const ROUNDS: usize = 4;

#[test]
fn the_successor_of_an_ended_thread_waits_for_its_stack() {
    (0..ROUNDS).for_each(|_| the_next_thread_waits_for_its_stack(|| ()));
}

#[test]
fn the_successor_of_a_thread_that_yields_or_waits_waits_for_its_stack() {
    (0..ROUNDS).for_each(|_| the_next_thread_waits_for_its_stack(thread::yield_now));
    (0..ROUNDS).for_each(|_| {
        the_next_thread_waits_for_its_stack(|| thread::sleep(Duration::from_millis(1)));
    });
}
