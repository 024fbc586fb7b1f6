//! A look from outside at a thread that begins its life on another stack: it finds that stack, and no stack
//! pointer yet.
//!
//! A look believes what it has found only if the thread's core says that the thread lives. The core begins
//! that life after the fiber was put on the stack. So the order of the steps in `put_on` does not matter.
//!
//! A look reads the fiber's cells by the kernel, and loom does not follow that. It changes threads at the
//! atomics only: the flag, and what the core has.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::{AtomicPtr, Bounds, Header, SMALLEST, SizeClass, Stack};
use crate::fiber::Fiber;
use crate::park::priority::Priority;
use crate::park::tests::loom_model::{Core, Outcomes, both_outcomes, model, spawn_with};
use crate::park::thread::NO_ID;

/// A thread that has ended, and whose core and fiber have been left.
struct Thread {
    fiber: Fiber,
    core: Core,
}

// SAFETY: the spawner alone writes. A look reads by the kernel, and finds out if that was right.
unsafe impl Sync for Thread {}
// SAFETY: nothing in it belongs to a kernel thread.
unsafe impl Send for Thread {}

/// The memory of a stack that is only looked at.
#[repr(align(64))]
struct Memory([u8; 1 << 10]);

/// Makes a stack, which is never freed.
fn stack() -> Stack {
    let memory = Box::leak(Box::new(Memory([0; _]))).0.as_mut_ptr_range();
    Stack(Box::leak(Box::new(Header {
        top: memory.end,
        start: memory.end,
        limit: memory.start,
        tls: Cell::new(0),
        link: Cell::new(None),
        next_chain: Cell::new(None),
        owner: AtomicPtr::default(),
        chain_len: Cell::new(0),
        class: SizeClass::of(SMALLEST).unwrap(),
        had_block: Cell::new(false),
    })))
}

unsafe extern "C" fn entry(_: usize, _: *mut ()) -> ! {
    unreachable!("no thread runs")
}

impl Thread {
    fn ended() -> Arc<Self> {
        let thread = Self { fiber: Fiber::new(), core: Core::new() };
        thread.put_on(stack());
        // SAFETY: the thread is this one's, on a stack, and never runs.
        assert!(unsafe { thread.fiber.wait(entry, ptr::null_mut()) });
        thread.fiber.mounted.set();
        thread.fiber.mounted.clear();
        assert!(thread.fiber.look().is_some(), "its last stack pointer");
        assert!(!thread.core.thread().finish(), "it is not detached");
        assert!(thread.fiber.take_stack().is_some());
        Arc::new(thread)
    }

    fn put_on(&self, stack: Stack) {
        // SAFETY: the caller owns the thread, which does not run, and the stack.
        unsafe { self.fiber.put_on(stack, 0) };
    }

    /// Begins the next life, as a spawn does after it has put the fiber on a stack.
    fn begin(&self) {
        let thread = self.core.thread();
        // SAFETY: the last life has ended, and its reference is used again.
        unsafe { thread.core().begin(1, NO_ID, thread.backend(), None, None, Priority::Normal) };
    }
}

/// Models a look while a thread is spawned by `spawn`, in the place of one that has ended.
fn a_look_at_a_spawn(spawn: fn(&Thread, Stack), lives: &Outcomes) {
    let (thread, stack) = (Thread::ended(), stack());
    let spawner = spawn_with(thread.clone(), move |thread| spawn(&thread, stack));
    let mut seen = None;
    let look = || {
        seen = Some((thread.fiber.bounds(), thread.fiber.look()));
        true
    };
    let is_alive = thread.core.thread().id_if(0, look).is_some();
    lives.saw(is_alive);
    if let Some((bounds, look)) = seen.filter(|_| is_alive) {
        assert_eq!((bounds, look), (Some(Bounds::of(stack)), None), "what the last life has left");
    }
    spawner.join().unwrap();
}

#[test]
fn a_look_that_finds_a_new_thread_alive_finds_its_stack() {
    let spawn = |thread: &Thread, stack| {
        thread.put_on(stack);
        thread.begin();
    };
    both_outcomes(model, move |lives| a_look_at_a_spawn(spawn, lives));
}

/// Only the life of the core orders the look.
#[test]
fn the_steps_of_a_fiber_that_is_put_on_a_stack_may_be_seen_in_any_order() {
    let spawn = |thread: &Thread, stack| {
        thread.fiber.stack.set(Some(stack));
        thread.fiber.mounted.be_new();
        thread.begin();
    };
    both_outcomes(model, move |lives| a_look_at_a_spawn(spawn, lives));
}

#[test]
#[should_panic(expected = "what the last life has left")]
fn negative_put_on_a_stack_after_its_life_has_begun() {
    let spawn = |thread: &Thread, stack| {
        thread.begin();
        thread.put_on(stack);
    };
    model(move || a_look_at_a_spawn(spawn, &Outcomes::default()));
}

#[test]
#[should_panic(expected = "what the last life has left")]
fn negative_new_after_its_life_has_begun() {
    let spawn = |thread: &Thread, stack| {
        thread.fiber.stack.set(Some(stack));
        thread.begin();
        thread.fiber.mounted.be_new();
    };
    model(move || a_look_at_a_spawn(spawn, &Outcomes::default()));
}
