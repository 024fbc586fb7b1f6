//! The idle protocol: an LWP sees what is queued before all sleep. Each LWP that is taken off the list is
//! woken once.

use std::ptr::NonNull;
use std::sync::Arc;

use super::{Idle, SEARCHING, SLEEPING};
use crate::mxn::run_queue::inject::{Inject, Linked, Links};
use crate::park::tests::loom_model::{model, spawn_with};
use crate::shim::atomic::{AtomicU32, Ordering};
use crate::shim::futex;

/// A thread that never ends: the LWP that runs it looks at no queue again.
struct Job {
    links: Links<Job>,
}

// SAFETY: the links are the queue's, while the job is queued.
unsafe impl Sync for Job {}
// SAFETY: the links are the queue's.
unsafe impl Send for Job {}
// SAFETY: a field of the job, which is the queue's while the job is queued.
unsafe impl Linked for Job {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Some LWPs, what they look at, and where they sleep.
struct Model {
    idle: Idle,
    queue: Inject<Job>,
    words: [AtomicU32; 2],
    jobs: [Job; 2],
    wrong: Wrong,
}

/// What a negative model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    FenceOfEnter,
    FenceOfWakeOne,
    FenceOfEndSearch,
    LastLook,
    /// A sleeper that was taken off the list is not counted as a searcher before it runs.
    Leave,
}

impl Model {
    fn new(wrong: Wrong) -> Arc<Self> {
        let model = Self {
            idle: Idle::new(2),
            queue: Inject::new(),
            words: [const { AtomicU32::new(AWAKE) }; 2],
            jobs: std::array::from_fn(|_| Job { links: Links::new() }),
            wrong,
        };
        // Atomics come into being at their first use, so this is before the model's threads.
        assert_eq!((model.idle.look().sleeping, model.queue.len()), (0, 0));
        assert!(model.idle.take_sleeper(None).is_none());
        model.queue.push(NonNull::from(&model.jobs[0]));
        assert!(model.queue.pop(0, |_| ()).is_some());
        for word in &model.words {
            assert_eq!(word.load(Ordering::Relaxed), AWAKE);
        }
        Arc::new(model)
    }

    /// Makes a thread runnable from outside the LWPs.
    fn submit(&self, job: usize) {
        self.queue.push(NonNull::from(&self.jobs[job]));
        self.wake_searcher();
    }

    fn wake_searcher(&self) {
        let sleeper = if self.wrong == Wrong::FenceOfWakeOne {
            let look = self.idle.look();
            if look.sleeping == 0 || look.searching > 0 { None } else { self.idle.take_sleeper(None) }
        } else {
            self.idle.wake_one(None)
        };
        if let Some(lwp) = sleeper {
            let word = &self.words[lwp as usize];
            assert_eq!(word.swap(AWAKE, Ordering::Release), ASLEEP, "woken twice");
            futex::wake(std::ptr::from_ref(word), 1);
        }
    }

    fn sleep(&self, lwp: u32) {
        let word = &self.words[lwp as usize];
        while word.load(Ordering::Acquire) == ASLEEP {
            let _ = futex::wait(word, ASLEEP, None);
        }
    }

    fn take(&self) -> bool {
        self.queue.pop(0, |_| ()).is_some()
    }

    /// Does what `Scheduler::found` does.
    fn found(&self, lwp: u32) {
        assert_eq!(self.words[lwp as usize].load(Ordering::Relaxed), AWAKE, "runs while it is marked asleep");
        let last = if self.wrong == Wrong::FenceOfEndSearch {
            self.idle.counts.0.fetch_sub(SEARCHING, Ordering::Relaxed) / SEARCHING == 1
        } else {
            self.idle.end_search()
        };
        if last && self.queue.len() > 0 {
            self.wake_searcher();
        }
    }

    fn enter(&self, lwp: u32, searched: bool) {
        if self.wrong == Wrong::FenceOfEnter {
            let change = if searched { SLEEPING.wrapping_sub(SEARCHING) } else { SLEEPING };
            self.idle.counts.0.fetch_add(change, Ordering::Relaxed);
            self.idle.sleepers.insert(lwp);
        } else {
            self.idle.enter(lwp, searched);
        }
    }

    /// Plays an LWP without work, as `Scheduler::search` does, until it has found a thread.
    fn search(&self, lwp: u32, mut searching: bool) {
        loop {
            if searching && self.take() {
                return self.found(lwp);
            }
            self.words[lwp as usize].store(ASLEEP, Ordering::Relaxed);
            self.enter(lwp, searching);
            if self.wrong != Wrong::LastLook && self.take() {
                if self.idle.leave(lwp) {
                    self.words[lwp as usize].store(AWAKE, Ordering::Relaxed);
                } else if self.wrong != Wrong::Leave {
                    self.sleep(lwp);
                }
                return self.found(lwp);
            }
            self.sleep(lwp);
            searching = true;
        }
    }
}

/// Models one LWP that goes to sleep, or sleeps, and one thread that is queued.
fn one_thread(wrong: Wrong) {
    model(move || {
        let model = Model::new(wrong);
        let lwp = spawn_with(model.clone(), move |model| model.search(0, model.idle.begin_search(1)));
        model.submit(0);
        lwp.join().unwrap();
        assert_eq!((model.idle.look().sleeping, model.idle.look().searching), (0, 0));
    });
}

/// Models an LWP that searches, another that sleeps, and two threads. Each thread keeps its LWP forever.
fn two_threads(wrong: Wrong) {
    model(move || {
        let model = Model::new(wrong);
        assert!(model.idle.begin_search(2));
        model.words[1].store(ASLEEP, Ordering::Relaxed);
        model.idle.enter(1, false);
        let searcher = spawn_with(model.clone(), move |model| model.search(0, true));
        let sleeper = spawn_with(model.clone(), move |model| {
            model.sleep(1);
            model.search(1, true);
        });
        model.submit(0);
        model.submit(1);
        searcher.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!((model.idle.look().sleeping, model.idle.look().searching), (0, 0));
    });
}

#[test]
fn a_thread_is_never_left_to_sleepers() {
    one_thread(Wrong::Nothing);
}

#[test]
fn each_of_two_threads_finds_an_lwp() {
    two_threads(Wrong::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_entering_without_the_fence() {
    one_thread(Wrong::FenceOfEnter);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_waking_without_the_fence() {
    one_thread(Wrong::FenceOfWakeOne);
}

#[test]
#[should_panic(expected = "deadlock")]
fn negative_sleeping_without_a_last_look() {
    one_thread(Wrong::LastLook);
}

/// The waker leaves the second thread to the searching LWP, which has just found the first and does not see
/// it.
#[test]
#[should_panic(expected = "deadlock")]
fn negative_ending_a_search_without_the_fence() {
    two_threads(Wrong::FenceOfEndSearch);
}

/// The LWP goes on although another thread wakes it. The wake-up comes when it is not expected.
#[test]
#[should_panic(expected = "marked asleep")]
fn negative_leaving_without_waiting_for_the_waker() {
    one_thread(Wrong::Leave);
}
