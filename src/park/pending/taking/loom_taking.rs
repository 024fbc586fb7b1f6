//! A signal for a kernel thread, which takes its signals itself. So do the sender and the helper. Negative
//! twins take without the flag, do not look at last, or look at the signals alone.

use std::sync::Arc;

use super::{Pending, Taking};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicU32, Ordering};

const SIGNAL: u64 = 1;

/// What is known of a kernel thread.
#[repr(align(2048))]
struct Shared {
    pending: Pending,
    taking: Taking,
    poked: AtomicU32,
    /// How many signals the kernel has.
    kernels: AtomicU32,
    /// How often the kernel still refuses a signal.
    refused: AtomicU32,
    /// What the sender says before it sends.
    said: AtomicU32,
}

impl Shared {
    fn new(refused: u32) -> Arc<Self> {
        let [poked, kernels, refused, said] = [0, 0, refused, 0].map(AtomicU32::new);
        let (pending, taking) = (Pending::new(), Taking::new());
        let shared = Self { pending, taking, poked, kernels, refused, said };
        // Creates all of loom's objects before the threads start.
        assert!(shared.taking.is_done(&shared.pending));
        for word in [&shared.poked, &shared.kernels, &shared.refused, &shared.said] {
            word.load(Ordering::Relaxed);
        }
        Arc::new(shared)
    }

