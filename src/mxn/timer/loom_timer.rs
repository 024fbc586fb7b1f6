//! A deadline against a grant against the sleeper's return. One of them ends the sleep. The sleeper's frame
//! stays until no thread looks at it.

use std::sync::Arc;

use super::{BATCH, Entry, Timers};
use crate::park::backend::Sleep;
use crate::park::tests::loom_model::{Core, Letter, model, model_within, spawn_with};
use crate::park::thread::ThreadRef;
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;

impl Timers {
    /// Touches its atomics, so that they exist in the model.
    pub(crate) fn touch(&self) {
        assert_eq!(self.next(), self.wheel.with(|wheel| wheel.next()));
    }
}

const ASLEEP: u32 = 0;
const GRANTED: u32 = 2;
const EXPIRED: u32 = 3;
const DEADLINE: u64 = 10;

/// A sleep, in the frame of its sleeper.
struct Wait {
    word: AtomicU32,
    /// The frame: read by threads that look at the sleep, written by the sleeper once it has returned.
    frame: Letter,
    /// 1 once it is made runnable. The model's thread that plays it sleeps on this.
    runnable: AtomicU32,
}

impl Wait {
    fn new() -> Arc<Self> {
        let (word, runnable) = (AtomicU32::new(ASLEEP), AtomicU32::new(0));
        let wait = Self { word, frame: Letter::default(), runnable };
        assert!(wait.is_asleep() && wait.runnable.load(Ordering::Relaxed) == 0);
        wait.frame.read();
        Arc::new(wait)
    }

    /// Queues the thread, as the winner of the sleep does. The frame is alive, because the sleeper has not
    /// run.
    fn ready(&self) {
        assert_eq!(self.runnable.swap(1, Ordering::Release), 0, "made runnable twice");
        futex::wake(&raw const self.runnable, 1);
    }

    fn grant(&self) {
        if self.word.compare_exchange(ASLEEP, GRANTED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.ready();
        }
    }

    /// Sleeps, as the sleeper does, until it is run.
    fn leave(&self) {
        while self.runnable.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.runnable, 0, None);
        }
        assert!(!self.is_asleep(), "runs before its sleep is over");
    }

    /// Frees the frame: the sleeper has returned.
    fn pop_frame(&self) {
        self.frame.write(1);
    }
}

impl Sleep for Wait {
    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Acquire) == ASLEEP
    }

    fn commit_kernel(&self) -> Option<u32> {
        None
    }

    fn expire(&self) -> bool {
        self.frame.read();
        self.word.compare_exchange(ASLEEP, EXPIRED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn interrupt(&self) -> bool {
        unreachable!("no thread interrupts it")
    }
}

type Fire = fn(&Timers, &Wait);
type Disarm = fn(&Timers, &Entry<'_>);

/// Models a sleeper with a deadline, a granter or none, and `firers` that find that the deadline has passed.
fn sleep(granted: bool, firers: usize, fire: Fire, disarm: Disarm) {
    // Three at one lock spin, and with two preemptions there is no end of orders to try.
    model_within(if firers > 1 { 1 } else { 2 }, move || {
        let core = Core::new();
        let timers = Arc::new(Timers::new());
        timers.touch();
        let wait = Wait::new();
        let entry = Entry::new(DEADLINE, core.thread(), &*wait);
        // SAFETY: the entry outlives the model's threads. Whether they are done with the sleep is the
        // question.
        unsafe { timers.arm(&entry) };
        let firers: Vec<_> = (0..firers)
            .map(|_| {
                let (timers, wait) = (timers.clone(), wait.clone());
                loom::thread::spawn(move || fire(&timers, &wait))
            })
            .collect();
        let granter = granted.then(|| {
            let wait = wait.clone();
            loom::thread::spawn(move || wait.grant())
        });
        wait.leave();
        disarm(&timers, &entry);
        wait.pop_frame();
        firers.into_iter().for_each(|firer| firer.join().unwrap());
        granter.into_iter().for_each(|granter| granter.join().unwrap());
        timers.touch();
    });
}

fn fire(timers: &Timers, wait: &Wait) {
    timers.fire(DEADLINE, BATCH, BATCH, |_: ThreadRef| wait.ready());
}

#[test]
fn a_deadline_and_a_grant_have_one_winner() {
    sleep(true, 1, fire, Timers::disarm);
}

#[test]
fn two_may_fire() {
    sleep(false, 2, fire, Timers::disarm);
}

/// The sleeper was granted, and leaves its entry behind.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_returning_without_disarming() {
    sleep(true, 1, fire, |_, _| ());
}

/// The entry is taken out with the wheel locked, and the sleep is ended without the lock. A sleeper that was
/// granted meanwhile finds nothing armed, and returns.
#[test]
#[should_panic(expected = "Causality violation")]
fn negative_expiring_without_the_lock() {
    let fire: Fire = |timers, wait| {
        let due = timers.wheel.with(|wheel| {
            let due = wheel.expire(DEADLINE, BATCH, BATCH, |_| None);
            timers.publish(wheel);
            due
        });
        if due > 0 && wait.expire() {
            wait.ready();
        }
    };
    sleep(true, 1, fire, Timers::disarm);
}

/// A timer that does not ask whether it has won.
#[test]
#[should_panic(expected = "made runnable twice")]
fn negative_expiring_without_winning() {
    let fire: Fire = |timers, wait| {
        timers.fire(DEADLINE, BATCH, BATCH, |_| ());
        wait.ready();
    };
    sleep(true, 1, fire, Timers::disarm);
}

/// Models several deadlines that are armed, disarmed and fired by their sleepers and another thread. The
/// wheel keeps its order.
#[test]
fn a_wheel_that_all_pull_at_keeps_its_order() {
    model(|| {
        let core = Core::new();
        let timers = Arc::new(Timers::new());
        timers.touch();
        let waits = [Wait::new(), Wait::new(), Wait::new()];
        let entry = |n: usize, at| Entry::new(at, core.thread(), &*waits[n]);
        let (first, second, third) = (entry(0, 7), entry(1, 3), entry(2, 5));
        // SAFETY: the entries outlive the model's threads.
        unsafe {
            timers.arm(&first);
            timers.arm(&second);
            timers.arm(&third);
        }
        assert_eq!(timers.next(), 3);
        let firer = spawn_with(timers.clone(), move |timers| timers.fire(5, BATCH, BATCH, |_| ()));
        timers.disarm(&third);
        let fired = firer.join().unwrap();
        assert!(fired == 1 || fired == 2);
        assert_eq!(timers.next(), 7);
        timers.disarm(&first);
        timers.touch();
    });
}
