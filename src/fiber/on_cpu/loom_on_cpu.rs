//! The flag that keeps others off a stack. In the models, two LWPs take one thread from each other, or want
//! each other's thread. In a third, a thread is free while its LWP still leaves it.

use std::sync::Arc;

use super::{CLEAR, Mounted, PREEMPTED};
use crate::park::tests::loom_model::{Letter, model, spawn_with};
use crate::shim::atomic::{AtomicBool, Ordering};
use crate::shim::spin_hint;

/// A thread: its flag, whether it is on a run queue, and its stack, which loom guards.
struct Thread {
    mounted: Mounted,
    queued: AtomicBool,
    stack: Letter,
}

impl Thread {
    fn queued() -> Arc<Self> {
        let (queued, stack) = (AtomicBool::new(true), Letter::default());
        let thread = Self { mounted: Mounted::new(), queued, stack };
        // Atomics come into being at their first use, so this is before the model's threads.
        assert!(thread.mounted.wait_clear() && thread.queued.load(Ordering::Relaxed));
        Arc::new(thread)
    }

    /// Does what an LWP does as long as it stands on the stack.
    fn use_stack(&self) {
        self.stack.add_one();
    }

    /// Takes the thread, ordered as by a run queue: acquire.
    fn take(&self) -> bool {
        self.queued.compare_exchange(true, false, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Publishes the thread, ordered as by a run queue: release.
    fn publish(&self) {
        self.queued.store(true, Ordering::Release);
    }
}

/// Runs the thread once: takes it off the queue, mounts it, publishes it again, and leaves.
fn run(thread: &Thread, wait: impl Fn(&Mounted) -> bool, clear: impl Fn(&Mounted)) {
    while !thread.take() {
        spin_hint();
    }
    while !wait(&thread.mounted) {
        spin_hint();
    }
    thread.mounted.set();
    thread.use_stack();
    thread.publish();
    // The switch saves the context.
    thread.use_stack();
    clear(&thread.mounted);
}

/// Models two LWPs that run the thread, one of them twice. So each kind of leaving meets each kind of
/// mounting.
fn two_lwps(wait: fn(&Mounted) -> bool, clear: fn(&Mounted)) {
    model(move || {
        let thread = Thread::queued();
        let other = spawn_with(thread.clone(), move |thread| run(&thread, wait, clear));
        run(&thread, wait, clear);
        run(&thread, wait, clear);
        other.join().unwrap();
        assert_eq!(thread.stack.read(), 6);
    });
}

#[test]
fn one_lwp_at_a_time_stands_on_a_stack() {
    two_lwps(Mounted::wait_clear, Mounted::clear);
}

/// Models a thread that is preempted each time it has run. Only a dispatcher, which can tell, mounts it.
#[test]
fn one_dispatcher_at_a_time_continues_a_preempted_thread() {
    two_lwps(|mounted| mounted.is_preempted() || mounted.wait_clear(), Mounted::clear_preempted);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_marking_without_release() {
    let mark = |mounted: &Mounted| mounted.0.store(PREEMPTED, Ordering::Relaxed);
    two_lwps(|mounted| mounted.wait_clear() || mounted.is_preempted(), mark);
}

/// To all others, it looks as if an LWP still stood on its stack.
#[test]
fn a_preempted_thread_is_not_mounted_in_passing() {
    model(|| {
        let thread = Thread::queued();
        let other = spawn_with(thread.clone(), move |thread| {
            run(&thread, Mounted::wait_clear, Mounted::clear_preempted)
        });
        other.join().unwrap();
        assert!(thread.take() && !thread.mounted.wait_clear() && thread.mounted.is_preempted());
    });
}

/// Waits for a thread. The first LWP that has a new one lays its context out, on the stack.
fn wait_or_lay_out(thread: &Thread) -> bool {
    if !thread.mounted.is_clear() && thread.mounted.is_new() {
        thread.use_stack();
        return true;
    }
    let is_clear = thread.mounted.wait_clear();
    assert!(!is_clear || thread.stack.read() > 0, "a thread without a context was mounted");
    is_clear
}

/// Models a spawner and two LWPs, of which either may be the first that has the thread.
fn a_new_thread(spawn: fn(&Thread)) {
    model(move || {
        let thread = Thread::queued();
        assert!(thread.take());
        let other = spawn_with(thread.clone(), |thread| {
            run(&thread, |_| wait_or_lay_out(&thread), Mounted::clear);
        });
        spawn(&thread);
        run(&thread, |_| wait_or_lay_out(&thread), Mounted::clear);
        other.join().unwrap();
        assert_eq!(thread.stack.read(), 5);
    });
}

#[test]
fn the_first_lwp_lays_out_the_context_of_a_new_thread() {
    a_new_thread(|thread| {
        thread.mounted.be_new();
        thread.publish();
    });
}

#[test]
#[should_panic(expected = "a thread without a context was mounted")]
fn negative_a_thread_that_is_new_after_it_is_queued() {
    a_new_thread(|thread| {
        thread.publish();
        thread.mounted.be_new();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_mounting_without_waiting() {
    two_lwps(|_| true, Mounted::clear);
}

/// The next LWP sees that the flag is clear, but not the context that was saved before.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_clearing_without_release() {
    two_lwps(Mounted::wait_clear, |mounted| mounted.0.store(CLEAR, Ordering::Relaxed));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_looking_without_acquire() {
    two_lwps(|mounted| mounted.0.load(Ordering::Relaxed) == CLEAR, Mounted::clear);
}

/// Leaves as an LWP that runs `mine`, has published it, and picks `next`. It switches to `next` directly, or,
/// if it cannot have that soon, by way of its dispatcher.
fn leave(mine: &Thread, next: &Thread, wait: impl Fn(&Mounted) -> bool) {
    mine.use_stack();
    mine.publish();
    let took = next.take();
    let direct = took && wait(&next.mounted);
    if took && !direct {
        next.publish();
    }
    // The other side of the switch, a thread's or the dispatcher's.
    mine.mounted.clear();
    if direct {
        next.mounted.set();
        next.use_stack();
        next.mounted.clear();
    }
}

/// Models two LWPs that each leave the thread that the other picks.
fn crosswise(wait: fn(&Mounted) -> bool) {
    model(move || {
        let (a, b) = (Thread::queued(), Thread::queued());
        for thread in [&a, &b] {
            assert!(thread.take());
            thread.mounted.set();
        }
        let other = spawn_with((a.clone(), b.clone()), move |(a, b)| leave(&b, &a, wait));
        leave(&a, &b, wait);
        other.join().unwrap();
    });
}

#[test]
fn two_that_want_each_others_thread_both_go_on() {
    crosswise(Mounted::wait_clear);
}

/// Each stands on the stack that the other waits for.
#[test]
#[should_panic(expected = "maximum number of branches")]
fn negative_waiting_without_a_bound() {
    crosswise(|mounted| {
        while !mounted.wait_clear() {
            spin_hint();
        }
        true
    });
}

/// Models a thread that says that it has ended, and leaves. The joining thread has released it, and spawns
/// another in its place.
fn used_again(wait: fn(&Mounted) -> bool) {
    model(move || {
        let thread = Thread::queued();
        assert!(thread.take());
        thread.mounted.set();
        let other = spawn_with(thread.clone(), move |thread| {
            // As `finish`: it is free from here on.
            thread.publish();
            // As `leave_for_good` and `reap`.
            thread.use_stack();
            thread.mounted.clear();
        });
        while !thread.take() {
            spin_hint();
        }
        // As `Cache::take`, where there is no other.
        while !wait(&thread.mounted) {
            spin_hint();
        }
        thread.use_stack();
        other.join().unwrap();
    });
}

#[test]
fn a_spawn_waits_until_a_free_thread_was_left() {
    used_again(Mounted::wait_clear);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn negative_spawning_without_waiting() {
    used_again(|_| true);
}