    /// Sends the signals to the kernel.
    fn take_all(&self) {
        while self.pending.take(u64::MAX).is_some() {
            // Relaxed, all: the model's own.
            if self.refused.load(Ordering::Relaxed) != 0 {
                self.refused.store(0, Ordering::Relaxed);
                self.pending.add(SIGNAL);
                return;
            }
            self.kernels.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many signals wait here, or in the kernel.
    fn all(&self) -> u32 {
        self.kernels.load(Ordering::Relaxed) + self.pending.get().count_ones()
    }
}

type Take = fn(&Shared);
type IsDone = fn(&Shared) -> bool;

fn take(shared: &Shared) {
    let _ = shared.taking.unless_taken(|| shared.take_all());
}

fn is_done(shared: &Shared) -> bool {
    shared.taking.is_done(&shared.pending)
}

/// Tells the thread, as a sender and the helper do. Returns `true` if the helper is to come again.
fn tell(shared: &Shared, take: Take, is_done: IsDone) -> bool {
    if is_done(shared) {
        return false;
    }
    take(shared);
    let is_left = !is_done(shared);
    if is_left {
        shared.poked.fetch_or(1, Ordering::Release);
    }
    is_left
}

/// Does what the thread's handler does.
fn handle(shared: &Shared, take: Take) {
    if shared.poked.load(Ordering::Relaxed) != 0 {
        shared.taking.unless_taken(|| shared.poked.fetch_and(0, Ordering::Acquire));
        take(shared);
    }
}

/// Models a sender, and the thread, which was poked before. There is also the helper, if the kernel refuses
/// nothing: it would come late, and find what was added again.
fn sent(refused: u32, take: Take, is_done: IsDone) {
    model(move || {
        let shared = Shared::new(refused);
        shared.poked.store(1, Ordering::Relaxed);
        let thread = spawn_with(shared.clone(), move |shared| handle(&shared, take));
        let helper =
            (refused == 0).then(|| spawn_with(shared.clone(), move |shared| tell(&shared, take, is_done)));
        shared.pending.add(SIGNAL);
        let mut is_left = tell(&shared, take, is_done);
        thread.join().unwrap();
        if let Some(helper) = helper {
            is_left |= helper.join().unwrap();
        }
        assert!(shared.all() <= 1, "taken twice");
        assert!(shared.all() == 1);
        assert!(is_left || shared.pending.get() == 0, "the signal is forgotten");
    });
}

#[test]
fn a_signal_is_taken_once() {
    sent(0, take, is_done);
}

#[test]
fn a_signal_that_the_kernel_refuses_is_sent_again() {
    sent(1, take, is_done);
}

#[test]
#[should_panic(expected = "taken twice")]
fn negative_taken_without_the_flag() {
    sent(0, Shared::take_all, is_done);
}

/// The sender looks at the signals alone, while the thread has one that the kernel refuses.
#[test]
#[should_panic(expected = "the signal is forgotten")]
fn negative_the_flag_is_not_looked_at() {
    sent(1, take, |shared| shared.pending.get() == 0);
}

/// The sender that finds the flag set leaves the signal to the one that takes signals.
#[test]
#[should_panic(expected = "the signal is forgotten")]
fn negative_left_to_the_one_that_takes() {
    sent(0, take, |shared| shared.pending.get() == 0 || shared.taking.0.load(Ordering::Acquire));
}

/// Models a thread that looks at what the kernel has, while the helper takes a signal that was sent before.
fn looks(pass: Take) {
    model(move || {
        let shared = Shared::new(0);
        shared.pending.add(SIGNAL);
        let helper = spawn_with(shared.clone(), |shared| tell(&shared, take, is_done));
        pass(&shared);
        assert_eq!(shared.kernels.load(Ordering::Relaxed), 1, "the kernel does not have it");
        assert!(!helper.join().unwrap() || shared.pending.get() == 0);
    });
}

#[test]
fn a_thread_that_looks_finds_what_was_sent_before() {
    looks(|shared| {
        if !is_done(shared) {
            shared.taking.after_others(|| false, || shared.take_all());
        }
    });
}

#[test]
#[should_panic(expected = "the kernel does not have it")]
fn negative_the_thread_does_not_wait_for_the_helper() {
    looks(|shared| {
        if shared.pending.get() != 0 {
            take(shared);
        }
    });
}

/// Models a thread that ends, while the helper sends it a signal by its number.
fn ends(close: Take) {
    model(move || {
        let shared = Shared::new(0);
        shared.pending.add(SIGNAL);
        let helper = spawn_with(shared.clone(), |shared| tell(&shared, take, is_done));
        close(&shared);
        let sent = shared.kernels.load(Ordering::Relaxed);
        helper.join().unwrap();
        assert_eq!(shared.kernels.load(Ordering::Relaxed), sent, "another thread has the number");
    });
}

#[test]
fn a_thread_that_has_ended_is_sent_nothing() {
    ends(|shared| shared.taking.close(|| false));
}

#[test]
#[should_panic(expected = "another thread has the number")]
fn negative_a_thread_ends_while_signals_are_sent() {
    ends(|_| ());
}

/// The thread waits for a while only.
#[test]
#[should_panic(expected = "another thread has the number")]
fn negative_a_thread_that_ends_gives_up() {
    ends(|shared| shared.taking.close(|| true));
}

/// Nothing is to be waited for in a child, where the thread that took signals is not.
#[test]
fn in_a_child_a_thread_gives_up() {
    model(|| {
        let shared = Shared::new(0);
        shared.taking.0.store(true, Ordering::Relaxed);
        shared.taking.after_others(|| true, || unreachable!("the flag is set"));
        shared.taking.close(|| true);
    });
}

/// Models a sender, and the thread, which takes the signal.
fn brings(add: Take) {
    model(move || {
        let shared = Shared::new(0);
        let sender = spawn_with(shared.clone(), move |shared| add(&shared));
        let is_taken = shared.pending.take(SIGNAL).is_some();
        assert!(!is_taken || shared.said.load(Ordering::Relaxed) != 0, "the handler does not know why");
        sender.join().unwrap();
    });
}

#[test]
fn a_signal_brings_what_was_said_before() {
    brings(|shared| {
        shared.said.store(1, Ordering::Relaxed);
        shared.pending.add(SIGNAL);
    });
}

#[test]
#[should_panic(expected = "the handler does not know why")]
fn negative_said_after_the_signal() {
    brings(|shared| {
        shared.pending.add(SIGNAL);
        shared.said.store(1, Ordering::Relaxed);
    });
}

/// Models a sender that finds the same signal there, while the thread takes it.
fn again(has: IsDone) {
    model(move || {
        let shared = Shared::new(0);
        shared.pending.add(SIGNAL);
        let sender = spawn_with(shared.clone(), move |shared| {
            shared.said.store(1, Ordering::Relaxed);
            if !has(&shared) {
                shared.pending.add(SIGNAL);
            }
        });
        shared.pending.take(SIGNAL);
        let is_known = shared.said.load(Ordering::Relaxed) != 0;
        sender.join().unwrap();
        assert!(is_known || shared.pending.get() != 0, "the handler does not know why");
    });
}

#[test]
fn a_signal_that_waits_already_brings_what_was_said_before() {
    again(|shared| shared.pending.has(SIGNAL));
}

#[test]
#[should_panic(expected = "the handler does not know why")]
fn negative_only_a_look() {
    again(|shared| shared.pending.get() & SIGNAL != 0);
}
