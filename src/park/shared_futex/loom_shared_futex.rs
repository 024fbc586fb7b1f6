//! Words of several processes: the thread in the seat and its followers, against wakers of this process and
//! of another. Negative twins leave the seat without an heir, or wake too few.
//!
//! What another process does is to change the word, and to wake what sleeps in the kernel.

use std::ptr;
use std::sync::Arc;

use super::{Awaited, How, SEAT, Waited, wait, wake, wake_one_after};
use crate::park::tests::loom_model::{Green, Outcomes, deadline, model, model_within, on, spawn_with};
use crate::park::wait::Wait;
use crate::park::word_queues;
use crate::shim;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;

/// A count of permits.
#[repr(align(2048))]
struct Gate(AtomicU32);

/// A wait for a permit.
struct Permit<'a>(&'a Gate);

impl Awaited for Permit<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.0.0
    }

    fn look(&mut self) -> Option<u32> {
        // Relaxed: the lock of the queues, or the kernel's, orders it.
        (self.0.0.load(Ordering::Relaxed) == 0).then_some(0)
    }
}

const FOREVER: How = How { wait: Wait::forever(), nap: None, near: false };

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU32::from(0)))
    }

    fn at(&self) -> usize {
        ptr::from_ref(&self.0).addr()
    }

    /// Takes a permit, and waits for one. Returns `false` if the wait ended without one.
    fn take(&self, how: How) -> bool {
        loop {
            let seen = self.0.load(Ordering::Relaxed);
            if seen > 0 {
                if self.0.compare_exchange(seen, seen - 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return true;
                }
            } else if wait(&mut Permit(self), how) == Waited::TimedOut {
                return false;
            }
        }
    }

    /// Adds permits as a thread of another process does.
    fn add_from_outside(&self, permits: u32) {
        self.0.fetch_add(permits, Ordering::Release);
        futex::wake_shared(&self.0, permits);
    }

    /// Adds permits as a thread of this process does.
    fn add(&self, permits: u32) {
        self.0.fetch_add(permits, Ordering::Release);
        wake(&self.0, permits);
    }
}

type Waits = fn(&Gate);
type Wakes = fn(&Gate);

const TAKES: Waits = |gate| assert!(gate.take(FOREVER));

/// Plays green waiters and a waker, which is no green thread.
fn play<const N: usize>(preemptions: usize, waits: [Waits; N], wakes: Wakes) {
    model_within(preemptions, move || {
        let gate = Gate::new();
        let greens: Vec<_> = waits.iter().map(|_| Green::new()).collect();
        let mut waiters: Vec<_> = waits
            .iter()
            .zip(&greens)
            .map(|(&waits, green)| {
                let (gate, green) = (gate.clone(), green.clone());
                move || on(green.thread(), || waits(&gate))
            })
            .collect();
        let first = waiters.pop().expect("a waiter");
        let mut threads: Vec<_> = waiters.into_iter().map(loom::thread::spawn).collect();
        threads.push(spawn_with(gate.clone(), move |gate| wakes(&gate)));
        first();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn another_process_wakes_the_thread_in_the_seat_and_its_heir() {
    play(1, [TAKES, TAKES], |gate| gate.add_from_outside(2));
}

#[test]
fn another_process_wakes_twice() {
    play(1, [TAKES, TAKES], |gate| {
        gate.add_from_outside(1);
        gate.add_from_outside(1);
    });
}

#[test]
fn this_process_wakes_followers_and_the_thread_in_the_seat() {
    play(1, [TAKES, TAKES], |gate| {
        gate.add(1);
        gate.add(1);
    });
}

#[test]
fn a_waker_finds_a_lone_waiter() {
    play(2, [TAKES], |gate| gate.add(1));
}

/// The waker asks only the queues, though the thread in the seat sleeps in the kernel.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_kernel_not_asked() {
    play(1, [TAKES], |gate| {
        gate.0.fetch_add(1, Ordering::Release);
        super::wake_queued(gate.at(), 1);
    });
}

/// The waker asks the queues before it changes the word.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_woken_before_the_change() {
    play(1, [TAKES], |gate| {
        wake(&gate.0, 1);
        gate.0.fetch_add(1, Ordering::Release);
    });
}

/// Sleeps in the seat, and leaves it without an heir.
fn leads_without_an_heir(gate: &Gate, how: How) {
    let me = crate::park::current::current();
    let options = super::Options {
        spin: false,
        urgent: true,
        ..super::Options::new(super::WaitReason::Futex, how.wait)
    };
    let waiter = super::Waiter::new(me, gate.at(), &options);
    let mut permit = Permit(gate);
    let sleeps = word_queues::with(gate.at(), |queues| {
        let sleeps = queues.first(SEAT).is_none() && permit.look().is_some();
        if sleeps {
            // SAFETY: it is new, and unlinked below.
            unsafe { queues.link(&waiter, SEAT, super::Order::Fifo) };
        }
        sleeps
    });
    if sleeps {
        let _ = super::sleep_in_kernel(me, &mut permit, 0, how);
        // SAFETY: linked above, and no waker takes it.
        word_queues::with(gate.at(), |queues| unsafe { queues.unlink(&waiter) });
    }
    if how.wait.deadline.is_none() {
        assert!(gate.take(FOREVER));
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_seat_left_without_an_heir() {
    play(1, [|gate| leads_without_an_heir(gate, FOREVER), TAKES], |gate| gate.add_from_outside(2));
}

fn timed() -> How {
    How { wait: Wait::by(deadline()), ..FOREVER }
}

/// Plays a waiter with a deadline, which strikes, and one without, and another process with a permit for
/// each.
fn play_late(late: fn(&Gate) -> bool) -> Outcomes {
    let outcomes = Outcomes::default();
    let seen = outcomes.clone();
    model_within(1, move || {
        let (gate, greens) = (Gate::new(), [Green::new(), Green::new()]);
        let waiter = spawn_with((gate.clone(), greens[0].clone()), move |(gate, green)| {
            on(green.thread(), || late(&gate))
        });
        let waker = spawn_with((gate.clone(), greens[0].clone()), move |(gate, green)| {
            // The end of its time, for a sleep in the kernel and one in a queue.
            shim::strike();
            green.fire();
            gate.add_from_outside(2);
        });
        on(greens[1].thread(), || assert!(gate.take(FOREVER)));
        waker.join().unwrap();
        seen.saw(!waiter.join().unwrap());
    });
    outcomes
}

#[test]
fn a_deadline_in_the_seat_leaves_an_heir() {
    play_late(|gate| gate.take(timed())).are_both();
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_deadline_without_an_heir() {
    play_late(|gate| {
        leads_without_an_heir(gate, timed());
        false
    });
}

/// A follower's deadline passes while it is made the heir.
#[test]
fn an_heir_whose_time_is_over_passes_the_seat_on() {
    model_within(1, || {
        let (gate, greens) = (Gate::new(), [Green::new(), Green::new()]);
        let spawn = |n: usize, how: fn() -> How| {
            spawn_with((gate.clone(), greens[n].clone()), move |(gate, green)| {
                on(green.thread(), || gate.take(how()))
            })
        };
        let late = spawn(0, timed);
        let other = spawn(1, || FOREVER);
        shim::strike();
        greens[0].fire();
        gate.add_from_outside(2);
        assert!(other.join().unwrap());
        let _ = late.join().unwrap();
    });
}

/// A scout hears of another process when its time is over, and of this one at once.
fn play_scout(wakes: Wakes, ends: bool) {
    model(move || {
        let (gate, green) = (Gate::new(), Green::new());
        let waker = spawn_with((gate.clone(), green.clone()), move |(gate, green)| {
            wakes(&gate);
            if ends {
                green.fire();
            }
        });
        on(green.thread(), || assert!(gate.take(How { near: true, ..FOREVER })));
        waker.join().unwrap();
    });
}

#[test]
fn a_scout_is_woken_without_the_kernel() {
    play_scout(|gate| gate.add(1), false);
}

#[test]
fn a_scout_looks_when_its_time_is_over() {
    play_scout(|gate| gate.add_from_outside(1), true);
}

/// Another process cannot wake a scout.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_scouting_without_an_end() {
    play_scout(|gate| gate.add_from_outside(1), false);
}

/// A count of notifications: one of them wakes one green thread, and need not be counted.
struct News<'a> {
    gate: &'a Gate,
    seen: u32,
    found: u32,
}

impl Awaited for News<'_> {
    fn word(&self) -> &AtomicU32 {
        &self.gate.0
    }

    fn look(&mut self) -> Option<u32> {
        // Relaxed: as in `Permit`.
        self.found = self.gate.0.load(Ordering::Relaxed);
        (self.found == self.seen).then_some(self.found)
    }

    fn due(&self) -> usize {
        (self.found - self.seen) as usize
    }

    fn found(&self) -> u32 {
        self.found
    }

    fn inherit(&mut self, found: u32) {
        self.seen = found;
    }
}

const HEARS: Waits = |gate| assert_eq!(wait(&mut News { gate, seen: 0, found: 0 }, FOREVER), Waited::Woken);

#[test]
fn each_notification_ends_one_wait() {
    play(1, [HEARS, HEARS], |gate| {
        gate.add_from_outside(1);
        wake_one_after(&gate.0, || _ = gate.0.fetch_add(1, Ordering::Relaxed));
    });
}

#[test]
fn notifications_that_come_together_end_as_many_waits() {
    play(1, [HEARS, HEARS], |gate| {
        gate.0.fetch_add(2, Ordering::Release);
        futex::wake_shared(&gate.0, 1);
    });
}

/// The thread in the seat forgets that it was woken for two.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_two_notifications_for_one() {
    struct Forgets<'a>(News<'a>);
    impl Awaited for Forgets<'_> {
        fn word(&self) -> &AtomicU32 {
            self.0.word()
        }

        fn look(&mut self) -> Option<u32> {
            self.0.look()
        }

        fn found(&self) -> u32 {
            self.0.found()
        }

        fn inherit(&mut self, found: u32) {
            self.0.inherit(found);
        }
    }
    let forgets: Waits = |gate| {
        let _ = wait(&mut Forgets(News { gate, seen: 0, found: 0 }), FOREVER);
    };
    play(1, [forgets, forgets], |gate| {
        gate.0.fetch_add(2, Ordering::Release);
        futex::wake_shared(&gate.0, 1);
    });
}
